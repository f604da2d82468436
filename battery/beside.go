package battery

import (
	"context"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/battery/judge"
	"github.com/wallproof/wallproof/battery/sandbox"
	"github.com/wallproof/wallproof/policy/proxy/redact"
	"github.com/wallproof/wallproof/probes"
	"github.com/wallproof/wallproof/probes/catalog"
)

// besideTimeout bounds what runs in the image's sandbox: a probe that the image's
// program has stopped never ends by itself.
const besideTimeout = 60 * time.Second

// imageLimits are what code of the image may take.
var imageLimits = sandbox.Limits{MemoryBytes: 512 << 20, Processes: 256, DiskBytes: 256 << 20}

// imageLog is what the packet keeps of the image's program, one line a phase.
type imageLog struct {
	Phase   string   `json:"phase"`
	Program []string `json:"program"`
	// Disturbed: the attempts beside it show nothing.
	Disturbed bool   `json:"disturbed"`
	Detail    string `json:"detail"`
	Ignored   int64  `json:"unauthenticatedLines"`
}

// program is what runs beside the probe: what the operator names, or the image's
// entry point. It runs as root, whatever the image's user is: as all else inside,
// it is the strongest that it could be.
func (r *run) program() []string {
	if len(r.opt.Program) > 0 {
		return r.opt.Program
	}
	cfg := r.opt.Image.Config.Config
	return append(slices.Clone(cfg.Entrypoint), cfg.Cmd...)
}

// attackBeside makes the attempts of the sandbox in which the image's program
// runs. They count only where the probe has lived to say that nothing was
// disturbed, and where nobody else has written to its output.
func (p *phase) attackBeside(ctx context.Context) error {
	box := string(catalog.StageImage)
	sb := p.sandboxes[box]
	if sb == nil {
		return nil // nothing of this run needs it
	}
	facts, err := p.factsFor(box)
	if err != nil {
		return err
	}
	var items []probes.Item
	for _, pl := range applicable(p.r.plan, catalog.StageImage) {
		items = append(items, p.r.item(pl, p.name))
	}
	cfg := p.r.opt.Image.Config.Config
	dir := cfg.WorkingDir
	if !path.IsAbs(dir) || strings.ContainsRune(dir, 0) {
		dir = "/"
	}
	told := judge.HeartbeatNonce(p.r.nonceKey, p.r.id, box, "program", p.name)
	pl := probes.Plan{Facts: facts, Items: p.withHeartbeats(probes.HeartbeatID, box, items), Program: &probes.Program{
		Nonce: told, Argv: p.r.program(), Env: lastWins(append(slices.Clone(cfg.Env), p.env[box]...)), Dir: dir}}
	e := execution{sandbox: sb, box: box, binary: p.r.opt.Probe, env: p.env[box], timeout: besideTimeout, told: told}
	done, err := p.carryOut(ctx, e, pl)
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	log := imageLog{Phase: p.name, Program: pl.Program.Argv, Disturbed: true, Ignored: int64(done.stats.Ignored())}
	switch {
	case done.told == nil:
		log.Detail = "the probe did not live to tell what the image's program did"
	case done.told.Sign != manifest.SignReached:
		log.Detail = done.told.Detail
	case done.stats.Ignored() > 0 || done.stats.Missing > 0 || done.stats.Cut:
		log.Detail = "others wrote to the probe's output"
	default:
		log.Disturbed, log.Detail = false, done.told.Detail
	}
	p.image = &log
	for _, item := range pl.Items {
		if log.Disturbed {
			p.observe(manifest.Observation{Side: manifest.SideRunner, Nonce: item.Nonce, Time: p.r.now(), Sandbox: box, Sign: manifest.SignCrashed, Detail: log.Detail})
		} else if !done.seen[item.Nonce] {
			p.missing(item, box)
		}
	}
	return nil
}

// imageLogs are both phases' lines, with secrets masked.
func (r *run) imageLogs(red *redact.Redactor) []imageLog {
	out := []imageLog{}
	for _, p := range r.phases() {
		if p.image == nil {
			continue
		}
		l := *p.image
		l.Program = slices.Clone(l.Program)
		for i := range l.Program {
			l.Program[i], _ = red.String(strings.ToValidUTF8(l.Program[i], "?"))
		}
		l.Detail, _ = red.String(l.Detail)
		out = append(out, l)
	}
	return out
}
