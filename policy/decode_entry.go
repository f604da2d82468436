package policy

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/wallproof/wallproof/policy/host"
	"github.com/wallproof/wallproof/policy/internal/strict"
)

// rawEntry collects an entry's keys before they are judged together.
type rawEntry struct {
	entry Entry
	host  *strict.Node
	cidr  *strict.Node
	url   *strict.Node
	exact *strict.Node
}

var entryFields = []field[rawEntry]{
	may("host", func(d *decoder, n *strict.Node, r *rawEntry) *strict.Error { r.host = n; return nil }),
	may("cidr", func(d *decoder, n *strict.Node, r *rawEntry) *strict.Error { r.cidr = n; return nil }),
	may("url", func(d *decoder, n *strict.Node, r *rawEntry) *strict.Error { r.url = n; return nil }),
	may("exact", func(d *decoder, n *strict.Node, r *rawEntry) *strict.Error { r.exact = n; return nil }),
	may("ports", func(d *decoder, n *strict.Node, r *rawEntry) (err *strict.Error) {
		r.entry.Ports, err = d.ports(n)
		return err
	}),
	may("methods", func(d *decoder, n *strict.Node, r *rawEntry) (err *strict.Error) {
		r.entry.Methods, err = d.methods(n)
		return err
	}),
	may("paths", func(d *decoder, n *strict.Node, r *rawEntry) (err *strict.Error) {
		r.entry.Paths, err = d.paths(n)
		return err
	}),
	may("pin", func(d *decoder, n *strict.Node, r *rawEntry) *strict.Error {
		r.entry.Pin = &Pin{Pos: pos(n)}
		return d.pin(n, r.entry.Pin)
	}),
}

// defaultPorts are those of an allow entry or rule that lists none.
func defaultPorts() []PortRange { return []PortRange{{443, 443}} }

var (
	httpsOnly = defaultPorts()
	everyPort = []PortRange{{1, 65535}}
)

func (d *decoder) allowList(n *strict.Node, out *[]Entry) *strict.Error {
	return d.entryList(n, out, true)
}
func (d *decoder) blockList(n *strict.Node, out *[]Entry) *strict.Error {
	return d.entryList(n, out, false)
}

func (d *decoder) entryList(n *strict.Node, out *[]Entry, allow bool) *strict.Error {
	if n.Kind == strict.List && len(n.Items) > 0 && len(n.Items) <= MaxEntries {
		*out = make([]Entry, 0, len(n.Items))
	}
	return d.List(n, MaxEntries, func(n *strict.Node) *strict.Error {
		if d.entries++; d.entries > MaxEntries {
			return d.Fail(n, "the document has more than %d entries", MaxEntries)
		}
		e, err := d.entry(n, allow)
		if err != nil {
			return err
		}
		*out = append(*out, e)
		return nil
	})
}

func (d *decoder) entry(n *strict.Node, allow bool) (Entry, *strict.Error) {
	if n.Kind == strict.Text {
		return Entry{}, d.Fail(n, "an entry is a map, not text; write {host: %q}", n.Text)
	}
	r := rawEntry{entry: Entry{Pos: pos(n)}}
	have, err := strict.DecodeMap(d, n, &r, entryFields)
	if err != nil {
		return Entry{}, err
	}
	kinds := 0
	for _, k := range []*strict.Node{r.host, r.cidr, r.url} {
		if k != nil {
			kinds++
		}
	}
	if kinds != 1 {
		return Entry{}, d.Fail(n, "an entry has exactly one of host, cidr and url; this one has %d", kinds)
	}
	if !allow && r.entry.Pin != nil {
		return Entry{}, d.Fail(n, "a block entry has no pin")
	}
	switch {
	case r.host != nil:
		err = d.hostEntry(&r, allow)
	case r.cidr != nil:
		err = d.cidrEntry(&r)
	default:
		err = d.urlEntry(&r, allow, have)
	}
	if err != nil {
		return Entry{}, err
	}
	switch {
	case allow && r.entry.Ports == nil:
		r.entry.Ports = httpsOnly
	case !allow && slices.Equal(r.entry.Ports, everyPort):
		r.entry.Ports = nil
	}
	return r.entry, nil
}

