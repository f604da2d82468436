package boundary

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"github.com/wallproof/wallproof/policy/host"
)

// Names of rules that others refer to: in Denial.Rule and in Counters.
const (
	RuleDeny      = "deny"      // nothing allows it
	RuleSpoof     = "spoof"     // source is not the box's own address
	RuleMartian   = "martian"   // destination that must not be on this link
	RuleMulticast = "multicast" // multicast or broadcast
	RuleStale     = "stale"     // TCP segment of no known connection and no attempt at one
)

// Destinations that no packet on a link may have: they mean this host or this
// link. Beyond that every address is the proxy's to judge or falls to RuleDeny.
var martians = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"),
	netip.MustParsePrefix("127.0.0.0/8"),
	netip.MustParsePrefix("::/127"), // unspecified and loopback
	netip.MustParsePrefix("fe80::/10"),
	netip.MustParsePrefix("fec0::/10"), // site-local, deprecated: redirect would drop it without a word
}

var groups = []netip.Prefix{
	netip.MustParsePrefix("224.0.0.0/4"),
	netip.MustParsePrefix("255.255.255.255/32"),
	netip.MustParsePrefix("ff00::/8"),
}

var (
	linkLocal6   = netip.MustParsePrefix("fe80::/10")
	unspecified6 = netip.MustParsePrefix("::/128")
)

// filterHook is a filter chain at the given hook.
func filterHook(point *nftables.ChainHook, prio *nftables.ChainPriority, policy nftables.ChainPolicy) *hook {
	return &hook{typ: nftables.ChainTypeFilter, point: point, priority: prio, policy: policy}
}

// routerRules is the router's ruleset for a configuration.
func routerRules(cfg *Config, boxes []Box) *ruleset {
	rs := &ruleset{}
	if cfg.Mode == Open {
		openRules(rs, boxes)
	} else {
		enforcedRules(rs, cfg, boxes)
	}
	cfg.Hooks.editRules(rs, boxes)
	return rs
}

// openRules let everything pass and count it.
//
// What is sent to a group, or to a link-local address that is nobody's, is led to the
// world, as a router with a proxy for groups would: by their nature such packets go no
// further than the link.
func openRules(rs *ruleset, boxes []Box) {
	pre := rs.add("groups", filterHook(nftables.ChainHookPrerouting, nftables.ChainPriorityMangle, nftables.ChainPolicyAccept))
	nat := rs.add("groups-nat", &hook{typ: nftables.ChainTypeNAT, point: nftables.ChainHookPrerouting, priority: nftables.ChainPriorityNATDest, policy: nftables.ChainPolicyAccept})
	for _, g := range []struct {
		name string
		in   netip.Prefix
		to   netip.Addr
	}{{"4", groups[0], worldAddr4.Addr()}, {"6", groups[2], worldAddr6.Addr()}} {
		for _, b := range boxes {
			id := b.Name + "-" + g.name
			pre.add(id, iif(b.link), addrIn(destination, g.in), l4proto(unix.IPPROTO_UDP), toHost())
			nat.add(id, iif(b.link), addrIn(destination, g.in), l4proto(unix.IPPROTO_UDP), leadTo(g.to))
		}
	}
	for _, b := range boxes {
		if b.Local6.IsValid() {
			nat.add(b.Name+"-link-local", iif(b.link), addrIs(destination, b.Local6), leadTo(worldAddr6.Addr()))
		}
	}
	for _, at := range []struct {
		name  string
		point *nftables.ChainHook
	}{{"input", nftables.ChainHookInput}, {"forward", nftables.ChainHookForward}} {
		c := rs.add(at.name, filterHook(at.point, nftables.ChainPriorityFilter, nftables.ChainPolicyAccept))
		for _, b := range boxes {
			c.add("from-"+b.Name, iif(b.link), count(), accept())
		}
	}
}

