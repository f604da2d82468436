package battery

import (
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/attest/packet"
	"github.com/wallproof/wallproof/battery/boundary"
	"github.com/wallproof/wallproof/battery/judge"
	"github.com/wallproof/wallproof/policy/proxy"
	"github.com/wallproof/wallproof/probes/nonce"
)

// timeFormat is how every time in the evidence is written.
const timeFormat = "2006-01-02T15:04:05.000Z"

// joinSlack is how far the clocks of the sandbox and of the enforcement may be
// apart when a record is tied to an attempt by its source port. Ports come round
// again: where several attempts used one in that time, the one counts that alone
// fits within joinTight.
const (
	joinSlack = 2 * time.Second
	joinTight = 250 * time.Millisecond
)

// attempt is one attempt as the join needs it.
type attempt struct {
	nonce   string
	sandbox string
	addrs   []netip.Addr // the sandbox's own addresses
	own     []netip.Addr // destinations that are this attempt's alone
}

// joiner ties the records of the proxy and of the packet filter to attempts: by
// the nonce in a name or payload, by a destination that is the attempt's own,
// or by the attempt's source port within its time. It is filled first and asked
// afterwards; it is not safe for concurrent use.
type joiner struct {
	attempts map[string]attempt
	byOwn    map[netip.Addr]string
	byPort   map[portKey][]window
	sandbox  map[netip.Addr]string
	text     func(id uint64) string // what a log says of an event and is not kept; nil without one
}

type portKey struct {
	proto string
	addr  netip.Addr
	port  uint16
}

type window struct {
	nonce    string
	from, to time.Time
}

func newJoiner(attempts []attempt) *joiner {
	j := &joiner{attempts: map[string]attempt{}, byOwn: map[netip.Addr]string{}, byPort: map[portKey][]window{}, sandbox: map[netip.Addr]string{}}
	for _, a := range attempts {
		j.attempts[a.nonce] = a
		for _, addr := range a.own {
			if _, taken := j.byOwn[addr]; taken {
				j.byOwn[addr] = "" // two attempts share it, so it says nothing
				continue
			}
			j.byOwn[addr] = a.nonce
		}
		for _, addr := range a.addrs {
			j.sandbox[addr] = a.sandbox
		}
	}
	return j
}

// learnPorts notes the source ports that an attempt said it used.
func (j *joiner) learnPorts(o manifest.Observation) {
	a, ok := j.attempts[o.Nonce]
	if !ok {
		return
	}
	start, err := time.Parse(timeFormat, o.Time)
	if err != nil {
		return
	}
	w := window{nonce: o.Nonce, from: start, to: start.Add(time.Duration(o.Millis) * time.Millisecond)}
	for _, local := range o.Local {
		proto, port, ok := parseLocal(local)
		if !ok {
			continue
		}
		for _, addr := range a.addrs {
			k := portKey{proto, addr, port}
			j.byPort[k] = append(j.byPort[k], w)
		}
	}
}

// parseLocal reads "tcp/40123".
func parseLocal(s string) (proto string, port uint16, ok bool) {
	proto, digits, ok := strings.Cut(s, "/")
	if !ok {
		return "", 0, false
	}
	ap, err := netip.ParseAddrPort("0.0.0.0:" + digits)
	if err != nil || (proto != "tcp" && proto != "udp") {
		return "", 0, false
	}
	return proto, ap.Port(), true
}

// owner finds the attempt that a packet or request belongs to, "" when none.
func (j *joiner) owner(proto string, src, dst netip.AddrPort, at time.Time, text ...string) string {
	for _, t := range text {
		for _, n := range nonce.Find([]byte(t)) {
			if _, ok := j.attempts[n]; ok {
				return n
			}
		}
	}
	if n := j.byOwn[dst.Addr().Unmap()]; n != "" {
		return n
	}
	windows := j.byPort[portKey{proto, src.Addr().Unmap(), src.Port()}]
	found, several := within(windows, at, joinTight)
	if found == "" && !several {
		found, _ = within(windows, at, joinSlack)
	}
	return found
}

// within finds the attempt in whose time, give or take slack, something
// happened. When the port was used twice in that time there are several: no
// guess.
func within(windows []window, at time.Time, slack time.Duration) (nonce string, several bool) {
	for _, w := range windows {
		if at.Before(w.from.Add(-slack)) || at.After(w.to.Add(slack)) {
			continue
		}
		if nonce != "" && nonce != w.nonce {
			return "", true
		}
		nonce = w.nonce
	}
	return nonce, false
}

