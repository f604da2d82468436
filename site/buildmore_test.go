package site

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/attest/packet"
	"github.com/wallproof/wallproof/attest/packettest"
	"github.com/wallproof/wallproof/probes/catalog"
	"github.com/wallproof/wallproof/site/history"
	"github.com/wallproof/wallproof/verify"
)

// small is a catalogue of one technique a vector, for tests of many packets.
func small() []catalog.Technique {
	var out []catalog.Technique
	seen := map[catalog.Vector]bool{}
	for _, k := range catalog.All() {
		if !seen[k.Vector] {
			seen[k.Vector] = true
			k.Variants, k.Requires, k.Required = k.Variants[:1], nil, true
			out = append(out, k)
		}
	}
	return out
}

// smallPacket is a packet over the small catalogue, of an image of its own.
func smallPacket(t testing.TB, p *packettest.Packet, image string, options ...packettest.Option) *packettest.Packet {
	t.Helper()
	all := []packettest.Option{packettest.Catalogue(small())}
	if p != nil {
		all = append(all, packettest.Key(p.Key))
	}
	if image != "" {
		digest := "sha256:" + strings.Repeat(fmt.Sprintf("%02x", len(image)), 32)
		all = append(all, packettest.Image(manifest.Image{Reference: image, Digest: digest, Platform: "linux/amd64"}), packettest.RedTeamTarget(digest))
	}
	return newPacket(t, append(all, options...)...)
}

// TestNewestCounts: an older claim never stands in for a newer result over the
// same image, and a newer escape takes it away.
func TestNewestCounts(t *testing.T) {
	old := smallPacket(t, nil, "")
	escaped := smallPacket(t, old, "", packettest.Escape(small()[0].ID), packettest.StartedAt(packettest.Started.Add(time.Hour)))
	out := filepath.Join(t.TempDir(), "site")
	in := input(old, escaped)
	res := build(t, in, out)
	if res.Primary.Packet != "packet-1" || res.Primary.State != StateHeld {
		t.Fatalf("primary: %+v", res.Primary)
	}
	for _, a := range res.Attestations {
		if a.Packet == "packet-0" && (a.State != StateHeld || !contains(a.Codes, codeContradicted)) {
			t.Errorf("the contradicted claim: %+v", a)
		}
		for _, w := range claimWords {
			if strings.Contains(read(t, out, a.Page), w) {
				t.Errorf("%s contains %q", a.Page, w)
			}
		}
	}
}

// TestDowngrade: an older claim does not come back when the packet of the newer
// run that contradicts it is left out or damaged; a run that is newer still does
// count.
func TestDowngrade(t *testing.T) {
	out := filepath.Join(t.TempDir(), "site")
	good := smallPacket(t, nil, "")
	escaped := smallPacket(t, good, "", packettest.Escape(small()[0].ID), packettest.StartedAt(packettest.Started.Add(time.Hour)))
	build(t, input(good), out)
	build(t, input(good, escaped), out)
	res := build(t, input(good), out)
	if res.Primary.State != StateHeld || !contains(res.Primary.Codes, codeContradicted) {
		t.Errorf("without the newer run: %+v", res.Primary)
	}
	if strings.Contains(read(t, out, "index.html"), "0 critical") {
		t.Error("the older claim is shown")
	}
	damaged := maps.Clone(escaped.Files)
	damaged[packet.PolicyFile] = append(bytes.Clone(damaged[packet.PolicyFile]), ' ')
	in := input(good)
	in.Packets = append(in.Packets, FSPacket("damaged", damaged))
	for range 2 {
		if res := build(t, in, out); res.Primary.State != StateHeld || !contains(res.Primary.Codes, codeContradicted) {
			t.Errorf("with the newer run's packet damaged: %+v", res.Primary)
		}
	}
	newest := smallPacket(t, good, "", packettest.StartedAt(packettest.Started.Add(2*time.Hour)))
	if res := build(t, input(newest), out); res.Primary.State != StateCurrent {
		t.Errorf("a newer run that withstood: %+v", res.Primary)
	}
}

