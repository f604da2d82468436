package battery

import (
	"context"
	"errors"
	"fmt"

	"github.com/wallproof/wallproof/battery/boundary"
	"github.com/wallproof/wallproof/internal/procs"
	"github.com/wallproof/wallproof/policy"
	"github.com/wallproof/wallproof/policy/proxy"
	"github.com/wallproof/wallproof/policy/proxy/record"
	"github.com/wallproof/wallproof/policy/proxy/redact"
)

// doors are the proxies of one phase: the only way out of the sandboxes. Each
// phase has proxies of its own, so that nothing of a phase is left in them: no
// connection, no request that waits in a socket, no secret, no authority's key.
type doors struct {
	phase policy.Phase
	main  *proxy.Process // of the work sandbox and the tasks
	side  *proxy.Process // of the orchestrator, without the vault; nil without one
	ended chan error     // a proxy that ended by itself
}

// errProxyEnded: with the proxy the sandbox has lost its only way out.
var errProxyEnded = errors.New("the proxy has ended, and with it the only way out of the sandbox")

// phasePolicy is the document that a phase's proxy enforces. The agent's is the
// policy itself. That of set-up and verifier has nothing of the vault's.
func phasePolicy(p *policy.Policy, phase policy.Phase) *policy.Policy {
	switch phase {
	case policy.PhaseSetup:
		return withoutVault(p, p.Setup)
	case policy.PhaseVerifier:
		return withoutVault(p, p.Verifier)
	}
	return p
}

// withoutVault is a policy with the hosts of pp and without secrets, broker,
// model and services.
func withoutVault(p *policy.Policy, pp policy.PhasePolicy) *policy.Policy {
	q := &policy.Policy{Source: p.Source, Name: p.Name, Mode: pp.Mode, OnFailure: policy.FailClosed, Packs: pp.Packs, Allow: pp.Allow, Block: pp.Block,
		Setup: policy.PhasePolicy{Mode: policy.ModePublic}, Verifier: policy.PhasePolicy{Mode: policy.ModePublic}, Limits: p.Limits}
	if q.Mode == policy.ModeAllowlist && len(q.Allow)+len(q.Packs) == 0 {
		q.Mode, q.Block = policy.ModeNoNetwork, nil // what an allowlist of nothing but a model is without it
	}
	return q
}

// open starts a phase's proxies.
func (x *session) open(ctx context.Context, phase policy.Phase) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	files, err := x.stage.Listeners()
	if err != nil {
		return err
	}
	defer closeFiles(files)
	ours, theirs, err := x.split(files)
	if err != nil {
		return err
	}
	d := &doors{phase: phase, ended: make(chan error, 2)}
	cfg := proxy.Config{RunID: x.id, Upstream: x.o.Upstream, Egress: x.o.Egress}
	p := phasePolicy(x.policy, phase)
	if phase == policy.PhaseAgent {
		cfg.Secrets, cfg.BrokerKeys = x.secrets, x.o.BrokerKeys
		if p.Model != nil {
			cfg.ModelKey = x.modelKey
		}
	}
	if d.main, err = x.start(ctx, d, p, cfg, ours); err != nil {
		return err
	}
	if phase == policy.PhaseAgent && x.o.Orchestrator != nil {
		bare := withoutVault(p, policy.PhasePolicy{Mode: p.Mode, Packs: p.Packs, Allow: p.Allow, Block: p.Block})
		if d.side, err = x.start(ctx, d, bare, proxy.Config{RunID: x.id, Upstream: x.o.Upstream, Egress: x.o.Egress}, theirs); err != nil {
			return errors.Join(fmt.Errorf("the orchestrator's: %w", err), d.stop(ctx))
		}
	}
	x.doors = d
	x.undo = append(x.undo, x.shut)
	return nil
}

// split tells the orchestrator's sockets from the others, which the proxy with
// the vault serves.
func (x *session) split(files []procs.NamedFile) (ours, theirs []procs.NamedFile, err error) {
	o, ok := x.stage.Box(boxOrchestrator)
	for _, f := range files {
		addr, err := localAddr(f.File)
		if err != nil {
			return nil, nil, err
		}
		if ok && (addr == o.Gateway4 || addr == o.Gateway6) {
			theirs = append(theirs, f)
		} else {
			ours = append(ours, f)
		}
	}
	return ours, theirs, nil
}

