package site

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"github.com/wallproof/wallproof/attest/packet"
	"github.com/wallproof/wallproof/attest/packettest"
	"github.com/wallproof/wallproof/attest/predicate"
	"github.com/wallproof/wallproof/battery/judge"
	"github.com/wallproof/wallproof/policy"
	"github.com/wallproof/wallproof/probes/catalog"
	"github.com/wallproof/wallproof/verify"
)

// verdictOf is what the verifier itself says of a packet, at its own moment.
func verdictOf(t *testing.T, p *packettest.Packet) verify.Report {
	t.Helper()
	in := p.Input()
	in.Latched = []verify.Latch{} // nothing was seen before
	r := verify.Verify(in)
	if r.Evidence == nil {
		t.Fatalf("%+v", r)
	}
	return r
}

// TestAttestationPage: the page of an attestation has the verifier's own lines, and every
// technique and variant of the manifest with what it did without and with the wall, as
// the verifier judged it.
func TestAttestationPage(t *testing.T) {
	p := newPacket(t, packettest.Fact(string(catalog.NeedsVsock), "no vsock"))
	report := verdictOf(t, p)
	out := filepath.Join(t.TempDir(), "site")
	res := build(t, input(p), out)
	if res.Primary.State != StateCurrent {
		t.Fatalf("%+v", res.Primary)
	}
	page := parsePage(t, out, res.Primary.Page)

	checks := children(find(find(page, "id", "checks"), "tag", "tbody"), "tr")
	if len(checks) != len(report.Checks) || len(checks) < 15 {
		t.Fatalf("%d lines of the verifier, which wrote %d", len(checks), len(report.Checks))
	}
	for i, c := range report.Checks {
		if got := textOf(checks[i]); !strings.HasPrefix(got, c.Name+" "+checkChip(string(c.Status)).Word) || !strings.HasSuffix(got, " "+string(c.Code)) {
			t.Errorf("%s, which is %s by %s, is shown as %q", c.Name, c.Status, c.Code, got)
		}
	}

	rows := map[string][]string{} // by technique
	table := find(page, "id", "techniques-list")
	for _, group := range children(table, "tbody") {
		for _, tr := range children(group, "tr") {
			if id := textOf(find(tr, "class", "mono")); id != "" {
				rows[id] = append(rows[id], textOf(tr))
			}
		}
	}
	words := map[string]string{"blocked": "Blocked", "contained": "Contained", "not-applicable": "Not applicable"}
	shown := map[string]int{}
	for _, k := range report.Evidence.Judged {
		control := "Succeeded"
		if k.Outcome == string(judge.NotApplicable) {
			control = "Not run"
		}
		if words[k.Outcome] == "" {
			t.Fatalf("%s: a run of which nothing escaped has the outcome %s", k.Technique, k.Outcome)
		}
		want := control + " " + words[k.Outcome]
		shown[k.Outcome]++
		if !slices.ContainsFunc(rows[k.Technique], func(row string) bool {
			return strings.Contains(row, want) && (k.Variant == "default" || slices.Contains(strings.Fields(strings.ReplaceAll(row, ",", " ")), k.Variant))
		}) {
			t.Errorf("%s, variant %s, has no row with %q: %q", k.Technique, k.Variant, want, rows[k.Technique])
		}
	}
	if shown["blocked"] == 0 || shown["contained"] == 0 || shown["not-applicable"] == 0 {
		t.Errorf("the run has not all outcomes: %v", shown)
	}
}

