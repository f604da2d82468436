package verify_test

import (
	"bytes"
	"context"
	"crypto/elliptic"
	"encoding/asn1"
	"encoding/base64"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"

	protobundle "github.com/sigstore/protobuf-specs/gen/pb-go/bundle/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/wallproof/wallproof/attest"
	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/attest/packet"
	"github.com/wallproof/wallproof/attest/packettest"
	"github.com/wallproof/wallproof/attest/predicate"
	"github.com/wallproof/wallproof/internal/canon"
	"github.com/wallproof/wallproof/verify"
)

// TestTamperFiles changes every file of the packet: as it is, and with the
// signed index (and, a second time, the redaction proof too) brought up to date.
func TestTamperFiles(t *testing.T) {
	p := smallPacket(t, transcripts(t))
	asIs, indexed := newTally(t), newTally(t)
	derived := newTally(t,
		perhaps(`(empty|duplicate|truncate|flip) logs/proxy\.jsonl`, "lines of the proxy's log that no denial rests on; its digest is signed"),
		perhaps(`(empty|duplicate|truncate|flip) logs/(agent|image)\.jsonl`, "what an agent and the image's program said and did, of which nothing counts; its digest is signed"),
		perhaps(`flip logs/filter\.jsonl`, "what was checked of the packet filter, in words; its digest is signed"),
		perhaps(`(duplicate|truncate|flip) threat-model\.md`, "the text of the document below its front matter; its digest is signed"),
		perhaps(`flip redteam\.json`, "the red team's own words; its digest is signed"),
		perhaps(`flip redaction\.json`, "counts of the search, which only the searcher knows"),
		perhaps(`flip observations/\w+\.jsonl`, "a detail of a heartbeat that does not decide whether it lived"),
		excuse(`drop (redteam\.json|threat-model\.md)`, "signed anew without it: a packet that says so"),
	)
	for _, name := range slices.Sorted(maps.Keys(p.Files)) {
		if packet.IsBundle(name) {
			continue
		}
		for _, c := range fileChanges(p.Files[name]) {
			with := func() packet.Memory {
				q := p.Clone()
				if c.data == nil {
					delete(q.Files, name)
				} else {
					q.Files[name] = c.data
				}
				return q.Files
			}
			where := c.op + " " + name
			in := p.Input()
			in.Packet = with()
			asIs.judge(where, verify.Verify(in), verify.Code(packet.ReasonDigest), verify.Code(packet.ReasonSize), verify.Code(packet.ReasonMissing))
			if writtenByRun := name != packet.RedTeamFile && name != packet.ThreatModelMD && name != packet.RedactionFile; writtenByRun {
				indexed.signed(p, with(), where, forgeStatement)
			}
			derived.signed(p, with(), where, forge)
		}
	}
	asIs.done(40)
	indexed.done(20)
	derived.done(20)
}

// transcripts are the logs of a real run that nothing in a packet rests on.
func transcripts(t *testing.T) packettest.Option {
	return packettest.Files(func(files packet.Memory) {
		var r packet.Redaction
		if err := canon.Unmarshal(files[packet.RedactionFile], &r); err != nil {
			t.Fatal(err)
		}
		for name, line := range map[string]string{
			"logs/agent.jsonl": `{"agent":"obedient","phase":"attack","role":"command","technique":"INJ-README","text":"env"}`,
			"logs/image.jsonl": `{"detail":"ended: exit status 0","disturbed":false,"phase":"attack","program":["/bin/sh"],"unauthenticatedLines":0}`,
		} {
			files[name] = []byte(line + "\n")
			r.Scanned = append(r.Scanned, predicate.File{Path: name})
			r.Control.Planted, r.Control.Found = r.Control.Planted+1, r.Control.Found+1
		}
		slices.SortFunc(r.Scanned, func(a, b predicate.File) int { return strings.Compare(a.Path, b.Path) })
		if err := searchAnew(files, r); err != nil {
			t.Fatal(err)
		}
	})
}

// signed judges files over which everything was signed anew, where that can be
// done.
func (y *tally) signed(p *packettest.Packet, files packet.Memory, where string, forge func(*testing.T, *packettest.Packet, packet.Memory) *verify.Input) {
	y.t.Helper()
	in := forge(y.t, p, files)
	if in == nil {
		i := p.Input()
		i.Packet = files
		in = &i
	}
	y.judge(where, verify.Verify(*in))
}