// start starts one proxy, lets the sandboxes trust its authority, and watches
// it.
func (x *session) start(ctx context.Context, d *doors, p *policy.Policy, cfg proxy.Config, files []procs.NamedFile) (*proxy.Process, error) {
	canonical, err := p.Canonical()
	if err != nil {
		return nil, err
	}
	cfg.Policy = string(canonical)
	listeners, err := proxyListeners(files)
	if err != nil {
		return nil, err
	}
	px, err := proxy.Start(ctx, proxy.Launch{Path: x.o.Self[0], Argv: append(append([]string{}, x.o.Self...), "internal", "proxy"), UID: proxyUID, GID: proxyUID,
		Listeners: listeners, OnEvent: x.event, Config: cfg})
	if err != nil {
		return nil, err
	}
	if err := x.trust.add(px.Ready.CAPEM); err != nil {
		return nil, errors.Join(err, px.Stop(ctx))
	}
	x.rec.proxy(d.phase, px.Ready, p)
	if d.phase == policy.PhaseAgent && d.main == nil && px.Ready.Enforcement == record.Nothing {
		x.note("there is nothing to enforce: the policy restricts, injects and brokers nothing beyond what every policy denies")
	}
	go func() { <-px.Done(); d.ended <- errProxyEnded }()
	return px, nil
}

// event hands a record on, without any secret that a host's name may hold.
func (x *session) event(e proxy.Event) {
	if x.o.Event == nil {
		return
	}
	e.Host, _ = x.masks.Load().String(e.Host)
	x.o.Event(e)
}

// mask makes the redactor of the secrets in force.
func (x *session) mask(secrets []proxy.Secret) error {
	var values [][]byte
	for _, s := range secrets {
		values = append(values, []byte(s.Value))
	}
	red, err := redact.New(values...)
	if err != nil {
		return fmt.Errorf("prepare the redaction of the record: %w", err)
	}
	if old := x.masks.Load(); old != nil {
		red = old.With(red)
	}
	x.masks.Store(red)
	return nil
}

func (d *doors) stop(ctx context.Context) error {
	var errs []error
	for _, p := range []*proxy.Process{d.main, d.side} {
		if p != nil {
			errs = append(errs, p.Stop(ctx))
		}
	}
	return errors.Join(errs...)
}

// shut ends the phase's proxies. Whoever is still inside has no network from
// then on.
func (x *session) shut(ctx context.Context) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.doors == nil {
		return nil
	}
	d := x.doors
	x.doors = nil
	return d.stop(ctx)
}

// apply puts an edit of the policy in force, as a whole or not at all. It changes
// what is reachable at once; what needs other wiring takes effect with the next
// run.
func (x *session) apply(ctx context.Context, e ExecEdit) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.doors == nil {
		return errors.New("no phase is running")
	}
	if err := rewired(x.policy, e.Policy); err != nil {
		return err
	}
	p := phasePolicy(e.Policy, x.doors.phase)
	canonical, err := p.Canonical()
	if err != nil {
		return err
	}
	if err := x.mask(e.Secrets); err != nil {
		return err
	}
	text := string(canonical)
	u := proxy.Update{Policy: &text}
	if x.doors.phase == policy.PhaseAgent {
		u.Secrets = e.Secrets
	}
	if err := x.doors.main.Reload(ctx, u); err != nil {
		return err
	}
	if x.doors.side != nil {
		bare := withoutVault(p, policy.PhasePolicy{Mode: p.Mode, Packs: p.Packs, Allow: p.Allow, Block: p.Block})
		canonical, err := bare.Canonical()
		if err != nil {
			return err
		}
		text := string(canonical)
		if err := x.doors.side.Reload(ctx, proxy.Update{Policy: &text}); err != nil {
			return fmt.Errorf("the orchestrator's proxy: %w", err)
		}
	}
	x.policy, x.secrets = e.Policy, e.Secrets
	return nil
}

// rewired refuses an edit of what a run is built from: services and models are
// started and wired before the agent is.
func rewired(old, edited *policy.Policy) error {
	if len(old.Services) != len(edited.Services) {
		return errors.New("the edit changes the services, which a run starts with: it takes effect with the next run")
	}
	for i, s := range old.Services {
		if n := edited.Services[i]; n.Name != s.Name || n.Image != s.Image || fmt.Sprint(n.Ports) != fmt.Sprint(s.Ports) {
			return fmt.Errorf("the edit changes the service %s, which the run started with: it takes effect with the next run", s.Name)
		}
	}
	if (old.Model == nil) != (edited.Model == nil) {
		return errors.New("the edit adds or removes the model, whose key enters as the sandbox starts: it takes effect with the next run")
	}
	if (old.Egress == nil) != (edited.Egress == nil) || old.Egress != nil && old.Egress.Address != edited.Egress.Address {
		return errors.New("the edit changes the egress agent, which a run's proxies start with: it takes effect with the next run")
	}
	return nil
}

// peers are the services as the boundary is to wire them: the work sandbox and
// the tasks reach them.
func (x *session) peers() []boundary.Peer {
	var from []string
	for _, b := range x.boxes {
		if b.service == nil && b.role != proxy.RoleOrchestrator {
			from = append(from, b.name)
		}
	}
	var out []boundary.Peer
	for _, b := range x.boxes {
		if b.service != nil {
			out = append(out, boundary.Peer{Service: b.name, From: from, Ports: b.service.Ports})
		}
	}
	return out
}