// TestPictureAndList: both drawings and the list name every edge, with its word; what one
// side has too many of is counted in the drawing and stands in the list.
func TestPictureAndList(t *testing.T) {
	p := newPacket(t)
	out := filepath.Join(t.TempDir(), "site")
	build(t, input(p), out)
	parsed, err := policy.ParseCanonical(p.Files[packet.PolicyFile])
	if err != nil {
		t.Fatal(err)
	}
	by, err := policy.Compile(parsed)
	if err != nil {
		t.Fatal(err)
	}
	index := parsePage(t, out, "index.html")
	list := children(find(index, "class", "edges"), "li")
	edges := by.Edges()
	if len(list) != len(edges) || len(edges) < 8 {
		t.Fatalf("%d edges in the list, %d of the evaluator", len(list), len(edges))
	}
	for i, e := range edges {
		if got := textOf(list[i]); !strings.HasPrefix(got, string(e.Posture)+" "+e.Label+" "+e.Description) || !strings.HasSuffix(got, " "+e.Reason) {
			t.Errorf("the evaluator says %+v, the list %q", e, got)
		}
		for _, drawn := range []string{"wide", "tall"} {
			svg := find(find(index, "class", "picture"), "class", drawn)
			if label := attributes(svg)["aria-label"]; !strings.Contains(label, e.Label+": "+string(e.Posture)+".") || !strings.Contains(textOf(svg), e.Label) {
				t.Errorf("the %s drawing lacks %s: %s", drawn, e.Label, label)
			}
		}
	}

	var many []edge
	for _, name := range strings.Fields("a b c d e f g h i") {
		many = append(many, edge{Name: "host-" + name, Chip: chip{Word: "Allowed", Glyph: "allowed"}, Posture: allowed})
	}
	svg := string(diagram(many))
	if !strings.Contains(svg, "host-f") || strings.Contains(svg, "host-g") || strings.Count(svg, "and 3 more") != 4 {
		t.Errorf("nine on one side are drawn as %s", svg)
	}
}

// TestEdgeWithoutEvidence: an edge is denied or brokered only while its vector was blocked
// or contained: not when that escaped, was not conclusive, does not apply, was not tested,
// or is not in the battery at all.
func TestEdgeWithoutEvidence(t *testing.T) {
	claims := func(e *evidence, vector string) (n int) {
		for _, x := range e.picture() {
			if x.Vector == vector && x.Posture != allowed {
				n++
			}
		}
		return n
	}
	for _, vector := range []string{"IMD", "LAT", "NET", "TEN"} {
		for _, o := range []judge.Outcome{judge.Blocked, judge.Contained, judge.Escaped, judge.Inconclusive, judge.NotApplicable, judge.NotTested, ""} {
			e := sampleEvidence()
			for i, v := range e.boundary.Battery.Vectors {
				if v.Vector != vector {
					continue
				}
				if e.boundary.Battery.Vectors[i].Outcome = string(o); o == "" {
					e.boundary.Battery.Vectors = slices.Delete(e.boundary.Battery.Vectors, i, i+1)
				}
				break
			}
			want := 0
			if o == judge.Blocked || o == judge.Contained {
				want = 1
			}
			if got := claims(e, vector); got != want {
				t.Errorf("%s is %q, and %d edges are said to be denied", vector, o, got)
			}
		}
	}
}

// TestKernelAsMeasured: whose kernel the code ran on is what the run measured, wherever
// the pages say it.
func TestKernelAsMeasured(t *testing.T) {
	texts := map[string]string{"own": "on a kernel of its own", "shared": "on the host's kernel, which it shares", "": "on a kernel whose kind was not measured"}
	for measured := range texts {
		e := sampleEvidence()
		e.boundary.Fabric.Driver.Isolation["kernel"] = measured
		dir := t.TempDir()
		sampleSite(t, dir, Theme{}, e)
		for page, id := range map[string]string{"index.html": "invariants", "procurement/index.html": "questionnaire"} {
			got := textOf(find(parsePage(t, dir, page), "id", id))
			for kind, text := range texts {
				if strings.Contains(got, text) != (kind == measured) {
					t.Errorf("%q was measured, and %s says: %s", measured, page, got)
				}
			}
		}
		if got := textOf(find(parsePage(t, dir, "index.html"), "id", "faq")); !strings.Contains(got, texts[measured]) {
			t.Errorf("%q was measured, and the answer is: %s", measured, got)
		}
	}
}

