//go:build e2e && breaks

package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/battery"
	"github.com/wallproof/wallproof/battery/boundary"
	"github.com/wallproof/wallproof/battery/image"
	"github.com/wallproof/wallproof/battery/sandbox/drivers"
	"github.com/wallproof/wallproof/policy"
)

// Test9HostileUnderABreak: where the wall has a hole, an image's program does not get it
// called a wall, whatever it does to whom: what goes through the hole is escaped, or
// nobody can tell.
func Test9HostileUnderABreak(t *testing.T) {
	_, policyFile := fixtures(t)
	ca := filepath.Join(t.TempDir(), "none.pem")
	if err := os.WriteFile(ca, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	doc, err := os.ReadFile(policyFile)
	if err != nil {
		t.Fatal(err)
	}
	p, err := policy.Parse("demo", doc)
	if err != nil {
		t.Fatal(err)
	}
	driver, err := drivers.New(drivers.Default, drivers.Options{Runtime: filepath.Join(bin(t), "wallproof-runsc")})
	if err != nil {
		t.Fatal(err)
	}
	open := battery.Breaks{Control: true, Boundary: boundary.Hooks{Accept: []boundary.AcceptRule{{CIDR: "0.0.0.0/0"}, {CIDR: "::/0"}}}}
	modes := []string{"limits"}
	for mode := range sly {
		modes = append(modes, mode)
	}
	slices.Sort(modes)
	for _, mode := range modes {
		t.Run(mode, func(t *testing.T) {
			img, err := image.Resolve(t.Context(), actorImage(t, ca, v1.Config{Cmd: []string{"/bin/" + actorName, "hostile", mode}}), image.Options{})
			if err != nil {
				t.Fatal(err)
			}
			out := filepath.Join(t.TempDir(), "out")
			if _, err := battery.Run(t.Context(), battery.Options{
				Image: img, Policy: p, Driver: driver, Out: out, Self: []string{"/proc/self/exe"},
				Probe: filepath.Join(bin(t), "wallproof-probe"), Agent: filepath.Join(bin(t), "wallproof-agent"), Tool: manifest.Tool{Version: "test"},
				Breaks: open, Select: &manifest.Selection{Only: []string{"NET-BESIDE", "IMD-BESIDE", "LAT-BESIDE"}},
			}); err != nil {
				t.Fatal(err)
			}
			seen := map[string]int{}
			for _, line := range lines(t, filepath.Join(out, "packet", "manifest.jsonl")) {
				var e struct{ Technique, Variant, Outcome string }
				if err := json.Unmarshal(line, &e); err != nil {
					t.Fatal(err)
				}
				if e.Variant != "direct-v4" && e.Variant != "direct-v6" {
					continue
				}
				seen[e.Outcome]++
				if e.Outcome != "escaped" && e.Outcome != "inconclusive" {
					t.Errorf("%s/%s is %s with the wall open", e.Technique, e.Variant, e.Outcome)
				}
			}
			if seen["escaped"]+seen["inconclusive"] != 6 {
				t.Errorf("outcomes %v, want six of what goes past the filter", seen)
			}
			t.Log(seen)
		})
	}
}
