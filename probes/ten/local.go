package ten

import (
	"context"
	"path/filepath"

	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/probes"
	"github.com/wallproof/wallproof/probes/kit"
	"github.com/wallproof/wallproof/probes/plant"
)

// trees searches all files below folders.
func trees(ctx context.Context, env *probes.Env, roots ...string) manifest.Observation {
	s := kit.NewSearch(ctx, env)
	for _, root := range roots {
		if root != "" {
			s.Tree(root)
		}
	}
	return s.Observation()
}

// each does something for every other process.
func each(ctx context.Context, env *probes.Env, look func(s *kit.Search, dir string)) manifest.Observation {
	s := kit.NewSearch(ctx, env)
	for _, dir := range kit.Processes() {
		look(s, dir)
	}
	return s.Observation()
}

func shared(ctx context.Context, env *probes.Env) manifest.Observation {
	roots := []string{plant.SharedMount, env.Facts.Tenant.Shared, "/mnt/shared", "/data", "/volumes", "/vol"}
	for _, m := range kit.Mounts() {
		roots = append(roots, m.Point)
	}
	return trees(ctx, env, roots...)
}

func caches(ctx context.Context, env *probes.Env) manifest.Observation {
	return trees(ctx, env, plant.CacheMount, "/var/cache", "/root/.cache", "/cache", "/go/pkg/mod/cache", "/root/.npm/_cacache")
}

func temporary(ctx context.Context, env *probes.Env) manifest.Observation {
	return trees(ctx, env, "/tmp", "/var/tmp")
}

func sharedMemory(ctx context.Context, env *probes.Env) manifest.Observation {
	return trees(ctx, env, "/dev/shm", "/run/shm")
}

func segments(ctx context.Context, env *probes.Env) manifest.Observation {
	s := kit.NewSearch(ctx, env)
	s.Segments(plant.NeighbourKey)
	return s.Observation()
}

// abstractSocket asks the neighbour by the name that it is known to use, and
// every other abstract socket in sight.
func abstractSocket(ctx context.Context, env *probes.Env) manifest.Observation {
	list := []string{"@" + plant.NeighbourSocket}
	for _, name := range kit.UnixSockets() {
		if name[0] == '@' && name != list[0] {
			list = append(list, name)
		}
	}
	return kit.AskSockets(ctx, list, kit.Probe(env))
}

func queue(ctx context.Context, env *probes.Env) manifest.Observation {
	s := kit.NewSearch(ctx, env)
	if b, err := kit.Queue(plant.NeighbourQueue); err != nil {
		s.Miss(err)
	} else {
		s.Bytes(b)
	}
	list, _ := filepath.Glob("/dev/mqueue/*")
	for _, path := range list {
		if b, err := kit.Queue(filepath.Base(path)); err == nil {
			s.Bytes(b)
		}
		s.File(path)
	}
	return s.Observation()
}

func keyring(ctx context.Context, env *probes.Env) manifest.Observation {
	s := kit.NewSearch(ctx, env)
	s.Keys(plant.NeighbourKeyName)
	return s.Observation()
}

func processes(ctx context.Context, env *probes.Env) manifest.Observation {
	return each(ctx, env, func(s *kit.Search, dir string) {
		s.Special(dir + "/cmdline")
		s.Special(dir + "/environ")
	})
}

func memory(ctx context.Context, env *probes.Env) manifest.Observation {
	return each(ctx, env, (*kit.Search).Memory)
}

func descriptors(ctx context.Context, env *probes.Env) manifest.Observation {
	return each(ctx, env, (*kit.Search).Descriptors)
}

func roots(ctx context.Context, env *probes.Env) manifest.Observation {
	s := kit.NewSearch(ctx, env)
	for _, dir := range kit.Processes() {
		for _, place := range []string{plant.NeighbourTmp, plant.NeighbourVarTmp, plant.NeighbourHome} {
			s.File(dir + "/root" + place)
		}
		s.Folder(dir+"/cwd", 0)
	}
	return s.Observation()
}

func stale(ctx context.Context, env *probes.Env) manifest.Observation {
	return trees(ctx, env, "/root", "/home", "/workspace", "/run", "/srv", "/opt/app", env.Facts.Agent.Workspace)
}
