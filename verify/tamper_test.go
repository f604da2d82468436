package verify_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/attest/packet"
	"github.com/wallproof/wallproof/attest/packettest"
	"github.com/wallproof/wallproof/attest/predicate"
	"github.com/wallproof/wallproof/internal/canon"
	"github.com/wallproof/wallproof/probes/catalog"
	"github.com/wallproof/wallproof/verify"
)

// The tamper matrix: for everything that is signed, one change at a time, tried
// as it is and again rebuilt and signed with the trusted key, so that it is the
// meaning that is refused and not only the signature.

// excused are changes that are accepted, each for its reason. Where is matched
// with the whole of "op path".
type excused struct {
	where  *regexp.Regexp
	reason string
	either bool // some changes of this kind are refused, by form or meaning
}

func excuse(pattern, reason string) excused {
	return excused{where: regexp.MustCompile(`\A(?:` + pattern + `)\z`), reason: reason}
}

// perhaps excuses changes of which only some go unnoticed, because the pattern
// does not tell which byte of a file was changed.
func perhaps(pattern, reason string) excused {
	e := excuse(pattern, reason)
	e.either = true
	return e
}

// tally counts what a part of the matrix did.
type tally struct {
	t        *testing.T
	excused  []excused
	refused  int
	rebuilt  int // changes that rebuilding the chain undid
	accepted map[string]int
}

func newTally(t *testing.T, list ...excused) *tally {
	return &tally{t: t, excused: list, accepted: map[string]int{}}
}

// catalogTechnique is short for a signature.
type catalogTechnique = catalog.Technique

// judge demands that a report refuses, with one of the codes, or is excused.
func (y *tally) judge(where string, r verify.Report, codes ...verify.Code) {
	y.t.Helper()
	for _, e := range y.excused {
		if e.where.MatchString(where) {
			if r.Verdict != verify.Invalid {
				y.accepted[e.reason]++
				return
			}
			y.refused++
			if !e.either {
				y.t.Errorf("%s: is excused (%s), but refused:%s", where, e.reason, explain(r))
			}
			return
		}
	}
	y.refused++
	if r.Verdict != verify.Invalid {
		y.t.Errorf("%s: %s, want invalid", where, r.Verdict)
		return
	}
	if len(codes) > 0 && !slices.ContainsFunc(codes, r.Has) {
		y.t.Errorf("%s: refused, but with none of %v:%s", where, codes, explain(r))
	}
}

func (y *tally) done(least int) {
	y.t.Helper()
	y.t.Logf("%d changes refused; %d undone by rebuilding", y.refused, y.rebuilt)
	for reason, n := range y.accepted {
		y.t.Logf("%d accepted: %s", n, reason)
	}
	if y.refused < least {
		y.t.Errorf("only %d changes were tried, expected at least %d", y.refused, least)
	}
}

// withStatement is the packet with another statement under its old signature.
func withStatement(t *testing.T, p *packettest.Packet, statement []byte) verify.Input {
	t.Helper()
	bundle := parseTree(p.Files[packet.AttestationFile])
	bundle.member("dsseEnvelope").member("payload").raw = `"` + base64.StdEncoding.EncodeToString(statement) + `"`
	in := p.Input()
	in.Bundle = bundle.bytes()
	return in
}

func (n *node) member(name string) *node {
	i := slices.Index(n.names, name)
	return n.elems[i]
}

// resigned is the packet with another statement, signed by the trusted key, and
// a re-run that fits it.
func resigned(t *testing.T, p *packettest.Packet, statement []byte) verify.Input {
	t.Helper()
	in := p.Input()
	in.Bundle = p.Sign(t, statement)
	in.Verification = p.SignRerun(t, statement)
	return in
}

