package site

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/attest/predicate"
	"github.com/wallproof/wallproof/battery/judge"
	"github.com/wallproof/wallproof/policy"
	"github.com/wallproof/wallproof/probes/catalog"
	"github.com/wallproof/wallproof/verify"
)

// outsideSandbox is the one placement of the proxy that supports the word
// Brokered (manifest.Proxy).
const outsideSandbox = "outside-sandbox"

// claimOf says what a current attestation asserts, as its own page shows it.
func (e *evidence) claimOf() *claim {
	return &claim{
		Figure:   strconv.FormatInt(e.criticalEscapes(), 10),
		Headline: "critical escapes",
		Lede:     e.lede(),
		Figures:  e.figures(),
		Threat:   e.threat(),
		RedTeam:  e.redTeam(),
		Trail:    e.trail(),
		Escapes:  e.escapes(),
	}
}

// fillClaim adds what the trust-boundary page shows besides. self is the address
// of the attestation's page, seen from the page that shows the claim.
func (e *evidence) fillClaim(c *claim, self string) {
	c.Edges = e.picture()
	c.Diagram = diagram(c.Edges)
	c.Invariants = e.invariants(self)
	c.Vectors = e.vectorRows()
	c.Caption = caption{Subject: clean(e.subject), Head: "sha256:" + clean(e.boundary.Battery.Head), Collected: at(e.collected)}
	c.Conditions = e.conditions()
	c.FAQ = e.faq()
	c.Plain = e.plain()
}

// criticalEscapes counts over battery and red team.
func (e *evidence) criticalEscapes() int64 {
	n := e.boundary.Battery.CriticalEscapes
	if r := e.boundary.RedTeam; r != nil {
		n += r.CriticalEscapes
	}
	return n
}

// attacks counts technique variants with a conclusive outcome.
func (e *evidence) attacks() int64 {
	var n int64
	for _, outcomes := range e.boundary.Battery.Totals {
		n += outcomes[string(judge.Blocked)] + outcomes[string(judge.Contained)] + outcomes[string(judge.Escaped)]
	}
	return n
}

func (e *evidence) lede() string {
	s := fmt.Sprintf("%s in %s ran against this image with the wall up. Each of them had first succeeded with the wall removed. ",
		count(e.attacks(), "attack", "attacks"), count(int64(len(e.boundary.Battery.Vectors)), "vector", "vectors"))
	if n := e.gotThrough(); n > 0 {
		s += count(n, "attack", "attacks") + " below critical got through; what that contradicts is not asserted. "
	}
	r := e.boundary.RedTeam
	switch {
	case r == nil:
		return s + "No external red-team result was provided, so the figure is the battery’s alone."
	case e.redTeamChecked():
		return s + "The figure includes an external red team, which signed its own result."
	}
	return s + "The figure includes an external red team, whose result the operator passed on."
}

// figures are the few numbers below the headline.
func (e *evidence) figures() []fact {
	fs := []fact{
		{Label: "attacks withstood", Text: strconv.FormatInt(e.withstood(), 10)},
		{Label: "vectors conclusive", Text: fmt.Sprintf("%d of %d", e.conclusiveVectors(), len(e.boundary.Battery.Vectors))},
		{Label: "secrets in the evidence", Text: strconv.FormatInt(e.boundary.Redaction.Hits, 10)},
	}
	if r := e.boundary.RedTeam; r != nil {
		fs = append(fs, fact{Label: "red-team escapes, critical", Text: strconv.FormatInt(r.CriticalEscapes, 10)})
	}
	return fs
}

// conclusiveVectors counts the vectors of which the battery can tell how they went: an
// escape is conclusive too.
func (e *evidence) conclusiveVectors() int {
	n := 0
	for _, v := range e.boundary.Battery.Vectors {
		if e.stood(v.Vector) || v.Outcome == string(judge.Escaped) {
			n++
		}
	}
	return n
}

// gotThrough counts technique variants that escaped.
func (e *evidence) gotThrough() int64 {
	var n int64
	for _, outcomes := range e.boundary.Battery.Totals {
		n += outcomes[string(judge.Escaped)]
	}
	return n
}

// withstood counts technique variants that were blocked or contained.
func (e *evidence) withstood() int64 {
	var n int64
	for _, outcomes := range e.boundary.Battery.Totals {
		n += outcomes[string(judge.Blocked)] + outcomes[string(judge.Contained)]
	}
	return n
}

func count(n int64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.FormatInt(n, 10) + " " + many
}

