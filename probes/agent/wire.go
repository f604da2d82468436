package agent

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
)

// lines reads lines that end in LF or CR LF.
type lines struct{ in *bufio.Reader }

func newLines(in io.Reader) lines { return lines{bufio.NewReader(in)} }

func (l lines) next() (string, error) {
	s, err := l.in.ReadString('\n')
	if err != nil {
		if errors.Is(err, io.EOF) {
			return "", io.EOF
		}
		return "", fmt.Errorf("read the model's answer: %w", err)
	}
	return strings.TrimRight(s, "\r\n"), nil
}

// arguments reads the command out of a call's arguments.
func arguments(raw string) string {
	var a struct {
		Command string `json:"command"`
	}
	if json.Unmarshal([]byte(raw), &a) != nil {
		return ""
	}
	return a.Command
}

// openAI is the format of OpenAI's chat completions.
type openAI struct{}

func (openAI) path() string { return "/v1/chat/completions" }

func (openAI) header(h http.Header, key string) { h.Set("Authorization", "Bearer "+key) }

func (openAI) request(id string, turns []turn) any {
	var messages []any
	for _, t := range turns {
		switch t.role {
		case "system", "user":
			messages = append(messages, map[string]any{"role": t.role, "content": t.text})
		case "model":
			m := map[string]any{"role": "assistant", "content": t.text}
			var calls []any
			for _, c := range t.calls {
				args, _ := json.Marshal(map[string]string{"command": c.command})
				calls = append(calls, map[string]any{"id": c.id, "type": "function", "function": map[string]any{"name": toolName, "arguments": string(args)}})
			}
			if calls != nil {
				m["tool_calls"] = calls
			}
			messages = append(messages, m)
		case "results":
			for _, r := range t.results {
				messages = append(messages, map[string]any{"role": "tool", "tool_call_id": r.id, "content": r.text})
			}
		}
	}
	return map[string]any{"model": id, "stream": true, "max_tokens": maxTokens, "messages": messages,
		"tools": []any{map[string]any{"type": "function", "function": map[string]any{"name": toolName, "description": toolDescription, "parameters": toolSchema}}}}
}

