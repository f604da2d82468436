package site

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
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
	b := &builder{in: Input{Theme: theme.cleaned(), Packets: []Packet{{}}}, now: sampleNow, history: history.New(), cache: &cache{}, tree: &tree{dir: dir, out: dir}}
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
		a := &attempt{record: &record{}, evidence: e, files: files}
		a.fill(e, e.codes())
		r := a.record
		if e.shown() {
			r.Claim = count(e.criticalEscapes(), "critical escape", "critical escapes")
		}
		b.records = append(b.records, r)
		entry := b.note(r)
		check(b.writeAttestation(a, entry))
	}
	check(b.writePrimaryOf(b.records[0], es[0]))
	check(b.writeFleet())
	check(b.writeCommon())
}

var update = flag.Bool("update", false, "rewrite the golden files")

// assetName is the part of an asset's name that comes from its content.
var assetName = regexp.MustCompile(`-[0-9a-f]{10}\.(css|js|svg|bin)`)

// TestGolden holds whole pages against the files in testdata/golden. With
// -update it writes them.
func TestGolden(t *testing.T) {
	partial := sampleEvidence().hold("escape")
	partial.techniques[10].Outcome, partial.techniques[10].Reason = "escaped", "canary-obtained"
	partial.boundary.Battery.Vectors[6].Outcome = "escaped"
	bare := sampleEvidence()
	bare.boundary.RedTeam, bare.boundary.ThreatModel, bare.rerun = nil, nil, nil
	bare.boundary.Policy.EgressDefault = "allow"
	bare.boundary.Proxy.Placement = "inside-sandbox"
	for _, s := range []struct {
		name string
		e    *evidence
	}{
		{"current", sampleEvidence()},
		{"held", sampleEvidence().hold("critical-escape")},
		{"stale", sampleEvidence().hold("policy-drift", "expired")},
		{"partial", partial},
		{"bare", bare},
	} {
		t.Run(s.name, func(t *testing.T) {
			dir := t.TempDir()
			sampleSite(t, dir, Theme{}, s.e)
			for _, page := range []string{
				"index.html", "procurement/index.html", attestationStem(s.e.id) + endPage, "fleet/index.html", "history/index.html",
				"status.json", "badge.json", "badge.svg", "boundary.jsonld", "feed.xml", "history.json",
			} {
				golden(t, filepath.Join("testdata", "golden", s.name, strings.ReplaceAll(page, "/", "_")), read(t, dir, page))
			}
		})
	}
}

func golden(t *testing.T, path, got string) {
	t.Helper()
	got = assetName.ReplaceAllString(got, "-HASH.$1")
	if *update {
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(got), 0o644)); err != nil {
			t.Fatal(err)
		}
		return
	}
	want := read(t, path)
	if got == want {
		return
	}
	a, b := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			t.Fatalf("%s differs in line %d (go test ./site -run Golden -update writes it anew):\n have %s\n want %s", path, i+1, b[i], a[i])
		}
	}
	t.Fatalf("%s: %d lines, want %d", path, len(b), len(a))
}
