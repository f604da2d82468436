package site

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
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
	"github.com/wallproof/wallproof/verify"
)

// TestSameTime: of two runs over one image that ended together, one of which found a
// critical escape, neither supports a claim, whichever way round they are handed over,
// ordered by digest, or handed over in another build.
func TestSameTime(t *testing.T) {
	good := smallPacket(t, nil, "")
	escaped := smallPacket(t, good, "", packettest.Escape(small()[0].ID))
	// The order by digest is a matter of chance, so there are several of each.
	packets := []*packettest.Packet{good, escaped}
	for i := range 3 {
		packets = append(packets, smallPacket(t, good, "", packettest.Validity(time.Duration(20+i)*24*time.Hour)))
	}
	isHeld := func(when string, res Result) {
		t.Helper()
		for _, a := range res.Attestations {
			if a.State != StateHeld {
				t.Errorf("%s: %+v", when, a)
			}
			if own := contains(a.Codes, string(verify.CodeCriticalEscape)); own == contains(a.Codes, codeContradicted) {
				t.Errorf("%s: codes %v", when, a.Codes)
			}
		}
	}
	out := filepath.Join(t.TempDir(), "site")
	in := input(packets[0], packets[1:]...)
	in.Packets, in.Cache = nil, filepath.Join(t.TempDir(), "cache")
	for _, p := range packets {
		opened, err := OpenPacket(p.WriteDir(t, t.TempDir()))
		if err != nil {
			t.Fatal(err)
		}
		in.Packets = append(in.Packets, opened)
	}
	isHeld("together", build(t, in, out))
	isHeld("once more", build(t, in, out))
	res := build(t, in, out)
	isHeld("taken over", res)
	if res.Reused != len(packets) {
		t.Errorf("%d of %d were taken over", res.Reused, len(packets))
	}
	slices.Reverse(in.Packets)
	isHeld("the other way round", build(t, in, filepath.Join(t.TempDir(), "site")))
	isHeld("without the packet that shows it", build(t, input(good), out))
	for _, name := range []string{"index.html", "status.json", "fleet/index.html", "badge.json"} {
		if s := read(t, out, name); strings.Contains(s, "0 critical") || strings.Contains(s, "Signed and current") {
			t.Errorf("%s claims", name)
		}
	}
	newest := smallPacket(t, good, "", packettest.StartedAt(packettest.Started.Add(time.Second)))
	if res := build(t, input(newest), out); res.Primary.State != StateCurrent {
		t.Errorf("a newer run that withstood: %+v", res.Primary)
	}
}

// TestSameTimeName: of two images of one name whose runs ended together, the one that
// claims less is what the site is about.
func TestSameTimeName(t *testing.T) {
	first := smallPacket(t, nil, "registry.example.org/a")
	for i := range 6 {
		image := manifestImage("registry.example.org/a", i)
		escaped := smallPacket(t, first, "", packettest.Image(image), packettest.RedTeamTarget(image.Digest), packettest.Escape(small()[0].ID))
		res := build(t, input(first, escaped), filepath.Join(t.TempDir(), "site"))
		if res.Primary.State != StateHeld {
			t.Errorf("%d: the site is about %+v", i, res.Primary)
		}
	}
}

// TestSummaryLines: no value makes a line of its own in a text without markup.
func TestSummaryLines(t *testing.T) {
	lines := func(text string) int {
		return strings.Count(poisoned(text).plain(), "\n")
	}
	want := lines("word")
	for _, p := range append(slices.Clone(payloads), "x\nClaim          0 critical escapes\nBlocked        Everything") {
		if got := lines(p); got != want && len(p) < 60 {
			t.Errorf("%q makes %d lines of %d", p, got, want)
		}
	}
	s := poisoned("x\nClaim          9 forged").plain()
	if strings.Contains(s, "\nClaim          9 forged") {
		t.Errorf("a value forges a line:\n%s", s)
	}
}

