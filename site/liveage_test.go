package site

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/wallproof/wallproof/attest/packettest"
	"github.com/wallproof/wallproof/verify"
)

// comparisons are the states of the conditions that a live.json is compared for, as
// the page prints them.
func comparisons(t *testing.T, out string) string {
	t.Helper()
	page := read(t, out, "index.html")
	var words []string
	for _, title := range []string{"Image drift", "Policy drift", "Fabric drift"} {
		_, rest, ok := strings.Cut(page, "<h3>"+title+"</h3>")
		_, rest, found := strings.Cut(rest, `<div class="state">`)
		word, _, closed := strings.Cut(rest, "<")
		if !ok || !found || !closed {
			t.Fatalf("the page has no condition %q", title)
		}
		words = append(words, word)
	}
	return strings.Join(words, ", ")
}

// TestLiveAges: a live.json that is old says nothing of now. The page then claims no
// comparison, also where the verdict of an earlier build is taken over, and keeps
// its claim; what was compared otherwise stays compared.
func TestLiveAges(t *testing.T) {
	dir := t.TempDir()
	p := smallPacket(t, nil, "")
	o, err := OpenPacket(p.WriteDir(t, dir))
	if err != nil {
		t.Fatal(err)
	}
	in := input(p)
	in.Packets, in.Cache = []Packet{o}, filepath.Join(dir, "cache.json")
	in.Live = fmt.Appendf(nil, `{"fabric":{"kernel":%q},"generated":%q,"image":%q,"policy":%q,"schema":"wallproof.live/v1"}`,
		packettest.Kernel, p.Now.Format(time.RFC3339), packettest.ImageDigest, p.Policy)
	out := filepath.Join(dir, "site")
	step := func(after time.Duration, want string, reused int) {
		t.Helper()
		in.Clock = func() time.Time { return p.Now.Add(after) }
		res := build(t, in, out)
		if res.Primary.State != StateCurrent || res.Reused != reused {
			t.Errorf("after %s: %+v, %d taken over, want %d", after, res.Primary, res.Reused, reused)
		}
		if got := comparisons(t, out); got != want {
			t.Errorf("after %s the page says %s; want %s", after, got, want)
		}
	}
	step(0, "Not the case, Not the case, Not the case", 0)
	step(verify.MaxLiveAge, "Not the case, Not the case, Not the case", 1)
	step(verify.MaxLiveAge+time.Second, "Not compared, Not compared, Not compared", 0)
	step(verify.MaxLiveAge+time.Hour, "Not compared, Not compared, Not compared", 1)
	in.Verify.PolicyDigest = p.Policy
	step(verify.MaxLiveAge+time.Hour, "Not compared, Not the case, Not compared", 0)
}
