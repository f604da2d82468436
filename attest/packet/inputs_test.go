package packet

import (
	"encoding/base64"
	"errors"
	"strings"
	"testing"

	"github.com/wallproof/wallproof/attest/predicate"
	"github.com/wallproof/wallproof/internal/canon"
)

const frontMatter = "---\nscope: s\ntrust-assumption: t\nprimary-asset: p\nboundary: b\n---\n"

func TestParseThreatModel(t *testing.T) {
	long := strings.Repeat("x", maxField+1)
	for _, c := range []struct {
		name, in, scope string
	}{
		{"plain", frontMatter + "# Text\n", "s"},
		{"nothing below", strings.TrimSuffix(frontMatter, "\n"), "s"},
		{"carriage returns", strings.ReplaceAll(frontMatter, "\n", "\r\n"), "s"},
		{"quoted", strings.Replace(frontMatter, ": s", `: "one: two"`, 1), "one: two"},
		{"continued", strings.Replace(frontMatter, ": s", ": one\n  two\n\tthree", 1), "one two three"},
		{"comment, blank line, other field", strings.Replace(frontMatter, "scope", "# note\n\ntitle: x\nscope", 1), "s"},
		{"other fence in the text", frontMatter + "a\n---\nscope: no\n---\n", "s"},
		{"JSON", `{"schema":"wallproof.threat-model/v1","scope":"s","trustAssumption":"t","primaryAsset":"p","boundary":"b","more":1}`, "s"},

		{"empty", "", ""},
		{"no front matter", "# Text", ""},
		{"no end", "---\nscope: s\n", ""},
		{"field missing", strings.Replace(frontMatter, "boundary: b\n", "", 1), ""},
		{"field empty", strings.Replace(frontMatter, ": b", ":", 1), ""},
		{"quotes of nothing", strings.Replace(frontMatter, ": b", `: ""`, 1), ""},
		{"field twice", strings.Replace(frontMatter, "scope", "scope: x\nscope", 1), ""},
		{"upper case", strings.Replace(frontMatter, "scope", "Scope", 1), ""},
		{"no colon", strings.Replace(frontMatter, "scope:", "scope", 1), ""},
		{"continuation first", "---\n  x\nscope: s\n---\n", ""},
		{"too long", strings.Replace(frontMatter, ": s", ": "+long, 1), ""},
		{"control character", strings.Replace(frontMatter, ": s", ": s\x1b[31m", 1), ""},
		{"not UTF-8", strings.Replace(frontMatter, ": s", ": \xff", 1), ""},
		{"JSON of another schema", `{"schema":"x","scope":"s","trustAssumption":"t","primaryAsset":"p","boundary":"b"}`, ""},
		{"JSON twice", `{"schema":"wallproof.threat-model/v1","scope":"s","scope":"s","trustAssumption":"t","primaryAsset":"p","boundary":"b"}`, ""},
		{"too large", frontMatter + strings.Repeat("x", MaxThreatModelBytes), ""},
	} {
		m, err := ParseThreatModel([]byte(c.in))
		if (err == nil) != (c.scope != "") || m.Scope != c.scope {
			t.Errorf("%s: %+v, %v", c.name, m, err)
		}
		if err != nil && !errors.Is(err, ErrThreatModel) {
			t.Errorf("%s: %v is not of its class", c.name, err)
		}
		if err == nil && (m.TrustAssumption != "t" || m.PrimaryAsset != "p" || m.Boundary != "b" || m.Digest != predicate.Digest([]byte(c.in))) {
			t.Errorf("%s: %+v", c.name, m)
		}
	}
	if _, err := ReadThreatModel(Memory{ThreatModelJSON: []byte(frontMatter)}); ReasonOf(err) != ReasonDocument {
		t.Errorf("Markdown under the name of JSON: %v", err)
	}
}

func digestOf(c string) string { return "sha256:" + strings.Repeat(c, 64) }

