package witness

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"

	"github.com/wallproof/wallproof/internal/procs"
)

// DefaultUID is the user (and group) that a witness runs as.
const DefaultUID = 65532

// Launch says how Start starts a witness's process, of either role.
type Launch struct {
	Argv   []string    // of the hidden subcommand of this very program that calls Main
	NetNS  string      // path of the namespace that it lives in
	UID    uint32      // unprivileged; 0 means DefaultUID
	GID    uint32      //
	Files  []*os.File  // sockets, as Config.Sockets index them; Start does not close them
	Config Config      //
	Event  func(Event) // called for every event, one at a time; nil drops them
}

// Process is a running witness. Its Log is what it has reported so far; after
// Sync it is complete up to that call, after Stop it is complete.
type Process struct {
	*Log
	CAPEM string // certificate of the world's authority

	proc    *procs.Proc
	control *os.File
	event   func(Event)

	mu       sync.Mutex
	syncs    map[uint64]chan struct{}
	nextSync uint64
}

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
	p := &Process{Log: NewLog(), control: write, event: l.Event, syncs: map[uint64]chan struct{}{}}
	if p.event == nil {
		p.event = func(Event) {}
	}
	spec := procs.Spec{
		Path: procs.Self, Argv: l.Argv, NetNS: l.NetNS, UID: orUID(l.UID), GID: orUID(l.GID), Config: l.Config, OnEvent: p.take,
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
	p.Take(e)
	if e.Type == EventSynced {
		p.synced(e.ID)
	}
	p.event(e)
}

func (p *Process) synced(id uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if done := p.syncs[id]; done != nil {
		close(done)
		delete(p.syncs, id)
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

// Stop ends the process: gracefully until ctx ends, then at once. It is
// idempotent.
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
