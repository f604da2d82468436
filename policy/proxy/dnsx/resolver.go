// Package dnsx is the proxy's name service: a resolver that looks allowed names
// up, and the parsing and building of the messages that a sandbox's queries
// come in and its answers go out.
package dnsx

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/miekg/dns"
)

// Bounds of the resolver.
const (
	maxAddresses = 64               // of one name
	maxChain     = 16               // CNAMEs from a name to its addresses
	maxNames     = 65536            // remembered; beyond it all are forgotten
	minTTL       = time.Second      //
	maxTTL       = 5 * time.Minute  // an answer is looked up anew after this long
	memory       = 30 * time.Minute // for so long a connection to an address of an old answer is recognised
	attempts     = 2                // over all servers, for each type
	udpTimeout   = 2 * time.Second  //
	udpSize      = 1232             // DNS flag day 2020
)

// Errors of Lookup.
var (
	// ErrNoName: the name does not exist.
	ErrNoName = errors.New("name does not exist")
	// ErrNoAddress: it exists and has no address.
	ErrNoAddress = errors.New("name has no address")
)

// Resolver looks names up and remembers what it answered.
type Resolver struct {
	instead func(ctx context.Context, name string) ([]netip.Addr, time.Duration, error) // of servers
	servers []string
	dial    func(ctx context.Context, network, address string) (net.Conn, error)
	now     func() time.Time

	mu    sync.Mutex
	names map[string]*entry
}

// entry is what is known of a name. wait is closed when a look-up ends.
type entry struct {
	addrs   []netip.Addr
	err     error
	expires time.Time
	seen    map[netip.Addr]time.Time // when an address was last among the answers
	wait    chan struct{}
}

// NewResolver asks the given servers ("ip:port"); with none, those of
// /etc/resolv.conf.
func NewResolver(servers []string, dial func(ctx context.Context, network, address string) (net.Conn, error), now func() time.Time) *Resolver {
	if len(servers) == 0 {
		servers = systemServers()
	}
	return &Resolver{servers: servers, dial: dial, now: now, names: map[string]*entry{}}
}

// NewResolverFunc asks a function instead of name servers.
func NewResolverFunc(ask func(ctx context.Context, name string) ([]netip.Addr, time.Duration, error), now func() time.Time) *Resolver {
	return &Resolver{instead: ask, now: now, names: map[string]*entry{}}
}

// systemServers reads the system's name servers, at most three as usual.
func systemServers() []string {
	b, err := os.ReadFile("/etc/resolv.conf")
	if err != nil {
		return nil
	}
	var out []string
	for sc := bufio.NewScanner(bytes.NewReader(b)); sc.Scan() && len(out) < 3; {
		f := strings.Fields(sc.Text())
		if len(f) < 2 || f[0] != "nameserver" {
			continue
		}
		if a, err := netip.ParseAddr(f[1]); err == nil {
			out = append(out, netip.AddrPortFrom(a, 53).String())
		}
	}
	return out
}

// Answer is the addresses of a name and how long they may be kept.
type Answer struct {
	Addrs []netip.Addr
	TTL   time.Duration
}

// Lookup returns the addresses of a normalised name, IPv4 first. Concurrent
// look-ups of one name share one query.
func (r *Resolver) Lookup(ctx context.Context, name string) (Answer, error) {
	for {
		r.mu.Lock()
		e := r.names[name]
		now := r.now()
		if e != nil && e.wait == nil && now.Before(e.expires) {
			r.mu.Unlock()
			return Answer{e.addrs, e.expires.Sub(now)}, e.err
		}
		if e != nil && e.wait != nil {
			wait := e.wait
			r.mu.Unlock()
			select {
			case <-wait:
				continue
			case <-ctx.Done():
				return Answer{}, ctx.Err()
			}
		}
		e = r.begin(name, e)
		r.mu.Unlock()
		return r.finish(ctx, e, name)
	}
}

func (r *Resolver) begin(name string, e *entry) *entry {
	if e == nil {
		if len(r.names) >= maxNames {
			clear(r.names)
		}
		e = &entry{seen: map[netip.Addr]time.Time{}}
		r.names[name] = e
	}
	e.wait = make(chan struct{})
	return e
}

func (r *Resolver) finish(ctx context.Context, e *entry, name string) (Answer, error) {
	ask := r.query
	if r.instead != nil {
		ask = r.instead
	}
	addrs, ttl, err := ask(ctx, name)
	r.mu.Lock()
	defer r.mu.Unlock()
	close(e.wait)
	e.wait = nil
	now := r.now()
	if err != nil && !errors.Is(err, ErrNoName) && !errors.Is(err, ErrNoAddress) {
		return Answer{}, err // a failure is not remembered
	}
	e.addrs, e.err, e.expires = addrs, err, now.Add(ttl)
	for a, at := range e.seen {
		if now.Sub(at) > memory {
			delete(e.seen, a)
		}
	}
	for _, a := range addrs {
		if len(e.seen) < 16*maxAddresses {
			e.seen[a] = now
		}
	}
	return Answer{addrs, ttl}, err
}

// Recent says whether a was among the answers for name not long ago. A sandbox
// dials what it was told earlier; big names are told something else each time.
func (r *Resolver) Recent(name string, a netip.Addr) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.names[name]
	if e == nil {
		return false
	}
	at, ok := e.seen[a.Unmap()]
	return ok && r.now().Sub(at) <= memory
}