func (d *decoder) hostEntry(r *rawEntry, allow bool) *strict.Error {
	d.Push("host")
	p, err := d.pattern(r.host)
	if err != nil {
		return err
	}
	d.Pop()
	e := &r.entry
	exact, err := d.exact(r, allow, p)
	if err != nil {
		return err
	}
	switch {
	case p.Host.IsAddr():
		e.Match, e.Prefix = MatchCIDR, single(p.Host.Addr())
		return nil
	case p.Subdomains:
		e.Match = MatchSubdomains
	case allow || exact:
		e.Match = MatchExact
	default:
		e.Match = MatchTree
	}
	e.Host = p.Host.Name()
	if allow && e.Match == MatchSubdomains && host.NameClass(e.Host) != host.ClassPublic {
		d.Push("host")
		return d.Fail(r.host, "names below %s are denied unless each is named exactly", e.Host)
	}
	return nil
}

// exact reads the key exact, which only a block entry for one name takes.
func (d *decoder) exact(r *rawEntry, allow bool, p host.Pattern) (bool, *strict.Error) {
	if r.exact == nil {
		return false, nil
	}
	d.Push("exact")
	v, err := d.Boolean(r.exact)
	switch {
	case err != nil:
		return false, err
	case allow:
		return false, d.Fail(r.exact, "an allow entry for a host is exact already; write \"*.\" in front for its subdomains")
	case p.Subdomains || p.Host.IsAddr():
		return false, d.Fail(r.exact, "exact goes with the name of one host")
	}
	d.Pop()
	return v, nil
}

func (d *decoder) cidrEntry(r *rawEntry) *strict.Error {
	d.Push("cidr")
	s, err := d.Text(r.cidr)
	if err != nil {
		return err
	}
	prefix, why := parsePrefix(s)
	if why != "" {
		return d.Fail(r.cidr, "%.64q %s", s, why)
	}
	if r.exact != nil {
		return d.Fail(r.exact, "exact goes with the name of one host")
	}
	d.Pop()
	r.entry.Match, r.entry.Prefix = MatchCIDR, prefix
	return nil
}

// parsePrefix reads a range of addresses, or one address.
func parsePrefix(s string) (_ netip.Prefix, why string) {
	if a, err := netip.ParseAddr(s); err == nil {
		if a.Zone() != "" {
			return netip.Prefix{}, "has a zone id, which means nothing here"
		}
		return single(a.Unmap()), ""
	}
	p, err := netip.ParsePrefix(s)
	if err != nil {
		return netip.Prefix{}, "is not a range of addresses such as 10.0.0.0/8 or 2001:db8::/32"
	}
	if p.Addr().Is4In6() {
		if p.Bits() < 96 {
			return netip.Prefix{}, "is wider than the IPv4-mapped addresses; write the IPv4 range"
		}
		p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
	}
	if p != p.Masked() {
		return netip.Prefix{}, fmt.Sprintf("has bits set beyond its length; write %s", p.Masked())
	}
	return p, ""
}

func single(a netip.Addr) netip.Prefix { return netip.PrefixFrom(a, a.BitLen()) }

func (d *decoder) urlEntry(r *rawEntry, allow bool, have strict.Keys) *strict.Error {
	for _, key := range []string{"ports", "paths", "exact"} {
		if strict.Has(have, entryFields, key) {
			return d.Fail(r.url, "url says host, port and path already; %s does not go with it", key)
		}
	}
	d.Push("url")
	s, err := d.Text(r.url)
	if err != nil {
		return err
	}
	if strings.ContainsAny(s, "?#") {
		return d.Fail(r.url, "a URL prefix has no query and no fragment")
	}
	u, uerr := host.ParseURL(s)
	if uerr != nil {
		return d.Fail(r.url, "%v", uerr)
	}
	path, err := d.pathPrefix(r.url, u.Path)
	if err != nil {
		return err
	}
	d.Pop()
	e := &r.entry
	if u.Host.IsAddr() {
		e.Match, e.Prefix = MatchCIDR, single(u.Host.Addr())
	} else {
		e.Match, e.Host = MatchExact, u.Host.Name()
	}
	if path != "/" {
		e.Paths = []string{path}
	}
	// A blocked URL is blocked in both schemes and at every port, unless it
	// names a port of its own.
	if allow || u.Port != host.DefaultPort(u.Scheme) {
		e.Ports = []PortRange{{u.Port, u.Port}}
	}
	return nil
}

func (d *decoder) pattern(n *strict.Node) (host.Pattern, *strict.Error) {
	s, err := d.Text(n)
	if err != nil {
		return host.Pattern{}, err
	}
	p, perr := host.ParsePattern(s)
	if perr != nil {
		if strings.Contains(s, "://") {
			return host.Pattern{}, d.Fail(n, "%.64q is a URL; use the key url", s)
		}
		if strings.Contains(s, "/") {
			return host.Pattern{}, d.Fail(n, "%.64q is no host; use cidr for a range of addresses, url for a path", s)
		}
		return host.Pattern{}, d.Fail(n, "%.64q: %v", s, perr)
	}
	if p.Host.Name() == reservedName || strings.HasSuffix(p.Host.Name(), "."+reservedName) {
		return host.Pattern{}, d.Fail(n, "names below %s belong to the proxy itself", reservedName)
	}
	return p, nil
}

