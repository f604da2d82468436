package battery

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/wallproof/wallproof/battery/image"
	"github.com/wallproof/wallproof/battery/sandbox"
	"github.com/wallproof/wallproof/policy/proxy"
	"github.com/wallproof/wallproof/probes"
	"github.com/wallproof/wallproof/probes/catalog"
	"github.com/wallproof/wallproof/probes/nonce"
	"github.com/wallproof/wallproof/probes/plant"
	"golang.org/x/sync/errgroup"
)

// plantTimeout bounds how long a planting may take until it stands.
const plantTimeout = 30 * time.Second

// sandboxLimits bound every sandbox of a run.
var sandboxLimits = sandbox.Limits{MemoryBytes: 1 << 30, Processes: 512, DiskBytes: 1 << 30}

// root is the user that plants and probes run as: the strongest attacker that a
// container can be.
var root = sandbox.User{}

// planting is what stands where in this phase.
func (p *phase) planting() plant.Planting {
	if p.attacking() {
		return p.r.opt.Breaks.planting(p, plant.Attack(p.canaries.plant()))
	}
	return plant.Control(p.canaries.plant())
}

// startSandboxes starts the phase's sandboxes side by side, each with what is
// planted in it.
func (p *phase) startSandboxes(ctx context.Context) error {
	var err error
	p.since = time.Now().UnixMilli()
	if p.mounts, err = trustMounts(p.dir, p.r.rootfs, p.caPEM); err != nil {
		return err
	}
	tools, err := toolsFolder(p.dir, p.r.opt.Probe, p.r.opt.Agent)
	if err != nil {
		return err
	}
	p.mounts = append(p.mounts, tools)
	planting := p.planting()
	if err := p.plantOutside(planting.Host); err != nil {
		return err
	}
	g, gctx := errgroup.WithContext(ctx)
	for _, b := range []struct {
		name  string
		place plant.Place
	}{{boxTenant, planting.Tenant}, {boxWork, planting.Work}, {boxAgent, planting.Agent}, {boxImage, plant.Place{}}} {
		if !p.r.needs(b.name) {
			continue
		}
		g.Go(func() error {
			if err := p.startBox(gctx, b.name, b.place); err != nil {
				return fmt.Errorf("%s: %w", b.name, err)
			}
			return nil
		})
	}
	return g.Wait()
}

// startBox starts one networked sandbox and plants in it.
func (p *phase) startBox(ctx context.Context, name string, place plant.Place) error {
	box, ok := p.stage.Box(name)
	if !ok {
		return errors.New("the boundary has no such box")
	}
	secrets := p.canaries.own
	if name == boxTenant {
		secrets = p.canaries.tenant
	}
	if !p.attacking() {
		secrets = secrets.bare()
	}
	cfg := p.r.opt.Image.Config.Config
	env := environment(cfg.Env, box, secrets)
	if m := p.r.policy.Model; m != nil && name != boxTenant {
		env = append(env, proxy.ModelEnv(p.r.policy, p.modelKey(m))...)
	}
	spec := p.spec(name, place)
	switch name {
	case boxImage:
		spec.Limits = imageLimits
	case boxWork:
		first, err := p.first()
		if err != nil {
			return err
		}
		spec.Init = append(spec.Init, first...)
	}
	spec.NetNS, spec.DNS = box.NetNSPath, resolvers(box)
	spec.OwnHosts, spec.Hosts = p.r.named != nil, p.hostsFile(box)
	spec.Env = withoutRuntime(lastWins(append(env, place.Env...)))
	return p.startAndPlant(ctx, name, spec, place)
}

// first is the argument that has the work sandbox's first process make attempts
// before anything else runs there; none where the policy or the stack leaves no such
// attempt.
func (p *phase) first() ([]string, error) {
	unmet := p.r.roles.parts.Unmet()
	f := probes.First{Outside: p.outside().Outside}
	for _, t := range p.r.techniques {
		for _, v := range t.Variants {
			if v != catalog.FirstV4 && v != catalog.FirstV6 {
				continue
			}
			pl := planned{technique: t, variant: v, stage: t.StageOf(v)}
			if missing, _ := unmet.First(t, v); missing != "" {
				continue
			}
			if has6, _ := p.stage.IPv6(); v == catalog.FirstV6 && !has6 {
				continue
			}
			f.Items = append(f.Items, probes.Item{Technique: t.ID, Variant: v, Nonce: p.r.nonceOf(pl, p.name)})
		}
	}
	if len(f.Items) == 0 {
		return nil, nil
	}
	raw, err := json.Marshal(f)
	if err != nil {
		return nil, fmt.Errorf("encode the first attempts: %w", err)
	}
	return []string{string(raw)}, nil
}

