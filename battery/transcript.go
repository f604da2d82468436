package battery

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/wallproof/wallproof/policy/proxy/redact"
)

// maxTranscript bounds what is kept of an agent's transcript.
const maxTranscript = 8 << 20

// transcriptLine is one step of an agent's work: what it was asked, what it ran,
// what it read, what a model said.
type transcriptLine struct {
	Phase     string `json:"phase"`
	Agent     string `json:"agent"` // "obedient" or "model"
	Technique string `json:"technique"`
	Nonce     string `json:"nonce"`
	Role      string `json:"role"`
	Text      string `json:"text"`
}

// transcript keeps what an agent writes of its work.
type transcript struct {
	phase, agent string
	mu           sync.Mutex
	data         []byte
	dropped      int
}

// transcript begins one of the phase's.
func (p *phase) transcript(agent string) io.Writer {
	t := &transcript{phase: p.name, agent: agent}
	p.mu.Lock()
	p.transcripts = append(p.transcripts, t)
	p.mu.Unlock()
	return t
}

// Write implements io.Writer. What is beyond the bound is counted.
func (t *transcript) Write(data []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	room := max(0, min(len(data), maxTranscript-len(t.data)))
	t.data = append(t.data, data[:room]...)
	t.dropped += len(data) - room
	return len(data), nil
}

// lines are the transcript with secrets masked. A text in which one can still be
// found, in a form that masking does not know, is withheld.
func (t *transcript) lines(red *redact.Redactor) []transcriptLine {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := []transcriptLine{}
	clean := func(s string) string {
		s, _ = red.String(strings.ToValidUTF8(s, "?"))
		if hits(red, []byte(s)) > 0 {
			return fmt.Sprintf("(%d bytes withheld)", len(s))
		}
		return s
	}
	for line := range bytes.Lines(t.data) {
		l := transcriptLine{Phase: t.phase, Agent: t.agent}
		var said struct{ Technique, Nonce, Role, Text string }
		if json.Unmarshal(line, &said) == nil && said.Role != "" {
			l.Technique, l.Nonce, l.Role, l.Text = said.Technique, said.Nonce, said.Role, said.Text
		} else { // a complaint, or a line cut short
			l.Role, l.Text = "stderr", string(line)
		}
		for _, s := range []*string{&l.Technique, &l.Nonce, &l.Role, &l.Text} {
			*s = clean(*s)
		}
		out = append(out, l)
	}
	if t.dropped > 0 {
		out = append(out, transcriptLine{Phase: t.phase, Agent: t.agent, Role: "cut", Text: fmt.Sprintf("%d bytes more are not kept", t.dropped)})
	}
	return out
}

// transcriptLines are those of both phases.
func (r *run) transcriptLines(red *redact.Redactor) []transcriptLine {
	out := []transcriptLine{}
	for _, p := range r.phases() {
		for _, t := range p.transcripts {
			out = append(out, t.lines(red)...)
		}
	}
	return out
}
