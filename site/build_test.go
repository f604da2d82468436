package site

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wallproof/wallproof/attest/packettest"
	"github.com/wallproof/wallproof/policy"
	"github.com/wallproof/wallproof/probes/catalog"
	"github.com/wallproof/wallproof/site/history"
	"github.com/wallproof/wallproof/verify"
)

// policyText is a policy with every kind of edge.
const policyText = `
version: 1
mode: allowlist
allow:
  - host: github.com
  - host: registry.example.org
    methods: [GET, HEAD]
`

// newPacket is packettest.New with a policy that the evaluator reads.
func newPacket(t testing.TB, options ...packettest.Option) *packettest.Packet {
	t.Helper()
	p, err := policy.Parse("policy.yaml", []byte(policyText))
	if err != nil {
		t.Fatal(err)
	}
	canonical, err := p.Canonical()
	if err != nil {
		t.Fatal(err)
	}
	return packettest.New(t, append([]packettest.Option{packettest.WithPolicy(canonical)}, options...)...)
}

// required names a technique of a vector that must be conclusive.
func required(t testing.TB, v catalog.Vector) string {
	t.Helper()
	for _, k := range catalog.All() {
		if k.Vector == v && k.Required && k.Severity == catalog.VectorSeverity(v) {
			return k.ID
		}
	}
	t.Fatalf("no required technique in %s", v)
	return ""
}

// input is a build over one packet, at the packet's own moment.
func input(p *packettest.Packet, more ...*packettest.Packet) Input {
	in := Input{Verify: p.Input(), Clock: func() time.Time { return p.Now }}
	for i, q := range append([]*packettest.Packet{p}, more...) {
		in.Packets = append(in.Packets, FSPacket(fmt.Sprintf("packet-%d", i), q.Files))
	}
	return in
}

