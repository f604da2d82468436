package model

import (
	"encoding/json"
	"fmt"
	"strings"
)

// defaultMaxTokens is asked of Anthropic's interface, which wants a number,
// when a client of OpenAI's names none.
const defaultMaxTokens = 4096

type object = map[string]any

// Convert translates a chat request from one format into the other. What has no
// counterpart is left out if it is a preference, and refused if it changes what
// is said (an input that is not text or an image).
func (r *Request) Convert(from, to API) (*Request, error) {
	if from == to {
		return r, nil
	}
	out := &Request{Model: r.Model, Stream: r.Stream, body: object{"model": r.Model}}
	var err error
	if to == Anthropic {
		err = toAnthropic(r.body, out.body)
	} else {
		err = toOpenAI(r.body, out.body)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRequest, err)
	}
	if r.Stream {
		out.body["stream"] = true
		if to == OpenAI {
			out.body["stream_options"] = object{"include_usage": true}
		}
	}
	return out, nil
}

func carry(in, out object, names ...string) {
	for i := 0; i+1 < len(names); i += 2 {
		if v, ok := in[names[i]]; ok && v != nil {
			out[names[i+1]] = v
		}
	}
}

// toAnthropic translates chat completions into messages.
func toAnthropic(in, out object) error {
	carry(in, out, "temperature", "temperature", "top_p", "top_p", "max_tokens", "max_tokens", "max_completion_tokens", "max_tokens")
	if _, ok := out["max_tokens"]; !ok {
		out["max_tokens"] = defaultMaxTokens
	}
	switch stop := in["stop"].(type) {
	case string:
		out["stop_sequences"] = []any{stop}
	case []any:
		out["stop_sequences"] = stop
	}
	var system []string
	var messages []any
	list, ok := in["messages"].([]any)
	if !ok {
		return fmt.Errorf("messages is not a list")
	}
	for _, m := range list {
		msg, ok := m.(object)
		if !ok {
			return fmt.Errorf("a message is not an object")
		}
		role, _ := msg["role"].(string)
		if role == "system" || role == "developer" {
			text, err := plainText(msg["content"])
			if err != nil {
				return err
			}
			system = append(system, text)
			continue
		}
		blocks, role, err := blocksFromOpenAI(msg, role)
		if err != nil {
			return err
		}
		messages = appendTurn(messages, role, blocks)
	}
	if len(system) > 0 {
		out["system"] = strings.Join(system, "\n\n")
	}
	out["messages"] = messages
	return toolsToAnthropic(in, out)
}

// appendTurn joins consecutive messages of one role, as tool results are
// several messages in one format and one in the other.
func appendTurn(messages []any, role string, blocks []any) []any {
	if n := len(messages); n > 0 {
		last := messages[n-1].(object)
		if last["role"] == role {
			last["content"] = append(last["content"].([]any), blocks...)
			return messages
		}
	}
	return append(messages, object{"role": role, "content": blocks})
}

func plainText(content any) (string, error) {
	switch c := content.(type) {
	case nil:
		return "", nil
	case string:
		return c, nil
	case []any:
		var parts []string
		for _, p := range c {
			part, _ := p.(object)
			text, ok := part["text"].(string)
			if !ok {
				return "", fmt.Errorf("a part that is not text")
			}
			parts = append(parts, text)
		}
		return strings.Join(parts, ""), nil
	}
	return "", fmt.Errorf("content that is neither text nor a list")
}

func blocksFromOpenAI(msg object, role string) (blocks []any, asRole string, err error) {
	switch role {
	case "tool":
		text, err := plainText(msg["content"])
		if err != nil {
			return nil, "", err
		}
		return []any{object{"type": "tool_result", "tool_use_id": msg["tool_call_id"], "content": text}}, "user", nil
	case "user", "assistant":
	default:
		return nil, "", fmt.Errorf("role %.20q", role)
	}
	switch c := msg["content"].(type) {
	case nil:
	case string:
		if c != "" {
			blocks = append(blocks, object{"type": "text", "text": c})
		}
	case []any:
		for _, p := range c {
			block, err := blockFromPart(p)
			if err != nil {
				return nil, "", err
			}
			blocks = append(blocks, block)
		}
	default:
		return nil, "", fmt.Errorf("content that is neither text nor a list")
	}
	calls, _ := msg["tool_calls"].([]any)
	for _, c := range calls {
		call, _ := c.(object)
		fn, _ := call["function"].(object)
		args, _ := fn["arguments"].(string)
		input := object{}
		if args != "" {
			if err := json.Unmarshal([]byte(args), &input); err != nil {
				return nil, "", fmt.Errorf("arguments of a tool call that are not an object")
			}
		}
		blocks = append(blocks, object{"type": "tool_use", "id": call["id"], "name": fn["name"], "input": input})
	}
	return blocks, role, nil
}

func blockFromPart(p any) (any, error) {
	part, _ := p.(object)
	switch part["type"] {
	case "text":
		return object{"type": "text", "text": part["text"]}, nil
	case "image_url":
		img, _ := part["image_url"].(object)
		url, _ := img["url"].(string)
		media, data, ok := dataURL(url)
		if !ok {
			// The provider would fetch it: a network of its own.
			return nil, fmt.Errorf("an image that is not in the request itself")
		}
		return object{"type": "image", "source": object{"type": "base64", "media_type": media, "data": data}}, nil
	}
	return nil, fmt.Errorf("a part that is neither text nor an image")
}