func ownResult(t testing.TB, change func(*RedTeamResult)) []byte {
	t.Helper()
	r := RedTeamResult{Schema: RedTeamSchema, Engagement: "E", Target: digestOf("1"), CriticalEscapes: 2, LastRun: "2026-10-01T00:00:00Z", ResultDigest: digestOf("2")}
	if change != nil {
		change(&r)
	}
	data, err := canon.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

const sarif = `{"$schema":"https://json.schemastore.org/sarif-2.1.0.json","version":"2.1.0","runs":[{
 "tool":{"driver":{"name":"scan","rules":[{"id":"R9","properties":{"security-severity":"9.1"}},{"id":"R5","properties":{"security-severity":"5.0"}}]}},
 "automationDetails":{"id":"engagement 7"},
 "invocations":[{"endTimeUtc":"2026-09-01T00:00:00Z"},{"endTimeUtc":"2026-10-01T00:00:00.5Z"}],
 "artifacts":[{"hashes":{"sha-256":"x"}},{"roles":["analysisTarget"],"hashes":{"sha-256":"1111111111111111111111111111111111111111111111111111111111111111"}}],
 "results":[
  {"ruleId":"R9","level":"warning"},
  {"ruleId":"R5","level":"error"},
  {"ruleId":"R5","properties":{"security-severity":"10"}},
  {"ruleId":"none","level":"error","suppressions":[{"kind":"inSource"}]},
  {"ruleId":"none","level":"warning"},
  {"ruleId":"R9","kind":"pass"},
  {"ruleId":"odd","properties":{"security-severity":"high"}},
  {"ruleId":"nan","properties":{"security-severity":"NaN"}}]}]}`

func TestParseRedTeam(t *testing.T) {
	own := ownResult(t, nil)
	envelope := func(payload []byte) []byte {
		data, err := canon.Marshal(Envelope{PayloadType: RedTeamPayloadType, Payload: base64.StdEncoding.EncodeToString(payload), Signatures: []Signature{{Sig: "c2ln"}}})
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	for _, c := range []struct {
		name     string
		in       []byte
		escapes  int64
		attestor string // "" means refused
	}{
		{"own form", own, 2, predicate.RedTeamOperator},
		{"without the report's digest", ownResult(t, func(r *RedTeamResult) { r.ResultDigest = "" }), 2, predicate.RedTeamOperator},
		{"SARIF", []byte(sarif), 5, predicate.RedTeamOperator},
		{"signed", envelope(own), 2, predicate.RedTeamSigned},
		{"signed SARIF", envelope([]byte(sarif)), 5, predicate.RedTeamSigned},

		{"empty", nil, 0, ""},
		{"empty object", []byte("{}"), 0, ""},
		{"another schema", ownResult(t, func(r *RedTeamResult) { r.Schema = "x" }), 0, ""},
		{"no engagement", ownResult(t, func(r *RedTeamResult) { r.Engagement = "" }), 0, ""},
		{"target malformed", ownResult(t, func(r *RedTeamResult) { r.Target = "latest" }), 0, ""},
		{"digest malformed", ownResult(t, func(r *RedTeamResult) { r.ResultDigest = "x" }), 0, ""},
		{"negative", ownResult(t, func(r *RedTeamResult) { r.CriticalEscapes = -1 }), 0, ""},
		{"time malformed", ownResult(t, func(r *RedTeamResult) { r.LastRun = "yesterday" }), 0, ""},
		{"member twice", []byte(strings.Replace(string(own), `"target"`, `"target":"x","target"`, 1)), 0, ""},
		{"unknown member", []byte(strings.Replace(string(own), `"target"`, `"note":"x","target"`, 1)), 0, ""},
		{"envelope in an envelope", envelope(envelope(own)), 0, ""},
		{"two signatures", []byte(strings.Replace(string(envelope(own)), `[{"sig":"c2ln"}]`, `[{"sig":"c2ln"},{"sig":"c2ln"}]`, 1)), 0, ""},
		{"signature not base64", []byte(strings.Replace(string(envelope(own)), "c2ln", "!", 1)), 0, ""},
		{"two runs", []byte(strings.Replace(sarif, `"runs":[`, `"runs":[{},`, 1)), 0, ""},
		{"two targets", []byte(strings.Replace(sarif, `{"hashes":{"sha-256":"x"}}`, `{"roles":["analysisTarget"],"hashes":{"sha-256":"x"}}`, 1)), 0, ""},
		{"no target", []byte(strings.Replace(sarif, "analysisTarget", "resultFile", 1)), 0, ""},
		{"another SARIF", []byte(strings.Replace(sarif, "2.1.0\",\"runs", "2.2.0\",\"runs", 1)), 0, ""},
		{"SARIF with a member twice", []byte(strings.Replace(sarif, `"results":[`, `"results":[],"results":[`, 1)), 0, ""},
	} {
		r, err := ParseRedTeam(c.in)
		if (err == nil) != (c.attestor != "") || r.CriticalEscapes != c.escapes || r.Attestor != c.attestor {
			t.Errorf("%s: %+v, %v", c.name, r.RedTeam, err)
		}
		if err != nil && !errors.Is(err, ErrRedTeam) {
			t.Errorf("%s: %v is not of its class", c.name, err)
		}
	}
}

func FuzzThreatModel(f *testing.F) {
	f.Add([]byte(frontMatter))
	f.Add([]byte("---\nscope: a\n  b\n---\n"))
	f.Add([]byte(`{"schema":"wallproof.threat-model/v1"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := ParseThreatModel(data)
		if err != nil {
			if m != (predicate.ThreatModel{}) {
				t.Fatal("a refusal leaves a value")
			}
			return
		}
		for _, v := range []string{m.Scope, m.TrustAssumption, m.PrimaryAsset, m.Boundary} {
			if v == "" || strings.ContainsAny(v, "\n\r\x00\x1b") {
				t.Fatalf("field %q", v)
			}
		}
		// What a packet keeps is read the same way again.
		again, err := ReadThreatModel(Memory{m.File: data})
		if err != nil || *again != m {
			t.Fatalf("from the packet: %+v, %v", again, err)
		}
	})
}

func FuzzRedTeam(f *testing.F) {
	f.Add([]byte(sarif))
	f.Add(ownResult(f, nil))
	f.Add([]byte(`{"payloadType":"x","payload":"e30=","signatures":[{"sig":"c2ln"}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := ParseRedTeam(data)
		if err != nil {
			return
		}
		if err := checkRedTeam(r.RedTeam); err != nil {
			t.Fatalf("accepts what does not hold: %v", err)
		}
		if (r.Attestor == predicate.RedTeamSigned) != (r.Payload != nil) {
			t.Fatal("signed without a payload, or the reverse")
		}
	})
}

// A field that goes on for as long as a document may be takes no time that a reader
// would notice; in the square of its length it would take hours.
func TestThreatModelWithoutEnd(t *testing.T) {
	long := strings.Repeat(" x\n", MaxThreatModelBytes/3-100)
	for name, c := range map[string]struct {
		data string
		ok   bool
	}{
		"a field of ours":    {"---\nscope: a\n" + long + "---\n", false},
		"somebody's field":   {"---\nscope: a\ntrust-assumption: b\nprimary-asset: c\nboundary: d\nnotes: e\n" + long + "---\n", true},
		"lines of no field":  {"---\n" + long + "---\n", false},
		"comments for ever":  {"---\n" + strings.Repeat("#\n", MaxThreatModelBytes/2-10) + "---\n", false},
		"names for ever":     {"---\n" + strings.Repeat("a:\n", MaxThreatModelBytes/3-10) + "---\n", false},
		"carriage returns":   {"---\r\n" + strings.Repeat("\r\n", MaxThreatModelBytes/2-10) + "---\r\n", false},
		"ends of a document": {strings.Repeat("---\n", MaxThreatModelBytes/4), false},
	} {
		if _, err := ParseThreatModel([]byte(c.data)); (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}
