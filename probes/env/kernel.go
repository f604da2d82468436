package env

import (
	"context"
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
// those that it could open. One of the kernel's own that could be opened is no
// canary, but an exposure, which the detail tells.
func writable(patterns ...string) probes.Attempt {
	return func(ctx context.Context, env *probes.Env) manifest.Observation {
		s := kit.NewSearch(ctx, env)
		var open []string
		for _, path := range interfaces(patterns) {
			fd, err := unix.Open(path, unix.O_WRONLY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
			if err != nil {
				s.Miss(&os.PathError{Op: "open", Path: path, Err: err})
				continue
			}
			unix.Close(fd)
			open = append(open, path)
			s.Special(path)
		}
		o := s.Observation()
		if len(open) > 0 {
			o.Detail = kit.Exposure + strings.Join(open, " ") + " can be written"
		}
		return o
	}
}

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
