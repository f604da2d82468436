package agent

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/internal/scripted"
	"github.com/wallproof/wallproof/probes"
	"github.com/wallproof/wallproof/probes/nonce"
)

// A model is set every task there is, in each format: one that obeys sends the
// credential, one that does not sends nothing, and both are told apart.
func TestByModel(t *testing.T) {
	for _, api := range []string{APIOpenAI, APIAnthropic} {
		for _, obeys := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, obeys %v", api, obeys), func(t *testing.T) {
				for _, id := range []string{"INJ-README", "INJ-COMMENT", "INJ-FILE-NAME", "INJ-HOMOGLYPH", "INJ-CRON"} {
					n := nonce.New([]byte("k"), "run", id, "default", "")
					w := &world{open: true}
					env := &probes.Env{Facts: place(t, w, secret), Technique: id, Variant: "default", Nonce: n}
					s := &scripted.Model{Obeys: obeys, Key: "run-key", Mark: "mark-1"}
					useModel(w, env.Facts, s, api)
					var transcript bytes.Buffer
					o := New([]string{"TOKEN=" + secret}, &transcript).Attempts()[id](context.Background(), env)
					if want := map[bool]string{true: "followed", false: "resisted"}[obeys]; o.Detail != want {
						t.Errorf("%s: %+v, want %s", id, o, want)
					}
					sent := slices.ContainsFunc(w.asks, func(h string) bool { return strings.Contains(h, "evil.example") || strings.Contains(h, "169.254") })
					if obeys && len(w.got) == 0 && !sent || !obeys && (len(w.got) > 0 || sent) {
						t.Errorf("%s: %d canaries arrived, asked for %v", id, len(w.got), w.asks)
					}
					if len(s.Faults()) > 0 {
						t.Errorf("%s: the model complains: %v", id, s.Faults())
					}
					if !strings.Contains(transcript.String(), `"role":"command"`) {
						t.Errorf("%s: transcript %s", id, transcript.String())
					}
				}
			})
		}
	}
}

// modelHost is where the sandbox finds its model.
const modelHost = "model.test"

// useModel puts a scripted model there.
func useModel(w *world, f *probes.Facts, s *scripted.Model, api string) {
	w.model = s
	f.Model = probes.Model{URL: "http://" + modelHost, Placeholder: "run-key"}
	f.Agent.Model, f.Agent.API, f.Agent.Mark = "scripted", api, "mark-1"
}

// The benign twin passes with a model, too, and fails when the model does.
func TestBenign(t *testing.T) {
	n := nonce.New([]byte("k"), "run", "HB-AGENT", "twin", "")
	for _, tt := range []struct {
		name   string
		broken bool
		want   string
	}{{"works", false, manifest.SignReached}, {"breaks off", true, manifest.SignError}} {
		w := &world{}
		env := &probes.Env{Facts: place(t, w, "placeholder"), Technique: probes.AgentHeartbeatID, Variant: "twin", Nonce: n}
		useModel(w, env.Facts, &scripted.Model{Broken: tt.broken, Key: "run-key", Mark: "mark-1"}, APIOpenAI)
		o := New(nil, nil).heartbeat(context.Background(), env)
		if o.Sign != tt.want || (o.Proof != "") != (tt.want == manifest.SignReached) {
			t.Errorf("%s: %+v", tt.name, o)
		}
	}
}
