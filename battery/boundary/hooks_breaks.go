//go:build breaks

package boundary

import (
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"time"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Hooks are the seeded breaks of the enforced boundary, as data. They exist only
// in a binary built with the tag breaks. Where two layers of the boundary would
// each hold, a hook opens both: a break is one hole, not one of two locks.
//
// With any hook set, VerifyInPlace leaves out its live check, which would refuse
// the run before the battery could catch the break; LiveCheck keeps it in.
type Hooks struct {
	// Accept lets packets through unfiltered.
	Accept []AcceptRule `json:"accept,omitempty" yaml:"accept,omitempty"`
	// SkipIPv6 leaves IPv6 unfiltered and forwarded.
	SkipIPv6 bool `json:"skipIPv6,omitempty" yaml:"skipIPv6,omitempty"`
	// NoRedirect leads nothing to the proxy and the resolver.
	NoRedirect bool `json:"noRedirect,omitempty" yaml:"noRedirect,omitempty"`
	// RejectAsDrop refuses in silence (the log of refusals stays).
	RejectAsDrop bool `json:"rejectAsDrop,omitempty" yaml:"rejectAsDrop,omitempty"`
	// Dead takes the boxes' links down, on the router's side.
	Dead bool `json:"dead,omitempty" yaml:"dead,omitempty"`
	// LateFilterMs loads the filter only so many milliseconds after Begin; until then
	// everything is forwarded. A run that is over sooner has it loaded by End.
	LateFilterMs int `json:"lateFilterMs,omitempty" yaml:"lateFilterMs,omitempty"`
	// MidRun changes the filter after VerifyInPlace has returned, by End at the latest.
	MidRun *MidRun `json:"midRun,omitempty" yaml:"midRun,omitempty"`
	// Segment is who else is on the first box's network segment, past the router:
	// another box by its name, or "world"; "" for nobody.
	Segment string `json:"segment,omitempty" yaml:"segment,omitempty"`
	// Groups leads what is sent to groups to the world, as the open mode does.
	Groups bool `json:"groups,omitempty" yaml:"groups,omitempty"`
	// LiveCheck keeps VerifyInPlace's live check, to show that it catches the break.
	LiveCheck bool `json:"liveCheck,omitempty" yaml:"liveCheck,omitempty"`
}

// AcceptRule lets matching packets of every box through.
type AcceptRule struct {
	CIDR  string      `json:"cidr" yaml:"cidr"`                       // destination; with chain guard, source
	Proto string      `json:"proto,omitempty" yaml:"proto,omitempty"` // tcp, udp, icmp, icmpv6; "" any
	Ports []PortRange `json:"ports,omitempty" yaml:"ports,omitempty"` // of tcp or udp; none means all
	// Chain: "forward" (default): forwarded as they are, past the redirect;
	// "input": to the router's own ports; "guard": sources that are not the box's.
	Chain string `json:"chain,omitempty" yaml:"chain,omitempty"`
}

// Check says what is wrong with a rule, also that it would open no hole.
func (a AcceptRule) Check() error {
	if _, err := a.matches(); err != nil {
		return err
	}
	if a.Chain != "input" {
		return nil
	}
	// The router's own ports are a proxy's and a resolver's for each sandbox.
	if a.Proto == "icmp" || a.Proto == "icmpv6" {
		return errors.New("accept rule: chain input: nothing but the router's kernel answers to icmp there: it opens no hole")
	}
	p := netip.MustParsePrefix(a.CIDR)
	if p.Addr().Is4() && !p.Overlaps(routers4) || p.Addr().Is6() && !p.Overlaps(routers6) {
		return fmt.Errorf("accept rule: chain input: nothing of the router's listens in %s, but in %s and %s: it opens no hole", p, routers4, routers6)
	}
	if own := netip.MustParsePrefix("192.0.2.1/32"); p == own || p == netip.MustParsePrefix("2001:db8::1/128") {
		return fmt.Errorf("accept rule: chain input: %s is the gateway of the sandbox under test, whose proxy and resolver it may use anyway: it opens no hole", p.Addr())
	}
	if a.Proto == "udp" {
		return errors.New("accept rule: chain input: nothing but a resolver takes datagrams there, and the sandbox's own answers the same for every address: it opens no hole")
	}
	if len(a.Ports) == 0 {
		return nil
	}
	listens := []uint16{PortProxy, PortSOCKS}
	for _, r := range a.Ports {
		for _, port := range listens {
			if r.First <= port && port <= max(r.First, r.Last) {
				return nil
			}
		}
	}
	return fmt.Errorf("accept rule: chain input: of the router's own ports %v are a proxy's: these open no hole", listens)
}

// The gateways of the sandboxes, at which each one's proxy and resolver listen.
var (
	routers4 = netip.MustParsePrefix("192.0.2.0/24")
	routers6 = netip.MustParsePrefix("2001:db8::/48")
)

// PortRange is a range of ports, both ends included; Last 0 means First alone.
type PortRange struct {
	First uint16 `json:"first" yaml:"first"`
	Last  uint16 `json:"last,omitempty" yaml:"last,omitempty"`
}

// MidRun is a change of the filter in the middle of a run.
type MidRun struct {
	AfterMs int        `json:"afterMs" yaml:"afterMs"` // milliseconds after VerifyInPlace
	Accept  AcceptRule `json:"accept" yaml:"accept"`
}

func (h Hooks) any() bool { return !reflect.DeepEqual(h, Hooks{}) }

func (h Hooks) check(cfg *Config) error {
	if h.any() && cfg.Mode != Enforced {
		return fmt.Errorf("%w: hooks break the enforced mode only", ErrConfig)
	}
	rules := h.Accept
	if h.MidRun != nil {
		rules = append(rules, h.MidRun.Accept)
	}
	for _, a := range rules {
		if _, err := a.matches(); err != nil {
			return fmt.Errorf("%w: %w", ErrConfig, err)
		}
	}
	return nil
}

var hookProtos = map[string]byte{
	"tcp": unix.IPPROTO_TCP, "udp": unix.IPPROTO_UDP, "icmp": unix.IPPROTO_ICMP, "icmpv6": unix.IPPROTO_ICMPV6,
}

// matches are the rule's conditions, one for each range of ports.
func (a AcceptRule) matches() ([][]expr.Any, error) {
	p, err := netip.ParsePrefix(a.CIDR)
	if err != nil {
		return nil, fmt.Errorf("accept rule: %w", err)
	}
	proto, known := hookProtos[a.Proto]
	switch {
	case a.forwards() && nowhere(p):
		return nil, fmt.Errorf("accept rule: a kernel forwards nothing to %s, whatever the filter says: accepting it opens no hole", p)
	case a.Chain != "" && a.Chain != "forward" && a.Chain != "input" && a.Chain != "guard":
		return nil, fmt.Errorf("accept rule: chain %q is not forward, input or guard", a.Chain)
	case a.Proto != "" && !known:
		return nil, fmt.Errorf("accept rule: protocol %q", a.Proto)
	case len(a.Ports) > 0 && a.Proto != "tcp" && a.Proto != "udp":
		return nil, fmt.Errorf("accept rule: ports without tcp or udp")
	}
	s := destination
	if a.Chain == "guard" {
		s = source
	}
	match := addrIn(s, p)
	if len(a.Ports) == 0 {
		if known {
			match = join(match, l4proto(proto))
		}
		return [][]expr.Any{match}, nil
	}
	var all [][]expr.Any
	for _, r := range a.Ports {
		all = append(all, join(match, dports(proto, r.First, max(r.First, r.Last))))
	}
	return all, nil
}

// nowhere reports whether no packet to any of these addresses is ever forwarded:
// this host, this link, groups.
func nowhere(p netip.Prefix) bool {
	for _, in := range []string{"0.0.0.0/8", "127.0.0.0/8", "224.0.0.0/4", "240.0.0.0/4", "::/127", "fe80::/10", "ff00::/8"} {
		if n := netip.MustParsePrefix(in); n.Bits() <= p.Bits() && n.Contains(p.Addr()) {
			return true
		}
	}
	return false
}

// dports matches a range of destination ports, after the protocol.
func dports(proto byte, first, last uint16) []expr.Any {
	return join(l4proto(proto), []expr.Any{
		payload(expr.PayloadBaseTransportHeader, 2, 2),
		cmp(expr.CmpOpGte, big16(first)), cmp(expr.CmpOpLte, big16(last)),
	})
}

func (h Hooks) editRules(rs *ruleset, boxes []Box) {
	if h.NoRedirect {
		for _, b := range boxes {
			rs.chain("redirect-" + b.Name).rules = nil
		}
	}
	for i, a := range h.Accept {
		a.apply(rs, boxes, fmt.Sprintf("break-%d", i))
	}
	if h.Groups {
		leadGroups(rs, boxes)
	}
	if h.SkipIPv6 {
		for _, c := range rs.chains {
			if c.hook != nil {
				c.insert("break-ipv6", family(false), accept())
			}
		}
	}
	if h.RejectAsDrop {
		rs.rejectAsDrop()
	}
}

// apply puts the rule at the top of each chain that would stop the packet.
func (a AcceptRule) apply(rs *ruleset, boxes []Box, id string) {
	matches, err := a.matches()
	if err != nil {
		return // refused by check
	}
	for _, b := range boxes {
		for i, m := range matches {
			id := fmt.Sprintf("%s-%d", id, i)
			if a.Chain == "guard" {
				rs.chain("guard-"+b.Name).insert(id, m, count(), accept())
				continue
			}
			rs.chain("redirect-"+b.Name).insert(id, m, back())
			if a.forwards() {
				rs.chain("guard-"+b.Name).insert(id, m, back())
			}
			rs.chain("box-"+b.Name).insert(id, m, count(), accept())
		}
		if a.forwards() {
			// Answers: from the world, and from another box.
			rs.chain("box-"+b.Name).insert(id+"-answers", state(ctEstablished), accept())
		}
	}
	if a.forwards() {
		rs.chain("forward").insert(id+"-answers", state(ctEstablished|ctRelated), accept())
	}
}

// leadGroups lets datagrams to groups through, to the world, where they would go if a
// router passed them on.
func leadGroups(rs *ruleset, boxes []Box) {
	for i, g := range []struct {
		in netip.Prefix
		to netip.Addr
	}{{groups[0], worldAddr4.Addr()}, {groups[2], worldAddr6.Addr()}} {
		id := fmt.Sprintf("break-groups-%d", i)
		AcceptRule{CIDR: netip.PrefixFrom(g.to, g.to.BitLen()).String(), Proto: "udp"}.apply(rs, boxes, id)
		for _, b := range boxes {
			rs.chain("guard-"+b.Name).insert(id+"-guard", addrIn(destination, g.in), l4proto(unix.IPPROTO_UDP), toHost(), accept())
			rs.chain("redirect-"+b.Name).insert(id+"-lead", addrIn(destination, g.in), l4proto(unix.IPPROTO_UDP), leadTo(g.to))
		}
	}
}

func (a AcceptRule) forwards() bool { return a.Chain == "" || a.Chain == "forward" }

func (rs *ruleset) chain(name string) *chain {
	for _, c := range rs.chains {
		if c.name == name {
			return c
		}
	}
	return &chain{} // the open mode has no such chain; check keeps hooks out of it
}

func (c *chain) insert(id string, parts ...[]expr.Any) {
	c.rules = append([]rule{{id: id, exprs: join(parts...)}}, c.rules...)
}

func (rs *ruleset) rejectAsDrop() {
	for _, c := range rs.chains {
		for _, r := range c.rules {
			for i, e := range r.exprs {
				if _, ok := e.(*expr.Reject); ok {
					r.exprs[i] = &expr.Verdict{Kind: expr.VerdictDrop}
				}
			}
		}
	}
}

func (h Hooks) forwarding(open bool) (v4, v6 bool) {
	opened := h.Groups || h.LateFilterMs > 0 || h.MidRun != nil && h.MidRun.Accept.forwards()
	for _, a := range h.Accept {
		opened = opened || a.forwards()
	}
	return open || opened, open || opened || h.SkipIPv6
}

func (h Hooks) lateFilter() bool { return h.LateFilterMs > 0 }

func (h Hooks) spareLiveCheck() bool { return h.any() && !h.LiveCheck }

func (h Hooks) begun(s *Stage) {
	if h.LateFilterMs > 0 {
		s.later(h.LateFilterMs, func() error { return s.rules.load(int(s.router.fd)) })
	}
}

func (h Hooks) built(s *Stage) error {
	if h.Segment != "" {
		return s.share(h.Segment)
	}
	if !h.Dead {
		return nil
	}
	for _, e := range s.gateEnd {
		// The gateway's addresses stay, so that everything else starts as usual.
		keep := sysctl{key: "ipv6/conf/" + e.name + "/keep_addr_on_down", value: "1", optional: true}
		if err := setSysctls(s.router, []sysctl{keep}); err != nil {
			return err
		}
		if err := e.down(); err != nil {
			return err
		}
	}
	return nil
}

func (h Hooks) verified(s *Stage) {
	if h.MidRun == nil {
		return
	}
	s.later(h.MidRun.AfterMs, func() error {
		changed := s.cfg
		changed.Hooks.Accept = append(append([]AcceptRule(nil), h.Accept...), h.MidRun.Accept)
		return routerRules(&changed, s.boxes).replace(int(s.router.fd))
	})
}

// later runs fn after a time, or at the end, unless the stage is closed before.
func (s *Stage) later(ms int, fn func() error) {
	s.pending.Go(func() {
		timer := time.NewTimer(time.Duration(ms) * time.Millisecond)
		defer timer.Stop()
		select {
		case <-s.life.Done():
			return
		case <-timer.C:
		case <-s.over.Done():
		}
		_ = s.open(fn) // a break that does not fire is missed by its test
	})
}

// replace swaps the whole table in one transaction.
func (rs *ruleset) replace(nsFD int) error {
	return rs.loadAfter(nsFD, func(conn *nftables.Conn) {
		conn.DelTable(&nftables.Table{Name: tableName, Family: nftables.TableFamilyINet})
	})
}

// segmentLink is the other machine's link on the first box's segment.
const segmentLink = "lan0"

// share gives another namespace a link on the first box's segment: a macvlan on the
// router's end takes the frames that are for it before the router sees them.
func (s *Stage) share(with string) error {
	on, other := s.boxes[0], s.world
	for i, b := range s.boxes {
		if b.Name == with {
			other = s.boxNS[i]
		}
	}
	if other == nil || other == s.boxNS[0] {
		return fmt.Errorf("%w: there is no %q to share a segment with", ErrConfig, with)
	}
	lower, err := s.router.nl.LinkByName(on.link)
	if err != nil {
		return fmt.Errorf("find link %s: %w", on.link, err)
	}
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.ParentIndex, attrs.HardwareAddr = segmentLink, lower.Attrs().Index, hardwareAddr(on.mac[4], 3)
	attrs.Namespace = netlink.NsFd(int(other.fd))
	if err := s.router.nl.LinkAdd(&netlink.Macvlan{LinkAttrs: attrs, Mode: netlink.MACVLAN_MODE_BRIDGE}); err != nil {
		return fmt.Errorf("make link %s: %w", segmentLink, err)
	}
	if other == s.world {
		if err := worldRules(s.cfg.Services, segmentLink).replace(int(s.world.fd)); err != nil {
			return err
		}
	}
	// It answers for every address that it has, on whichever link, and takes packets
	// that come by another one than it would answer on.
	for _, key := range []string{"arp_ignore", "rp_filter"} {
		for _, scope := range []string{"all", segmentLink} {
			if err := setSysctls(other, []sysctl{{key: "ipv4/conf/" + scope + "/" + key, value: "0"}}); err != nil {
				return err
			}
		}
	}
	link, err := other.nl.LinkByName(segmentLink)
	if err != nil {
		return fmt.Errorf("find link %s: %w", segmentLink, err)
	}
	for _, a := range []netip.Addr{on.Beside6, on.Local6} {
		if !a.IsValid() {
			continue
		}
		addr := &netlink.Addr{IPNet: ipNet(netip.PrefixFrom(a, 128)), Flags: unix.IFA_F_NODAD}
		if a.IsLinkLocalUnicast() {
			addr.Scope = unix.RT_SCOPE_LINK
		}
		if err := other.nl.AddrAdd(link, addr); err != nil {
			return fmt.Errorf("give %s to link %s: %w", a, segmentLink, err)
		}
	}
	if err := other.nl.LinkSetUp(link); err != nil {
		return fmt.Errorf("start link %s: %w", segmentLink, err)
	}
	for _, a := range []netip.Addr{on.IPv4, on.IPv6} {
		if !a.IsValid() {
			continue
		}
		r := &netlink.Route{LinkIndex: link.Attrs().Index, Dst: ipNet(netip.PrefixFrom(a, a.BitLen())), Scope: netlink.SCOPE_LINK}
		if err := other.nl.RouteReplace(r); err != nil {
			return fmt.Errorf("route %s to link %s: %w", a, segmentLink, err)
		}
	}
	return nil
}
