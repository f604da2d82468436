package model

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// maxEvent bounds one event of a stream.
const maxEvent = 4 << 20

// ConvertStream reads a provider's stream of server-sent events and returns the
// same stream in the client's format. Each event is passed on as soon as it is
// there.
func ConvertStream(src io.Reader, from, to API, created int64) io.Reader {
	if from == to {
		return src
	}
	s := &stream{in: bufio.NewReaderSize(src, 32<<10), created: created}
	if from == Anthropic {
		s.step = s.fromAnthropic
	} else {
		s.step = s.fromOpenAI
	}
	return s
}

// stream translates event by event.
type stream struct {
	in      *bufio.Reader
	out     bytes.Buffer
	err     error
	step    func(data []byte) error
	created int64

	id, model string
	tools     int // OpenAI: calls begun so far
	open      int // Anthropic: index of the open block, -1 without
	kind      string
	begun     bool
	stop      string
	usage     openAIUsage
	ended     bool
}

func (s *stream) Read(p []byte) (int, error) {
	for s.out.Len() == 0 {
		if s.err != nil {
			return 0, s.err
		}
		data, err := s.event()
		if err == nil {
			err = s.step(data)
		} else if err == io.EOF && !s.ended {
			err = io.ErrUnexpectedEOF
		}
		s.err = err
	}
	return s.out.Read(p)
}

// event returns the data of the next event that has any.
func (s *stream) event() ([]byte, error) {
	var data []byte
	for {
		line, err := s.in.ReadSlice('\n')
		if err == bufio.ErrBufferFull {
			whole := append([]byte(nil), line...)
			for err == bufio.ErrBufferFull && len(whole) < maxEvent {
				line, err = s.in.ReadSlice('\n')
				whole = append(whole, line...)
			}
			line = whole
		}
		if err != nil {
			return nil, err
		}
		line = bytes.TrimRight(line, "\r\n")
		if len(line) == 0 {
			if data != nil {
				return data, nil
			}
			continue
		}
		if d, ok := bytes.CutPrefix(line, []byte("data:")); ok {
			data = append(data, bytes.TrimPrefix(d, []byte(" "))...)
			if len(data) > maxEvent {
				return nil, fmt.Errorf("%w: event too large", ErrAnswer)
			}
		}
	}
}

func (s *stream) emit(name string, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if name != "" {
		s.out.WriteString("event: " + name + "\n")
	}
	s.out.WriteString("data: ")
	s.out.Write(b)
	s.out.WriteString("\n\n")
	return nil
}

// chunk emits one piece of a chat completion.
func (s *stream) chunk(delta object, finish any) error {
	return s.emit("", object{
		"id": s.id, "object": "chat.completion.chunk", "created": s.created, "model": s.model,
		"choices": []any{object{"index": 0, "delta": delta, "finish_reason": finish}},
	})
}

// anthropicEvent is any event of a message stream.
type anthropicEvent struct {
	Type    string `json:"type"`
	Message struct {
		ID    string         `json:"id"`
		Model string         `json:"model"`
		Usage anthropicUsage `json:"usage"`
	} `json:"message"`
	ContentBlock anthropicBlock `json:"content_block"`
	Delta        struct {
		Type        string `json:"type"`
		Text        string `json:"text"`
		PartialJSON string `json:"partial_json"`
		StopReason  string `json:"stop_reason"`
	} `json:"delta"`
	Usage anthropicUsage  `json:"usage"`
	Error json.RawMessage `json:"error"`
}

func (s *stream) fromAnthropic(data []byte) error {
	var ev anthropicEvent
	if err := json.Unmarshal(data, &ev); err != nil {
		return ErrAnswer
	}
	switch ev.Type {
	case "message_start":
		s.id, s.model, s.usage.Prompt = ev.Message.ID, ev.Message.Model, ev.Message.Usage.Input
		return s.chunk(object{"role": "assistant", "content": ""}, nil)
	case "content_block_start":
		if ev.ContentBlock.Type == "tool_use" {
			s.tools++
			return s.chunk(object{"tool_calls": []any{object{
				"index": s.tools - 1, "id": ev.ContentBlock.ID, "type": "function",
				"function": object{"name": ev.ContentBlock.Name, "arguments": ""},
			}}}, nil)
		}
	case "content_block_delta":
		switch ev.Delta.Type {
		case "text_delta":
			return s.chunk(object{"content": ev.Delta.Text}, nil)
		case "input_json_delta":
			return s.chunk(object{"tool_calls": []any{object{
				"index": s.tools - 1, "function": object{"arguments": ev.Delta.PartialJSON},
			}}}, nil)
		}
	case "message_delta":
		s.usage.Completion = ev.Usage.Output
		finish := stopToFinish[ev.Delta.StopReason]
		if finish == "" {
			finish = "stop"
		}
		return s.chunk(object{}, finish)
	case "message_stop":
		s.usage.Total = s.usage.Prompt + s.usage.Completion
		if err := s.emit("", object{
			"id": s.id, "object": "chat.completion.chunk", "created": s.created, "model": s.model,
			"choices": []any{}, "usage": s.usage,
		}); err != nil {
			return err
		}
		s.out.WriteString("data: [DONE]\n\n")
		s.ended = true
	case "error":
		s.out.WriteString("data: ")
		s.out.Write(ConvertError(data, OpenAI))
		s.out.WriteString("\n\n")
		s.ended = true
	}
	return nil
}

