package site

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/wallproof/wallproof/attest/packet"
	"github.com/wallproof/wallproof/site/history"
)

// tree is the site while it is being built: a folder beside the output folder,
// so that a rename can put it in place.
type tree struct {
	base  string // the building folder
	dir   string // in it, the site that is being built
	out   string // where it goes
	files atomic.Int64
	bytes atomic.Int64
	keep  *keeper // what stays in its place in the site that is being replaced, or nil

	made   sync.Map // folders that exist → folder
	making sync.Mutex
	open   int      // how many of them are open
	shared sync.Map // content that is written already → file
}

// historyFile also marks a folder as a site: only such a folder is replaced.
const historyFile = "history.json"

// leftoverAge is how old a building folder must be before it counts as left
// behind by a build that was killed.
const leftoverAge = time.Hour

// newTree makes the building folder. It refuses an output folder that holds
// something other than a site, because that would be replaced whole.
func newTree(out string) (*tree, error) {
	abs, err := filepath.Abs(out)
	if err != nil {
		return nil, fmt.Errorf("site: output folder: %w", err)
	}
	if err := replaceable(abs); err != nil {
		return nil, err
	}
	parent, base := filepath.Split(abs)
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return nil, fmt.Errorf("site: output folder: %w", err)
	}
	if err := putBack(parent, base, abs); err != nil {
		return nil, err
	}
	sweep(parent, base)
	building, err := os.MkdirTemp(parent, "."+base+".building-")
	if err != nil {
		return nil, fmt.Errorf("site: building folder: %w", err)
	}
	t := &tree{base: building, dir: filepath.Join(building, "site"), out: abs}
	err = os.Mkdir(t.dir, 0o755) //nolint:gosec // a web server reads it
	if err == nil {
		err = os.Chmod(t.dir, 0o755) //nolint:gosec // whatever the umask is
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("site: building folder: %w", err), os.RemoveAll(building))
	}
	return t, nil
}

// Built tells whether a folder holds a built site.
func Built(dir string) error {
	if err := isHistory(filepath.Join(dir, historyFile)); err != nil {
		return fmt.Errorf("site: %s holds no built site (%w); build one first", dir, err)
	}
	return nil
}

func replaceable(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) || (err == nil && len(entries) == 0) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("site: output folder: %w", err)
	}
	err = isHistory(filepath.Join(dir, historyFile))
	if err != nil {
		return fmt.Errorf("site: %s is not empty and holds no site of an earlier build (%w); choose another output folder or empty this one", dir, err)
	}
	return nil
}

// isHistory looks for the schema's name at the beginning of a file. The history
// is read in full elsewhere.
func isHistory(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	head := make([]byte, 512)
	n, err := io.ReadFull(f, head)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		return err
	}
	if !strings.Contains(string(head[:n]), strconv.Quote(history.Schema)) {
		return fmt.Errorf("%s is no history", name)
	}
	return nil
}

// leftovers are the building folders beside an output folder.
func leftovers(parent, base string) []string {
	entries, err := os.ReadDir(parent)
	if err != nil {
		return nil
	}
	var out []string
	for _, e := range entries {
		if e.IsDir() && strings.HasPrefix(e.Name(), "."+base+".building-") {
			out = append(out, filepath.Join(parent, e.Name()))
		}
	}
	return out
}

// sweep removes building folders that killed builds left behind.
func sweep(parent, base string) {
	for _, dir := range leftovers(parent, base) {
		if info, err := os.Lstat(dir); err == nil && info.IsDir() && time.Since(info.ModTime()) > leftoverAge {
			os.RemoveAll(dir)
		}
	}
}

// mkdir makes a folder, with those above it, once, and keeps it open.
func (t *tree) mkdir(dir string) (folder, error) {
	if made, ok := t.made.Load(dir); ok {
		return made.(folder), nil
	}
	t.making.Lock()
	defer t.making.Unlock()
	if made, ok := t.made.Load(dir); ok {
		return made.(folder), nil
	}
	if err := os.MkdirAll(t.at(dir), 0o755); err != nil { //nolint:gosec // a web server reads it
		return noFolder, fmt.Errorf("site: folder %s: %w", dir, err)
	}
	f := noFolder
	if t.open < maxFolders {
		if opened, ok := inFolder(t.at(dir)); ok {
			f = opened
			t.open++
		}
	}
	t.made.Store(dir, f)
	return f, nil
}

