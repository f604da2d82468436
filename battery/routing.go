package battery

import (
	"slices"

	"github.com/wallproof/wallproof/battery/boundary"
	"github.com/wallproof/wallproof/policy"
	"github.com/wallproof/wallproof/probes"
)

// Selective routing: a hosts file in the sandbox leads the names that the policy is
// about to the gateway, where the proxy takes their connections; everything else
// goes out directly and unread, but to special addresses, which the packet filter
// refuses. It is wired where the policy asks for it (parts.Named), in the attack.
// The sandbox's hosts file is then its own: root inside can change it, as on the
// platforms that route so.

// hostsFile is what a box's hosts file leads to the gateway.
func (p *phase) hostsFile(box boundary.Box) map[string]string {
	if !p.attacking() || p.r.named == nil {
		return nil
	}
	out := map[string]string{}
	for _, name := range p.r.named {
		out[name] = box.Gateway4.String()
	}
	return out
}

// routing is the routing that the attack's boundary is wired with.
func (r *run) routing() string {
	if r.named != nil {
		return string(policy.RoutingSelective)
	}
	return string(policy.RoutingCatchAll)
}

// led is where a client in a box that follows the hosts file goes for a host: to
// the gateway or to the host's own addresses.
func (p *phase) led(box boundary.Box, host string, own probes.Pair) probes.Pair {
	if !p.attacking() || !slices.Contains(p.r.named, host) {
		return own
	}
	return pair(box.Gateway4, box.Gateway6, 0)
}
