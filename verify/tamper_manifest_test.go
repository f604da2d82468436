package verify_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"testing"

	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/attest/packet"
	"github.com/wallproof/wallproof/attest/packettest"
	"github.com/wallproof/wallproof/internal/canon"
	"github.com/wallproof/wallproof/verify"
)

// Codes with which a line of another form is refused.
var formCodes = []verify.Code{
	verify.Code(canon.ReasonSyntax), verify.Code(canon.ReasonDuplicate), verify.Code(canon.ReasonNotCanonical), verify.Code(canon.ReasonUnknownMember),
	verify.Code(canon.ReasonMissingMember), verify.Code(canon.ReasonType), verify.Code(canon.ReasonUTF8), verify.Code(canon.ReasonSurrogate),
	verify.Code(manifest.ReasonType), verify.Code(manifest.ReasonSchema), verify.Code(manifest.ReasonGenesis), verify.Code(manifest.ReasonTotals),
	verify.Code(manifest.ReasonIncomplete), verify.Code(manifest.ReasonAfterTerminal), verify.Code(manifest.ReasonTerminalCount),
	verify.Code(manifest.ReasonTerminalHead), verify.Code(manifest.ReasonReordered), verify.Code(manifest.ReasonMissing), verify.Code(manifest.ReasonChain),
	verify.Code(manifest.ReasonDuplicate), verify.Code(manifest.ReasonInserted),
}

// manifestMeaning says with which codes a change of an entry's member is refused
// when everything over it was signed anew. The first pattern that matches counts.
var manifestMeaning = []struct {
	path  *regexp.Regexp
	codes []verify.Code
}{
	{regexp.MustCompile(`^(driver|proxy|host|tool|probeDigest|substitutions|image|catalogDigest|policyDigest|runId|enforcement|started|schema)`), []verify.Code{
		verify.CodeRunFact, verify.CodeManifestRun, verify.CodeNotApplicable, verify.CodeCatalogueUnknown, verify.CodeClaimsDiffer, verify.CodeNonce,
		verify.CodeEnforcementState, verify.CodeEnforcementOther, verify.CodeTimeBadForm, verify.CodeObservationsTime, verify.CodeRunLength, verify.CodeTimesOrder}},
	{regexp.MustCompile(`^sandboxes`), []verify.Code{verify.CodeWiring}},
	{regexp.MustCompile(`^(control|attack)`), []verify.Code{verify.CodeObservationsDiffer, verify.CodeObservationsStray, verify.CodeNonce, verify.CodeSandbox,
		verify.CodeHeartbeat, verify.CodeFilterLog, verify.CodeOutcomesDiffer, verify.CodeProxyLog}},
	{regexp.MustCompile(`^(outcome|reason|findings|fact|notApplicable)`), []verify.Code{verify.CodeOutcomesDiffer, verify.CodeNotApplicable}},
	{regexp.MustCompile(`^(technique|variant|vector|severity)`), []verify.Code{verify.CodeCatalogueTechnique, verify.CodeNonce, verify.CodeTechniqueMissing,
		verify.CodeTechniqueOrder, verify.CodeOutcomesDouble}},
	{regexp.MustCompile(`^(nonceKey|ended)`), []verify.Code{verify.CodeNonceKey, verify.CodeNonce, verify.CodeTimeBadForm, verify.CodeObservationsTime,
		verify.CodeTimesOrder, verify.CodeRunLength}},
	// An exchange with the member that stands beside it in the line.
	{regexp.MustCompile(`^(prev|head)`), []verify.Code{verify.CodeNonceKey, verify.CodeNonce, verify.CodeOutcomesDiffer, verify.CodeRunFact, verify.CodeManifestRun}},
	{regexp.MustCompile(``), nil},
}

func meaningCodes(path string) []verify.Code {
	for _, m := range manifestMeaning {
		if m.path.MatchString(path) {
			return slices.Concat(m.codes, formCodes)
		}
	}
	return nil
}

