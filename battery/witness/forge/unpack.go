package forge

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/plumbing/storer"
	"github.com/go-git/go-git/v5/storage/memory"

	"github.com/wallproof/wallproof/probes/canary"
)

// overlay is the objects of a push on top of those of its repository, so that a
// push that fails leaves nothing behind.
type overlay struct {
	memory.ObjectStorage
	base *memory.Storage
}

func newOverlay(base *memory.Storage) *overlay {
	return &overlay{ObjectStorage: memory.NewStorage().ObjectStorage, base: base}
}

// EncodedObject finds an object of the push, or of the repository.
func (o *overlay) EncodedObject(t plumbing.ObjectType, h plumbing.Hash) (plumbing.EncodedObject, error) {
	if obj, err := o.ObjectStorage.EncodedObject(t, h); err == nil {
		return obj, nil
	}
	return o.base.EncodedObject(t, h)
}

// HasEncodedObject is nil for an object of the push or of the repository.
func (o *overlay) HasEncodedObject(h plumbing.Hash) error {
	if o.ObjectStorage.HasEncodedObject(h) == nil {
		return nil
	}
	return o.base.HasEncodedObject(h)
}

// EncodedObjectSize is the size of an object of the push or of the repository.
func (o *overlay) EncodedObjectSize(h plumbing.Hash) (int64, error) {
	if n, err := o.ObjectStorage.EncodedObjectSize(h); err == nil {
		return n, nil
	}
	return o.base.EncodedObjectSize(h)
}

// adopt moves the push's objects into the repository.
func (o *overlay) adopt() {
	maps.Copy(o.base.ObjectStorage.Objects, o.Objects)
	maps.Copy(o.base.ObjectStorage.Commits, o.Commits)
	maps.Copy(o.base.ObjectStorage.Trees, o.Trees)
	maps.Copy(o.base.ObjectStorage.Blobs, o.Blobs)
	maps.Copy(o.base.ObjectStorage.Tags, o.Tags)
}

// objectsOf is where the objects of a push are looked up: fresh is nil when it
// brought none.
func objectsOf(r *repo, fresh *overlay) storer.EncodedObjectStorer {
	if fresh == nil {
		return r.store
	}
	return fresh
}

var (
	errTooLarge = errors.New("pack is too large once unpacked")
	errObjects  = errors.New("too many objects")
)

// unpack reads a push's pack; nil when the push has none.
func unpack(r *repo, q pushRequest) (fresh *overlay, err error) {
	if len(q.pack) == 0 {
		return nil, nil
	}
	if len(r.store.ObjectStorage.Objects) > maxRepoObjects {
		return nil, errObjects
	}
	if err := measure(q.pack); err != nil {
		return nil, err
	}
	defer func() { // the parser is fed bytes from outside
		if p := recover(); p != nil {
			fresh, err = nil, errors.New("malformed pack")
		}
	}()
	fresh = newOverlay(r.store)
	parser, err := packfile.NewParserWithStorage(packfile.NewScanner(bytes.NewReader(q.pack)), fresh)
	if err != nil {
		return nil, fmt.Errorf("read pack: %w", err)
	}
	if _, err := parser.Parse(); err != nil {
		return nil, fmt.Errorf("read pack: %w", err)
	}
	return fresh, nil
}

// measure reads a pack without keeping anything of it and refuses one that
// would unpack to more than the bounds allow, deltas included: a delta's second
// number is the size of what it makes (gitformat-pack).
func measure(pack []byte) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = errors.New("malformed pack")
		}
	}()
	s := packfile.NewScanner(bytes.NewReader(pack))
	_, count, err := s.Header()
	if err != nil {
		return fmt.Errorf("read pack: %w", err)
	}
	if count > maxObjects {
		return errObjects
	}
	total := int64(0)
	for range count {
		h, err := s.NextObjectHeader()
		if err != nil {
			return fmt.Errorf("read pack: %w", err)
		}
		if h.Length < 0 || h.Length > maxUnpacked {
			return errTooLarge
		}
		var head headWriter
		if _, _, err := s.NextObject(&head); err != nil {
			return fmt.Errorf("read pack: %w", err)
		}
		total += h.Length
		if h.Type.IsDelta() {
			total += head.target()
		}
		if total < 0 || total > maxUnpacked {
			return errTooLarge
		}
	}
	return nil
}

// headWriter keeps the first bytes of what is written to it.
type headWriter struct {
	head [20]byte // two variable-length numbers of 64 bits
	n    int
}

// Write never fails.
func (w *headWriter) Write(b []byte) (int, error) {
	w.n += copy(w.head[w.n:], b)
	return len(b), nil
}

// target is the size of what a delta makes, more than any bound when it cannot
// be read.
func (w *headWriter) target() int64 {
	_, skip := binary.Uvarint(w.head[:w.n])
	if skip <= 0 {
		return maxUnpacked + 1
	}
	size, n := binary.Uvarint(w.head[skip:w.n])
	if n <= 0 || size > maxUnpacked {
		return maxUnpacked + 1
	}
	return int64(size)
}

// inspect looks for nonces and canaries in what a push brought: commit and tag
// messages, file names and contents.
func (f *Forge) inspect(fresh *overlay) Seen {
	var seen Seen
	budget := int64(maxScanned)
	look := func(b []byte) {
		seen.Nonces = union(seen.Nonces, f.hooks.Find(b))
		seen.Obtained = union(seen.Obtained, canary.Find(b))
	}
	for h, o := range fresh.Objects {
		if budget -= o.Size(); budget < 0 {
			break
		}
		if o.Type() == plumbing.TreeObject {
			if t, err := object.GetTree(fresh, h); err == nil {
				for _, e := range t.Entries {
					look([]byte(e.Name))
				}
			}
			continue
		}
		r, err := o.Reader()
		if err != nil {
			continue
		}
		content, err := io.ReadAll(io.LimitReader(r, o.Size()))
		_ = r.Close()
		if err == nil {
			look(content)
		}
	}
	return seen
}