// picture is the policy's edges as the evidence supports them.
func (e *evidence) picture() []edge {
	var out []edge
	for _, p := range e.edges {
		p, ok := e.asSupported(p)
		if !ok {
			continue
		}
		c, pos := postureOf(p.Posture)
		out = append(out, edge{ID: p.ID, Name: clean(p.Label), Text: clean(p.Description), Reason: clean(p.Reason), Chip: c, Posture: pos, Vector: p.Vector})
	}
	return out
}

// asSupported is an edge as the evidence supports it. One that is said to be denied,
// and is not shown to be, has no place; neither has a credential that is not shown
// to stay outside. What the policy lets through stays, since to leave it out would
// say less can be reached, but without what guards it.
func (e *evidence) asSupported(p policy.Edge) (policy.Edge, bool) {
	if e.supports(p) {
		return p, true
	}
	if p.Posture == policy.PostureDenied || p.ID == policy.EdgeToken {
		return p, false
	}
	p.Posture, p.Reason, p.Description = policy.PostureAllowed, "", "The policy lets it through. What guards it, a credential that stays outside or a list of artefacts, is not asserted."
	return p, true
}

// supports tells whether the evidence supports what an edge says. It says Denied only
// while its vector was blocked or contained; Brokered, or allowed with a credential
// that the sandbox never sees, only while that is so and the proxy is outside the
// sandbox; allowed for pinned artefacts only, while that is so.
func (e *evidence) supports(p policy.Edge) bool {
	withstood := p.Vector == "" || e.stood(p.Vector)
	switch {
	case p.Posture == policy.PostureBrokered, p.Reason == policy.EdgeBrokeredToken, p.Reason == policy.EdgeInjected:
		return withstood && e.boundary.Proxy.Placement == outsideSandbox
	case p.Posture == policy.PostureDenied, p.Reason == policy.EdgePinned:
		return withstood
	}
	return true
}

// stood tells whether the wall stood against a vector: it was blocked or contained.
func (e *evidence) stood(vector string) bool {
	return slices.ContainsFunc(e.boundary.Battery.Vectors, func(v predicate.Vector) bool {
		return v.Vector == vector && (v.Outcome == string(judge.Blocked) || v.Outcome == string(judge.Contained))
	})
}

func postureOf(p policy.Posture) (chip, posture) {
	switch p {
	case policy.PostureAllowed:
		return chip{Word: "Allowed", Glyph: "allowed"}, allowed
	case policy.PostureBrokered:
		return chip{Word: "Brokered", Glyph: "brokered", Class: "broker"}, brokered
	}
	return chip{Word: "Denied", Glyph: "denied", Class: "wall"}, denied
}

// outcomeChip gives the word of an outcome with its glyph.
func outcomeChip(outcome string) chip {
	switch judge.Outcome(outcome) {
	case judge.Blocked:
		return chip{Word: "Blocked", Glyph: "denied", Class: "wall"}
	case judge.Contained:
		return chip{Word: "Contained", Glyph: "contained"}
	case judge.Escaped:
		return chip{Word: "Escaped", Glyph: "escaped", Class: "alarm"}
	case judge.NotApplicable:
		return chip{Word: "Not applicable", Glyph: "none", Class: "plain"}
	case judge.NotTested:
		return chip{Word: "Not tested", Glyph: "open", Class: "plain"}
	}
	return chip{Word: "Inconclusive", Glyph: "open", Class: "plain"}
}

// vectorRows is the battery's table. A vector that is neither blocked nor
// contained has no row in a claim.
func (e *evidence) vectorRows() []vectorRow {
	var rows []vectorRow
	for _, v := range e.boundary.Battery.Vectors {
		if !e.stood(v.Vector) {
			continue
		}
		t := e.boundary.Battery.Totals[v.Vector]
		r := vectorRow{ID: clean(v.Vector), Name: catalog.VectorTitle(catalog.Vector(v.Vector)), Probe: probeText[v.Vector], Severity: title(v.Severity), Chip: outcomeChip(v.Outcome)}
		for outcome, n := range t {
			switch judge.Outcome(outcome) {
			case judge.Blocked:
				r.Blocked = n
			case judge.Contained:
				r.Contained = n
			default:
				r.Other += n
			}
		}
		rows = append(rows, r)
	}
	return rows
}

