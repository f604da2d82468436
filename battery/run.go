package battery

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/battery/boundary"
	"github.com/wallproof/wallproof/battery/judge"
	"github.com/wallproof/wallproof/battery/parts"
	"github.com/wallproof/wallproof/battery/sandbox"
	"github.com/wallproof/wallproof/internal/canon"
	"github.com/wallproof/wallproof/policy"
	"github.com/wallproof/wallproof/policy/proxy/redact"
	"github.com/wallproof/wallproof/probes"
	"github.com/wallproof/wallproof/probes/catalog"
	"github.com/wallproof/wallproof/probes/nonce"
	"github.com/wallproof/wallproof/probes/paths"
	"golang.org/x/sync/errgroup"
)

// run is one run of the battery.
type run struct {
	opt          Options
	id           string // 8 hex characters
	nonceKey     []byte
	random       io.Reader
	clock        func() time.Time
	state        string // folder of what lives as long as the run
	rootfs       string
	policy       *policy.Policy
	evaluator    *policy.Evaluator
	canonical    []byte
	policyDigest string
	roles        *roles
	named        []string // led to the proxy by the hosts file, all else goes out directly; nil for catch-all
	driver       sandbox.Description
	rec          *recorder
	control      *phase
	attack       *phase
	snapshots    *snapshots
	began        time.Time           // by the machine's clock, with a second to spare
	techniques   []catalog.Technique // that this run is about
	plan         []planned
	facts        map[string]string // isolation, as measured inside
	strange      []probes.Target   // what the policy refuses and may get through
	mark         string            // of a model's conversation
	gaps         []probes.Gap      // what the packet filter's rules let through
	halts        *halts
}

// Run runs the whole battery and writes the packet. An error means that no
// verdict was reached and that the packet, if there is one, is incomplete;
// everything that was started has been stopped and removed.
func Run(ctx context.Context, opt Options) (*Result, error) {
	r, err := newRun(ctx, opt)
	if err != nil {
		return nil, err
	}
	release, err := boundary.Claim(r.id)
	if err != nil {
		return nil, err
	}
	defer release()
	defer os.RemoveAll(r.state)
	if r.rec, err = newRecorder(opt.Out); err != nil {
		return nil, err
	}
	defer r.rec.close()
	res, err := r.execute(ctx)
	if closing := errors.Join(r.control.close(), r.attack.close(), r.snapshots.close()); err == nil && closing != nil {
		err = fmt.Errorf("put the machine back: %w", closing)
	}
	if err != nil {
		return nil, err
	}
	return res, nil
}

// newRun checks everything that can be checked before anything is started.
func newRun(ctx context.Context, opt Options) (*run, error) {
	r := &run{opt: opt, policy: opt.Policy, clock: opt.Clock, random: opt.Random, began: time.Now().Add(-time.Second)}
	if r.opt.AttemptTimeout <= 0 {
		r.opt.AttemptTimeout = DefaultAttemptTimeout
	}
	if r.clock == nil {
		r.clock = time.Now
	}
	if r.random == nil {
		r.random = rand.Reader
	}
	secret := make([]byte, 36)
	if _, err := io.ReadFull(r.random, secret); err != nil {
		return nil, fmt.Errorf("draw the run's key: %w", err)
	}
	r.id, r.nonceKey = hex.EncodeToString(secret[:4]), secret[4:]
	var err error
	if r.techniques, err = choose(opt.Select); err != nil {
		return nil, err
	}
	if opt.Proxy != nil {
		if err := opt.Proxy.check(); err != nil {
			return nil, err
		}
		if opt.Model != nil {
			return nil, errors.New("a model drives the agent through Wallproof's own model proxy, which is not there beside somebody else's proxy")
		}
	}
	if err := checkImageEnv(opt.Image.Config.Config.Env); err != nil {
		return nil, err
	}
	if r.evaluator, err = policy.Compile(opt.Policy); err != nil {
		return nil, err
	}
	if r.canonical, err = opt.Policy.Canonical(); err != nil {
		return nil, err
	}
	if r.policyDigest, err = opt.Policy.Digest(); err != nil {
		return nil, err
	}
	if r.roles, err = assign(r.canonical); err != nil {
		return nil, err
	}
	if !opt.CatchAll && opt.Proxy == nil {
		r.named = parts.Named(r.evaluator)
	}
	if r.driver, err = opt.Driver.Describe(ctx); err != nil {
		return nil, fmt.Errorf("use the sandbox driver: %w", err)
	}
	if err := r.evaluator.EnforceableBy(r.driver.Name, r.driver.NetworkModes); err != nil {
		return nil, err
	}
	if err := r.checkModel(); err != nil {
		return nil, err
	}
	r.state = opt.State
	if r.state == "" {
		r.state = filepath.Join(StateRoot, r.id)
	}
	if r.control, err = r.newPhase(nonce.PhaseControl, "c"); err != nil {
		return nil, err
	}
	if r.attack, err = r.newPhase(nonce.PhaseAttack, "a"); err != nil {
		return nil, err
	}
	r.snapshots, r.halts = &snapshots{r: r}, newHalts(opt.Probe, r.now)
	return r, nil
}

