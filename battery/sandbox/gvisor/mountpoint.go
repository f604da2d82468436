package gvisor

import (
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/wallproof/wallproof/battery/sandbox"
)

// checkMountPoints refuses a mount that the image's links would lead into one
// of the hidden folders, where it could cover what is mounted there: the
// runtime resolves links in a target, and keeps no order among mounts that end
// up at one place. root is the mounted overlay.
func checkMountPoints(root string, mounts []sandbox.Mount) error {
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
	}
	return nil
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
