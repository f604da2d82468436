package battery

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/battery/sandbox"
	"github.com/wallproof/wallproof/probes"
	"github.com/wallproof/wallproof/probes/catalog"
	"github.com/wallproof/wallproof/probes/plant"
	"golang.org/x/sync/errgroup"
)

// boxPrior is the sandbox of the run before.
const boxPrior = "prior"

// snapshots is the part of a run about what one run leaves for the next. Its
// sandboxes have no network but loopback.
//
// One sandbox of the prior run is started, checkpointed clean (the base), then
// used and planted in, and checkpointed again (its lineage). The attack searches
// in a sandbox started afresh and in one restored from the base. The control
// searches where the prior run's canaries must be found: in a sandbox that holds
// them, and in one restored from the lineage.
type snapshots struct {
	r       *run
	half    map[string]*phase // by phase: only for canaries, planting and what was seen
	ignored int
}

func (s *snapshots) close() error {
	for _, p := range s.half {
		if err := p.close(); err != nil {
			return err
		}
	}
	return nil
}

func (s *snapshots) observations(phaseName string) []manifest.Observation {
	if p := s.half[phaseName]; p != nil {
		return p.own
	}
	return nil
}

// run runs both phases' snapshot techniques, as far as any apply.
func (s *snapshots) run(ctx context.Context) error {
	fresh, restored := applicable(s.r.plan, catalog.StageFresh), applicable(s.r.plan, catalog.StageRestored)
	if len(fresh)+len(restored) == 0 {
		return nil
	}
	s.half = map[string]*phase{}
	for _, of := range s.r.phases() {
		p := &phase{r: s.r, name: of.name, letter: of.letter + "s", canaries: of.canaries, dir: filepath.Join(s.r.state, of.letter+"s"), sandboxes: map[string]sandbox.Sandbox{}, env: map[string][]string{}}
		if err := p.prepareOffline(); err != nil {
			return err
		}
		s.half[of.name] = p
	}
	// The prior runs come first: a sandbox is fresh only after somebody's run.
	steps := []func(context.Context) error{s.restored, s.fresh}
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return fmt.Errorf("snapshot: %w", err)
		}
	}
	for _, p := range s.half {
		s.ignored += p.ignored
	}
	return s.close()
}

// prepareOffline makes what sandboxes without a network need.
func (p *phase) prepareOffline() error {
	if err := os.MkdirAll(p.dir, 0o711); err != nil {
		return storage("create the folder for snapshots", err)
	}
	tools, err := toolsFolder(p.dir, p.r.opt.Probe, p.r.opt.Agent)
	p.mounts = []sandbox.Mount{tools}
	return err
}

// fresh: a new sandbox, started while a prior run's canaries exist elsewhere (the
// attack), or in the very sandbox in which they do (the control).
func (s *snapshots) fresh(ctx context.Context) error {
	return s.both(ctx, func(ctx context.Context, p *phase) error {
		p.step("snapshot: search a fresh sandbox")
		place := p.planting().Fresh
		if err := p.startAndPlant(ctx, string(catalog.StageFresh), p.spec(string(catalog.StageFresh), place), place); err != nil {
			return err
		}
		return p.search(ctx, catalog.StageFresh, p.sandboxes[string(catalog.StageFresh)])
	})
}

// both does something in both phases, side by side: they share nothing.
func (s *snapshots) both(ctx context.Context, do func(context.Context, *phase) error) error {
	g, gctx := errgroup.WithContext(ctx)
	for _, p := range s.half {
		g.Go(func() error { return do(gctx, p) })
	}
	return g.Wait()
}

// restored takes the two checkpoints, and searches in a sandbox restored from
// the one that belongs to the phase. On a driver without snapshots the prior run
// still happens: a sandbox is fresh only after somebody else's.
func (s *snapshots) restored(ctx context.Context) error {
	driver, ok := s.r.opt.Driver.(sandbox.Snapshotter)
	if !ok && len(applicable(s.r.plan, catalog.StageRestored)) > 0 {
		return errNoSnapshots
	}
	return s.both(ctx, func(ctx context.Context, p *phase) error { return p.searchRestored(ctx, driver) })
}