// TestAnswersFromEvidence: each of the five questions is answered with what this
// attestation has: another has other answers.
func TestAnswersFromEvidence(t *testing.T) {
	other := sampleEvidence()
	other.boundary.Fabric.Driver.Name, other.boundary.Fabric.Driver.Version = "runc", "1.3.1"
	for i, p := range other.edges {
		if p.ID == policy.EdgeInternet {
			other.edges[i].Posture, other.edges[i].Reason = policy.PostureAllowed, "default-allow"
		}
	}
	other.signer, other.algorithm, other.logged, other.rerun = "key of the publisher", "Ed25519", "log index 4711", nil
	other.expires = other.expires.AddDate(0, 0, 7)
	faq := func(e *evidence) map[string]string {
		dir := t.TempDir()
		sampleSite(t, dir, Theme{}, e)
		out := map[string]string{}
		each(find(parsePage(t, dir, "index.html"), "id", "faq"), func(n *html.Node) {
			if n.Data == "details" {
				q := textOf(find(n, "tag", "summary"))
				out[q] = strings.TrimPrefix(textOf(n), q+" ")
			}
		})
		return out
	}
	one, two := faq(sampleEvidence()), faq(other)
	for q, in := range map[string][2]string{
		"Where does the code run?":           {"In a gvisor sandbox, version release-20260905.0,", "In a runc sandbox, version 1.3.1,"},
		"Can the agent exfiltrate anything?": {"private ranges, open internet or other tenants: every attack that bears on one of these failed", "open internet. Whatever the code can read it could send there"},
		"What signs the evidence?":           {"The verifier was run again and its result signed", "Key of the publisher, with Ed25519."},
		"What invalidates it?":               {at(sampleExpires).Text, at(other.expires).Text},
	} {
		for i, got := range []string{one[q], two[q]} {
			if !strings.Contains(got, in[i]) || strings.Contains(got, in[1-i]) {
				t.Errorf("%s %q, which should say %q and not %q", q, got, in[i], in[1-i])
			}
		}
	}
	if len(one) != 5 || one["How are zero escapes shown?"] == "" {
		t.Errorf("%d questions: %v", len(one), one)
	}
	if strings.Contains(two["What signs the evidence?"], "run again") || !strings.Contains(two["What signs the evidence?"], "log index 4711") {
		t.Errorf("without a re-run, in a log: %s", two["What signs the evidence?"])
	}
}

// TestThemeOnPages: what a theme adds stands where it belongs, beside what every page has.
func TestThemeOnPages(t *testing.T) {
	th := Theme{
		Name: "Example Labs", Tagline: "Behind a wall.", Home: "https://example.org/", Contact: Contact{"Security team", "security@example.org", "https://example.org/security"},
		FAQ: []QA{{"Who is on call?", "The platform team."}}, KnownGaps: []Gap{{"Declared model", "Its traffic is not inspected."}},
		Documents: []Document{{"Security policy", "https://example.org/policy.pdf", "2026-05-04", "Version 7"}},
	}
	for _, e := range []*evidence{sampleEvidence(), sampleEvidence().hold("policy-drift")} {
		dir := t.TempDir()
		sampleSite(t, dir, th, e)
		for _, c := range []struct {
			page, id string
			claim    bool
			words    []string
		}{
			{"index.html", "faq", true, []string{"Where does the code run?", "What invalidates it?", "Who is on call? The platform team."}},
			{"index.html", "limits", false, []string{"Declared model Its traffic is not inspected."}},
			{"procurement/index.html", "limits", false, []string{"Declared model Its traffic is not inspected."}},
			{"procurement/index.html", "documents", false, []string{"Security policy", "Version 7", "May 2026"}},
		} {
			got := textOf(find(parsePage(t, dir, c.page), "id", c.id))
			for _, w := range c.words {
				if want := !c.claim || e.shown(); strings.Contains(got, w) != want {
					t.Errorf("%s of %s, state %s, and %q: %s", c.id, c.page, e.state, w, got)
				}
			}
		}
		for _, page := range []string{"index.html", "procurement/index.html", "fleet/index.html", "verify/index.html", "404.html"} {
			foot := textOf(find(parsePage(t, dir, page), "class", "foot"))
			for _, w := range []string{"Behind a wall.", "Published by Example Labs", "Security team", "security@example.org", "https://example.org/security"} {
				if !strings.Contains(foot, w) {
					t.Errorf("the foot of %s lacks %q: %s", page, w, foot)
				}
			}
		}
	}
}

