package packettest

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/hex"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/wallproof/wallproof/attest"
	"github.com/wallproof/wallproof/attest/keyfile"
	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/attest/packet"
	"github.com/wallproof/wallproof/attest/predicate"
	"github.com/wallproof/wallproof/battery/parts"
	"github.com/wallproof/wallproof/internal/canon"
	"github.com/wallproof/wallproof/probes/catalog"
	"github.com/wallproof/wallproof/probes/nonce"
	"github.com/wallproof/wallproof/verify"
)

// Packet is a packet in memory with what is needed to verify it.
type Packet struct {
	Files     packet.Memory
	Key       crypto.Signer // the attester's
	Verifier  crypto.Signer // of the re-run, where VerifierKey gave one; else nil
	Statement []byte        // the signed bytes, nil when unsigned
	Catalogue []catalog.Technique
	Policy    string // digest
	Now       time.Time
}

// New makes a packet. It fails the test when it cannot.
func New(t testing.TB, options ...Option) *Packet {
	t.Helper()
	c := newConfig()
	for _, o := range options {
		o(c)
	}
	p, err := c.build()
	if err != nil {
		t.Fatalf("packettest: %v", err)
	}
	return p
}

// Input is what a verifier who trusts the packet's keys would ask.
func (p *Packet) Input() verify.Input {
	in := verify.Input{Packet: p.Files, Trust: verify.Trust{Key: p.Key.Public()}, At: p.Now, Catalogue: p.Catalogue}
	if p.Verifier != nil {
		in.VerifierTrust = &verify.Trust{Key: p.Verifier.Public()}
	}
	return in
}

// Clone copies a packet, so that a test can change its files.
func (p *Packet) Clone() *Packet {
	c := *p
	c.Files = packet.Memory{}
	for name, data := range p.Files {
		c.Files[name] = bytes.Clone(data)
	}
	return &c
}

// PublicKeyPEM is the attester's public key file.
func (p *Packet) PublicKeyPEM(t testing.TB) []byte {
	t.Helper()
	data, err := keyfile.MarshalPublicKey(p.Key.Public())
	if err != nil {
		t.Fatalf("packettest: %v", err)
	}
	return data
}

// WriteDir writes the packet's files below dir/packet and returns that path.
func (p *Packet) WriteDir(t testing.TB, dir string) string {
	t.Helper()
	root := filepath.Join(dir, "packet")
	for name, data := range p.Files {
		path := filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatalf("packettest: %v", err)
		}
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatalf("packettest: %v", err)
		}
	}
	return root
}

// Sign signs a statement's bytes with the attester's key: for tests that change
// the meaning and not the signature.
func (p *Packet) Sign(t testing.TB, statement []byte) []byte {
	t.Helper()
	signer, err := attest.NewKeySigner(p.Key)
	if err != nil {
		t.Fatalf("packettest: %v", err)
	}
	bundle, err := attest.SignStatement(context.Background(), statement, signer)
	if err != nil {
		t.Fatalf("packettest: %v", err)
	}
	return bundle
}

func (c *config) build() (*Packet, error) {
	if err := c.keys(); err != nil {
		return nil, err
	}
	files, err := c.evidence()
	if err != nil {
		return nil, err
	}
	if c.files != nil {
		c.files(files)
	}
	p := &Packet{Files: files, Key: c.key, Verifier: c.verifier, Catalogue: c.catalogue, Policy: predicate.Digest(files[packet.PolicyFile]), Now: c.attested.Add(23 * time.Hour)}
	if c.unsigned {
		return p, nil
	}
	return p, c.sign(p)
}

func (c *config) keys() (err error) {
	if c.key == nil {
		if c.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
			return err
		}
	}
	return nil
}

// evidence is what a run writes.
func (c *config) evidence() (packet.Memory, error) {
	entries, observations := c.phases()
	if c.entries != nil {
		c.entries(entries)
	}
	files := packet.Memory{packet.PolicyFile: c.policy, packet.FilterLogFile: []byte(FilterLog), packet.LogsDir + "/proxy.jsonl": []byte("{\"host\":\"github.com\",\"route\":\"tunnel\"}\n")}
	for phase, name := range map[string]string{nonce.PhaseControl: packet.ControlFile, nonce.PhaseAttack: packet.AttackFile} {
		var b bytes.Buffer
		for _, o := range observations[phase] {
			if err := packet.WriteObservation(&b, o); err != nil {
				return nil, err
			}
		}
		files[name] = b.Bytes()
	}
	var err error
	if files[packet.ManifestFile], err = c.manifest(entries, observations); err != nil {
		return nil, err
	}
	files[packet.RedactionFile], err = c.redactionFile(files)
	return files, err
}

