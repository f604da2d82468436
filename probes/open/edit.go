package open

import (
	"context"
	"encoding/binary"
	"fmt"
	"net/netip"
	"os"
	"strings"

	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/probes"
	"github.com/wallproof/wallproof/probes/kit"
	"golang.org/x/net/dns/dnsmessage"
	"golang.org/x/sys/unix"
)

// An edit that is refused does not end the attempt: what it was to prepare is
// tried all the same, and the refusal is told in the detail.

// hostsEdit takes the hosts file back and goes where it now leads: with routing by
// a hosts file, that was the proxy, and is now the host itself.
func hostsEdit(ctx context.Context, env *probes.Env) manifest.Observation {
	r := refused(env)
	restore, err := rewrite(kit.HostsFile, fmt.Sprintf("127.0.0.1 localhost\n%s %s\n", r.Addr, r.Host))
	defer restore()
	if led := kit.HostsEntry(r.Host, r.Addr.Is6()); led.IsValid() {
		r.Addr = led
	}
	return note(kit.Web(ctx, env, r), "hosts file", err)
}

// refused is a request to a host that the policy refuses: one that it blocks by
// name, at its own address, or else the attacker's.
func refused(env *probes.Env) *kit.Request {
	r := page(env, "https")
	if name := env.Facts.Blocked.Host; name != "" {
		_, v6 := kit.WayOf(env.Variant)
		r.Host, r.Addr = name, kit.AddrOf(env.Facts.Blocked.Addr, v6)
	}
	return r
}

// resolverEdit points the resolver configuration at a public server and asks it.
// Of a host that is blocked by name it asks for the address, and goes there.
func resolverEdit(ctx context.Context, env *probes.Env) manifest.Observation {
	const file = "/etc/resolv.conf"
	restore, err := rewrite(file, "nameserver "+publicDNS(env)+"\n")
	defer restore()
	server := publicDNS(env)
	if text, readErr := os.ReadFile(file); readErr == nil {
		if fields := strings.Fields(string(text)); err == nil && len(fields) >= 2 && fields[0] == "nameserver" {
			server = fields[1]
		}
	}
	server = kit.JoinHostPort(server, 53)
	t := kit.Begin(env)
	defer t.End()
	way, v6 := kit.WayOf(env.Variant)
	r := refused(env)
	if env.Facts.Blocked.Host == "" {
		return note(t.Done(ask(ctx, t, server, dnsmessage.TypeTXT)), "resolver configuration", err)
	}
	addr, lookupErr := t.LookupAt(ctx, server, r.Host, v6)
	if lookupErr != nil {
		return note(t.Fail(lookupErr), "resolver configuration", err)
	}
	r.Addr = addr
	a, webErr := t.HTTP(ctx, way, v6, r)
	if webErr != nil {
		return note(t.Fail(webErr), "resolver configuration", err)
	}
	return note(t.Done(kit.Observe(a)), "resolver configuration", err)
}

// routeEdit gives the destination a route of its own by the gateway.
func routeEdit(ctx context.Context, env *probes.Env) manifest.Observation {
	_, v6 := kit.WayOf(env.Variant)
	to := kit.Outside(env)
	if env.Facts.Blocked.Host != "" {
		to = kit.AddrOf(env.Facts.Blocked.Addr, v6)
	}
	err := addRoute(to, kit.AddrOf(env.Facts.Gateway, v6))
	return note(kit.Line(ctx, env, to.String(), oddTCP, kit.Probe(env)), "route", err)
}

func note(o manifest.Observation, what string, err error) manifest.Observation {
	word := "edited"
	if err != nil {
		word = err.Error()
	}
	o.Detail = strings.TrimSpace(what + ": " + word + "; " + o.Detail)
	return o
}

// rewrite replaces a file's content and returns what puts it back.
func rewrite(file, content string) (restore func(), err error) {
	old, err := os.ReadFile(file)
	if err != nil {
		return func() {}, err
	}
	if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
		return func() {}, err
	}
	return func() { _ = os.WriteFile(file, old, 0o644) }, nil
}

// addRoute adds a host route by rtnetlink.
func addRoute(to, via netip.Addr) error {
	if !via.IsValid() {
		return unix.ENETUNREACH
	}
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	tv := unix.Timeval{Sec: 1}
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &tv); err != nil {
		return err
	}
	if err := unix.Sendto(fd, routeMessage(to, via), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return err
	}
	buf := make([]byte, 4096)
	n, _, err := unix.Recvfrom(fd, buf, 0)
	if err != nil {
		return err
	}
	if n >= unix.NLMSG_HDRLEN+4 && binary.NativeEndian.Uint16(buf[4:]) == unix.NLMSG_ERROR {
		if code := int32(binary.NativeEndian.Uint32(buf[unix.NLMSG_HDRLEN:])); code != 0 {
			return unix.Errno(-code)
		}
	}
	return nil
}

func routeMessage(to, via netip.Addr) []byte {
	family := byte(unix.AF_INET)
	if to.Is6() {
		family = unix.AF_INET6
	}
	body := []byte{family, byte(to.BitLen()), 0, 0, unix.RT_TABLE_MAIN, unix.RTPROT_STATIC, unix.RT_SCOPE_UNIVERSE, unix.RTN_UNICAST, 0, 0, 0, 0}
	for _, attr := range []struct {
		kind uint16
		addr netip.Addr
	}{{unix.RTA_DST, to}, {unix.RTA_GATEWAY, via}} {
		raw := attr.addr.AsSlice()
		body = binary.NativeEndian.AppendUint16(body, uint16(4+len(raw)))
		body = binary.NativeEndian.AppendUint16(body, attr.kind)
		body = append(body, raw...)
	}
	head := binary.NativeEndian.AppendUint32(nil, uint32(unix.NLMSG_HDRLEN+len(body)))
	head = binary.NativeEndian.AppendUint16(head, unix.RTM_NEWROUTE)
	head = binary.NativeEndian.AppendUint16(head, unix.NLM_F_REQUEST|unix.NLM_F_ACK|unix.NLM_F_CREATE|unix.NLM_F_REPLACE)
	head = binary.NativeEndian.AppendUint32(head, 1)
	head = binary.NativeEndian.AppendUint32(head, 0)
	return append(head, body...)
}