// fromProxy turns the proxy's events into observations of the attempts that
// they belong to. Events of the same attempt, verdict, rule and host are
// counted together.
func (j *joiner) fromProxy(events []proxy.Event) []manifest.Observation {
	decided := map[uint64]proxy.Event{}
	var out aggregator
	for _, e := range events {
		decidedAt := e.Time
		switch e.Type {
		case proxy.EventDecision:
			decided[e.ID] = e
		case proxy.EventClosed:
			d, ok := decided[e.ID]
			if !ok {
				continue
			}
			// What was masked after the head is known at the end, which may come when
			// the attempt is over; whose request it was is told by when it began.
			decidedAt = d.Time
			d.Redacted, d.Time = e.Redacted-d.Redacted, e.Time
			if d.Redacted <= 0 {
				continue
			}
			e = d
		default:
			continue
		}
		at, err := time.Parse(timeFormat, decidedAt)
		if err != nil {
			continue
		}
		src, _ := netip.ParseAddrPort(e.Client)
		dst, _ := netip.ParseAddrPort(e.Original)
		proto := "tcp"
		if e.Listener == proxy.KindDNSUDP {
			proto = "udp"
		}
		said := ""
		if j.text != nil {
			said = j.text(e.ID)
		}
		n := j.owner(proto, src, dst, at, e.Host, said)
		if n == "" {
			continue
		}
		out.add(j.proxyObservation(n, e, src))
	}
	return out.all()
}

// failures are the proxy's reasons that say that something broke, not that the
// policy refused it. A dead upstream blocks nothing.
var failures = []string{proxy.ReasonResolveFailed, proxy.ReasonNoAddress, proxy.ReasonDialFailed, proxy.ReasonUpstreamTLS, proxy.ReasonUpstreamClosed, proxy.ReasonUpstreamResponse, proxy.ReasonLimit,
	proxy.ReasonTimeout, proxy.ReasonConnections, proxy.ReasonInternal, proxy.ReasonShutdown, proxy.ReasonSecretMissing, proxy.ReasonLeaseMint, proxy.ReasonTLSClient}

// verdictFailed is the verdict of an observation that is one of these.
const verdictFailed = "failed"

func (j *joiner) proxyObservation(n string, e proxy.Event, src netip.AddrPort) manifest.Observation {
	o := manifest.Observation{Side: manifest.SideProxy, Nonce: n, Time: e.Time, Sandbox: j.sandbox[src.Addr().Unmap()],
		Proto: e.Scheme, Host: e.Host, Dest: e.Dialled, Verdict: e.Verdict, Rule: e.Reason, Status: int64(e.Status), Count: 1}
	if e.Verdict == proxy.Deny && slices.Contains(failures, e.Reason) {
		o.Verdict = verdictFailed
	}
	if e.Redacted > 0 {
		o.Verdict, o.Rule, o.Count = judge.VerdictRedact, "redaction", e.Redacted
	}
	return o
}

// fromFilter turns rejected packets into observations.
func (j *joiner) fromFilter(denials []boundary.Denial) []manifest.Observation {
	var out aggregator
	for _, d := range denials {
		if d.Rule == boundary.RuleStale {
			continue // a late segment of a connection that is over: nobody's attempt
		}
		n := j.owner(d.Proto, d.Src, d.Dst, d.Time, string(d.Payload))
		if n == "" {
			continue
		}
		out.add(manifest.Observation{Side: manifest.SideFilter, Nonce: n, Time: d.Time.UTC().Format(timeFormat), Sandbox: j.sandbox[d.Src.Addr().Unmap()],
			Proto: d.Proto, Dest: d.Dst.String(), Verdict: judge.VerdictDeny, Rule: d.Rule, Count: 1})
	}
	return out.all()
}

// aggregator counts observations that differ only in time.
type aggregator struct {
	order []manifest.Observation
	at    map[aggregateKey]int
}

type aggregateKey struct {
	nonce, sandbox, proto, host, dest, verdict, rule string
	status                                           int64
}

func (a *aggregator) add(o manifest.Observation) {
	if a.at == nil {
		a.at = map[aggregateKey]int{}
	}
	k := aggregateKey{o.Nonce, o.Sandbox, o.Proto, o.Host, o.Dest, o.Verdict, o.Rule, o.Status}
	if i, ok := a.at[k]; ok {
		a.order[i].Count += o.Count
		return
	}
	a.at[k] = len(a.order)
	a.order = append(a.order, o)
}

func (a *aggregator) all() []manifest.Observation { return a.order }

// sortObservations puts a phase's observations in the order in which they are
// written: by nonce, then side, then time, so that the same facts give the same
// bytes.
func sortObservations(all []manifest.Observation) {
	slices.SortStableFunc(all, packet.CompareObservations)
}