// reservedName is the name below which the proxy answers itself.
const reservedName = "wallproof.internal"

// ports reads ports and ranges of ports, and merges them.
func (d *decoder) ports(n *strict.Node) ([]PortRange, *strict.Error) {
	var out []PortRange
	err := d.FullList(n, MaxPorts, func(n *strict.Node) *strict.Error {
		if n.Kind == strict.Int {
			v, err := d.Integer(n, 1, 65535)
			out = append(out, PortRange{uint16(v), uint16(v)})
			return err
		}
		s, err := d.Text(n)
		if err != nil {
			return err
		}
		from, to, dash := strings.Cut(s, "-")
		if !dash {
			to = from
		}
		lo, ok1 := host.ParsePort(from)
		hi, ok2 := host.ParsePort(to)
		if !ok1 || !ok2 || lo > hi {
			return d.Fail(n, "%.32q is not a port or a range of ports such as \"8000-8100\"", s)
		}
		out = append(out, PortRange{lo, hi})
		return nil
	})
	return mergePorts(out), err
}

// mergePorts sorts ranges and joins those that touch.
func mergePorts(in []PortRange) []PortRange {
	slices.SortFunc(in, func(a, b PortRange) int { return int(a.From) - int(b.From) })
	out := in[:0]
	for _, r := range in {
		if k := len(out); k > 0 && int(r.From) <= int(out[k-1].To)+1 {
			out[k-1].To = max(out[k-1].To, r.To)
			continue
		}
		out = append(out, r)
	}
	return out
}

func (d *decoder) methods(n *strict.Node) ([]string, *strict.Error) {
	var out []string
	err := d.FullList(n, MaxMethods, func(n *strict.Node) *strict.Error {
		s, err := d.Word(n, isMethod, "an HTTP method such as GET")
		out = append(out, strings.ToUpper(s))
		return err
	})
	slices.Sort(out)
	return slices.Compact(out), err
}

func (d *decoder) paths(n *strict.Node) ([]string, *strict.Error) {
	var out []string
	whole := false
	err := d.FullList(n, MaxPaths, func(n *strict.Node) *strict.Error {
		s, err := d.Text(n)
		if err != nil {
			return err
		}
		p, err := d.pathPrefix(n, s)
		whole = whole || p == "/"
		out = append(out, p)
		return err
	})
	if err != nil || whole {
		return nil, err
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// pathPrefix reads one path prefix.
func (d *decoder) pathPrefix(n *strict.Node, s string) (string, *strict.Error) {
	if prefix, ok := strings.CutSuffix(s, "/*"); ok && !strings.Contains(prefix, "*") {
		return "", d.Fail(n, "a path covers everything below it; write %.64q", max(prefix, "/"))
	}
	if strings.ContainsAny(s, "*?#") {
		return "", d.Fail(n, "%.64q is not a plain path: it has *, ? or #", s)
	}
	p, err := host.CleanPath(s)
	if err != nil {
		return "", d.Fail(n, "%.64q: %v", s, err)
	}
	if p != "/" && string(host.FoldPath(nil, p)) == "/" {
		return "", d.Fail(n, "%.64q has nothing but parameters, dots and spaces, which servers ignore", s)
	}
	return p, nil
}

var pinFields = []field[Pin]{
	may("digests", func(d *decoder, n *strict.Node, p *Pin) (err *strict.Error) {
		p.Digests, err = d.Words(n, MaxDigests, isDigest, "a digest such as sha256:<64 hex digits> or h1:<base64>")
		slices.Sort(p.Digests)
		return err
	}),
	may("lockfile", func(d *decoder, n *strict.Node, p *Pin) (err *strict.Error) {
		p.Lockfile, err = d.Text(n)
		return err
	}),
	may("artefacts", func(d *decoder, n *strict.Node, p *Pin) (err *strict.Error) {
		p.Artefacts, err = d.Words(n, MaxMethods, isEnding, "the ending of a path such as \".tgz\"")
		slices.Sort(p.Artefacts)
		return err
	}),
}

func (d *decoder) pin(n *strict.Node, p *Pin) *strict.Error {
	if _, err := strict.DecodeMap(d, n, p, pinFields); err != nil {
		return err
	}
	if p.Digests == nil && p.Lockfile == "" {
		return d.Fail(n, "a pin has digests, a lockfile, or both")
	}
	return nil
}
