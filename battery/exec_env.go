package battery

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/wallproof/wallproof/battery/boundary"
	"github.com/wallproof/wallproof/battery/sandbox"
	"github.com/wallproof/wallproof/policy/proxy"
)

// AgentUser is who the agent is where neither the operator nor the image names
// an unprivileged user.
var AgentUser = sandbox.User{UID: 1000, GID: 1000}

// agentHome is the home folder of an agent whose image names none that is its
// own.
const agentHome = "/home/agent"

// imageUser reads the numeric user of an image's configuration; a name, which
// only the image itself could resolve, and an empty one mean root.
func imageUser(s string) sandbox.User {
	u, g, _ := strings.Cut(s, ":")
	uid, err := strconv.ParseUint(u, 10, 31)
	if err != nil {
		return sandbox.User{}
	}
	gid, _ := strconv.ParseUint(g, 10, 31)
	return sandbox.User{UID: uint32(uid), GID: uint32(gid)}
}

// user is who the agent is.
func (x *session) user() sandbox.User {
	if x.o.User != nil {
		return *x.o.User
	}
	if u := imageUser(x.o.Image.Config.Config.User); u.UID != 0 {
		return u
	}
	return AgentUser
}

// home is the agent's home folder: the image's, where the image is made for an
// unprivileged user.
func (x *session) home() string {
	cfg := x.o.Image.Config.Config
	if imageUser(cfg.User).UID != 0 || x.user().UID == 0 {
		for _, kv := range cfg.Env {
			if v, ok := strings.CutPrefix(kv, "HOME="); ok && filepath.IsAbs(v) && filepath.Clean(v) != "/" {
				return filepath.Clean(v)
			}
		}
	}
	if x.user().UID == 0 {
		return "/root"
	}
	return agentHome
}

// workDir is where commands run: the image's working folder, or the agent's home.
func (x *session) workDir() string {
	if d := filepath.Clean("/" + x.o.Image.Config.Config.WorkingDir); d != "/" {
		return d
	}
	return x.home()
}

// boxEnv is what the agent of a sandbox gets in its environment: the image's own
// variables, what its role may hold, and what was passed.
func (x *session) boxEnv(b *execBox) []string {
	env := slices.Clone(x.o.Image.Config.Config.Env)
	env = append(env, "HOME="+x.home())
	env = append(env, b.role.Env(x.policy, x.secrets, x.modelKey, caFile, proxyURL(b.box))...)
	env = append(env, x.noProxy(env)...)
	if b.role != proxy.RoleOrchestrator {
		env = append(env, x.o.Env...)
	}
	return lastWins(env)
}

// rootEnv is the environment of set-up and verifier: without anything of the
// vault's, which is the agent phase's alone.
func (x *session) rootEnv(b *execBox) []string {
	env := append(slices.Clone(x.o.Image.Config.Config.Env), "HOME=/root")
	env = append(env, proxy.SandboxEnv(caFile, proxyURL(b.box))...)
	return lastWins(append(env, x.o.Env...))
}

func proxyURL(b boundary.Box) string {
	return fmt.Sprintf("http://%s:%d", b.Gateway4, boundary.PortProxy)
}

// noProxy adds the run's own services, which are reached directly.
func (x *session) noProxy(env []string) []string {
	var names []string
	for _, s := range x.policy.Services {
		names = append(names, s.Name)
	}
	if len(names) == 0 {
		return nil
	}
	var out []string
	for _, kv := range env {
		if name, value, _ := strings.Cut(kv, "="); strings.EqualFold(name, "no_proxy") {
			out = append(out, name+"="+strings.Join(append([]string{value}, names...), ","))
		}
	}
	return out
}

func resolvers(box boundary.Box) []string {
	out := []string{box.Gateway4.String()}
	if box.Gateway6.IsValid() {
		out = append(out, box.Gateway6.String())
	}
	return out
}

// trust is the file of authorities that every sandbox of a run trusts: the
// image's own, or the operator's where the image has none, because what the
// proxy passes on unread has its own certificate; and one for each proxy. It is
// only ever added to, so that a sandbox that runs sees what is added.
type trust struct {
	dir    string
	stores []string // of the image, over which it is mounted
}

// maxTrust bounds a store that is read.
const maxTrust = 8 << 20

func newTrust(state, rootfs string) (*trust, error) {
	t := &trust{dir: filepath.Join(state, "trust")}
	if err := os.MkdirAll(t.dir, 0o755); err != nil {
		return nil, storage("create the folder of trusted authorities", err)
	}
	in, err := os.OpenRoot(rootfs)
	if err != nil {
		return nil, fmt.Errorf("open the root file system: %w", err)
	}
	defer in.Close()
	var own []byte
	for _, store := range proxy.TrustStores {
		info, err := in.Stat(store[1:])
		if err != nil || !info.Mode().IsRegular() {
			continue
		}
		if l, err := in.Lstat(store[1:]); err == nil && l.Mode().IsRegular() {
			t.stores = append(t.stores, store)
		}
		if own == nil && info.Size() <= maxTrust {
			if own, err = in.ReadFile(store[1:]); err != nil {
				return nil, fmt.Errorf("read the image's trusted authorities: %w", err)
			}
		}
	}
	if own == nil {
		own = hostTrust()
	}
	return t, t.add(string(own))
}

// hostTrust is the operator's store, which the proxies trust, too.
func hostTrust() []byte {
	for _, store := range proxy.TrustStores {
		if info, err := os.Stat(store); err == nil && info.Size() <= maxTrust {
			if b, err := os.ReadFile(store); err == nil {
				return b
			}
		}
	}
	return []byte{}
}

func (t *trust) file() string { return filepath.Join(t.dir, "ca.pem") }

// add appends authorities.
func (t *trust) add(pem string) error {
	f, err := os.OpenFile(t.file(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return storage("write the trusted authorities", err)
	}
	if pem != "" && !strings.HasSuffix(pem, "\n") {
		pem += "\n"
	}
	_, err = f.WriteString(pem)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return storage("write the trusted authorities", err)
	}
	return nil
}

// mounts put the file at its own place and over the stores that the image has.
// The image itself is not changed.
func (t *trust) mounts() []sandbox.Mount {
	out := []sandbox.Mount{{Source: t.dir, Target: trustMount, ReadOnly: true}}
	for _, store := range t.stores {
		out = append(out, sandbox.Mount{Source: t.file(), Target: store, ReadOnly: true})
	}
	return out
}
