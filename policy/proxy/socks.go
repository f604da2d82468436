package proxy

import (
	"encoding/binary"
	"errors"
	"io"
	"net/netip"

	"github.com/wallproof/wallproof/policy/host"
)

// SOCKS5 (RFC 1928). Only CONNECT without authentication is served: BIND and
// UDP ASSOCIATE would be ways around the gates.
const (
	socksVersion    = 5
	socksConnect    = 1
	socksNoAuth     = 0
	socksNoMethod   = 0xff
	socksIPv4       = 1
	socksName       = 3
	socksIPv6       = 4
	socksOK         = 0
	socksFailure    = 1
	socksDenied     = 2
	socksNoHost     = 4
	socksBadCommand = 7
	socksBadAddress = 8
)

var errSOCKS = errors.New("malformed SOCKS message")

// serveSOCKS serves one SOCKS5 client.
func (s *Server) serveSOCKS(c *conn) {
	o := &origin{s: s, c: c, ctx: c.ctx}
	ev := o.event("socks")
	c.within(s.limits.headTimeout())
	if err := socksGreeting(c); err != nil {
		s.refused(&ev, ReasonSOCKS)
		return
	}
	command, t, raw, err := readSOCKS(c, s.breaks)
	c.relaxed()
	switch {
	case err != nil:
		ev.Host = quoteHost(raw)
		if raw == "" {
			ev.Host = ""
		}
		s.refused(&ev, ReasonSOCKS)
		socksReply(c, socksBadAddress)
		return
	case command != socksConnect:
		setTarget(&ev, t)
		s.refused(&ev, ReasonSOCKSCommand)
		socksReply(c, socksBadCommand)
		return
	}
	setTarget(&ev, t)
	r := s.rules.Load()
	if _, ref := s.gateName(r, t); ref != nil && !s.breaks.listenerOpen(c) {
		ev.Entry = ref.entry
		s.refused(&ev, ref.reason)
		socksReply(c, socksDenied)
		return
	}
	if _, ref := s.addresses(c.ctx, r, t); ref != nil {
		ev.Entry = ref.entry
		s.refused(&ev, ref.reason)
		code := byte(socksNoHost)
		if ref.status == 403 {
			code = socksDenied
		}
		socksReply(c, code)
		return
	}
	if socksReply(c, socksOK) == nil {
		s.serveTunnel(c, t)
	}
}

// socksGreeting agrees on no authentication.
func socksGreeting(c io.ReadWriter) error {
	var head [2]byte
	if _, err := io.ReadFull(c, head[:]); err != nil {
		return err
	}
	if head[0] != socksVersion || head[1] == 0 {
		return errSOCKS
	}
	methods := make([]byte, head[1])
	if _, err := io.ReadFull(c, methods); err != nil {
		return err
	}
	for _, m := range methods {
		if m == socksNoAuth {
			_, err := c.Write([]byte{socksVersion, socksNoAuth})
			return err
		}
	}
	_, _ = c.Write([]byte{socksVersion, socksNoMethod})
	return errSOCKS
}

// readSOCKS reads a request. raw is a name that could not be parsed.
func readSOCKS(r io.Reader, b Breaks) (command byte, t target, raw string, err error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, target{}, "", err
	}
	if head[0] != socksVersion || head[2] != 0 {
		return 0, target{}, "", errSOCKS
	}
	var size [1]byte
	switch head[3] {
	case socksIPv4:
		size[0] = 4
	case socksIPv6:
		size[0] = 16
	case socksName:
		if _, err := io.ReadFull(r, size[:]); err != nil {
			return 0, target{}, "", err
		}
	default:
		return 0, target{}, "", errSOCKS
	}
	rest := make([]byte, int(size[0])+2)
	if _, err := io.ReadFull(r, rest); err != nil {
		return 0, target{}, "", err
	}
	addr, port := rest[:size[0]], binary.BigEndian.Uint16(rest[size[0]:])
	h, err := socksHost(head[3], addr, b)
	if err == nil && port == 0 {
		err = errSOCKS
	}
	if err != nil {
		return 0, target{}, string(addr), err
	}
	return head[1], target{h, port}, "", nil
}

func socksHost(kind byte, addr []byte, b Breaks) (host.Host, error) {
	if kind == socksName {
		return b.readHost(string(addr))
	}
	a, ok := netip.AddrFromSlice(addr)
	if !ok {
		return host.Host{}, errSOCKS
	}
	return host.FromAddr(a), nil
}

func socksReply(w io.Writer, code byte) error {
	_, err := w.Write([]byte{socksVersion, code, 0, socksIPv4, 0, 0, 0, 0, 0, 0})
	return err
}