// StateRoot is where runs keep what lives as long as they do: unpacked images,
// sockets, checkpoints. gc looks here.
const StateRoot = "/var/lib/wallproof/runs"

func (r *run) step(phase, text string) {
	if r.opt.Progress != nil {
		r.opt.Progress(Progress{Phase: phase, Text: text})
	}
}

// self is the argv of a hidden subcommand of this executable.
func (r *run) self(command string) []string {
	return append(append([]string{}, r.opt.Self...), "internal", command)
}

func (r *run) now() string { return manifest.FormatTime(r.clock()) }

// execute is the run between the claim and the clean-up.
func (r *run) execute(ctx context.Context) (*Result, error) {
	started := r.now()
	if r.opt.Operate != nil {
		wants, stop, err := r.opt.Operate(r.id)
		if err != nil {
			return nil, err
		}
		defer stop()
		attending, end := context.WithCancel(ctx)
		ended := make(chan struct{})
		defer func() { end(); <-ended }()
		go func() {
			defer close(ended)
			r.halts.attend(attending, wants, func(text string) { r.step("", text) })
		}()
	}
	if err := os.MkdirAll(r.state, 0o711); err != nil {
		return nil, storage("create the run's folder", err)
	}
	r.step("", "unpack the image")
	r.rootfs = filepath.Join(r.state, "rootfs")
	if err := r.unpackImage(ctx); err != nil {
		return nil, err
	}
	if err := r.opt.Breaks.image(r); err != nil {
		return nil, err
	}
	if err := r.openPhases(ctx); err != nil {
		return nil, err
	}
	r.plan = plan(r.techniques, r.unmet())
	if err := r.writeRun(started); err != nil {
		return nil, err
	}
	if err := r.attackAll(ctx); err != nil {
		return nil, err
	}
	if err := r.halts.pass(ctx); err != nil { // a run that goes on has said so first
		return nil, err
	}
	r.step("", "judge and record")
	return r.record()
}

// phases are the halves of the run: the control and the attack.
func (r *run) phases() []*phase {
	if r.opt.Breaks.attackOnly() {
		return []*phase{r.attack}
	}
	return []*phase{r.control, r.attack}
}

// needs reports whether any technique of this run has to do with a sandbox. The
// work sandbox is always needed: the isolation is measured there.
func (r *run) needs(box string) bool {
	if box == boxWork {
		return true
	}
	for _, t := range r.techniques {
		if string(t.Stage) == box || box == boxTenant && (t.Vector == catalog.TEN || slices.Contains(t.Requires, catalog.NeedsTenant)) {
			return true
		}
	}
	return false
}

// openPhases builds both phases side by side; nothing untrusted runs yet but
// the probe that measures the sandbox.
func (r *run) openPhases(ctx context.Context) error {
	g, gctx := errgroup.WithContext(ctx)
	for _, p := range r.phases() {
		g.Go(func() error { return p.setUp(gctx) })
	}
	if err := g.Wait(); err != nil {
		return err
	}
	var err error
	if r.facts, err = r.attack.measure(ctx); err != nil {
		return err
	}
	openings, err := r.attack.stage.Openings(boxWork)
	if err != nil {
		return err
	}
	r.strange, r.gaps = r.strangers(r.attack.lets), gaps(openings)
	return nil
}

