package verify_test

import (
	"bytes"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/attest/packettest"
	"github.com/wallproof/wallproof/attest/predicate"
	"github.com/wallproof/wallproof/battery/judge"
	"github.com/wallproof/wallproof/battery/parts"
	"github.com/wallproof/wallproof/probes/catalog"
	"github.com/wallproof/wallproof/verify"
)

// fullStatements are packets whose statements together have every member that the
// schema knows: one in which everything is there that supports a claim, and one of
// a policy that was not in force, which alone has a reason.
func fullStatements(t *testing.T) map[string]*packettest.Packet {
	t.Helper()
	lesser := slices.IndexFunc(small(), func(c catalog.Technique) bool { return c.Severity != catalog.Critical })
	full := packettest.Run(func(r *manifest.Run) {
		r.Proxy.Name, r.Proxy.CADigest = "squid", packettest.OtherDigest
		r.Tool.Commit = strings.Repeat("5a", 20)
		r.Admission = &manifest.Admission{State: manifest.AdmissionAdmitted, PolicyDigest: packettest.OtherDigest, Detail: "a signature of " + packettest.IndexDigest}
	})
	return map[string]*packettest.Packet{
		"escape":    smallPacket(t, full, packettest.Permitted(), packettest.Escape(small()[lesser].ID)),
		"no policy": smallPacket(t, full, packettest.Enforcement(manifest.EnforcementFailed, "a redirect could not be installed")),
	}
}

// schemaPaths lists the members of a type as paths, "[]" for any element and "{}"
// for any member of a map.
func schemaPaths(t reflect.Type, path string, out map[string]bool) {
	switch t.Kind() {
	case reflect.Pointer:
		schemaPaths(t.Elem(), path, out)
	case reflect.Slice:
		schemaPaths(t.Elem(), path+"[]", out)
	case reflect.Map:
		schemaPaths(t.Elem(), path+"{}", out)
	case reflect.Struct:
		for i := range t.NumField() {
			name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
			schemaPaths(t.Field(i).Type, path+"."+name, out)
		}
	default:
		out[path] = true
	}
}

// leaves lists the scalars of a document by their path in the schema, each with
// the nodes that are there.
func leaves(n *node, path string, schema map[string]bool, out map[string][]*node) {
	switch n.kind {
	case 0:
		out[path] = append(out[path], n)
	case '[':
		for _, e := range n.elems {
			leaves(e, path+"[]", schema, out)
		}
	case '{':
		for i, e := range n.elems {
			if next := path + "." + n.names[i]; known(schema, next) {
				leaves(e, next, schema, out)
			} else {
				leaves(e, path+"{}", schema, out)
			}
		}
	}
}

// known tells whether a path, or what lies below it, is in the schema.
func known(schema map[string]bool, path string) bool {
	for p := range schema {
		if rest, ok := strings.CutPrefix(p, path); ok && (rest == "" || strings.ContainsRune(".[{", rune(rest[0]))) {
			return true
		}
	}
	return false
}

// Every member that a predicate can have is in one of the statements that the
// matrix changes; one that is added to the schema fails this until it is.
func TestTamperEveryMemberOfTheSchema(t *testing.T) {
	schema, covered := map[string]bool{}, map[string][]*node{}
	schemaPaths(reflect.TypeFor[predicate.Boundary](), "", schema)
	asIs := newTally(t)
	signed := newTally(t, excuse(`[\w ]+: flip predicate\.(attested|expires)`, "only the signer knows it: another time, in the same order"))
	for name, p := range fullStatements(t) {
		in := p.Input()
		in.WithoutRerun = true
		if r := verify.Verify(in); r.Verdict == verify.Invalid {
			t.Fatalf("%s: refused before anything was changed:%s", name, explain(r))
		}
		leaves(parseTree(p.Statement).member("predicate"), "", schema, covered)
		for _, m := range mutations(p.Statement) {
			where := name + ": " + m.op + " " + m.path
			asIs.judge(where, verify.Verify(withStatement(t, p, m.data)), verify.CodeSignatureInvalid)
			signed.judge(where, verify.Verify(alone(p, p.Sign(t, m.data))), statementCodes(m.path)...)
		}
	}
	for path := range schema {
		if len(covered[path]) == 0 {
			t.Errorf("no statement of the matrix has the member %s: give fullStatements one", path)
		}
	}
	asIs.done(1500)
	signed.done(1500)
}

// alone is a packet with another attestation and no question for a re-run.
func alone(p *packettest.Packet, bundle []byte) verify.Input {
	in := p.Input()
	in.Bundle, in.WithoutRerun = bundle, true
	return in
}