// probeText says in one line what a vector tries.
var probeText = map[string]string{
	"TOK": "Steal or misuse a credential that the run could write with",
	"IMD": "Reach the cloud's instance metadata and its credentials",
	"LAT": "Reach private addresses, the host and control interfaces",
	"NET": "Reach a host that the policy does not name, by any protocol",
	"TEN": "Reach another tenant's files, processes or network",
	"SNP": "Find what an earlier run left in a snapshot",
	"ENV": "Find secrets in environment, files, processes and memory",
	"INJ": "Make an obedient agent hand over a secret",
}

func title(s string) string {
	if s == "" {
		return ""
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

func (e *evidence) threat() *review {
	t := e.boundary.ThreatModel
	if t == nil {
		return nil
	}
	return &review{
		Text: "Part of the signed statement, bound to the image digest.",
		Facts: facts(
			fact{Label: "Scope", Text: clean(t.Scope)},
			fact{Label: "Trust assumption", Text: clean(t.TrustAssumption)},
			fact{Label: "Primary asset", Text: clean(t.PrimaryAsset)},
			fact{Label: "Boundary", Text: clean(t.Boundary)},
			fact{Label: "Document", Digest: clean(t.Digest)},
		),
	}
}

// redTeamChecked tells whether the red team's own signature was verified: of a
// result that is said to be signed, the check passes only then. What the
// predicate alone says is the operator's word.
func (e *evidence) redTeamChecked() bool {
	return e.boundary.RedTeam != nil && e.boundary.RedTeam.Attestor == predicate.RedTeamSigned &&
		slices.ContainsFunc(e.checks, func(k check) bool {
			return k.name == verify.CheckRedTeam && k.status == string(verify.Pass)
		})
}

func (e *evidence) redTeam() *review {
	r := e.boundary.RedTeam
	if r == nil {
		return nil
	}
	text := "Asserted by the operator: the result was handed over without a signature of the red team."
	switch {
	case e.redTeamChecked():
		text = "Signed by the red team's own key. Valid as long as this attestation."
	case r.Attestor == predicate.RedTeamSigned:
		text = "Asserted by the operator: it carries a signature, which was not checked against a key of the red team."
	}
	return &review{
		Text: text,
		Facts: facts(
			fact{Label: "Engagement", Text: clean(r.Engagement)},
			fact{Label: "Critical escapes", Text: strconv.FormatInt(r.CriticalEscapes, 10)},
			fact{Label: "Last run", Time: on(parseTime(r.LastRun))},
			fact{Label: "Valid until", Time: on(e.expires)},
			fact{Label: "Target", Digest: clean(r.Target)},
			fact{Label: "Result", Digest: clean(r.ResultDigest)},
		),
	}
}

// facts drops those that say nothing.
func facts(fs ...fact) []fact {
	return slices.DeleteFunc(fs, func(f fact) bool { return f.Text == "" && f.Name == "" && f.Digest == "" && f.Time.ISO == "" })
}

func (e *evidence) trail() []step {
	b := e.boundary
	steps := []step{{"Battery manifest", "sha256:" + clean(b.Battery.Head), fmt.Sprintf("%d chained lines, from the run's first fact to its totals", b.Battery.Count)}}
	if r := b.RedTeam; r != nil {
		steps = append(steps, step{"Red-team result", clean(r.Digest), clean(r.Engagement)})
	} else {
		steps = append(steps, step{"Red-team result", "", "Not provided"})
	}
	if t := b.ThreatModel; t != nil {
		steps = append(steps, step{"Threat model", clean(t.Digest), clean(t.File)})
	} else {
		steps = append(steps, step{"Threat model", "", "Not provided"})
	}
	steps = append(steps, step{"Attestation", e.digest, "in-toto statement, signed by " + clean(e.signer)})
	if e.bundle != "" {
		steps = append(steps, step{"Signed bundle", clean(e.bundle), "The file that holds the attestation and its signature"})
	}
	if r := e.rerun; r != nil {
		steps = append(steps, step{"Verifier re-run", "", r.text()})
	}
	return steps
}

func (r *rerun) text() string {
	who := "by the attester itself"
	if r.independent {
		who = "by an independent verifier, " + r.by
	}
	return "Signed " + on(r.at).Text + ", " + who
}

// isolationKernel is the fact that says whose kernel the code ran on.
const isolationKernel = "kernel"

func kernelText(d manifest.Driver) string {
	switch d.Isolation[isolationKernel] {
	case "own":
		return "on a kernel of its own"
	case "shared":
		return "on the host's kernel, which it shares"
	}
	return "on a kernel whose kind was not measured"
}
