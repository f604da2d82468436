package forge

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/plumbing/storer"
	"github.com/go-git/go-git/v5/storage/memory"
)

// mainRef is every repository's default branch.
const mainRef = plumbing.ReferenceName("refs/heads/main")

// repo is a bare repository in memory. The forge's lock guards it.
type repo struct {
	name    string // "owner/repo" in lower case
	private bool
	store   *memory.Storage
}

// newRepo makes a repository with one commit. The same Repo gives the same
// commit at the same second.
func newRepo(r Repo, now time.Time) (*repo, error) {
	owner, name, ok := strings.Cut(r.Name, "/")
	if !ok || owner == "" || name == "" || strings.Contains(name, "/") {
		return nil, errors.New(`name is not "owner/repo"`)
	}
	made := &repo{name: strings.ToLower(r.Name), private: r.Private, store: memory.NewStorage()}
	files := maps.Clone(r.Files)
	if len(files) == 0 {
		files = map[string]string{"README.md": "# " + name + "\n"}
	}
	tree, err := writeTree(made.store, files)
	if err != nil {
		return nil, err
	}
	message := r.Message
	if message == "" {
		message = "Initial commit\n"
	}
	who := object.Signature{Name: "Wallproof World", Email: "world@wallproof.invalid", When: now.UTC().Truncate(time.Second)}
	commit, err := write(made.store, &object.Commit{Author: who, Committer: who, Message: message, TreeHash: tree})
	if err != nil {
		return nil, err
	}
	for _, b := range append([]string{mainRef.Short()}, r.Branches...) {
		if err := made.store.SetReference(plumbing.NewHashReference(plumbing.NewBranchReferenceName(b), commit)); err != nil {
			return nil, fmt.Errorf("set branch %q: %w", b, err)
		}
	}
	if err := made.store.SetReference(plumbing.NewSymbolicReference(plumbing.HEAD, mainRef)); err != nil {
		return nil, fmt.Errorf("set HEAD: %w", err)
	}
	return made, nil
}

// writeTree stores files, by path, as nested trees.
func writeTree(s storer.EncodedObjectStorer, files map[string]string) (plumbing.Hash, error) {
	dirs := map[string]map[string]string{}
	var entries []object.TreeEntry
	for _, p := range slices.Sorted(maps.Keys(files)) {
		first, rest, nested := strings.Cut(p, "/")
		if first == "" || first == "." || first == ".." {
			return plumbing.ZeroHash, fmt.Errorf("file path %q is not clean", p)
		}
		if nested {
			if dirs[first] == nil {
				dirs[first] = map[string]string{}
			}
			dirs[first][rest] = files[p]
			continue
		}
		h, err := writeBlob(s, files[p])
		if err != nil {
			return plumbing.ZeroHash, err
		}
		entries = append(entries, object.TreeEntry{Name: first, Mode: filemode.Regular, Hash: h})
	}
	for name, inner := range dirs {
		h, err := writeTree(s, inner)
		if err != nil {
			return plumbing.ZeroHash, err
		}
		entries = append(entries, object.TreeEntry{Name: name, Mode: filemode.Dir, Hash: h})
	}
	slices.SortFunc(entries, func(a, b object.TreeEntry) int { return strings.Compare(sortName(a), sortName(b)) })
	return write(s, &object.Tree{Entries: entries})
}

// sortName is how git orders entries of a tree: a folder as if its name ended in
// a slash.
func sortName(e object.TreeEntry) string {
	if e.Mode == filemode.Dir {
		return e.Name + "/"
	}
	return e.Name
}

func writeBlob(s storer.EncodedObjectStorer, content string) (plumbing.Hash, error) {
	o := s.NewEncodedObject()
	o.SetType(plumbing.BlobObject)
	w, err := o.Writer()
	if err != nil {
		return plumbing.ZeroHash, fmt.Errorf("write blob: %w", err)
	}
	if _, err := w.Write([]byte(content)); err != nil {
		return plumbing.ZeroHash, fmt.Errorf("write blob: %w", err)
	}
	if err := w.Close(); err != nil {
		return plumbing.ZeroHash, fmt.Errorf("write blob: %w", err)
	}
	return s.SetEncodedObject(o)
}

func write(s storer.EncodedObjectStorer, o interface {
	Encode(plumbing.EncodedObject) error
}) (plumbing.Hash, error) {
	e := s.NewEncodedObject()
	if err := o.Encode(e); err != nil {
		return plumbing.ZeroHash, fmt.Errorf("encode object: %w", err)
	}
	return s.SetEncodedObject(e)
}

// fork copies a repository under another name; objects are shared, since they
// never change.
func (r *repo) fork(name string) *repo {
	s := memory.NewStorage()
	s.ObjectStorage.Objects = maps.Clone(r.store.ObjectStorage.Objects)
	s.ObjectStorage.Commits = maps.Clone(r.store.ObjectStorage.Commits)
	s.ObjectStorage.Trees = maps.Clone(r.store.ObjectStorage.Trees)
	s.ObjectStorage.Blobs = maps.Clone(r.store.ObjectStorage.Blobs)
	s.ObjectStorage.Tags = maps.Clone(r.store.ObjectStorage.Tags)
	s.ReferenceStorage = maps.Clone(r.store.ReferenceStorage)
	return &repo{name: name, private: r.private, store: s}
}

// refs returns the repository's refs that point at objects, sorted by name.
func (r *repo) refs() []*plumbing.Reference {
	var out []*plumbing.Reference
	for _, name := range slices.Sorted(maps.Keys(r.store.ReferenceStorage)) {
		if ref := r.store.ReferenceStorage[name]; ref.Type() == plumbing.HashReference {
			out = append(out, ref)
		}
	}
	return out
}

// tips returns what the repository's refs point at.
func (r *repo) tips() []plumbing.Hash {
	var out []plumbing.Hash
	for _, ref := range r.refs() {
		out = append(out, ref.Hash())
	}
	return out
}

// fastForward reports whether old is an ancestor of new.
func fastForward(s storer.EncodedObjectStorer, old, new plumbing.Hash) bool {
	seen := map[plumbing.Hash]bool{}
	for queue := []plumbing.Hash{new}; len(queue) > 0; queue = queue[1:] {
		h := queue[0]
		if h == old {
			return true
		}
		if seen[h] {
			continue
		}
		seen[h] = true
		c, err := object.GetCommit(s, h)
		if err != nil {
			continue // a tag, or a blob: it has no history
		}
		queue = append(queue, c.ParentHashes...)
	}
	return false
}