func build(t testing.TB, in Input, out string) Result {
	t.Helper()
	res, err := Build(context.Background(), in, out)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

func read(t testing.TB, parts ...string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(parts...))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// treeDigests maps every file below a folder to its digest.
func treeDigests(t testing.TB, dir string) map[string]string {
	t.Helper()
	m := map[string]string{}
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(p)
		rel, _ := filepath.Rel(dir, p)
		m[filepath.ToSlash(rel)] = fmt.Sprintf("%x", sha256.Sum256(b))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func differing(a, b map[string]string) []string {
	var out []string
	for k, v := range a {
		if b[k] != v {
			out = append(out, k)
		}
	}
	for k := range b {
		if _, ok := a[k]; !ok {
			out = append(out, k)
		}
	}
	return out
}

// claimWords are what only a claim says. None may be in the HTML of a held one.
var claimWords = []string{"0 critical escapes", `class="figure"`, "Blocked", "Contained", "Denied", "Brokered", "Signed and current", ">Pass<", "attacks withstood", "data-claim"}

func TestCurrent(t *testing.T) {
	out := filepath.Join(t.TempDir(), "site")
	p := newPacket(t)
	res := build(t, input(p), out)
	if res.Primary == nil || res.Primary.State != StateCurrent {
		t.Fatalf("primary: %+v", res.Primary)
	}
	index := read(t, out, "index.html")
	for _, w := range []string{"critical escapes", "Signed and current", "data-claim", packettest.ImageDigest, "Denied"} {
		if !strings.Contains(index, w) {
			t.Errorf("index.html lacks %q", w)
		}
	}
	for _, f := range []string{
		"index.html", "procurement/index.html", "verify/index.html", "fleet/index.html", "history/index.html", "404.html", "status.json", "badge.json",
		"badge.svg", "boundary.jsonld", "feed.xml", "history.json", "_headers", res.Primary.Page, strings.TrimSuffix(res.Primary.Page, endPage) + endPacket,
	} {
		if _, err := os.Stat(filepath.Join(out, f)); err != nil {
			t.Error(err)
		}
	}
	var s status
	if err := json.Unmarshal([]byte(read(t, out, "status.json")), &s); err != nil {
		t.Fatal(err)
	}
	if s.State != StateCurrent || s.Attestation != res.Primary.Digest || s.Subject != packettest.ImageDigest || len(s.Codes) != 0 {
		t.Errorf("status.json: %+v", s)
	}
}

// TestHeld is cases E20 and E21: what is held is not in the HTML, with or
// without script, and the notice gives the code and the date.
func TestHeld(t *testing.T) {
	live := func(members string) func(*Input) {
		return func(in *Input) {
			in.Live = []byte(`{"generated":"2026-11-02T12:00:00Z",` + members + `"schema":"wallproof.live/v1"}`)
		}
	}
	for _, c := range []struct {
		name    string
		options []packettest.Option
		change  func(*Input)
		code    verify.Code
	}{
		{"expired", []packettest.Option{packettest.Validity(2 * time.Hour)}, nil, verify.CodeExpired},
		{"expired by the verifier", nil, func(in *Input) { in.Verify.MaxAge = time.Hour }, verify.CodeExpiredCap},
		{"critical escape", []packettest.Option{packettest.Escape(required(t, catalog.NET))}, nil, verify.CodeCriticalEscape},
		{"inconclusive", []packettest.Option{packettest.ControlSilent(required(t, catalog.NET))}, nil, verify.CodeVectorOpen},
		{"no re-run", []packettest.Option{packettest.WithoutRerun()}, nil, verify.CodeRerunMissing},
		{"failed re-run", []packettest.Option{packettest.FailedRerun()}, nil, verify.CodeRerunFailed},
		{"red team", []packettest.Option{packettest.RedTeamEscapes(1)}, nil, verify.CodeRedTeamEscapes},
		{"red team elsewhere", []packettest.Option{packettest.RedTeamTarget(packettest.OtherDigest)}, nil, verify.CodeRedTeamTarget},
		{"nothing enforced", []packettest.Option{packettest.Enforcement("nothing-to-enforce", "an empty policy"), packettest.WithPolicy([]byte(packettest.PublicPolicy))}, nil, verify.CodeEnforcedNothing},
		{"enforcement failed", []packettest.Option{packettest.Enforcement("failed", "no filter")}, nil, verify.CodeEnforcedFailed},
		{"image drift", nil, live(`"image":"` + packettest.OtherDigest + `",`), verify.CodeImageDrift},
		{"policy drift", nil, live(`"policy":"` + packettest.OtherDigest + `",`), verify.CodePolicyDrift},
		{"fabric drift", nil, live(`"fabric":{"kernel":"7.0.0"},`), verify.CodeFabricDrift},
	} {
		t.Run(c.name, func(t *testing.T) {
			out := filepath.Join(t.TempDir(), "site")
			in := input(newPacket(t, c.options...))
			if c.change != nil {
				c.change(&in)
			}
			if c.name == "fabric drift" {
				in.Live = []byte(`{"fabric":{"kernel":"7.0.0"},"generated":"2026-11-02T12:00:00Z","schema":"wallproof.live/v1"}`)
			}
			res := build(t, in, out)
			if res.Primary.State != StateHeld || !contains(res.Primary.Codes, string(c.code)) {
				t.Fatalf("state %s, codes %v; want held with %s", res.Primary.State, res.Primary.Codes, c.code)
			}
			checkHeld(t, out, res.Primary, string(c.code))
		})
	}
}

func checkHeld(t *testing.T, out string, s *Summary, code string) {
	t.Helper()
	for _, page := range []string{"index.html", "procurement/index.html", s.Page} {
		html := read(t, out, page)
		for _, w := range claimWords {
			if strings.Contains(html, w) {
				t.Errorf("%s of a held claim contains %q", page, w)
			}
		}
		if !strings.Contains(html, code) {
			t.Errorf("%s does not give the reason code %s", page, code)
		}
	}
	for name := range treeDigests(t, out) {
		// Evidence and its copies are the record itself; scripts and styles are the same on every site.
		if slices.Contains([]string{".tar", ".js", ".css"}, filepath.Ext(name)) || strings.HasSuffix(name, endBundle) {
			continue
		}
		for _, w := range claimWords {
			if strings.Contains(read(t, out, name), w) {
				t.Errorf("%s of a held claim contains %q", name, w)
			}
		}
	}
	for _, page := range []string{"index.html", s.Page} {
		if !strings.Contains(read(t, out, page), ">"+code+`</a> <span class="soft small">since <time datetime="20`) {
			t.Errorf("%s: %s has no date in the notice", page, code)
		}
	}
	if strings.Contains(read(t, out, "status.json"), "critical escapes") {
		t.Error("status.json repeats the held claim")
	}
	for _, f := range []string{"badge.svg", "badge.json", "boundary.jsonld", "fleet/index.html"} {
		if strings.Contains(read(t, out, f), "0 critical") {
			t.Errorf("%s repeats the held claim", f)
		}
	}
	if _, err := os.Stat(filepath.Join(out, filePlain)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the summary of a held claim is served: %v", err)
	}
}

// TestLatch: drift that was seen once holds for good, and stays under its code.
func TestLatch(t *testing.T) {
	out := filepath.Join(t.TempDir(), "site")
	in := input(newPacket(t))
	if s := build(t, in, out).Primary.State; s != StateCurrent {
		t.Fatalf("at first: %s", s)
	}
	in.Live = []byte(`{"generated":"2026-11-02T12:00:00Z","policy":"` + packettest.OtherDigest + `","schema":"wallproof.live/v1"}`)
	build(t, in, out)
	drifted := treeDigests(t, out)
	in.Live = nil
	res := build(t, in, out)
	if res.Primary.State != StateHeld || strings.Join(res.Primary.Codes, " ") != string(verify.CodePolicyDrift) {
		t.Fatalf("after the drift was undone: %+v", res.Primary)
	}
	if d := differing(drifted, treeDigests(t, out)); len(d) == 0 {
		t.Error("live.json went and no file changed")
	}
	h, err := history.Parse([]byte(read(t, out, "history.json")))
	if err != nil {
		t.Fatal(err)
	}
	if e := h.Attestations[res.Primary.Digest]; len(e.Events) != 2 || len(e.Latched) != 1 {
		t.Errorf("history: %+v", e)
	}
	if !strings.Contains(read(t, out, "index.html"), "stays held even when the cause is undone") {
		t.Error("the page does not say that the drift is latched")
	}
}

func TestReproducible(t *testing.T) {
	dir := t.TempDir()
	p := newPacket(t)
	q := newPacket(t, packettest.Key(p.Key), packettest.Escape(required(t, catalog.NET)), packettest.StartedAt(packettest.Started.Add(-time.Hour)))
	in := input(p, q)
	in.Live = []byte(`{"generated":"2026-11-02T12:00:00Z","image":"` + packettest.ImageDigest + `","schema":"wallproof.live/v1"}`)
	build(t, in, filepath.Join(dir, "a"))
	a := treeDigests(t, filepath.Join(dir, "a"))
	in.Workers = 1
	build(t, in, filepath.Join(dir, "b"))
	if d := differing(a, treeDigests(t, filepath.Join(dir, "b"))); len(d) > 0 {
		t.Errorf("two builds differ in %v", d)
	}
	build(t, in, filepath.Join(dir, "a"))
	if d := differing(a, treeDigests(t, filepath.Join(dir, "a"))); len(d) > 0 {
		t.Errorf("a build over itself differs in %v", d)
	}
	left, err := filepath.Glob(filepath.Join(dir, ".*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
}
