package battery

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/wallproof/wallproof/battery/boundary"
	"github.com/wallproof/wallproof/battery/image"
	"github.com/wallproof/wallproof/battery/sandbox"
	"github.com/wallproof/wallproof/policy"
	"github.com/wallproof/wallproof/policy/proxy"
)

// ExecOptions say what to run inside the boundary, and under which policy.
type ExecOptions struct {
	Image   *image.Resolved
	Policy  *policy.Policy
	Driver  sandbox.Driver
	Self    []string // as Options.Self
	Hold    string   // path of wallproof-probe, the sandbox's first process
	Secrets []proxy.Secret
	// BrokerKeys are the private keys of the policy's brokers, by name.
	BrokerKeys map[string]string
	Env        []string // what is passed into the sandbox beside the policy's own
	Command    sandbox.Command
	Event      func(proxy.Event) // the proxy's record; nil drops it
	Step       func(string)      // progress; nil drops it
}

// Exec runs one command inside the boundary and returns its exit status. The
// sandbox starts only when the packet filter was verified in place; the proxy
// lives in the caller's network namespace and the router has no way out at all.
func Exec(ctx context.Context, o ExecOptions) (exit int, err error) {
	if err := execRefuse(o.Policy); err != nil {
		return 0, err
	}
	if err := enforceable(ctx, o.Policy, o.Driver); err != nil {
		return 0, err
	}
	raw := make([]byte, 4)
	if _, err := rand.Read(raw); err != nil {
		return 0, fmt.Errorf("draw a run id: %w", err)
	}
	x := &session{o: o, id: hex.EncodeToString(raw)}
	x.state = filepath.Join(StateRoot, x.id)
	release, err := boundary.Claim(x.id)
	if err != nil {
		return 0, err
	}
	defer release()
	defer func() {
		if cerr := x.close(); err == nil && cerr != nil {
			err = fmt.Errorf("put the machine back: %w", cerr)
		}
	}()
	sb, err := x.open(ctx)
	if err != nil {
		return 0, err
	}
	return sb.Exec(ctx, x.o.Command)
}

// execRefuse refuses what a policy asks for and exec cannot enforce: a policy is
// never weakened.
func execRefuse(p *policy.Policy) error {
	switch {
	case len(p.Services) > 0:
		return errors.New("the policy has services, which exec does not start; take them out, or run them elsewhere and allow their hosts")
	case p.Egress != nil:
		return errors.New("the policy sends traffic through an egress agent, which exec does not reach")
	}
	return nil
}

// enforceable refuses a policy that the driver cannot enforce, before anything
// is started.
func enforceable(ctx context.Context, p *policy.Policy, d sandbox.Driver) error {
	e, err := policy.Compile(p)
	if err != nil {
		return err
	}
	desc, err := d.Describe(ctx)
	if err != nil {
		return fmt.Errorf("use the sandbox driver: %w", err)
	}
	return e.EnforceableBy(desc.Name, desc.NetworkModes)
}

// session is the boundary around one command.
type session struct {
	o     ExecOptions
	id    string
	state string
	undo  []func(context.Context) error
}

func (x *session) step(text string) {
	if x.o.Step != nil {
		x.o.Step(text)
	}
}

func (x *session) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), cleanupTimeout)
	defer cancel()
	var errs []error
	for i := len(x.undo) - 1; i >= 0; i-- {
		errs = append(errs, x.undo[i](ctx))
	}
	return errors.Join(append(errs, os.RemoveAll(x.state))...)
}

// open builds the boundary and starts the sandbox in it.
func (x *session) open(ctx context.Context) (sandbox.Sandbox, error) {
	if err := os.MkdirAll(x.state, 0o711); err != nil {
		return nil, storage("create the run's folder", err)
	}
	x.step("unpack the image")
	rootfs := filepath.Join(x.state, "rootfs")
	if _, err := image.Unpack(ctx, x.o.Image, rootfs, image.UnpackOptions{Command: append(append([]string{}, x.o.Self...), "internal", "unpack")}); err != nil {
		return nil, err
	}
	x.step("build the boundary")
	stage, err := boundary.Build(ctx, boundary.Config{Run: x.id, Phase: "x", Boxes: []string{boxWork}, Mode: boundary.Enforced, Uplink: boundary.None, ProxyUID: proxyUID, SOCKS: true})
	if err != nil {
		return nil, err
	}
	x.undo = append(x.undo, func(context.Context) error { return stage.Close() })
	go discard(stage.Denials())
	ca, err := x.startProxy(ctx, stage)
	if err != nil {
		return nil, err
	}
	if _, err := stage.VerifyInPlace(ctx); err != nil {
		return nil, fmt.Errorf("the boundary could not be verified, so nothing is run in it: %w", err)
	}
	x.step("start the sandbox")
	box, _ := stage.Box(boxWork)
	return x.startSandbox(ctx, box, rootfs, ca)
}

func discard[T any](ch <-chan T) {
	for range ch {
	}
}