type fileChange struct {
	op   string
	data []byte // nil: the file is not there
}

func fileChanges(data []byte) []fileChange {
	out := []fileChange{{"drop", nil}, {"empty", []byte{}}, {"duplicate", bytes.Repeat(data, 2)}, {"truncate", data[:len(data)-2]}, {"truncate", data[:len(data)/2]}}
	for i := 0; i < 6; i++ {
		changed := bytes.Clone(data)
		changed[i*(len(data)-1)/5] ^= 1
		out = append(out, fileChange{"flip", changed})
	}
	return out
}

// Files that do not belong, and files in each other's place.
func TestTamperLayout(t *testing.T) {
	p := smallPacket(t)
	other := smallPacket(t, packettest.Key(p.Key), packettest.StartedAt(packettest.Started.Add(time.Hour)))
	y := newTally(t)
	for _, name := range []string{"x", "notes.txt", "logs/extra.log", "logs/.hidden", "observations/other.jsonl", "threat-model.json", "Manifest.jsonl", "sub/manifest.jsonl", ".DS_Store"} {
		q := p.Clone()
		q.Files[name] = []byte("x")
		y.judge("extra "+name, verify.Verify(q.Input()), verify.Code(packet.ReasonUnlisted), verify.Code(packet.ReasonName))
	}
	for name := range p.Files {
		if bytes.Equal(p.Files[name], other.Files[name]) {
			continue
		}
		q := p.Clone()
		q.Files[name] = other.Files[name]
		y.judge("swap "+name+" with another packet's", verify.Verify(q.Input()))
	}
	q := p.Clone()
	q.Files[packet.ControlFile], q.Files[packet.AttackFile] = q.Files[packet.AttackFile], q.Files[packet.ControlFile]
	y.judge("swap observations", verify.Verify(q.Input()), verify.Code(packet.ReasonDigest), verify.Code(packet.ReasonSize))
	in := forge(t, p, q.Files)
	y.judge("swap observations, signed", verify.Verify(*in), verify.CodeObservationsDiffer, verify.CodeObservationsStray, verify.CodeHeartbeat)
	q = p.Clone()
	q.Files[packet.AttestationFile], q.Files[packet.VerificationFile] = q.Files[packet.VerificationFile], q.Files[packet.AttestationFile]
	y.judge("swap bundles", verify.Verify(q.Input()), verify.CodePredicateType)
	y.done(14)
}

// Every part of both bundles.
func TestTamperBundles(t *testing.T) {
	p := smallPacket(t)
	const unsigned = "a hint outside the signed bytes that nothing relies on: the trusted key is the one given"
	y := newTally(t,
		excuse(`(flip|truncate|drop) verificationMaterial\.publicKey\.hint`, unsigned),
		excuse(`(white space|line feed) .*`, "white space outside the signed bytes"),
		excuse(`other root .*`, "the other root of an ECDSA signature, which every verifier accepts"),
	)
	for _, name := range []string{packet.AttestationFile, packet.VerificationFile} {
		data := p.Files[name]
		try := func(where string, changed []byte, codes ...verify.Code) {
			t.Helper()
			q := p.Clone()
			q.Files[name] = changed
			y.judge(where, verify.Verify(q.Input()), codes...)
		}
		for _, m := range mutations(data) {
			if sameBundle(data, m.data) && !strings.Contains(m.path, "hint") {
				continue
			}
			codes := []verify.Code{verify.CodeBundleMalformed, verify.CodeBundleVersion, verify.CodeBundleContent, verify.CodeSignatureInvalid, verify.CodeSignatureCount, verify.CodePayloadType}
			if name == packet.VerificationFile {
				codes = []verify.Code{verify.CodeRerunInvalid}
			}
			try(m.op+" "+m.path, m.data, codes...)
		}
		for at := 0; at < len(data)-2; at += 11 {
			changed := bytes.Clone(data)
			changed[at] ^= 1
			if sameBundle(data, changed) {
				continue
			}
			try("flip byte", changed)
		}
		for _, n := range []int{2, 3, len(data) / 2, len(data) - 1} {
			try("truncate", data[:len(data)-n])
		}
		try("white space "+name, []byte(indent(t, string(data))))
		try("line feed "+name, append(bytes.Clone(data), '\n'))
		try("other root "+name, otherRoot(t, data))
	}
	y.done(250)
}

