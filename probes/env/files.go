package env

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/probes"
	"github.com/wallproof/wallproof/probes/kit"
	"github.com/wallproof/wallproof/probes/paths"
)

var (
	systemFiles = []string{"/etc/shadow", "/etc/gshadow", "/etc/ssh/ssh_host_*_key", "/etc/kubernetes/*.conf", "/etc/kubernetes/pki/*",
		"/var/lib/kubelet/kubeconfig", "/var/lib/kubelet/pki/*", "/etc/rancher/k3s/k3s.yaml", "/var/lib/rancher/k3s/server/token",
		"/etc/docker/daemon.json", "/etc/containerd/*", "/etc/sssd/*", "/etc/krb5.keytab", "/etc/ssl/private/*", "/etc/wireguard/*", "/etc/openvpn/*"}
	profileFiles = []string{"/etc/environment", "/etc/profile", "/etc/profile.d/*", "/etc/default/*", "/etc/security/pam_env.conf", "/root/.profile",
		"/root/.bashrc", "/root/.bash_profile", "/root/.zshrc", "/home/*/.profile", "/home/*/.bashrc", "/.dockerenv", "/run/.containerenv",
		"/etc/systemd/system/*.service", "/etc/systemd/system/*.d/*.conf", "/run/credentials/*/*"}
	cloudFiles = []string{"/var/lib/cloud/instance/*.txt", "/var/lib/cloud/instances/*/*", "/var/lib/cloud/seed/*/*", "/run/cloud-init/*",
		"/var/log/cloud-init*.log", "/var/lib/waagent/*", "/etc/cloud/*", "/etc/ec2_version", "/var/lib/google/*"}
	backupFiles = []string{"/var/backups/*", "/etc/*~", "/etc/*.bak", "/etc/*.old", "/etc/*.orig", "/root/*.bak", "/root/*.old", "/root/*.sql",
		"/root/*.tar", "/root/*.tgz", "/root/*.gz", "/*.bak", "/*.sql", "/*.tar", "/srv/*.bak", "/opt/*.bak"}
)

func globs(patterns ...string) probes.Attempt {
	return func(ctx context.Context, env *probes.Env) manifest.Observation {
		s := kit.NewSearch(ctx, env)
		s.Glob(patterns...)
		return s.Observation()
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

// shapes match the keys of well-known providers, tokens, and private keys, each
// with what follows up to the end of the line.
var shapes = regexp.MustCompile(`(AKIA|ASIA|ghp_|gho_|ghs_|github_pat_|glpat-|sk-|sk_live_|rk_live_|xox[abps]-|AIza|ya29\.|npm_|pypi-|dop_v1_|hf_|eyJhbGciOi|-----BEGIN [A-Z ]*PRIVATE KEY)[^\n]*`)

// keyShapes searches configuration, and of each file only what looks like a key.
func keyShapes(ctx context.Context, env *probes.Env) manifest.Observation {
	s := kit.NewSearch(ctx, env)
	for _, pattern := range []string{"/etc/*", "/etc/*/*", "/usr/local/etc/*", "/usr/local/etc/*/*", "/root/*", "/root/.*", "/home/*/*", "/*.json", "/*.yml", "/*.yaml", "/*.toml"} {
		list, _ := filepath.Glob(pattern)
		for _, path := range list {
			info, err := os.Stat(path)
			if err != nil || !info.Mode().IsRegular() || s.Done() {
				continue
			}
			b, err := kit.ReadHead(path, 1<<20)
			if err != nil {
				s.Miss(err)
				continue
			}
			if found := shapes.FindAll(b, 64); found != nil {
				s.Bytes(bytes.Join(found, []byte("\n")))
			}
		}
	}
	return s.Observation()
}

// mounts searches whatever is mounted besides the root, with the known place of
// host folders, which not every runtime lists.
func mounts(ctx context.Context, env *probes.Env) manifest.Observation {
	s := kit.NewSearch(ctx, env)
	for _, point := range []string{env.Facts.Local.HostMount, "/host", "/hostfs", "/rootfs", "/mnt"} {
		if point != "" {
			s.Tree(point)
		}
	}
	for _, m := range kit.Mounts() {
		if strings.HasPrefix(m.Point, "/dev") {
			continue
		}
		if info, err := os.Stat(m.Point); err == nil && info.IsDir() {
			s.Tree(m.Point)
		} else {
			s.File(m.Point)
		}
	}
	return s.Observation()
}

// memoryDevices are character devices that are memory; others may block, never
// end, or do something when read.
var memoryDevices = regexp.MustCompile(`^/dev/(mem|kmem|port|oldmem|pmem.*|nvram)$`)

func devices(ctx context.Context, env *probes.Env) manifest.Observation {
	s := kit.NewSearch(ctx, env)
	list, _ := filepath.Glob("/dev/*")
	more, _ := filepath.Glob("/dev/*/*")
	for _, path := range append(list, more...) {
		info, err := os.Lstat(path)
		if err != nil {
			s.Miss(err)
			continue
		}
		mode := info.Mode()
		block := mode&os.ModeDevice != 0 && mode&os.ModeCharDevice == 0
		if mode.IsRegular() && !strings.HasPrefix(path, "/dev/shm/") || block || memoryDevices.MatchString(path) {
			s.Special(path)
		}
	}
	s.Special("/proc/kcore")
	return s.Observation()
}

func orchestrator(ctx context.Context, env *probes.Env) manifest.Observation {
	s := kit.NewSearch(ctx, env)
	own := os.Environ()
	if b, err := kit.ReadHead("/proc/1/environ", 1<<20); err == nil {
		own = append(own, strings.Split(string(b), "\x00")...)
	}
	for _, kv := range own {
		if name, _, ok := strings.Cut(kv, "="); ok && paths.Steering(name) {
			s.Bytes([]byte(kv))
		}
	}
	s.Glob(kit.PlatformFiles...)
	return s.Observation()
}

func serviceAccounts(ctx context.Context, env *probes.Env) manifest.Observation {
	s := kit.NewSearch(ctx, env)
	for _, root := range []string{"/var/run/secrets", "/run/secrets"} {
		s.Tree(root)
	}
	for _, name := range []string{"AWS_WEB_IDENTITY_TOKEN_FILE", "AZURE_FEDERATED_TOKEN_FILE", "GOOGLE_APPLICATION_CREDENTIALS", "VAULT_TOKEN_FILE"} {
		if path := os.Getenv(name); path != "" {
			s.File(path)
		}
	}
	return s.Observation()
}

// applications searches folders in which an image or its user keeps programs and
// their settings. Large trees are cut at the search's bounds.
func applications(ctx context.Context, env *probes.Env) manifest.Observation {
	s := kit.NewSearch(ctx, env)
	for _, root := range []string{"/app", "/opt", "/srv", "/usr/src/app", "/usr/local/etc", "/config", "/workspace"} {
		s.Tree(root)
	}
	return s.Observation()
}
