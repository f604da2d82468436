package site

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/wallproof/wallproof/attest/packettest"
	"github.com/wallproof/wallproof/site/history"
)

// findAll lists the files below a folder that contain a text.
func findAll(t *testing.T, dir, text string) []string {
	t.Helper()
	var out []string
	for name := range treeDigests(t, dir) {
		if strings.Contains(read(t, dir, name), text) {
			out = append(out, name)
		}
	}
	return out
}

func historyOf(t *testing.T, out string) *history.History {
	t.Helper()
	h, err := history.Parse([]byte(read(t, out, historyFile)))
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// TestRemoved: a packet that is not handed over any more leaves an event with its date,
// on the page of changes and in the feed, and nothing of its claim anywhere else.
func TestRemoved(t *testing.T) {
	for _, cached := range []bool{false, true} {
		dir := t.TempDir()
		out := filepath.Join(dir, "site")
		stays := smallPacket(t, nil, "")
		goes := smallPacket(t, stays, "registry.example.org/agents/goes")
		in := input(stays, goes)
		if cached {
			in.Cache = filepath.Join(dir, "cache")
		}
		res := build(t, in, out)
		if len(res.Removed) != 0 || len(res.Attestations) != 2 {
			t.Fatalf("%+v", res)
		}
		gone := res.Attestations[1]
		in.Packets = in.Packets[:1]
		when := stays.Now.Add(time.Hour)
		in.Clock = func() time.Time { return when }
		res = build(t, in, out)
		if len(res.Removed) != 1 || res.Removed[0] != gone.Digest || res.Primary.State != StateCurrent {
			t.Fatalf("%+v", res)
		}
		events := historyOf(t, out).Attestations[gone.Digest].Events
		if last := events[len(events)-1]; last.State != StateRemoved || last.Time != history.Stamp(when) {
			t.Errorf("%+v", last)
		}
		id := pageID(gone.Digest)
		for _, text := range []string{"agents/goes", "agents/<wbr>goes", id} {
			for _, name := range findAll(t, out, text) {
				if name != historyFile && name != "feed.xml" && name != "history/index.html" {
					t.Errorf("cached %v: %s still names what was removed (%s)", cached, name, text)
				}
			}
		}
		for name := range treeDigests(t, out) {
			if strings.Contains(name, id) {
				t.Errorf("cached %v: %s is still there", cached, name)
			}
		}
		page := read(t, out, "history/index.html")
		if !strings.Contains(page, "Removed</span>") || !strings.Contains(page, at(when).Text) || strings.Contains(page, id+endPage) {
			t.Error("the page of changes does not say that it was removed, or links to it")
		}
		if feed := read(t, out, "feed.xml"); !strings.Contains(feed, "agents/goes: Removed") {
			t.Error("the feed does not say that it was removed")
		}
		// It is said once.
		when = when.Add(time.Hour)
		if res := build(t, in, out); len(res.Removed) != 0 || len(historyOf(t, out).Attestations[gone.Digest].Events) != len(events) {
			t.Error("what was removed is removed again")
		}
		// It comes back as a change of its own.
		in.Packets = input(stays, goes).Packets
		res = build(t, in, out)
		back := historyOf(t, out).Attestations[gone.Digest].Events
		if len(back) != len(events)+1 || back[len(back)-1].State != StateCurrent || res.Attestations[1].State != StateCurrent {
			t.Errorf("%+v", back)
		}
	}
}

// TestRemovedPrimary: when the attestation that the site was about is gone, its claim
// is, in every file.
func TestRemovedPrimary(t *testing.T) {
	out := filepath.Join(t.TempDir(), "site")
	stays := smallPacket(t, nil, "registry.example.org/agents/other", packettest.Escape(small()[0].ID))
	goes := smallPacket(t, stays, "")
	build(t, input(goes, stays), out)
	if !strings.Contains(read(t, out, "index.html"), "critical escapes") {
		t.Fatal("there was no claim")
	}
	build(t, input(stays), out)
	for _, w := range []string{"critical escapes", "attacks withstood", "Signed and current"} {
		if names := findAll(t, out, w); len(names) > 0 && !onlyAssets(names) {
			t.Errorf("%q is still in %v", w, names)
		}
	}
}

func onlyAssets(names []string) bool {
	for _, n := range names {
		if !strings.HasPrefix(n, "assets/") && n != "fleet/index.html" { // a heading of the list
			return false
		}
	}
	return true
}

// TestRemovedLatch: an attestation that drifted, before it was taken away or while it was
// away, is held when it comes back, although what is in force is again what was attested.
func TestRemovedLatch(t *testing.T) {
	live := func(members string) []byte {
		return []byte(`{"generated":"2026-11-02T12:00:00Z",` + members + `"schema":"wallproof.live/v1"}`)
	}
	drift := live(`"policy":"` + packettest.OtherDigest + `",`)
	p := smallPacket(t, nil, "")
	other := smallPacket(t, p, "", packettest.StartedAt(packettest.Started.Add(-time.Hour)))
	for _, c := range []struct {
		what          string
		before, while func(*Input)
		code          string
	}{
		{"before", func(in *Input) { in.Live = drift }, nil, "policy-drift"},
		{"policy, while it was away", nil, func(in *Input) { in.Live = drift }, "policy-drift"},
		{"policy in force, while it was away", nil, func(in *Input) { in.Verify.PolicyDigest = packettest.OtherDigest }, "policy-drift"},
		{"image, while it was away", nil, func(in *Input) { in.Live = live(`"image":"` + packettest.OtherDigest + `",`) }, "image-drift"},
		{"nothing", nil, func(in *Input) {
			in.Live = live(`"policy":"` + p.Policy + `","image":"` + packettest.ImageDigest + `",`)
		}, ""},
		{"a live.json that says nothing", nil, func(in *Input) { in.Live = live("") }, ""},
	} {
		t.Run(c.what, func(t *testing.T) {
			out := filepath.Join(t.TempDir(), "site")
			step := func(change func(*Input), packets ...*packettest.Packet) Result {
				in := input(packets[0], packets[1:]...)
				if change != nil {
					change(&in)
				}
				return build(t, in, out)
			}
			step(c.before, p, other)
			step(c.while, other)
			res := step(nil, p, other)
			if c.code == "" {
				if res.Primary.State != StateCurrent {
					t.Errorf("%+v", res.Primary)
				}
				return
			}
			if res.Primary.State != StateHeld || !contains(res.Primary.Codes, c.code) {
				t.Errorf("%+v", res.Primary)
			}
			if strings.Contains(read(t, out, "index.html"), "critical escapes") {
				t.Error("the claim is shown again")
			}
		})
	}
}

// TestNext: the site says when the first of its claims ends, in what Build returns and in
// status.json; until then nothing of it is held by time, and after that it is.
func TestNext(t *testing.T) {
	long := smallPacket(t, nil, "")
	short := smallPacket(t, long, "registry.example.org/agents/short", packettest.Validity(20*24*time.Hour))
	held := smallPacket(t, long, "registry.example.org/agents/held", packettest.Validity(10*24*time.Hour), packettest.Escape(small()[0].ID))
	dir := t.TempDir()
	out := filepath.Join(dir, "site")
	in := input(long, short, held)
	in.Cache = filepath.Join(dir, "cache")
	moment := long.Now
	in.Clock = func() time.Time { return moment }
	count := func() (n int, next time.Time) {
		res := build(t, in, out)
		for _, a := range res.Attestations {
			if a.State == StateCurrent {
				n++
			}
		}
		var s status
		if err := json.Unmarshal([]byte(read(t, out, fileStatus)), &s); err != nil || s.Next != res.Next {
			t.Fatalf("status.json says %q, Build %q: %v", s.Next, res.Next, err)
		}
		return n, parseTime(res.Next)
	}
	n, next := count()
	if n != 2 || !next.After(moment) {
		t.Fatalf("%d claims, the first until %s", n, next)
	}
	for want := n; want > 0; want-- {
		moment = next.Add(-time.Second)
		if n, again := count(); n != want || !again.Equal(next) {
			t.Errorf("a second before %s: %d claims, %s", next, n, again)
		}
		moment = next.Add(time.Second) // the last second counts
		var after time.Time
		if n, after = count(); n != want-1 || after.IsZero() != (n == 0) || n > 0 && !after.After(next) {
			t.Errorf("at %s: %d claims, %s", next, n, after)
		}
		next = after
	}
}

// TestRevokedTwin: of two attestations of one image, one by a key that counts no longer,
// the other stands and nothing of the revoked one is shown, whichever is newer and
// although it was shown before.
func TestRevokedTwin(t *testing.T) {
	for _, newer := range []time.Duration{-time.Hour, time.Hour} {
		good := smallPacket(t, nil, "")
		revoked := newPacket(t, packettest.Catalogue(small()), packettest.StartedAt(packettest.Started.Add(newer)))
		out := filepath.Join(t.TempDir(), "site")
		was := build(t, input(revoked), out) // while its key counted
		if was.Primary.State != StateCurrent {
			t.Fatalf("%+v", was.Primary)
		}
		in := input(good)
		in.Packets = append([]Packet{FSPacket("revoked", revoked.Files)}, in.Packets...)
		res := build(t, in, out)
		if res.Primary.Packet != "packet-0" || res.Primary.State != StateCurrent {
			t.Errorf("%+v", res.Primary)
		}
		for _, a := range res.Attestations {
			if a.Packet != "revoked" {
				continue
			}
			if a.State != StateInvalid || a.Digest != was.Primary.Digest {
				t.Errorf("%+v", a)
			}
			for _, w := range claimWords {
				if a.Page != "" && strings.Contains(read(t, out, a.Page), w) {
					t.Errorf("%s contains %q", a.Page, w)
				}
			}
		}
		if _, err := os.Stat(filepath.Join(out, attestationStem(pageID(was.Primary.Digest))+endPacket)); err == nil {
			t.Error("its packet is still offered")
		}
	}
}