// enforcedRules are the boundary. A packet from a box meets, in this order:
//
//	guard     before NAT: is it from this box and for something beyond the link?
//	redirect  80, 443 and 53 are sent to the proxy and the resolver
//	verdict   before routing: the box's law. All is decided here, so that also
//	          what routing would lose in silence (no route, a martian, a group)
//	          is refused aloud and recorded
//	input, forward  the same law again, behind policy drop
//
// The law of a box is one chain, so that there is one place where anything is
// allowed. Forwarding is off besides.
func enforcedRules(rs *ruleset, cfg *Config, boxes []Box) {
	prerouting := nftables.ChainHookPrerouting
	guard := rs.add("guard", filterHook(prerouting, nftables.ChainPriorityMangle, nftables.ChainPolicyAccept))
	redirect := rs.add("redirect", &hook{
		typ: nftables.ChainTypeNAT, point: prerouting, priority: nftables.ChainPriorityNATDest, policy: nftables.ChainPolicyAccept,
	})
	law := rs.add("verdict", filterHook(prerouting, nftables.ChainPriorityFilter, nftables.ChainPolicyAccept))
	input := rs.add("input", filterHook(nftables.ChainHookInput, nftables.ChainPriorityFilter, nftables.ChainPolicyDrop))
	forward := rs.add("forward", filterHook(nftables.ChainHookForward, nftables.ChainPriorityFilter, nftables.ChainPolicyDrop))
	output := rs.add("output", filterHook(nftables.ChainHookOutput, nftables.ChainPriorityFilter, nftables.ChainPolicyDrop))

	if cfg.Uplink == World {
		fromWorld(input)
		toWorld(output, cfg.ProxyUID)
	}
	if cfg.Selective {
		forward.add("world-answers", iif(uplinkLink), state(ctEstablished|ctRelated), count(), accept())
	}
	for _, b := range boxes {
		guardBox(rs.add("guard-"+b.Name, nil), b)
		services := servicesOf(cfg, boxes, b.Name)
		guard.add(b.Name, iif(b.link), jump("guard-"+b.Name))
		if cfg.isService(b.Name) {
			lawOfService(rs.add("box-"+b.Name, nil), cfg, boxes, b)
		} else {
			if !cfg.ProxyOnly {
				redirectBox(rs.add("redirect-"+b.Name, nil), cfg, b, services)
				redirect.add(b.Name, iif(b.link), jump("redirect-"+b.Name))
			}
			lawOfBox(rs.add("box-"+b.Name, nil), cfg, b, services)
		}
		for _, c := range []*chain{law, input, forward} {
			c.add(b.Name, iif(b.link), jump("box-"+b.Name))
		}
		toBox(output, b)
	}
}

// fromWorld lets in answers to the proxy, and neighbour discovery.
func fromWorld(c *chain) {
	c.add("world-answers", iif(uplinkLink), state(ctEstablished|ctRelated), count(), accept())
	for _, t := range []byte{neighbourSolicit, neighbourAdvert} {
		c.add(ndID("world", t), iif(uplinkLink), icmpType(false, t), hopLimit255(), accept())
	}
}

// toWorld lets out the proxy's own packets.
func toWorld(c *chain, uid uint32) {
	c.add("proxy-to-world", oif(uplinkLink), socketUID(uid), count(), accept())
	// Packets that the kernel sends for a socket already gone have no user.
	c.add("world-answers", oif(uplinkLink), state(ctEstablished), accept())
	for _, t := range []byte{neighbourSolicit, neighbourAdvert} {
		c.add(ndID("world", t), oif(uplinkLink), icmpType(false, t), hopLimit255(), accept())
	}
}

// toBox lets out answers, refusals and neighbour discovery; the router never
// begins a conversation with a box.
func toBox(c *chain, b Box) {
	c.add(b.Name+"-answers", oif(b.link), state(ctEstablished|ctRelated), count(), accept())
	c.add(b.Name+"-resets", oif(b.link), tcpFlags(0x04, 0x04), accept())
	c.add(b.Name+"-refusals4", oif(b.link), icmpType(true, 3), accept())
	c.add(b.Name+"-refusals6", oif(b.link), icmpType(false, 1), accept())
	for _, t := range []byte{neighbourSolicit, neighbourAdvert} {
		c.add(ndID(b.Name, t), oif(b.link), icmpType(false, t), hopLimit255(), accept())
	}
}