// sameBundle reports whether two bundles are the same to their reader, but for
// the hint: Base64 has bits at its end that mean nothing.
func sameBundle(a, b []byte) bool {
	var list [2]protobundle.Bundle
	for i, data := range [][]byte{a, b} {
		if protojson.Unmarshal(data, &list[i]) != nil || list[i].GetVerificationMaterial().GetPublicKey() == nil {
			return false
		}
		list[i].GetVerificationMaterial().GetPublicKey().Hint = ""
	}
	return proto.Equal(&list[0], &list[1])
}

// otherRoot replaces an ECDSA P-256 signature (r, s) by (r, n−s).
func otherRoot(t *testing.T, bundle []byte) []byte {
	t.Helper()
	root := parseTree(bundle)
	sig := root.member("dsseEnvelope").member("signatures").elems[0].member("sig")
	der, err := base64.StdEncoding.DecodeString(strings.Trim(sig.raw, `"`))
	if err != nil {
		t.Fatal(err)
	}
	var rs struct{ R, S *big.Int }
	if _, err := asn1.Unmarshal(der, &rs); err != nil {
		t.Fatal(err)
	}
	rs.S.Sub(elliptic.P256().Params().N, rs.S)
	if der, err = asn1.Marshal(rs); err != nil {
		t.Fatal(err)
	}
	sig.raw = `"` + base64.StdEncoding.EncodeToString(der) + `"`
	return root.bytes()
}

// Every member of the re-run's statement, signed with the trusted key.
func TestTamperRerun(t *testing.T) {
	p := smallPacket(t)
	b := parseTree(p.Files[packet.VerificationFile])
	statement, err := base64.StdEncoding.DecodeString(strings.Trim(b.member("dsseEnvelope").member("payload").raw, `"`))
	if err != nil {
		t.Fatal(err)
	}
	y := newTally(t,
		excuse(`(flip|truncate|drop) predicate\.verifier\.version(\.wallproof)?|truncate predicate\.verifier`, "the verifier's own version, which nobody else knows"),
		excuse(`flip predicate\.timeVerified`, "the verifier's own time, in the same order"),
		excuse(`(flip|truncate|drop) subject\[0\]\.name|truncate subject\[0\]`, "a name beside the digest that counts"),
	)
	for _, m := range mutations(statement) {
		in := p.Input()
		in.Verification = p.Sign(t, m.data)
		y.judge(m.op+" "+m.path, verify.Verify(in), verify.CodeRerunInvalid, verify.CodeRerunOther, verify.CodeRerunLabel, verify.CodeRerunStale)
	}
	y.done(60)
}

// Every part of a bundle that an identity signed: certificate, timestamp, log
// entry, envelope. What is refused first differs; that it is refused does not.
func TestTamperIdentityBundle(t *testing.T) {
	k := newKeyless(t)
	data := bundleJSON(t, k.bundle)
	const hint = "outside what is signed, and nothing relies on it: the log entry's body says what it is, the key says whose checkpoint it is, the timestamp's signer says its digest"
	const other = "one witness less: the log's promise gives a time without the timestamp, the timestamp one without the promise"
	y := newTally(t,
		excuse(`(drop|flip|swap|truncate|flip byte) verificationMaterial\.tlogEntries\[0\]\.kindVersion(\.kind|\.version)`, hint),
		excuse(`truncate verificationMaterial\.tlogEntries\[0\]\.kindVersion`, hint),
		perhaps(`flip byte verificationMaterial\.tlogEntries\[0\]\.inclusionProof\.checkpoint\.envelope`, hint),
		perhaps(`flip byte verificationMaterial\.timestampVerificationData\.rfc3161Timestamps\[0\]\.signedTimestamp`, hint),
		excuse(`drop verificationMaterial\.timestampVerificationData(\.rfc3161Timestamps(\[0\])?)?`, other),
		excuse(`drop verificationMaterial\.tlogEntries\[0\]\.inclusionPromise(\.signedEntryTimestamp)?`, other),
	)
	try := func(where string, changed []byte) {
		t.Helper()
		if sameProto(data, changed) {
			return
		}
		in := k.input
		in.Bundle = changed
		y.judge(where, verify.Verify(in))
	}
	for _, m := range slices.Concat(mutations(data), byteFlips(data)) {
		try(m.op+" "+m.path, m.data)
	}
	y.done(1000)
}

