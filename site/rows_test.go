package site

import (
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"golang.org/x/net/html"

	"github.com/wallproof/wallproof/attest/packettest"
	"github.com/wallproof/wallproof/attest/predicate"
	"github.com/wallproof/wallproof/policy"
)

// TestRows: what the trust-boundary page must print, on the page of a packet that
// really was verified.
func TestRows(t *testing.T) {
	out := filepath.Join(t.TempDir(), "site")
	p := newPacket(t)
	in := input(p)
	in.Live = []byte(`{"fabric":{"kernel":"` + packettest.Kernel + `"},"generated":"2026-11-02T12:00:00Z","schema":"wallproof.live/v1"}`)
	res := build(t, in, out)
	index := parsePage(t, out, "index.html")
	if h := textOf(find(index, "id", "headline")); h != "0 critical escapes" {
		t.Errorf("the headline is %q", h)
	}
	record := textOf(find(index, "class", "record"))
	for _, label := range []string{"Image", "Policy", "Collected", "Valid until", "Signed at", "Signer", "Algorithm", "Transparency", "Attestation", res.Primary.Digest, packettest.ImageDigest, "ECDSA P-256"} {
		if !strings.Contains(record, label) {
			t.Errorf("the record does not print %q: %s", label, record)
		}
	}
	// Each invariant has a word, a glyph and a date, and leads to its evidence.
	items := children(find(find(index, "id", "invariants"), "class", "rows"), "li")
	if len(items) != len(parts) {
		t.Fatalf("%d invariants, want %d", len(items), len(parts))
	}
	for _, li := range items {
		chip := find(li, "class", "chip")
		if chip == nil || find(chip, "aria-hidden", "true") == nil || textOf(chip) == "" {
			t.Errorf("an invariant without word and glyph: %s", textOf(li))
		}
		if strings.Contains(textOf(chip), "Signed") && find(li, "datetime", "") == nil {
			t.Errorf("a signed invariant without a date: %s", textOf(li))
		}
		href := attributes(find(find(li, "class", "what"), "tag", "a"))["href"]
		if page, place, _ := strings.Cut(href, "#"); page != res.Primary.Page || find(parsePage(t, out, page), "id", place) == nil {
			t.Errorf("an invariant that leads to %q and not to its evidence: %s", href, textOf(li))
		}
	}
	caption := textOf(find(find(index, "id", "battery"), "tag", "caption"))
	for _, w := range []string{"Subject " + packettest.ImageDigest, "Collected ", "Manifest head sha256:"} {
		if !strings.Contains(caption, w) {
			t.Errorf("the battery's caption lacks %q: %s", w, caption)
		}
	}
	edges := children(find(index, "class", "edges"), "li")
	if len(edges) < 6 {
		t.Errorf("only %d edges", len(edges))
	}
	for _, li := range edges {
		if textOf(find(li, "tag", "p")) == "" || find(li, "class", "code") == nil || find(li, "class", "chip") == nil {
			t.Errorf("an edge without word, description or reason: %s", textOf(li))
		}
	}
	faq := textOf(find(index, "id", "faq"))
	for _, q := range []string{"Where does the code run?", "Can the agent exfiltrate anything?", "How are zero escapes shown?", "What signs the evidence?", "What invalidates it?"} {
		if !strings.Contains(faq, q) {
			t.Errorf("the questions lack %q", q)
		}
	}
	if fabric := textOf(find(index, "id", "fabric")); !strings.Contains(fabric, "kernel") {
		t.Errorf("the fabric's row does not say whose kernel: %s", fabric)
	}
	gaps := textOf(find(index, "id", "limits"))
	for _, l := range predicate.DefaultLimits() {
		if !strings.Contains(gaps, sentence(l)) {
			t.Errorf("the gaps lack %q", l)
		}
	}
	for line := range strings.Lines(read(t, out, filePlain)) {
		if w := utf8.RuneCountInString(line); w > 77 && !strings.Contains(line, "sha256:") { // a digest is not broken
			t.Errorf("a line of %d columns in the summary: %s", w, line)
		}
	}
	if !strings.Contains(textOf(find(index, "id", "conditions")), "Fabric drift") {
		t.Error("fabric drift is not among what withdraws the claim")
	}
	for _, l := range withdrawals {
		if !strings.Contains(textOf(find(index, "id", "conditions")), l.title) {
			t.Errorf("what withdraws the claim lacks %q", l.title)
		}
	}
	procurementRows(t, parsePage(t, out, "procurement/index.html"))
}