// closeFolders closes the folders that are kept open.
func (t *tree) closeFolders() {
	t.making.Lock()
	defer t.making.Unlock()
	t.made.Range(func(_, f any) bool {
		if f := f.(folder); f != noFolder {
			f.close()
		}
		return true
	})
	t.made.Clear()
	t.open = 0
}

// put writes a file.
func (t *tree) put(name string, content []byte) error {
	_, err := t.write(name, content)
	return err
}

// write writes a file and identifies it.
func (t *tree) write(name string, content []byte) (fileID, error) {
	dir, err := t.mkdir(path.Dir(name))
	if err != nil {
		return fileID{}, err
	}
	id, err := create(dir, t.at(name), content)
	if err != nil {
		return id, fmt.Errorf("site: write %s: %w", name, err)
	}
	t.files.Add(1)
	t.bytes.Add(int64(len(content)))
	return id, nil
}

// files are those about one attestation: they share the beginning of their
// addresses.
type files struct {
	tree  *tree
	stem  string
	ends  []string
	bytes int64
	sums  []byte   // the digest of each file, one after the other
	ids   []fileID // of each; zero where it is not known
}

// sum is one digest of all that was written.
func (f *files) sum() string {
	sum := sha256.Sum256(f.sums)
	return hex.EncodeToString(sum[:])
}

func (f *files) put(end string, content []byte) error {
	return f.putSummed(end, content, sha256.Sum256(content))
}

// putSummed writes a file whose digest is known.
func (f *files) putSummed(end string, content []byte, sum [sha256.Size]byte) error {
	id, err := f.tree.write(f.stem+end, content)
	if err != nil {
		return err
	}
	f.note(end, sum, int64(len(content)), id)
	return nil
}

func (f *files) note(end string, sum [sha256.Size]byte, size int64, id fileID) {
	f.ends, f.bytes, f.sums, f.ids = append(f.ends, end), f.bytes+size, append(f.sums, sum[:]...), append(f.ids, id)
}

func (f *files) stream(end string, write func(io.Writer) error) error {
	h := sha256.New()
	n, err := f.tree.stream(f.stem+end, func(w io.Writer) error { return write(io.MultiWriter(w, h)) })
	if err != nil {
		return err
	}
	id, _ := identify(f.tree.at(f.stem + end))
	f.note(end, [sha256.Size]byte(h.Sum(nil)), n, id)
	return nil
}

// sharedFile is a file that others are links to.
type sharedFile struct {
	path string
	id   fileID
	sum  [sha256.Size]byte
}

// share writes content that many attestations have in common, such as a badge:
// the second time it is a link to the first.
func (f *files) share(end string, content []byte) error {
	key := end + string(content)
	if known, ok := f.tree.shared.Load(key); ok {
		first := known.(sharedFile)
		if _, err := f.tree.mkdir(path.Dir(f.stem)); err != nil {
			return err
		}
		if os.Link(first.path, f.tree.at(f.stem+end)) == nil {
			f.note(end, first.sum, int64(len(content)), first.id)
			f.tree.files.Add(1)
			f.tree.bytes.Add(int64(len(content)))
			return nil
		}
	}
	sum := sha256.Sum256(content)
	if err := f.putSummed(end, content, sum); err != nil {
		return err
	}
	f.tree.shared.Store(key, sharedFile{f.tree.at(f.stem + end), f.ids[len(f.ids)-1], sum})
	return nil
}

// at is where a file is while the site is being built.
func (t *tree) at(name string) string { return filepath.Join(t.dir, filepath.FromSlash(name)) }

