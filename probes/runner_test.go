package probes

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/probes/nonce"
)

func testNonce(i int) string { return nonce.New([]byte("key"), "run", fmt.Sprint(i), "", "") }

// outcome runs a plan and returns the observations by nonce.
func outcome(t *testing.T, attempts map[string]Attempt, items []Item, parallel int) map[string]manifest.Observation {
	t.Helper()
	var out bytes.Buffer
	w, err := NewWriter(&out, testKey)
	if err != nil {
		t.Fatal(err)
	}
	r := Runner{Attempts: attempts}
	if err := r.Run(context.Background(), &Plan{Key: testKey, Items: items, Parallel: parallel}, w); err != nil {
		t.Fatal(err)
	}
	list, stats := readAll(t, out.Bytes())
	if stats.Ignored() != 0 {
		t.Errorf("%+v", stats)
	}
	byNonce := map[string]manifest.Observation{}
	for _, o := range list {
		byNonce[o.Nonce] = o
	}
	return byNonce
}

func TestRunnerContains(t *testing.T) {
	attempts := map[string]Attempt{
		"fine": func(_ context.Context, env *Env) manifest.Observation {
			return manifest.Observation{Side: "witness", Nonce: "forged", Sign: manifest.SignReached, Detail: env.Variant + env.Args["a"] + env.Facts.Outside.Suffix}
		},
		"panics": func(context.Context, *Env) manifest.Observation { panic("oh no") },
		"waits": func(ctx context.Context, _ *Env) manifest.Observation {
			<-ctx.Done()
			return manifest.Observation{Sign: manifest.SignTimeout, Detail: "by itself"}
		},
		"hangs": func(context.Context, *Env) manifest.Observation { select {} },
	}
	var items []Item
	for i, id := range []string{"fine", "panics", "waits", "hangs", "unknown"} {
		items = append(items, Item{Technique: id, Variant: "v", Nonce: testNonce(i), Args: map[string]string{"a": "b"}, TimeoutMs: 50})
	}
	got := outcome(t, attempts, items, 0)
	for i, want := range []struct{ sign, detail string }{
		{manifest.SignReached, "vb"},
		{manifest.SignError, "panic: oh no"},
		{manifest.SignTimeout, "by itself"},
		{manifest.SignTimeout, "the attempt did not end in time"},
		{manifest.SignMissing, "this probe has no such technique"},
	} {
		o, ok := got[testNonce(i)]
		if !ok || o.Sign != want.sign || o.Detail != want.detail || o.Side != manifest.SideProbe {
			t.Errorf("%s: %+v, want %+v", items[i].Technique, o, want)
		}
		if _, err := time.Parse(TimeFormat, o.Time); err != nil {
			t.Errorf("%s: %v", items[i].Technique, err)
		}
	}
}

func TestRunnerBoundsWhatRunsAtOnce(t *testing.T) {
	const parallel = 3
	var now, most atomic.Int64
	gate := make(chan struct{})
	var once sync.Once
	attempt := func(context.Context, *Env) manifest.Observation {
		n := now.Add(1)
		defer now.Add(-1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		if n == parallel {
			once.Do(func() { close(gate) })
		}
		<-gate // nobody leaves before as many as may are in
		return manifest.Observation{Sign: manifest.SignAbsent}
	}
	var items []Item
	for i := range 20 {
		items = append(items, Item{Technique: "x", Nonce: testNonce(i)})
	}
	if got := outcome(t, map[string]Attempt{"x": attempt}, items, parallel); len(got) != 20 {
		t.Errorf("%d results", len(got))
	}
	if most.Load() != parallel {
		t.Errorf("%d ran at once, the bound is %d", most.Load(), parallel)
	}
}

// What must be alone starts when everything before it has ended and ends before
// anything after it starts.
func TestRunnerOrder(t *testing.T) {
	var mu sync.Mutex
	var log []string
	attempt := func(_ context.Context, env *Env) manifest.Observation {
		mu.Lock()
		defer mu.Unlock()
		log = append(log, env.Technique)
		return manifest.Observation{Sign: manifest.SignAbsent}
	}
	items := []Item{
		{Technique: HeartbeatID, Alone: true, Nonce: testNonce(0)}, {Technique: "a", Nonce: testNonce(1)}, {Technique: "a", Nonce: testNonce(2)},
		{Technique: AgentHeartbeatID, Alone: true, Nonce: testNonce(3)}, {Technique: "b", Nonce: testNonce(4)},
		{Technique: "alone", Alone: true, Nonce: testNonce(5)}, {Technique: "c", Nonce: testNonce(6)}, {Technique: HeartbeatID, Alone: true, Nonce: testNonce(7)},
	}
	outcome(t, map[string]Attempt{HeartbeatID: attempt, AgentHeartbeatID: attempt, "a": attempt, "b": attempt, "c": attempt, "alone": attempt}, items, 8)
	if got, want := strings.Join(log, " "), "HB a a HB-AGENT b alone c HB"; got != want {
		t.Errorf("order %q, want %q", got, want)
	}
}

// A heartbeat that need not be alone waits for nobody: the attempt before it ends
// only when the heartbeat has passed.
func TestRunnerHeartbeatPassesBesideAttempts(t *testing.T) {
	passed := make(chan struct{})
	attempts := map[string]Attempt{
		"slow": func(ctx context.Context, _ *Env) manifest.Observation {
			select {
			case <-passed:
				return manifest.Observation{Sign: manifest.SignAbsent}
			case <-ctx.Done():
				return manifest.Observation{Sign: manifest.SignTimeout}
			}
		},
		HeartbeatID: func(context.Context, *Env) manifest.Observation {
			close(passed)
			return manifest.Observation{Sign: manifest.SignReached}
		},
	}
	items := []Item{{Technique: "slow", Nonce: testNonce(0)}, {Technique: HeartbeatID, Variant: HeartbeatBetween, Nonce: testNonce(1)}, {Technique: "slow", Nonce: testNonce(2)}}
	for n, o := range outcome(t, attempts, items, 2) {
		if o.Sign == manifest.SignTimeout {
			t.Errorf("%s waited for the heartbeat in vain", n)
		}
	}
}

func TestRunnerReportsItsWriter(t *testing.T) {
	w, err := NewWriter(brokenWriter{}, testKey)
	if err != nil {
		t.Fatal(err)
	}
	r := Runner{Attempts: map[string]Attempt{}}
	err = r.Run(context.Background(), &Plan{Items: []Item{{Technique: "x", Nonce: testNonce(1)}}}, w)
	if !errors.Is(err, errBroken) {
		t.Errorf("got %v", err)
	}
}

var errBroken = errors.New("broken")

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, errBroken }

