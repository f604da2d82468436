package services

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
)

// modelName is what the endpoint calls its one model.
const modelName = "wallproof-model"

// Model answers as OpenAI's chat completions and responses endpoints and as
// Anthropic's messages endpoint do, streaming included. The answer's text is the
// next of replies (the last one repeats), followed by the proof on a line of its
// own.
func Model(replies []string) Service {
	if len(replies) == 0 {
		replies = []string{"The world answers."}
	}
	var turn atomic.Int64
	return func(req Request) (Response, bool) {
		p := strings.TrimSuffix(req.Path, "/")
		if strings.HasSuffix(p, "/models") && req.Method == http.MethodGet {
			return object(req, http.StatusOK, map[string]any{"object": "list", "data": []any{map[string]any{"id": modelName, "object": "model", "type": "model"}}}), true
		}
		if req.Method != http.MethodPost {
			return Response{}, false
		}
		wire := wires[p[strings.LastIndex(p, "/")+1:]]
		if wire == nil {
			return Response{}, false
		}
		i := min(int(turn.Add(1))-1, len(replies)-1)
		say := replies[i]
		if req.Answer != "" {
			say += "\n" + req.Answer
		}
		var ask struct {
			Stream bool `json:"stream"`
		}
		if json.Unmarshal(req.Body, &ask) != nil {
			return object(req, http.StatusBadRequest, map[string]any{"error": map[string]any{"type": "invalid_request_error", "message": "body is not JSON"}}), true
		}
		return wire(say, ask.Stream), true
	}
}

// HostedSearch reports whether the body of a model request asks for a search
// that the provider itself would make, in any of the vendors' forms.
func HostedSearch(body []byte) bool {
	var ask struct {
		Model string `json:"model"`
		Tools []struct {
			Type string `json:"type"`
			Name string `json:"name"`
			// Google's form is a member without a type.
			GoogleSearch json.RawMessage `json:"google_search"`
			Retrieval    json.RawMessage `json:"google_search_retrieval"`
		} `json:"tools"`
		Options json.RawMessage `json:"web_search_options"`
		Plugins []struct {
			ID string `json:"id"`
		} `json:"plugins"`
	}
	if json.Unmarshal(body, &ask) != nil {
		return false
	}
	if len(ask.Options) > 0 || strings.HasSuffix(ask.Model, ":online") || strings.Contains(ask.Model, "-search-") {
		return true
	}
	for _, p := range ask.Plugins {
		if p.ID == "web" {
			return true
		}
	}
	for _, t := range ask.Tools {
		if strings.HasPrefix(t.Type, "web_search") || strings.HasPrefix(t.Type, "web_fetch") || len(t.GoogleSearch) > 0 || len(t.Retrieval) > 0 {
			return true
		}
	}
	return false
}

// wires are the wire formats by the last part of the path.
var wires = map[string]func(say string, stream bool) Response{
	"completions": chatCompletion,
	"responses":   openAIResponse,
	"messages":    anthropicMessage,
}

func chatCompletion(say string, stream bool) Response {
	base := map[string]any{"id": "chatcmpl-wallproof", "created": 0, "model": modelName}
	if !stream {
		base["object"] = "chat.completion"
		base["choices"] = []any{map[string]any{"index": 0, "finish_reason": "stop", "message": map[string]any{"role": "assistant", "content": say}}}
		base["usage"] = map[string]any{"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
		return value(http.StatusOK, base)
	}
	var b strings.Builder
	for i, part := range halves(say) {
		delta := map[string]any{"content": part}
		if i == 0 {
			delta["role"] = "assistant"
		}
		base["object"] = "chat.completion.chunk"
		base["choices"] = []any{map[string]any{"index": 0, "delta": delta, "finish_reason": nil}}
		event(&b, "", base)
	}
	base["choices"] = []any{map[string]any{"index": 0, "delta": map[string]any{}, "finish_reason": "stop"}}
	event(&b, "", base)
	b.WriteString("data: [DONE]\n\n")
	return eventStream(b.String())
}

func openAIResponse(say string, stream bool) Response {
	content := []any{map[string]any{"type": "output_text", "text": say, "annotations": []any{}}}
	item := map[string]any{"type": "message", "id": "msg_wallproof", "role": "assistant", "status": "completed", "content": content}
	whole := map[string]any{"id": "resp_wallproof", "object": "response", "created_at": 0, "status": "completed", "model": modelName, "output": []any{item}}
	if !stream {
		return value(http.StatusOK, whole)
	}
	var b strings.Builder
	for _, part := range halves(say) {
		event(&b, "response.output_text.delta", map[string]any{"type": "response.output_text.delta", "item_id": "msg_wallproof", "output_index": 0, "content_index": 0, "delta": part})
	}
	event(&b, "response.completed", map[string]any{"type": "response.completed", "response": whole})
	return eventStream(b.String())
}

func anthropicMessage(say string, stream bool) Response {
	message := map[string]any{
		"id": "msg_wallproof", "type": "message", "role": "assistant", "model": modelName, "stop_reason": "end_turn", "stop_sequence": nil,
		"content": []any{map[string]any{"type": "text", "text": say}}, "usage": map[string]any{"input_tokens": 1, "output_tokens": 1},
	}
	if !stream {
		return value(http.StatusOK, message)
	}
	message["content"], message["stop_reason"] = []any{}, nil
	var b strings.Builder
	event(&b, "message_start", map[string]any{"type": "message_start", "message": message})
	event(&b, "content_block_start", map[string]any{"type": "content_block_start", "index": 0, "content_block": map[string]any{"type": "text", "text": ""}})
	for _, part := range halves(say) {
		event(&b, "content_block_delta", map[string]any{"type": "content_block_delta", "index": 0, "delta": map[string]any{"type": "text_delta", "text": part}})
	}
	event(&b, "content_block_stop", map[string]any{"type": "content_block_stop", "index": 0})
	event(&b, "message_delta", map[string]any{"type": "message_delta", "delta": map[string]any{"stop_reason": "end_turn", "stop_sequence": nil}, "usage": map[string]any{"output_tokens": 1}})
	event(&b, "message_stop", map[string]any{"type": "message_stop"})
	return eventStream(b.String())
}

// halves splits a text so that a stream has more than one piece, but never
// within its last line, which may be the proof.
func halves(s string) []string {
	i := strings.LastIndex(s, "\n")
	if i <= 0 {
		return []string{s}
	}
	return []string{s[:i], s[i:]}
}

// event writes one server-sent event.
func event(b *strings.Builder, name string, v any) {
	data, err := json.Marshal(v)
	if err != nil {
		return // only maps of strings and numbers come here
	}
	if name != "" {
		fmt.Fprintf(b, "event: %s\n", name)
	}
	fmt.Fprintf(b, "data: %s\n\n", data)
}

func eventStream(body string) Response {
	return Response{Status: http.StatusOK, Header: http.Header{"Content-Type": {"text/event-stream"}, "Cache-Control": {"no-cache"}}, Body: []byte(body), Closed: true}
}
