package boundary

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// worldTable is the routing table that makes every IPv6 destination local to the
// world; its number means nothing outside that namespace.
const worldTable = 100

// end is one end of a veth pair.
type end struct {
	ns   *namespace
	name string
	mac  net.HardwareAddr
	ip4  netip.Prefix
	ip6  netip.Prefix // not valid without IPv6
}

// connect makes a veth pair, each end born in its own namespace, with addresses;
// both are still down.
func connect(a, b end) error {
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.HardwareAddr = a.name, a.mac
	pair := &netlink.Veth{
		LinkAttrs: attrs, PeerName: b.name, PeerHardwareAddr: b.mac, PeerNamespace: netlink.NsFd(int(b.ns.fd)),
	}
	if err := a.ns.nl.LinkAdd(pair); err != nil {
		return fmt.Errorf("make link %s of %s: %w", a.name, a.ns.name, err)
	}
	return errors.Join(a.address(), b.address())
}

// address gives the end its addresses; those that it has already are left.
func (e end) address() error {
	link, err := e.ns.nl.LinkByName(e.name)
	if err != nil {
		return fmt.Errorf("find link %s of %s: %w", e.name, e.ns.name, err)
	}
	for _, p := range []netip.Prefix{e.ip4, e.ip6} {
		if !p.IsValid() {
			continue
		}
		addr := &netlink.Addr{IPNet: ipNet(p)}
		if p.Addr().Is6() {
			addr.Flags = unix.IFA_F_NODAD
		}
		if err := e.ns.nl.AddrReplace(link, addr); err != nil {
			return fmt.Errorf("give %s to %s of %s: %w", p, e.name, e.ns.name, err)
		}
	}
	return nil
}

// up starts the link and loopback.
func (e end) up() error {
	for _, name := range []string{"lo", e.name} {
		link, err := e.ns.nl.LinkByName(name)
		if err == nil {
			err = e.ns.nl.LinkSetUp(link)
		}
		if err != nil {
			return fmt.Errorf("start link %s of %s: %w", name, e.ns.name, err)
		}
	}
	return nil
}

func (e end) down() error {
	link, err := e.ns.nl.LinkByName(e.name)
	if err == nil {
		err = e.ns.nl.LinkSetDown(link)
	}
	if err != nil {
		return fmt.Errorf("stop link %s of %s: %w", e.name, e.ns.name, err)
	}
	return nil
}

// knows writes down the neighbour's hardware address for good, so that no answer
// of anybody's can change it.
func (e end) knows(neighbour end) error {
	link, err := e.ns.nl.LinkByName(e.name)
	if err != nil {
		return fmt.Errorf("find link %s of %s: %w", e.name, e.ns.name, err)
	}
	for _, p := range []netip.Prefix{neighbour.ip4, neighbour.ip6} {
		if !p.IsValid() {
			continue
		}
		n := &netlink.Neigh{
			LinkIndex: link.Attrs().Index, State: netlink.NUD_PERMANENT, IP: p.Addr().AsSlice(), HardwareAddr: neighbour.mac,
		}
		if err := e.ns.nl.NeighSet(n); err != nil {
			return fmt.Errorf("note neighbour %s of %s: %w", p.Addr(), e.ns.name, err)
		}
	}
	return nil
}

// answersFor has the end answer who looks for an address on its segment (RFC 4389).
func (e end) answersFor(a netip.Addr) error {
	link, err := e.ns.nl.LinkByName(e.name)
	if err != nil {
		return fmt.Errorf("find link %s of %s: %w", e.name, e.ns.name, err)
	}
	n := &netlink.Neigh{LinkIndex: link.Attrs().Index, Family: unix.AF_INET6, Flags: netlink.NTF_PROXY, IP: a.AsSlice()}
	if err := e.ns.nl.NeighSet(n); err != nil {
		return fmt.Errorf("answer for %s on %s of %s: %w", a, e.name, e.ns.name, err)
	}
	return nil
}

// route sends dst to a gateway over the link.
func (e end) route(dst netip.Prefix, gateway netip.Addr) error {
	link, err := e.ns.nl.LinkByName(e.name)
	if err != nil {
		return fmt.Errorf("find link %s of %s: %w", e.name, e.ns.name, err)
	}
	r := &netlink.Route{LinkIndex: link.Attrs().Index, Dst: ipNet(dst), Gw: gateway.AsSlice()}
	if err := e.ns.nl.RouteReplace(r); err != nil {
		return fmt.Errorf("route %s of %s: %w", dst, e.ns.name, err)
	}
	return nil
}

// defaultRoutes sends everything to the other end.
func (e end) defaultRoutes(via end) error {
	err := e.route(netip.PrefixFrom(netip.IPv4Unspecified(), 0), via.ip4.Addr())
	if e.ip6.IsValid() {
		err = errors.Join(err, e.route(netip.PrefixFrom(netip.IPv6Unspecified(), 0), via.ip6.Addr()))
	}
	return err
}

// answerEverywhere makes every destination that arrives at the world local to
// it. IPv4: a local route for everything in the local table; the kernel keeps
// the local and the main table in one trie as long as there is no IPv4 rule of
// anyone's, so the longer routes back to the boxes win. IPv6 keeps them apart
// (such a route would swallow the answers), so there it is a table of its own
// for what comes in over the link.
func answerEverywhere(e end) error {
	lo, err := e.ns.nl.LinkByName("lo")
	if err != nil {
		return fmt.Errorf("find loopback of %s: %w", e.ns.name, err)
	}
	everything := func(table int, bits netip.Prefix) *netlink.Route {
		return &netlink.Route{
			LinkIndex: lo.Attrs().Index, Dst: ipNet(bits), Table: table, Type: unix.RTN_LOCAL, Scope: netlink.SCOPE_HOST,
		}
	}
	if err := e.ns.nl.RouteReplace(everything(unix.RT_TABLE_LOCAL, netip.PrefixFrom(netip.IPv4Unspecified(), 0))); err != nil {
		return fmt.Errorf("answer on every IPv4 address: %w", err)
	}
	if !e.ip6.IsValid() {
		return nil
	}
	if err := e.ns.nl.RouteReplace(everything(worldTable, netip.PrefixFrom(netip.IPv6Unspecified(), 0))); err != nil {
		return fmt.Errorf("answer on every IPv6 address: %w", err)
	}
	rule := netlink.NewRule()
	rule.Family, rule.IifName, rule.Table, rule.Priority = unix.AF_INET6, e.name, worldTable, 1
	if err := e.ns.nl.RuleAdd(rule); err != nil && !errors.Is(err, os.ErrExist) {
		return fmt.Errorf("answer on every IPv6 address: %w", err)
	}
	return nil
}

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}
