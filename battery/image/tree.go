package image

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// tree changes files below a folder. A path's folders are resolved by the
// kernel as if that folder were the root (openat2 with RESOLVE_IN_ROOT), so
// that links with absolute targets mean what they mean inside, and nothing can
// lead out; the last element is never followed.
type tree struct {
	root  int
	depth int // most folders below one another
	// levels has the depth of every folder that was made, by inode. A name's
	// own length says nothing, since links in it may lead deep.
	levels map[uint64]int
	// hidden looks at what is removed; nil for nobody.
	hidden *hidden
	// mine has what the layer at hand made, for its whiteouts.
	mine map[place]bool
}

// place is a name in a folder. The folder's inode stands for it, because many
// paths may lead to it.
type place struct {
	dir  uint64
	name string
}

type meta struct {
	uid, gid int
	mode     uint32
	mtime    time.Time
}

// maxTime bounds a file's time, in seconds since 1970, so that nothing
// overflows.
const maxTime = 1 << 33

// retries bounds how often a resolution is tried again that the kernel gave up
// because of a rename somewhere.
const retries = 64

func newTree(root, depth int) (*tree, error) {
	ino, err := inode(root)
	if err != nil {
		return nil, err
	}
	return &tree{root: root, depth: depth, levels: map[uint64]int{ino: 0}, mine: map[place]bool{}}, nil
}

// newLayer forgets what the layer before made.
func (t *tree) newLayer() { clear(t.mine) }

// open opens a folder.
func (t *tree) open(dir []string) (int, error) {
	how := unix.OpenHow{
		Flags:   unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_XDEV,
	}
	path := "."
	if len(dir) > 0 {
		path = strings.Join(dir, "/")
	}
	for i := 0; ; i++ {
		fd, err := unix.Openat2(t.root, path, &how)
		if i < retries && (errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR)) {
			continue
		}
		return fd, err
	}
}

// parent opens a folder and makes what is missing on the way.
func (t *tree) parent(dir []string) (fd int, ino uint64, err error) {
	fd, err = t.open(dir)
	if errors.Is(err, unix.ENOENT) {
		for i := range dir {
			if err := t.ensure(dir[:i], dir[i]); err != nil {
				return -1, 0, err
			}
		}
		fd, err = t.open(dir)
	}
	if err != nil {
		return -1, 0, fmt.Errorf("open its folder: %w", err)
	}
	if ino, err = inode(fd); err != nil {
		unix.Close(fd)
		return -1, 0, err
	}
	return fd, ino, nil
}

// ensure makes a folder that entries below it imply.
func (t *tree) ensure(dir []string, name string) error {
	fd, err := t.open(append(dir[:len(dir):len(dir)], name))
	if err == nil {
		return unix.Close(fd)
	}
	if !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("open its folder: %w", err)
	}
	at, err := t.open(dir)
	if err != nil {
		return fmt.Errorf("open its folder: %w", err)
	}
	defer unix.Close(at)
	ino, err := inode(at)
	if err != nil {
		return err
	}
	return t.newFolder(at, ino, name, meta{mode: 0o755})
}

// newFolder makes a folder where nothing is.
func (t *tree) newFolder(at int, ino uint64, name string, m meta) error {
	if t.levels[ino] >= t.depth {
		return limitError("depth", t.depth)
	}
	if err := unix.Mkdirat(at, name, 0o700); err != nil {
		return fmt.Errorf("make folder: %w", err)
	}
	fd, err := openFolder(at, name)
	if err != nil {
		return fmt.Errorf("make folder: %w", err)
	}
	defer unix.Close(fd)
	own, err := inode(fd)
	if err != nil {
		return err
	}
	t.levels[own] = t.levels[ino] + 1
	return setMeta(fd, m)
}

// setRoot gives the root folder its owner and mode.
func (t *tree) setRoot(m meta) error { return setMeta(t.root, m) }