// openAIChunk is one event of a chat completion stream.
type openAIChunk struct {
	ID      string `json:"id"`
	Model   string `json:"model"`
	Choices []struct {
		Delta struct {
			Content   string           `json:"content"`
			ToolCalls []openAIToolCall `json:"tool_calls"`
		} `json:"delta"`
		FinishReason string `json:"finish_reason"`
	} `json:"choices"`
	Usage *openAIUsage    `json:"usage"`
	Error json.RawMessage `json:"error"`
}

func (s *stream) fromOpenAI(data []byte) error {
	if strings.TrimSpace(string(data)) == "[DONE]" {
		return s.finishMessage()
	}
	var c openAIChunk
	if err := json.Unmarshal(data, &c); err != nil {
		return ErrAnswer
	}
	if c.Error != nil {
		s.ended = true
		return s.emit("error", json.RawMessage(ConvertError(data, Anthropic)))
	}
	if !s.begun {
		s.begun, s.open = true, -1
		s.id, s.model = c.ID, c.Model
		if err := s.emit("message_start", object{"type": "message_start", "message": object{
			"id": c.ID, "type": "message", "role": "assistant", "model": c.Model, "content": []any{},
			"stop_reason": nil, "stop_sequence": nil, "usage": anthropicUsage{},
		}}); err != nil {
			return err
		}
	}
	if c.Usage != nil {
		s.usage = *c.Usage
	}
	for _, choice := range c.Choices {
		if choice.FinishReason != "" {
			s.stop = choice.FinishReason
		}
		if err := s.openAIDelta(choice.Delta.Content, choice.Delta.ToolCalls); err != nil {
			return err
		}
	}
	return nil
}

func (s *stream) openAIDelta(text string, calls []openAIToolCall) error {
	if text != "" {
		if err := s.block("text", object{"type": "text", "text": ""}, s.kind != "text"); err != nil {
			return err
		}
		if err := s.delta(object{"type": "text_delta", "text": text}); err != nil {
			return err
		}
	}
	for _, call := range calls {
		begins := call.ID != "" || s.kind != "tool_use"
		if err := s.block("tool_use", object{"type": "tool_use", "id": call.ID, "name": call.Function.Name, "input": object{}}, begins); err != nil {
			return err
		}
		if call.Function.Arguments != "" {
			if err := s.delta(object{"type": "input_json_delta", "partial_json": call.Function.Arguments}); err != nil {
				return err
			}
		}
	}
	return nil
}

// block begins a content block when one has to begin, ending the one before.
func (s *stream) block(kind string, start object, begins bool) error {
	if !begins {
		return nil
	}
	if err := s.endBlock(); err != nil {
		return err
	}
	s.open++
	s.kind = kind
	return s.emit("content_block_start", object{"type": "content_block_start", "index": s.open, "content_block": start})
}

func (s *stream) endBlock() error {
	if s.kind == "" {
		return nil
	}
	s.kind = ""
	return s.emit("content_block_stop", object{"type": "content_block_stop", "index": s.open})
}

func (s *stream) delta(d object) error {
	return s.emit("content_block_delta", object{"type": "content_block_delta", "index": s.open, "delta": d})
}

func (s *stream) finishMessage() error {
	s.ended = true
	if err := s.endBlock(); err != nil {
		return err
	}
	stop := finishToStop[s.stop]
	if stop == "" {
		stop = "end_turn"
	}
	if err := s.emit("message_delta", object{
		"type": "message_delta", "delta": object{"stop_reason": stop, "stop_sequence": nil},
		"usage": anthropicUsage{s.usage.Prompt, s.usage.Completion},
	}); err != nil {
		return err
	}
	return s.emit("message_stop", object{"type": "message_stop"})
}
