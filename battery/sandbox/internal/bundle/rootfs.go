package bundle

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/wallproof/wallproof/battery/sandbox"
)

// A sandbox's root is an overlay: below the image, which is never written to,
// above it a tmpfs. The tmpfs has from the start what must not be taken from the
// image: real folders and files where something is mounted, so that nothing in
// the image can lead a mount astray.

const opaqueAttr = "trusted.overlay.opaque"

// hidden are the folders of which nothing is taken from the image, whatever
// the image has there: the kernel's and ours.
var hidden = []string{"proc", "sys", "dev", sandbox.ReservedDir[1:]}

// Root says how a sandbox's root is made.
type Root struct {
	// Image is the folder of the unpacked image.
	Image string
	// Base is the host id of the root user inside.
	Base uint32
	// IDMap, if not nil, is a user namespace through which the image is seen, so
	// that the ids it stores become others (an ID-mapped mount). Base is what its
	// root then shows as.
	IDMap *os.File
	// Bytes and Inodes bound the upper layer.
	Bytes, Inodes int64
	// Flags are the overlay's mount flags, as for mount(2).
	Flags uintptr
	// Mounts are what will be mounted on the root.
	Mounts []sandbox.Mount
	// Hosts is the content of /etc/hosts where the sandbox has one of its own, see
	// OwnHosts.
	Hosts string
}

// RootLayout is what was found in the image that the OCI configuration depends
// on.
type RootLayout struct {
	EmptyTmp bool // /tmp is missing or empty
}

// MountRoot makes the two mounts of a sandbox's root, with a mount point for
// each of Root.Mounts.
func (d Dir) MountRoot(o Root) (RootLayout, error) {
	lower, undo, err := d.openImage(o)
	if err != nil {
		return RootLayout{}, err
	}
	defer undo()
	opts := fmt.Sprintf("size=%d,nr_inodes=%d,mode=0711", o.Bytes, o.Inodes)
	if err := unix.Mount("wallproof", d.Layer(), "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, opts); err != nil {
		return RootLayout{}, fmt.Errorf("mount tmpfs over the image: %w", err)
	}
	up := filepath.Join(d.Layer(), "up")
	work := filepath.Join(d.Layer(), "work")
	if err := copyDir(lower, up); err != nil {
		return RootLayout{}, fmt.Errorf("prepare mount points: %w", err)
	}
	if err := os.Mkdir(work, 0o700); err != nil {
		return RootLayout{}, fmt.Errorf("prepare mount points: %w", err)
	}
	layout, err := prepareUpper(lower, up, int(o.Base), o.Hosts)
	if err != nil {
		return RootLayout{}, fmt.Errorf("prepare mount points: %w", err)
	}
	if err := mountOverlay(lower, up, work, d.Root(), o.Flags); err != nil {
		return RootLayout{}, err
	}
	return layout, makeMountPoints(d.Root(), o.Mounts, int(o.Base))
}

// openImage opens the image's folder, through an ID-mapped mount if one is
// asked for. undo closes it; the overlay keeps what it needs.
func (d Dir) openImage(o Root) (fd int, undo func(), err error) {
	path := o.Image
	if o.IDMap != nil {
		path = filepath.Join(d.Mounts(), "image")
		if err := MapMount(o.Image, path, o.IDMap); err != nil {
			return -1, nil, fmt.Errorf("root file system: %w", err)
		}
	}
	fd, err = unix.Open(path, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, nil, fmt.Errorf("open root file system %s: %w", o.Image, err)
	}
	return fd, func() {
		unix.Close(fd)
		if o.IDMap != nil {
			unix.Unmount(path, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW) // else the removal does it
		}
	}, nil
}

// mountOverlay names the three folders by descriptor, so that no character in
// a path means anything to the option parser.
func mountOverlay(lower int, up, work, at string, flags uintptr) error {
	fds := [3]int{lower}
	for i, dir := range []string{up, work} {
		fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("mount overlay: %w", err)
		}
		defer unix.Close(fd)
		fds[i+1] = fd
	}
	opts := fmt.Sprintf("lowerdir=/proc/self/fd/%d,upperdir=/proc/self/fd/%d,workdir=/proc/self/fd/%d", fds[0], fds[1], fds[2])
	if err := unix.Mount("wallproof", at, "overlay", flags, opts); err != nil {
		return fmt.Errorf("mount overlay over the image: %w", err)
	}
	return nil
}