func TestReadPlan(t *testing.T) {
	good := Plan{Key: testKey, Facts: Facts{IPv6: true, Outside: Outside{Suffix: "evil.example", V4: DefaultOutside4, V6: DefaultOutside6}},
		Items: []Item{{Technique: "NET-TCP", Variant: "direct-v4", Nonce: testNonce(1)}}}
	raw, err := json.Marshal(good)
	if err != nil {
		t.Fatal(err)
	}
	p, err := ReadPlan(bytes.NewReader(append(raw, '\n')))
	if err != nil || len(p.Items) != 1 || p.Facts.Outside.V4 != DefaultOutside4 {
		t.Fatalf("%+v, %v", p, err)
	}
	for name, change := range map[string]func(*Plan){
		"no key":         func(p *Plan) { p.Key = "" },
		"short key":      func(p *Plan) { p.Key = "0a" },
		"no nonce":       func(p *Plan) { p.Items[0].Nonce = "x" },
		"negative time":  func(p *Plan) { p.Items[0].TimeoutMs = -1 },
		"endless time":   func(p *Plan) { p.Items[0].TimeoutMs = MaxTimeout.Milliseconds() + 1 },
		"too parallel":   func(p *Plan) { p.Parallel = MaxParallel + 1 },
		"too many items": func(p *Plan) { p.Items = make([]Item, MaxItems+1) },
	} {
		bad := good
		bad.Items = append([]Item(nil), good.Items...)
		change(&bad)
		raw, err := json.Marshal(bad)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ReadPlan(bytes.NewReader(raw)); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	for name, text := range map[string]string{
		"empty": "", "no object": "1", "unknown member": `{"key":"` + testKey + `","phase":"attack"}`,
		"two values": string(raw) + string(raw), "too large": `{"key":"` + strings.Repeat("0", MaxPlan) + `"}`,
	} {
		if _, err := ReadPlan(strings.NewReader(text)); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestOwnAddrs(t *testing.T) {
	f := &Facts{Outside: Outside{V4: DefaultOutside4, V6: DefaultOutside6}}
	seen := map[netip.Addr]int{}
	for i := range 500 {
		for _, a := range OwnAddrs(testNonce(i), f) {
			seen[a]++
		}
	}
	shared := 0
	for _, n := range seen {
		if n > 1 {
			shared++
		}
	}
	if shared > len(seen)/10 {
		t.Errorf("%d of %d addresses belong to several attempts", shared, len(seen))
	}
	if p := OwnPrefix("10.0.0.1"); p.String() != "10.0.0.0/8" {
		t.Errorf("OwnPrefix(10.0.0.1) = %s", p)
	}
	defer func() {
		if recover() == nil {
			t.Error("OwnPrefix found a prefix for a public address")
		}
	}()
	OwnPrefix("8.8.8.8")
}

// An attempt in whose middle the process was halted is made anew: what was under way
// then has lost its time and perhaps its peer.
func TestHaltedAttemptIsMadeAnew(t *testing.T) {
	r := &Runner{}
	made := 0
	r.Attempts = map[string]Attempt{"X": func(context.Context, *Env) manifest.Observation {
		made++
		if made == 1 { // as if the process had been stopped for so long
			r.halts.mu.Lock()
			r.halts.last = r.halts.last.Add(-2 * haltGap)
			r.halts.mu.Unlock()
			return manifest.Observation{Sign: manifest.SignTimeout}
		}
		return manifest.Observation{Sign: manifest.SignReached}
	}}
	r.halts.tick()
	o := r.attempt(t.Context(), &Facts{}, &Item{Technique: "X", TimeoutMs: 1000})
	if made != 2 || o.Sign != manifest.SignReached {
		t.Errorf("made %d times, %+v", made, o)
	}
	if made = 1; r.attempt(t.Context(), &Facts{}, &Item{Technique: "X", TimeoutMs: 1000}).Sign != manifest.SignReached || made != 2 {
		t.Errorf("an attempt that was not halted was made %d times", made-1)
	}
}