func ndID(who string, typ byte) string {
	if typ == neighbourSolicit {
		return who + "-nd-solicit"
	}
	return who + "-nd-advert"
}

// guardBox refuses packets that lie about where they come from, or that are for
// this link rather than for a destination.
func guardBox(c *chain, b Box) {
	allowND(c, b)
	// What a host says unasked when a link comes up: nobody here listens, and it
	// is no attempt at anything.
	for _, t := range []byte{routerSolicit, mldReport, mldDone, mld2Report} {
		c.add("chatter-"+string(rune('a'+len(c.rules))), icmpType(false, t), addrIn(destination, netip.MustParsePrefix("ff02::/16")), count(), drop())
	}
	for i, g := range groups {
		c.add(RuleMulticast+"-"+string(rune('a'+i)), addrIn(destination, g), count(), logged(RuleMulticast+" "+b.Name), drop())
	}
	c.add(RuleMulticast+"-link", notToHost(), count(), logged(RuleMulticast+" "+b.Name), drop())
	// A refusal would go to whoever the source names, so there is none.
	c.add(RuleSpoof+"4", addrIsNot(source, b.IPv4), count(), logged(RuleSpoof+" "+b.Name), drop())
	if b.IPv6.IsValid() {
		c.add(RuleSpoof+"6", addrIsNot(source, b.IPv6), count(), logged(RuleSpoof+" "+b.Name), drop())
	} else {
		c.add(RuleSpoof+"6", family(false), count(), logged(RuleSpoof+" "+b.Name), drop())
	}
	for i, m := range martians {
		refuse(c, RuleMartian+"-"+string(rune('a'+i)), RuleMartian+" "+b.Name, addrIn(destination, m))
	}
}

// allowND accepts neighbour discovery between the box and its gateway.
func allowND(c *chain, b Box) {
	if !b.IPv6.IsValid() {
		return
	}
	from := []netip.Prefix{netip.PrefixFrom(b.IPv6, 128), linkLocal6, unspecified6}
	for _, t := range []byte{neighbourSolicit, neighbourAdvert} {
		for i, p := range from {
			c.add(ndID(b.Name, t)+string(rune('a'+i)), icmpType(false, t), hopLimit255(), addrIn(source, p), accept())
		}
	}
}

// redirectBox leads what only a proxy or a resolver can judge to them, whatever
// its destination.
func redirectBox(c *chain, cfg *Config, b Box, services []service) {
	for _, g := range b.gateways() {
		if cfg.Selective {
			c.add("named-http-"+familyName(g), addrIs(destination, g), dport(unix.IPPROTO_TCP, 80), count(), redirectTo(PortTransparent))
			c.add("named-https-"+familyName(g), addrIs(destination, g), dport(unix.IPPROTO_TCP, 443), count(), redirectTo(PortTransparent))
		}
		c.add("own-gateway-"+familyName(g), addrIs(destination, g), back())
	}
	if cfg.Selective {
		return
	}
	for _, s := range services {
		c.add("service-"+s.box.Name, addrIs(destination, s.box.IPv4), back())
	}
	c.add("http", dport(unix.IPPROTO_TCP, 80), count(), redirectTo(PortTransparent))
	c.add("https", dport(unix.IPPROTO_TCP, 443), count(), redirectTo(PortTransparent))
	c.add("dns-udp", dport(unix.IPPROTO_UDP, 53), count(), redirectTo(PortDNS))
	c.add("dns-tcp", dport(unix.IPPROTO_TCP, 53), count(), redirectTo(PortDNS))
}

