package review

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/net/publicsuffix"

	"github.com/wallproof/wallproof/policy"
	"github.com/wallproof/wallproof/policy/host"
)

// Lint returns findings in the order of the document. The error is that of
// policy.Compile: a policy that cannot be enforced has no findings.
func Lint(p *policy.Policy) ([]Finding, error) {
	e, err := policy.Compile(p)
	if err != nil {
		return nil, err
	}
	l := &linter{policy: p, eval: e}
	for _, phase := range phases {
		l.entries(phase)
	}
	l.secrets()
	l.brokers()
	l.environment()
	l.whole()
	slices.SortStableFunc(l.findings, func(a, b Finding) int { return cmp.Compare(a.Line, b.Line) })
	return l.findings, nil
}

type linter struct {
	policy   *policy.Policy
	eval     *policy.Evaluator
	phase    policy.Phase
	findings []Finding
}

func (l *linter) report(level Level, code Code, entry string, line int, format string, args ...any) {
	l.findings = append(l.findings, Finding{level, code, l.phase, entry, line, fmt.Sprintf(format, args...)})
}

func (l *linter) entries(phase policy.Phase) {
	pp := l.policy.Phase(phase)
	l.phase = phase
	t := newTable(pp)
	for i := range t.items {
		x := &t.items[i]
		if x.Pack != "" {
			continue
		}
		if !l.useless(t, x, pp.Mode) {
			l.broad(x)
		}
		l.apex(t, x)
	}
	l.phase = ""
}

// name writes an item as decisions name it.
func (x *item) name() string {
	if x.path == "/" {
		return x.Subject()
	}
	return x.Subject() + x.path
}

func (x *item) where() string {
	if x.Pack != "" {
		return fmt.Sprintf("%s of the pack %s", x.name(), x.Pack)
	}
	return fmt.Sprintf("%s (line %d)", x.name(), x.Pos.Line)
}

// useless reports an entry without which every decision would be the same. It
// goes through the entries that would decide in its place, from the most specific
// on, until one of them differs.
func (l *linter) useless(t *table, x *item, mode policy.Mode) bool {
	for _, r := range l.inOrder(t, x) {
		meet, all := r.meets(x)
		if !meet || r.y == x {
			continue
		}
		equal := r.level == 0 && r.equalPath && sameMatch(x, r.y)
		switch {
		case r.y.allow != x.allow && x.allow && equal && all:
			l.report(Warning, CodeDead, x.name(), x.Pos.Line, "at equal specificity the block entry %s wins, so this entry never allows anything; remove one of them", r.y.where())
			return true
		case r.y.allow != x.allow && x.allow && equal:
			// The block entry wins where both match, so this one changes nothing there.
		case r.y.allow != x.allow:
			return false
		case all && (!equal || r.y.order < x.order || r.y.Pack != "" || !mutual(x, r.y)):
			if !samePin(x, r.y) {
				return false
			}
			l.report(Warning, CodeShadowed, x.name(), x.Pos.Line, "the wider entry %s already says the same; remove this one, or block what it was meant to exclude", r.y.where())
			return true
		}
	}
	if matters(x) || x.allow != mode.DefaultAllows() {
		return false
	}
	verb := "denies"
	if x.allow {
		verb = "allows"
	}
	l.report(Warning, CodeNoEffect, x.name(), x.Pos.Line, "mode %s %s this anyway, and no other entry says otherwise; remove it", mode, verb)
	return true
}

// matters reports an entry that does something whatever the mode says: it is
// pinned, opens what every mode denies, or closes a range to names that resolve
// into it.
func matters(x *item) bool {
	switch {
	case x.Pin != nil:
		return true
	case x.Match == policy.MatchCIDR:
		public := host.Classify(x.Prefix.Addr()).Class == host.ClassPublic
		return x.allow != public
	}
	return x.allow && host.NameClass(x.Host) != host.ClassPublic
}

// neighbour is an entry of equal or lower specificity than another.
type neighbour struct {
	y         *item
	level     int
	equalPath bool
	hosts     bool // shares hosts
	allHosts  bool // covers all of them
}

func (r *neighbour) meets(x *item) (meet, all bool) {
	ports, allPorts := portsMeet(x.Ports, r.y.Ports)
	methods, allMethods := methodsMeet(x.Methods, r.y.Methods)
	paths, allPaths := pathsMeet(x, r.y)
	return r.hosts && ports && methods && paths, r.allHosts && allPorts && allMethods && allPaths
}

// inOrder returns the entries that decide where x does not, most specific
// first: by host, then by path, then block before allow. Entries whose path is
// longer than x's are more specific than x and not among them.
func (l *linter) inOrder(t *table, x *item) []neighbour {
	var out []neighbour
	t.related(x, func(level int, y *item) bool {
		r := neighbour{y: y, level: level}
		r.hosts, r.allHosts = hostsMeet(x, y, level)
		r.equalPath = samePath(x, y)
		if level == 0 && !r.equalPath && len(y.path) > len(x.path) {
			return true
		}
		out = append(out, r)
		return len(out) < maxNeighbours
	})
	slices.SortStableFunc(out, func(a, b neighbour) int {
		return cmp.Or(cmp.Compare(a.level, b.level), cmp.Compare(len(b.y.path), len(a.y.path)), cmp.Compare(bit(a.y.allow), bit(b.y.allow)))
	})
	return out
}

