package snp

import (
	"bufio"
	"bytes"
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/probes"
	"github.com/wallproof/wallproof/probes/kit"
	"github.com/wallproof/wallproof/probes/plant"
)

// Bounds of what is read of a swap area, which holds pages in no order.
const (
	maxSwap  = 64 << 20
	swapStep = 1 << 20
)

// swap reads what the kernel says that it swaps to, and what commonly is swapped to.
func swap(ctx context.Context, env *probes.Env) manifest.Observation {
	s := kit.NewSearch(ctx, env)
	list := []string{plant.PriorSwap}
	if b, err := kit.ReadHead("/proc/swaps", 64<<10); err == nil {
		for line := range strings.SplitSeq(string(b), "\n") {
			if fields := strings.Fields(line); len(fields) > 1 && strings.HasPrefix(fields[0], "/") {
				list = append(list, fields[0])
			}
		}
	}
	for _, pattern := range []string{"/swapfile*", "/*.swap", "/var/swap*", "/var/vm/*", "/dev/zram*", "/dev/dm-*"} {
		found, _ := filepath.Glob(pattern)
		list = append(list, found...)
	}
	for _, path := range list {
		s.Pages(path, maxSwap, swapStep)
	}
	return s.Observation()
}

// corePattern reads where dumps go (core(5)). A pattern with a slash is a path in which
// the words that begin with a percent sign vary; one without is a name in whatever
// folder the program was in; one with a bar hands the dump to a program.
func corePattern(ctx context.Context, env *probes.Env) manifest.Observation {
	s := kit.NewSearch(ctx, env)
	for _, root := range []string{"", plant.KernelRoot} {
		pattern := "core" // where the kernel does not say, it is this
		if b, err := kit.ReadHead(root+"/proc/sys/kernel/core_pattern", 4<<10); err == nil {
			s.Bytes(b)
			pattern = strings.TrimSpace(string(b))
		} else if s.Miss(err); root != "" {
			continue
		}
		switch {
		case strings.HasPrefix(pattern, "|"), pattern == "":
		case strings.HasPrefix(pattern, "/"):
			s.Glob(wild(pattern), wild(pattern)+".*")
		default:
			for _, dir := range []string{"/", "/root", "/tmp", "/workspace", "/home/*", "/app", "/srv"} {
				s.Glob(filepath.Join(dir, wild(pattern)), filepath.Join(dir, wild(pattern)+".*"))
			}
		}
	}
	return s.Observation()
}

// wild is a pattern of dumps as one of file names.
func wild(pattern string) string {
	var out strings.Builder
	for r := bufio.NewReader(bytes.NewReader([]byte(pattern))); ; {
		c, err := r.ReadByte()
		if err != nil {
			return out.String()
		}
		switch {
		case c != '%':
			out.WriteByte(c)
		default:
			if next, err := r.ReadByte(); err == nil && next == '%' {
				out.WriteByte('%')
			} else {
				out.WriteByte('*')
			}
		}
	}
}

// maxArchive bounds how many entries of the file system are looked at.
const maxArchive = 50000

// archive looks at what only a restored archive could have made here: programs that
// change the user, devices, and links. What is secret in one is the earlier run's.
func archive(ctx context.Context, env *probes.Env) manifest.Observation {
	s := kit.NewSearch(ctx, env)
	left := maxArchive
	_ = filepath.WalkDir("/", func(path string, d fs.DirEntry, err error) error {
		switch {
		case ctx.Err() != nil || left == 0:
			return fs.SkipAll
		case err != nil:
			s.Miss(err)
			return fs.SkipDir
		case path == "/proc" || path == "/sys" || path == "/dev" || path == env.Facts.Local.ProbeMount:
			return fs.SkipDir
		}
		left--
		info, err := d.Info()
		if err != nil {
			s.Miss(err)
			return nil
		}
		switch mode := info.Mode(); {
		case mode&os.ModeSymlink != 0:
			if target, err := os.Readlink(path); err == nil {
				s.Bytes([]byte(path + " " + target))
			}
		case mode.IsRegular() && mode&(os.ModeSetuid|os.ModeSetgid) != 0:
			s.File(path)
		case mode&os.ModeDevice != 0:
			s.Bytes([]byte(path))
			s.Special(path)
		}
		return nil
	})
	return s.Observation()
}

// image searches what an image says of itself and hides.
func image(ctx context.Context, env *probes.Env) manifest.Observation {
	if env.Facts.Local.Image == "" {
		return kit.Missing("the image's configuration is not at hand")
	}
	s := kit.NewSearch(ctx, env)
	s.Bytes([]byte(env.Facts.Local.Image))
	return kit.Worse(s.Observation(), kit.CanaryOnly(kit.Told(env.Facts.Local.Layers)))
}

// atRest: the checkpoint's files were looked at where they lie.
func atRest(_ context.Context, env *probes.Env) manifest.Observation {
	return kit.Told(env.Facts.Local.AtRest)
}