// stream writes a file piece by piece and returns its size.
func (t *tree) stream(name string, write func(io.Writer) error) (int64, error) {
	if _, err := t.mkdir(path.Dir(name)); err != nil {
		return 0, err
	}
	f, err := os.OpenFile(t.at(name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644) //nolint:gosec // a web server reads it
	if err != nil {
		return 0, fmt.Errorf("site: write %s: %w", name, err)
	}
	c := &counter{w: f}
	err = write(c)
	if e := f.Close(); err == nil {
		err = e
	}
	if err != nil {
		return 0, fmt.Errorf("site: write %s: %w", name, err)
	}
	t.files.Add(1)
	t.bytes.Add(c.n)
	return c.n, nil
}

type counter struct {
	w io.Writer
	n int64
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}

// there is what the addresses of an attestation's files begin with in the site
// that is being replaced.
func (t *tree) there(r *record) string {
	return filepath.Join(t.out, filepath.FromSlash(attestationStem(r.ID)))
}

// reuse takes an attestation's files over from the site that is being replaced:
// they stay where they are, or are linked. It reports whether all were there as
// they were written; where not, none is taken. Unless they are known to be intact
// they are read. now is the kernel's time.
func (t *tree) reuse(k *cached, intact bool, now int64) (bool, error) {
	r := k.Record
	stem, from := attestationStem(r.ID), t.there(r)
	if r.unread = intact; !intact {
		k.Made, k.Seen = filesID(nil, from, r.Ends, math.MaxInt64), now
		if !t.unchanged(from, r.Ends, r.Sum) {
			return false, nil
		}
	}
	if t.keep != nil {
		t.keep.stay(stem, r.Ends)
	} else if linked, err := t.link(stem, from, r.Ends); !linked {
		return false, err
	}
	t.files.Add(int64(len(r.Ends)))
	t.bytes.Add(r.Bytes)
	return true, nil
}

// link links all files of an attestation from the site that is being replaced, or
// none.
func (t *tree) link(stem, from string, ends []string) (bool, error) {
	if _, err := t.mkdir(path.Dir(stem)); err != nil {
		return false, err
	}
	to := filepath.Join(t.dir, filepath.FromSlash(stem))
	for i, end := range ends {
		if os.Link(from+end, to+end) == nil {
			continue
		}
		var errs []error
		for _, linked := range ends[:i] {
			errs = append(errs, os.Remove(to+linked))
		}
		return false, errors.Join(errs...)
	}
	return true, nil
}

// unchanged tells whether the files of an attestation still have the content
// that was written.
func (t *tree) unchanged(stem string, ends []string, sum string) bool {
	var now files
	for _, end := range ends {
		b, err := readBounded(stem+end, packet.MaxArchiveBytes)
		if err != nil {
			return false
		}
		one := sha256.Sum256(b)
		now.sums = append(now.sums, one[:]...)
	}
	return now.sum() == sum
}

// commit puts the new site in the place of the old one.
func (t *tree) commit() error {
	t.closeFolders()
	if t.keep != nil && t.keep.any() {
		if err := t.keep.commit(t); err != nil {
			return fmt.Errorf("site: put what changed in the place of the old: %w", err)
		}
		return nil
	}
	_, err := os.Lstat(t.out)
	if errors.Is(err, fs.ErrNotExist) {
		if err := os.Rename(t.dir, t.out); err != nil {
			return fmt.Errorf("site: put the new site in place: %w", err)
		}
		return nil
	}
	if err := swap(t.dir, t.out); err != nil {
		return fmt.Errorf("site: put the new site in the place of the old one: %w", err)
	}
	return nil
}

// discard removes the building folder: all of it after a failure, the replaced
// site after a success. A large site has very many folders, so several are
// removed at once.
func (t *tree) discard() error {
	t.keep.release()
	t.closeFolders()
	var g errgroup.Group
	g.SetLimit(runtime.GOMAXPROCS(0))
	large := filepath.Join(t.dir, attestationFolder)
	entries, err := os.ReadDir(large)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("site: remove %s: %w", t.base, err)
	}
	for _, e := range entries {
		g.Go(func() error { return os.RemoveAll(filepath.Join(large, e.Name())) })
	}
	if err := errors.Join(g.Wait(), os.RemoveAll(t.base)); err != nil {
		return fmt.Errorf("site: remove %s: %w", t.base, err)
	}
	return nil
}

// aside moves the old folder away and the new one in: the way where folders
// cannot be exchanged at once. The old one comes back when the second step fails.
func aside(dir, out string) error {
	old := dir + ".old"
	if err := os.Rename(out, old); err != nil {
		return err
	}
	if err := os.Rename(dir, out); err != nil {
		if e := os.Rename(old, out); e != nil {
			return fmt.Errorf("%w; the old site is now in %s (%w)", err, old, e)
		}
		return err
	}
	return os.Rename(old, strings.TrimSuffix(old, ".old"))
}
