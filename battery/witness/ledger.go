package witness

import (
	"net/netip"
	"slices"
	"sync"

	"github.com/wallproof/wallproof/probes/paths"
)

// ledger is what has arrived over one connection and what has become of it. The
// connection and the TLS session inside it share one. Bytes are scanned as they
// arrive, before anyone knows what they mean: a nonce is pending until a request
// claims it, and what nobody claims is recorded by itself.
type ledger struct {
	w        *World
	src, dst netip.AddrPort
	flow     *flow  // nil for connections that are not on the wire
	fixed    string // service of everything that arrives here, "" to decide
	silent   bool   // only requests that are answered here are recorded: the rest is passed on

	mu       sync.Mutex
	pending  []string // nonces
	obtained []string // digests of canaries
	received int64
	claimed  map[string]bool
	service  string // of the last request, "" before any
	host     string // of the last request
	tls      bool
	inside   bool   // bytes came over the TLS session
	head     []byte // the first bytes, of the TLS session where there is one
	sni      string // folded
	note     string
}

func newLedger(w *World, src, dst netip.AddrPort) *ledger {
	return &ledger{w: w, src: src, dst: dst, claimed: map[string]bool{}}
}

// arrive notes bytes and what a scan has found in them.
func (l *ledger) arrive(piece []byte, nonces, obtained []string, inside bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.flow != nil {
		l.flow.spoke.Store(true)
	}
	if l.inside && !inside {
		return // cipher text of the session
	}
	l.received += int64(len(piece))
	if inside && !l.inside {
		l.inside, l.head = true, nil
	}
	l.head = append(l.head, piece[:min(len(piece), peekSize-len(l.head))]...)
	for _, n := range nonces {
		if !l.claimed[n] && !slices.Contains(l.pending, n) {
			l.pending = append(l.pending, n)
		}
	}
	for _, d := range obtained {
		if !slices.Contains(l.obtained, d) && len(l.obtained) < maxObtained {
			l.obtained = append(l.obtained, d)
		}
	}
}

// hello notes what a ClientHello says.
func (l *ledger) hello(sni, note string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tls, l.sni, l.note = true, sni, note
}

// tlsState returns whether the connection is TLS, and for which name.
func (l *ledger) tlsState() (overTLS bool, sni, note string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.tls, l.sni, l.note
}

// claim notes that a request has been recorded with these nonces and canaries,
// under this service.
func (l *ledger) claim(service, host string, nonces, obtained []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.service, l.host = service, host
	for _, n := range nonces {
		l.claimed[n] = true
	}
	l.pending = slices.DeleteFunc(l.pending, func(n string) bool { return l.claimed[n] })
	l.obtained = slices.DeleteFunc(l.obtained, func(d string) bool { return slices.Contains(obtained, d) })
	if l.flow != nil {
		l.flow.service.Store(&service)
	}
}

// attribute records what no request has claimed: a nonce in a ClientHello
// without a request, in a request that no server would take, in bytes of another
// protocol.
func (l *ledger) attribute() {
	if s, ok := l.take(); ok {
		l.w.rec.see(s)
	}
}

func (l *ledger) take() (sighting, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.silent || len(l.pending) == 0 && len(l.obtained) == 0 {
		return sighting{}, false
	}
	s := sighting{
		nonces: l.pending, obtained: l.obtained, service: l.service, proto: "tcp", src: l.src, dst: l.dst,
		host: l.host, bytes: l.received, detail: l.note,
	}
	for _, n := range l.pending {
		l.claimed[n] = true
	}
	l.pending, l.obtained, l.received = nil, nil, 0
	if l.tls {
		s.proto = "tls"
	}
	if s.service == "" && l.fixed != "" {
		s.service, s.host = l.fixed, l.sni
	}
	if s.service == "" {
		// No request has been read to its end, so the beginning must tell.
		s.host = l.sni
		if host, hello := namedIn(l.head); host != "" && !hello {
			s.host = host
		}
		s.service, _ = l.w.routes.service(l.dst.Addr(), s.host, l.sni, l.tls)
		if l.tls && !l.inside && s.service == paths.ServiceCollector {
			s.service = paths.ServiceTLS
		}
	}
	return s, true
}