// procurementRows: documents with dates, scope, mapping, the packet, answers that
// name their evidence.
func procurementRows(t *testing.T, page *html.Node) {
	t.Helper()
	mapping := textOf(find(page, "id", "mapping"))
	for _, w := range []string{"NIST SP 800-53", "SC-7", "AC-4", "SC-39", "ATT&CK", "Containers", "T1611", "OWASP Top 10 for LLM", "LLM01"} {
		if !strings.Contains(mapping, w) {
			t.Errorf("the mapping lacks %q", w)
		}
	}
	dated := 0
	each(find(page, "id", "documents"), func(n *html.Node) {
		if n.Data == "time" {
			dated++
		}
	})
	if dated < 3 {
		t.Errorf("only %d documents have a date", dated)
	}
	answers := children(find(page, "class", "answers"), "div")
	for _, a := range answers {
		if !strings.Contains(textOf(a), "Evidence:") || find(a, "class", "mono") == nil {
			t.Errorf("an answer without its evidence: %s", textOf(a))
		}
	}
	if len(answers) < 8 {
		t.Errorf("only %d answers", len(answers))
	}
	if a := find(find(page, "class", "buttons"), "download", ""); a == nil || !strings.HasSuffix(attributes(a)["href"], endPacket) {
		t.Error("the packet is not offered")
	}
	if scope := textOf(find(page, "class", "record")); !strings.Contains(scope, packettest.ImageDigest) || !strings.Contains(scope, "Valid until") {
		t.Errorf("scope and dates: %s", scope)
	}
}

// TestLinks: every address on every page leads to a file of the site, and every
// fragment to something on it; whether the claim is current or held.
func TestLinks(t *testing.T) {
	for _, held := range []bool{false, true} {
		out := filepath.Join(t.TempDir(), "site")
		in := input(newPacket(t))
		if held {
			in.Verify.PolicyDigest = packettest.OtherDigest
		}
		build(t, in, out)
		n := 0
		for name := range treeDigests(t, out) {
			if path.Ext(name) != ".html" || name == "404.html" {
				continue
			}
			each(parsePage(t, out, name), func(e *html.Node) {
				for _, a := range e.Attr {
					if a.Key != "href" && a.Key != "src" {
						continue
					}
					n++
					if fault := follow(t, out, name, a.Val); fault != "" {
						t.Errorf("%s: %s: %s", name, a.Val, fault)
					}
				}
			})
		}
		if n < 100 {
			t.Errorf("only %d links", n)
		}
	}
}

// follow says why a link of a page leads nowhere, or "".
func follow(t *testing.T, out, page, link string) string {
	t.Helper()
	u, err := url.Parse(link)
	if err != nil || u.Scheme != "" || u.Host != "" {
		return "leads out of the site"
	}
	to := page
	if u.Path != "" {
		to = path.Join(path.Dir(page), u.Path)
	}
	if _, err := os.Stat(filepath.Join(out, to)); err != nil {
		return err.Error()
	}
	if u.Fragment != "" && path.Ext(to) == ".html" && find(parsePage(t, out, to), "id", u.Fragment) == nil {
		return "there is no such place on that page"
	}
	return ""
}