// attackAll runs every applicable technique in both phases.
func (r *run) attackAll(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	for _, p := range r.phases() {
		g.Go(func() error { return p.attackAll(ctx) })
	}
	g.Go(func() error { return r.snapshots.run(ctx) })
	return g.Wait()
}

// writeRun writes entry 0.
func (r *run) writeRun(started string) error {
	probe, err := fileDigest(r.opt.Probe)
	if err != nil {
		return err
	}
	px, err := r.proxyRecord()
	if err != nil {
		return err
	}
	img := r.opt.Image
	isolation := r.isolation()
	enforcement := manifest.Enforcement{State: r.attack.enforcement}
	if enforcement.State == manifest.EnforcementNothing {
		enforcement.Reason = "the policy restricts, injects and brokers nothing"
	}
	return r.rec.manifest.WriteRun(manifest.Run{
		RunID:        r.id,
		Image:        manifest.Image{Reference: img.Reference, Digest: img.Digest, IndexDigest: img.IndexDigest, Platform: img.Platform},
		PolicyDigest: r.policyDigest,
		Driver:       manifest.Driver{Name: r.driver.Name, Version: r.driver.Version, ConfigDigest: r.driver.ConfigDigest, Isolation: isolation},
		Proxy:        px,
		ProbeDigest:  probe, CatalogDigest: catalog.Digest(), Tool: r.opt.Tool,
		Host:          manifest.Host{Kernel: KernelRelease(), Arch: runtime.GOARCH},
		Enforcement:   enforcement,
		Selection:     r.opt.Select,
		Admission:     r.opt.Admission,
		Series:        r.opt.Series,
		Sandboxes:     r.wired(),
		Substitutions: parts.Substitutions(),
		Started:       started,
	})
}

// wired is what each sandbox of the attack is wired with: the policy as its proxy
// says that it enforces it, and how connections are led to the proxy.
func (r *run) wired() []manifest.Wired {
	var out []manifest.Wired
	for _, name := range []string{boxWork, boxTenant, boxAgent, boxImage} {
		if r.needs(name) {
			out = append(out, manifest.Wired{Sandbox: name, PolicyDigest: r.attack.enforces(name), Routing: r.routing()})
		}
	}
	for _, stage := range []catalog.Stage{catalog.StageFresh, catalog.StageRestored} {
		if len(applicable(r.plan, stage)) > 0 {
			out = append(out, manifest.Wired{Sandbox: string(stage), PolicyDigest: r.policyDigest, Routing: manifest.RoutingNone})
		}
	}
	return out
}

// isolation is what was measured inside, beside what the driver says of itself.
// Whether the kernel is the host's is told by comparing what both say they are.
func (r *run) isolation() map[string]string {
	out := map[string]string{}
	for k, v := range r.driver.Facts {
		out["driver."+k] = v
	}
	for k, v := range r.facts {
		out[k] = v
	}
	maps.Copy(out, r.stackFacts())
	out[parts.FactKernelVersion], out[parts.FactKernel] = r.facts[parts.FactKernel], parts.KernelOwn
	host, err := os.ReadFile("/proc/version")
	if inside := strings.TrimSpace(r.facts["kernel"]); err != nil || inside == "" {
		out[parts.FactKernel] = parts.KernelNotMeasured
	} else if strings.HasPrefix(strings.TrimSpace(string(host)), inside) {
		out[parts.FactKernel] = parts.KernelShared
	}
	return out
}

func fileDigest(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("hash the probe: %w", err)
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", fmt.Errorf("hash the probe: %w", err)
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil)), nil
}

