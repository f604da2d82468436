package gvisor

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/wallproof/wallproof/battery/sandbox"
)

// The runtime makes missing mount points in the root file system that it is
// given. So that the image's folder stays as it is, and so that nothing in the
// image can lead a mount astray, it is given an overlay: below the image, above
// it a small tmpfs with the mount points as real folders and files.

const (
	layerOptions = "size=8m,nr_inodes=8k,mode=0711"
	opaqueAttr   = "trusted.overlay.opaque"
)

// hidden are the folders of which nothing is taken from the image, whatever
// the image has there: the kernel's and ours.
var hidden = []string{"proc", "sys", "dev", sandbox.ReservedDir[1:]}

// etcFiles are generated for every sandbox and mounted read-only.
var etcFiles = []string{"resolv.conf", "hosts", "hostname"}

// rootLayout is what was found in the image that the OCI configuration depends
// on.
type rootLayout struct {
	emptyTmp bool // /tmp is missing or empty: it becomes a tmpfs of limited size
}

// mountRoot makes the two mounts of a run folder.
func mountRoot(r runDir, spec sandbox.Spec) (rootLayout, error) {
	lower, err := unix.Open(spec.Rootfs, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return rootLayout{}, fmt.Errorf("open root file system %s: %w", spec.Rootfs, err)
	}
	defer unix.Close(lower)
	if err := unix.Mount("wallproof", r.layer(), "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, layerOptions); err != nil {
		return rootLayout{}, fmt.Errorf("mount tmpfs for mount points: %w", err)
	}
	up := filepath.Join(r.layer(), "up")
	work := filepath.Join(r.layer(), "work")
	if err := copyDir(lower, up); err != nil {
		return rootLayout{}, fmt.Errorf("prepare mount points: %w", err)
	}
	if err := os.Mkdir(work, 0o700); err != nil {
		return rootLayout{}, fmt.Errorf("prepare mount points: %w", err)
	}
	layout, err := prepareUpper(lower, up, int(spec.IDBase))
	if err != nil {
		return rootLayout{}, fmt.Errorf("prepare mount points: %w", err)
	}
	if err := mountOverlay(lower, up, work, r.root()); err != nil {
		return rootLayout{}, err
	}
	return layout, checkMountPoints(r.root(), spec.Mounts)
}

// mountOverlay names the three folders by descriptor, so that no character in
// a path means anything to the option parser.
func mountOverlay(lower int, up, work, at string) error {
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
	if err := unix.Mount("wallproof", at, "overlay", unix.MS_NOSUID|unix.MS_NODEV, opts); err != nil {
		return fmt.Errorf("mount overlay over the image: %w", err)
	}
	return nil
}

// prepareUpper fills the upper folder.
func prepareUpper(lower int, up string, base int) (rootLayout, error) {
	for _, name := range hidden {
		dir := filepath.Join(up, name)
		if err := makeDir(dir, 0o755, base); err != nil {
			return rootLayout{}, err
		}
		if err := unix.Lsetxattr(dir, opaqueAttr, []byte("y"), 0); err != nil {
			return rootLayout{}, fmt.Errorf("hide the image's /%s: %w", name, err)
		}
	}
	if err := prepareEtc(lower, up, base); err != nil {
		return rootLayout{}, err
	}
	empty, err := emptyDir(lower, "tmp")
	if err != nil {
		return rootLayout{}, err
	}
	if empty {
		if err := makeDir(filepath.Join(up, "tmp"), 0o777|os.ModeSticky, base); err != nil {
			return rootLayout{}, err
		}
	}
	return rootLayout{emptyTmp: empty}, nil
}

// prepareEtc puts plain files where the generated ones are mounted: images
// often have links there, and a link could lead anywhere.
func prepareEtc(lower int, up string, base int) error {
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
		if err := os.WriteFile(path, nil, 0o644); err != nil {
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

// unmountRoot takes the mounts of a run folder away, however often they were
// made. The run folder's own file system is not touched.
func unmountRoot(r runDir) error {
	var errs []error
	for _, at := range []string{r.root(), r.layer()} {
		for {
			err := unix.Unmount(at, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
			if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOENT) {
				break // not, or no longer, a mount point
			}
			if err != nil {
				errs = append(errs, fmt.Errorf("unmount %s: %w", at, err))
				break
			}
		}
	}
	return errors.Join(errs...)
}
