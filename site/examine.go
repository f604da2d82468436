package site

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"github.com/wallproof/wallproof/attest/packet"
	"github.com/wallproof/wallproof/attest/predicate"
	"github.com/wallproof/wallproof/internal/canon"
	"github.com/wallproof/wallproof/policy"
	"github.com/wallproof/wallproof/probes/catalog"
	"github.com/wallproof/wallproof/site/history"
	"github.com/wallproof/wallproof/verify"
)

// glimpse is what a packet says of itself before anything is verified. It only
// orders the work and finds earlier latches; nothing of it is shown.
type glimpse struct {
	attestation string
	name        string
	subject     string
	run         string // head of the battery's manifest, "sha256:…"
	collected   time.Time
}

// peek reads a packet's bundle without verifying it. A packet that cannot be
// read gives nothing; it is opened again, and reported, when it is examined.
func (p Packet) peek() glimpse {
	if p.bundle != nil {
		b, err := p.bundle()
		if err != nil {
			return glimpse{}
		}
		return peekBundle(b)
	}
	files, closer, err := p.Open()
	if err != nil {
		return glimpse{}
	}
	defer closer.Close()
	return peek(files)
}

func peek(files fs.FS) glimpse {
	b, err := packet.ReadDocument(files, packet.AttestationFile)
	if err != nil {
		return glimpse{}
	}
	return peekBundle(b)
}

func peekBundle(b []byte) glimpse {
	var bundle struct {
		Envelope struct {
			Payload string `json:"payload"`
		} `json:"dsseEnvelope"`
	}
	if look(b, &bundle) != nil {
		return glimpse{}
	}
	payload, err := base64.StdEncoding.DecodeString(bundle.Envelope.Payload)
	if err != nil {
		return glimpse{}
	}
	g := glimpse{attestation: predicate.Digest(payload)}
	var s struct {
		Subject []struct {
			Digest map[string]string `json:"digest"`
		} `json:"subject"`
		Predicate struct {
			Image struct {
				Reference string `json:"reference"`
			} `json:"image"`
			Collected string `json:"collected"`
			Battery   struct {
				Head string `json:"head"`
			} `json:"battery"`
		} `json:"predicate"`
	}
	if look(payload, &s) != nil || len(s.Subject) != 1 || s.Predicate.Image.Reference == "" {
		return g
	}
	g.subject = "sha256:" + s.Subject[0].Digest["sha256"]
	g.name, g.collected = imageName(s.Predicate.Image.Reference), parseTime(s.Predicate.Collected).Truncate(time.Second)
	g.run = runOf(s.Predicate.Battery.Head)
	return g
}

// look reads a document that nobody vouches for.
func look(data []byte, v any) error {
	if _, err := canon.UnmarshalJSON(data, canon.Limits{}, v); err == nil {
		return nil
	}
	return json.Unmarshal(data, v) // it is refused later, and said why
}

// runOf names what was collected: the head of the battery's manifest, which no
// other run has. What is no digest names nothing.
func runOf(head string) string {
	if d := "sha256:" + head; predicate.CheckDigest(d) == nil {
		return d
	}
	return ""
}

// examine verifies one packet at a moment.
func examine(by *verify.Verifier, files fs.FS, in verify.Input, latched []history.Latch, now time.Time) verify.Report {
	in.Packet, in.Bundle, in.Verification = files, nil, nil
	in.At = now
	in.Latched = []verify.Latch{}
	for _, l := range latched {
		in.Latched = append(in.Latched, verify.Latch{Code: verify.Code(l.Code), Since: l.Since})
	}
	return by.Verify(in)
}

// stateOf says what a report means for the page. A latched drift appears under
// its own code, so that a state stays the same while only its cause was undone.
func stateOf(r verify.Report, latched []history.Latch) (State, []string) {
	var codes []string
	status := verify.Held
	if r.Verdict == verify.Invalid {
		status = verify.Fail
	}
	for _, c := range r.Checks {
		if c.Status == status && c.Code != verify.CodeLatched {
			codes = append(codes, string(c.Code))
		}
	}
	if status == verify.Fail {
		return StateInvalid, unique(codes)
	}
	for _, l := range latched {
		codes = append(codes, l.Code)
	}
	if len(codes) > 0 {
		return StateHeld, unique(codes)
	}
	if r.Verdict != verify.Valid {
		return StateHeld, []string{string(verify.CodeLatched)}
	}
	return StateCurrent, nil
}

