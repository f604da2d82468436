package site

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
)

// keeper leaves attestations that did not change where they are. A large site has
// very many files, and to link each of them into a new folder, and to remove it
// from the old one, costs more than everything else in a rebuild.
//
// What is new or has changed is exchanged for the old, file by file; then the
// folder of all attestations moves into the new site, and that takes the old one's
// place. An error on the way is undone. A build that is killed in these
// milliseconds leaves pages of attestations of both builds, each as true as when it
// was written, under an index of the old one. Between the two last steps, a few
// microseconds, the pages of attestations are not there; who is killed there is
// helped by the next build (putBack).
type keeper struct {
	place string // the folder of attestations in the site that is being replaced
	site  fs.FileInfo
	lock  *os.File

	mu    sync.Mutex
	names map[string]map[string]bool // by folder: the files that stay
}

// movingFile marks a building folder into which the attestations of the site are
// being moved.
const movingFile = "moving"

// keepInPlace makes a tree leave in their place what it takes over. It does not
// where there is nothing to take over, somebody else builds the same site, or the
// file system cannot exchange two files in one step.
func (t *tree) keepInPlace() {
	if !t.exchanges() {
		return
	}
	k := &keeper{place: filepath.Join(t.out, attestationFolder), names: map[string]map[string]bool{}}
	lock, ok := lockFolder(t.out)
	if !ok {
		return
	}
	k.lock = lock
	info, err := os.Lstat(k.place)
	if err == nil && info.IsDir() {
		k.site, err = os.Lstat(t.out)
	}
	if err != nil || k.site == nil || !k.site.IsDir() {
		k.release()
		return
	}
	t.keep = k
}

// exchanges tries whether two files can be exchanged here.
func (t *tree) exchanges() bool {
	a, b := filepath.Join(t.base, "a"), filepath.Join(t.base, "b")
	return errors.Join(os.WriteFile(a, nil, 0o600), os.WriteFile(b, nil, 0o600)) == nil && exchange(a, b) == nil
}

// release lets others build the site again.
func (k *keeper) release() {
	if k != nil && k.lock != nil {
		k.lock.Close()
		k.lock = nil
	}
}

// stay notes that the files of an attestation stay.
func (k *keeper) stay(stem string, ends []string) {
	folder, name := path.Base(path.Dir(stem)), path.Base(stem)
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.names[folder] == nil {
		k.names[folder] = map[string]bool{}
	}
	for _, end := range ends {
		k.names[folder][name+end] = true
	}
}

// any tells whether anything stays.
func (k *keeper) any() bool { return len(k.names) > 0 }

// errReplaced means that the site is not the one that was there at the beginning.
var errReplaced = errors.New("somebody else replaced the site meanwhile; build it again")

// commit puts the new site in the place of the old one, around the files that stay.
func (k *keeper) commit(t *tree) (err error) {
	if now, err := os.Lstat(t.out); err != nil || !os.SameFile(now, k.site) {
		return errors.Join(errReplaced, err)
	}
	c := &changes{old: filepath.Join(t.base, "old")}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.undo())
		}
	}()
	fresh, moved := filepath.Join(t.dir, attestationFolder), filepath.Join(t.base, "new")
	if err := os.MkdirAll(fresh, 0o755); err != nil { //nolint:gosec // a web server reads it
		return err
	}
	if err := errors.Join(os.Rename(fresh, moved), os.Mkdir(c.old, 0o700)); err != nil {
		return err
	}
	if err := k.clear(c, moved); err != nil {
		return err
	}
	if err := k.fill(c, moved); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(t.base, movingFile), nil, 0o600); err != nil {
		return err
	}
	if err := c.move(k.place, fresh); err != nil {
		return err
	}
	return swap(t.dir, t.out)
}

// clear takes away what neither stays nor is replaced, whoever put it there.
func (k *keeper) clear(c *changes, moved string) error {
	folders, err := os.ReadDir(k.place)
	if err != nil {
		return err
	}
	for _, folder := range folders {
		at := filepath.Join(k.place, folder.Name())
		if !folder.IsDir() || len(folder.Name()) != 2 {
			if err := c.takeAway(at); err != nil {
				return err
			}
			continue
		}
		names, err := namesIn(at)
		if err != nil {
			return err
		}
		for _, name := range names {
			if k.names[folder.Name()][name] || exists(filepath.Join(moved, folder.Name(), name)) {
				continue
			}
			if err := c.takeAway(filepath.Join(at, name)); err != nil {
				return err
			}
		}
		if k.names[folder.Name()] == nil && !exists(filepath.Join(moved, folder.Name())) {
			if err := c.takeAway(at); err != nil {
				return err
			}
		}
	}
	return nil
}

// fill puts what is new or has changed in its place.
func (k *keeper) fill(c *changes, moved string) error {
	folders, err := os.ReadDir(moved)
	if err != nil {
		return err
	}
	for _, folder := range folders {
		from, to := filepath.Join(moved, folder.Name()), filepath.Join(k.place, folder.Name())
		if !exists(to) {
			if err := c.move(from, to); err != nil {
				return err
			}
			continue
		}
		names, err := namesIn(from)
		if err != nil {
			return err
		}
		for _, name := range names {
			from, to := filepath.Join(from, name), filepath.Join(to, name)
			do := c.move
			if exists(to) {
				do = c.exchange
			}
			if err := do(from, to); err != nil {
				return err
			}
		}
	}
	return nil
}

func namesIn(dir string) ([]string, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.Readdirnames(-1)
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// changes are renames that can be undone.
type changes struct {
	old  string // where to what is taken away goes
	n    int
	back []func() error
}

func (c *changes) move(from, to string) error {
	if err := os.Rename(from, to); err != nil {
		return err
	}
	c.back = append(c.back, func() error { return os.Rename(to, from) })
	return nil
}

func (c *changes) exchange(from, to string) error {
	if err := exchange(from, to); err != nil {
		return err
	}
	c.back = append(c.back, func() error { return exchange(from, to) })
	return nil
}

func (c *changes) takeAway(at string) error {
	c.n++
	return c.move(at, filepath.Join(c.old, strconv.Itoa(c.n)))
}

// undo takes the changes back, the last one first.
func (c *changes) undo() error {
	var errs []error
	for _, back := range slices.Backward(c.back) {
		errs = append(errs, back())
	}
	c.back = nil
	return errors.Join(errs...)
}

// putBack helps a site whose attestations were moved out by a build that was killed
// before it could put the new site in place.
func putBack(parent, base, out string) error {
	place := filepath.Join(out, attestationFolder)
	if Built(out) != nil || exists(place) {
		return nil
	}
	lock, ok := lockFolder(out)
	if !ok {
		return nil // it is being built
	}
	defer lock.Close()
	for _, dir := range leftovers(parent, base) {
		from := filepath.Join(dir, "site", attestationFolder)
		if exists(filepath.Join(dir, movingFile)) && exists(from) && !exists(place) {
			return os.Rename(from, place)
		}
	}
	return nil
}
