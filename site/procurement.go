package site

import (
	"fmt"
	"strings"

	"github.com/wallproof/wallproof/attest/packet"
	"github.com/wallproof/wallproof/battery/judge"
	"github.com/wallproof/wallproof/policy"
	"github.com/wallproof/wallproof/probes/catalog"
)

// procurementView is the procurement room.
type procurementView struct {
	Boundary    *boundary
	Lede        string
	Scope       []fact
	Documents   []document
	Answers     []questionnaire
	AnswersHref string
	Mapping     []mappingRow
	Command     string
	Packet      string // address of the packet, or "" where nothing verified
}

type document struct {
	Title, Href, Note, Form string
	Download                bool
	Claim                   bool // repeats the claim, and goes with it
	Date                    moment
}

// questionnaire is one answer drawn from evidence.
type questionnaire struct {
	ID       string `json:"id"`
	Question string `json:"question"`
	Answer   string `json:"answer"`
	Evidence string `json:"evidence"` // file of the packet, or field of the statement
}

type mappingRow struct {
	Framework, ID, Title, Vectors string
	Chip                          chip
}

// Frameworks of the mapping, in the editions that the titles come from.
const (
	nist  = "NIST SP 800-53 Rev. 5"
	atck  = "MITRE ATT&CK, Containers"
	owasp = "OWASP Top 10 for LLM Applications 2025"
)

// mapping says which vectors bear on which control or technique.
var mapping = []struct {
	framework, id, title string
	vectors              []catalog.Vector
}{
	{nist, "SC-7", "Boundary Protection", []catalog.Vector{catalog.NET, catalog.IMD, catalog.LAT}},
	{nist, "AC-4", "Information Flow Enforcement", []catalog.Vector{catalog.TOK, catalog.NET, catalog.INJ}},
	{nist, "SC-39", "Process Isolation", []catalog.Vector{catalog.TEN, catalog.SNP, catalog.ENV}},
	{atck, "T1611", "Escape to Host", []catalog.Vector{catalog.ENV, catalog.LAT}},
	{atck, "T1552", "Unsecured Credentials", []catalog.Vector{catalog.ENV, catalog.IMD, catalog.SNP}},
	{atck, "T1528", "Steal Application Access Token", []catalog.Vector{catalog.TOK, catalog.INJ}},
	{atck, "T1613", "Container and Resource Discovery", []catalog.Vector{catalog.LAT, catalog.TEN}},
	{atck, "T1046", "Network Service Discovery", []catalog.Vector{catalog.LAT, catalog.NET}},
	{owasp, "LLM01", "Prompt Injection", []catalog.Vector{catalog.INJ}},
	{owasp, "LLM02", "Sensitive Information Disclosure", []catalog.Vector{catalog.TOK, catalog.ENV, catalog.SNP}},
	{owasp, "LLM06", "Excessive Agency", []catalog.Vector{catalog.INJ, catalog.TOK, catalog.NET}},
}

// mappingRows leaves out a row whose vectors do not all support a claim.
func (e *evidence) mappingRows() []mappingRow {
	outcome := map[string]string{}
	for _, v := range e.boundary.Battery.Vectors {
		outcome[v.Vector] = v.Outcome
	}
	var rows []mappingRow
rows:
	for _, m := range mapping {
		word := judge.Blocked
		names := make([]string, 0, len(m.vectors))
		for _, v := range m.vectors {
			switch judge.Outcome(outcome[string(v)]) {
			case judge.Blocked:
			case judge.Contained:
				word = judge.Contained
			default:
				continue rows
			}
			names = append(names, catalog.VectorTitle(v))
		}
		rows = append(rows, mappingRow{m.framework, m.id, m.title, strings.Join(names, ", "), outcomeChip(string(word))})
	}
	return rows
}

// questions answers what questionnaires ask, from the evidence.
func (e *evidence) questions() []questionnaire {
	b := e.boundary
	admission, _ := admissionText(b.Admission)
	out := []questionnaire{
		{"isolation", "How is untrusted code isolated?", strings.Join(e.whereItRuns(), " "), "statement: predicate.fabric"},
		{"egress-default", "What is the default for outbound traffic?", fmt.Sprintf("%s by default. %s", title(clean(b.Policy.EgressDefault)), e.mustPart("egress")), packet.PolicyFile},
		{"destinations", "Which destinations are reachable?", e.destinations(), packet.PolicyFile},
		{"credentials", "Does untrusted code hold credentials?", e.mustPart("proxy"), "statement: predicate.proxy"},
		{"secrets-in-evidence", "Are secrets kept out of logs and evidence?", redactionText(b.Redaction), packet.RedactionFile},
		{"tenants", "Are tenants separated?", e.vectorAnswer(catalog.TEN), packet.ManifestFile},
		{"metadata", "Is the cloud's metadata service protected?", e.vectorAnswer(catalog.IMD), packet.ManifestFile},
		{"injection", "Is prompt injection tested?", e.vectorAnswer(catalog.INJ), packet.ManifestFile},
		{"supply-chain", "Is the image checked before it runs?", admission, "statement: predicate.admission"},
		{"external-test", "Has an external party tested the boundary?", e.mustPart("external"), redTeamFile(e)},
		{"threat-model", "Is there a threat model?", e.mustPart("threats"), threatFile(e)},
		{"validity", "How long is the evidence valid?", fmt.Sprintf("Collected %s, valid until %s, and withdrawn before that on drift of image, policy or fabric.", at(e.collected).Text, at(e.expires).Text), "statement: predicate.expires"},
		{"verification", "Can the evidence be verified independently?", "Yes: offline, by anyone, from the packet alone, on the command line or in the browser.", packet.AttestationFile},
	}
	return out
}

// mustPart is what a part asserts, or asserts not, in words; of a part that an
// escape contradicts, that.
func (e *evidence) mustPart(id string) string {
	if e.contradicted(id) {
		return contradiction + "; the attestation's page names it."
	}
	s, _ := e.part(id)
	return s
}

func threatFile(e *evidence) string {
	if t := e.boundary.ThreatModel; t != nil {
		return clean(t.File)
	}
	return "statement: predicate.threatModel"
}

func redTeamFile(e *evidence) string {
	if e.boundary.RedTeam != nil {
		return packet.RedTeamFile
	}
	return "statement: predicate.redTeam"
}

func (e *evidence) destinations() string {
	var words []string
	for _, p := range e.edges {
		if p, ok := e.asSupported(p); ok && p.Posture != policy.PostureDenied {
			words = append(words, clean(p.Label)+" ("+strings.ToLower(string(p.Posture))+")")
		}
	}
	if len(words) == 0 {
		return "None."
	}
	return title(list(words, "and")) + ". The policy in the packet names every host."
}

func (e *evidence) vectorAnswer(v catalog.Vector) string {
	for _, r := range e.vectorRows() {
		if r.ID == string(v) {
			return fmt.Sprintf("%s: %s blocked and %d contained, each after it had succeeded without the wall.", r.Chip.Word, count(r.Blocked, "attack", "attacks"), r.Contained)
		}
	}
	return "No conclusive result supports an answer."
}
