package boundary

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/wallproof/wallproof/internal/procs"
)

const procNet = "/proc/sys/net/"

// sysctl is one kernel setting of a network namespace.
type sysctl struct {
	key, value string
	// optional: older kernels have the setting for the whole machine only, so it
	// is not there in a namespace.
	optional bool
}

// setSysctls writes settings inside a namespace.
func setSysctls(ns *namespace, all []sysctl) error {
	return procs.DoIn(ns.path(), func() error {
		for _, s := range all {
			err := os.WriteFile(procNet+s.key, []byte(s.value), 0)
			if err != nil && !(s.optional && errors.Is(err, fs.ErrNotExist)) {
				return fmt.Errorf("set net.%s in %s: %w", s.key, ns.name, err)
			}
		}
		return nil
	})
}

// readSysctl reads a setting inside a namespace, without its newline.
func readSysctl(ns *namespace, key string) (string, error) {
	var b []byte
	err := procs.DoIn(ns.path(), func() error {
		var err error
		b, err = os.ReadFile(procNet + key)
		return err
	})
	if err != nil {
		return "", fmt.Errorf("read net.%s in %s: %w", key, ns.name, err)
	}
	return string(trimNewline(b)), nil
}

func trimNewline(b []byte) []byte {
	for len(b) > 0 && b[len(b)-1] == '\n' {
		b = b[:len(b)-1]
	}
	return b
}

// ipv6Missing says why this machine cannot have IPv6 in a namespace, "" when it
// can. It looks at the kernel, not at whether the host itself uses IPv6: a host
// with net.ipv6.conf.all.disable_ipv6=1 still has it in new namespaces.
func ipv6Missing() string {
	_, err := os.Stat(procNet + "ipv6/conf/all/disable_ipv6")
	switch {
	case err == nil:
		return ""
	case errors.Is(err, fs.ErrNotExist):
		return "the kernel has no IPv6 (booted with ipv6.disable=1, or built without)"
	}
	return "the kernel's IPv6 settings cannot be read: " + err.Error()
}

// quiet are the settings of every namespace: addresses are usable at once
// (no duplicate detection), nothing is learned from the network, and an address
// is answered for only on the link that has it.
func quiet(v6 bool) []sysctl {
	s := []sysctl{
		{key: "ipv4/conf/all/accept_redirects", value: "0"},
		{key: "ipv4/conf/default/accept_redirects", value: "0"},
		{key: "ipv4/conf/all/send_redirects", value: "0"},
		{key: "ipv4/conf/default/send_redirects", value: "0"},
		{key: "ipv4/conf/all/accept_source_route", value: "0"},
		{key: "ipv4/conf/default/accept_source_route", value: "0"},
		{key: "ipv4/conf/all/arp_ignore", value: "2"},
		{key: "ipv4/conf/default/arp_ignore", value: "2"},
		{key: "ipv4/conf/all/arp_announce", value: "2"},
		{key: "ipv4/conf/default/arp_announce", value: "2"},
		{key: "ipv4/conf/all/proxy_arp", value: "0"},
		{key: "ipv4/conf/default/proxy_arp", value: "0"},
	}
	if !v6 {
		return append(s,
			sysctl{key: "ipv6/conf/all/disable_ipv6", value: "1", optional: true},
			sysctl{key: "ipv6/conf/default/disable_ipv6", value: "1", optional: true})
	}
	for _, scope := range []string{"all", "default"} {
		for _, kv := range [][2]string{
			{"disable_ipv6", "0"}, {"accept_dad", "0"}, {"dad_transmits", "0"}, {"accept_ra", "0"}, {"autoconf", "0"},
			{"accept_redirects", "0"}, {"router_solicitations", "0"}, {"proxy_ndp", "0"},
		} {
			s = append(s, sysctl{key: "ipv6/conf/" + scope + "/" + kv[0], value: kv[1]})
		}
	}
	return s
}

