package battery

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/battery/boundary"
	"github.com/wallproof/wallproof/battery/sandbox"
	"github.com/wallproof/wallproof/battery/witness"
	"github.com/wallproof/wallproof/internal/procs"
	"github.com/wallproof/wallproof/policy/proxy"
	"github.com/wallproof/wallproof/probes/nonce"
)

// The sandboxes of a phase. The names are those of the boundary's boxes too.
const (
	boxWork   = "work"
	boxTenant = "tenant"
	boxAgent  = "agent"
	boxImage  = "image" // with the image's program
)

// Users of the helper processes: neither is root's nor the other's, so that one
// cannot signal or trace the other.
const (
	proxyUID   = 65531
	witnessUID = 65532
)

// cleanupTimeout bounds how long a phase takes to put everything back, also
// after its context has ended.
const cleanupTimeout = 30 * time.Second

// phase is one half of a run: the control or the attack, with everything that
// it alone uses.
type phase struct {
	r        *run
	name     string // nonce.PhaseControl or nonce.PhaseAttack
	letter   string // as in names of namespaces
	canaries canaries
	dir      string // of the run's state

	stage       *boundary.Stage
	world       *witness.Process
	open        *witness.Process // the control's open proxy
	worldCA     witness.CA
	caPEM       string          // what the sandboxes trust
	tenantCA    string          // authority of the neighbour's proxy
	mounts      []sandbox.Mount // of every sandbox
	sandboxes   map[string]sandbox.Sandbox
	env         map[string][]string // of each sandbox
	kinds       []string            // of the enforcing proxy's listeners
	enforcement string
	digests     map[string]string // of what each tenant's proxy says that it enforces
	foreign     *foreign          // somebody else's proxy, nil when it is our own
	lets        []proxy.Let       // what the enforcing proxy says it lets through
	pushes      []proxy.Push      // refs that it says it lets be pushed
	opens       []netip.Prefix    // ranges that it says it dials
	pages       []string          // pages of its own that it says it has
	believed    []string          // fields by which it says it tells whose request one is
	draws       map[string]string // random bytes of a twin of the restored sandbox
	hidden      string            // what layers of the image hide, as an attempt is told
	since       int64             // when its sandboxes' files were made at the earliest, in milliseconds of Unix time
	atRest      string            // what the files of the checkpoint hold, likewise
	undo        []func(context.Context) error
	image       *imageLog      // what became of the image's program
	model       *conversations // with a model that drives the agent
	transcripts []*transcript  // of agents

	mu       sync.Mutex
	events   []proxy.Event
	denials  []boundary.Denial
	own      []manifest.Observation // probe and runner, as they come
	ignored  int
	drained  chan struct{}
	filter   [2]boundary.FilterState // before the first and after the last byte of untrusted code
	verified boundary.Verification
}

func (r *run) newPhase(name, letter string) (*phase, error) {
	c, err := newCanaries(r.policy, r.random)
	if err != nil {
		return nil, err
	}
	c.platformVariable = r.roles.parts.Platform.Variable
	return &phase{r: r, name: name, letter: letter, canaries: c, dir: filepath.Join(r.state, letter), sandboxes: map[string]sandbox.Sandbox{}, env: map[string][]string{}, digests: map[string]string{}}, nil
}

// enforces is the digest of the policy that the proxy of a sandbox enforces: what it
// says itself, or, where somebody else's takes no policy of ours, the run's.
func (p *phase) enforces(box string) string {
	owner := boxWork
	if box == boxTenant {
		owner = boxTenant
	}
	if digest, ok := p.digests[owner]; ok {
		return digest
	}
	return p.r.policyDigest
}

func (p *phase) attacking() bool { return p.name == nonce.PhaseAttack }

func (p *phase) step(format string, args ...any) { p.r.step(p.name, fmt.Sprintf(format, args...)) }

// onClose registers how something is put back. The last registered runs first.
func (p *phase) onClose(f func(context.Context) error) { p.undo = append(p.undo, f) }

// close puts everything back. It runs whatever happened and reports what could
// not be undone.
func (p *phase) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), cleanupTimeout)
	defer cancel()
	var errs []error
	for i := len(p.undo) - 1; i >= 0; i-- {
		errs = append(errs, p.undo[i](ctx))
	}
	p.undo = nil
	return errors.Join(errs...)
}

// setUp builds the phase: namespaces, world, proxies, sandboxes. Untrusted code
// has not run yet when it returns.
func (p *phase) setUp(ctx context.Context) error {
	if err := os.MkdirAll(p.dir, 0o711); err != nil {
		return storage("create the phase's folder", err)
	}
	steps := []struct {
		what string
		do   func(context.Context) error
	}{
		{"build the namespaces", p.buildStage},
		{"start the world", p.startWorld},
		{"start the proxies", p.startProxies},
		{"verify the packet filter in place", p.verifyStage},
		{"start the sandboxes", p.startSandboxes},
	}
	for _, s := range steps {
		p.step("%s", s.what)
		if err := s.do(ctx); err != nil {
			return fmt.Errorf("%s: %s: %w", p.name, s.what, err)
		}
	}
	return nil
}

