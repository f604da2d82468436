package boundary

import (
	"net"
	"net/netip"
)

// Names of namespaces and links. A link's name is the same in every run, so that
// the filter's digest is, too.
const (
	prefix     = "wallproof-"
	routerName = "router"
	worldName  = "world"
	netnsDir   = "/run/netns/"

	boxLink    = "eth0"   // in a box
	worldLink  = "eth0"   // in the world
	uplinkLink = "world0" // in the router, towards the world
)

// The addresses between router and world.
var (
	routerUplink4 = netip.MustParsePrefix("203.0.113.1/30")
	worldAddr4    = netip.MustParsePrefix("203.0.113.2/30")
	routerUplink6 = netip.MustParsePrefix("2001:db8:ffff::1/64")
	worldAddr6    = netip.MustParsePrefix("2001:db8:ffff::2/64")
)

// Box is where one sandbox is put.
type Box struct {
	Name       string
	NetNSPath  string       // for the sandbox's specification
	IPv4       netip.Addr   // the box's own address, /30
	Gateway4   netip.Addr   // the router, where proxy and resolver listen
	IPv6       netip.Addr   // /64; the zero Addr when the machine has no IPv6
	Gateway6   netip.Addr   // the zero Addr when the machine has no IPv6
	Beside6    netip.Addr   // in the box's network, and nobody's; in the open mode the world answers there
	Local6     netip.Addr   // likewise, of the link alone (fe80::/10); the same on every link
	prefix4    netip.Prefix // of the box's own address
	prefix6    netip.Prefix
	index      int
	link       string           // in the router
	mac        net.HardwareAddr // of the box
	gatewayMAC net.HardwareAddr // MAC of the router on this link
}

// newBox lays out box i: 192.0.2.(4i+2)/30 behind .(4i+1), and
// 2001:db8:0:i::2/64 behind ::1.
func newBox(cfg *Config, i int, v6 bool) Box {
	b := Box{
		Name:       cfg.Boxes[i],
		NetNSPath:  netnsDir + nsName(cfg.Run, cfg.Phase, cfg.Boxes[i]),
		Gateway4:   netip.AddrFrom4([4]byte{192, 0, 2, byte(4*i + 1)}),
		IPv4:       netip.AddrFrom4([4]byte{192, 0, 2, byte(4*i + 2)}),
		index:      i,
		link:       "box" + string(rune('a'+i)),
		mac:        hardwareAddr(byte(i), 2),
		gatewayMAC: hardwareAddr(byte(i), 1),
	}
	b.prefix4 = netip.PrefixFrom(b.IPv4, 30)
	if v6 {
		b.Gateway6, b.IPv6 = boxAddr6(byte(i), 1), boxAddr6(byte(i), 2)
		b.Beside6, b.Local6 = boxAddr6(byte(i), besideHost), localBeside
		b.prefix6 = netip.PrefixFrom(b.IPv6, 64)
	}
	return b
}

// besideHost is the last byte of an address that no machine of a box's network has.
const besideHost = 0x77

// localBeside is a link-local address that no machine of a link has.
var localBeside = netip.MustParseAddr("fe80::77")

func boxAddr6(i, host byte) netip.Addr {
	a := netip.MustParseAddr("2001:db8::").As16()
	a[7], a[15] = i, host
	return netip.AddrFrom16(a)
}

// hardwareAddr is locally administered and the same in every run, so that a
// sandbox restored from a snapshot finds the link that it left.
func hardwareAddr(link, side byte) net.HardwareAddr {
	return net.HardwareAddr{0x02, 'w', 'a', 'l', link, side}
}

func nsName(run, phase, name string) string {
	return prefix + run + "-" + phase + "-" + name
}
