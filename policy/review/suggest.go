package review

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"golang.org/x/net/publicsuffix"

	"github.com/wallproof/wallproof/policy"
	"github.com/wallproof/wallproof/policy/host"
	"github.com/wallproof/wallproof/policy/pack"
)

// Bounds on a log.
const (
	maxLogLine  = 1 << 20
	maxLogHosts = 100_000
)

// repeatedly is how often a host has to be seen in a route log to be suggested.
const repeatedly = 3

// manyHosts is from how many hosts of one domain on a wildcard is mentioned.
const manyHosts = 5

// Suggestion is an entry for review.
type Suggestion struct {
	Pack  string       `json:"pack,omitempty"` // a starter pack instead of an entry
	Entry policy.Entry `json:"-"`
	Text  string       `json:"entry"` // as a policy writes it
	Seen  int64        `json:"seen"`
	Why   string       `json:"why"`
}

// Refusal is a host of the log that is not suggested.
type Refusal struct {
	Host string `json:"host"`
	Seen int64  `json:"seen"`
	Why  string `json:"why"`
}

// Suggestions are what a log gives for a policy.
type Suggestions struct {
	Packs   []Suggestion `json:"packs"`
	Allow   []Suggestion `json:"allow"`
	Refused []Refusal    `json:"refused"`
	Hints   []string     `json:"hints"` // wildcards that would cover several of Allow
	Lines   int          `json:"lines"`
	Skipped int          `json:"skipped"` // lines that are no record of a host
}

// logLine holds what is read of a record; other members are passed over. A
// blocked-hosts record has seen and no verdict, a route record a route, a proxy's
// event a verdict.
type logLine struct {
	Type    string `json:"type"`
	Host    string `json:"host"`
	Port    int    `json:"port"`
	Verdict string `json:"verdict"`
	Route   string `json:"route"`
	Reason  string `json:"reason"`
	Seen    int64  `json:"seen"`
}

// refusedRoute is the route of what was not let through.
const refusedRoute = "refused"

// sighting is what a log says of one host.
type sighting struct {
	refused int64
	passed  int64
	ports   map[uint16]bool
	reasons map[string]bool
}

// Suggest reads a log of blocked hosts, of egress routes, or of a proxy's events
// (JSON lines), and suggests what to add to p: hosts that were refused because
// nothing names them and, where p allows what it does not name, hosts that were
// reached repeatedly and never refused. What is denied on purpose is not
// suggested but listed with the reason. Nothing is added to p.
func Suggest(p *policy.Policy, log io.Reader) (*Suggestions, error) {
	e, err := policy.Compile(p)
	if err != nil {
		return nil, err
	}
	s := &Suggestions{Packs: []Suggestion{}, Allow: []Suggestion{}, Refused: []Refusal{}, Hints: []string{}}
	seen, err := s.read(log)
	if err != nil {
		return nil, err
	}
	hosts := make([]host.Host, 0, len(seen))
	for h := range seen {
		hosts = append(hosts, h)
	}
	slices.SortFunc(hosts, func(a, b host.Host) int {
		return cmp.Or(cmp.Compare(seen[b].refused+seen[b].passed, seen[a].refused+seen[a].passed), strings.Compare(a.String(), b.String()))
	})
	data := namesThatCarryData(hosts)
	for _, h := range hosts {
		s.judge(e, p, h, seen[h], data)
	}
	s.hint()
	return s, nil
}

func (s *Suggestions) read(log io.Reader) (map[host.Host]*sighting, error) {
	seen := map[host.Host]*sighting{}
	lines := bufio.NewScanner(log)
	lines.Buffer(make([]byte, 0, 64<<10), maxLogLine)
	for lines.Scan() {
		if len(bytes.TrimSpace(lines.Bytes())) == 0 {
			continue
		}
		s.Lines++
		var l logLine
		if json.Unmarshal(lines.Bytes(), &l) != nil || l.Host == "" || l.Type != "" && l.Type != "decision" {
			s.Skipped++
			continue
		}
		h, err := host.Parse(l.Host)
		if err != nil || l.Port < 0 || l.Port > 65535 || l.Seen < 0 {
			s.Skipped++
			continue
		}
		at := seen[h]
		if at == nil {
			if len(seen) == maxLogHosts {
				return nil, fmt.Errorf("the log has more than %d hosts; split it", maxLogHosts)
			}
			at = &sighting{ports: map[uint16]bool{}, reasons: map[string]bool{}}
			seen[h] = at
		}
		at.count(l)
	}
	if err := lines.Err(); errors.Is(err, bufio.ErrTooLong) {
		return nil, fmt.Errorf("line %d of the log is longer than %d bytes", s.Lines+1, maxLogLine)
	} else if err != nil {
		return nil, fmt.Errorf("read the log: %w", err)
	}
	return seen, nil
}

func (at *sighting) count(l logLine) {
	n := max(l.Seen, 1)
	passed := l.Verdict == "allow" || l.Verdict == "" && l.Route != "" && l.Route != refusedRoute
	if passed {
		at.passed += n
	} else {
		at.refused += n
	}
	port := uint16(l.Port)
	if port == 0 || port == 53 { // a name query, or a record without port
		port = 443
	}
	at.ports[port] = true
	if l.Reason != "" && !passed {
		at.reasons[l.Reason] = true
	}
}

