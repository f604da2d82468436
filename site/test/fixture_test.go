//go:build browser

package sitetest

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/attest/packettest"
	"github.com/wallproof/wallproof/policy"
	"github.com/wallproof/wallproof/probes/catalog"
	"github.com/wallproof/wallproof/site"
)

// now is the moment at which the fixtures are built: the real one, because the
// browser's clock cannot be set for every part of it.
var now = time.Now().UTC().Truncate(time.Second)

const policyText = `
version: 1
name: build-agent
mode: allowlist
allow:
  - host: git.example.org
  - host: pypi.org
    methods: [GET, HEAD]
  - host: files.pythonhosted.org
    methods: [GET, HEAD]
broker:
  - name: forge
    host: git.example.org
    api: https://git.example.org/api/v3
    app: "4711"
    installation: 1
    key: {env: FORGE_APP_KEY}
    lease: 5m
    repositories:
      - {name: acme/app, push: ["refs/heads/agent/*"]}
`

const themeText = `
name: Example Labs
tagline: Agents that write code, behind a wall that is tested every night.
home: https://example.org/
contact: {text: Security team, email: security@example.org, url: "https://example.org/security"}
faq:
  - question: Who is on call when a run finds an escape?
    answer: The platform team, at any hour. A critical escape stops every new run within minutes.
knownGaps:
  - title: Declared model
    text: Traffic to the declared model is not inspected beyond its host name.
documents:
  - {title: Information security policy, url: "https://example.org/policy.pdf", date: "2026-05-04", note: Version 7}
  - {title: Penetration test of the control plane, url: "https://example.org/pentest", date: "2026-08-19"}
`

// fixture is a built site with what it was built from.
type fixture struct {
	dir    string
	packet *packettest.Packet
	result site.Result
}

type fixtures struct {
	t    testing.TB
	root string
	key  *ecdsa.PrivateKey
	wasm site.Wasm
}

func newFixtures(t testing.TB, root string) *fixtures {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return &fixtures{t: t, root: root, key: key, wasm: verifier(t)}
}

// verifier reads the WebAssembly build, which site/test/run makes.
func verifier(t testing.TB) site.Wasm {
	t.Helper()
	w, err := site.LoadWasm(os.Getenv("WALLPROOF_WASM"))
	if err == nil && len(w.Module) == 0 {
		err = errors.New("WALLPROOF_WASM names no folder with it")
	}
	if err != nil {
		t.Fatalf("no verifier for the browser: %v; run the tests by site/test/run, which builds it", err)
	}
	return w
}

func (f *fixtures) packet(options ...packettest.Option) *packettest.Packet {
	f.t.Helper()
	p, err := policy.Parse("policy.yaml", []byte(policyText))
	if err != nil {
		f.t.Fatal(err)
	}
	canonical, err := p.Canonical()
	if err != nil {
		f.t.Fatal(err)
	}
	all := []packettest.Option{packettest.WithPolicy(canonical), packettest.Key(f.key), packettest.StartedAt(now.Add(-30 * time.Hour))}
	return packettest.New(f.t, append(all, options...)...)
}

// build makes a site of packets, the first of them the primary.
func (f *fixtures) build(name string, change func(*site.Input), packets ...*packettest.Packet) fixture {
	f.t.Helper()
	in := site.Input{Verify: packets[0].Input(), Clock: func() time.Time { return now }, Wasm: f.wasm}
	for i, p := range packets {
		in.Packets = append(in.Packets, site.FSPacket(fmt.Sprintf("%s-%d", name, i), p.Files))
	}
	if change != nil {
		change(&in)
	}
	dir := filepath.Join(f.root, name)
	if err := os.RemoveAll(dir); err != nil {
		f.t.Fatal(err)
	}
	res, err := site.Build(context.Background(), in, dir)
	if err != nil {
		f.t.Fatal(err)
	}
	return fixture{dir, packets[0], res}
}

