package bundle

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/wallproof/wallproof/battery/sandbox"
)

// makeMountPoints makes what the mounts are made on. It refuses a mount that
// the image's links would lead into one of the hidden folders, where it could
// cover what is mounted there: runtimes resolve links in a target, and keep no
// order among mounts that end up at one place. root is the mounted overlay.
func makeMountPoints(root string, mounts []sandbox.Mount, base int) error {
	fd, err := unix.Open(root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("check mount points: %w", err)
	}
	defer unix.Close(fd)
	at := map[string]string{}
	for _, name := range etcFiles {
		at["/etc/"+name] = "/etc/" + name
	}
	for _, m := range mounts {
		real, err := resolveInside(fd, root, m.Target)
		if err != nil {
			return fmt.Errorf("mount at %s: %w", m.Target, err)
		}
		if isHidden(real) && real != m.Target {
			return fmt.Errorf("mount at %s: a link of the image leads it to %s", m.Target, real)
		}
		if other, taken := at[real]; taken && other != m.Target {
			return fmt.Errorf("mounts at %s and %s: links of the image lead both to %s", m.Target, other, real)
		}
		at[real] = m.Target
		if err := makeMountPoint(root, real, m.Source, base); err != nil {
			return fmt.Errorf("mount at %s: %w", m.Target, err)
		}
	}
	return nil
}

// makeMountPoint makes a folder or file at a path without links, as the mount's
// source is one. Below what the kernel's file systems will cover the runtime
// makes its own.
func makeMountPoint(root, real, source string, base int) error {
	if isHidden(real) && !strings.HasPrefix(real, sandbox.ReservedDir) {
		return nil
	}
	fi, err := os.Stat(source)
	if err != nil {
		return err
	}
	parent := path.Dir(real)
	if fi.IsDir() {
		parent = real
	}
	if err := makeParents(root, parent, base); err != nil || fi.IsDir() {
		return err
	}
	f, err := os.OpenFile(root+real, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	return errors.Join(f.Chown(base, base), f.Chmod(0o644))
}

func makeParents(root, dir string, base int) error {
	if _, err := os.Lstat(root + dir); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := makeParents(root, path.Dir(dir), base); err != nil {
		return err
	}
	return makeDir(root+dir, 0o755, base)
}

func isHidden(p string) bool {
	top, _, _ := strings.Cut(strings.TrimPrefix(p, "/"), "/")
	return slices.Contains(hidden, top)
}

// resolveInside is where a path leads inside, as far as it exists; the rest is
// kept as it is.
func resolveInside(root int, rootPath, target string) (string, error) {
	for dir, rest := target, ""; ; dir, rest = path.Dir(dir), path.Join(path.Base(dir), rest) {
		fd, err := unix.Openat2(root, strings.TrimPrefix(dir, "/")+"/.", &unix.OpenHow{
			Flags:   unix.O_PATH | unix.O_CLOEXEC,
			Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS,
		})
		if dir != "/" && errors.Is(err, unix.ENOTDIR) {
			// A file: its folder is what matters, and the name, unless it is a link.
			fd, err = unix.Openat2(root, strings.TrimPrefix(dir, "/"), &unix.OpenHow{
				Flags:   unix.O_PATH | unix.O_CLOEXEC,
				Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS,
			})
		}
		if errors.Is(err, unix.ENOENT) && dir != "/" {
			if err := notDangling(root, dir); err != nil {
				return "", err
			}
			continue
		}
		if err != nil {
			return "", err
		}
		real, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
		unix.Close(fd)
		if err != nil {
			return "", err
		}
		inside, ok := strings.CutPrefix(real, rootPath)
		if !ok {
			return "", fmt.Errorf("it leads to %s, outside the image", real)
		}
		return path.Join("/", inside, rest), nil
	}
}

// notDangling refuses a link to something that does not exist: where the mount
// would be made cannot be told.
func notDangling(root int, name string) error {
	fd, err := unix.Openat2(root, strings.TrimPrefix(name, "/"), &unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS,
	})
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return err
	}
	unix.Close(fd)
	return fmt.Errorf("the image's %s is a link to nothing", name)
}