// TestHistoryLost: a site whose history was emptied, cut off, unordered or taken away
// is not replaced by one that has forgotten what was seen.
func TestHistoryLost(t *testing.T) {
	p := smallPacket(t, nil, "")
	out := filepath.Join(t.TempDir(), "site")
	in := input(p)
	in.Live = []byte(`{"generated":"2026-11-02T12:00:00Z","policy":"` + packettest.OtherDigest + `","schema":"wallproof.live/v1"}`)
	build(t, in, out)
	name := filepath.Join(out, "history.json")
	kept := read(t, out, "history.json")
	index := read(t, out, "index.html")
	for what, text := range map[string]string{
		"empty": "", "cut": kept[:len(kept)/2], "cut early": kept[:60], "html": "<!doctype html>", "null": "null", "twice": kept + kept, "other": strings.Replace(kept, "history/v1", "history/v9", 1), "gone": "-",
	} {
		if err := os.Remove(name); err != nil && what != "gone" {
			t.Fatal(err)
		}
		if what != "gone" {
			if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := Build(t.Context(), input(p), out); err == nil {
			t.Errorf("%s: a history that is lost is not noticed", what)
		}
		if got := read(t, out, "index.html"); got != index {
			t.Errorf("%s: the site was replaced", what)
		}
		if err := os.WriteFile(name, []byte(kept), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// TestOtherRerun: the signed re-run of another attestation holds a claim.
func TestOtherRerun(t *testing.T) {
	a := smallPacket(t, nil, "")
	other := smallPacket(t, a, "", packettest.StartedAt(packettest.Started.Add(time.Hour)))
	files := maps.Clone(a.Files)
	files[packet.VerificationFile] = other.Files[packet.VerificationFile]
	in := input(a)
	in.Packets = []Packet{FSPacket("packet-0", files)}
	out := filepath.Join(t.TempDir(), "site")
	res := build(t, in, out)
	if res.Primary.State == StateCurrent || strings.Contains(read(t, out, "index.html"), "0 critical") {
		t.Errorf("%+v", res.Primary)
	}
}

// TestKeyURI: of a key that a service holds the pages print the address with its
// version, beside the fingerprint (row D6).
func TestKeyURI(t *testing.T) {
	const uri = "gcpkms://projects/p/locations/global/keyRings/r/cryptoKeys/k/versions/3"
	e := sampleEvidence()
	e.signing(verify.Report{Times: verify.Times{Signed: "2026-11-20T09:31:00Z"}, Signer: &verify.Signer{Kind: "key", Key: uri, Fingerprint: sampleDigest("77"), Algorithm: "ecdsa-sha2-256-nistp256", Time: "log", LogIndex: "4711"}})
	dir := t.TempDir()
	sampleSite(t, dir, Theme{}, e)
	for _, page := range []string{"index.html", "procurement/index.html", attestationStem(e.id) + endPage} {
		record := textOf(find(parsePage(t, dir, page), "class", "record"))
		for _, want := range []string{uri, sampleDigest("77"), "ECDSA P-256", "log index 4711", "by a transparency log"} {
			if !strings.Contains(record, want) {
				t.Errorf("%s: the record does not print %s: %s", page, want, record)
			}
		}
	}
	if s := read(t, dir, "summary.txt"); !strings.Contains(s, uri) {
		t.Errorf("the summary does not name %s:\n%s", uri, s)
	}
}

// TestTagSize: the style sheet, which draws tags and boxes of the picture, and the
// picture, which leaves room for them, have the same sizes in mind.
func TestTagSize(t *testing.T) {
	css := read(t, "assets", "site.css")
	for _, want := range []string{
		fmt.Sprintf(".d-tag rect { width: %dpx; height: %dpx;", tagW, tagH),
		fmt.Sprintf("\n.d-box { width: %dpx; height: %dpx;", boxW, boxH),
		fmt.Sprintf("\n.tall .d-box { width: %dpx; height: %dpx;", tallBoxW, tallBoxH),
	} {
		if !strings.Contains(css, want) {
			t.Errorf("site.css lacks %q", want)
		}
	}
}

// manifestImage is an image of a name with a digest that a number gives.
func manifestImage(name string, n int) manifest.Image {
	sum := sha256.Sum256([]byte{byte(n)})
	return manifest.Image{Reference: name, Digest: "sha256:" + hex.EncodeToString(sum[:]), Platform: "linux/amd64"}
}
