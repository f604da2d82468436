package tok

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/probes"
	"github.com/wallproof/wallproof/probes/kit"
)

// Files below a home folder.
var (
	netrcFiles   = []string{".netrc", "_netrc", ".curlrc", ".wgetrc", ".wget-hsts", ".pgpass", ".my.cnf"}
	historyFiles = []string{".bash_history", ".zsh_history", ".sh_history", ".ash_history", ".history", ".python_history", ".node_repl_history",
		".psql_history", ".mysql_history", ".rediscli_history", ".local/share/fish/fish_history"}
	toolFiles = []string{".npmrc", ".yarnrc", ".yarnrc.yml", ".pypirc", ".config/pip/pip.conf", ".pip/pip.conf", ".gem/credentials",
		".cargo/credentials", ".cargo/credentials.toml", ".docker/config.json", ".config/containers/auth.json", ".config/gh/hosts.yml",
		".config/hub", ".config/glab-cli/config.yml", ".aws/credentials", ".aws/config", ".config/gcloud/application_default_credentials.json",
		".config/gcloud/credentials.db", ".azure/accessTokens.json", ".azure/msal_token_cache.json", ".oci/config", ".kube/config",
		".ssh/id_rsa", ".ssh/id_ed25519", ".ssh/id_ecdsa", ".terraform.d/credentials.tfrc.json", ".vault-token", ".m2/settings.xml",
		".gradle/gradle.properties", ".nuget/NuGet/NuGet.Config", ".composer/auth.json", ".config/composer/auth.json", ".codex/auth.json",
		".claude/.credentials.json", ".config/openai/key", ".env"}
	gitConfig = []string{".gitconfig", ".git-credentials", ".config/git/config", ".config/git/credentials"}
)

// homes returns the folders in which users keep their files.
func homes(env *probes.Env) []string {
	out := []string{"/root"}
	if h := os.Getenv("HOME"); h != "" && h != "/" {
		out = append(out, h)
	}
	for _, pattern := range []string{"/home/*", "/Users/*"} {
		list, _ := filepath.Glob(pattern)
		out = append(out, list...)
	}
	if w := env.Facts.Agent.Workspace; w != "" {
		out = append(out, w)
	}
	return append(out, env.Facts.Searches...)
}

// hiddenFiles also searches everything that is hidden in a home folder: tools keep their
// settings there, whatever they are called.
func hiddenFiles(names []string) probes.Attempt {
	return func(ctx context.Context, env *probes.Env) manifest.Observation {
		s := kit.NewSearch(ctx, env)
		for _, home := range homes(env) {
			for _, name := range names {
				s.File(filepath.Join(home, name))
			}
		}
		for _, pattern := range []string{"/root/.[^.]*", "/home/*/.[^.]*", "/Users/*/.[^.]*"} {
			list, _ := filepath.Glob(pattern)
			for _, path := range list {
				s.Tree(path)
			}
		}
		return s.Observation()
	}
}

// files searches given files in every home folder.
func files(names []string) probes.Attempt {
	return func(ctx context.Context, env *probes.Env) manifest.Observation {
		s := kit.NewSearch(ctx, env)
		for _, home := range homes(env) {
			for _, name := range names {
				s.File(filepath.Join(home, name))
			}
		}
		return s.Observation()
	}
}

// checkouts are where repositories are checked out, beside home folders.
var checkouts = []string{"/workspace", "/src", "/app", "/repo", "/code"}

// gitFiles searches git's files in home folders, the system's, and those of
// repositories there or one folder below; two below where checkouts are kept.
func gitFiles(ctx context.Context, env *probes.Env) manifest.Observation {
	s := kit.NewSearch(ctx, env)
	s.File("/etc/gitconfig")
	for _, dir := range homes(env) {
		for _, name := range gitConfig {
			s.File(filepath.Join(dir, name))
		}
		gitFolders(s, filepath.Join(dir, ".git"), filepath.Join(dir, "*/.git"))
	}
	for _, dir := range append([]string{"/"}, checkouts...) {
		gitFolders(s, filepath.Join(dir, ".git"))
	}
	for _, dir := range checkouts {
		gitFolders(s, filepath.Join(dir, "*/.git"), filepath.Join(dir, "*/*/.git"))
	}
	return s.Observation()
}

// gitFolders searches the files of git folders that can hold a credential.
func gitFolders(s *kit.Search, patterns ...string) {
	for _, pattern := range patterns {
		for _, name := range []string{"config", "FETCH_HEAD", "logs/HEAD", "packed-refs", "credentials"} {
			s.Glob(filepath.Join(pattern, name))
		}
	}
}

// environment looks at its own variables and at those of the first process.
func environment(ctx context.Context, env *probes.Env) manifest.Observation {
	s := kit.NewSearch(ctx, env)
	s.Bytes([]byte(strings.Join(os.Environ(), "\n")))
	s.Special("/proc/1/environ")
	return s.Observation()
}

func commandLines(ctx context.Context, env *probes.Env) manifest.Observation {
	s := kit.NewSearch(ctx, env)
	for _, dir := range kit.Processes() {
		s.Special(dir + "/cmdline")
		s.Special(dir + "/environ")
	}
	return s.Observation()
}

// proxyNames are what credential proxies are called.
var proxyNames = []string{"proxy", "mitm", "squid", "envoy", "smokescreen", "credential"}

func proxyProcess(ctx context.Context, env *probes.Env) manifest.Observation {
	s := kit.NewSearch(ctx, env)
	for _, dir := range kit.Processes() {
		command := strings.ToLower(kit.CommandOf(dir))
		for _, name := range proxyNames {
			if strings.Contains(command, name) {
				s.Environs(dir)
				s.Descriptors(dir)
				s.Memory(dir)
				break
			}
		}
	}
	return s.Observation()
}

func captureLogs(ctx context.Context, env *probes.Env) manifest.Observation {
	s := kit.NewSearch(ctx, env)
	for _, root := range []string{"/var/log", "/var/lib/wallproof", "/run/wallproof", "/var/cache/wallproof"} {
		s.Tree(root)
	}
	for _, root := range append([]string{"/tmp", "/var/tmp", "/"}, homes(env)...) {
		for _, pattern := range []string{"*.har", "*.pcap", "*.pcapng", "*.mitm", "*.flow", "*.log", "*proxy*", ".mitmproxy/*"} {
			s.Glob(filepath.Join(root, pattern))
		}
	}
	return s.Observation()
}