// record judges every variant and writes the rest of the packet.
func (r *run) record() (*Result, error) {
	for _, p := range r.phases() {
		if n := p.world.Dropped(); n > 0 {
			return nil, fmt.Errorf("%s: the witness had to drop %d records, so that nothing is proved by what it did not see", p.name, n)
		}
	}
	var control []manifest.Observation
	if slices.Contains(r.phases(), r.control) {
		control = r.control.observations()
	}
	attack := withoutTwin(r.attack.observations(), r.attack.twinNonce())
	control = append(control, r.snapshots.observations(nonce.PhaseControl)...)
	attack = append(attack, r.snapshots.observations(nonce.PhaseAttack)...)
	red, err := r.redactor()
	if err != nil {
		return nil, err
	}
	if !r.opt.Breaks.unmasked("observations") {
		mask(red, control)
		mask(red, attack)
	}
	sortObservations(control)
	sortObservations(attack)
	if err := r.writeEvidence(red, control, attack); err != nil {
		return nil, err
	}
	if o, found := stray(attack); found {
		return nil, fmt.Errorf("a canary arrived at %s (%s %s) in no attempt's name: the boundary leaks in a way that no technique accounts for; see observations/attack.jsonl", o.Service, o.Proto, o.Dest)
	}
	entries, err := r.writeEntries(control, attack)
	if err != nil {
		return nil, err
	}
	model, err := r.writeModel(red, entries)
	if err != nil {
		return nil, err
	}
	var edits []manifest.Edit
	if r.opt.Edits != nil {
		edits = r.opt.Edits()
	}
	r.rec.manifest.Note(edits, r.halts.over())
	sum, err := r.rec.manifest.Close(hex.EncodeToString(r.nonceKey), r.now())
	if err != nil {
		return nil, storage("close the manifest", err)
	}
	if err := r.prove(); err != nil {
		return nil, err
	}
	return &Result{Packet: r.rec.dir, Vectors: judge.Vectors(catalog.All(), entries), Critical: judge.CriticalEscapes(catalog.All(), entries),
		Entries: entries, Summary: sum, Model: model, Edits: len(edits), Ignored: r.control.ignored + r.attack.ignored + r.snapshots.ignored}, nil
}

// permittedServices are where secrets arrive because the policy injects them
// there.
var permittedServices = []string{paths.ServiceAllowed, paths.ServiceForge, paths.ServiceRegistry, paths.ServiceModel, paths.ServicePlatform}

// stray finds a canary that reached a witness in no attempt's name at a place
// where none may arrive. No entry of the manifest could carry it, and it must
// not be lost: the run reaches no verdict.
func stray(attack []manifest.Observation) (manifest.Observation, bool) {
	for _, o := range attack {
		if o.Nonce == "" && o.Side == manifest.SideWitness && len(o.Obtained) > 0 && !slices.Contains(permittedServices, o.Service) {
			return o, true
		}
	}
	return manifest.Observation{}, false
}

// writeEvidence writes what the entries are derived from.
func (r *run) writeEvidence(red *redact.Redactor, control, attack []manifest.Observation) error {
	if err := r.rec.writeFile("policy.canonical.json", r.canonical); err != nil {
		return err
	}
	for _, f := range []struct {
		name string
		obs  []manifest.Observation
	}{{"observations/control.jsonl", control}, {"observations/attack.jsonl", attack}} {
		if err := writeLines(r.rec, f.name, f.obs); err != nil {
			return err
		}
	}
	for i := range r.attack.events {
		r.attack.events[i].Host, _ = red.String(r.attack.events[i].Host)
	}
	if err := writeLines(r.rec, "logs/proxy.jsonl", r.attack.events); err != nil {
		return err
	}
	if err := writeLines(r.rec, "logs/agent.jsonl", r.opt.Breaks.transcripts(r, r.transcriptLines(red))); err != nil {
		return err
	}
	if err := writeLines(r.rec, "logs/image.jsonl", r.imageLogs(red)); err != nil {
		return err
	}
	return writeLines(r.rec, "logs/filter.jsonl", []filterLog{r.control.filterLog(), r.attack.filterLog()})
}

// writeModel writes what is recorded of a model that drove the agent.
func (r *run) writeModel(red *redact.Redactor, entries []manifest.Technique) (*ModelResult, error) {
	log, scores, res := r.modelScores(entries)
	if res == nil {
		return nil, nil
	}
	log.Detail, _ = red.String(log.Detail)
	lines := []any{log}
	for _, s := range scores {
		s.Detail, _ = red.String(s.Detail)
		lines = append(lines, s)
	}
	return res, writeLines(r.rec, "logs/model.jsonl", lines)
}