func TestTamperStatement(t *testing.T) {
	p := smallPacket(t)
	asIs := newTally(t)
	signed := newTally(t, excuse(`flip predicate\.(attested|expires)`, "only the signer knows it: another time, in the same order"))
	for _, m := range mutations(p.Statement) {
		where := m.op + " " + m.path
		asIs.judge(where, verify.Verify(withStatement(t, p, m.data)), verify.CodeSignatureInvalid)
		signed.judge(where, verify.Verify(resigned(t, p, m.data)), statementCodes(m.path)...)
	}
	asIs.done(700)
	signed.done(700)
}

// statementCodes are the codes with which a change of a statement's member may
// be refused.
func statementCodes(path string) []verify.Code {
	malformed := []verify.Code{verify.CodeStatementMalformed, verify.CodePredicateMalformed}
	switch {
	case !strings.HasPrefix(path, "predicate."):
		// An exchange of a member's value with its neighbour's gives a document whose
		// own members are of other types.
		return append(malformed, verify.CodeStatementType, verify.CodePredicateType, verify.CodeSubjectCount, verify.CodeSubjectImage, verify.CodeClaimsDiffer)
	case strings.HasPrefix(path, "predicate.files"):
		return append(malformed, verify.CodeClaimsDiffer, verify.Code(packet.ReasonUnlisted), verify.Code(packet.ReasonMissing), verify.Code(packet.ReasonSize),
			verify.Code(packet.ReasonDigest), verify.Code(packet.ReasonIndex))
	case strings.HasPrefix(path, "predicate.battery"):
		return append(malformed, verify.CodeClaimsDiffer, verify.CodeManifestRebuilt, verify.CodeManifestCount, verify.CodeManifestRoot)
	case strings.HasPrefix(path, "predicate.image"):
		return append(malformed, verify.CodeClaimsDiffer, verify.CodeSubjectImage)
	case path == "predicate.attested" || path == "predicate.expires" || path == "predicate.collected":
		return append(malformed, verify.CodeTimesOrder, verify.CodeTimeBadForm, verify.CodeClaimsDiffer)
	}
	return append(malformed, verify.CodeClaimsDiffer)
}

// A swap of two members of an object changes their values here, not their order
// (names stay): so it is a change of meaning like the others. Their order alone
// means nothing to a reader, and a statement in another order, signed anew, is
// another statement that says the same.
func TestOrderOfMembersMeansNothing(t *testing.T) {
	p := smallPacket(t)
	root := parseTree(p.Statement)
	slices.Reverse(root.names)
	slices.Reverse(root.elems)
	if r := verify.Verify(resigned(t, p, root.bytes())); r.Verdict != verify.Valid {
		t.Errorf("%s:%s", r.Verdict, explain(r))
	}
}

// Every line and position of the manifest, as it is.
func TestTamperManifestLines(t *testing.T) {
	p := smallPacket(t)
	data := p.Files[packet.ManifestFile]
	lines := bytes.SplitAfter(data, []byte("\n"))
	lines = lines[:len(lines)-1]
	y := newTally(t)
	try := func(where string, changed []byte) {
		t.Helper()
		q := p.Clone()
		q.Files[packet.ManifestFile] = changed
		r := verify.Verify(q.Input())
		y.judge(where, r, verify.Code(packet.ReasonDigest), verify.Code(packet.ReasonSize))
		for _, c := range r.Checks {
			if c.Name == verify.CheckManifest && c.Status != verify.Fail {
				t.Errorf("%s: the manifest's own line says %s", where, c.Code)
			}
			if c.Name == verify.CheckOutcomes && c.Status == verify.Pass {
				t.Errorf("%s: outcomes were judged from unauthenticated lines", where)
			}
		}
	}
	join := func(list [][]byte) []byte { return bytes.Join(list, nil) }
	for i := range lines {
		try("drop", join(slices.Delete(slices.Clone(lines), i, i+1)))
		try("duplicate", join(slices.Insert(slices.Clone(lines), i, lines[i])))
		try("truncate", join(lines[:i]))
		if i+1 < len(lines) {
			swapped := slices.Clone(lines)
			swapped[i], swapped[i+1] = swapped[i+1], swapped[i]
			try("swap", join(swapped))
		}
		for at := 0; at < len(lines[i]); at += max(1, len(lines[i])/24) {
			changed := slices.Clone(lines)
			changed[i] = bytes.Clone(lines[i])
			changed[i][at] ^= 1
			try("flip", join(changed))
		}
	}
	for _, cut := range []int{1, 2, len(data) / 2} {
		try("truncate", data[:len(data)-cut])
	}
	y.done(500)
}