func (p *phase) buildStage(ctx context.Context) error {
	cfg := boundary.Config{Run: p.r.id, Phase: p.letter, Boxes: []string{boxWork, boxTenant, boxAgent, boxImage},
		Mode: boundary.Open, Uplink: boundary.World, ProxyUID: proxyUID, SOCKS: true}
	if p.attacking() {
		cfg.Mode, cfg.Hooks, cfg.Selective = boundary.Enforced, p.r.opt.Breaks.boundary(), p.r.named != nil
		cfg.ProxyOnly = p.r.opt.Proxy != nil
		cfg.SOCKS = !cfg.ProxyOnly
	}
	stage, err := boundary.Build(ctx, cfg)
	if err != nil {
		return err
	}
	p.stage = stage
	p.drained = make(chan struct{})
	go p.drain()
	p.onClose(func(context.Context) error { err := stage.Close(); <-p.drained; return err })
	return nil
}

// drain keeps the packet filter's records, up to a bound far above what the
// battery itself can cause: a flood from inside only costs later records.
func (p *phase) drain() {
	defer close(p.drained)
	for d := range p.stage.Denials() {
		p.mu.Lock()
		if len(p.denials) < maxDenials {
			p.denials = append(p.denials, d)
		}
		p.mu.Unlock()
	}
}

const (
	maxDenials = 1 << 17
	maxEvents  = 1 << 17
)

func (p *phase) startWorld(ctx context.Context) error {
	files, err := p.stage.WorldListeners()
	if err != nil {
		return err
	}
	defer closeFiles(files)
	if p.worldCA, err = witness.NewCA(); err != nil {
		return err
	}
	cfg := p.worldConfig()
	if p.r.opt.Model != nil && p.attacking() {
		if cfg.Model.Relay, err = p.startRelay(); err != nil {
			return err
		}
		cfg.Model.Mark = p.r.mark
	}
	l := witness.Launch{Argv: p.r.self("world"), NetNS: p.stage.WorldNS(), UID: witnessUID, GID: witnessUID, Event: p.witnessEvent}
	for _, f := range files {
		kind, ok := worldSocket(f.Name)
		if !ok {
			return fmt.Errorf("the boundary offers a socket %q that the witness does not know", f.Name)
		}
		cfg.Sockets = append(cfg.Sockets, witness.Socket{Kind: kind, FD: len(l.Files)})
		l.Files = append(l.Files, f.File)
	}
	l.Config = cfg
	if p.world, err = witness.Start(ctx, l); err != nil {
		return err
	}
	p.onClose(stopWitness(p.world))
	return nil
}

// stopWitness stops a witness. All that it saw has been told by then (see
// bracket), so that one that has to be killed costs nothing.
func stopWitness(w *witness.Process) func(context.Context) error {
	return func(ctx context.Context) error {
		if err := w.Stop(ctx); err != nil && !errors.Is(err, procs.ErrKilled) {
			return err
		}
		return nil
	}
}

// verifyStage shows that the filter is what it should be before anything
// untrusted starts. A seeded break may make it something else on purpose.
func (p *phase) verifyStage(ctx context.Context) error {
	v, err := p.stage.VerifyInPlace(ctx)
	if err != nil && !p.r.opt.Breaks.any() {
		return err
	}
	p.verified = v
	return p.bracket(err == nil)
}

// bracket notes the filter's state before the first sandbox starts, which is the one
// that was verified, and again when the last one has stopped and all that it sent has
// arrived.
func (p *phase) bracket(verified bool) error {
	p.onClose(func(ctx context.Context) error {
		for _, w := range []*witness.Process{p.world, p.open} {
			if w == nil {
				continue
			}
			if err := w.Sync(ctx); err != nil {
				return fmt.Errorf("wait for the witness: %w", err)
			}
		}
		p.stage.End()
		return p.markFilter(1)
	})
	if verified {
		p.filter[0] = p.verified.Filter
		return nil
	}
	return p.markFilter(0)
}

// event takes one record of the enforcing proxy.
func (p *phase) event(e proxy.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.events) < maxEvents {
		p.events = append(p.events, e)
	}
}

// observe takes one observation of the probe or of the runner.
func (p *phase) observe(o manifest.Observation) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.own = append(p.own, o)
}

// markFilter notes the filter's state before (0) and after (1) untrusted code.
func (p *phase) markFilter(i int) error {
	s, err := p.stage.FilterState()
	if err != nil {
		return fmt.Errorf("%s: read the packet filter: %w", p.name, err)
	}
	p.filter[i] = s
	return nil
}

func (p *phase) filterIntact() bool {
	return p.filter[0] == p.filter[1] && p.filter[0].Digest != ""
}

// filterLog is what the packet keeps of the filter.
type filterLog struct {
	Phase  string               `json:"phase"`
	Before boundary.FilterState `json:"before"`
	After  boundary.FilterState `json:"after"`
	Checks []string             `json:"checks"`
}

func (p *phase) filterLog() filterLog {
	return filterLog{Phase: p.name, Before: p.filter[0], After: p.filter[1], Checks: p.verified.Checks}
}

// witnessEvent reports what went wrong in the witness.
func (p *phase) witnessEvent(e witness.Event) {
	if e.Type == witness.EventFailure {
		p.step("the witness reports: %s", e.Detail)
	}
}