// TestTamperManifestMeaning changes every member of every entry, rebuilds the
// chain, derives the statement anew and signs all of it with the trusted key.
func TestTamperManifestMeaning(t *testing.T) {
	p := tiny(t)
	lines := manifestLines(p)
	const fact = "a fact of the run that nothing else in a packet shows, in its proper form"
	y := newTally(t,
		excuse(`flip (image\.(digest|indexDigest)|(driver|proxy)\.configDigest|probeDigest)`, fact),
		excuse(`drop image\.indexDigest`, fact),
		excuse(`(flip|truncate) (image\.reference|driver\.(name|version)|proxy\.(version|placement)|tool\.version|host\.kernel)`, fact),
		excuse(`swap (driver\.name|proxy\.placement|image\.digest)`, fact),
		excuse(`(flip|truncate|swap) driver\.isolation\.\w+(\.\w+)?`, fact),
		excuse(`swap sandboxes\[\d\]`, "the order of a list of names"),
		excuse(`flip (started|ended)`, "a time of the run within the tolerance for clocks"),
	)
	// Facts that decide something are refused in every other form.
	for i := range y.excused {
		y.excused[i].either = true
	}
	tried := map[string]bool{}
	for n, l := range lines {
		for _, m := range mutations(l) {
			tried[member(m.path)] = true
			changed := slices.Clone(lines)
			changed[n] = m.data
			y.meaning(p, m.op+" "+m.path, rebuild(changed), meaningCodes(m.path)...)
		}
	}
	everyMember(t, lines, tried)
	y.done(1400)
}

// member is a path without its indices.
func member(path string) string { return regexp.MustCompile(`\[\d+\]`).ReplaceAllString(path, "[]") }

// everyMember demands that each member that any line has was changed.
func everyMember(t *testing.T, lines [][]byte, tried map[string]bool) {
	t.Helper()
	for n, l := range lines {
		for _, path := range paths(parseTree(l), "") {
			if !tried[member(path)] {
				t.Errorf("line %d: member %s was never changed", n, path)
			}
		}
	}
}

// paths lists the paths of all members and elements below a value.
func paths(n *node, at string) []string {
	var out []string
	for i, e := range n.elems {
		path := fmt.Sprintf("%s[%d]", at, i)
		if n.kind == '{' {
			path = n.names[i]
			if at != "" {
				path = at + "." + n.names[i]
			}
		}
		out = append(append(out, path), paths(e, path)...)
	}
	return out
}

func manifestLines(p *packettest.Packet) [][]byte {
	return bytes.Split(bytes.TrimSuffix(p.Files[packet.ManifestFile], []byte("\n")), []byte("\n"))
}

// meaning tries one change of the manifest, signed anew.
func (y *tally) meaning(p *packettest.Packet, where string, data []byte, codes ...verify.Code) {
	y.t.Helper()
	if data == nil || bytes.Equal(data, p.Files[packet.ManifestFile]) {
		// Not JSON objects any more, which the lines' own test covers; or a change
		// to what whoever rebuilds a chain computes anew.
		y.rebuilt++
		return
	}
	q := p.Clone()
	q.Files[packet.ManifestFile] = data
	y.judge(where, verify.Verify(*forge(y.t, p, q.Files)), codes...)
}