// maxNeighbours bounds the work for one entry of a policy in which very many
// entries are for one host.
const maxNeighbours = 2000

func bit(b bool) int {
	if b {
		return 1
	}
	return 0
}

func samePath(x, y *item) bool {
	if x.allow && y.allow {
		return x.path == y.path
	}
	return string(host.FoldPath(nil, x.path)) == string(host.FoldPath(nil, y.path))
}

// sameMatch reports whether y is exactly as specific as x wherever both match.
func sameMatch(x, y *item) bool {
	return x.Match == y.Match || x.Match != policy.MatchCIDR && (x.Match == policy.MatchTree || y.Match == policy.MatchTree)
}

// mutual reports whether two entries of one level say exactly the same, so that
// only the later is redundant.
func mutual(x, y *item) bool {
	_, h := hostsMeet(y, x, 0)
	_, p := portsMeet(y.Ports, x.Ports)
	_, m := methodsMeet(y.Methods, x.Methods)
	return h && p && m && samePath(x, y)
}

func samePin(x, y *item) bool {
	if x.Pin == nil || y.Pin == nil {
		return x.Pin == y.Pin
	}
	return slices.Equal(x.Pin.Digests, y.Pin.Digests) && slices.Equal(x.Pin.Artefacts, y.Pin.Artefacts)
}

// apex notes a wildcard whose own name nothing allows.
func (l *linter) apex(t *table, x *item) {
	if !x.allow || x.Match != policy.MatchSubdomains || l.policy.Phase(l.phase).Mode.DefaultAllows() || !strings.Contains(x.Host, ".") {
		return
	}
	h, err := host.Parse(x.Host)
	if err != nil || l.eval.Phase(l.phase).Name(h, 0).Allowed() {
		return
	}
	l.report(Note, CodeApex, x.name(), x.Pos.Line, "this covers the names below %s but not %s itself; add it if it is meant too", x.Host, x.Host)
}

// broad reports entries that cover too much or nothing.
func (l *linter) broad(x *item) {
	if x.Match == policy.MatchCIDR {
		l.broadRange(x)
		return
	}
	suffix, icann := publicsuffix.PublicSuffix(x.Host)
	known := icann || strings.Contains(suffix, ".") || isSpecialUse(x.Host)
	switch {
	case strings.HasSuffix("."+x.Host, ".invalid"):
		l.report(Warning, CodeNothing, x.name(), x.Pos.Line, "names below .invalid never exist (RFC 6761)")
	case x.Match == policy.MatchSubdomains && !known && x.Host == suffix:
		l.report(Warning, CodeNothing, x.name(), x.Pos.Line, "%s is no top-level domain, so there is nothing below it on the internet; write the whole domain", x.Host)
	case !known && strings.Contains(x.Host, "."):
		l.report(Note, CodeUnknownDomain, x.name(), x.Pos.Line, "%s is no top-level domain; this can only be a name of your own network", suffix)
	case x.allow && x.Match == policy.MatchSubdomains && x.Host == suffix:
		l.report(Warning, CodeOverBroad, x.name(), x.Pos.Line, "anybody can have a name below %s; name the hosts that are needed", x.Host)
	}
}

// specialUse are top-level domains that are kept for private use, tests and
// documentation (RFC 6761, RFC 6762, RFC 8375, RFC 9476, ICANN's .internal), and
// some that networks use all the same.
var specialUse = []string{"local", "localhost", "internal", "test", "example", "invalid", "home.arpa", "alt", "onion", "lan", "corp", "home", "private", "intranet", "svc"}

func isSpecialUse(name string) bool {
	for _, s := range specialUse {
		if name == s || strings.HasSuffix(name, "."+s) {
			return true
		}
	}
	return false
}

// Widths of a range from which on Lint reports it.
const (
	broadBits4 = 7
	broadBits6 = 19
)

func (l *linter) broadRange(x *item) {
	class := host.Classify(x.Prefix.Addr()).Class
	opened := class != host.ClassPublic && opens(x)
	switch {
	case x.allow && opened && class == host.ClassMetadata:
		l.report(Warning, CodeOpensMetadata, x.name(), x.Pos.Line, "this opens a cloud's metadata service, which hands out credentials to whoever asks")
	case x.allow && opened:
		l.report(Note, CodeOpens, x.name(), x.Pos.Line, "this opens %s addresses (%s) to names and literals", class, x.Prefix)
	case x.allow && x.Prefix.Bits() <= map[bool]int{true: broadBits4, false: broadBits6}[x.Prefix.Addr().Is4()]:
		l.report(Warning, CodeOverBroad, x.name(), x.Pos.Line, "this is a large part of the internet; special ranges in it stay closed, since an entry opens only the one that contains it")
	}
	if x.Methods != nil || x.path != "/" {
		l.report(Note, CodeRangeRequests, x.name(), x.Pos.Line, "methods and paths of a range hold for requests to a literal address; for names that resolve into it only the ports do")
	}
}

// opens reports whether an entry opens the special range that its first
// address is in.
func opens(x *item) bool {
	c := host.Classify(x.Prefix.Addr())
	r := c.Layer(0).Range
	return r.IsValid() && r.Bits() <= x.Prefix.Bits()
}
