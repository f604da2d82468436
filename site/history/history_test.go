package history

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"
)

const digest = "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

var start = time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)

func TestRecord(t *testing.T) {
	h := New()
	h.Record(digest, "s", "n", StateCurrent, nil, start)
	h.Record(digest, "s", "n", StateCurrent, nil, start.Add(time.Hour))
	h.Record(digest, "", "", StateHeld, []string{"b", "a", "b"}, start.Add(2*time.Hour))
	h.Record(digest, "s", "n", StateHeld, []string{"a", "b"}, start.Add(3*time.Hour))
	h.Record(digest, "s", "n", StateCurrent, nil, start.Add(-time.Hour))
	e := h.Attestations[digest]
	if len(e.Events) != 3 || e.Subject != "s" || e.Name != "n" {
		t.Fatalf("%+v", e)
	}
	if got := strings.Join(e.Events[1].Codes, " "); got != "a b" {
		t.Errorf("codes %q", got)
	}
	if e.Events[2].Time != e.Events[1].Time {
		t.Errorf("a clock that was set back unordered the history: %+v", e.Events)
	}
	if h.Since(digest) != e.Events[2].Time || h.Since("x") != "" {
		t.Error("Since is not the last event's time")
	}
}

func TestLatch(t *testing.T) {
	h := New()
	h.Latch(digest, "", "policy-drift", start)
	h.Latch(digest, "", "policy-drift", start.Add(time.Hour))
	h.Latch(digest, "", "image-drift", start.Add(time.Hour))
	got := h.Latched(digest, "")
	if len(got) != 2 || got[0].Since != Stamp(start) {
		t.Fatalf("%+v", got)
	}
	got[0].Code = "changed"
	if h.Latched(digest, "")[0].Code != "policy-drift" {
		t.Error("a caller can change the history through Latched")
	}
	if h.Latched("unknown", "") != nil {
		t.Error("an unknown attestation is latched")
	}
}

func TestRoundTrip(t *testing.T) {
	h := New()
	h.Record(digest, "sha256:b", "<name>", StateHeld, []string{"expired"}, start)
	h.Latch(digest, "", "policy-drift", start)
	b, err := h.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	again, err := Parse(b)
	if err != nil {
		t.Fatal(err)
	}
	b2, err := again.Bytes()
	if err != nil || !bytes.Equal(b, b2) {
		t.Errorf("%v\n%s\n%s", err, b, b2)
	}
}

func TestParseRefuses(t *testing.T) {
	entry := func(s string) string {
		return `{"schema":"` + Schema + `","attestations":{"` + digest + `":` + s + `}}`
	}
	for name, text := range map[string]string{
		"schema":         `{"schema":"other","attestations":{}}`,
		"no schema":      `{}`,
		"unknown member": `{"schema":"` + Schema + `","x":1}`,
		"trailing":       `{"schema":"` + Schema + `"}{}`,
		"digest":         `{"schema":"` + Schema + `","attestations":{"abc":{}}}`,
		"null":           entry(`null`),
		"state":          entry(`{"events":[{"time":"2026-01-02T03:04:05Z","state":"fine"}]}`),
		"time":           entry(`{"events":[{"time":"yesterday","state":"held"}]}`),
		"order":          entry(`{"events":[{"time":"2026-01-02T03:04:05Z","state":"held"},{"time":"2026-01-01T03:04:05Z","state":"current"}]}`),
		"code":           entry(`{"events":[{"time":"2026-01-02T03:04:05Z","state":"held","codes":["<b>"]}]}`),
		"latch":          entry(`{"latched":[{"code":"x","since":"never"}]}`),
		"latch code":     entry(`{"latched":[{"code":"X Y","since":"2026-01-02T03:04:05Z"}]}`),
		"cut":            `{"schema":"` + Schema,
	} {
		if h, err := Parse([]byte(text)); err == nil || h != nil {
			t.Errorf("%s: accepted: %+v", name, h)
		}
	}
	if _, err := Parse([]byte(`{"schema":"other","attestations":{}}`)); !errors.Is(err, ErrSchema) {
		t.Error("an unknown schema has no type of its own")
	}
	if h, err := Parse(nil); err != nil || len(h.Attestations) != 0 {
		t.Errorf("no bytes: %v, %v", h, err)
	}
	if _, err := Parse([]byte(`{"schema":"` + Schema + `","attestations":null}`)); err != nil {
		t.Error(err)
	}
}

// FuzzParse: what is accepted round-trips and can be recorded into.
func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"schema":"` + Schema + `","attestations":{"` + digest + `":{"events":[{"time":"2026-01-02T03:04:05Z","state":"held","codes":["a"]}]}}}`))
	f.Add([]byte(`{"schema":"` + Schema + `","attestations":{}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := Parse(b)
		if err != nil {
			if h != nil {
				t.Fatal("an error left a value")
			}
			return
		}
		h.Record(digest, "s", "n", StateCurrent, nil, start)
		h.Latch(digest, "", "policy-drift", start)
		out, err := h.Bytes()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Parse(out); err != nil {
			t.Fatalf("does not read its own output: %v", err)
		}
	})
}

// TestRunLatches: signing a run once more does not shake off a drift that was
// seen under an earlier attestation of it.
func TestRunLatches(t *testing.T) {
	run, other := "sha256:"+strings.Repeat("e", 64), "sha256:"+strings.Repeat("d", 64)
	again := "sha256:" + strings.Repeat("9", 64)
	h := New()
	h.Latch(digest, run, "policy-drift", start)
	for range 2 { // as built, and as read back
		if got := h.Latched(again, run); len(got) != 1 || got[0] != (Latch{Code: "policy-drift", Since: Stamp(start)}) {
			t.Errorf("another attestation of the run: %v", got)
		}
		if got := h.Latched(again, other); got != nil {
			t.Errorf("another run: %v", got)
		}
		if got := h.Latched(again, ""); got != nil {
			t.Errorf("an unknown run: %v", got)
		}
		b, err := h.Bytes()
		if err != nil {
			t.Fatal(err)
		}
		if h, err = Parse(b); err != nil {
			t.Fatal(err)
		}
	}
	h.Latch(again, run, "policy-drift", start.Add(time.Hour))
	if got := h.Attestations[again].Latched; len(got) != 1 || got[0].Since != Stamp(start) {
		t.Errorf("the first sighting counts: %v", got)
	}
	if _, err := Parse([]byte(`{"schema":"` + Schema + `","attestations":{"` + digest + `":{"run":"x"}}}`)); err == nil {
		t.Error("a run that is no digest is read")
	}
}