// TestPrimary: the first packet's image is what the site is about, unless
// another is named.
func TestPrimary(t *testing.T) {
	a := smallPacket(t, nil, "registry.example.org/a")
	b := smallPacket(t, a, "registry.example.org/bb", packettest.StartedAt(packettest.Started.Add(time.Hour)))
	in := input(a, b)
	if res := build(t, in, filepath.Join(t.TempDir(), "site")); res.Primary.Packet != "packet-0" {
		t.Errorf("without a name: %+v", res.Primary)
	}
	in.Primary = "registry.example.org/bb"
	if res := build(t, in, filepath.Join(t.TempDir(), "site")); res.Primary.Packet != "packet-1" {
		t.Errorf("by name: %+v", res.Primary)
	}
}

// TestLiveOfOthers: live.json is about the primary image; other images have
// their own.
func TestLiveOfOthers(t *testing.T) {
	a := smallPacket(t, nil, "registry.example.org/a")
	b := smallPacket(t, a, "registry.example.org/bb")
	in := input(a, b)
	in.Live = []byte(`{"generated":"2026-11-02T12:00:00Z","policy":"` + packettest.OtherDigest + `","schema":"wallproof.live/v1"}`)
	res := build(t, in, filepath.Join(t.TempDir(), "site"))
	if res.Attestations[0].State != StateHeld || res.Attestations[1].State != StateCurrent {
		t.Errorf("live of the primary: %+v", res.Attestations)
	}
	in.Packets[1].Live = in.Live
	in.Live = nil
	res = build(t, in, filepath.Join(t.TempDir(), "site"))
	if res.Attestations[0].State != StateCurrent || res.Attestations[1].State != StateHeld {
		t.Errorf("live of the other: %+v", res.Attestations)
	}
}

// TestInvalid: what does not verify is not rendered, only that it does not.
func TestInvalid(t *testing.T) {
	secret := "registry.example.org/never-shown"
	for name, spoil := range map[string]func(packet.Memory){
		"tampered":   func(m packet.Memory) { m[packet.PolicyFile] = append(m[packet.PolicyFile], ' ') },
		"unsigned":   func(m packet.Memory) { delete(m, packet.AttestationFile) },
		"bad bundle": func(m packet.Memory) { m[packet.AttestationFile] = []byte("{}") },
		"extra file": func(m packet.Memory) { m["logs/zz.jsonl"] = []byte("{}\n") },
		"empty":      func(m packet.Memory) { clear(m) },
	} {
		t.Run(name, func(t *testing.T) {
			out := filepath.Join(t.TempDir(), "site")
			p := smallPacket(t, nil, secret)
			spoil(p.Files)
			res := build(t, input(p), out)
			if res.Primary.State != StateInvalid || len(res.Primary.Codes) == 0 {
				t.Fatalf("%+v", res.Primary)
			}
			for name := range treeDigests(t, out) {
				if strings.Contains(read(t, out, name), "never-shown") {
					t.Errorf("%s repeats what did not verify", name)
				}
			}
			index := read(t, out, "index.html")
			if !strings.Contains(index, "does not verify") || !strings.Contains(index, res.Primary.Codes[0]) {
				t.Error("index.html does not say why")
			}
			for _, w := range claimWords {
				if strings.Contains(index, w) {
					t.Errorf("index.html contains %q", w)
				}
			}
		})
	}
}

// TestTamperedTwin: a tampered copy does not take the place of the good packet.
func TestTamperedTwin(t *testing.T) {
	p := smallPacket(t, nil, "")
	q := p.Clone()
	q.Files[packet.PolicyFile] = append(q.Files[packet.PolicyFile], ' ')
	out := filepath.Join(t.TempDir(), "site")
	in := input(q, p)
	in.Packets[0].Name, in.Packets[1].Name = "bad", "good"
	res := build(t, in, out)
	if res.Primary.Packet != "good" || res.Primary.State != StateCurrent || len(res.Attestations) != 2 || res.Attestations[1].Page != "" {
		t.Errorf("%+v", res)
	}
}