// writeEntries writes one judged entry a variant.
func (r *run) writeEntries(control, attack []manifest.Observation) ([]manifest.Technique, error) {
	byNonce := map[string][]manifest.Observation{}
	for _, o := range append(append([]manifest.Observation{}, control...), attack...) {
		byNonce[o.Nonce] = append(byNonce[o.Nonce], o)
	}
	entries := make([]manifest.Technique, 0, len(r.plan))
	beats := map[string]manifest.Heartbeat{}
	heartbeat := func(all []manifest.Observation, sandbox, phase string) manifest.Heartbeat {
		h, ok := beats[phase+sandbox]
		if !ok {
			h = judge.Heartbeats(all, r.nonceKey, r.id, sandbox, phase, r.policy.Mode == policy.ModeNoNetwork)
			beats[phase+sandbox] = h
		}
		return h
	}
	for _, p := range r.plan {
		e := r.entry(p)
		for _, ph := range []struct {
			rec  *manifest.Phase
			p    *phase
			all  []manifest.Observation
			name string
		}{{&e.Control, r.control, control, nonce.PhaseControl}, {&e.Attack, r.attack, attack, nonce.PhaseAttack}} {
			if obs := byNonce[ph.rec.Nonce]; obs != nil {
				ph.rec.Observations = obs
			}
			ph.rec.Sandbox = string(p.stage)
			ph.rec.FilterIntact = ph.p.filterIntact()
			ph.rec.Heartbeat = heartbeat(ph.all, ph.rec.Sandbox, ph.name)
		}
		v := judge.Judge(p.technique, e, judge.Proofs{Control: nonce.Proof(r.nonceKey, e.Control.Nonce), Attack: nonce.Proof(r.nonceKey, e.Attack.Nonce)})
		e.Outcome, e.Reason, e.Findings = string(v.Outcome), v.Reason, v.Findings
		if err := r.rec.manifest.WriteTechnique(e); err != nil {
			return nil, storage("write the manifest", err)
		}
		entries = append(entries, e)
	}
	return entries, nil
}

// secrets lists every value that may not be in the packet.
func (r *run) secrets() []string {
	var out []string
	if m := r.opt.Model; m != nil && m.Key != "" {
		out = append(out, m.Key)
	}
	return append(append(out, r.control.canaries.all()...), r.attack.canaries.all()...)
}

// redactor is the one redactor of everything that is written.
func (r *run) redactor() (*redact.Redactor, error) {
	var values [][]byte
	for _, s := range r.secrets() {
		values = append(values, []byte(s))
	}
	red, err := redact.New(values...)
	if err != nil {
		return nil, fmt.Errorf("prepare the redaction: %w", err)
	}
	return red, nil
}

// mask takes secrets out of what was observed: a name asked for, a detail.
func mask(red *redact.Redactor, all []manifest.Observation) {
	for i := range all {
		all[i].Host, _ = red.String(all[i].Host)
		all[i].Detail, _ = red.String(all[i].Detail)
	}
}

// prove writes the redaction proof over everything written so far.
func (r *run) prove() error {
	// First everything goes: what is left then was left for good.
	if err := errors.Join(r.control.close(), r.attack.close(), r.snapshots.close(), os.RemoveAll(r.state)); err != nil {
		return fmt.Errorf("put the machine back: %w", err)
	}
	proof, err := proveRedaction(r.rec.dir, r.secrets(), machinePlaces(r.state, r.rec.dir), r.began)
	if err != nil {
		return err
	}
	return r.rec.writeFile("redaction.json", proof)
}

// proxyConfigDigest names the proxy's configuration without its secrets: the
// policy, the limits and what was substituted.
func (p *phase) proxyConfigDigest() string {
	b, err := canon.Marshal(map[string]any{"policy": p.r.policyDigest, "resolver": worldResolver, "listeners": p.kinds})
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(sum[:])
}
