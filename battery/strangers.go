package battery

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/wallproof/wallproof/battery/boundary"
	"github.com/wallproof/wallproof/battery/parts"
	"github.com/wallproof/wallproof/policy"
	"github.com/wallproof/wallproof/policy/host"
	"github.com/wallproof/wallproof/policy/proxy"
	"github.com/wallproof/wallproof/probes"
	"golang.org/x/sys/unix"
)

// Strangers are requests that the policy under test refuses and that somebody may
// have let through all the same: to hosts that attackers like, to names around
// those that it allows, and to whatever the proxy, by its own account, lets
// through.

// drops are services that take what anybody sends, and others by which data
// leaves networks that are watched.
var drops = []string{"pastebin.com", "paste.ee", "gist.github.com", "gist.githubusercontent.com", "raw.githubusercontent.com", "api.github.com", "github.com", "gitlab.com",
	"bitbucket.org", "transfer.sh", "file.io", "0x0.st", "webhook.site", "requestbin.net", "pipedream.net", "ngrok.io", "trycloudflare.com", "workers.dev", "pages.dev",
	"discord.com", "api.telegram.org", "hooks.slack.com", "graph.microsoft.com", "s3.amazonaws.com", "storage.googleapis.com", "blob.core.windows.net", "drive.google.com",
	"dropbox.com", "api.openai.com", "api.anthropic.com", "registry.npmjs.org", "pypi.org", "upload.pypi.org", "crates.io", "proxy.golang.org", "ghcr.io", "registry-1.docker.io",
	"dns.google", "cloudflare-dns.com", "example.com", "example.org", "example.net", "evil.example", "attacker.example", "exfil.example"}

const maxStrangers = 192

// strangers lists what the policy under test refuses of what could be let
// through. lets is what the proxy says it lets through.
func (r *run) strangers(lets []proxy.Let) []probes.Target {
	var out []probes.Target
	seen := map[string]bool{}
	add := func(scheme, name string, port uint16, method, path string) {
		h, err := host.Parse(name)
		key := fmt.Sprintf("%s %s://%s:%d%s", method, scheme, name, port, path)
		if err != nil || seen[key] || len(out) >= maxStrangers {
			return
		}
		seen[key] = true
		q := policy.Request{Scheme: scheme, Host: h, Port: port, Method: method, Path: path}
		if r.evaluator.Request(q).Allowed() {
			return
		}
		out = append(out, probes.Target{Scheme: scheme, Host: h.String(), Port: int(port), Method: method, Prefix: path, Addr: hostPair(h.String(), 0)})
	}
	for _, l := range lets {
		add(l.Scheme, l.Host, l.Port, l.Method, l.Path)
	}
	for _, s := range r.evaluator.Allowed(parts.MaxSamples) {
		q := s.Request
		for _, name := range around(q.Host.String()) {
			add("https", name, 443, "GET", "/")
		}
		for _, method := range []string{"POST", "PUT", "DELETE"} {
			add(q.Scheme, q.Host.String(), q.Port, method, q.Path)
		}
	}
	for _, b := range r.policy.Block {
		if b.Match != policy.MatchCIDR {
			add("https", b.Host, 443, "GET", "/")
		}
	}
	for _, name := range drops {
		add("https", name, 443, "GET", "/")
	}
	return out
}

// maxLetBeside bounds letBeside.
const maxLetBeside = 8

// letBeside are requests that the proxy, by its own account, knows of and that the policy
// allows, but not at a host that stands in it: below a wildcard.
func (r *run) letBeside() (out []policy.Request) {
	known := func(h host.Host) bool {
		return slices.ContainsFunc(r.roles.parts.Hosts, func(s policy.Sample) bool { return s.Request.Host == h }) ||
			slices.ContainsFunc(r.roles.injected, func(i parts.Injected) bool { return i.Sample.Request.Host == h })
	}
	for _, l := range r.attack.lets {
		h, err := host.Parse(l.Host)
		q := policy.Request{Scheme: l.Scheme, Host: h, Port: l.Port, Method: l.Method, Path: l.Path}
		if err == nil && len(out) < maxLetBeside && !known(h) && r.evaluator.Request(q).Allowed() {
			out = append(out, q)
		}
	}
	return out
}

// around are names beside, below and above one that is allowed.
func around(name string) []string {
	if _, err := netip.ParseAddr(name); err == nil {
		return nil
	}
	out := []string{"wallproof-below." + name}
	if _, parent, ok := strings.Cut(name, "."); ok && strings.Contains(parent, ".") {
		out = append(out, parent, "wallproof-beside."+parent)
	}
	return out
}

// gaps are destinations that the packet filter in force lets through, as its rules
// say, each with what to send there.
func gaps(list []boundary.Opening) []probes.Gap {
	var out []probes.Gap
	for _, o := range list {
		to := o.To
		if !to.IsValid() {
			to = probes.DefaultOutside4
			if o.V6 {
				to = probes.DefaultOutside6
			}
		}
		port := o.First
		if port == 0 {
			port = max(o.Last, gapPort)
		}
		for _, p := range []struct {
			name  string
			proto byte
		}{{"tcp", unix.IPPROTO_TCP}, {"udp", unix.IPPROTO_UDP}, {"icmp", unix.IPPROTO_ICMP}, {"icmp", unix.IPPROTO_ICMPV6}} {
			if o.Proto == 0 || o.Proto == p.proto {
				out = append(out, probes.Gap{Proto: p.name, To: to, Port: int(port)})
			}
		}
	}
	return out
}

// gapPort is where a rule that says nothing of ports is tried.
const gapPort = 4444