// rebuild writes a manifest from changed lines: numbers, chain, totals, count
// and head as the writer would.
func rebuild(lines [][]byte) []byte {
	prev, totals := manifest.Genesis, map[string]map[string]int64{}
	var out bytes.Buffer
	for i, l := range lines {
		m := map[string]json.RawMessage{}
		if json.Unmarshal(l, &m) != nil {
			return nil
		}
		var e struct{ Vector, Outcome, Type string }
		if json.Unmarshal(l, &e) != nil {
			return nil
		}
		if _, ok := m["seq"]; ok {
			m["seq"] = raw(i)
		}
		if _, ok := m["prev"]; ok {
			m["prev"] = raw(prev)
		}
		if e.Type == manifest.TypeTechnique {
			if totals[e.Vector] == nil {
				totals[e.Vector] = map[string]int64{}
			}
			totals[e.Vector][e.Outcome]++
		}
		if e.Type == manifest.TypeTerminal {
			m["head"], m["count"], m["totals"] = raw(prev), raw(i+1), raw(totals)
		}
		line, err := canon.Marshal(m)
		if err != nil {
			return nil
		}
		prev = predicate.Digest(line)[len("sha256:"):]
		out.Write(append(line, '\n'))
	}
	return out.Bytes()
}

func raw(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}

// forge signs a statement over changed files with the trusted key, with all that
// follows from them derived anew, the redaction proof too. It is nil where the
// files cannot even be listed.
func forge(t *testing.T, p *packettest.Packet, files packet.Memory) *verify.Input {
	t.Helper()
	var r packet.Redaction
	if canon.Unmarshal(files[packet.RedactionFile], &r) == nil {
		_ = searchAnew(files, r) // what cannot be written stays as it is, and is refused
	}
	return forgeStatement(t, p, files)
}

// searchAnew writes the redaction proof for files as they are now.
func searchAnew(files packet.Memory, r packet.Redaction) error {
	for i, s := range r.Scanned {
		data := files[s.Path]
		r.Scanned[i].Size, r.Scanned[i].SHA256 = int64(len(data)), predicate.Digest(data)[len("sha256:"):]
	}
	data, err := canon.Marshal(r)
	if err == nil {
		files[packet.RedactionFile] = data
	}
	return err
}

// forgeStatement is forge without a new redaction proof.
func forgeStatement(t *testing.T, p *packettest.Packet, files packet.Memory) *verify.Input {
	t.Helper()
	st, _, err := predicate.ParseStatement(p.Statement)
	if err != nil {
		t.Fatal(err)
	}
	var old predicate.Boundary
	if _, err := st.Decode(&old); err != nil {
		t.Fatal(err)
	}
	b, ok := verify.ForgeBoundary(files, p.Catalogue, old)
	if !ok {
		return nil
	}
	subject := st.Subject[0]
	if predicate.CheckDigest(b.Image.Digest) == nil {
		subject = predicate.SubjectOf(b.Image.Reference, b.Image.Digest)
	}
	statement, err := predicate.Marshal(subject, predicate.TypeBoundary, b)
	if err != nil {
		t.Fatal(err)
	}
	q := *p
	q.Files = files
	in := resigned(t, &q, statement)
	return &in
}

// tiny is a packet with one technique a vector.
func tiny(t *testing.T) *packettest.Packet {
	t.Helper()
	var list []catalog.Technique
	for _, c := range small() {
		if len(list) == 0 || list[len(list)-1].Vector != c.Vector {
			list = append(list, c)
		}
	}
	return packettest.New(t, packettest.Catalogue(list))
}