// TestTamperManifestOrder drops, doubles, exchanges and takes from another packet
// every line, and cuts the manifest behind each, and signs all of it anew. A line
// that is dropped or exchanged takes its observations along, so that nothing
// remains of it anywhere.
func TestTamperManifestOrder(t *testing.T) {
	p := tiny(t)
	escaped := packettest.New(t, packettest.Catalogue(p.Catalogue), packettest.Key(p.Key), packettest.Escape(p.Catalogue[0].ID))
	foreign := packettest.New(t, packettest.Catalogue(p.Catalogue), packettest.Key(p.Key), packettest.Run(func(r *manifest.Run) { r.RunID = "89abcdef" }))
	lines, others, beside := manifestLines(p), manifestLines(foreign), manifestLines(escaped)
	y := newTally(t)
	missing := []verify.Code{verify.CodeTechniqueMissing, verify.CodeObservationsStray}
	for n := range lines {
		at := fmt.Sprintf("line %d", n)
		form := n == 0 || n == len(lines)-1
		codes := func(list ...verify.Code) []verify.Code {
			if form {
				return formCodes
			}
			return list
		}
		y.meaning(p, "drop "+at, rebuild(slices.Delete(slices.Clone(lines), n, n+1)), codes(missing...)...)
		y.meaning(p, "duplicate "+at, rebuild(slices.Insert(slices.Clone(lines), n, lines[n])), codes(verify.CodeOutcomesDouble)...)
		y.meaning(p, "truncate "+at, rebuild(lines[:n]), formCodes...)
		if n+1 < len(lines) {
			swapped := slices.Clone(lines)
			swapped[n], swapped[n+1] = swapped[n+1], swapped[n]
			y.meaning(p, "swap "+at, rebuild(swapped), append(slices.Clone(formCodes), verify.CodeTechniqueOrder)...)
		}
		taken := slices.Clone(lines)
		taken[n] = others[n]
		y.meaning(p, "swap with another run's "+at, rebuild(taken), append(codes(verify.CodeNonce), verify.CodeNonce)...)
		if !form {
			y.wholly(p, "drop, with its observations, "+at, n, nil, verify.CodeTechniqueMissing)
		}
	}
	// What escaped cannot be shown as blocked: neither by its entry, nor with the
	// observations of a run in which it was.
	taken := manifestLines(escaped)
	taken[1] = lines[1]
	y.meaning(escaped, "an escape shown as blocked", rebuild(taken), verify.CodeObservationsDiffer)
	taken = slices.Clone(beside)
	taken[1] = withOutcome(t, taken[1], "blocked", "denied-by-filter")
	y.meaning(escaped, "an escape called blocked", rebuild(taken), verify.CodeOutcomesDiffer)
	y.done(55)
}

func withOutcome(t *testing.T, line []byte, outcome, reason string) []byte {
	t.Helper()
	m := map[string]json.RawMessage{}
	if err := json.Unmarshal(line, &m); err != nil {
		t.Fatal(err)
	}
	m["outcome"], m["reason"] = raw(outcome), raw(reason)
	out, err := canon.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// wholly replaces an entry, or takes it out, together with every observation of
// its nonces.
func (y *tally) wholly(p *packettest.Packet, where string, n int, with []byte, codes ...verify.Code) {
	y.t.Helper()
	lines := manifestLines(p)
	var e manifest.Technique
	if err := json.Unmarshal(lines[n], &e); err != nil {
		y.t.Fatal(err)
	}
	changed := slices.Clone(lines)
	if with == nil {
		changed = slices.Delete(changed, n, n+1)
	} else {
		changed[n] = with
	}
	q := p.Clone()
	q.Files[packet.ManifestFile] = rebuild(changed)
	for file, nonce := range map[string]string{packet.ControlFile: e.Control.Nonce, packet.AttackFile: e.Attack.Nonce} {
		var kept bytes.Buffer
		for line := range bytes.Lines(p.Files[file]) {
			if !bytes.Contains(line, []byte(`"nonce":"`+nonce+`"`)) {
				kept.Write(line)
			}
		}
		q.Files[file] = kept.Bytes()
	}
	y.judge(where, verify.Verify(*forge(y.t, p, q.Files)), codes...)
}

// TestTamperNotApplicable calls each technique variant not applicable, for each
// requirement that it has and that is met, in entry, observations and facts alike
// as far as they go: only policy and catalogue contradict it.
func TestTamperNotApplicable(t *testing.T) {
	p := tiny(t)
	y := newTally(t)
	lines := manifestLines(p)
	for n := 1; n < len(lines)-1; n++ {
		var e manifest.Technique
		if err := json.Unmarshal(lines[n], &e); err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(p.Catalogue, func(c catalogTechnique) bool { return c.ID == e.Technique })
		for _, r := range append(p.Catalogue[i].RequiresOf(e.Variant), "control-api", "model", "nothing") {
			e.NotApplicable, e.Fact = string(r), "it was not there"
			e.Outcome, e.Reason, e.Findings = "not-applicable", "requirement-not-met", nil
			e.Control.Observations, e.Attack.Observations = []manifest.Observation{}, []manifest.Observation{}
			line, err := canon.Marshal(e)
			if err != nil {
				t.Fatal(err)
			}
			y.wholly(p, fmt.Sprintf("not applicable: %s, for want of %s", e.Technique, r), n, line, verify.CodeNotApplicable)
		}
	}
	y.done(25)
}