// lawOfBox is all that a box may do. Everything else is refused at once.
func lawOfBox(c *chain, cfg *Config, b Box, services []service) {
	allowND(c, b)
	for _, g := range b.gateways() {
		to := addrIs(destination, g)
		f := familyName(g)
		c.add("proxy-"+f, to, dport(unix.IPPROTO_TCP, PortProxy), count(), accept())
		if cfg.SOCKS {
			c.add("socks-"+f, to, dport(unix.IPPROTO_TCP, PortSOCKS), count(), accept())
		}
		if !cfg.ProxyOnly {
			c.add("dns-udp-"+f, to, dport(unix.IPPROTO_UDP, PortDNS), count(), accept())
			c.add("dns-tcp-"+f, to, dport(unix.IPPROTO_TCP, PortDNS), count(), accept())
			c.add("transparent-"+f, to, dport(unix.IPPROTO_TCP, PortTransparent), redirected(), count(), accept())
		}
		// An ICMP error about one of these conversations: conntrack has found the
		// conversation that it quotes.
		c.add("error-"+f, to, state(ctRelated), count(), accept())
	}
	for _, s := range services {
		to := addrIs(destination, s.box.IPv4)
		for _, p := range s.ports {
			c.add(fmt.Sprintf("service-%s-%d", s.box.Name, p), to, dport(unix.IPPROTO_TCP, p), count(), accept())
		}
		c.add("service-"+s.box.Name+"-error", to, state(ctRelated), count(), accept())
	}
	if cfg.Selective {
		direct(c, b)
	}
	refuseRest(c, b)
}

// direct lets TCP, UDP and ICMP go to public addresses. What is not the public
// internet is refused like everything else.
func direct(c *chain, b Box) {
	for i, r := range host.SpecialRanges() {
		refuse(c, fmt.Sprintf("special-%d", i), RuleDeny+" "+b.Name, addrIn(destination, r.Prefix))
	}
	for _, p := range []struct {
		name  string
		proto byte
	}{{"tcp", unix.IPPROTO_TCP}, {"udp", unix.IPPROTO_UDP}, {"icmp", unix.IPPROTO_ICMP}, {"icmpv6", unix.IPPROTO_ICMPV6}} {
		c.add("direct-"+p.name, l4proto(p.proto), count(), accept())
	}
}

// lawOfService: a service answers those that may reach it, and begins nothing.
func lawOfService(c *chain, cfg *Config, boxes []Box, b Box) {
	allowND(c, b)
	for _, p := range cfg.Peers {
		if p.Service != b.Name {
			continue
		}
		for _, client := range boxes {
			if slices.Contains(p.From, client.Name) {
				c.add("answers-"+client.Name, addrIs(destination, client.IPv4), state(ctEstablished|ctRelated), count(), accept())
			}
		}
	}
	refuseRest(c, b)
}

// service is one that a box may reach.
type service struct {
	box   Box
	ports []uint16
}

func servicesOf(cfg *Config, boxes []Box, from string) []service {
	var out []service
	for _, p := range cfg.Peers {
		if !slices.Contains(p.From, from) {
			continue
		}
		for _, b := range boxes {
			if b.Name == p.Service {
				out = append(out, service{b, p.Ports})
			}
		}
	}
	return out
}

func refuseRest(c *chain, b Box) {
	c.add(RuleStale, tcpFlags(0x02, 0), state(ctInvalid), count(), logged(RuleStale+" "+b.Name), rejectTCP())
	refuse(c, RuleDeny, RuleDeny+" "+b.Name)
}

// refuse rejects at once, in the way that the sender notices: a reset for TCP;
// port unreachable for UDP, the only ICMP error that gVisor's UDP sockets report;
// administratively prohibited for the rest.
func refuse(c *chain, id, text string, match ...[]expr.Any) {
	when := join(match...)
	c.add(id+"-tcp", when, l4proto(unix.IPPROTO_TCP), count(), logged(text), rejectTCP())
	c.add(id+"-udp", when, l4proto(unix.IPPROTO_UDP), count(), logged(text), rejectICMP(unix.NFT_REJECT_ICMPX_PORT_UNREACH))
	c.add(id+"-other", when, count(), logged(text), rejectICMP(unix.NFT_REJECT_ICMPX_ADMIN_PROHIBITED))
}

func (b Box) gateways() []netip.Addr {
	if b.Gateway6.IsValid() {
		return []netip.Addr{b.Gateway4, b.Gateway6}
	}
	return []netip.Addr{b.Gateway4}
}

func familyName(a netip.Addr) string {
	if a.Is4() {
		return "4"
	}
	return "6"
}