// TestReviewAndTrail: the threat model, the red team's result and the hash trail on the
// page are those of the packet; where there is none the page says so.
func TestReviewAndTrail(t *testing.T) {
	p := newPacket(t)
	b := verdictOf(t, p).Evidence.Boundary
	out := filepath.Join(t.TempDir(), "site")
	res := build(t, input(p), out)
	index := parsePage(t, out, "index.html")
	for id, words := range map[string][]string{
		"threat-model": {b.ThreatModel.Scope, b.ThreatModel.TrustAssumption, b.ThreatModel.PrimaryAsset, b.ThreatModel.Boundary, b.ThreatModel.Digest},
		"red-team":     {b.RedTeam.Engagement, "Critical escapes 0", b.RedTeam.Target, b.RedTeam.ResultDigest},
		"trail":        {"sha256:" + b.Battery.Head, b.RedTeam.Digest, b.ThreatModel.Digest, res.Primary.Digest, "Verifier re-run"},
	} {
		got := textOf(find(index, "id", id))
		for _, w := range words {
			if w == "" || !strings.Contains(got, w) {
				t.Errorf("%s lacks %q: %s", id, w, got)
			}
		}
	}
	build(t, input(newPacket(t, packettest.WithoutRedTeam())), out)
	index = parsePage(t, out, "index.html")
	if got := textOf(find(index, "id", "red-team")); !strings.Contains(got, "No red-team result was provided. The headline therefore counts the battery alone.") {
		t.Errorf("without a red team: %s", got)
	}
	if got := textOf(find(find(index, "data-claim", ""), "class", "lede")); !strings.Contains(got, "battery’s alone") {
		t.Errorf("without a red team the page begins: %s", got)
	}
}

// TestRedTeamsWord: a red team's result is said to be signed by it only when its signature
// was verified; else it is the operator's word, in the first paragraph too.
func TestRedTeamsWord(t *testing.T) {
	for _, c := range []struct {
		attestor     string
		status       verify.Status
		lede, review string
	}{
		{predicate.RedTeamSigned, verify.Pass, "which signed its own result", "Signed by the red team's own key."},
		{predicate.RedTeamSigned, verify.NotChecked, "whose result the operator passed on", "which was not checked against a key of the red team"},
		{predicate.RedTeamOperator, verify.Pass, "whose result the operator passed on", "handed over without a signature of the red team"},
	} {
		e := sampleEvidence()
		e.boundary.RedTeam.Attestor = c.attestor
		for i, k := range e.checks {
			if k.name == verify.CheckRedTeam {
				e.checks[i].status = string(c.status)
			}
		}
		dir := t.TempDir()
		sampleSite(t, dir, Theme{}, e)
		index := parsePage(t, dir, "index.html")
		if got := textOf(find(find(index, "data-claim", ""), "class", "lede")); !strings.Contains(got, c.lede) {
			t.Errorf("%s, %s: the page begins: %s", c.attestor, c.status, got)
		}
		if got := textOf(find(index, "id", "red-team")); !strings.Contains(got, c.review) {
			t.Errorf("%s, %s: %s", c.attestor, c.status, got)
		}
	}
}

// TestFilesBeside: the bundle and the packet beside a claim are the ones that were handed over.
func TestFilesBeside(t *testing.T) {
	p := smallPacket(t, nil, "")
	out := filepath.Join(t.TempDir(), "site")
	stem := strings.TrimSuffix(build(t, input(p), out).Primary.Page, endPage)
	if read(t, out, stem+endBundle) != string(p.Files[packet.AttestationFile]) {
		t.Error("the bundle is another")
	}
	files, err := packet.ReadArchive(strings.NewReader(read(t, out, stem+endPacket)))
	if err != nil || len(files) != len(p.Files) {
		t.Fatalf("%d files of %d, %v", len(files), len(p.Files), err)
	}
	for name, content := range p.Files {
		if string(files[name]) != string(content) {
			t.Errorf("%s is another", name)
		}
	}
}
