package env

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/probes"
	"github.com/wallproof/wallproof/probes/kit"
	"github.com/wallproof/wallproof/probes/plant"
	"golang.org/x/sys/unix"
)

// interfaces returns the kernel's files that match patterns, and those that the
// control plants as if they were.
func interfaces(patterns []string) []string {
	var out []string
	for _, root := range []string{"/", plant.KernelRoot} {
		for _, p := range patterns {
			list, _ := filepath.Glob(filepath.Join(root, p))
			out = append(out, list...)
		}
	}
	return out
}

// writable opens files of the kernel's for writing, writes nothing, and reads
// those that it could open. Whoever can write to one of steering's has the host,
// where the kernel is the host's: that wall is not there. Nor is it where the mount may
// be written to and only who one is keeps one from it. Of the kernel of a sandbox's
// own, and of what only helps (more), it is an exposure, which the detail tells.
func writable(steering []string, more ...string) probes.Attempt {
	return func(ctx context.Context, env *probes.Env) manifest.Observation {
		s := kit.NewSearch(ctx, env)
		var unhidden []string
		open := func(patterns []string) (out []string) {
			for _, path := range interfaces(patterns) {
				fd, err := unix.Open(path, unix.O_WRONLY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
				if errors.Is(err, fs.ErrPermission) && !planted(path) && ofKernel(path) && !readOnly(path) && env.Facts.Local.HostKernel {
					unhidden = append(unhidden, path)
				}
				if err != nil {
					s.Miss(&os.PathError{Op: "open", Path: path, Err: err})
					continue
				}
				unix.Close(fd)
				out = append(out, path)
				s.Special(path)
			}
			return out
		}
		has := open(steering)
		wall := unhidden
		helps := open(more)
		o := s.Observation()
		switch {
		case len(has) > 0 && env.Facts.Local.HostKernel:
			o.Sign, o.Detail = manifest.SignReached, "the host's kernel is steered by "+strings.Join(has, " ")+", which can be written"
		case len(wall) > 0:
			o.Sign, o.Detail = manifest.SignReached, "the mount of "+strings.Join(wall, " ")+" is not read-only: only the ids inside keep the host's kernel from being steered"
		case len(has)+len(helps) > 0:
			o.Detail = kit.Exposure + strings.Join(append(has, helps...), " ") + " can be written"
		}
		return o
	}
}

// planted reports whether a file is the control's look-alike.
func planted(path string) bool { return strings.HasPrefix(path, plant.KernelRoot) }

// readable reads files of the kernel's.
func readable(patterns ...string) probes.Attempt {
	return func(ctx context.Context, env *probes.Env) manifest.Observation {
		s := kit.NewSearch(ctx, env)
		for _, path := range interfaces(patterns) {
			s.Special(path)
		}
		return s.Observation()
	}
}
