package kit

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/probes"
	"golang.org/x/sys/unix"
)

// tcpFastOpenConnect is TCP_FASTOPEN_CONNECT of linux/tcp.h: connect returns at
// once, and the first write goes out with the SYN.
const tcpFastOpenConnect = 30

// DialFastOpen opens a TCP connection whose first bytes leave with the SYN where
// the kernel can do that, and right after the handshake where it can't.
func (t *Try) DialFastOpen(ctx context.Context, address string, first []byte) (net.Conn, error) {
	d := net.Dialer{Control: func(network, _ string, c syscall.RawConn) error {
		return c.Control(func(fd uintptr) {
			t.note(network, BindAny(int(fd)))
			_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, tcpFastOpenConnect, 1)
		})
	}}
	c, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	t.keep(ctx, c)
	if _, err := c.Write(first); err != nil {
		return nil, err
	}
	return c, nil
}

// Join copies between two connections until both directions have ended.
func Join(a, b net.Conn) {
	var both sync.WaitGroup
	for _, pair := range [][2]net.Conn{{a, b}, {b, a}} {
		both.Go(func() {
			_, _ = io.Copy(pair[0], pair[1])
			if c, ok := pair[0].(*net.TCPConn); ok {
				_ = c.CloseWrite()
			}
		})
	}
	both.Wait()
}

// Ping sends an echo request with a payload, by a ping socket or a raw one,
// whichever the sandbox has, and waits a moment for the echo. An echo is an
// answer, not a proof: a kernel on the way could have sent it.
func Ping(ctx context.Context, env *probes.Env, to netip.Addr, payload []byte) manifest.Observation {
	fd, raw, err := pingSocket(to.Is6())
	if err != nil {
		o := Sign(err)
		o.Sign = manifest.SignMissing
		return o
	}
	f := os.NewFile(uintptr(fd), "ping")
	defer f.Close()
	if err := sendEcho(fd, to, payload); err != nil {
		return Sign(err)
	}
	until := time.Now().Add(Silence)
	if deadline, ok := ctx.Deadline(); ok && deadline.Before(until) {
		until = deadline
	}
	return awaitEcho(fd, raw, to.Is6(), payload, until)
}

// pingSocket opens an unprivileged ping socket, or failing that a raw one.
func pingSocket(v6 bool) (fd int, raw bool, err error) {
	domain, proto := unix.AF_INET, unix.IPPROTO_ICMP
	if v6 {
		domain, proto = unix.AF_INET6, unix.IPPROTO_ICMPV6
	}
	flags := unix.SOCK_CLOEXEC | unix.SOCK_NONBLOCK
	if fd, err = unix.Socket(domain, unix.SOCK_DGRAM|flags, proto); err == nil {
		return fd, false, nil
	}
	if fd, rawErr := unix.Socket(domain, unix.SOCK_RAW|flags, proto); rawErr == nil {
		return fd, true, nil
	}
	return -1, false, err
}

func sendEcho(fd int, to netip.Addr, payload []byte) error {
	kind := byte(8)
	var sa unix.Sockaddr
	if to.Is6() {
		kind = 128
		sa = &unix.SockaddrInet6{Addr: to.As16()}
	} else {
		sa = &unix.SockaddrInet4{Addr: to.As4()}
	}
	m := append([]byte{kind, 0, 0, 0, 0x77, 0x70, 0, 1}, payload...)
	if !to.Is6() {
		binary.BigEndian.PutUint16(m[2:], Checksum(m))
	}
	return unix.Sendto(fd, m, 0, sa)
}

func awaitEcho(fd int, raw, v6 bool, payload []byte, until time.Time) manifest.Observation {
	buf := make([]byte, 2048)
	for {
		left := time.Until(until)
		if left <= 0 {
			return manifest.Observation{Sign: manifest.SignSent}
		}
		poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		if _, err := unix.Poll(poll, int(left.Milliseconds())+1); err != nil && err != unix.EINTR {
			return Sign(err)
		}
		n, _, err := unix.Recvfrom(fd, buf, 0)
		switch {
		case err == unix.EAGAIN || err == unix.EINTR:
			continue
		case err != nil:
			return Sign(err)
		}
		got := buf[:n]
		if raw && !v6 && n >= 20 {
			got = got[min(int(got[0]&15)*4, n):]
		}
		if len(got) >= 8 && (got[0] == 0 || got[0] == 129) && bytes.Contains(got, payload) {
			return manifest.Observation{Sign: manifest.SignAnswered, Bytes: int64(n)}
		}
	}
}

// Checksum is the internet checksum (RFC 1071).
func Checksum(b []byte) uint16 {
	var sum uint32
	for ; len(b) >= 2; b = b[2:] {
		sum += uint32(b[0])<<8 | uint32(b[1])
	}
	if len(b) == 1 {
		sum += uint32(b[0]) << 8
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}