func parsePage(t *testing.T, out, name string) *html.Node {
	t.Helper()
	doc, err := html.Parse(strings.NewReader(read(t, out, name)))
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

func each(n *html.Node, visit func(*html.Node)) {
	if n == nil {
		return
	}
	if n.Type == html.ElementNode {
		visit(n)
	}
	for c := n.FirstChild; c != nil; c = c.NextSibling {
		each(c, visit)
	}
}

// find returns the first element with an attribute, one of whose words is the
// value ("" is any); "tag" stands for the element's name.
func find(n *html.Node, attr, value string) *html.Node {
	var out *html.Node
	each(n, func(e *html.Node) {
		if out != nil {
			return
		}
		if attr == "tag" && e.Data == value {
			out = e
		}
		for _, a := range e.Attr {
			if out == nil && a.Key == attr && (value == "" || slices.Contains(strings.Fields(a.Val), value)) {
				out = e
			}
		}
	})
	return out
}

func children(n *html.Node, tag string) []*html.Node {
	var out []*html.Node
	if n == nil {
		return nil
	}
	for c := n.FirstChild; c != nil; c = c.NextSibling {
		if c.Type == html.ElementNode && c.Data == tag {
			out = append(out, c)
		}
	}
	return out
}

func textOf(n *html.Node) string {
	var words []string
	var walk func(*html.Node)
	walk = func(n *html.Node) {
		if n.Type == html.TextNode {
			words = append(words, strings.Fields(n.Data)...)
		}
		for c := n.FirstChild; c != nil; c = c.NextSibling {
			walk(c)
		}
	}
	if n != nil {
		walk(n)
	}
	return strings.Join(words, " ")
}

// TestPartial: an escape below critical takes away every line that it contradicts,
// for each vector: invariant, edge, row, mapping and answer.
func TestPartial(t *testing.T) {
	answers := map[string]string{"proxy": "credentials", "egress": "egress-default"}
	words := map[string]string{"proxy": "never holds one", "egress": "does not name is refused"}
	for vector, part := range bearing {
		e := sampleEvidence()
		for i, p := range e.edges {
			if p.Reason == policy.EdgeBrokeredToken {
				e.edges[i].Vector = "TOK"
			}
		}
		for i, v := range e.boundary.Battery.Vectors {
			if v.Vector == vector {
				e.boundary.Battery.Vectors[i].Outcome, e.boundary.Battery.Vectors[i].EscapedSeverity = "escaped", "medium"
			}
		}
		e.hold("escape")
		if !e.shown() {
			t.Fatal("an escape below critical takes the whole claim")
		}
		for _, x := range e.picture() {
			if x.Vector == vector && (x.Posture != allowed || x.Reason != "") {
				t.Errorf("%s escaped, and the edge %s is %s", vector, x.Name, x.Chip.Word)
			}
		}
		for _, r := range e.vectorRows() {
			if r.ID == vector {
				t.Errorf("%s escaped, and has the row %v", vector, r)
			}
		}
		for _, i := range e.invariants("") {
			if (i.ID == part || i.ID == "isolation") && i.Chip.Word != "Held" {
				t.Errorf("%s escaped, and %s is %s", vector, i.ID, i.Chip.Word)
			}
		}
		for _, q := range e.questions() {
			if q.ID == answers[part] && (strings.Contains(q.Answer, words[part]) || !strings.Contains(q.Answer, "got through")) {
				t.Errorf("%s escaped, and the answer to %s is %q", vector, q.ID, q.Answer)
			}
		}
	}
	// The first paragraph says that something got through.
	some := sampleEvidence().hold("escape")
	some.boundary.Battery.Totals["ENV"]["escaped"] = 1
	if !strings.Contains(some.lede(), "1 attack below critical got through") || strings.Contains(sampleEvidence().lede(), "got through") {
		t.Errorf("the lede of a partial claim: %s", some.lede())
	}
	// What can be reached is not left out with what guards it.
	e := sampleEvidence()
	for i, p := range e.edges {
		if p.Posture == policy.PostureBrokered {
			e.edges[i].Vector = "TOK"
		}
	}
	e.boundary.Battery.Vectors[0].Outcome, e.boundary.Battery.Vectors[0].EscapedSeverity = "escaped", "medium"
	e.hold("escape")
	for _, text := range []string{e.destinations(), strings.Join(e.exfiltration(), " "), e.plain()} {
		if !strings.Contains(strings.ToLower(text), "source repository") || strings.Contains(text, "(brokered)") || strings.Contains(strings.ToLower(text), "git token") {
			t.Errorf("TOK escaped, and what can be reached is %q", text)
		}
	}
	e = sampleEvidence()
	for i, v := range e.boundary.Battery.Vectors {
		if v.Vector == "NET" {
			e.boundary.Battery.Vectors[i].Outcome = "escaped"
		}
	}
	if text := strings.Join(e.exfiltration(), " "); !strings.Contains(text, "denies open internet, but") || strings.Contains(text, "or open internet:") {
		t.Errorf("NET escaped, and the answer is %q", text)
	}
	inside := sampleEvidence()
	inside.boundary.Proxy.Placement = "inside-sandbox"
	for _, x := range inside.picture() {
		if x.Posture == brokered || x.Reason == policy.EdgeBrokeredToken {
			t.Errorf("with the proxy in the sandbox, %s is %s: %s", x.Name, x.Chip.Word, x.Text)
		}
	}
}