// oddNumbers are numbers that two readers could take for different ones, or that
// are none.
var oddNumbers = []string{"-0", "0.0", "1.0", "1e0", "1E+2", "1e400", "-1e400", "1e-400", "0x10", "01", "+1", ".5", "1.", "NaN", "Infinity", "-",
	"9007199254740992", "9007199254740993", "-9007199254740993", "18446744073709551616", "123456789012345678901234567890", "null", "true", `"1"`, "{}", "[]"}

// oddStrings are strings that are no Unicode, or other values in a string's place.
var oddStrings = []string{`"\ud800"`, `"\udead"`, `"\udc00\ud800"`, `"a\ud83d"`, "\"\xff\"", "\"\xc0\xaf\"", "\"\xed\xa0\x80\"", "\"\x01\"", "\"\t\"", `"\x41"`, `"\u12"`, `"`, "'a'",
	"null", "0", "true", "[]", "{}"}

// Values of a wrong kind or of a form that readers disagree about, in the place of
// each number and each string of every statement, signed anew: each is refused for
// its form, and never for what a lenient reader would have made of it.
func TestTamperFormOfValues(t *testing.T) {
	schema := map[string]bool{}
	schemaPaths(reflect.TypeFor[predicate.Boundary](), "", schema)
	malformed := []verify.Code{verify.CodeStatementMalformed, verify.CodePredicateMalformed}
	y := newTally(t)
	for name, p := range fullStatements(t) {
		root := parseTree(p.Statement)
		found := map[string][]*node{}
		leaves(root.member("predicate"), "", schema, found)
		for path, nodes := range found {
			n := nodes[len(nodes)-1]
			odd, original := oddStrings, n.raw
			if n.raw[0] != '"' {
				odd = oddNumbers
			}
			for _, value := range odd {
				n.raw = value
				y.judge(fmt.Sprintf("%s: %s = %s", name, path, value), verify.Verify(alone(p, p.Sign(t, root.bytes()))), malformed...)
			}
			n.raw = original
		}
	}
	y.done(1500)
}

// Names of members that one reader takes for one and another for two.
func TestTamperNamesOfMembers(t *testing.T) {
	p := fullStatements(t)["escape"]
	malformed := []verify.Code{verify.CodeStatementMalformed, verify.CodePredicateMalformed}
	words := []string{string(judge.Blocked), string(judge.Contained), string(judge.Escaped)}
	y := newTally(t)
	for _, at := range regexp.MustCompile(`"(\w+)":`).FindAllSubmatchIndex(p.Statement, -1) {
		member := string(p.Statement[at[2]:at[3]])
		for op, twin := range map[string]string{
			"again":       member,
			"in capitals": strings.ToUpper(member),
			"escaped":     fmt.Sprintf(`\u%04x`, member[0]) + member[1:],
			"surrogate":   member + `\ud800`,
			"raw byte":    member + "\xff",
		} {
			if twin == member && op != "again" {
				continue
			}
			changed := slices.Concat(p.Statement[:at[0]], []byte(`"`+twin+`":0,`), p.Statement[at[0]:])
			codes := malformed
			if op == "in capitals" && slices.Contains(words, member) {
				codes = []verify.Code{verify.CodeClaimsDiffer} // a key of a map, and another one
			}
			y.judge(op+" "+member, verify.Verify(alone(p, p.Sign(t, changed))), codes...)
		}
	}
	if !bytes.Contains(p.Statement, []byte(`"predicate":`)) {
		t.Error("the statement is not what this test takes it for")
	}
	y.done(500)
}