// mkdir makes a folder, or changes one that is there.
func (t *tree) mkdir(dir []string, name string, m meta) error {
	at, ino, err := t.parent(dir)
	if err != nil {
		return err
	}
	defer unix.Close(at)
	t.mine[place{ino, name}] = true
	fd, err := openFolder(at, name)
	switch {
	case err == nil:
		defer unix.Close(fd)
		return setMeta(fd, m)
	case notFolder(err):
		t.hidden.lose(at, name)
		if err := unix.Unlinkat(at, name, 0); err != nil {
			return fmt.Errorf("replace: %w", err)
		}
	case !errors.Is(err, unix.ENOENT):
		return err
	}
	return t.newFolder(at, ino, name, m)
}

// replace opens the folder for a new entry that is not a folder, having
// removed what was there.
func (t *tree) replace(dir []string, name string) (int, error) {
	at, ino, err := t.parent(dir)
	if err != nil {
		return -1, err
	}
	t.hidden.lose(at, name)
	if err := removeAll(at, name); err != nil {
		unix.Close(at)
		return -1, fmt.Errorf("replace: %w", err)
	}
	t.mine[place{ino, name}] = true
	return at, nil
}

func (t *tree) create(dir []string, name string) (*os.File, error) {
	at, err := t.replace(dir, name)
	if err != nil {
		return nil, err
	}
	defer unix.Close(at)
	fd, err := unix.Openat(at, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, fmt.Errorf("create: %w", err)
	}
	return os.NewFile(uintptr(fd), name), nil
}

// finish gives a written file its owner, mode and time.
func (t *tree) finish(f *os.File, m meta) error {
	fd := int(f.Fd())
	if err := setMeta(fd, m); err != nil {
		return err
	}
	// A time that the file system cannot store is not worth failing for.
	when := unix.NsecToTimespec(max(0, m.mtime.Unix()) % maxTime * int64(time.Second))
	_ = unix.UtimesNanoAt(fd, "", []unix.Timespec{when, when}, unix.AT_EMPTY_PATH)
	return nil
}

func (t *tree) symlink(dir []string, name, target string, m meta) error {
	at, err := t.replace(dir, name)
	if err != nil {
		return err
	}
	defer unix.Close(at)
	if err := unix.Symlinkat(target, at, name); err != nil {
		return fmt.Errorf("link: %w", err)
	}
	return own(at, name, m)
}

func (t *tree) fifo(dir []string, name string, m meta) error {
	at, err := t.replace(dir, name)
	if err != nil {
		return err
	}
	defer unix.Close(at)
	// The mode goes with the call, and no umask is in force; changing it
	// afterwards would need the pipe opened.
	if err := unix.Mknodat(at, name, unix.S_IFIFO|m.mode&0o777, 0); err != nil {
		return fmt.Errorf("make a pipe: %w", err)
	}
	return own(at, name, m)
}

func own(at int, name string, m meta) error {
	if err := unix.Fchownat(at, name, m.uid, m.gid, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return fmt.Errorf("set owner: %w", err)
	}
	return nil
}

// link makes a second name for a file. The target, too, is looked up below the
// root, and a link there is not followed.
func (t *tree) link(dir []string, name string, target []string) error {
	from, err := t.open(target[:len(target)-1])
	if err != nil {
		return fmt.Errorf("open the link's target: %w", err)
	}
	defer unix.Close(from)
	fromIno, err := inode(from)
	if err != nil {
		return err
	}
	last := target[len(target)-1]
	at, ino, err := t.parent(dir)
	if err != nil {
		return err
	}
	defer unix.Close(at)
	if ino == fromIno && name == last {
		return fmt.Errorf("%w: a link to itself", ErrHostile)
	}
	// Looked at before anything is removed: what is removed could be the target.
	var st unix.Stat_t
	if err := unix.Fstatat(from, last, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return fmt.Errorf("the link's target: %w", err)
	}
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		return fmt.Errorf("%w: a link to a folder", ErrHostile)
	}
	t.hidden.lose(at, name)
	if err := removeAll(at, name); err != nil {
		return fmt.Errorf("replace: %w", err)
	}
	t.mine[place{ino, name}] = true
	if err := unix.Linkat(from, last, at, name, 0); err != nil {
		return fmt.Errorf("link: %w", err)
	}
	return nil
}