func (p *phase) searchRestored(ctx context.Context, driver sandbox.Snapshotter) error {
	const prior = boxPrior
	place := p.planting().Prior
	spec := p.spec(prior, plant.Place{})
	p.step("snapshot: checkpoint a prior run")
	leaves, _ := p.r.opt.Breaks.priorLeaves(p)
	spec.Env = lastWins(append(spec.Env, leaves.Env...))
	if err := p.startAndPlant(ctx, prior, spec, leaves); err != nil {
		return err
	}
	sb := p.sandboxes[prior]
	image := filepath.Join(p.dir, "checkpoint")
	checkpoint := func() error {
		if driver == nil {
			return nil
		}
		if err := p.r.halts.pass(ctx); err != nil {
			return err
		}
		return driver.Checkpoint(ctx, sb, image, true)
	}
	if p.attacking() { // the base is taken before the prior run does anything
		if err := checkpoint(); err != nil {
			return err
		}
	}
	if err := p.plant(ctx, prior, sb, lastWins(append(spec.Env, place.Env...)), place); err != nil {
		return err
	}
	if !p.attacking() { // the lineage has seen it all
		if err := checkpoint(); err != nil {
			return err
		}
	}
	p.r.halts.remove(sb)
	if err := sb.Stop(ctx); err != nil || driver == nil {
		return err
	}
	if err := p.lookAtRest(image); err != nil {
		return err
	}
	p.step("snapshot: restore and search")
	if err := p.twin(ctx, driver, spec, image); err != nil {
		return err
	}
	again := spec
	again.ID = fmt.Sprintf("wallproof-%s-%s-%s", p.r.id, p.letter, catalog.StageRestored)
	if err := p.r.opt.Breaks.restored(p, &again); err != nil {
		return err
	}
	if err := p.r.halts.pass(ctx); err != nil {
		return err
	}
	sb, err := driver.Restore(ctx, again, image)
	if err != nil {
		return err
	}
	p.r.halts.add(sb)
	p.undo = append(p.undo, func(ctx context.Context) error { p.r.halts.remove(sb); return sb.Stop(ctx) })
	return p.search(ctx, catalog.StageRestored, sb)
}

// lookAtRest searches the checkpoint's files, for the technique that is told of them.
func (p *phase) lookAtRest(dir string) (err error) {
	if slices.ContainsFunc(applicable(p.r.plan, catalog.StageRestored), func(pl planned) bool { return pl.technique.ID == "SNP-AT-REST" }) {
		p.atRest, err = searchCheckpoint(dir)
	}
	return err
}

// twinTechnique is the one for which a second sandbox is restored.
const twinTechnique = "SNP-RANDOM"

// twin restores another sandbox from the same snapshot, has it draw random bytes,
// and ends it.
func (p *phase) twin(ctx context.Context, driver sandbox.Snapshotter, spec sandbox.Spec, image string) error {
	if !slices.ContainsFunc(applicable(p.r.plan, catalog.StageRestored), func(pl planned) bool { return pl.technique.ID == twinTechnique }) {
		return nil
	}
	spec.ID = fmt.Sprintf("wallproof-%s-%s-%s", p.r.id, p.letter, "twin")
	if err := p.r.opt.Breaks.restored(p, &spec); err != nil {
		return err
	}
	if err := p.r.halts.pass(ctx); err != nil {
		return err
	}
	sb, err := driver.Restore(ctx, spec, image)
	if err != nil {
		return fmt.Errorf("restore a twin: %w", err)
	}
	p.r.halts.add(sb)
	p.undo = append(p.undo, func(ctx context.Context) error { p.r.halts.remove(sb); return sb.Stop(ctx) })
	var out, stderr limitedBuffer
	if _, err := p.r.halts.exec(ctx, sb, sandbox.Command{Argv: []string{tool(p.r.opt.Probe), "draw"}, User: &root, Stdout: &out, Stderr: &stderr, Timeout: factsTimeout}); err != nil {
		return fmt.Errorf("have a twin draw random bytes: %w: %s", err, stderr.text())
	}
	if err := json.Unmarshal([]byte(out.text()), &p.draws); err != nil {
		return fmt.Errorf("read what a twin drew: %w", err)
	}
	p.r.halts.remove(sb)
	return sb.Stop(ctx)
}

// search runs the techniques of a stage without a network.
func (p *phase) search(ctx context.Context, stage catalog.Stage, sb sandbox.Sandbox) error {
	var items []probes.Item
	for _, pl := range applicable(p.r.plan, stage) {
		items = append(items, p.r.item(pl, p.name))
	}
	whole := p.r.control // whose half of the run this is
	if p.attacking() {
		whole = p.r.attack
	}
	facts := probes.Facts{Twin: p.draws, Local: probes.Local{ProbeMount: toolsMount, Shared: plant.SharedMount, HostMount: plant.HostMount,
		Image: whole.imageText(), Layers: whole.hidden, AtRest: p.atRest},
		Searches: []string{"/root", "/home", "/tmp", "/var/tmp", workspace, "/etc", "/run", "/dev/shm"}}
	return p.execute(ctx, execution{sandbox: sb, box: string(stage), binary: p.r.opt.Probe, env: p.env[string(stage)]}, probes.Plan{Facts: facts, Items: items})
}
