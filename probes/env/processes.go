package env

import (
	"context"
	"os"
	"path/filepath"

	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/probes"
	"github.com/wallproof/wallproof/probes/kit"
)

// each does something for every other process.
func each(ctx context.Context, env *probes.Env, look func(s *kit.Search, dir string)) manifest.Observation {
	s := kit.NewSearch(ctx, env)
	for _, dir := range kit.Processes() {
		look(s, dir)
	}
	return s.Observation()
}

func environs(ctx context.Context, env *probes.Env) manifest.Observation {
	return each(ctx, env, func(s *kit.Search, dir string) { s.Special(dir + "/environ") })
}

// tasks is case B18: the same by way of threads.
func tasks(ctx context.Context, env *probes.Env) manifest.Observation {
	return each(ctx, env, func(s *kit.Search, dir string) {
		list, _ := filepath.Glob(dir + "/task/*/environ")
		for _, path := range list {
			s.Special(path)
		}
	})
}

func commandLines(ctx context.Context, env *probes.Env) manifest.Observation {
	return each(ctx, env, func(s *kit.Search, dir string) { s.Special(dir + "/cmdline") })
}

func memory(ctx context.Context, env *probes.Env) manifest.Observation {
	return each(ctx, env, (*kit.Search).Memory)
}

func descriptors(ctx context.Context, env *probes.Env) manifest.Observation {
	return each(ctx, env, (*kit.Search).Descriptors)
}

// above is how many folders are gone up from one that a process has open: as
// many as CVE-2024-21626 needed.
const above = 8

func directories(ctx context.Context, env *probes.Env) manifest.Observation {
	s := kit.NewSearch(ctx, env)
	s.Links("cwd", above)
	for _, dir := range append(kit.Processes(), "/proc/self") {
		for _, folder := range kit.OpenFolders(dir) {
			s.Folder(folder, above)
		}
	}
	return s.Observation()
}

func roots(ctx context.Context, env *probes.Env) manifest.Observation {
	s := kit.NewSearch(ctx, env)
	s.Links("root", 0)
	return s.Observation()
}

// listKeys is SSH2_AGENTC_REQUEST_IDENTITIES of the SSH agent protocol.
var listKeys = []byte{0, 0, 0, 1, 11}

func keyAgents(ctx context.Context, env *probes.Env) manifest.Observation {
	var list []string
	if path := os.Getenv("SSH_AUTH_SOCK"); path != "" {
		list = append(list, path)
	}
	for _, pattern := range []string{"/tmp/ssh-*/agent.*", "/run/user/*/ssh-agent.socket", "/run/user/*/gnupg/S.gpg-agent*",
		"/root/.gnupg/S.gpg-agent*", "/run/host-services/ssh-auth.sock", "/run/user/*/keyring/ssh"} {
		found, _ := filepath.Glob(pattern)
		list = append(list, found...)
	}
	return kit.AskSockets(ctx, list, listKeys)
}