// query asks for both families at the same time. One family that fails does
// not hide the other.
func (r *Resolver) query(ctx context.Context, name string) ([]netip.Addr, time.Duration, error) {
	type result struct {
		addrs []netip.Addr
		ttl   time.Duration
		err   error
	}
	ask := func(qtype uint16) result {
		a, ttl, err := r.queryType(ctx, name, qtype)
		return result{a, ttl, err}
	}
	six := make(chan result, 1)
	go func() { six <- ask(dns.TypeAAAA) }()
	v4 := ask(dns.TypeA)
	v6 := <-six
	addrs := append(v4.addrs, v6.addrs...)
	if len(addrs) > 0 {
		ttl := maxTTL
		for _, res := range []result{v4, v6} {
			if len(res.addrs) > 0 {
				ttl = min(ttl, res.ttl)
			}
		}
		return addrs, max(ttl, minTTL), nil
	}
	if v4.err != nil && !errors.Is(v4.err, ErrNoAddress) {
		return nil, minTTL, v4.err
	}
	if v6.err != nil && !errors.Is(v6.err, ErrNoAddress) {
		return nil, minTTL, v6.err
	}
	return nil, minTTL, ErrNoAddress
}

func (r *Resolver) queryType(ctx context.Context, name string, qtype uint16) ([]netip.Addr, time.Duration, error) {
	reply, err := r.Exchange(ctx, name, qtype)
	if err != nil {
		return nil, 0, err
	}
	switch reply.Rcode {
	case dns.RcodeSuccess:
	case dns.RcodeNameError:
		return nil, 0, ErrNoName
	default:
		return nil, 0, fmt.Errorf("look up: server answered %s", dns.RcodeToString[reply.Rcode])
	}
	addrs, ttl := follow(reply, name, qtype)
	if len(addrs) == 0 {
		return nil, 0, ErrNoAddress
	}
	return addrs, ttl, nil
}

// follow collects the addresses at the end of the chain of CNAMEs that begins
// with name; records that do not belong to it are ignored.
func follow(m *dns.Msg, name string, qtype uint16) ([]netip.Addr, time.Duration) {
	owner := dns.CanonicalName(name)
	ttl := maxTTL
	for range maxChain {
		var addrs []netip.Addr
		next := ""
		for _, rr := range m.Answer {
			h := rr.Header()
			if dns.CanonicalName(h.Name) != owner || h.Class != dns.ClassINET {
				continue
			}
			a, target := record(rr, qtype)
			if a.IsValid() && len(addrs) < maxAddresses {
				addrs = append(addrs, a)
			}
			if target != "" {
				next = target
			}
			if a.IsValid() || target != "" {
				ttl = min(ttl, time.Duration(h.Ttl)*time.Second)
			}
		}
		if len(addrs) > 0 || next == "" {
			return addrs, ttl
		}
		owner = next
	}
	return nil, ttl
}

func record(rr dns.RR, qtype uint16) (netip.Addr, string) {
	switch rr := rr.(type) {
	case *dns.A:
		if a, ok := netip.AddrFromSlice(rr.A.To4()); ok && qtype == dns.TypeA {
			return a, ""
		}
	case *dns.AAAA:
		if a, ok := netip.AddrFromSlice(rr.AAAA.To16()); ok && qtype == dns.TypeAAAA {
			return a.Unmap(), ""
		}
	case *dns.CNAME:
		return netip.Addr{}, dns.CanonicalName(rr.Target)
	}
	return netip.Addr{}, ""
}

// Exchange sends one query for a normalised name and returns the reply that
// matches it, over TCP when the reply over UDP was cut.
func (r *Resolver) Exchange(ctx context.Context, name string, qtype uint16) (*dns.Msg, error) {
	if len(r.servers) == 0 {
		return nil, errors.New("look up: no name server is configured")
	}
	m := new(dns.Msg)
	m.SetQuestion(dns.Fqdn(name), qtype)
	m.SetEdns0(udpSize, false)
	var last error
	for i := range attempts * len(r.servers) {
		server := r.servers[i%len(r.servers)]
		reply, err := r.ask(ctx, m, server)
		if err == nil {
			return reply, nil
		}
		last = err
		if ctx.Err() != nil {
			break
		}
	}
	return nil, fmt.Errorf("look up: %w", last)
}

func (r *Resolver) ask(ctx context.Context, m *dns.Msg, server string) (*dns.Msg, error) {
	m.Id = dns.Id()
	reply, err := r.over(ctx, "udp", m, server)
	if err == nil && reply.Truncated {
		return r.over(ctx, "tcp", m, server)
	}
	return reply, err
}

func (r *Resolver) over(ctx context.Context, network string, m *dns.Msg, server string) (*dns.Msg, error) {
	ctx, cancel := context.WithTimeout(ctx, udpTimeout)
	defer cancel()
	conn, err := r.dial(ctx, network, server)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	deadline, _ := ctx.Deadline()
	_ = conn.SetDeadline(deadline)
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	co := &dns.Conn{Conn: conn, UDPSize: udpSize}
	if err := co.WriteMsg(m); err != nil {
		return nil, err
	}
	for {
		reply, err := co.ReadMsg()
		if err != nil && reply == nil {
			return nil, err
		}
		// A reply to another question is somebody's guess: wait for ours.
		if err == nil && matches(m, reply) {
			return reply, nil
		}
		if network == "tcp" {
			return nil, errors.New("reply does not match the query")
		}
	}
}

func matches(q, r *dns.Msg) bool {
	return r.Response && r.Id == q.Id && len(r.Question) == 1 &&
		r.Question[0].Qtype == q.Question[0].Qtype && r.Question[0].Qclass == q.Question[0].Qclass &&
		strings.EqualFold(r.Question[0].Name, q.Question[0].Name)
}
