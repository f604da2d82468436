package battery

import (
	"context"
	"fmt"
	"net/netip"

	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/battery/judge"
	"github.com/wallproof/wallproof/probes"
	"github.com/wallproof/wallproof/probes/catalog"
	"golang.org/x/sync/errgroup"
)

// networked are the stages that run in a box of the phase's boundary.
var networked = []catalog.Stage{catalog.StageWork, catalog.StageAgent, catalog.StageImage}

// attackAll makes every attempt of the phase's networked sandboxes, side by
// side, and then puts the phase back: what was seen is complete only when
// everything has stopped.
func (p *phase) attackAll(ctx context.Context) error {
	p.stage.Begin()
	g, gctx := errgroup.WithContext(ctx)
	for _, stage := range networked {
		g.Go(func() error { return p.attackIn(gctx, stage) })
	}
	if err := g.Wait(); err != nil {
		return err
	}
	p.step("put everything back")
	if err := p.close(); err != nil {
		return fmt.Errorf("%s: put everything back: %w", p.name, err)
	}
	return nil
}

// attackIn runs one stage's plan in its sandbox.
func (p *phase) attackIn(ctx context.Context, stage catalog.Stage) error {
	if stage == catalog.StageImage {
		return p.attackBeside(ctx)
	}
	box := string(stage)
	if p.sandboxes[box] == nil {
		return nil // nothing of this run needs it
	}
	var items []probes.Item
	for _, pl := range applicable(p.r.plan, stage) {
		items = append(items, p.r.item(pl, p.name))
	}
	heartbeat, binary := probes.HeartbeatID, p.r.opt.Probe
	if stage == catalog.StageAgent {
		heartbeat, binary = probes.AgentHeartbeatID, p.r.opt.Agent
	}
	facts, err := p.factsFor(box)
	if err != nil {
		return err
	}
	plan := probes.Plan{Facts: facts, Items: p.withHeartbeats(heartbeat, box, items)}
	e := execution{sandbox: p.sandboxes[box], box: box, binary: binary, env: p.env[box]}
	if stage != catalog.StageAgent {
		return p.execute(ctx, e, plan)
	}
	e.stderr = p.transcript("obedient")
	if err := p.execute(ctx, e, plan); err != nil {
		return err
	}
	return p.converse(ctx)
}

// item is one attempt as the probe is told of it.
func (r *run) item(pl planned, phase string) probes.Item {
	return probes.Item{Technique: pl.technique.ID, Variant: pl.variant, Nonce: r.nonceOf(pl, phase), Alone: pl.technique.Alone, TimeoutMs: r.opt.AttemptTimeout.Milliseconds()}
}

// observations is everything that was seen in the phase, the records of the
// enforcement tied to the attempts that they belong to. The phase must have been
// closed.
func (p *phase) observations() []manifest.Observation {
	var attempts []attempt
	for _, stage := range networked {
		box, _ := p.stage.Box(string(stage))
		for _, pl := range applicable(p.r.plan, stage) {
			n := p.r.nonceOf(pl, p.name)
			attempts = append(attempts, attempt{nonce: n, sandbox: box.Name, addrs: validAddrs(box.IPv4, box.IPv6), own: probes.OwnAddrs(n, p.outside())})
		}
	}
	for _, name := range []string{boxWork, boxAgent, boxImage} {
		box, _ := p.stage.Box(name)
		for _, position := range []string{judge.Before, judge.Between, judge.After} {
			n := judge.HeartbeatNonce(p.r.nonceKey, p.r.id, name, position, p.name)
			attempts = append(attempts, attempt{nonce: n, sandbox: name, addrs: validAddrs(box.IPv4, box.IPv6), own: probes.OwnAddrs(n, p.outside())})
		}
	}
	j := newJoiner(attempts)
	j.text = p.foreign.text
	p.mu.Lock()
	defer p.mu.Unlock()
	out := append([]manifest.Observation{}, p.own...)
	for _, o := range p.own {
		j.learnPorts(o)
	}
	out = append(out, p.world.Observations()...)
	if p.open != nil {
		out = append(out, p.open.Observations()...)
	}
	out = append(out, j.fromProxy(p.events)...)
	return append(out, j.fromFilter(p.denials)...)
}

func validAddrs(addrs ...netip.Addr) []netip.Addr {
	var out []netip.Addr
	for _, a := range addrs {
		if a.IsValid() {
			out = append(out, a)
		}
	}
	return out
}
