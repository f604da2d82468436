package witness

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"time"

	"github.com/wallproof/wallproof/battery/witness/gullible"
	"github.com/wallproof/wallproof/probes/paths"
)

// defaultResolver is where the world's DNS answers; see docs/architecture.md.
const defaultResolver = "203.0.113.2:53"

// insideSource is the source of connections that the proxy makes to itself.
var insideSource = netip.AddrPortFrom(netip.IPv4Unspecified(), 0)

// dialTime bounds a connection of the open proxy to the world.
const dialTime = 5 * time.Second

// Open is the control's proxy and resolver: the boundary removed. It goes
// wherever it is asked, takes every host in the most gullible way (package
// gullible), reads HTTP leniently (package lenient), injects credentials by the
// Host field alone and puts secrets in the place of placeholders wherever they
// stand. It follows no redirect, redacts nothing and refuses nothing.
//
// It lives in the router's namespace, whose only way on is the world, and all the
// credentials that it holds are canaries. It is no proxy to be used for anything.
//
// What it answers itself is recorded: requests to the proxy in origin form
// (paths.ServiceProxy), loopback addresses (paths.ServicePrivate), names asked
// of its resolver (paths.ServiceResolver). All else arrives in the world, which
// records it.
type Open struct {
	w        *World // what the proxy answers itself
	cfg      OpenProxy
	resolver string
	dial     func(ctx context.Context, network, address string) (net.Conn, error)
}

// NewOpen makes an open proxy. onEvent is as in New.
func NewOpen(cfg Config, onEvent func(Event)) (*Open, error) {
	w, err := New(cfg, onEvent)
	if err != nil {
		return nil, err
	}
	o := &Open{w: w, cfg: cfg.Open, resolver: cfg.Open.Resolver, dial: (&net.Dialer{Timeout: dialTime}).DialContext}
	if o.resolver == "" {
		o.resolver = defaultResolver
	}
	return o, nil
}

// CAPEM is the certificate of the authority that it intercepts TLS with.
func (o *Open) CAPEM() string { return o.w.CAPEM() }

// Sync is World.Sync.
func (o *Open) Sync(ctx context.Context) error { return o.w.Sync(ctx) }

// Dropped is World.Dropped.
func (o *Open) Dropped() uint64 { return o.w.Dropped() }

// Close is World.Close.
func (o *Open) Close() error { return o.w.Close() }

// serveSocket serves an inherited socket.
func (o *Open) serveSocket(kind SocketKind, f *os.File) error {
	switch kind {
	case SocketProxy, SocketDNSTCP:
		l, err := net.FileListener(f)
		if err != nil {
			return err
		}
		if kind == SocketProxy {
			o.ServeProxy(l)
		} else {
			o.ServeDNSTCP(l)
		}
		return nil
	case SocketDNSUDP:
		c, err := net.FilePacketConn(f)
		if err != nil {
			return err
		}
		u, ok := c.(*net.UDPConn)
		if !ok {
			return errors.Join(errors.New("not a UDP socket"), c.Close())
		}
		o.ServeDNSUDP(OnePort(u))
		return nil
	}
	return fmt.Errorf("%w: the open proxy has no socket of kind %q", ErrConfig, kind)
}

// ServeProxy serves a listener for HTTP, HTTP/2 without TLS and SOCKS5. It
// returns at once.
func (o *Open) ServeProxy(l net.Listener) {
	o.w.serveListener(l, func(c net.Conn) {
		led := newLedger(o.w, addrPort(c.RemoteAddr()), addrPort(c.LocalAddr()))
		led.fixed, led.silent = paths.ServiceProxy, true
		o.w.serveWith(newConn(c, led), o.speak)
	})
}

// speak answers one client of the proxy.
func (o *Open) speak(c *conn) {
	defer c.Close()
	_ = c.SetReadDeadline(time.Now().Add(idleTime))
	first, err := c.br.Peek(1)
	if err != nil {
		return
	}
	if first[0] == socksVersion {
		o.socks(c)
		return
	}
	if o.w.listen(c) == wireHTTP2 {
		o.serveTwo(c, nil)
		return
	}
	o.serveOne(c, nil)
}

// target is where a connection of the proxy's goes.
type target struct {
	host gullible.Host
	addr netip.AddrPort
}

// resolve finds the address of a host, as the world's DNS has it.
func (o *Open) resolve(ctx context.Context, h gullible.Host, port uint16) (target, error) {
	if h.Port != 0 {
		port = h.Port
	}
	t := target{host: h}
	switch {
	case h.Addr.IsValid():
		t.addr = netip.AddrPortFrom(h.Addr, port)
	case h.Loopback():
		t.addr = netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), port)
	default:
		a, err := o.lookup(ctx, h.Name)
		if err != nil {
			return t, err
		}
		t.addr = netip.AddrPortFrom(a, port)
	}
	return t, nil
}

// connect opens a connection to a target. The machine itself, in any spelling,
// is answered by a page of the proxy's own, so that no control depends on what
// else listens there.
func (o *Open) connect(ctx context.Context, t target) (net.Conn, error) {
	a := t.addr.Addr()
	if a.IsLoopback() || a.IsUnspecified() {
		mine, theirs := net.Pipe()
		led := newLedger(o.w, insideSource, t.addr)
		led.fixed = paths.ServicePrivate
		o.w.serve(newConn(theirs, led))
		return mine, nil
	}
	ctx, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	return o.dial(ctx, "tcp", t.addr.String())
}

// injections returns the header fields that a request for a host gets.
func (o *Open) injections(host string) []Injection {
	var out []Injection
	for _, i := range o.cfg.Inject {
		suffix, wild := strings.CutPrefix(i.Host, "*")
		if i.Host == host || wild && strings.HasSuffix(host, suffix) {
			out = append(out, i)
		}
	}
	return out
}