func (c *config) manifest(entries []manifest.Technique, observations map[string][]manifest.Observation) ([]byte, error) {
	digest, err := verify.CatalogueDigest(c.catalogue)
	if err != nil {
		return nil, err
	}
	if c.run.CatalogDigest == "" {
		c.run.CatalogDigest = digest
	}
	if c.run.PolicyDigest == "" {
		c.run.PolicyDigest = predicate.Digest(c.policy)
	}
	if c.run.Sandboxes == nil {
		c.run.Sandboxes = c.wired(entries)
	}
	var b bytes.Buffer
	w := manifest.NewWriter(&b)
	if err := w.WriteRun(c.run); err != nil {
		return nil, err
	}
	for _, e := range entries {
		if err := w.WriteTechnique(e); err != nil {
			return nil, err
		}
	}
	all := slices.Concat(observations[nonce.PhaseControl], observations[nonce.PhaseAttack])
	ended := c.run.Started
	for _, o := range all {
		ended = max(ended, o.Time)
	}
	w.Note(c.edits, c.halts)
	_, err = w.Close(hex.EncodeToString(NonceKey), ended)
	return b.Bytes(), err
}

// wired lists the sandboxes of the attack, each wired as the run says.
func (c *config) wired(entries []manifest.Technique) []manifest.Wired {
	var out []manifest.Wired
	for _, e := range entries {
		name := e.Attack.Sandbox
		if name == "" || slices.ContainsFunc(out, func(w manifest.Wired) bool { return w.Sandbox == name }) {
			continue
		}
		w := manifest.Wired{Sandbox: name, PolicyDigest: c.run.PolicyDigest, Routing: c.run.Driver.Isolation[parts.FactRouting]}
		if name == string(catalog.StageFresh) || name == string(catalog.StageRestored) {
			w.Routing = manifest.RoutingNone
		}
		out = append(out, w)
	}
	return out
}

func (c *config) redactionFile(files packet.Memory) ([]byte, error) {
	r := packet.Redaction{
		Schema: packet.RedactionSchema, Secrets: 12, Encodings: []string{"raw", "base64", "hex", "percent"},
		Control: packet.RedactionControl{Planted: int64(len(files)) + 4, Found: int64(len(files)) + 4},
	}
	for _, k := range []string{packet.KindPrompt, packet.KindCrashDump} {
		r.Kinds = append(r.Kinds, packet.RedactionKind{Kind: k, Planted: 4, Found: 4, Written: k == packet.KindPrompt})
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		r.Scanned = append(r.Scanned, predicate.File{Path: name, Size: int64(len(files[name])), SHA256: predicate.Digest(files[name])[len("sha256:"):]})
	}
	if c.redaction != nil {
		c.redaction(&r)
	}
	return canon.Marshal(r)
}

// redTeamFile is the default red-team result.
func (c *config) redTeamFile() ([]byte, error) {
	if c.redTeam != nil || c.redTeamTarget == "" {
		return c.redTeam, nil
	}
	return canon.Marshal(packet.RedTeamResult{
		Schema: packet.RedTeamSchema, Engagement: "Example Security, 2026-10", Target: c.redTeamTarget,
		CriticalEscapes: c.redTeamEscape, LastRun: manifest.FormatTime(c.attested.Add(-48 * time.Hour)), ResultDigest: OtherDigest,
	})
}

// SignRerun signs a re-run, by the attester, that says that a statement passed.
func (p *Packet) SignRerun(t testing.TB, statement []byte) []byte {
	t.Helper()
	r, err := p.report(statement)
	if err == nil {
		var signer attest.Signer
		if signer, err = attest.NewKeySigner(p.Key); err == nil {
			var result attest.Result
			if result, err = attest.SignVerification(context.Background(), r, signer, "0.1.0"); err == nil {
				return result.Bundle
			}
		}
	}
	// A statement that cannot be read cannot be summarised either: any re-run does.
	return p.Files[packet.VerificationFile]
}

// report is a report that says of a statement that it is valid.
func (p *Packet) report(statement []byte) (verify.Report, error) {
	s, _, err := predicate.ParseStatement(statement)
	if err != nil {
		return verify.Report{}, err
	}
	var b predicate.Boundary
	if _, err := s.Decode(&b); err != nil {
		return verify.Report{}, err
	}
	fingerprint, err := verify.Fingerprint(p.Key.Public())
	if err != nil {
		return verify.Report{}, err
	}
	return verify.Report{
		Verdict: verify.Valid, Attestation: predicate.Digest(statement), Subject: s.Subject[0].Sha256(),
		Times: verify.Times{Checked: manifest.FormatTime(p.Now)}, Signer: &verify.Signer{Kind: "key", Fingerprint: fingerprint},
		Evidence: &verify.Evidence{Statement: s, Boundary: b},
	}, nil
}