// fullManifests are packets whose manifests have what the one that
// TestTamperManifestMeaning changes has not.
func fullManifests(t *testing.T) map[string]*packettest.Packet {
	t.Helper()
	facts := packettest.Run(func(r *manifest.Run) {
		r.Proxy.Name, r.Proxy.CADigest = "squid", packettest.OtherDigest
		r.Tool.Commit = strings.Repeat("5a", 20)
		r.Admission = &manifest.Admission{State: manifest.AdmissionAdmitted, PolicyDigest: packettest.OtherDigest, Detail: "a signature"}
		r.Series = &manifest.Series{ID: "0123abcd", Index: 1, Of: 3}
		r.Driver.Isolation[parts.FactRouting] = manifest.RoutingCatchAll
	})
	// What the first probe saw, with every member that an observation can have.
	seen := packettest.Observations(func(_ string, all []manifest.Observation) []manifest.Observation {
		i := slices.IndexFunc(all, func(o manifest.Observation) bool {
			return o.Side == manifest.SideProbe && o.Sign == manifest.SignRefused
		})
		if i < 0 {
			return all
		}
		o := &all[i]
		o.Errno, o.Status, o.Bytes, o.Millis, o.Detail, o.Host, o.Count = "ECONNREFUSED", 403, 12, 34, "in words", "x.example.org", 2
		return all
	})
	halts := packettest.Around(nil, []manifest.Halt{{Time: manifest.FormatTime(packettest.Started), Halted: true}, {Time: manifest.FormatTime(packettest.Started.Add(time.Second))}})
	first, chosen := small()[0].ID, &manifest.Selection{Skip: []string{small()[0].ID}}
	for _, c := range small()[1:] {
		chosen.Only = append(chosen.Only, c.ID)
		if v := string(c.Vector); !slices.Contains(chosen.Vectors, v) {
			chosen.Vectors = append(chosen.Vectors, v)
		}
	}
	return map[string]*packettest.Packet{
		"facts":    smallPacket(t, facts, seen, halts, packettest.Permitted()),
		"selected": smallPacket(t, packettest.Skip(first), packettest.Run(func(r *manifest.Run) { r.Selection = chosen })),
		"escape":   smallPacket(t, packettest.Escape(first)),
		"none":     smallPacket(t, packettest.NotApplicable(), with6(), packettest.Enforcement(manifest.EnforcementFailed, "a redirect could not be installed")),
	}
}

// onlySigned are members of entries that nothing in a packet contradicts in every
// other value, and members that this matrix does not change: edits, since a run with
// any is refused (TestD23OnePolicyThroughout), and a heartbeat's "refused", which stands
// for a policy without any path outwards (TestTamperManifestMeaning has the others).
var onlySigned = regexp.MustCompile(`^(edits\[\]\.|phase\.heartbeat\.refused$)`)

// inPhase is a member of an entry, whichever of the two phases it is in.
func inPhase(path string) string {
	return regexp.MustCompile(`^(control|attack)\.`).ReplaceAllString(path, "phase.")
}

// Every member that an entry can have and that TestTamperManifestMeaning's packet has
// not, signed anew; one that is added to the schema fails this until it is there.
func TestTamperEveryMemberOfTheManifest(t *testing.T) {
	tried := map[string]bool{}
	for _, l := range manifestLines(tiny(t)) {
		for _, path := range paths(parseTree(l), "") {
			tried[inPhase(member(path))] = true
		}
	}
	const fact = "a fact of the run that nothing else in a packet shows, in its proper form"
	y := newTally(t,
		perhaps(`facts: \w+ (admission(\.detail|\.policyDigest)?|proxy\.(caDigest|name)|tool\.commit|series(\.\w+)?)`, fact),
		perhaps(`facts: (flip halts\[\d\]\.time|drop halts(\[1\])?|truncate halts)`, "a halt for a review, which only the reviewer knows of"),
		perhaps(`selected: \w+ selection(\.\w+(\[\d+\])?)?`, "the selection of the operator, where it leaves out no more than the entries do"),
		perhaps(`none: \w+ enforcement\.reason`, "in words why the policy was not in force"),
	)
	seen := map[string]bool{}
	for name, p := range fullManifests(t) {
		in := p.Input()
		in.WithoutRerun = true
		if r := verify.Verify(in); r.Verdict == verify.Invalid {
			t.Errorf("%s: refused before anything was changed:%s", name, explain(r))
			continue
		}
		lines := manifestLines(p)
		for n, l := range lines {
			for _, m := range mutations(l) {
				if at := inPhase(member(m.path)); !tried[at] {
					seen[at] = true
					changed := slices.Clone(lines)
					changed[n] = m.data
					y.meaning(p, name+": "+m.op+" "+m.path, rebuild(changed))
				}
			}
		}
	}
	for _, typ := range []reflect.Type{reflect.TypeFor[manifest.Run](), reflect.TypeFor[manifest.Technique](), reflect.TypeFor[manifest.Terminal]()} {
		schema := map[string]bool{}
		schemaPaths(typ, "", schema)
		for path := range schema {
			at, _, _ := strings.Cut(strings.TrimPrefix(path, "."), "{}")
			if at = inPhase(at); !seen[at] && !tried[at] && !onlySigned.MatchString(at) {
				t.Errorf("no manifest of the matrix has %s of %s: give fullManifests one", at, typ)
			}
		}
	}
	y.done(100)
}
