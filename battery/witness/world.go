package witness

import (
	"context"
	"encoding/hex"
	"fmt"
	"net/netip"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/wallproof/wallproof/battery/witness/forge"
	"github.com/wallproof/wallproof/battery/witness/pki"
	"github.com/wallproof/wallproof/battery/witness/scan"
	"github.com/wallproof/wallproof/battery/witness/services"
	"github.com/wallproof/wallproof/probes/nonce"
)

// Bounds on what is served at once.
const (
	maxConns      = 1024
	maxHandlers   = 256     // datagrams being answered
	maxBufferedMB = 256     // bodies held in memory, in MiB
	maxBody       = 1 << 20 // of one request; more for a push, see forge.NeedsLargeBody
	maxStream     = 4 << 20 // bytes of one connection that are scanned
)

// settle is how long everything must have been quiet before a Sync is answered.
// The kernel gives no order between the capture of a packet, the acceptance of
// its connection and the delivery of its bytes, so that only quiet shows that
// what arrived has been seen; maxSettle ends the wait under a flood, and closeWait
// the same wait when the world ends.
const (
	settle    = 150 * time.Millisecond
	maxSettle = 5 * time.Second
	closeWait = 2 * time.Second
)

// World is the witness in one process: what Main runs, and what a test can run
// in its own. Give it sockets with the Serve methods.
type World struct {
	cfg    Config
	key    []byte
	minter *pki.Minter
	ca     CA
	finder *scan.Finder
	rec    *recorder
	flows  *flows
	routes *routes
	zone   *zone
	forge  *forge.Forge
	fabric *services.Platform
	events func(Event)
	byAddr map[netip.Addr]string
	settle time.Duration // the constant outside tests

	registry, model, metadata, control, pages, issues, tools services.Service

	ctx      context.Context
	cancel   context.CancelFunc
	wg       sync.WaitGroup
	slots    *semaphore.Weighted // connections
	handlers *semaphore.Weighted // datagrams
	buffers  *semaphore.Weighted // MiB of bodies
	active   atomic.Int64        // time of the last arrival, Unix nanoseconds
	failures atomic.Int64        // reported

	mu      sync.Mutex
	closers map[any]func()
	closed  bool
}

// New makes a world. onEvent gets every event, one at a time, and must not block
// for long; nil drops them.
func New(cfg Config, onEvent func(Event)) (*World, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	key, err := hex.DecodeString(cfg.NonceKey)
	if err != nil {
		return nil, fmt.Errorf("%w: nonceKey: %w", ErrConfig, err)
	}
	if cfg.CA == (CA{}) {
		if cfg.CA, err = NewCA(); err != nil {
			return nil, err
		}
	}
	minter, err := cfg.CA.Minter()
	if err != nil {
		return nil, err
	}
	w := &World{cfg: cfg, key: key, ca: cfg.CA, minter: minter, finder: scan.New(cfg.Nonces), flows: newFlows(), zone: newZone(cfg.Resolve), settle: settle}
	w.events = oneAtATime(onEvent)
	w.rec = newRecorder(w.events, time.Now)
	w.routes = newRoutes(&cfg, w.zone)
	w.slots, w.handlers, w.buffers = semaphore.NewWeighted(maxConns), semaphore.NewWeighted(maxHandlers), semaphore.NewWeighted(maxBufferedMB)
	w.closers = map[any]func(){}
	w.byAddr = map[netip.Addr]string{}
	for a, n := range cfg.AddrNonces {
		if parsed, err := netip.ParseAddr(a); err == nil { // Validate has looked at it
			w.byAddr[parsed.Unmap()] = n
		}
	}
	if err := w.furnish(); err != nil {
		return nil, err
	}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	w.start(w.report)
	return w, nil
}

// furnish makes the services.
func (w *World) furnish() error {
	f, err := forge.New(w.cfg.Forge, forge.Hooks{
		Find:  w.finder.Find,
		Push:  func(p Push) { w.events(Event{Type: EventPush, Push: &p}) },
		Lease: func(l Lease) { w.events(Event{Type: EventLease, Lease: &l}) },
	})
	if err != nil {
		return fmt.Errorf("%w: %w", ErrConfig, err)
	}
	w.forge = f
	w.fabric = services.NewPlatform(w.cfg.PlatformTokens)
	w.registry = services.Registry(w.cfg.Packages)
	w.model = w.cfg.Model.service()
	w.metadata = services.Metadata(w.cfg.Metadata.Canary)
	w.control = services.ControlPlanes(w.cfg.Metadata.Canary)
	w.pages = services.Pages(w.cfg.Pages)
	w.issues = services.Issues(w.cfg.Issues)
	w.tools = services.Tools(w.cfg.Tools)
	return nil
}