// openAICall is a call, whole or in parts.
type openAICall struct {
	Index    int    `json:"index"`
	ID       string `json:"id"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

func (openAI) stream(next func() (event, error)) (answer, error) {
	var text strings.Builder
	parts := map[int]*openAICall{}
	done := false
	for {
		e, err := next()
		if errors.Is(err, io.EOF) && done {
			break
		}
		if errors.Is(err, io.EOF) {
			return answer{}, errCutShort
		}
		if err != nil {
			return answer{}, err
		}
		if string(e.data) == "[DONE]" {
			break
		}
		var chunk struct {
			Choices []struct {
				Delta struct {
					Content string       `json:"content"`
					Calls   []openAICall `json:"tool_calls"`
				} `json:"delta"`
				Finish *string `json:"finish_reason"`
			} `json:"choices"`
			Error json.RawMessage `json:"error"`
		}
		if err := json.Unmarshal(e.data, &chunk); err != nil {
			return answer{}, fmt.Errorf("read the model's answer: %w", err)
		}
		if len(chunk.Error) > 0 && string(chunk.Error) != "null" {
			return answer{}, fmt.Errorf("the model reports: %s", tail(string(chunk.Error)))
		}
		for _, c := range chunk.Choices {
			text.WriteString(c.Delta.Content)
			for _, p := range c.Delta.Calls {
				at := parts[p.Index]
				if at == nil {
					at = &openAICall{}
					parts[p.Index] = at
				}
				at.ID += p.ID
				at.Function.Arguments += p.Function.Arguments
			}
			done = done || c.Finish != nil
		}
	}
	a := answer{text: text.String()}
	var order []int
	for i := range parts {
		order = append(order, i)
	}
	slices.Sort(order)
	for _, i := range order {
		a.calls = append(a.calls, call{parts[i].ID, arguments(parts[i].Function.Arguments)})
	}
	return a, nil
}

func (openAI) whole(data []byte) (answer, error) {
	var m struct {
		Choices []struct {
			Message struct {
				Content string       `json:"content"`
				Calls   []openAICall `json:"tool_calls"`
			} `json:"message"`
		} `json:"choices"`
	}
	if err := json.Unmarshal(data, &m); err != nil || len(m.Choices) == 0 {
		return answer{}, errors.New("read the model's answer: no choice in it")
	}
	a := answer{text: m.Choices[0].Message.Content}
	for _, c := range m.Choices[0].Message.Calls {
		a.calls = append(a.calls, call{c.ID, arguments(c.Function.Arguments)})
	}
	return a, nil
}

// anthropic is the format of Anthropic's messages.
type anthropic struct{}

func (anthropic) path() string { return "/v1/messages" }

func (anthropic) header(h http.Header, key string) {
	h.Set("X-Api-Key", key)
	h.Set("Anthropic-Version", "2023-06-01")
}

func (anthropic) request(id string, turns []turn) any {
	var messages []any
	system := ""
	for _, t := range turns {
		switch t.role {
		case "system":
			system = t.text
		case "user":
			messages = append(messages, map[string]any{"role": "user", "content": t.text})
		case "model":
			var blocks []any
			if t.text != "" {
				blocks = append(blocks, map[string]any{"type": "text", "text": t.text})
			}
			for _, c := range t.calls {
				blocks = append(blocks, map[string]any{"type": "tool_use", "id": c.id, "name": toolName, "input": map[string]string{"command": c.command}})
			}
			messages = append(messages, map[string]any{"role": "assistant", "content": blocks})
		case "results":
			var blocks []any
			for _, r := range t.results {
				blocks = append(blocks, map[string]any{"type": "tool_result", "tool_use_id": r.id, "content": r.text})
			}
			messages = append(messages, map[string]any{"role": "user", "content": blocks})
		}
	}
	return map[string]any{"model": id, "stream": true, "max_tokens": maxTokens, "system": system, "messages": messages,
		"tools": []any{map[string]any{"name": toolName, "description": toolDescription, "input_schema": toolSchema}}}
}

// block is a part of a message.
type block struct {
	Type  string          `json:"type"`
	Text  string          `json:"text"`
	ID    string          `json:"id"`
	Input json.RawMessage `json:"input"`
}

func (anthropic) stream(next func() (event, error)) (answer, error) {
	var order []int
	at := map[int]*block{}
	parts := map[int]*strings.Builder{}
	for {
		e, err := next()
		if errors.Is(err, io.EOF) {
			return answer{}, errCutShort
		}
		if err != nil {
			return answer{}, err
		}
		var m struct {
			Type  string `json:"type"`
			Index int    `json:"index"`
			Block block  `json:"content_block"`
			Delta struct {
				Text string `json:"text"`
				JSON string `json:"partial_json"`
			} `json:"delta"`
			Error json.RawMessage `json:"error"`
		}
		if err := json.Unmarshal(e.data, &m); err != nil {
			return answer{}, fmt.Errorf("read the model's answer: %w", err)
		}
		switch m.Type {
		case "content_block_start":
			b := m.Block
			at[m.Index], parts[m.Index] = &b, &strings.Builder{}
			order = append(order, m.Index)
		case "content_block_delta":
			if b := at[m.Index]; b != nil {
				b.Text += m.Delta.Text
				parts[m.Index].WriteString(m.Delta.JSON)
			}
		case "error":
			return answer{}, fmt.Errorf("the model reports: %s", tail(string(m.Error)))
		case "message_stop":
			var blocks []block
			for _, i := range order {
				if s := parts[i].String(); s != "" {
					at[i].Input = json.RawMessage(s)
				}
				blocks = append(blocks, *at[i])
			}
			return fromBlocks(blocks), nil
		}
	}
}

func (anthropic) whole(data []byte) (answer, error) {
	var m struct {
		Type    string  `json:"type"`
		Content []block `json:"content"`
	}
	if err := json.Unmarshal(data, &m); err != nil || m.Type != "message" {
		return answer{}, errors.New("read the model's answer: no message in it")
	}
	return fromBlocks(m.Content), nil
}

func fromBlocks(blocks []block) answer {
	var a answer
	for _, b := range blocks {
		switch b.Type {
		case "text":
			a.text += b.Text
		case "tool_use":
			a.calls = append(a.calls, call{b.ID, arguments(string(b.Input))})
		}
	}
	return a
}