func dataURL(s string) (media, data string, ok bool) {
	rest, ok1 := strings.CutPrefix(s, "data:")
	head, data, ok2 := strings.Cut(rest, ",")
	media, ok3 := strings.CutSuffix(head, ";base64")
	return media, data, ok1 && ok2 && ok3
}

func toolsToAnthropic(in, out object) error {
	tools, _ := in["tools"].([]any)
	var list []any
	for _, t := range tools {
		tool, _ := t.(object)
		fn, ok := tool["function"].(object)
		if !ok {
			return fmt.Errorf("a tool that is not a function")
		}
		schema := fn["parameters"]
		if schema == nil {
			schema = object{"type": "object", "properties": object{}}
		}
		nt := object{"name": fn["name"], "input_schema": schema}
		carry(fn, nt, "description", "description")
		list = append(list, nt)
	}
	if list != nil {
		out["tools"] = list
	}
	switch c := in["tool_choice"].(type) {
	case string:
		if kind := map[string]string{"auto": "auto", "required": "any", "none": "none"}[c]; kind != "" && list != nil {
			out["tool_choice"] = object{"type": kind}
		}
	case object:
		if fn, ok := c["function"].(object); ok {
			out["tool_choice"] = object{"type": "tool", "name": fn["name"]}
		}
	}
	return nil
}

// toOpenAI translates messages into chat completions.
func toOpenAI(in, out object) error {
	carry(in, out, "temperature", "temperature", "top_p", "top_p", "max_tokens", "max_completion_tokens", "stop_sequences", "stop")
	var messages []any
	if in["system"] != nil {
		text, err := plainText(in["system"])
		if err != nil {
			return err
		}
		messages = append(messages, object{"role": "system", "content": text})
	}
	list, ok := in["messages"].([]any)
	if !ok {
		return fmt.Errorf("messages is not a list")
	}
	for _, m := range list {
		msg, _ := m.(object)
		more, err := messagesFromAnthropic(msg)
		if err != nil {
			return err
		}
		messages = append(messages, more...)
	}
	out["messages"] = messages
	return toolsToOpenAI(in, out)
}

func messagesFromAnthropic(msg object) ([]any, error) {
	role, _ := msg["role"].(string)
	if role != "user" && role != "assistant" {
		return nil, fmt.Errorf("role %.20q", role)
	}
	if text, ok := msg["content"].(string); ok {
		return []any{object{"role": role, "content": text}}, nil
	}
	blocks, ok := msg["content"].([]any)
	if !ok {
		return nil, fmt.Errorf("content that is neither text nor a list")
	}
	var results, parts, calls []any
	for _, b := range blocks {
		block, _ := b.(object)
		switch block["type"] {
		case "text":
			parts = append(parts, object{"type": "text", "text": block["text"]})
		case "image":
			part, err := partFromImage(block)
			if err != nil {
				return nil, err
			}
			parts = append(parts, part)
		case "tool_use":
			args, err := json.Marshal(block["input"])
			if err != nil {
				return nil, err
			}
			calls = append(calls, object{"id": block["id"], "type": "function", "function": object{"name": block["name"], "arguments": string(args)}})
		case "tool_result":
			text, err := plainText(block["content"])
			if err != nil {
				return nil, err
			}
			results = append(results, object{"role": "tool", "tool_call_id": block["tool_use_id"], "content": text})
		case "thinking", "redacted_thinking": // has no counterpart, and says nothing
		default:
			return nil, fmt.Errorf("a block that is neither text, image nor tool")
		}
	}
	return joinTurn(role, results, parts, calls), nil
}

func joinTurn(role string, results, parts, calls []any) []any {
	if len(parts) == 0 && len(calls) == 0 {
		return results
	}
	msg := object{"role": role}
	switch {
	case len(parts) == 0:
		msg["content"] = nil
	case role == "assistant":
		text := ""
		for _, p := range parts {
			t, _ := p.(object)["text"].(string)
			text += t
		}
		msg["content"] = text
	default:
		msg["content"] = parts
	}
	if len(calls) > 0 {
		msg["tool_calls"] = calls
	}
	return append(results, msg)
}

func partFromImage(block object) (any, error) {
	src, _ := block["source"].(object)
	media, ok1 := src["media_type"].(string)
	data, ok2 := src["data"].(string)
	if src["type"] != "base64" || !ok1 || !ok2 {
		return nil, fmt.Errorf("an image that is not in the request itself")
	}
	return object{"type": "image_url", "image_url": object{"url": "data:" + media + ";base64," + data}}, nil
}

func toolsToOpenAI(in, out object) error {
	tools, _ := in["tools"].([]any)
	var list []any
	for _, t := range tools {
		tool, _ := t.(object)
		if kind, typed := tool["type"]; typed && kind != "custom" {
			return fmt.Errorf("a tool of the provider's own")
		}
		fn := object{"name": tool["name"], "parameters": tool["input_schema"]}
		carry(tool, fn, "description", "description")
		list = append(list, object{"type": "function", "function": fn})
	}
	if list == nil {
		return nil
	}
	out["tools"] = list
	choice, _ := in["tool_choice"].(object)
	switch choice["type"] {
	case "auto", "none":
		out["tool_choice"] = choice["type"]
	case "any":
		out["tool_choice"] = "required"
	case "tool":
		out["tool_choice"] = object{"type": "function", "function": object{"name": choice["name"]}}
	}
	return nil
}
