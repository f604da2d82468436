package kit

import (
	"context"
	"net"
	"net/netip"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// DialLink is Dial on one network segment: an IPv4 address is looked for on that link
// itself, by ARP, past all routes (SO_DONTROUTE and SO_BINDTODEVICE of socket(7)).
func (t *Try) DialLink(ctx context.Context, network, address, link string) (net.Conn, error) {
	d := net.Dialer{Timeout: Patience, Control: func(network, _ string, c syscall.RawConn) error {
		var failed error
		err := c.Control(func(fd uintptr) {
			if !strings.HasSuffix(network, "6") {
				failed = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_DONTROUTE, 1)
			}
			if failed == nil {
				failed = unix.BindToDevice(int(fd), link)
			}
			t.note(network, BindAny(int(fd)))
		})
		if err == nil {
			err = failed
		}
		return err
	}}
	c, err := d.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	t.keep(ctx, c)
	return c, nil
}

// DialFrom is Dial from one of the sandbox's own IPv6 addresses.
func (t *Try) DialFrom(ctx context.Context, network, source, address string) (net.Conn, error) {
	from, err := netip.ParseAddr(source)
	if err != nil {
		return nil, err
	}
	d := net.Dialer{Timeout: Patience, KeepAlive: -1, Control: func(network, _ string, c syscall.RawConn) error {
		var failed error
		err := c.Control(func(fd uintptr) {
			if failed = unix.Bind(int(fd), &unix.SockaddrInet6{Addr: from.As16()}); failed != nil {
				return
			}
			if sa, err := unix.Getsockname(int(fd)); err == nil {
				if own, ok := sa.(*unix.SockaddrInet6); ok {
					t.note(network, own.Port)
				}
			}
		})
		if err == nil {
			err = failed
		}
		return err
	}}
	c, err := d.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	t.keep(ctx, c)
	return c, nil
}

// Links are the names of the links that are up, loopback left out.
func Links() []string {
	list, err := net.Interfaces()
	if err != nil {
		return nil
	}
	var out []string
	for _, l := range list {
		if l.Flags&net.FlagUp != 0 && l.Flags&net.FlagLoopback == 0 {
			out = append(out, l.Name)
		}
	}
	return out
}
