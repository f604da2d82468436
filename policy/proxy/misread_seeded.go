//go:build breaks

package proxy

import (
	"context"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/miekg/dns"
	"golang.org/x/net/idna"

	"github.com/wallproof/wallproof/policy"
	"github.com/wallproof/wallproof/policy/host"
	"github.com/wallproof/wallproof/policy/proxy/httpx"
)

// A proxy that leaves out one step of normalisation judges a host as it is
// written and dials what is meant. The two readings are modelled here: what a
// checker sees that compares texts, and where a dialler then goes.

// normalisations are the steps that SkipNormalisation can leave out.
var normalisations = []string{"case", "trailing-dot", "percent", "white-space", "nul", "userinfo", "backslash", "idn",
	"ipv4-spelling", "mapped", "translated", "nat64", "6to4", "teredo", "isatap"}

// nameMatches are wrong ways to compare a name with an allowed one.
var nameMatches = []string{"suffix", "prefix", "contains", "below", "any-dot"}

// waived are the targets that a wrong reading has let through. A proxy is one
// process.
var waived sync.Map

func (b Breaks) waives(t target) bool {
	_, ok := waived.Load(t)
	return ok || b.nameMatches(t)
}

// nameMatches compares a name wrongly with the entries of the policy.
func (b Breaks) nameMatches(t target) bool {
	if b.NameMatch == "" || t.host.IsAddr() {
		return false
	}
	name := t.host.Name()
	for _, allowed := range b.allowedNames() {
		switch b.NameMatch {
		case "suffix":
			if strings.HasSuffix(name, allowed) {
				return true
			}
		case "prefix":
			if strings.HasPrefix(name, allowed) {
				return true
			}
		case "contains":
			if strings.Contains(name, allowed) {
				return true
			}
		case "below":
			if strings.HasSuffix(name, "."+allowed) {
				return true
			}
		case "any-dot": // a pattern in which the dots are not escaped
			if len(name) >= len(allowed) && anyDot(name[:len(allowed)], allowed) {
				return true
			}
		}
	}
	return false
}

func anyDot(name, pattern string) bool {
	for i := range pattern {
		if pattern[i] != '.' && pattern[i] != name[i] {
			return false
		}
	}
	return true
}

// current are the rules of the one proxy of this process.
var current sync.Map

func (b Breaks) remember(r *rules) { current.Store("rules", r) }

func (b Breaks) allowedNames() []string {
	v, ok := current.Load("rules")
	if !ok {
		return nil
	}
	var out []string
	for _, s := range v.(*rules).ev.Allowed(256) {
		entry, _, _ := strings.Cut(strings.TrimPrefix(s.Entry, "*."), "/")
		entry, _, _ = strings.Cut(entry, ":")
		out = append(out, entry)
	}
	return out
}

func (b Breaks) defaultAllows() bool {
	v, ok := current.Load("rules")
	return ok && v.(*rules).ev.Mode().DefaultAllows()
}

// readAuthority is parseAuthority with one step left out.
func (b Breaks) readAuthority(s string, def uint16) (target, error) {
	t, err := parseAuthority(s, def)
	if b.SkipNormalisation == "" {
		return t, err
	}
	name, port := s, def
	if i := strings.LastIndexByte(s, ':'); i >= 0 && !strings.HasSuffix(s, "]") {
		p, perr := parsePort(s[i+1:])
		if perr != nil {
			return t, err
		}
		name, port = s[:i], p
	}
	if port == 0 {
		return t, err
	}
	meant, seen := b.readings(name)
	if !seen {
		return t, err
	}
	h, perr := host.Parse(meant)
	if perr != nil {
		return t, err
	}
	t = target{h, port}
	waived.Store(t, true)
	return t, nil
}

// ignoresLater reports whether a request that follows on a connection is not
// compared with what the connection is for.
func (b Breaks) ignoresLater(q *request) bool { return b.OnlyFirstRequest && q.later }

// dialsHost notes a target that is dialled because a Host field says so.
func (b Breaks) dialsHost(t target) { waived.Store(t, true) }