// spec is what all sandboxes of a phase have in common.
func (p *phase) spec(name string, place plant.Place) sandbox.Spec {
	return sandbox.Spec{
		ID: fmt.Sprintf("wallproof-%s-%s-%s", p.r.id, p.letter, name), Rootfs: p.r.rootfs, IDBase: image.IDBase,
		User: root, WorkDir: "/", Hostname: name, Mounts: p.mounts, Limits: sandboxLimits,
		Env: withoutRuntime(lastWins(append(append([]string{}, p.r.opt.Image.Config.Config.Env...), place.Env...))), Init: []string{tool(p.r.opt.Probe), "hold"},
	}
}

// startAndPlant starts a sandbox and plants what belongs into it before anything
// else runs there.
func (p *phase) startAndPlant(ctx context.Context, name string, spec sandbox.Spec, place plant.Place) error {
	shared, err := p.sharedMounts(place.Mounts)
	if err != nil {
		return err
	}
	spec.Mounts = append(append([]sandbox.Mount{}, spec.Mounts...), shared...)
	if err := p.r.opt.Breaks.spec(p, name, &spec); err != nil {
		return err
	}
	if err := p.r.halts.pass(ctx); err != nil {
		return err
	}
	sb, err := p.r.opt.Driver.Start(ctx, spec)
	if err != nil {
		return err
	}
	p.r.halts.add(sb)
	p.mu.Lock()
	p.sandboxes[name], p.env[name] = sb, spec.Env
	p.undo = append(p.undo, func(ctx context.Context) error { p.r.halts.remove(sb); return sb.Stop(ctx) })
	p.mu.Unlock()
	return p.plant(ctx, name, sb, spec.Env, place)
}

// plant seeds a sandbox and starts what serves in it.
func (p *phase) plant(ctx context.Context, name string, sb sandbox.Sandbox, env []string, place plant.Place) error {
	if place.Seed != nil {
		if err := p.leaveRunning(ctx, name, sb, env, "seed", place.Seed, ""); err != nil {
			return err
		}
	}
	if place.Serve == nil {
		return nil
	}
	serve := *place.Serve
	key, err := newKey()
	if err != nil {
		return err
	}
	serve.Key, serve.Proofs = key, map[string]string{}
	serve.Listen = append(serve.Listen, fmt.Sprintf("tcp:0.0.0.0:%d", tenantPort), fmt.Sprintf("udp:0.0.0.0:%d", tenantPort), "unix:@"+plant.NeighbourSocket)
	if has6, _ := p.stage.IPv6(); has6 {
		serve.Listen = append(serve.Listen, fmt.Sprintf("tcp:[::]:%d", tenantPort), fmt.Sprintf("udp:[::]:%d", tenantPort))
	}
	for _, n := range p.nonces() {
		serve.Proofs[n] = nonce.Proof(p.r.nonceKey, n)
	}
	return p.leaveRunning(ctx, name, sb, env, "serve", &serve, key)
}

// tenantPort is where the neighbour answers, over TCP and UDP.
const tenantPort = 7777