// forwarding turns forwarding on or off.
func forwarding(v4, v6, hasV6 bool) []sysctl {
	s := []sysctl{{key: "ipv4/ip_forward", value: flag(v4)}}
	if hasV6 {
		s = append(s, sysctl{key: "ipv6/conf/all/forwarding", value: flag(v6)}, sysctl{key: "ipv6/conf/default/forwarding", value: flag(v6)})
	}
	return s
}

func flag(b bool) string {
	if b {
		return "1"
	}
	return "0"
}

// promptErrors lifts every limit on ICMP errors, so that each refused packet is
// answered however many there are: by default the kernel sends at most one a
// second and destination of each kind (v4), ten (v6), and 1000 in all.
func promptErrors(v6 bool) []sysctl {
	s := []sysctl{
		{key: "ipv4/icmp_ratemask", value: "0"},
		{key: "ipv4/icmp_ratelimit", value: "0"},
		// Of a namespace since Linux 6.12; before, IPv6 stays under the machine's
		// own limit, and IPv4 is exempt by the mask.
		{key: "ipv4/icmp_msgs_per_sec", value: "1000000", optional: true},
		{key: "ipv4/icmp_msgs_burst", value: "1000000", optional: true},
	}
	if v6 {
		// Bit 0 is a reserved type: a mask without any bit cannot be written.
		s = append(s, sysctl{key: "ipv6/icmp/ratelimit", value: "0"}, sysctl{key: "ipv6/icmp/ratemask", value: "0"})
	}
	return s
}

func routerSysctls(cfg *Config, v6 bool) []sysctl {
	fwd4, fwd6 := cfg.forwarding()
	s := append(quiet(v6), promptErrors(v6)...)
	// The filter has the word on sources, and says it aloud; the kernel's own
	// check would drop in silence. In the open mode a spoofed source must arrive.
	s = append(s,
		sysctl{key: "ipv4/conf/all/rp_filter", value: "0"},
		sysctl{key: "ipv4/conf/default/rp_filter", value: "0"})
	return append(s, forwarding(fwd4, fwd6, v6)...)
}

func boxSysctls(v6 bool) []sysctl { return append(quiet(v6), forwarding(false, false, v6)...) }

// searches are the settings of a box's link: an address of its segment that nobody has
// is given up after three questions in 300 ms, not in three seconds. (A runtime with a
// network stack of its own asks at its own pace.)
func searches(v6 bool) []sysctl {
	s := []sysctl{{key: "ipv4/neigh/" + boxLink + "/retrans_time_ms", value: "100"}}
	if v6 {
		s = append(s, sysctl{key: "ipv6/neigh/" + boxLink + "/retrans_time_ms", value: "100"})
	}
	return s
}

// standsIn are the settings of a link on which the router answers for everybody beyond
// it, at once.
func standsIn(link string, v6 bool) []sysctl {
	s := []sysctl{
		{key: "ipv4/conf/" + link + "/proxy_arp", value: "1"},
		{key: "ipv4/neigh/" + link + "/proxy_delay", value: "0"},
	}
	if v6 {
		s = append(s, sysctl{key: "ipv6/conf/" + link + "/proxy_ndp", value: "1"}, sysctl{key: "ipv6/neigh/" + link + "/proxy_delay", value: "0"})
	}
	return s
}

// worldSysctls: a packet with any source is taken, and any port may be bound and
// any IPv6 source be named, so that an unprivileged witness can answer as
// anybody. (Every IPv4 address is the world's own by answerEverywhere.)
func worldSysctls(v6 bool) []sysctl {
	s := append(quiet(v6), promptErrors(v6)...)
	s = append(s,
		sysctl{key: "ipv4/conf/all/rp_filter", value: "0"},
		sysctl{key: "ipv4/conf/default/rp_filter", value: "0"},
		sysctl{key: "ipv4/conf/all/accept_local", value: "1"},
		sysctl{key: "ipv4/conf/default/accept_local", value: "1"},
		sysctl{key: "ipv4/ip_unprivileged_port_start", value: "0"})
	if v6 {
		s = append(s, sysctl{key: "ipv6/ip_nonlocal_bind", value: "1"})
	}
	return append(s, forwarding(false, false, v6)...)
}
