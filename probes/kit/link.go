package kit

import (
	"context"
	"encoding/binary"
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

// Nobody tells whether the kernel has looked for an IPv6 address on a link and found
// nobody who has it. It is false where the kernel does not say.
func Nobody(link, address string) bool {
	want, err := netip.ParseAddr(address)
	if err != nil {
		return false
	}
	in, err := net.InterfaceByName(link)
	if err != nil {
		return false
	}
	table, err := syscall.NetlinkRIB(unix.RTM_GETNEIGH, unix.AF_INET6)
	if err != nil {
		return false
	}
	messages, err := syscall.ParseNetlinkMessage(table)
	if err != nil {
		return false
	}
	for _, m := range messages {
		if at, state, addr, ok := neighbour(m); ok && at == in.Index && addr == want {
			return state&(unix.NUD_INCOMPLETE|unix.NUD_FAILED) != 0
		}
	}
	return false
}

// neighbour reads one entry of the table of neighbours: struct ndmsg of
// linux/neighbour.h and its attribute NDA_DST.
func neighbour(m syscall.NetlinkMessage) (link int, state uint16, addr netip.Addr, ok bool) {
	if m.Header.Type != unix.RTM_NEWNEIGH || len(m.Data) < unix.SizeofNdMsg {
		return 0, 0, addr, false
	}
	link, state = int(int32(binary.NativeEndian.Uint32(m.Data[4:]))), binary.NativeEndian.Uint16(m.Data[8:])
	for rest := m.Data[unix.SizeofNdMsg:]; len(rest) >= unix.SizeofNlAttr; {
		size, kind := int(binary.NativeEndian.Uint16(rest)), binary.NativeEndian.Uint16(rest[2:])
		if size < unix.SizeofNlAttr || size > len(rest) {
			break
		}
		if kind == unix.NDA_DST {
			addr, ok = netip.AddrFromSlice(rest[unix.SizeofNlAttr:size])
			return link, state, addr, ok
		}
		rest = rest[min((size+3)&^3, len(rest)):]
	}
	return 0, 0, addr, false
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
