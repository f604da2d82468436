// Package scripted is a model for tests: the real wire formats of OpenAI's chat
// completions and Anthropic's messages with tools and streaming, and a script in
// place of a mind.
package scripted

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"

	"github.com/wallproof/wallproof/probes/inj"
)

// Model is a model in both wire formats, told apart by the path. It runs what the
// user asks, and, if it obeys, whatever it then reads, and says a word at the end.
// It streams, in parts as small as the real ones'.
type Model struct {
	Obeys  bool
	Broken bool   // its streams end before its answers do
	Key    string // that must be shown
	Mark   string // that must stand in each request; "" for none

	mu     sync.Mutex
	asked  int
	faults []string
}

// Asked is how many requests came.
func (s *Model) Asked() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked
}

// Faults are what was wrong with requests.
func (s *Model) Faults() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.faults...)
}

func (s *Model) fault(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = append(s.faults, fmt.Sprintf(format, args...))
}

// message is a message of either format, as far as the script reads it.
type message struct {
	Role    string `json:"role"`
	Content any    `json:"content"`
}

// text is the text of a message, tool results included.
func (m message) text() string {
	switch c := m.Content.(type) {
	case string:
		return c
	case []any:
		var out string
		for _, b := range c {
			block, _ := b.(map[string]any)
			for _, k := range []string{"text", "content"} {
				if s, ok := block[k].(string); ok {
					out += s
				}
			}
		}
		return out
	}
	return ""
}

// ServeHTTP implements http.Handler.
func (s *Model) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var ask struct {
		Stream   bool      `json:"stream"`
		Messages []message `json:"messages"`
		Tools    []any     `json:"tools"`
	}
	body, _ := io.ReadAll(r.Body)
	if json.Unmarshal(body, &ask) != nil || len(ask.Tools) != 1 || !bytes.Contains(body, []byte(s.Mark)) {
		s.fault("request %.300s", body)
	}
	s.mu.Lock()
	s.asked++
	s.mu.Unlock()
	var commands []string
	if len(ask.Messages) == 0 {
		http.Error(w, "no messages", http.StatusBadRequest)
		return
	}
	last := ask.Messages[len(ask.Messages)-1]
	switch {
	case len(ask.Messages) <= 2 && last.Role == "user" && !strings.Contains(last.text(), "(status"):
		commands = []string{inj.Command(last.text())}
	case s.Obeys:
		commands = inj.Instructions(last.text())
	}
	if strings.HasSuffix(r.URL.Path, "/messages") {
		if r.Header.Get("X-Api-Key") != s.Key {
			s.fault("no key in %v", r.Header)
		}
		s.anthropic(w, commands)
		return
	}
	if r.Header.Get("Authorization") != "Bearer "+s.Key {
		s.fault("no key in %v", r.Header)
	}
	s.openAI(w, commands)
}

func (s *Model) event(w io.Writer, name string, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		s.fault("%v", err)
	}
	if name != "" {
		fmt.Fprintf(w, "event: %s\n", name)
	}
	fmt.Fprintf(w, "data: %s\n\n", b)
}

// openAI streams calls in parts, as the real one does.
func (s *Model) openAI(w http.ResponseWriter, commands []string) {
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	chunk := func(delta any, finish any) {
		s.event(w, "", map[string]any{"object": "chat.completion.chunk", "choices": []any{map[string]any{"index": 0, "delta": delta, "finish_reason": finish}}})
	}
	for i, c := range commands {
		args, _ := json.Marshal(map[string]string{"command": c})
		chunk(map[string]any{"tool_calls": []any{map[string]any{"index": i, "id": fmt.Sprint("call_", i), "type": "function", "function": map[string]any{"name": "shell", "arguments": ""}}}}, nil)
		for _, part := range []string{string(args[:len(args)/2]), string(args[len(args)/2:])} {
			chunk(map[string]any{"tool_calls": []any{map[string]any{"index": i, "function": map[string]any{"arguments": part}}}}, nil)
		}
	}
	if s.Broken {
		return
	}
	if len(commands) == 0 {
		chunk(map[string]any{"content": "Done."}, nil)
	}
	chunk(map[string]any{}, "stop")
	fmt.Fprint(w, "data: [DONE]\n\n")
}

func (s *Model) anthropic(w http.ResponseWriter, commands []string) {
	w.Header().Set("Content-Type", "text/event-stream")
	send := func(kind string, more map[string]any) {
		more["type"] = kind
		s.event(w, kind, more)
	}
	send("message_start", map[string]any{"message": map[string]any{"id": "msg_1", "role": "assistant", "content": []any{}}})
	send("ping", map[string]any{})
	send("content_block_start", map[string]any{"index": 0, "content_block": map[string]any{"type": "text", "text": ""}})
	send("content_block_delta", map[string]any{"index": 0, "delta": map[string]any{"type": "text_delta", "text": "Let me see."}})
	send("content_block_stop", map[string]any{"index": 0})
	for i, c := range commands {
		args, _ := json.Marshal(map[string]string{"command": c})
		send("content_block_start", map[string]any{"index": i + 1, "content_block": map[string]any{"type": "tool_use", "id": fmt.Sprint("toolu_", i), "name": "shell", "input": map[string]any{}}})
		for _, part := range []string{"", string(args[:len(args)/2]), string(args[len(args)/2:])} {
			send("content_block_delta", map[string]any{"index": i + 1, "delta": map[string]any{"type": "input_json_delta", "partial_json": part}})
		}
		send("content_block_stop", map[string]any{"index": i + 1})
	}
	if s.Broken {
		return
	}
	send("message_delta", map[string]any{"delta": map[string]any{"stop_reason": "end_turn"}})
	send("message_stop", map[string]any{})
}
