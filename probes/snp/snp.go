// Package snp holds the attempts of the vector SNP: searches, in a fresh and in
// a restored sandbox, for what an earlier run held. What each one means is in
// probes/catalog.
package snp

import (
	"context"
	"path/filepath"

	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/probes"
	"github.com/wallproof/wallproof/probes/kit"
	"github.com/wallproof/wallproof/probes/plant"
)

// Attempts returns the attempts of this vector by technique id.
func Attempts() map[string]probes.Attempt {
	return map[string]probes.Attempt{
		"SNP-FILE":       trees("/root", "/home", "/workspace", "/srv", "/var/lib/wallproof", "/etc"),
		"SNP-TMPFS":      kit.OrLike(trees("/tmp", "/var/tmp", "/dev/shm", "/run"), `/(te?mp|shm|run|lock)/`),
		"SNP-DELETED":    processes((*kit.Search).Descriptors),
		"SNP-MEMORY":     processes((*kit.Search).Memory),
		"SNP-ENVIRON":    processes(environ),
		"SNP-SHM":        segments,
		"SNP-SOCKET":     sockets,
		"SNP-PIPE":       processes((*kit.Search).Pipes),
		"SNP-LAYER":      kit.OrLike(trees("/usr/local", "/opt", "/usr/share/wallproof", "/var/lib/app", "/app"), `^/(usr|lib[^/]*|s?bin|opt|app|var/lib)/`),
		"SNP-CORE":       kit.OrLike(globs("/core*", "/*/core", "/*/core.*", "/var/crash/*", "/var/lib/systemd/coredump/*", "/tmp/core*", "/var/core/*"), `(?i)/core([.-][^/]*)?$|[.-](core|dmp|mdmp|hprof)([.-][^/]*)?$|/[^/]*(crash|core-?dump|mini-?dump)[^/]*`),
		"SNP-CHECKPOINT": kit.OrLike(globs("/*.img", "/checkpoint/*", "/snapshot/*", "/var/lib/wallproof/*.img", "/var/lib/checkpoint/*", "/.checkpoint/*"), `(?i)\.(img|ckpt|snap|vmsave|vmem|qcow2|criu)$|/[^/]*(checkpoint|snapshot|criu)[^/]*`),
		"SNP-HISTORY":    kit.OrLike(history, `(?i)/[^/]*(history|_hist|lesshst|viminfo)[^/]*$|\.sw[a-p]$|~$|/\.#|\.orig$`),
		"SNP-EVERY-FILE": everything,
		"SNP-RANDOM":     random,

		"SNP-SWAP":         kit.OrLike(swap, `(?i)/[^/]*(swap|zram)[^/]*$`),
		"SNP-CORE-PATTERN": corePattern,
		"SNP-ARCHIVE":      archive,
		"SNP-IMAGE":        image,
		"SNP-AT-REST":      atRest,
	}
}

func trees(roots ...string) probes.Attempt {
	return func(ctx context.Context, env *probes.Env) manifest.Observation {
		s := kit.NewSearch(ctx, env)
		for _, root := range roots {
			s.Tree(root)
		}
		return s.Observation()
	}
}

func globs(patterns ...string) probes.Attempt {
	return func(ctx context.Context, env *probes.Env) manifest.Observation {
		s := kit.NewSearch(ctx, env)
		s.Glob(patterns...)
		return s.Observation()
	}
}

func processes(look func(s *kit.Search, dir string)) probes.Attempt {
	return func(ctx context.Context, env *probes.Env) manifest.Observation {
		s := kit.NewSearch(ctx, env)
		for _, dir := range kit.Processes() {
			look(s, dir)
		}
		return s.Observation()
	}
}

func environ(s *kit.Search, dir string) {
	s.Environs(dir)
	s.Special(dir + "/cmdline")
}

func segments(ctx context.Context, env *probes.Env) manifest.Observation {
	s := kit.NewSearch(ctx, env)
	s.Segments(plant.PriorKey)
	return s.Observation()
}

func sockets(ctx context.Context, env *probes.Env) manifest.Observation {
	return kit.AskSockets(ctx, append([]string{"@" + plant.PriorSocket}, kit.UnixSockets()...), kit.Probe(env))
}

func history(ctx context.Context, env *probes.Env) manifest.Observation {
	s := kit.NewSearch(ctx, env)
	for _, home := range []string{"/root", "/home/*", "/workspace", env.Facts.Agent.Workspace} {
		if home == "" {
			continue
		}
		for _, pattern := range []string{".*_history", ".history", ".viminfo", ".lesshst", ".*.sw?", "*~", ".#*", "*.orig"} {
			s.Glob(filepath.Join(home, pattern))
		}
	}
	return s.Observation()
}