// leaveRunning starts `wallproof-probe seed` or `serve` inside and waits until
// what it plants stands. It goes on until its sandbox ends. With a key, its
// further lines are observations.
func (p *phase) leaveRunning(ctx context.Context, name string, sb sandbox.Sandbox, env []string, command string, input any, key string) error {
	raw, err := json.Marshal(input)
	if err != nil {
		return fmt.Errorf("encode the plan of %s: %w", command, err)
	}
	if err := p.r.halts.pass(ctx); err != nil {
		return err
	}
	pr, pw := io.Pipe()
	var stderr limitedBuffer
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error, 1)
	go func() {
		_, err := sb.Exec(running, sandbox.Command{Argv: []string{tool(p.r.opt.Probe), command}, Env: env, User: &root,
			Stdin: bytes.NewReader(append(raw, '\n')), Stdout: pw, Stderr: &stderr})
		pw.CloseWithError(io.EOF)
		ended <- err
	}()
	p.mu.Lock()
	p.undo = append(p.undo, func(context.Context) error { cancel(); <-ended; return nil })
	p.mu.Unlock()
	ctx, done := p.r.halts.deadline(ctx, plantTimeout)
	defer done()
	stop := context.AfterFunc(ctx, cancel)
	defer stop()
	in := bufio.NewReader(pr)
	line, err := in.ReadBytes('\n')
	var ready plant.Ready
	if err == nil {
		err = json.Unmarshal(line, &ready)
	}
	if err != nil || !ready.Ready {
		cancel()
		return fmt.Errorf("plant with %s: %s: %w", command, stderr.text(), errors.Join(err, ctx.Err()))
	}
	for _, f := range ready.Failed {
		p.step("%s: could not plant %s", name, f)
	}
	go p.listen(in, name, key)
	return nil
}

// listen takes what a neighbour reports until its output ends.
func (p *phase) listen(in io.Reader, name, key string) {
	if key == "" {
		io.Copy(io.Discard, in)
		return
	}
	reader, err := probes.NewReader(in, key)
	if err != nil {
		return
	}
	for {
		o, err := reader.Next()
		if err != nil {
			return
		}
		o.Sandbox = name
		p.observe(o)
	}
}

// sharedMounts makes the host folders that a leaking boundary shares. Sandboxes
// of one phase that mount the same place mount the same folder.
func (p *phase) sharedMounts(mounts []plant.Mount) ([]sandbox.Mount, error) {
	var out []sandbox.Mount
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, m := range mounts {
		dir := filepath.Join(p.dir, "shared", strings.ReplaceAll(strings.Trim(m.Target, "/"), "/", "-"))
		if err := writeFiles(dir, m.Files, image.IDBase); err != nil {
			return nil, err
		}
		out = append(out, sandbox.Mount{Source: dir, Target: m.Target, ReadOnly: m.ReadOnly})
	}
	return out, nil
}

// writeFiles makes files below a folder and gives them to a host user.
func writeFiles(dir string, files []plant.File, owner int) error {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return storage("create a planted folder", err)
	}
	rt, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("open a planted folder: %w", err)
	}
	defer rt.Close()
	if err := rt.Chown(".", owner, owner); err != nil {
		return fmt.Errorf("give a planted folder away: %w", err)
	}
	for _, f := range files {
		name := strings.TrimPrefix(f.Path, "/")
		mode := os.FileMode(f.Mode)
		if mode == 0 {
			mode = 0o644
		}
		if d := filepath.Dir(name); d != "." {
			if err := rt.MkdirAll(d, 0o755); err != nil {
				return storage("create a planted folder", err)
			}
		}
		if err := rt.WriteFile(name, []byte(f.Content), mode); err != nil {
			return storage("plant a file", err)
		}
		if err := rt.Chown(name, owner, owner); err != nil {
			return fmt.Errorf("give a planted file away: %w", err)
		}
	}
	return nil
}

// plantOutside puts canaries where an escape to the host would find them: in the
// environment of a process, and in files that no sandbox mounts.
func (p *phase) plantOutside(o plant.Outside) error {
	if len(o.Files) > 0 {
		if err := writeFiles(filepath.Join(p.dir, "host"), o.Files, 0); err != nil {
			return err
		}
	}
	if len(o.Env) == 0 {
		return nil
	}
	self := p.r.self("hold")
	cmd := exec.Command(self[0], append(self[1:], o.Args...)...)
	cmd.Env = o.Env
	stdin, err := cmd.StdinPipe() // it ends when this process does
	if err != nil {
		return fmt.Errorf("plant a process on the host: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("plant a process on the host: %w", err)
	}
	p.undo = append(p.undo, func(context.Context) error { stdin.Close(); return cmd.Wait() })
	return nil
}
