package site

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/wallproof/wallproof/attest/packet"
	"github.com/wallproof/wallproof/site/history"
)

// sampleSite renders a whole site from evidence that was made by hand, without a
// verifier, for tests of what pages look like.
func sampleSite(t testing.TB, dir string, theme Theme, es ...*evidence) {
	t.Helper()
	if err := theme.check(); err != nil {
		t.Fatal(err)
	}
	b := &builder{in: Input{Theme: theme, Packets: []Packet{{}}}, now: sampleNow, history: history.New(), cache: &cache{}, tree: &tree{dir: dir, out: dir}}
	b.primary = es[0].name()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	check(b.writeAssets())
	files := packet.Memory{packet.AttestationFile: []byte("{}\n"), packet.ManifestFile: []byte("{}\n"), packet.PolicyFile: []byte("{}\n"), packet.RedactionFile: []byte("{}\n"), packet.ControlFile: []byte("{}\n"), packet.AttackFile: []byte("{}\n")}
	for _, e := range es {
		r := &record{
			ID: e.id, Digest: e.digest, Subject: e.subject, Name: e.name(), Policy: e.boundary.Policy.Digest, State: e.state, Codes: e.codes(),
			Collected: at(e.collected).ISO, Expires: at(e.expires).ISO,
		}
		if e.shown() {
			r.Claim = count(e.criticalEscapes(), "critical escape", "critical escapes")
		}
		b.records = append(b.records, r)
		entry := b.note(r)
		check(b.writeAttestation(&attempt{record: r, evidence: e, job: job{packet: FSPacket("sample", files)}}, entry))
	}
	check(b.writePrimaryOf(b.records[0], es[0]))
	check(b.writeCommon())
}

// TestSampleSite renders the sample site; with WALLPROOF_SITE_SAMPLE set, into
// that folder, to be looked at.
func TestSampleSite(t *testing.T) {
	dir := os.Getenv("WALLPROOF_SITE_SAMPLE")
	if dir == "" {
		dir = t.TempDir()
	}
	for _, s := range []struct {
		name string
		e    *evidence
	}{
		{"current", sampleEvidence()},
		{"held", sampleEvidence().hold("policy-drift", "expired")},
		{"partial", sampleEvidence().hold("escape")},
	} {
		out := filepath.Join(dir, s.name)
		if err := os.RemoveAll(out); err != nil {
			t.Fatal(err)
		}
		if s.name == "partial" {
			s.e.techniques[10].Outcome, s.e.techniques[10].Reason = "escaped", "canary-obtained"
			s.e.boundary.Battery.Vectors[6].Outcome = "escaped"
		}
		sampleSite(t, out, Theme{}, s.e)
		if _, err := os.Stat(filepath.Join(out, "index.html")); err != nil {
			t.Error(err)
		}
	}
}
