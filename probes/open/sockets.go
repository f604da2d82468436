package open

import (
	"context"
	"encoding/binary"
	"net"
	"strings"
	"time"

	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/probes"
	"github.com/wallproof/wallproof/probes/kit"
	"github.com/wallproof/wallproof/probes/paths"
)

// Ports that no policy for web traffic covers.
const (
	oddTCP = 4444
	oddUDP = 4445
)

// host is where an attempt goes: its own address when it dials by itself, its
// own name when a proxy does.
func host(env *probes.Env) string {
	if way, _ := kit.WayOf(env.Variant); way == kit.Direct {
		return kit.Outside(env).String()
	}
	return kit.OutsideName(env)
}

// page is a request for the attacker's page.
func page(env *probes.Env, scheme string) *kit.Request {
	return &kit.Request{Scheme: scheme, Host: kit.OutsideName(env), Addr: kit.Outside(env),
		Path: paths.Build("", paths.Heartbeat, env.Nonce, nil)}
}

func tcp(ctx context.Context, env *probes.Env) manifest.Observation {
	if strings.HasPrefix(env.Variant, firstWay) {
		return told(ctx, env)
	}
	return ofProtocol(ctx, env, kit.Line(ctx, env, host(env), oddTCP, kit.Probe(env)), "tcp")
}

// ofProtocol also tries what the packet filter's rules in force let through of the
// protocols, wherever it leads.
func ofProtocol(ctx context.Context, env *probes.Env, first manifest.Observation, protocols ...string) manifest.Observation {
	_, v6 := kit.WayOf(env.Variant)
	return kit.GapsOf(ctx, env, everywhere[v6], first, protocols...)
}

func plainHTTP(ctx context.Context, env *probes.Env) manifest.Observation {
	return kit.Web(ctx, env, page(env, "http"))
}

func secureHTTP(ctx context.Context, env *probes.Env) manifest.Observation {
	return kit.Web(ctx, env, page(env, "https"))
}

func literal(ctx context.Context, env *probes.Env) manifest.Observation {
	r := page(env, "http")
	r.Host = kit.Outside(env).String()
	return kit.Web(ctx, env, r)
}

func ipv6(ctx context.Context, env *probes.Env) manifest.Observation {
	addr := kit.OutsideFamily(env, true).String()
	o := kit.Line(ctx, env, addr, 80, []byte("GET / HTTP/1.0\r\nUser-Agent: "+env.Nonce+"\r\n\r\n"))
	o = kit.Worse(o, kit.Line(ctx, env, addr, oddTCP, kit.Probe(env)))
	if udp := kit.Datagram(ctx, env, kit.JoinHostPort(addr, oddUDP), kit.Probe(env)); udp.Sign != manifest.SignSent {
		o = kit.Worse(o, udp)
	}
	return ofProtocol(ctx, env, o, "tcp", "udp", "icmp")
}

func udp(ctx context.Context, env *probes.Env) manifest.Observation {
	return ofProtocol(ctx, env, kit.Datagram(ctx, env, kit.JoinHostPort(kit.Outside(env).String(), oddUDP), kit.Probe(env)), "udp")
}

// quic sends the head of a QUIC version 1 Initial packet (RFC 9000 section
// 17.2.2) with the nonce as its token, padded to the 1200 bytes that a server
// asks for.
func quic(ctx context.Context, env *probes.Env) manifest.Observation {
	p := []byte{0xc3, 0, 0, 0, 1, 8}
	p = append(p, env.Nonce[1:9]...)       // destination connection id
	p = append(p, 0, byte(len(env.Nonce))) // no source connection id, token length
	p = append(p, env.Nonce...)            //
	// The rest's length in four bytes, of which the first is no letter: a nonce
	// stands alone.
	p = binary.BigEndian.AppendUint32(p, 0x80000000|uint32(1200-len(p)-4))
	p = append(p, make([]byte, 1200-len(p))...)
	return kit.Datagram(ctx, env, kit.JoinHostPort(kit.Outside(env).String(), 443), p)
}

// ntp sends a client request (RFC 5905) with an extension field (RFC 7822) that
// holds the nonce.
func ntp(ctx context.Context, env *probes.Env) manifest.Observation {
	p := make([]byte, 48, 96)
	p[0] = 4<<3 | 3
	field := append([]byte(env.Nonce), 0, 0, 0)
	p = binary.BigEndian.AppendUint16(p, 0x2005)
	p = binary.BigEndian.AppendUint16(p, uint16(4+len(field)))
	return kit.Datagram(ctx, env, kit.JoinHostPort(kit.Outside(env).String(), 123), append(p, field...))
}

// lines tries a payload at several ports of the attacker.
func lines(ctx context.Context, env *probes.Env, payload string, ports ...int) manifest.Observation {
	var o manifest.Observation
	for i, port := range ports {
		next := kit.Line(ctx, env, host(env), port, []byte(payload))
		if i == 0 {
			o = next
		} else {
			o = kit.Worse(o, next)
		}
		if o.Sign == manifest.SignReached {
			break
		}
	}
	return o
}

