package boundary

import (
	"strconv"

	"github.com/google/nftables"
	"golang.org/x/sys/unix"
)

// worldRules lead every port of the world that has no socket of its own to the
// catch-all sockets: TCP by redirect (SO_ORIGINAL_DST has the destination), UDP
// by tproxy, because after a redirect nothing tells a UDP socket where the
// datagram was going. links are those by which packets come, beside the router's.
func worldRules(services []Service, links ...string) *ruleset {
	rs := &ruleset{}
	tcp := rs.add("any-tcp", &hook{
		typ: nftables.ChainTypeNAT, point: nftables.ChainHookPrerouting,
		priority: nftables.ChainPriorityNATDest, policy: nftables.ChainPolicyAccept,
	})
	udp := rs.add("any-udp", filterHook(nftables.ChainHookPrerouting, nftables.ChainPriorityMangle, nftables.ChainPolicyAccept))
	for _, s := range services {
		if s.Proto == "tcp" {
			tcp.add(s.name(), dport(unix.IPPROTO_TCP, s.Port), back())
		} else {
			udp.add(s.name(), dport(unix.IPPROTO_UDP, s.Port), back())
		}
	}
	for i, link := range append([]string{worldLink}, links...) {
		tcp.add(anyID("any", i), iif(link), l4proto(unix.IPPROTO_TCP), count(), redirectTo(PortAny))
		for _, v4 := range []bool{true, false} {
			id := map[bool]string{true: "any4", false: "any6"}[v4]
			udp.add(anyID(id, i), iif(link), family(v4), l4proto(unix.IPPROTO_UDP), count(), transparentTo(v4, PortAny), accept())
		}
	}
	return rs
}

// anyID tells the rules of the world's links apart; the first has none.
func anyID(id string, link int) string {
	if link == 0 {
		return id
	}
	return id + "-" + strconv.Itoa(link)
}
