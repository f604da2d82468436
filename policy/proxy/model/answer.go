package model

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// ErrAnswer: the provider's answer is none of its format.
var ErrAnswer = fmt.Errorf("malformed model answer")

// finishToStop and stopToFinish translate why a model stopped.
var (
	finishToStop = map[string]string{"stop": "end_turn", "length": "max_tokens", "tool_calls": "tool_use", "function_call": "tool_use", "content_filter": "refusal"}
	stopToFinish = map[string]string{"end_turn": "stop", "stop_sequence": "stop", "max_tokens": "length", "tool_use": "tool_calls", "refusal": "content_filter", "pause_turn": "stop"}
)

// openAIAnswer is a chat completion.
type openAIAnswer struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"`
	Model   string `json:"model"`
	Choices []struct {
		Index   int `json:"index"`
		Message struct {
			Role      string           `json:"role"`
			Content   *string          `json:"content"`
			ToolCalls []openAIToolCall `json:"tool_calls,omitempty"`
		} `json:"message"`
		FinishReason string `json:"finish_reason"`
	} `json:"choices"`
	Usage openAIUsage `json:"usage"`
}

type openAIUsage struct {
	Prompt     int64 `json:"prompt_tokens"`
	Completion int64 `json:"completion_tokens"`
	Total      int64 `json:"total_tokens"`
}

type openAIToolCall struct {
	Index    *int   `json:"index,omitempty"` // in streams
	ID       string `json:"id,omitempty"`
	Type     string `json:"type,omitempty"`
	Function struct {
		Name      string `json:"name,omitempty"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

// anthropicAnswer is a message.
type anthropicAnswer struct {
	ID           string           `json:"id"`
	Type         string           `json:"type"`
	Role         string           `json:"role"`
	Model        string           `json:"model"`
	Content      []anthropicBlock `json:"content"`
	StopReason   *string          `json:"stop_reason"`
	StopSequence *string          `json:"stop_sequence"`
	Usage        anthropicUsage   `json:"usage"`
}

type anthropicBlock struct {
	Type  string          `json:"type"`
	Text  string          `json:"text,omitempty"`
	ID    string          `json:"id,omitempty"`
	Name  string          `json:"name,omitempty"`
	Input json.RawMessage `json:"input,omitempty"`
}

type anthropicUsage struct {
	Input  int64 `json:"input_tokens"`
	Output int64 `json:"output_tokens"`
}

// ConvertAnswer translates a whole answer from the provider's format into the
// client's. created is the time for formats that carry one, in Unix seconds.
func ConvertAnswer(data []byte, from, to API, created int64) ([]byte, error) {
	if from == to {
		return data, nil
	}
	if from == Anthropic {
		return answerToOpenAI(data, created)
	}
	return answerToAnthropic(data)
}

func answerToOpenAI(data []byte, created int64) ([]byte, error) {
	var in anthropicAnswer
	if err := json.Unmarshal(data, &in); err != nil || in.Type != "message" {
		return nil, ErrAnswer
	}
	var out openAIAnswer
	out.ID, out.Object, out.Created, out.Model = in.ID, "chat.completion", created, in.Model
	out.Choices = append(out.Choices, struct {
		Index   int `json:"index"`
		Message struct {
			Role      string           `json:"role"`
			Content   *string          `json:"content"`
			ToolCalls []openAIToolCall `json:"tool_calls,omitempty"`
		} `json:"message"`
		FinishReason string `json:"finish_reason"`
	}{FinishReason: "stop"})
	c := &out.Choices[0]
	c.Message.Role = "assistant"
	for _, b := range in.Content {
		switch b.Type {
		case "text":
			text := b.Text
			if c.Message.Content != nil {
				text = *c.Message.Content + text
			}
			c.Message.Content = &text
		case "tool_use":
			call := openAIToolCall{ID: b.ID, Type: "function"}
			call.Function.Name, call.Function.Arguments = b.Name, compact(b.Input)
			c.Message.ToolCalls = append(c.Message.ToolCalls, call)
		}
	}
	if in.StopReason != nil && stopToFinish[*in.StopReason] != "" {
		c.FinishReason = stopToFinish[*in.StopReason]
	}
	out.Usage = openAIUsage{in.Usage.Input, in.Usage.Output, in.Usage.Input + in.Usage.Output}
	return json.Marshal(out)
}

func compact(raw json.RawMessage) string {
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil || b.Len() == 0 {
		return "{}"
	}
	return b.String()
}

func answerToAnthropic(data []byte) ([]byte, error) {
	var in openAIAnswer
	if err := json.Unmarshal(data, &in); err != nil || len(in.Choices) == 0 {
		return nil, ErrAnswer
	}
	c := in.Choices[0]
	out := anthropicAnswer{ID: in.ID, Type: "message", Role: "assistant", Model: in.Model, Content: []anthropicBlock{}}
	if c.Message.Content != nil && *c.Message.Content != "" {
		out.Content = append(out.Content, anthropicBlock{Type: "text", Text: *c.Message.Content})
	}
	for _, call := range c.Message.ToolCalls {
		input := json.RawMessage(call.Function.Arguments)
		if !json.Valid(input) {
			input = json.RawMessage("{}")
		}
		out.Content = append(out.Content, anthropicBlock{Type: "tool_use", ID: call.ID, Name: call.Function.Name, Input: input})
	}
	stop := finishToStop[c.FinishReason]
	if stop == "" {
		stop = "end_turn"
	}
	out.StopReason = &stop
	out.Usage = anthropicUsage{in.Usage.Prompt, in.Usage.Completion}
	return json.Marshal(out)
}

// ConvertError translates a provider's error into the client's format. Both
// say what went wrong under error.message and error.type.
func ConvertError(data []byte, to API) []byte {
	var in struct {
		Error struct {
			Type    string `json:"type"`
			Message string `json:"message"`
		} `json:"error"`
	}
	_ = json.Unmarshal(data, &in) // what is no error of either format becomes an empty one
	if in.Error.Type == "" {
		in.Error.Type = "api_error"
	}
	return ErrorBody(to, in.Error.Type, in.Error.Message)
}

// ErrorBody is an error in a client's format.
func ErrorBody(api API, kind, message string) []byte {
	e := object{"error": object{"type": kind, "message": message}}
	if api == Anthropic {
		e["type"] = "error"
	} else {
		e["error"].(object)["code"] = kind
		e["error"].(object)["param"] = nil
	}
	b, err := json.Marshal(e)
	if err != nil {
		return []byte(`{"error":{"type":"api_error"}}`)
	}
	return b
}
