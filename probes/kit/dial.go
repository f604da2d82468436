package kit

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/probes"
	"golang.org/x/sys/unix"
)

// Try is one attempt in progress. It remembers the source ports of all sockets
// that it opened, also of those that were refused, because the packet filter's
// records are tied to the attempt by them.
type Try struct {
	Env *probes.Env

	mu    sync.Mutex
	local []string
	conns []net.Conn
}

// Begin starts an attempt. End must be called.
func Begin(env *probes.Env) *Try { return &Try{Env: env} }

// End closes everything that the attempt still has open.
func (t *Try) End() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range t.conns {
		c.Close()
	}
	t.conns = nil
}

// Done completes an observation with the attempt's source ports.
func (t *Try) Done(o manifest.Observation) manifest.Observation {
	t.mu.Lock()
	defer t.mu.Unlock()
	o.Local = append(o.Local, t.local...)
	return o
}

// Fail is Done for an error.
func (t *Try) Fail(err error) manifest.Observation { return t.Done(Sign(err)) }

func (t *Try) note(network string, port int) {
	if port == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	proto, _, _ := strings.Cut(network, ":")
	proto = strings.TrimRight(proto, "46")
	t.local = append(t.local, proto+"/"+strconv.Itoa(port))
}

// Dial opens a TCP or UDP socket to an address, "ip:port" or "[ip]:port". The
// socket is bound before it connects, so that its port is known even when the
// connection is refused.
func (t *Try) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	d := net.Dialer{Timeout: Patience, KeepAlive: -1, Control: func(network, _ string, c syscall.RawConn) error {
		return c.Control(func(fd uintptr) {
			t.note(network, BindAny(int(fd)))
			if strings.HasPrefix(network, "udp") { // by default a datagram to a group passes no router
				_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_MULTICAST_TTL, groupHops)
				_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_IPV6, unix.IPV6_MULTICAST_HOPS, groupHops)
			}
		})
	}}
	c, err := d.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	t.keep(ctx, c)
	return c, nil
}

// Patience is how long one exchange over the network may take. An intact
// boundary refuses at once; this is for what neither answers nor refuses.
const Patience = 6 * time.Second

// groupHops is how many routers a datagram to a group may pass.
const groupHops = 16

// keep gives a connection its deadline and its end.
func (t *Try) keep(ctx context.Context, c net.Conn) {
	Shorten(c, ctx, Patience)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.conns = append(t.conns, c)
}

// BindAny binds a socket to a port of the kernel's choice and returns it, or 0
// when it cannot: the attempt goes on without.
func BindAny(fd int) int {
	domain, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_DOMAIN)
	if err != nil {
		return 0
	}
	var any unix.Sockaddr = &unix.SockaddrInet4{}
	if domain == unix.AF_INET6 {
		any = &unix.SockaddrInet6{}
	}
	if unix.Bind(fd, any) != nil {
		return 0
	}
	sa, err := unix.Getsockname(fd)
	if err != nil {
		return 0
	}
	switch sa := sa.(type) {
	case *unix.SockaddrInet4:
		return sa.Port
	case *unix.SockaddrInet6:
		return sa.Port
	}
	return 0
}

// Proxy opens a connection to the explicit proxy.
func (t *Try) Proxy(ctx context.Context, v6 bool) (net.Conn, error) {
	address := Of(t.Env.Facts.Proxy, v6)
	if address == "" {
		return nil, unix.ENODEV
	}
	c, err := t.Dial(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("reach the proxy: %w", err)
	}
	return c, nil
}

// Open connects to host:port by a way. host is an address or, for anything but
// Direct, also a name in whatever spelling: it is sent as it is. For Absolute the
// result is a connection to the proxy, on which the request line has to be in
// absolute form.
func (t *Try) Open(ctx context.Context, way Way, v6 bool, host string, port int) (net.Conn, error) {
	switch way {
	case Absolute:
		return t.Proxy(ctx, v6)
	case Connect:
		return t.Connect(ctx, v6, JoinHostPort(host, port))
	case Socks:
		return t.Socks(ctx, v6, host, port)
	}
	if _, err := netip.ParseAddr(strings.Trim(host, "[]")); err != nil {
		addr, err := t.Lookup(ctx, host, v6)
		if err != nil {
			return nil, err
		}
		host = addr.String()
	}
	return t.Dial(ctx, "tcp", JoinHostPort(host, port))
}

// JoinHostPort is net.JoinHostPort for a number, but leaves a host that has
// brackets already as it is.
func JoinHostPort(host string, port int) string {
	if strings.Contains(host, ":") && !strings.HasPrefix(host, "[") {
		host = "[" + host + "]"
	}
	return host + ":" + strconv.Itoa(port)
}

// Connect asks the proxy for a tunnel to an authority, which is sent as it is.
func (t *Try) Connect(ctx context.Context, v6 bool, authority string) (net.Conn, error) {
	c, err := t.Proxy(ctx, v6)
	if err != nil {
		return nil, err
	}
	return ConnectOver(c, authority, t.Env.Nonce)
}

// ConnectOver asks for a tunnel on a connection that speaks HTTP.
func ConnectOver(c net.Conn, authority, nonce string) (net.Conn, error) {
	head := "CONNECT " + authority + " HTTP/1.1\r\nHost: " + authority + "\r\nUser-Agent: " + nonce + "\r\n\r\n"
	if _, err := io.WriteString(c, head); err != nil {
		return nil, fmt.Errorf("ask for a tunnel: %w", err)
	}
	br := bufio.NewReader(c)
	resp, err := http.ReadResponse(br, &http.Request{Method: http.MethodConnect})
	if err != nil {
		return nil, fmt.Errorf("ask for a tunnel: %w", err)
	}
	if resp.StatusCode/100 != 2 {
		return nil, statusError("connect", resp.StatusCode, resp.Header.Get(ReasonHeader))
	}
	return &bufferedConn{Conn: c, r: br}, nil
}

