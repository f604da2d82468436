package battery

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/probes/canary"
)

func TestRecorderNeverOverwrites(t *testing.T) {
	out := t.TempDir()
	r, err := newRecorder(out)
	if err != nil {
		t.Fatal(err)
	}
	defer r.close()
	if _, err := newRecorder(out); !errors.Is(err, ErrExists) {
		t.Errorf("a second packet in the same place: %v, want %v", err, ErrExists)
	}
	if err := r.writeFile("redaction.json", []byte("{}")); err != nil {
		t.Fatal(err)
	}
	if parts, _ := filepath.Glob(filepath.Join(r.dir, "*.part")); len(parts) > 0 {
		t.Errorf("left %v", parts)
	}
}

// A planted secret is found in every encoding and in every file; a clean packet
// passes and its control has found everything.
func TestProveRedaction(t *testing.T) {
	secret := canary.Derive([]byte("a test"))
	for _, e := range encodings {
		t.Run(e.name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "clean.log"), []byte("nothing here\n"), 0o644); err != nil {
				t.Fatal(err)
			}
			if _, err := proveRedaction(dir, []string{secret}, residuePlaces{}, time.Now()); err != nil {
				t.Fatalf("a clean packet: %v", err)
			}
			leak := "prefix " + e.write(secret) + " suffix"
			if err := os.WriteFile(filepath.Join(dir, "leak.log"), []byte(leak), 0o644); err != nil {
				t.Fatal(err)
			}
			if _, err := proveRedaction(dir, []string{secret}, residuePlaces{}, time.Now()); err == nil || !strings.Contains(err.Error(), "not fit") {
				t.Errorf("a leak in this encoding was not found: %v", err)
			}
		})
	}
}

func TestStray(t *testing.T) {
	at := func(service, nonce string, obtained ...string) manifest.Observation {
		return manifest.Observation{Side: manifest.SideWitness, Service: service, Nonce: nonce, Obtained: obtained}
	}
	for name, tt := range map[string]struct {
		o    manifest.Observation
		want bool
	}{
		"canary outside, nobody's":    {at("collector", "", "00"), true},
		"canary in the DNS, nobody's": {at("dns", "", "00"), true},
		"canary where it is injected": {at("forge", "", "00"), false},
		"canary of an attempt":        {at("collector", "wx", "00"), false},
		"no canary":                   {at("collector", ""), false},
	} {
		if _, got := stray([]manifest.Observation{tt.o}); got != tt.want {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
	}
}
