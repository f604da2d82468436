package procs

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

func FuzzParseMessage(f *testing.F) {
	for _, s := range []string{
		`{"ready":null}`, `{"ready":{"a":1}}`, `{"event":[1,2]}`, `{"error":"x"}`, `{"error":null}`,
		`{"ready":1,"event":2}`, `{}`, `{"event":1}{"event":2}`, `{"other":1}`, `null`, ``, `[`, `{"event":1} `,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		m, err := parseMessage(line)
		if err != nil {
			if m.kinds() != 0 {
				t.Fatalf("refused, but with a value: %+v", m)
			}
			return
		}
		// What was accepted survives a round trip and has one meaning.
		b, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		again, err := parseMessage(b)
		if err != nil {
			t.Fatalf("%s, written again as %s, is refused: %v", line, b, err)
		}
		if m.kinds() != 1 || again.kinds() != 1 || (m.Event == nil) != (again.Event == nil) || (m.Ready == nil) != (again.Ready == nil) {
			t.Fatalf("%s and %s differ", line, b)
		}
	})
}

func TestParseMessage(t *testing.T) {
	tests := []struct {
		line string
		ok   bool
	}{
		{`{"ready":null}`, true},
		{`{"ready":{"port":1}}`, true},
		{`{"event":"x"}`, true},
		{`{"error":"x"}`, true},
		{`{"error":7}`, false},
		{`{}`, false},
		{`null`, false},
		{`{"ready":1,"event":1}`, false},
		{`{"event":1,"more":1}`, false},
		{`{"event":1}{"event":1}`, false},
		{`panic: x`, false},
	}
	for _, tt := range tests {
		if _, err := parseMessage([]byte(tt.line)); (err == nil) != tt.ok {
			t.Errorf("%s: %v", tt.line, err)
		}
	}
}

func TestHeadTail(t *testing.T) {
	var h headTail
	all := []byte(strings.Repeat("a", maxStderrHead) + strings.Repeat("b", 3*maxStderrTail) + strings.Repeat("c", maxStderrTail))
	for chunk := range bytes.Lines(bytes.ReplaceAll(all, []byte("b"), []byte("b\n"))) {
		if n, err := h.Write(chunk); n != len(chunk) || err != nil {
			t.Fatal(n, err)
		}
	}
	s := h.String()
	if !strings.HasPrefix(s, strings.Repeat("a", maxStderrHead)) || !strings.HasSuffix(s, strings.Repeat("c", maxStderrTail)) {
		t.Error("beginning or end is lost")
	}
	if !strings.Contains(s, "49152 bytes left out") {
		t.Errorf("count of what is lost: %s", s[maxStderrHead:maxStderrHead+60])
	}
}