func oneAtATime(f func(Event)) func(Event) {
	if f == nil {
		return func(Event) {}
	}
	var mu sync.Mutex
	return func(e Event) {
		mu.Lock()
		defer mu.Unlock()
		f(e)
	}
}

// CAPEM is the certificate of the world's authority.
func (w *World) CAPEM() string { return w.ca.CertPEM }

// report reports growing records until the world ends.
func (w *World) report() {
	t := time.NewTicker(flushEvery)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			w.flows.settlePackets(w, settleRipe)
			w.rec.flush()
		case <-w.ctx.Done():
			return
		}
	}
}

// Sync returns once everything has been quiet for a moment and all that arrived
// before has been reported, or when ctx ends.
func (w *World) Sync(ctx context.Context) error {
	deadline := time.Now().Add(maxSettle)
	t := time.NewTicker(w.settle / 5)
	defer t.Stop()
	for start := time.Now(); ; {
		last := time.Unix(0, w.active.Load())
		quiet := time.Since(last) >= w.settle && time.Since(start) >= w.settle
		if quiet && !w.flows.orphans() || time.Now().After(deadline) {
			break
		}
		select {
		case <-t.C:
		case <-ctx.Done():
			return fmt.Errorf("wait for the witness to settle: %w", ctx.Err())
		}
	}
	w.flows.attribute()
	w.flows.settlePackets(w, settleLiving)
	w.rec.flush()
	return nil
}

// Dropped is how many arrivals exceeded the bounds and are not in any
// observation.
func (w *World) Dropped() uint64 { return w.rec.droppedCount() + w.flows.droppedCount() }

// Close stops serving, ends every connection and reports what is left. It waits
// for all of it, and a moment for packets that nobody has answered yet.
func (w *World) Close() error {
	for end := time.Now().Add(closeWait); w.flows.orphans() && time.Now().Before(end); {
		if !w.pause(w.settle) {
			break
		}
	}
	w.mu.Lock()
	if w.closed {
		w.mu.Unlock()
		return nil
	}
	w.closed = true
	for _, c := range w.closers {
		c()
	}
	w.mu.Unlock()
	w.cancel()
	w.wg.Wait()
	w.flows.settlePackets(w, settleAll)
	w.rec.flush()
	return nil
}

// own registers something to be closed with the world; ok is false when the
// world has ended, and then it has been closed.
func (w *World) own(key any, c func()) (ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		c()
		return false
	}
	w.closers[key] = c
	return true
}

func (w *World) disown(key any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.closers, key)
}

// start runs f in a goroutine that Close waits for. What f is fed comes from
// outside, so a panic in it is contained and reported.
func (w *World) start(f func()) {
	w.wg.Add(1)
	go func() {
		defer w.wg.Done()
		defer w.contain()
		f()
	}()
}

func (w *World) contain() {
	if p := recover(); p != nil {
		stack := debug.Stack()
		w.fail(fmt.Sprintf("panic: %v: %s", p, stack[:min(len(stack), 2048)]))
	}
}

// maxReported bounds how many failures are reported: what fails once for bytes
// from outside can be made to fail again.
const maxReported = 64

func (w *World) fail(detail string) {
	if w.failures.Add(1) <= maxReported {
		w.events(Event{Type: EventFailure, Detail: detail})
	}
}

// touch notes that something has just arrived.
func (w *World) touch() { w.active.Store(time.Now().UnixNano()) }

// answer is what the world sends back for a nonce, "" for none.
func (w *World) answer(n string) string {
	if n == "" {
		return ""
	}
	return nonce.Answer(w.key, n)
}

// serviceAt is the service of an arrival that names no host.
func (w *World) serviceAt(dst netip.Addr) string {
	s, _ := w.routes.service(dst, "", "", false)
	return s
}