// TestOtherKey: a packet that somebody else signed is not shown, nor anything that it says.
func TestOtherKey(t *testing.T) {
	p, q := smallPacket(t, nil, "registry.example.org/never-shown"), smallPacket(t, nil, "")
	in := input(p)
	in.Verify.Trust = q.Input().Trust
	out := filepath.Join(t.TempDir(), "site")
	if res := build(t, in, out); res.Primary.State != StateInvalid {
		t.Errorf("%+v", res.Primary)
	}
	for _, text := range []string{"never-shown", "critical escapes", p.Policy} {
		if names := findAll(t, out, text); len(names) > 0 && !onlyAssets(names) {
			t.Errorf("%q is in %v", text, names)
		}
	}
}

// TestIntact: a build that fails leaves the site as it was, and nothing beside it.
func TestIntact(t *testing.T) {
	dir := t.TempDir()
	out := filepath.Join(dir, "site")
	in := input(smallPacket(t, nil, ""))
	build(t, in, out)
	before := treeDigests(t, out)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Build(ctx, in, out); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	bad := in
	bad.Live = []byte("{}")
	bad.History = []byte("not a history")
	if _, err := Build(context.Background(), bad, out); err == nil {
		t.Error("a broken history is accepted: earlier drift would be forgotten")
	}
	bad = in
	bad.Theme.Home = "javascript:alert(1)"
	if _, err := Build(context.Background(), bad, out); err == nil {
		t.Error("a bad theme is accepted")
	}
	bad = in
	bad.BaseURL = "javascript:alert(1)"
	if _, err := Build(context.Background(), bad, out); err == nil {
		t.Error("a bad base URL is accepted")
	}
	if _, err := Build(context.Background(), Input{}, out); !errors.Is(err, ErrNoPackets) {
		t.Errorf("no packets: %v", err)
	}
	if d := differing(before, treeDigests(t, out)); len(d) > 0 {
		t.Errorf("a failed build changed %v", d)
	}
	if left, err := filepath.Glob(filepath.Join(dir, ".*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
}

// TestForeignFolder: a folder that holds something else is never replaced.
func TestForeignFolder(t *testing.T) {
	out := t.TempDir()
	precious := filepath.Join(out, "precious.txt")
	if err := os.WriteFile(precious, []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Build(context.Background(), input(smallPacket(t, nil, "")), out); err == nil {
		t.Error("a foreign folder is replaced")
	}
	if _, err := os.Stat(precious); err != nil {
		t.Error(err)
	}
}

// TestSweep: what a killed build left is removed, once it is old.
func TestSweep(t *testing.T) {
	dir := t.TempDir()
	old, young := filepath.Join(dir, ".site.building-1"), filepath.Join(dir, ".site.building-2")
	for _, d := range []string{old, young} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	past := time.Now().Add(-2 * leftoverAge)
	if err := os.Chtimes(old, past, past); err != nil {
		t.Fatal(err)
	}
	build(t, input(smallPacket(t, nil, "")), filepath.Join(dir, "site"))
	if _, err := os.Stat(old); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the old one: %v", err)
	}
	if _, err := os.Stat(young); err != nil {
		t.Errorf("the young one: %v", err)
	}
}

// TestCache: unchanged packets are taken over, and only while everything else is
// as it was too; the bytes are those of a build without a cache.
func TestCache(t *testing.T) {
	dir := t.TempDir()
	out := filepath.Join(dir, "site")
	p := smallPacket(t, nil, "registry.example.org/a")
	q := smallPacket(t, p, "registry.example.org/bb")
	write := func(name string, p *packettest.Packet) string {
		t.Helper()
		var b bytes.Buffer
		if err := packet.WriteArchive(&b, p.Files); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	in := input(p)
	in.Packets, in.Cache = nil, filepath.Join(dir, "cache.json")
	for _, path := range []string{write("a.tar", p), q.WriteDir(t, dir)} {
		o, err := OpenPacket(path)
		if err != nil {
			t.Fatal(err)
		}
		in.Packets = append(in.Packets, o)
	}
	step := func(what string, want int) {
		t.Helper()
		if res := build(t, in, out); res.Reused != want {
			t.Errorf("%s: %d taken over, want %d", what, res.Reused, want)
		}
		plain := in
		plain.Cache, plain.History = "", []byte(read(t, out, "history.json"))
		build(t, plain, filepath.Join(dir, "plain"))
		if d := differing(treeDigests(t, out), treeDigests(t, filepath.Join(dir, "plain"))); len(d) > 0 {
			t.Errorf("%s: differs from a build without cache in %v", what, d)
		}
	}
	step("first", 0)
	step("unchanged", 2)
	in.Clock = func() time.Time { return p.Now.Add(time.Hour) }
	step("an hour later", 2)
	if err := os.Remove(filepath.Join(out, build(t, in, out).Attestations[0].Page)); err != nil {
		t.Fatal(err)
	}
	step("a page was lost", 1)
	page := filepath.Join(out, build(t, in, out).Attestations[0].Page)
	html := read(t, page)
	if err := os.WriteFile(page, []byte(strings.Replace(html, "0 critical", "9 critical", 1)), 0o644); err != nil {
		t.Fatal(err)
	}
	step("a page was edited", 1)
	if read(t, page) != html {
		t.Error("the edited page stays")
	}
	in.Theme.Name = "Example"
	step("another theme", 0)
	in.Verify.PolicyDigest = packettest.OtherDigest
	step("another policy in force", 0)
	step("unchanged again", 2)
	in.Clock = func() time.Time { return p.Now.Add(100 * 24 * time.Hour) }
	step("after the expiry", 0)
	write("a.tar", smallPacket(t, p, "registry.example.org/a", packettest.WithoutRedTeam()))
	o, err := OpenPacket(filepath.Join(dir, "a.tar"))
	if err != nil {
		t.Fatal(err)
	}
	in.Packets[0] = o
	step("another packet at the same place", 1)

	// One byte, with size and time as they were.
	path := filepath.Join(dir, "a.tar")
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	b := []byte(read(t, path))
	b[bytes.Index(b, []byte(`"seq":1`))+len(`"seq":`)] = '7'
	if err := errors.Join(os.WriteFile(path, b, 0o644), os.Chtimes(path, info.ModTime(), info.ModTime())); err != nil {
		t.Fatal(err)
	}
	step("a packet was tampered with", 1)
	if res := build(t, in, out); !slices.ContainsFunc(res.Attestations, func(s Summary) bool { return s.State == StateInvalid }) {
		t.Error("it does not show")
	}
}

// TestUntimely: what is held because of the clock alone is looked at again, and a
// verification that rests on the clock in other ways is never taken over.
func TestUntimely(t *testing.T) {
	dir := t.TempDir()
	p := smallPacket(t, nil, "")
	o, err := OpenPacket(p.WriteDir(t, dir))
	if err != nil {
		t.Fatal(err)
	}
	in := input(p)
	in.Packets, in.Cache = []Packet{o}, filepath.Join(dir, "cache.json")
	in.Verify.Scorecard = fmt.Appendf(nil, `{"schema":"wallproof.scorecard/v1","kind":"create","id":"x","produced":%q,"image":%q,"policy":%q}`,
		p.Now.Add(time.Hour).Format(time.RFC3339), packettest.ImageDigest, p.Policy)
	out := filepath.Join(dir, "site")
	if res := build(t, in, out); res.Primary.State != StateHeld {
		t.Fatalf("a scorecard of the future: %+v", res.Primary)
	}
	in.Clock = func() time.Time { return p.Now.Add(2 * time.Hour) }
	if res := build(t, in, out); res.Primary.State != StateCurrent || res.Reused != 0 {
		t.Errorf("two hours later: %+v, %d taken over", res.Primary, res.Reused)
	}
	if clockBound(in.Verify) || !clockBound(verify.Input{VerifierTrust: &verify.Trust{Identity: &verify.Identity{WithoutTimestamp: true}}}) {
		t.Error("a certificate without a timestamp is not known to rest on the clock")
	}
}

// TestSignedAgain: signing the same run once more does not revive what drifted.
func TestSignedAgain(t *testing.T) {
	first := smallPacket(t, nil, "")
	again := smallPacket(t, first, "", packettest.Validity(30*24*time.Hour))
	if a, b := FSPacket("", first.Files).peek(), FSPacket("", again.Files).peek(); a.run == "" || a.run != b.run || a.attestation == b.attestation {
		t.Fatalf("not two attestations of one run: %+v, %+v", a, b)
	}
	out := filepath.Join(t.TempDir(), "site")
	in := input(first)
	in.Verify.PolicyDigest = packettest.OtherDigest
	if res := build(t, in, out); res.Primary.State != StateHeld {
		t.Fatalf("the drift: %+v", res.Primary)
	}
	in = input(again)
	if res := build(t, in, out); res.Primary.State != StateHeld || !contains(res.Primary.Codes, "policy-drift") {
		t.Errorf("signed again: %+v", res.Primary)
	}
	if strings.Contains(read(t, out, "index.html"), "critical escapes") {
		t.Error("the claim is shown again")
	}
	fresh := smallPacket(t, first, "", packettest.StartedAt(packettest.Started.Add(time.Minute)))
	if res := build(t, input(fresh), out); res.Primary.State != StateCurrent {
		t.Errorf("a new run: %+v", res.Primary)
	}
}

// TestArchiveAndFolder: both forms of a packet give the same pages.
func TestArchiveAndFolder(t *testing.T) {
	dir := t.TempDir()
	p := smallPacket(t, nil, "")
	var b bytes.Buffer
	if err := packet.WriteArchive(&b, p.Files); err != nil {
		t.Fatal(err)
	}
	tar := filepath.Join(dir, "packet.tar")
	if err := os.WriteFile(tar, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	var digests []map[string]string
	for i, path := range []string{tar, p.WriteDir(t, dir)} {
		o, err := OpenPacket(path)
		if err != nil {
			t.Fatal(err)
		}
		in := input(p)
		in.Packets = []Packet{o}
		out := filepath.Join(dir, fmt.Sprint("site", i))
		build(t, in, out)
		digests = append(digests, treeDigests(t, out))
	}
	if d := differing(digests[0], digests[1]); len(d) > 0 {
		t.Errorf("archive and folder differ in %v", d)
	}
}

func TestOpenPacketErrors(t *testing.T) {
	dir := t.TempDir()
	if _, err := OpenPacket(filepath.Join(dir, "nothing")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v", err)
	}
	bad := filepath.Join(dir, "bad.tar")
	if err := os.WriteFile(bad, []byte(strings.Repeat("not a tar", 200)), 0o644); err != nil {
		t.Fatal(err)
	}
	o, err := OpenPacket(bad)
	if err != nil {
		t.Fatal(err)
	}
	in := input(smallPacket(t, nil, ""))
	in.Packets = []Packet{o}
	if res := build(t, in, filepath.Join(dir, "site")); res.Primary.State != StateInvalid || res.Primary.Codes[0] != string(packet.ReasonArchive) {
		t.Errorf("%+v", res.Primary)
	}
	in.Packets = []Packet{{Name: "gone", Open: func() (fs.FS, io.Closer, error) { return nil, nil, errors.New("gone") }}}
	if res := build(t, in, filepath.Join(dir, "site")); res.Primary.State != StateInvalid || res.Primary.Codes[0] != string(verify.CodePacketUnreadable) {
		t.Errorf("%+v", res.Primary)
	}
}

// TestPolicyUnread: a policy that this version cannot draw holds the claim and
// does not stop the site.
func TestPolicyUnread(t *testing.T) {
	out := filepath.Join(t.TempDir(), "site")
	p := packettest.New(t, packettest.Catalogue(small()), packettest.WithPolicy([]byte(`{"evaluator":999,"mode":"allowlist","version":1}`)))
	res := build(t, input(p), out)
	if res.Primary.State != StateHeld || !contains(res.Primary.Codes, codePolicyUnread) {
		t.Fatalf("%+v", res.Primary)
	}
	checkHeld(t, out, res.Primary, codePolicyUnread)
}

// TestThroughThePacket sends texts that would break a page through the fields
// that a signed packet can set, and the verifier in between.
func TestThroughThePacket(t *testing.T) {
	plain := filepath.Join(t.TempDir(), "plain")
	build(t, input(hostile(t, "word")), plain)
	for i, text := range []string{payloads[0], payloads[2], payloads[26], "\u202etxt.exe", `</text></svg><script>alert(1)</script>`} {
		out := filepath.Join(t.TempDir(), fmt.Sprint(i))
		if res := build(t, input(hostile(t, text)), out); res.Primary.State != StateCurrent {
			t.Fatalf("%q: %+v", text, res.Primary)
		}
		for _, page := range []string{"index.html", "procurement/index.html", "fleet/index.html"} {
			a, b := skeleton(t, read(t, plain, page)), skeleton(t, read(t, out, page))
			if len(a) != len(b) {
				t.Errorf("%q: %s has %d elements, with a word %d", text, page, len(b), len(a))
			}
		}
		checkOthers(t, out)
	}
}

// hostile is a packet with a text in every free field.
func hostile(t *testing.T, text string) *packettest.Packet {
	t.Helper()
	line := strings.NewReplacer("\n", " ", ":", "").Replace(text)
	return newPacket(t, packettest.Catalogue(small()),
		packettest.Run(func(r *manifest.Run) {
			r.Image.Reference = "registry.example.org/" + text
			r.Driver.Name, r.Driver.Version = text, text
			r.Driver.Isolation["note"] = text
			r.Proxy.Version, r.Host.Kernel, r.Tool.Version = text, text, text
			r.Substitutions = append(r.Substitutions, text)
		}),
		packettest.WithThreatModel([]byte("---\nscope: "+line+"\ntrust-assumption: "+line+"\nprimary-asset: "+line+"\nboundary: "+line+"\n---\nx\n")))
}

// TestHistoryGrows: the history of an attestation that is no longer given stays.
func TestHistoryGrows(t *testing.T) {
	out := filepath.Join(t.TempDir(), "site")
	p := smallPacket(t, nil, "registry.example.org/a")
	first := build(t, input(p), out).Primary.Digest
	q := smallPacket(t, p, "registry.example.org/bb")
	second := build(t, input(q), out).Primary.Digest
	h, err := history.Parse([]byte(read(t, out, "history.json")))
	if err != nil || h.Attestations[first] == nil || h.Attestations[second] == nil {
		t.Fatalf("%+v, %v", h, err)
	}
	page := read(t, out, "history/index.html")
	if !strings.Contains(page, first) || !strings.Contains(page, second) {
		t.Error("the history page forgets")
	}
	if strings.Contains(page, pageID(first)+endPage) {
		t.Error("the history links to a page that is not there")
	}
}

// TestMissingRequirements: what the operator requires holds the claim.
func TestMissingRequirements(t *testing.T) {
	in := input(smallPacket(t, nil, "", packettest.WithoutRedTeam()))
	if res := build(t, in, filepath.Join(t.TempDir(), "site")); res.Primary.State != StateCurrent {
		t.Errorf("without a red team: %+v", res.Primary)
	}
	in.Verify.Require = []verify.Requirement{verify.RequireRedTeam}
	if res := build(t, in, filepath.Join(t.TempDir(), "site")); res.Primary.State != StateHeld {
		t.Errorf("required: %+v", res.Primary)
	}
}