// current is the themed site of one current attestation and a small fleet.
func (f *fixtures) current(name string) fixture {
	theme, err := site.ParseTheme([]byte(themeText))
	if err != nil {
		f.t.Fatal(err)
	}
	packets := []*packettest.Packet{f.packet()}
	for i, image := range []string{"agents/node", "agents/browser", "agents/python"} {
		digest := "sha256:" + strings.Repeat(fmt.Sprintf("%02x", 0x40+i), 32)
		options := []packettest.Option{
			packettest.Image(manifest.Image{Reference: "registry.example.org/" + image, Digest: digest, Platform: "linux/amd64"}),
			packettest.RedTeamTarget(digest), packettest.StartedAt(now.Add(-time.Duration(100+i) * time.Hour)),
		}
		if i == 1 {
			options = append(options, packettest.Escape(technique(f.t, catalog.Critical)))
		}
		packets = append(packets, f.packet(options...))
	}
	return f.build(name, func(in *site.Input) { in.Theme = theme }, packets...)
}

// held is a site whose claim is held for good.
func (f *fixtures) held(name string) fixture {
	return f.build(name, func(in *site.Input) {
		in.Live = []byte(`{"generated":"2026-11-02T12:00:00Z","policy":"` + packettest.OtherDigest + `","schema":"wallproof.live/v1"}`)
	}, f.packet())
}

// escaped is a site whose newest run found a critical escape.
func (f *fixtures) escaped(name string) fixture {
	return f.build(name, nil, f.packet(packettest.Escape(technique(f.t, catalog.Critical))))
}

// partial is a site whose newest run found an escape below critical.
func (f *fixtures) partial(name string) fixture {
	return f.build(name, nil, f.packet(packettest.Escape(technique(f.t, catalog.Medium))))
}

// invalid is a site whose packet does not verify.
func (f *fixtures) invalid(name string) fixture {
	p := f.packet()
	p.Files["policy.canonical.json"] = append(p.Files["policy.canonical.json"], ' ')
	return f.build(name, nil, p)
}

// live is a site that publishes what is deployed, all as attested.
func (f *fixtures) live(name string) fixture {
	p := f.packet()
	return f.build(name, func(in *site.Input) {
		in.Wasm = site.Wasm{}
		in.Live = fmt.Appendf(nil, `{"fabric":{"kernel":%q},"generated":%q,"image":%q,"policy":%q,"schema":"wallproof.live/v1"}`,
			packettest.Kernel, now.Format(time.RFC3339), packettest.ImageDigest, p.Policy)
	}, p)
}

// fleet is a site with more attestations than one page of the list holds.
func (f *fixtures) fleet(name string) fixture {
	var packets []*packettest.Packet
	for i := range 103 {
		digest := fmt.Sprintf("sha256:%064x", i+1)
		packets = append(packets, f.packet(packettest.Catalogue(scaleCatalogue()), packettest.RedTeamTarget(digest), packettest.StartedAt(now.Add(-time.Duration(30+i)*time.Hour)),
			packettest.Image(manifest.Image{Reference: fmt.Sprintf("registry.example.org/agents/image-%03d", i), Digest: digest, Platform: "linux/amd64"})))
	}
	return f.build(name, func(in *site.Input) { in.Wasm = site.Wasm{} }, packets...)
}

// technique names a technique of a severity.
func technique(t testing.TB, s catalog.Severity) string {
	t.Helper()
	for _, k := range catalog.All() {
		if k.Severity == s && len(k.Variants) == 1 {
			return k.ID
		}
	}
	for _, k := range catalog.All() {
		if k.Severity == s {
			return k.ID
		}
	}
	t.Fatalf("no technique of severity %s", s)
	return ""
}

// TestFixture builds the sites into a folder to be looked at, when asked to.
func TestFixture(t *testing.T) {
	root := os.Getenv("WALLPROOF_SITE_FIXTURES")
	if root == "" {
		root = t.TempDir()
	}
	f := newFixtures(t, root)
	for name, build := range map[string]func(string) fixture{"current": f.current, "held": f.held, "escaped": f.escaped, "partial": f.partial, "invalid": f.invalid, "live": f.live, "fleet": f.fleet} {
		if x := build(name); x.result.Primary == nil {
			t.Errorf("%s has no primary attestation", name)
		}
	}
}
