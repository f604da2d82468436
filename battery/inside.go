package battery

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"time"

	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/battery/judge"
	"github.com/wallproof/wallproof/battery/sandbox"
	"github.com/wallproof/wallproof/probes"
)

// Bounds on what runs inside.
const (
	planTimeout  = 4 * time.Minute
	factsTimeout = time.Minute
	maxStderr    = 8 << 10
)

// newKey draws the key that authenticates one execution's result lines.
func newKey() (string, error) {
	raw := make([]byte, probes.MinKeyBytes)
	if _, err := rand.Read(raw); err != nil {
		return "", fmt.Errorf("draw the probe's key: %w", err)
	}
	return hex.EncodeToString(raw), nil
}

// tool is the path of one of our binaries inside every sandbox.
func tool(hostPath string) string { return toolsMount + "/" + filepath.Base(hostPath) }

// beatPatience is how many times as long as an attempt a heartbeat may take. It
// shows that the path lives, not how fast it is, and the agent's makes several
// requests: on a crowded machine one must not be lost for that.
const beatPatience = 4

// withHeartbeats puts heartbeats before, between and after the items of a
// sandbox. Nothing runs beside the first and the last; the one between passes while
// the attempts before it may still be at work, so that it does not have to wait for
// the slowest. The agent's changes a repository that its attempts read, and is alone
// always. What must be alone itself comes last, for the same reason.
func (p *phase) withHeartbeats(id, box string, items []probes.Item) []probes.Item {
	patience := min(beatPatience*p.r.opt.AttemptTimeout, probes.MaxTimeout).Milliseconds()
	beat := func(position string) probes.Item {
		return probes.Item{Technique: id, Variant: position, Nonce: judge.HeartbeatNonce(p.r.nonceKey, p.r.id, box, position, p.name), TimeoutMs: patience,
			Alone: position != judge.Between || id == probes.AgentHeartbeatID}
	}
	alone := func(i probes.Item) int {
		if i.Alone {
			return 1
		}
		return 0
	}
	slices.SortStableFunc(items, func(a, b probes.Item) int { return alone(a) - alone(b) })
	half := len(items) / 2
	return slices.Concat([]probes.Item{beat(judge.Before)}, items[:half], []probes.Item{beat(judge.Between)}, items[half:], []probes.Item{beat(judge.After)})
}

// execution is one of our binaries at work inside a sandbox.
type execution struct {
	sandbox sandbox.Sandbox
	box     string
	binary  string
	env     []string
	timeout time.Duration
	told    string                     // nonce of the line that is no attempt's, "" for none
	stderr  io.Writer                  // nil: only what an error's text needs is kept
	take    func(manifest.Observation) // what gets the results; nil: they are recorded
}

// performed is what came of an execution.
type performed struct {
	seen   map[string]bool       // whose lines arrived
	told   *manifest.Observation // the line with execution.told
	stats  probes.Stats
	stderr string
}

// execute runs a plan with one of our binaries inside a sandbox and takes the
// lines that authenticate. An item without one is recorded as crashed.
func (p *phase) execute(ctx context.Context, e execution, pl probes.Plan) error {
	done, err := p.carryOut(ctx, e, pl)
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	} else if err != nil && len(done.seen) == 0 {
		return fmt.Errorf("run %s in %s: %w: %s", filepath.Base(e.binary), e.box, err, done.stderr)
	}
	for _, item := range pl.Items {
		if !done.seen[item.Nonce] {
			p.missing(item, e.box)
		}
	}
	return nil
}

// missing records that an item's result did not arrive.
func (p *phase) missing(item probes.Item, box string) {
	p.observe(manifest.Observation{Side: manifest.SideRunner, Nonce: item.Nonce, Time: p.r.now(), Sandbox: box, Sign: manifest.SignCrashed,
		Detail: "no authenticated result arrived"})
}

// carryOut runs a plan and records the lines that authenticate. The error is the
// execution's; whatever arrived before it counts.
func (p *phase) carryOut(ctx context.Context, e execution, pl probes.Plan) (performed, error) {
	if err := p.r.halts.pass(ctx); err != nil {
		return performed{}, err
	}
	key, err := newKey()
	if err != nil {
		return performed{}, err
	}
	pl.Key = key
	input, err := json.Marshal(pl)
	if err != nil {
		return performed{}, fmt.Errorf("encode the plan: %w", err)
	}
	pr, pw := io.Pipe()
	reader, err := probes.NewReader(pr, key)
	if err != nil {
		return performed{}, err
	}
	if e.timeout == 0 {
		e.timeout = planTimeout
	}
	var kept limitedBuffer
	stderr := io.Writer(&kept)
	if e.stderr != nil {
		stderr = io.MultiWriter(&kept, e.stderr)
	}
	ended := make(chan error, 1)
	ctx, cancel := p.r.halts.deadline(ctx, e.timeout)
	defer cancel()
	go func() {
		_, err := e.sandbox.Exec(ctx, sandbox.Command{Argv: []string{tool(e.binary), "run"}, Env: e.env,
			Stdin: bytes.NewReader(append(input, '\n')), Stdout: pw, Stderr: stderr})
		pw.Close()
		ended <- err
	}()
	done := p.collect(reader, e, len(pl.Items))
	pr.Close()
	err = <-ended
	done.stderr = kept.text()
	return done, err
}

// collect reads result lines until the output ends, and notes whose arrived.
func (p *phase) collect(reader *probes.Reader, e execution, total int) performed {
	done := performed{seen: map[string]bool{}}
	for {
		o, err := reader.Next()
		if err != nil {
			break
		}
		if e.told != "" && o.Nonce == e.told {
			done.told = &o
			continue
		}
		o.Sandbox = e.box
		done.seen[o.Nonce] = true
		if e.take != nil {
			e.take(o)
		} else {
			p.observe(o)
		}
		if len(done.seen)%64 == 0 || len(done.seen) == total {
			p.step("%s: %d of %d attempts", e.box, len(done.seen), total)
		}
	}
	done.stats = reader.Stats()
	p.mu.Lock()
	p.ignored += done.stats.Ignored()
	p.mu.Unlock()
	return done
}

// measure asks the probe inside the work sandbox for the facts of its
// isolation.
func (p *phase) measure(ctx context.Context) (map[string]string, error) {
	var out, stderr limitedBuffer
	exit, err := p.r.halts.exec(ctx, p.sandboxes[boxWork], sandbox.Command{Argv: []string{tool(p.r.opt.Probe), "facts"}, Stdout: &out, Stderr: &stderr, Timeout: factsTimeout})
	if err == nil && exit != 0 {
		err = fmt.Errorf("exit status %d: %s", exit, stderr.text())
	}
	if err != nil {
		return nil, fmt.Errorf("measure the sandbox from inside: %w", err)
	}
	var facts map[string]string
	if err := json.Unmarshal(out.data, &facts); err != nil {
		return nil, fmt.Errorf("read the facts of the sandbox: %w", err)
	}
	return facts, nil
}

// limitedBuffer keeps the first bytes of an output and drops the rest.
type limitedBuffer struct{ data []byte }

// maxKept bounds what is kept of an output that is read whole.
const maxKept = 256 << 10

func (b *limitedBuffer) Write(data []byte) (int, error) {
	if room := maxKept - len(b.data); room > 0 {
		b.data = append(b.data, data[:min(room, len(data))]...)
	}
	return len(data), nil
}

func (b *limitedBuffer) text() string {
	return string(bytes.TrimSpace(b.data[:min(len(b.data), maxStderr)]))
}

var errNoSnapshots = errors.New("the driver takes no snapshots")
