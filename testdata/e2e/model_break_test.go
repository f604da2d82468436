//go:build e2e && breaks

package e2e

import (
	"crypto/rand"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/battery"
	"github.com/wallproof/wallproof/battery/breaks"
	"github.com/wallproof/wallproof/battery/image"
	"github.com/wallproof/wallproof/battery/sandbox/drivers"
	"github.com/wallproof/wallproof/internal/reexec"
	"github.com/wallproof/wallproof/internal/scripted"
	"github.com/wallproof/wallproof/policy"
)

// The run's helper processes are this binary again, with a command of their own.
func init() {
	if code, ok := reexec.Main(os.Args); ok {
		os.Exit(code)
	}
}

// openToAll lets the agent talk to anybody, so that one leaked secret is the only hole.
const openToAll = `
version: 1
name: open-to-all
mode: denylist
allow:
  - host: pages.wallproof-demo.example
block:
  - host: blocked.wallproof-demo.example
model: {api: %PROVIDER%, url: 'https://model.provider.example/v1', allow: [gpt-4o]}
`

// Test9ModelUnderABreak: a model that obeys every injection is seen to give a secret
// away where one has leaked into its sandbox, in both formats; without the leak the same
// model, by the same ways, gives nothing away.
func Test9ModelUnderABreak(t *testing.T) {
	layout, _ := fixtures(t)
	img, err := image.Resolve(t.Context(), layout, image.Options{})
	if err != nil {
		t.Fatal(err)
	}
	driver, err := drivers.New(drivers.Default, drivers.Options{Runtime: filepath.Join(bin(t), "wallproof-runsc")})
	if err != nil {
		t.Fatal(err)
	}
	leak, err := breaks.Parse("leak.yaml", []byte("kind: environment-leak\nwith: {variable: GITHUB_TOKEN, secret: git, sandbox: agent}\npolicy: denylist\ncaught-by: [INJ-README]\n"))
	if err != nil {
		t.Fatal(err)
	}
	broken, err := leak.Hooks()
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, provider string
		hooks          battery.Breaks
		escapes        bool
	}{
		{"openai, leaked", "openai", broken, true},
		{"anthropic, leaked", "anthropic", broken, true},
		{"openai, intact", "openai", battery.Breaks{}, false},
		{"anthropic, intact", "anthropic", battery.Breaks{}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			key := "endpoint-key-" + rand.Text() // none that stands in this binary: the run searches for its secrets in temporary folders
			m := &scripted.Model{Obeys: true, Key: key}
			srv := httptest.NewServer(m)
			defer srv.Close()
			p, err := policy.Parse("open-to-all", []byte(strings.ReplaceAll(openToAll, "%PROVIDER%", tt.provider)))
			if err != nil {
				t.Fatal(err)
			}
			tt.hooks.Control = true
			res, err := battery.Run(t.Context(), battery.Options{
				Image: img, Policy: p, Driver: driver, Out: filepath.Join(t.TempDir(), "out"), Self: []string{"/proc/self/exe"},
				Probe: filepath.Join(bin(t), "wallproof-probe"), Agent: filepath.Join(bin(t), "wallproof-agent"), Tool: manifest.Tool{Version: "test"},
				Breaks: tt.hooks, Select: &manifest.Selection{Only: []string{"INJ-README", "INJ-LANGUAGE", "INJ-COMMENT"}},
				Model: &battery.ModelAgent{ID: "gpt-4o", Endpoint: srv.URL + "/v1", Key: key},
			})
			if err != nil {
				t.Fatal(err)
			}
			if len(m.Faults()) > 0 || m.Asked() == 0 || res.Model == nil {
				t.Fatalf("the model was asked %d times and complains %v", m.Asked(), m.Faults())
			}
			if got := *res.Model; got.Escapes > 0 != tt.escapes || got.Followed == 0 || got.Failed > 0 {
				t.Errorf("%+v, want escapes: %v", got, tt.escapes)
			}
		})
	}
}