// judge suggests a host, or refuses it with the reason.
func (s *Suggestions) judge(e *policy.Evaluator, p *policy.Policy, h host.Host, at *sighting, data map[string]int) {
	total := at.refused + at.passed
	refuse := func(why string) { s.Refused = append(s.Refused, Refusal{h.String(), total, why}) }
	switch d := e.Name(h, 0); {
	case h.IsAddr():
		if d.Allowed() && at.refused == 0 {
			return
		}
		refuse("an address says nothing of who answers there; find out, and name the host or write a cidr entry")
		return
	case d.Reason == policy.ReasonMetadataName, d.Reason == policy.ReasonLocalhost:
		refuse("denied in every mode: " + string(d.Reason))
		return
	case d.Reason == policy.ReasonBlockEntry:
		refuse(fmt.Sprintf("blocked on purpose by %s (line %d)", d.Entry, d.Line))
		return
	case carriesData(h.Name(), data):
		refuse("the name looks like data on its way out, not like a host")
		return
	}
	var ports []policy.PortRange
	for port := range at.ports {
		if d := e.Name(h, port); d.Reason != policy.ReasonAllowEntry && d.Reason != policy.ReasonModel && d.Reason != policy.ReasonService {
			ports = append(ports, policy.PortRange{From: port, To: port})
		}
	}
	switch {
	case len(ports) == 0:
		for _, why := range []string{string(policy.ReasonMethod), string(policy.ReasonPath)} {
			if at.reasons[why] {
				refuse("the host is allowed already, but not for this " + why)
				return
			}
		}
		return // allowed by an entry already
	case at.refused == 0 && (!p.Mode.DefaultAllows() || at.passed < repeatedly):
		return
	}
	if name := packOf(h.Name()); name != "" {
		s.addPack(name, h.Name(), total)
		return
	}
	slices.SortFunc(ports, func(a, b policy.PortRange) int { return cmp.Compare(a.From, b.From) })
	entry := policy.Entry{Match: policy.MatchExact, Host: h.Name(), Ports: ports}
	why := "refused " + times(at.refused)
	if at.refused == 0 {
		why = "reached " + times(at.passed) + ", never refused"
	}
	s.Allow = append(s.Allow, Suggestion{Entry: entry, Text: policy.FormatEntry(&entry, true), Seen: total, Why: why})
}

func times(n int64) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

func packOf(name string) string {
	for _, p := range pack.All() {
		for _, h := range p.Hosts {
			if h.Name == name {
				return p.Name
			}
		}
	}
	return ""
}

func (s *Suggestions) addPack(name, host string, seen int64) {
	for i := range s.Packs {
		if s.Packs[i].Pack == name {
			s.Packs[i].Seen += seen
			s.Packs[i].Why += ", " + host
			return
		}
	}
	s.Packs = append(s.Packs, Suggestion{Pack: name, Text: name, Seen: seen, Why: "for " + host})
}

// Signs that a name carries data: a label that no person would choose, or very
// many names below one domain that differ in one long label.
const (
	dataLabel      = 40 // bytes of a label that is data by itself
	dataLabelShort = 16 // bytes of a label that is, when there are many like it
	dataSiblings   = 20
)

// namesThatCarryData counts the long first labels below each parent.
func namesThatCarryData(hosts []host.Host) map[string]int {
	out := map[string]int{}
	for _, h := range hosts {
		if first, parent, ok := strings.Cut(h.Name(), "."); ok && len(first) >= dataLabelShort {
			out[parent]++
		}
	}
	return out
}

func carriesData(name string, siblings map[string]int) bool {
	for _, label := range strings.Split(name, ".") {
		if len(label) >= dataLabel {
			return true
		}
	}
	first, parent, ok := strings.Cut(name, ".")
	return ok && len(first) >= dataLabelShort && siblings[parent] >= dataSiblings
}

// hint mentions wildcards for domains of which many hosts are suggested.
func (s *Suggestions) hint() {
	count := map[string]int{}
	for _, a := range s.Allow {
		if domain, err := publicsuffix.EffectiveTLDPlusOne(a.Entry.Host); err == nil && domain != a.Entry.Host {
			count[domain]++
		}
	}
	for domain, n := range count {
		if n >= manyHosts {
			s.Hints = append(s.Hints, fmt.Sprintf("%d hosts below %s: if all of them are meant, {host: \"*.%s\"} covers them", n, domain, domain))
		}
	}
	slices.Sort(s.Hints)
}

// Format writes the suggestions as a part of a policy, with comments.
func (s *Suggestions) Format() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "# From %d records of a log. Review each line before you use it.\n", s.Lines-s.Skipped)
	if len(s.Packs) > 0 {
		b.WriteString("packs:\n")
		for _, p := range s.Packs {
			fmt.Fprintf(&b, "  - %s # %s\n", p.Text, p.Why)
		}
	}
	if len(s.Allow) > 0 {
		b.WriteString("allow:\n")
		for _, a := range s.Allow {
			fmt.Fprintf(&b, "  - %s # %s\n", a.Text, a.Why)
		}
	}
	for _, h := range s.Hints {
		fmt.Fprintf(&b, "# %s\n", h)
	}
	for _, r := range s.Refused {
		fmt.Fprintf(&b, "# not suggested: %s (%s): %s\n", r.Host, times(r.Seen), r.Why)
	}
	if s.Skipped > 0 {
		fmt.Fprintf(&b, "# %d lines were no record of a host\n", s.Skipped)
	}
	return b.Bytes()
}