// ReasonHeader is the response field in which the proxy says why it refused.
const ReasonHeader = "X-Wallproof-Reason"

// statusError is the error for an HTTP status that is no success.
func statusError(what string, status int, reason string) error {
	if gatewayFailed(status) {
		return fmt.Errorf("%s: the gateway failed with %d (%s)", what, status, reason)
	}
	if reason != "" || RefusesStatus(status) {
		return &Refusal{What: what, Status: status, Reason: reason}
	}
	return &Unexpected{What: what, Status: status}
}

// gatewayFailed reports whether a status says that a proxy tried and could not,
// which is no refusal.
func gatewayFailed(status int) bool {
	return status == http.StatusBadGateway || status == http.StatusServiceUnavailable || status == http.StatusGatewayTimeout
}

// RefusesStatus reports whether a status by itself is a proxy's explicit no.
func RefusesStatus(status int) bool {
	switch status {
	case http.StatusForbidden, http.StatusProxyAuthRequired, http.StatusMisdirectedRequest,
		http.StatusUnavailableForLegalReasons, http.StatusMethodNotAllowed:
		return true
	}
	return false
}

// Socks asks the SOCKS5 proxy (RFC 1928) for a connection. A host that is no
// address is sent as a name, in whatever spelling.
func (t *Try) Socks(ctx context.Context, v6 bool, host string, port int) (net.Conn, error) {
	return t.socks(ctx, v6, host, port, false)
}

// SocksName is Socks with the host sent as a name even when it is an address.
func (t *Try) SocksName(ctx context.Context, v6 bool, name string, port int) (net.Conn, error) {
	return t.socks(ctx, v6, name, port, true)
}

func (t *Try) socks(ctx context.Context, v6 bool, host string, port int, asName bool) (net.Conn, error) {
	address := Of(t.Env.Facts.SOCKS, v6)
	if address == "" {
		return nil, unix.ENODEV
	}
	c, err := t.Dial(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("reach the SOCKS proxy: %w", err)
	}
	if err := socksConnect(c, host, port, asName); err != nil {
		return nil, err
	}
	return c, nil
}

// SocksOver asks for a connection to a named host on a connection that speaks SOCKS5.
func SocksOver(c net.Conn, host string, port int) error { return socksConnect(c, host, port, true) }

func socksConnect(c net.Conn, host string, port int, asName bool) error {
	if _, err := c.Write([]byte{5, 1, 0}); err != nil {
		return fmt.Errorf("greet the SOCKS proxy: %w", err)
	}
	var method [2]byte
	if _, err := io.ReadFull(c, method[:]); err != nil {
		return fmt.Errorf("greet the SOCKS proxy: %w", err)
	}
	if method[1] != 0 {
		return &Refusal{What: "socks", Status: int(method[1])}
	}
	request := []byte{5, 1, 0}
	if a, err := netip.ParseAddr(host); err == nil && !asName {
		kind := byte(1)
		if a.Is6() {
			kind = 4
		}
		request = append(append(request, kind), a.AsSlice()...)
	} else {
		if len(host) > 255 {
			return fmt.Errorf("ask the SOCKS proxy: name of %d bytes", len(host))
		}
		request = append(append(request, 3, byte(len(host))), host...)
	}
	request = binary.BigEndian.AppendUint16(request, uint16(port))
	if _, err := c.Write(request); err != nil {
		return fmt.Errorf("ask the SOCKS proxy: %w", err)
	}
	return socksReply(c)
}

// Replies that are refusals; the others say that the proxy tried and failed.
const (
	socksNotAllowed = 2 // connection not allowed by ruleset
	socksBadAddress = 8 // address type not supported, which a name may be as well
)

func socksReply(c net.Conn) error {
	var head [4]byte
	if _, err := io.ReadFull(c, head[:]); err != nil {
		return fmt.Errorf("ask the SOCKS proxy: %w", err)
	}
	if head[1] == socksNotAllowed || head[1] == socksBadAddress {
		return &Refusal{What: "socks", Status: int(head[1])}
	}
	if head[1] != 0 {
		return fmt.Errorf("the SOCKS proxy failed with %d", head[1])
	}
	rest := 4 + 2
	switch head[3] {
	case 4:
		rest = 16 + 2
	case 3:
		var n [1]byte
		if _, err := io.ReadFull(c, n[:]); err != nil {
			return fmt.Errorf("ask the SOCKS proxy: %w", err)
		}
		rest = int(n[0]) + 2
	}
	_, err := io.CopyN(io.Discard, c, int64(rest))
	return err
}

// bufferedConn is a connection of which some bytes were read ahead.
type bufferedConn struct {
	net.Conn
	r *bufio.Reader
}

func (b *bufferedConn) Read(p []byte) (int, error) { return b.r.Read(p) }

// Shorten brings the deadline of a connection forward to d from now, for
// attempts that expect silence.
func Shorten(c interface{ SetDeadline(time.Time) error }, ctx context.Context, d time.Duration) {
	at := time.Now().Add(d)
	if deadline, ok := ctx.Deadline(); ok && deadline.Before(at) {
		at = deadline
	}
	c.SetDeadline(at)
}

// Local is how a source port is written down; nothing for port 0.
func Local(proto string, port int) []string {
	if port == 0 {
		return nil
	}
	return []string{proto + "/" + strconv.Itoa(port)}
}