func (x *session) startProxy(ctx context.Context, stage *boundary.Stage) (string, error) {
	canonical, err := x.o.Policy.Canonical()
	if err != nil {
		return "", err
	}
	files, err := stage.Listeners()
	if err != nil {
		return "", err
	}
	defer closeFiles(files)
	listeners, err := proxyListeners(files)
	if err != nil {
		return "", err
	}
	px, err := proxy.Start(ctx, proxy.Launch{Path: x.o.Self[0], Argv: append(append([]string{}, x.o.Self...), "internal", "proxy"), UID: proxyUID, GID: proxyUID, Listeners: listeners, OnEvent: x.o.Event,
		Config: proxy.Config{RunID: x.id, Policy: string(canonical), Secrets: x.o.Secrets, BrokerKeys: x.o.BrokerKeys}})
	if err != nil {
		return "", err
	}
	x.undo = append(x.undo, px.Stop)
	return px.Ready.CAPEM, nil
}

func (x *session) startSandbox(ctx context.Context, box boundary.Box, rootfs, ca string) (sandbox.Sandbox, error) {
	mounts, err := trustMounts(x.state, rootfs, ca)
	if err != nil {
		return nil, err
	}
	tools, err := toolsFolder(x.state, x.o.Hold)
	if err != nil {
		return nil, err
	}
	cfg := x.o.Image.Config.Config
	env := environment(cfg.Env, box, x.o.Secrets)
	env = lastWins(append(env, x.o.Env...))
	spec := sandbox.Spec{ID: "wallproof-" + x.id + "-x-" + boxWork, Rootfs: rootfs, IDBase: image.IDBase, NetNS: box.NetNSPath, Env: env,
		User: imageUser(cfg.User), WorkDir: cfg.WorkingDir, Hostname: boxWork, DNS: resolvers(box),
		Mounts: append(mounts, tools), Init: []string{toolsMount + "/" + filepath.Base(x.o.Hold), "hold"},
		Limits: sandbox.Limits{MemoryBytes: x.o.Policy.Limits.Memory, Processes: x.o.Policy.Limits.Processes, DiskBytes: x.o.Policy.Limits.Disk}}
	sb, err := x.o.Driver.Start(ctx, spec)
	if err != nil {
		return nil, err
	}
	x.undo = append(x.undo, sb.Stop)
	if len(x.o.Command.Env) == 0 {
		x.o.Command.Env = env
	}
	return sb, nil
}

// imageUser reads the numeric user of an image's configuration; a name, which
// only the image itself could resolve, and an empty one mean root, the strongest
// attacker.
func imageUser(s string) sandbox.User {
	u, g, _ := strings.Cut(s, ":")
	uid, err := strconv.ParseUint(u, 10, 31)
	if err != nil {
		return sandbox.User{}
	}
	gid, _ := strconv.ParseUint(g, 10, 31)
	return sandbox.User{UID: uint32(uid), GID: uint32(gid)}
}

func resolvers(box boundary.Box) []string {
	out := []string{box.Gateway4.String()}
	if box.Gateway6.IsValid() {
		out = append(out, box.Gateway6.String())
	}
	return out
}

// trustMounts writes the authorities that the sandbox trusts and mounts them at
// their own place and over the trust stores that the image has. The image itself
// is not changed.
func trustMounts(state, rootfs, ca string) ([]sandbox.Mount, error) {
	dir := filepath.Join(state, "trust")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, storage("create the folder of trusted authorities", err)
	}
	file := filepath.Join(dir, "ca.pem")
	if err := os.WriteFile(file, []byte(ca), 0o644); err != nil {
		return nil, storage("write the trusted authorities", err)
	}
	mounts := []sandbox.Mount{{Source: dir, Target: trustMount, ReadOnly: true}}
	root, err := os.OpenRoot(rootfs)
	if err != nil {
		return nil, fmt.Errorf("open the root file system: %w", err)
	}
	defer root.Close()
	for _, store := range trustStores {
		if info, err := root.Lstat(store[1:]); err == nil && info.Mode().IsRegular() {
			mounts = append(mounts, sandbox.Mount{Source: file, Target: store, ReadOnly: true})
		}
	}
	return mounts, nil
}

// toolsFolder puts our own binaries where every sandbox finds them, read-only.
func toolsFolder(state string, binaries ...string) (sandbox.Mount, error) {
	dir := filepath.Join(state, "tools")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return sandbox.Mount{}, storage("create the folder of tools", err)
	}
	for _, b := range binaries {
		if err := copyFile(b, filepath.Join(dir, filepath.Base(b))); err != nil {
			return sandbox.Mount{}, err
		}
	}
	return sandbox.Mount{Source: dir, Target: toolsMount, ReadOnly: true}, nil
}

func copyFile(from, to string) error {
	if _, err := os.Stat(to); err == nil {
		return nil
	}
	in, err := os.Open(from)
	if err != nil {
		return fmt.Errorf("read a tool: %w", err)
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755)
	if err != nil {
		return storage("copy a tool", err)
	}
	_, err = io.Copy(out, in)
	if err = errors.Join(err, out.Close()); err != nil {
		return storage("copy a tool", err)
	}
	return nil
}