// absoluteLater reports whether a request is one that follows on a connection and
// is taken for a proxy's own.
func (b Breaks) absoluteLater(x *session, req *httpx.Request) bool {
	return b.OnlyFirstRequest && x.served && req.Target[0] != '/'
}

// readHost is host.Parse with one step left out.
func (b Breaks) readHost(s string) (host.Host, error) {
	h, err := host.Parse(s)
	if b.SkipNormalisation == "" {
		return h, err
	}
	meant, through := b.readings(s)
	if !through {
		return h, err
	}
	other, perr := host.Parse(meant)
	if perr != nil {
		return h, err
	}
	for _, port := range []uint16{80, 443} {
		waived.Store(target{other, port}, true)
	}
	return other, nil
}

// readings returns where a name leads, and whether a checker that lacks the step
// lets it through.
func (b Breaks) readings(name string) (meant string, through bool) {
	looks := func(shown string) bool { return b.defaultAllows() || b.looksAllowed(shown) }
	cutAt := func(chars string) (string, bool) {
		i := strings.IndexAny(name, chars)
		if i <= 0 {
			return "", false
		}
		return name[:i], looks(name)
	}
	switch b.SkipNormalisation {
	case "case":
		return strings.ToLower(name), strings.ToLower(name) != name && b.defaultAllows()
	case "trailing-dot":
		return strings.TrimSuffix(name, "."), strings.HasSuffix(name, ".") && b.defaultAllows()
	case "percent":
		plain, err := url.PathUnescape(name)
		if err != nil || plain == name {
			return "", false
		}
		if i := strings.IndexAny(plain, "\x00/?#@ \t"); i > 0 {
			plain = plain[:i]
		}
		return plain, looks(name) || !strings.Contains(name, ".")
	case "white-space":
		return cutAt("\t\v\f ")
	case "nul":
		return cutAt("\x00")
	case "backslash":
		return cutAt(`\`)
	case "userinfo":
		before, after, ok := strings.Cut(name, "@")
		if !ok {
			return "", false
		}
		before, _, _ = strings.Cut(before, ":")
		return after, looks(before)
	case "idn":
		ascii, err := idna.Punycode.ToASCII(name)
		if err != nil || !strings.Contains(ascii, "xn--") {
			return "", false
		}
		return ascii, looks(skeleton(name))
	case "ipv4-spelling":
		h, err := host.Parse(name)
		if err != nil || !h.IsAddr() || !h.Addr().Is4() || h.String() == name {
			return "", false
		}
		return h.String(), b.defaultAllows()
	}
	a, err := netip.ParseAddr(strings.Trim(name, "[]"))
	if err != nil {
		return "", false
	}
	return a.Unmap().String(), b.overlooks(a) && b.defaultAllows()
}

// looksAllowed compares a text with the policy's names, at either end.
func (b Breaks) looksAllowed(text string) bool {
	for _, allowed := range b.allowedNames() {
		if text == allowed || strings.HasSuffix(text, "."+allowed) || strings.HasSuffix(text, allowed) {
			return true
		}
	}
	return false
}

// skeleton writes letters of other scripts as the ones that they look like, of
// an ASCII form, too.
func skeleton(name string) string {
	if u, err := idna.Punycode.ToUnicode(name); err == nil {
		name = u
	}
	return strings.NewReplacer("\u0430", "a", "\u0441", "c", "\u0435", "e", "\u043e", "o", "\u0440", "p", "\u0445", "x", "\u0443", "y", "\u0456", "i").Replace(name)
}

// overlooks reports whether the step that is left out is the one that would see
// the IPv4 address in a.
func (b Breaks) overlooks(a netip.Addr) bool {
	if b.SkipNormalisation == "mapped" {
		return a.Is4In6()
	}
	return b.SkipNormalisation != "" && host.Classify(a).Form == b.SkipNormalisation
}

// opened reports whether an address lies in the range that the gate leaves open.
func (b Breaks) opened(a netip.Addr) bool {
	if b.overlooks(a) {
		return true
	}
	p, err := netip.ParsePrefix(b.OpenRange)
	return err == nil && p.Contains(a.Unmap())
}

// again looks a name up a second time, after its addresses were judged.
func (b Breaks) again(ctx context.Context, s *Server, t target, judged []netip.AddrPort) []netip.AddrPort {
	if !b.ResolveTwice || t.host.IsAddr() {
		return judged
	}
	var out []netip.AddrPort
	for _, kind := range []uint16{dns.TypeA, dns.TypeAAAA} {
		m, err := s.resolver.Exchange(ctx, t.host.Name(), kind)
		if err != nil {
			continue
		}
		for _, rr := range m.Answer {
			var raw []byte
			switch rr := rr.(type) {
			case *dns.A:
				raw = rr.A.To4()
			case *dns.AAAA:
				raw = rr.AAAA
			}
			if a, ok := netip.AddrFromSlice(raw); ok {
				out = append(out, netip.AddrPortFrom(a, t.port))
			}
		}
	}
	if len(out) == 0 {
		return judged
	}
	return out
}

// maxHops bounds the redirects that are followed.
const maxHops = 3

// follow follows redirects inside the proxy, past its gates, with the
// credentials of the first request ("keep") or without them ("strip").
func (b Breaks) follow(ctx context.Context, o *origin, r *rules, q *request, resp *response) (*response, *refusal) {
	for range maxHops {
		if b.FollowRedirects == "" || resp.status/100 != 3 || !resp.header.Has("Location") {
			return resp, nil
		}
		u, err := url.Parse(resp.header.Get("Location"))
		if err != nil || u.Host == "" {
			return resp, nil
		}
		t, err := parseAuthority(u.Host, defaultPort(u.Scheme))
		if err != nil {
			return resp, nil
		}
		resp.release(false)
		waived.Store(t, true)
		next := *q
		next.target, next.claimed, next.scheme = t, target{}, u.Scheme
		next.path, next.query, next.hasQuery = u.EscapedPath(), u.RawQuery, u.RawQuery != ""
		next.header = slices.Clone(q.header)
		if b.FollowRedirects == "strip" {
			next.header.Del("Authorization")
			next.header.Del("X-Api-Key")
		}
		var ref *refusal
		if resp, ref = o.roundTrip1(ctx, r, &next); ref != nil {
			return nil, ref
		}
	}
	return resp, nil
}

// page is a page of the proxy's own, with what it holds; false when the request
// is not for it.
func (b Breaks) page(x *session, req *httpx.Request) bool {
	path, _, _ := strings.Cut(req.Target, "?")
	if b.AdminPage == "" || path != b.AdminPage {
		return false
	}
	var text strings.Builder
	for name, sec := range x.o.s.rules.Load().secrets {
		fmt.Fprintf(&text, "%s=%s\n", name, sec.value)
	}
	fmt.Fprintf(x.bw, "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", text.Len(), text.String())
	_ = x.bw.Flush()
	return true
}

// unpoliced reports whether a request is one that the first gate does not look at.
func (b Breaks) unpoliced(o *origin, q *request, d policy.Decision) bool {
	switch {
	case b.waives(q.target), b.listenerOpen(o.c), b.portOpen(q.target):
		return true
	case q.host.IsAddr() && b.opened(q.host.Addr()):
		return true
	case b.NoMethodGate && d.Reason == policy.ReasonMethod:
		return true
	case b.NoPathGate && (d.Reason == policy.ReasonPath || d.Reason == policy.ReasonBlockEntry || d.Reason == policy.ReasonAmbiguousPath):
		return true
	case b.OnlyFirstRequest && q.later, b.WebSocketUnpoliced && q.websocket, b.ExpectUnpoliced && q.expect != nil:
		waived.Store(q.target, true) // and dialled
		return true
	case b.SkipPathStep != "":
		return d.Reason != "" && b.pathMissed(o, q, d)
	}
	return false
}

// pathSteps are the steps of reading a path that SkipPathStep can leave out.
var pathSteps = []string{"dots", "percent", "slashes", "parameters", "case", "backslash"}

// pathMissed reports whether a path is refused only because of the step.
func (b Breaks) pathMissed(o *origin, q *request, d policy.Decision) bool {
	if d.Reason != policy.ReasonBlockEntry && d.Reason != policy.ReasonAmbiguousPath {
		return false
	}
	sent := q.sent
	switch b.SkipPathStep {
	case "dots":
		return strings.Contains(sent, "/.")
	case "percent":
		return strings.Contains(sent, "%")
	case "slashes":
		return strings.Contains(sent, "//")
	case "parameters":
		return strings.Contains(sent, ";")
	case "case":
		return strings.ToLower(sent) != sent
	case "backslash":
		return strings.Contains(sent, `\`)
	}
	return false
}

func (b Breaks) listenerOpen(c *conn) bool {
	return b.UnpolicedListener != "" && c != nil && string(c.kind) == b.UnpolicedListener
}

func (b Breaks) portOpen(t target) bool { return b.UnpolicedPort != 0 && t.port == b.UnpolicedPort }

// gateOpen reports whether the first gate lets a target through that it should
// not.
func (b Breaks) gateOpen(t target) bool {
	return b.waives(t) || b.portOpen(t) || t.host.IsAddr() && b.opened(t.host.Addr())
}

// believedField notes that a request had the field that is believed.
const believedField = "X-Seeded-Believed"

// believed puts the neighbour's secrets where it is its turn: in the place of its
// placeholders, or because a field of the request says that it is the neighbour.
func (b Breaks) believed(r *rules, q *request, rule *policy.Rule) {
	for _, sec := range b.Neighbour {
		for i := range q.header {
			if b.NeighbourHeader == "" {
				q.header[i].Value = strings.ReplaceAll(q.header[i].Value, sec.Placeholder, sec.Value)
			}
		}
		if b.NeighbourHeader == "" || !q.header.Has(b.NeighbourHeader) && !q.header.Has(believedField) || rule == nil {
			continue
		}
		for i := range rule.Set {
			if set := &rule.Set[i]; set.Secret == sec.Name && set.Header != "" {
				q.header.Set(set.Header, headerValue(set, sec.Value))
			}
		}
	}
}

// opens are the ranges that the second gate does not look at.
func (b Breaks) opens() []string {
	if b.OpenRange == "" {
		return nil
	}
	return []string{b.OpenRange}
}

// ownLets are requests that are let through whatever the policy says.
func (b Breaks) ownLets() []Let {
	if b.UnpolicedPort == 0 {
		return nil
	}
	const anybody = "anybody.wallproof-attacker.example"
	return []Let{{"https", anybody, b.UnpolicedPort, "GET", "/"}, {"http", anybody, b.UnpolicedPort, "GET", "/"}}
}

// ownPages are the paths of the proxy's own pages.
func (b Breaks) ownPages() []string {
	if b.AdminPage == "" {
		return nil
	}
	return []string{b.AdminPage}
}

// believedFields are the fields that tell the proxy whose request it is.
func (b Breaks) believedFields() []string {
	if b.NeighbourHeader == "" {
		return nil
	}
	return []string{b.NeighbourHeader}
}

// Any reports whether anything is switched off.
func (b Breaks) Any() bool { return b.set() > 0 }

// Check says what is wrong: a break is one hole, and its words are known ones.
func (b Breaks) Check() error {
	if n := b.set(); n > 1 {
		return fmt.Errorf("a break is one switch, not %d", n)
	}
	for _, w := range []struct {
		name, value string
		known       []string
	}{
		{"skipNormalisation", b.SkipNormalisation, normalisations}, {"nameMatch", b.NameMatch, nameMatches}, {"skipPathStep", b.SkipPathStep, pathSteps},
		{"followRedirects", b.FollowRedirects, []string{"keep", "strip"}},
		{"unpolicedListener", b.UnpolicedListener, []string{string(KindExplicit), string(KindSOCKS), string(KindTransparent)}},
		{"skipEncoding", b.SkipEncoding, []string{"raw", "base64", "hex", "percent", "json", "html", "encoded", "headers", "chunks", "trailers", "errors"}},
	} {
		if w.value != "" && !slices.Contains(w.known, w.value) {
			return fmt.Errorf("%s: %q is none of %s", w.name, w.value, strings.Join(w.known, ", "))
		}
	}
	if b.OpenRange != "" {
		if _, err := netip.ParsePrefix(b.OpenRange); err != nil {
			return fmt.Errorf("openRange: %w", err)
		}
	}
	return nil
}