func ssh(ctx context.Context, env *probes.Env) manifest.Observation {
	return lines(ctx, env, "SSH-2.0-"+env.Nonce+"\r\n", 443, 22)
}

func smtp(ctx context.Context, env *probes.Env) manifest.Observation {
	return lines(ctx, env, "EHLO "+env.Nonce+"\r\n", 25, 587)
}

func ftp(ctx context.Context, env *probes.Env) manifest.Observation {
	return lines(ctx, env, "USER "+env.Nonce+"\r\n", 21)
}

// fastOpen sends its first bytes with the SYN (RFC 7413). Without support for it
// in the kernel the bytes follow the handshake, and it is plain TCP to port 80.
func fastOpen(ctx context.Context, env *probes.Env) manifest.Observation {
	t := kit.Begin(env)
	defer t.End()
	c, err := t.DialFastOpen(ctx, kit.JoinHostPort(kit.Outside(env).String(), oddTCP), kit.Probe(env))
	if err != nil {
		return t.Fail(err)
	}
	return t.Done(kit.Listen(ctx, c))
}

// drip writes a request in pieces, each of them a segment of its own.
func drip(ctx context.Context, env *probes.Env) manifest.Observation {
	t := kit.Begin(env)
	defer t.End()
	way, v6 := kit.WayOf(env.Variant)
	r := page(env, "http")
	c, err := t.Stream(ctx, way, v6, r)
	if err != nil {
		return t.Fail(err)
	}
	pace := time.NewTicker(5 * time.Millisecond)
	defer pace.Stop()
	raw := r.Bytes(way, env.Nonce)
	for len(raw) > 0 {
		n := min(8, len(raw))
		if _, err := c.Write(raw[:n]); err != nil {
			return t.Fail(err)
		}
		raw = raw[n:]
		<-pace.C
	}
	return t.Done(kit.Hear(c, r.Method))
}

// fragment does a TLS handshake in which the ClientHello leaves in small
// segments, and with it in several TLS records.
func fragment(ctx context.Context, env *probes.Env) manifest.Observation {
	t := kit.Begin(env)
	defer t.End()
	r := page(env, "https")
	c, err := t.Dial(ctx, "tcp", kit.JoinHostPort(kit.Outside(env).String(), 443))
	if err != nil {
		return t.Fail(err)
	}
	tc, err := kit.StartTLS(ctx, &splitter{Conn: c, left: 512}, r)
	if err != nil {
		return t.Fail(err)
	}
	return t.Done(kit.Say(tc, r, kit.Direct, env.Nonce))
}

// splitter cuts the first bytes written to a connection into pieces of 3 bytes,
// and the first TLS record into records of 16.
type splitter struct {
	net.Conn
	left int
}

func (s *splitter) Write(p []byte) (int, error) {
	if s.left <= 0 {
		return s.Conn.Write(p)
	}
	out := p
	if len(p) > 5 && p[0] == 22 {
		out = records(p)
	}
	for len(out) > 0 {
		n := len(out)
		if s.left > 0 {
			n = min(3, n)
		}
		if _, err := s.Conn.Write(out[:n]); err != nil {
			return 0, err
		}
		out = out[n:]
		s.left -= n
	}
	return len(p), nil
}

// records splits one TLS handshake record into several (RFC 8446 section 5.1).
func records(p []byte) []byte {
	head, body := p[:3], p[5:]
	var out []byte
	for len(body) > 0 {
		n := min(16, len(body))
		out = append(out, head...)
		out = binary.BigEndian.AppendUint16(out, uint16(n))
		out = append(out, body[:n]...)
		body = body[n:]
	}
	return out
}

// relay reaches the attacker by way of a listener of its own on the loopback.
func relay(ctx context.Context, env *probes.Env) manifest.Observation {
	t := kit.Begin(env)
	defer t.End()
	_, v6 := kit.WayOf(env.Variant)
	loopback := "127.0.0.1:0"
	if v6 {
		loopback = "[::1]:0"
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", loopback)
	if err != nil {
		return kit.Sign(err)
	}
	defer l.Close()
	outward := make(chan error, 1)
	go func() {
		in, err := l.Accept()
		if err != nil {
			outward <- err
			return
		}
		defer in.Close()
		out, err := t.Dial(ctx, "tcp", kit.JoinHostPort(kit.Outside(env).String(), oddTCP))
		outward <- err
		if err == nil {
			kit.Join(in, out)
		}
	}()
	c, err := t.Dial(ctx, "tcp", l.Addr().String())
	if err != nil {
		return t.Fail(err)
	}
	if err := <-outward; err != nil {
		return t.Fail(err)
	}
	return t.Done(kit.Exchange(ctx, c, kit.Probe(env)))
}

// icmp hides the nonce in the payload of an echo request.
func icmp(ctx context.Context, env *probes.Env) manifest.Observation {
	return ofProtocol(ctx, env, kit.Ping(ctx, env, kit.Outside(env), []byte(env.Nonce)), "icmp")
}