// byteFlips changes one byte of each string at a time, at every fifth place.
func byteFlips(doc []byte) []mutation {
	root := parseTree(doc)
	var out []mutation
	var walk func(n *node, path string)
	walk = func(n *node, path string) {
		for i, e := range n.elems {
			if n.kind == '{' {
				walk(e, strings.TrimPrefix(path+"."+n.names[i], "."))
			} else {
				walk(e, fmt.Sprintf("%s[%d]", path, i))
			}
		}
		raw := n.raw
		for at := 1; at < len(raw)-1; at += 5 {
			b := []byte(raw)
			b[at] ^= 1
			n.raw = string(b)
			out = append(out, mutation{"flip byte", path, root.bytes()})
		}
		n.raw = raw
	}
	walk(root, "")
	return out
}

// sameProto reports whether two bundles are the same to their reader: Base64 has
// bits at its end that mean nothing.
func sameProto(a, b []byte) bool {
	var list [2]protobundle.Bundle
	for i, data := range [][]byte{a, b} {
		if protojson.Unmarshal(data, &list[i]) != nil {
			return false
		}
	}
	return proto.Equal(&list[0], &list[1])
}

// Every member of a scorecard under its binding, and of the binding's statement,
// signed with the trusted key.
func TestTamperScorecard(t *testing.T) {
	p := smallPacket(t)
	card := []byte(`{"schema":"wallproof.scorecard/v1","kind":"create","id":"sc-1","produced":"` + packettest.Now.Format(time.RFC3339) +
		`","image":"` + packettest.ImageDigest + `","policy":"` + p.Policy + `","score":93.5,"by":{"model":["x","y"]}}`)
	in := p.Input()
	in.Scorecard = card
	signer, err := attest.NewKeySigner(p.Key)
	if err != nil {
		t.Fatal(err)
	}
	bound, err := attest.SignBinding(context.Background(), verify.Verify(in), card, signer, packettest.Now)
	if err != nil {
		t.Fatal(err)
	}
	in.Binding = bound.Bundle
	in.Require = []verify.Requirement{verify.RequireScorecard}
	wantCode(t, verify.Verify(in), verify.Valid, verify.CodeScorecardOK)

	// A scorecard of another image, policy or time holds; it is not forged.
	y := newTally(t, perhaps(`(flip|swap) (image|policy|produced)`, "a scorecard of another image, policy or time: held, which is no pass"))
	for _, m := range mutations(card) {
		changed := in
		changed.Scorecard = m.data
		r := verify.Verify(changed)
		if r.Verdict == verify.Valid {
			t.Errorf("%s %s: valid", m.op, m.path)
		}
		y.judge(m.op+" "+m.path, r, verify.CodeScorecardMalformed, verify.CodeBindingOther)
	}
	y.done(35)

	y = newTally(t,
		excuse(`(flip|truncate|drop) subject\[0\]\.name|truncate subject\[0\]`, "a name beside the digest that counts"),
		excuse(`flip predicate\.bound`, "the gate's own time, in the same order"))
	for _, m := range mutations(bound.Statement) {
		changed := in
		changed.Binding = p.Sign(t, m.data)
		y.judge(m.op+" "+m.path, verify.Verify(changed), verify.CodeBindingInvalid, verify.CodeBindingOther)
	}
	for _, when := range []string{"2026-01-01T00:00:00.000Z", "2036-01-01T00:00:00.000Z"} {
		changed := in
		changed.Binding = p.Sign(t, bytes.Replace(bound.Statement, []byte(manifest.FormatTime(packettest.Now)), []byte(when), 1))
		wantCode(t, verify.Verify(changed), verify.VerdictHeld, verify.CodeBindingTime)
	}
	y.done(40)
}
