package witness

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"

	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/internal/procs"
)

// DefaultUID is the user (and group) that a witness runs as.
const DefaultUID = 65532

// Launch says how Start starts a witness's process, of either role.
type Launch struct {
	Argv   []string    // the hidden subcommand of our own binary that calls Main
	NetNS  string      // path of the namespace that it lives in
	UID    uint32      // unprivileged; 0 means DefaultUID
	GID    uint32      //
	Files  []*os.File  // sockets, as Config.Sockets index them; Start does not close them
	Config Config      //
	Event  func(Event) // called for every event, one at a time; nil drops them
}

// Process is a running witness.
type Process struct {
	CAPEM string // certificate of the world's authority

	proc    *procs.Proc
	control *os.File
	event   func(Event)

	mu       sync.Mutex
	observed []manifest.Observation // by Event.ID, from 1
	pushes   []Push
	leases   []Lease
	dropped  uint64
	syncs    map[uint64]chan struct{}
	nextSync uint64
	failures []string
}

// maxKept bounds what is kept of a witness, whose own bounds are lower.
const maxKept = 1 << 18

// maxFailures bounds how many reports of failed parts are kept.
const maxFailures = 16

// Start starts a witness and waits until it listens. When it returns an error
// nothing is left running.
func Start(ctx context.Context, l Launch) (*Process, error) {
	if err := l.Config.Validate(); err != nil {
		return nil, err
	}
	read, write, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("start witness: %w", err)
	}
	defer read.Close()
	p := &Process{control: write, event: l.Event, syncs: map[uint64]chan struct{}{}}
	if p.event == nil {
		p.event = func(Event) {}
	}
	spec := procs.Spec{
		Argv: l.Argv, NetNS: l.NetNS, UID: orUID(l.UID), GID: orUID(l.GID), Config: l.Config, OnEvent: p.take,
		Files: []procs.NamedFile{{Name: controlFile, File: read}},
	}
	for i, f := range l.Files {
		spec.Files = append(spec.Files, procs.NamedFile{Name: socketFile + strconv.Itoa(i), File: f})
	}
	if p.proc, err = procs.Start(ctx, spec); err != nil {
		_ = write.Close()
		return nil, fmt.Errorf("start witness: %w", err)
	}
	var ready Ready
	if err := json.Unmarshal(p.proc.Ready(), &ready); err != nil {
		return nil, errors.Join(fmt.Errorf("start witness: %w", err), p.Stop(ctx))
	}
	p.CAPEM = ready.CAPEM
	return p, nil
}

func orUID(id uint32) uint32 {
	if id == 0 {
		return DefaultUID
	}
	return id
}

// take keeps an event.
func (p *Process) take(raw json.RawMessage) {
	var e Event
	if err := json.Unmarshal(raw, &e); err != nil {
		e = Event{Type: EventFailure, Detail: "event cannot be read: " + err.Error()}
	}
	p.keep(e)
	p.event(e)
}

func (p *Process) keep(e Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch e.Type {
	case EventObservation:
		switch i := e.ID; {
		case e.Observation == nil || i == 0 || i > uint64(len(p.observed))+1 || i > maxKept:
			p.dropped++
		case i <= uint64(len(p.observed)):
			p.observed[i-1] = *e.Observation
		default:
			p.observed = append(p.observed, *e.Observation)
		}
	case EventPush:
		if e.Push != nil && len(p.pushes) < maxKept {
			p.pushes = append(p.pushes, *e.Push)
		}
	case EventLease:
		p.keepLease(e.Lease)
	case EventSynced:
		p.dropped = max(p.dropped, e.Dropped)
		if done := p.syncs[e.ID]; done != nil {
			close(done)
			delete(p.syncs, e.ID)
		}
	case EventStopped:
		p.dropped = max(p.dropped, e.Dropped)
	case EventFailure:
		if len(p.failures) < maxFailures {
			p.failures = append(p.failures, e.Detail)
		}
	}
}

func (p *Process) keepLease(l *Lease) {
	if l == nil {
		return
	}
	if i := slices.IndexFunc(p.leases, func(have Lease) bool { return have.ID == l.ID }); i >= 0 {
		p.leases[i] = *l
	} else if len(p.leases) < maxKept {
		p.leases = append(p.leases, *l)
	}
}

// ErrStopped means that the witness's process has ended.
var ErrStopped = errors.New("the witness has stopped")

// Sync waits until everything that had arrived when it was called is in
// Observations.
func (p *Process) Sync(ctx context.Context) error {
	p.mu.Lock()
	p.nextSync++
	id, done := p.nextSync, make(chan struct{})
	p.syncs[id] = done
	p.mu.Unlock()
	line, err := json.Marshal(Command{Sync: id})
	if err == nil {
		_, err = p.control.Write(append(line, '\n'))
	}
	if err != nil {
		return fmt.Errorf("sync witness: %w", err)
	}
	select {
	case <-done:
		return nil
	case <-p.proc.Done():
		return fmt.Errorf("sync witness: %w", errors.Join(ErrStopped, p.proc.Wait()))
	case <-ctx.Done():
		return fmt.Errorf("sync witness: %w", ctx.Err())
	}
}

// Observations returns what has been seen so far, in order of arrival.
func (p *Process) Observations() []manifest.Observation {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.observed)
}

// Pushes returns the ref updates that the forge was asked for so far.
func (p *Process) Pushes() []Push {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.pushes)
}

// Leases returns the installation tokens that the forge issued so far, revoked
// ones marked.
func (p *Process) Leases() []Lease {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.leases)
}

// Dropped is how many arrivals exceeded the witness's bounds, as of the last
// Sync or Stop. With any, absence of an observation proves nothing.
func (p *Process) Dropped() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dropped
}

// Failures are reports of parts of the witness that failed, the first few.
func (p *Process) Failures() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.failures)
}

// Stop ends the process: gracefully until ctx ends, then at once. It is
// idempotent. Afterwards Observations is complete.
func (p *Process) Stop(ctx context.Context) error {
	err := p.proc.Stop(ctx)
	_ = p.control.Close()
	if err != nil {
		return fmt.Errorf("stop witness: %w", err)
	}
	return nil
}

// Done is closed when the process has ended for whatever reason.
func (p *Process) Done() <-chan struct{} { return p.proc.Done() }
