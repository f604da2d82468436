package witness

import (
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wallproof/wallproof/probes/paths"
)

// Bounds on what is remembered of flows and packets.
const (
	maxFlows       = 1 << 16
	flowMemory     = time.Minute // how long an ended flow is remembered
	forgetEvery    = time.Second // at most, when there is no room
	maxHeldPackets = 1 << 14
	// orphanAge is how old a packet of no known flow must be before it is taken for
	// one that no service answers: on a busy machine a connection is accepted, and
	// a datagram read, long after its packet was captured.
	orphanAge = 3 * time.Second
)

// flowKey names a flow as it is on the wire.
type flowKey struct {
	proto    string // "tcp" or "udp"
	src, dst netip.AddrPort
}

// route is a flow without its source port. The redirect that leads every
// destination to one socket gives a connection another source port when two to
// different destinations had the same, so that the port on the wire and the one
// that the service sees can differ.
type route struct {
	proto string
	src   netip.Addr
	dst   netip.AddrPort
}

func (k flowKey) route() route { return route{k.proto, k.src.Addr(), k.dst} }

// flow is a connection or an exchange of datagrams that a service answers.
type flow struct {
	service atomic.Pointer[string] // as far as is known; see ledger.claim
	spoke   atomic.Bool            // its service has read something
	ledger  *ledger                // nil once ended, and for datagrams
	ended   time.Time              // zero while it lives
}

// heldPacket is a captured packet that carries a nonce and may belong to a flow
// of which no service has said anything yet.
type heldPacket struct {
	at      time.Time
	key     flowKey
	s       sighting
	payload []byte // its first bytes
}

// flows ties captured packets to the services that answered them. A packet is
// dropped once a service has recorded the same nonce at the same destination. One
// of a flow that a service answered, but whose nonce the service has missed, is
// recorded under the service's name. Only what no service answered becomes a
// record of the capture.
type flows struct {
	mu        sync.Mutex
	byKey     map[flowKey]*flow
	byRoute   map[route]*flow // the latest
	held      []heldPacket
	isHeld    map[heldKey]bool
	dropped   uint64
	forgotten time.Time     // when flows were last forgotten
	age       time.Duration // orphanAge outside tests
}

// heldKey names packets that say the same.
type heldKey struct {
	flow  flowKey
	nonce string
}

func newFlows() *flows {
	return &flows{byKey: map[flowKey]*flow{}, byRoute: map[route]*flow{}, isHeld: map[heldKey]bool{}, age: orphanAge}
}

// add registers a flow.
func (f *flows) add(key flowKey, l *ledger, service string) *flow {
	fl := &flow{ledger: l}
	fl.service.Store(&service)
	f.mu.Lock()
	defer f.mu.Unlock()
	if now := time.Now(); len(f.byKey) >= maxFlows && now.Sub(f.forgotten) > forgetEvery {
		f.forget(now)
	}
	if len(f.byKey) < maxFlows {
		f.byKey[key], f.byRoute[key.route()] = fl, fl
	}
	if l == nil {
		fl.ended = time.Now()
	}
	return fl
}

// end notes that a connection has ended.
func (f *flows) end(fl *flow) {
	if fl == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	fl.ledger, fl.ended = nil, time.Now()
}

// forget drops flows that ended long ago. The lock is held.
func (f *flows) forget(now time.Time) {
	f.forgotten = now
	for k, fl := range f.byKey {
		if !fl.ended.IsZero() && now.Sub(fl.ended) > flowMemory {
			delete(f.byKey, k)
			if f.byRoute[k.route()] == fl {
				delete(f.byRoute, k.route())
			}
		}
	}
}

// attribute records what living connections hold and no request has claimed.
func (f *flows) attribute() {
	f.mu.Lock()
	var all []*ledger
	for _, fl := range f.byKey {
		if fl.ledger != nil {
			all = append(all, fl.ledger)
		}
	}
	f.mu.Unlock()
	for _, l := range all {
		l.attribute()
	}
}

// hold keeps a captured packet, which carries a nonce, until its flow can be
// known.
func (f *flows) hold(p heldPacket) {
	f.mu.Lock()
	defer f.mu.Unlock()
	key := heldKey{p.key, p.s.nonces[0]}
	switch {
	case len(p.s.nonces) == 1 && f.isHeld[key]:
	case len(f.held) >= maxHeldPackets:
		f.dropped++
	default:
		f.held = append(f.held, p)
		f.isHeld[key] = len(p.s.nonces) == 1
	}
}

// settling says which held packets are decided about.
type settling int

const (
	settleRipe   settling = iota // whose flow has ended or whose nonce its service has recorded, or that are too old to wait for a flow
	settleLiving                 // also those of living connections, whose services have been asked to record what they have
	settleAll                    // every one
)

// settlePackets decides about held packets.
func (f *flows) settlePackets(w *World, which settling) {
	now := time.Now()
	f.mu.Lock()
	var ripe []heldPacket
	var service []string
	keep := f.held[:0]
	for _, p := range f.held {
		fl, seen, age := f.of(p), w.rec.sawAll(p.s.nonces, p.s.dst, p.s.datagram), now.Sub(p.at)
		orphan := fl == nil && age < f.age
		living := fl != nil && fl.ledger != nil || age < w.settle
		if !seen && (which < settleAll && orphan || which < settleLiving && living) {
			keep = append(keep, p)
			continue
		}
		delete(f.isHeld, heldKey{p.key, p.s.nonces[0]})
		ripe = append(ripe, p)
		service = append(service, p.serviceOf(fl, w.routes))
	}
	clear(f.held[len(keep):])
	f.held = keep
	f.forget(now)
	f.mu.Unlock()
	for i, p := range ripe {
		w.rec.see(p.settled(service[i], w.rec))
	}
}

// of is the flow that a packet belongs to, nil while none is known.
func (f *flows) of(p heldPacket) *flow {
	if fl := f.byKey[p.key]; fl != nil {
		return fl
	}
	return f.byRoute[p.key.route()]
}

// orphans tells whether packets of no known flow are being waited for.
func (f *flows) orphans() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, p := range f.held {
		if f.of(p) == nil && time.Since(p.at) < f.age {
			return true
		}
	}
	return false
}

// serviceOf is the service that answered a packet's flow, "" for none. Where no
// service has read anything (the connection broke before, or the packet never
// made it to a socket), the packet itself tells for whom it was, so that a proxy
// that gives up on an allowed host is not taken for an arrival at the open
// internet.
func (p heldPacket) serviceOf(fl *flow, r *routes) string {
	switch {
	case fl != nil && (fl.spoke.Load() || p.key.proto != "tcp"):
		return *fl.service.Load()
	case p.key.proto == "udp" && p.s.dst.Port() == portDNS:
		return paths.ServiceDNS
	case p.key.proto != "tcp":
		return ""
	}
	host, overTLS := namedIn(p.payload)
	service, role := r.service(p.s.dst.Addr(), host, host, overTLS)
	if fl == nil && role == HostPlain {
		return ""
	}
	return service
}

// settled is what remains to be recorded of a packet: nothing when a service has
// seen its nonces arrive at the same destination.
func (p heldPacket) settled(service string, rec *recorder) sighting {
	s := p.s
	s.nonces = nil
	for _, n := range p.s.nonces {
		if !rec.sawAll([]string{n}, s.dst, s.datagram) {
			s.nonces = append(s.nonces, n)
		}
	}
	if service != "" {
		s.service, s.detail = service, "seen by the packet capture only"
	}
	return s
}

func (f *flows) droppedCount() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.dropped
}