// prepareUpper fills the upper folder.
func prepareUpper(lower int, up string, base int, hosts string) (RootLayout, error) {
	for _, name := range hidden {
		dir := filepath.Join(up, name)
		if err := makeDir(dir, 0o755, base); err != nil {
			return RootLayout{}, err
		}
		if err := unix.Lsetxattr(dir, opaqueAttr, []byte("y"), 0); err != nil {
			return RootLayout{}, fmt.Errorf("hide the image's /%s: %w", name, err)
		}
	}
	if err := prepareEtc(lower, up, base, hosts); err != nil {
		return RootLayout{}, err
	}
	empty, err := emptyDir(lower, "tmp")
	if err != nil {
		return RootLayout{}, err
	}
	if empty {
		if err := makeDir(filepath.Join(up, "tmp"), 0o777|os.ModeSticky, base); err != nil {
			return RootLayout{}, err
		}
	}
	return RootLayout{EmptyTmp: empty}, nil
}

// prepareEtc puts plain files where the generated ones are mounted: images
// often have links there, and a link could lead anywhere. hosts is the content of
// a hosts file that nothing is mounted over.
func prepareEtc(lower int, up string, base int, hosts string) error {
	etc := filepath.Join(up, "etc")
	fd, err := openDir(lower, "etc")
	switch {
	case errors.Is(err, unix.ENOENT):
		err = makeDir(etc, 0o755, base)
	case err != nil:
		return fmt.Errorf("the image's /etc is not a folder: %w", err)
	default:
		err = copyDir(fd, etc)
		unix.Close(fd)
	}
	if err != nil {
		return err
	}
	for _, name := range etcFiles {
		path := filepath.Join(etc, name)
		var content []byte
		if name == hostsFile {
			content = []byte(hosts)
		}
		if err := os.WriteFile(path, content, 0o644); err != nil {
			return err
		}
		if err := os.Chmod(path, 0o644); err != nil { // whatever the umask
			return err
		}
		if err := os.Lchown(path, base, base); err != nil {
			return err
		}
	}
	return nil
}

// openDir opens a folder of the image itself, never through a link.
func openDir(root int, name string) (int, error) {
	return unix.Openat2(root, name, &unix.OpenHow{
		Flags:   unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_XDEV,
	})
}

// emptyDir says whether a folder of the image is missing or has nothing in it.
func emptyDir(root int, name string) (bool, error) {
	fd, err := openDir(root, name)
	switch {
	case errors.Is(err, unix.ENOENT):
		return true, nil
	case errors.Is(err, unix.ELOOP), errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.EXDEV):
		return false, nil // a link or a file: left alone
	case err != nil:
		return false, fmt.Errorf("look into the image's /%s: %w", name, err)
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	names, _ := f.Readdirnames(1)
	return len(names) == 0, nil
}

func makeDir(path string, mode os.FileMode, base int) error {
	if err := os.Mkdir(path, 0o700); err != nil {
		return err
	}
	if err := os.Lchown(path, base, base); err != nil {
		return err
	}
	return os.Chmod(path, mode)
}

// copyDir makes path a folder with the owner and mode of the one at fd.
func copyDir(fd int, path string) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if err := os.Mkdir(path, 0o700); err != nil {
		return err
	}
	if err := os.Lchown(path, int(st.Uid), int(st.Gid)); err != nil {
		return err
	}
	return unix.Chmod(path, st.Mode&0o7777)
}

// unmount takes the mounts of a sandbox's folder away, however often they were
// made.
func (d Dir) unmount() error {
	further, err := os.ReadDir(d.Mounts())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("look for mounts: %w", err)
	}
	errs := []error{unmountAll(d.Root()), unmountAll(d.Layer())}
	for _, e := range further {
		errs = append(errs, unmountAll(filepath.Join(d.Mounts(), e.Name())))
	}
	return errors.Join(errs...)
}

func unmountAll(at string) error {
	for {
		err := unix.Unmount(at, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
		if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOENT) {
			return nil // not, or no longer, a mount point
		}
		if err != nil {
			return fmt.Errorf("unmount %s: %w", at, err)
		}
	}
}