func unique(codes []string) []string { return slices.Compact(slices.Sorted(slices.Values(codes))) }

// evidenceOf turns an authenticated report into what pages are made from. It
// returns nil for evidence that was not authenticated.
func evidenceOf(r verify.Report, state State, known map[string]catalog.Technique) *evidence {
	x := r.Evidence
	if x == nil || state == StateInvalid {
		return nil
	}
	e := &evidence{
		id: pageID(r.Attestation), digest: r.Attestation, subject: r.Subject, boundary: x.Boundary, techniques: x.Judged,
		collected: parseTime(r.Times.Collected), expires: parseTime(r.Times.Expires), state: state, catalog: known,
		bundle: r.Bundle, scorecard: x.Scorecard,
	}
	e.signing(r)
	for _, c := range r.Checks {
		e.checks = append(e.checks, check{c.Name, string(c.Status), string(c.Code), c.Message, c.Evidence})
	}
	if v := x.Rerun; v != nil {
		e.rerun = &rerun{by: clean(v.VSA.Verifier.ID), at: parseTime(v.VSA.TimeVerified), independent: !v.Self}
	}
	return e
}

// signing fills in who signed, when, and what the time rests on.
func (e *evidence) signing(r verify.Report) {
	e.signedAt = parseTime(r.Times.Signed)
	how := "asserted"
	if s := r.Signer; s != nil {
		how = s.Time
		e.algorithm, e.signer, e.fingerprint = algorithmName(s.Algorithm), signerName(*s), clean(s.Fingerprint)
		if s.LogIndex != "" {
			e.logged = "log index " + clean(s.LogIndex)
		}
	}
	switch how {
	case "timestamp":
		e.signedHow = "by a trusted timestamp"
	case "log":
		e.signedHow = "by a transparency log"
	default:
		e.signedHow = "time asserted by the signer"
	}
	if e.signedAt.IsZero() {
		e.signedAt = parseTime(r.Times.Attested)
	}
}

// algorithmNames are the public-good names of algorithms in words.
var algorithmNames = map[string]string{
	"ecdsa-sha2-256-nistp256": "ECDSA P-256 with SHA-256",
	"ecdsa-sha2-384-nistp384": "ECDSA P-384 with SHA-384",
	"ecdsa-sha2-512-nistp521": "ECDSA P-521 with SHA-512",
	"ed25519":                 "Ed25519",
	"ed25519-ph":              "Ed25519 over SHA-512",
}

func algorithmName(s string) string {
	if w := algorithmNames[s]; w != "" {
		return w
	}
	return clean(s)
}

// signerName is how a page names a signer. A key without a name of its own has
// its fingerprint's beginning.
func signerName(s verify.Signer) string {
	switch {
	case s.Identity != "":
		return plain(s.Identity + ", issuer " + s.Issuer)
	case s.Key != "" && s.Key != s.Fingerprint:
		return plain("key " + s.Key)
	}
	return "key " + shortDigest(clean(s.Fingerprint))
}

// shortDigest is enough of a digest to tell it from others at a glance. Where it
// matters the whole digest stands beside it.
func shortDigest(d string) string {
	const keep = len("sha256:") + 12
	if len(d) <= keep {
		return d
	}
	return d[:keep] + "…"
}

// edgesOf draws the edges from the policy in the packet, with the evaluator that
// enforces it. Many attestations share a policy, so what was drawn is kept.
func (b *builder) edgesOf(files fs.FS) ([]policy.Edge, error) {
	data, err := packet.ReadDocument(files, packet.PolicyFile)
	if err != nil {
		return nil, fmt.Errorf("policy of the packet: %w", err)
	}
	key := predicate.Digest(data)
	if known, ok := b.drawn.Load(key); ok {
		return known.([]policy.Edge), nil
	}
	p, err := policy.ParseCanonical(data)
	if err != nil {
		return nil, fmt.Errorf("policy of the packet: %w", err)
	}
	ev, err := policy.Compile(p)
	if err != nil {
		return nil, fmt.Errorf("policy of the packet: %w", err)
	}
	edges := ev.Edges()
	b.drawn.Store(key, edges)
	return edges, nil
}

// byID indexes a catalogue by technique id.
func byID(list []catalog.Technique) map[string]catalog.Technique {
	m := make(map[string]catalog.Technique, len(list))
	for _, t := range list {
		m[t.ID] = t
	}
	return m
}
