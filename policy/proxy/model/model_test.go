package model

import (
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

func parse(t *testing.T, s string) *Request {
	t.Helper()
	r, err := ParseRequest([]byte(s))
	if err != nil {
		t.Fatalf("%s: %v", s, err)
	}
	return r
}

func TestHostedTools(t *testing.T) {
	for _, tc := range []struct {
		api    API
		body   string
		hosted string
	}{
		{OpenAI, `{"model":"m","tools":[{"type":"function","function":{"name":"f"}}]}`, ""},
		{OpenAI, `{"model":"m","tools":[{"type":"web_search_preview"}]}`, "web_search_preview"},
		{OpenAI, `{"model":"m","tools":[{"type":"web_search_2031_01_01"}]}`, "web_search_2031_01_01"},
		{OpenAI, `{"model":"m","tools":[{"type":"mcp","server_url":"https://x"}]}`, "mcp"},
		{OpenAI, `{"model":"m","tools":[{"function":{"name":"f"}}]}`, "tool"},
		{OpenAI, `{"model":"m","tools":["web_search"]}`, "tool"},
		{OpenAI, `{"model":"m","web_search_options":{}}`, "web_search_options"},
		{OpenAI, `{"model":"m","plugins":[{"id":"web"}]}`, "plugins"},
		{OpenAI, `{"model":"m","prompt":{"id":"pmpt_1"}}`, "prompt"},
		{OpenAI, `{"model":"m","prompt":"once upon a time"}`, ""},
		{OpenAI, `{"model":"m","tools":[{"type":"function","type":"web_search"}]}`, "web_search"},
		{OpenAI, `{"model":"m","tools":{"type":"web_search"}}`, "tools"},
		{Anthropic, `{"model":"m","tools":[{"name":"f","input_schema":{}},{"type":"bash_20250124","name":"bash"}]}`, ""},
		{Anthropic, `{"model":"m","tools":[{"type":"web_search_20250305","name":"web_search"}]}`, "web_search_20250305"},
		{Anthropic, `{"model":"m","tools":[{"type":"web_fetch_20250910","name":"web_fetch"}]}`, "web_fetch_20250910"},
		{Anthropic, `{"model":"m","mcp_servers":[{"url":"https://x"}]}`, "mcp_servers"},
	} {
		r := parse(t, tc.body)
		if got := strings.Join(r.Hosted(tc.api), ","); got != tc.hosted {
			t.Errorf("%s: %q, want %q", tc.body, got, tc.hosted)
		}
		r.StripHosted(tc.api)
		if left := r.Hosted(tc.api); len(left) != 0 {
			t.Errorf("%s: %v is left after stripping", tc.body, left)
		}
	}
}

// What the provider would fetch by itself is a way out, like its search.
func TestRemoteReferences(t *testing.T) {
	for body, want := range map[string]bool{
		`{"model":"m","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"https://out.example/?d"}}]}]}`:                                true,
		`{"model":"m","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,AA"}}]}]}`:                              false,
		`{"model":"m","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"DATA:image/png;base64,AA"}}]}]}`:                              false,
		`{"model":"m","input":[{"role":"user","content":[{"type":"input_image","image_url":"http://out.example"}]}]}`:                                             true,
		`{"model":"m","input":[{"role":"user","content":[{"type":"input_file","file_url":"https://out.example/f.pdf"}]}]}`:                                        true,
		`{"model":"m","messages":[{"role":"user","content":[{"type":"image","source":{"type":"url","url":"https://out.example"}}]}]}`:                             true,
		`{"model":"m","messages":[{"role":"user","content":[{"type":"tool_result","content":[{"type":"document","source":{"type":"url","url":"//x"}}]}]}]}`:       true,
		`{"model":"m","messages":[{"role":"user","content":[{"type":"file","file":{"file_uri":"gs://bucket/x"}}]}]}`:                                              true,
		`{"model":"m","messages":[{"role":"assistant","content":[{"type":"tool_use","id":"1","name":"fetch","input":{"url":"https://docs.example"}}]}]}`:          false,
		`{"model":"m","messages":[{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":"{\"url\":\"https://x\"}"}}]}]}`:                          false,
		`{"model":"m","messages":[{"role":"user","content":"read https://docs.example/ please"}]}`:                                                                false,
		`{"model":"m","tools":[{"type":"function","function":{"name":"f","parameters":{"properties":{"url":{"type":"string","default":"https://x"}}}}}]}`:         false,
		`{"model":"m","tools":[{"type":"code_interpreter","container":{"type":"auto","network_policy":{"type":"allowlist","allowed_domains":["out.example"]}}}]}`: true,
		`{"model":"m","tools":[{"type":"shell","environment":{"type":"container_auto"}}]}`:                                                                        false,
		`{"model":"m","x":` + strings.Repeat(`[`, 100) + strings.Repeat(`]`, 100) + `}`:                                                                           true,
	} {
		if got := parse(t, body).Remote(); got != want {
			t.Errorf("%s: %v, want %v", body, got, want)
		}
	}
}

// A key that is given twice goes out once: nobody can read it in two ways.
// A member that a server without regard to case would read as another is refused.
func TestDisguisedMembers(t *testing.T) {
	for _, body := range []string{
		`{"model":"m","Model":"other"}`, `{"model":"m","MODELS":["other"]}`, `{"model":"m","Tools":[{"type":"web_search"}]}`,
		`{"model":"m","tool\u017f":[{"type":"web_search"}]}`, `{"model":"m","Stream":true}`, `{"model":"m","Web_Search_Options":{}}`, `{"model":"m","mcp_Servers":[{}]}`,
	} {
		if _, err := ParseRequest([]byte(body)); !errors.Is(err, ErrRequest) {
			t.Errorf("%s: %v", body, err)
		}
	}
	r, err := ParseRequest([]byte(`{"model":"m","tools":[{"type":"function","Type":"web_search"}],"Temperature":1}`))
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Hosted(OpenAI)) != 1 {
		t.Errorf("a tool of two types: %v", r.Hosted(OpenAI))
	}
}

func TestDuplicateKeysDoNotGoOut(t *testing.T) {
	r := parse(t, `{"model":"a","model":"b","n":12345678901234567890}`)
	out, err := r.Bytes()
	if err != nil || r.Model != "b" || string(out) != `{"model":"b","n":12345678901234567890}` {
		t.Errorf("%s %v", out, err)
	}
	for _, bad := range []string{``, `[]`, `{}`, `{"model":1}`, `{"model":"a"} {"model":"b"}`, `{"model":"a","models":[1]}`} {
		if r, err := ParseRequest([]byte(bad)); err == nil || r != nil {
			t.Errorf("%s was accepted", bad)
		}
	}
}

func TestDecide(t *testing.T) {
	r := Rules{Allow: []string{"gpt-5", "sonar-pro", "vendor/*", "openai/*"}, SelfSearch: []string{"vendor/known"}, Restricted: true}
	for id, want := range map[string]string{
		"gpt-5": ReasonListed, "gpt-5-mini": ReasonNotListed, "sonar-pro": ReasonSearches,
		"vendor/known": ReasonOverride, "vendor/other": ReasonUnclassified, "vendorx/y": ReasonNotListed,
		"openai/gpt-5": ReasonListed, "openai/gpt-5:online": ReasonSearches, "openai/gpt-4o-search-preview": ReasonSearches,
	} {
		v := r.Decide(id)
		if v.Reason != want || v.Allowed != (want == ReasonListed || want == ReasonOverride) || !v.Allowed && v.Remedy == "" {
			t.Errorf("%s: %+v, want %s", id, v, want)
		}
	}
	r.Restricted = false
	if v := r.Decide("sonar-pro"); !v.Allowed {
		t.Errorf("%+v", v)
	}
}

func TestCalls(t *testing.T) {
	for _, tc := range []struct {
		method, path string
		api          API
		ok           bool
	}{
		{"POST", "/v1/chat/completions", OpenAI, true}, {"POST", "/chat/completions", OpenAI, true},
		{"POST", "/v1/messages", Anthropic, true}, {"POST", "/v1/responses", OpenAI, true},
		{"GET", "/v1/models", "", true}, {"GET", "/v1/files", "", false}, {"POST", "/v1/batches", "", false},
		{"DELETE", "/v1/models/x", "", false}, {"GET", "/v1/models/../files", "", false}, {"POST", "/", "", false},
	} {
		if c, ok := ParseCall(tc.method, tc.path); ok != tc.ok || c.API != tc.api {
			t.Errorf("%s %s: %+v %v", tc.method, tc.path, c, ok)
		}
	}
}

const openAIRequest = `{"model":"m","max_tokens":10,"stop":"END","temperature":0.5,"messages":[
 {"role":"system","content":"be brief"},
 {"role":"user","content":[{"type":"text","text":"look"},{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA"}}]},
 {"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}}]},
 {"role":"tool","tool_call_id":"c1","content":"result"},
 {"role":"user","content":"and?"}],
 "tools":[{"type":"function","function":{"name":"f","description":"d","parameters":{"type":"object"}}}],"tool_choice":"required"}`

func TestRequestThereAndBack(t *testing.T) {
	a, err := parse(t, openAIRequest).Convert(OpenAI, Anthropic)
	if err != nil {
		t.Fatal(err)
	}
	b, _ := a.Bytes()
	const want = `{"max_tokens":10,"messages":[{"content":[{"text":"look","type":"text"},{"source":{"data":"AAAA","media_type":"image/png","type":"base64"},"type":"image"}],"role":"user"},{"content":[{"id":"c1","input":{"a":1},"name":"f","type":"tool_use"}],"role":"assistant"},{"content":[{"content":"result","tool_use_id":"c1","type":"tool_result"},{"text":"and?","type":"text"}],"role":"user"}],"model":"m","stop_sequences":["END"],"system":"be brief","temperature":0.5,"tool_choice":{"type":"any"},"tools":[{"description":"d","input_schema":{"type":"object"},"name":"f"}]}`
	if string(b) != want {
		t.Errorf("got  %s\nwant %s", b, want)
	}
	back, err := parse(t, string(b)).Convert(Anthropic, OpenAI)
	if err != nil {
		t.Fatal(err)
	}
	b, _ = back.Bytes()
	for _, part := range []string{`{"content":"be brief","role":"system"}`, `"url":"data:image/png;base64,AAAA"`, `"arguments":"{\"a\":1}"`, `{"content":"result","role":"tool","tool_call_id":"c1"}`, `"tool_choice":"required"`, `"stop":["END"]`, `"max_completion_tokens":10`} {
		if !strings.Contains(string(b), part) {
			t.Errorf("%s is not in %s", part, b)
		}
	}
}

func TestWhatCannotBeTranslatedIsRefused(t *testing.T) {
	for body, from := range map[string]API{
		`{"model":"m","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"https://evil.example/x"}}]}]}`:       OpenAI,
		`{"model":"m","messages":[{"role":"user","content":[{"type":"input_audio"}]}]}`:                                                  OpenAI,
		`{"model":"m","messages":[{"role":"user","content":[{"type":"image","source":{"type":"url","url":"https://evil.example/x"}}]}]}`: Anthropic,
		`{"model":"m","messages":[{"role":"user","content":[{"type":"document"}]}]}`:                                                     Anthropic,
		`{"model":"m","messages":"hi"}`: OpenAI,
		`{"model":"m","messages":[{"role":"user","content":"x"}],"tools":[{"type":"web_search_20250305","name":"web_search"}]}`: Anthropic,
	} {
		to := Anthropic
		if from == Anthropic {
			to = OpenAI
		}
		if _, err := parse(t, body).Convert(from, to); err == nil {
			t.Errorf("%s was translated", body)
		}
	}
}

func TestAnswers(t *testing.T) {
	in := `{"id":"x","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"hello"},{"type":"tool_use","id":"c","name":"f","input":{"a": 1}}],"stop_reason":"tool_use","usage":{"input_tokens":3,"output_tokens":4}}`
	out, err := ConvertAnswer([]byte(in), Anthropic, OpenAI, 99)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{`"content":"hello"`, `"arguments":"{\"a\":1}"`, `"finish_reason":"tool_calls"`, `"total_tokens":7`, `"created":99`} {
		if !strings.Contains(string(out), part) {
			t.Errorf("%s is not in %s", part, out)
		}
	}
	back, err := ConvertAnswer(out, OpenAI, Anthropic, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{`"text":"hello"`, `"input":{"a":1}`, `"stop_reason":"tool_use"`, `"input_tokens":3`} {
		if !strings.Contains(string(back), part) {
			t.Errorf("%s is not in %s", part, back)
		}
	}
	if _, err := ConvertAnswer([]byte(`{"error":{}}`), Anthropic, OpenAI, 0); err == nil {
		t.Error("an error was taken for an answer")
	}
}

const anthropicStream = `event: message_start
data: {"type":"message_start","message":{"id":"x","model":"m","usage":{"input_tokens":3}}}

event: ping
data: {"type":"ping"}

event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"hel"}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"lo"}}

event: content_block_start
data: {"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"c","name":"f","input":{}}}

event: content_block_delta
data: {"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{\"a\":1}"}}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":4}}

event: message_stop
data: {"type":"message_stop"}

`

func TestStreamThereAndBack(t *testing.T) {
	mid, err := io.ReadAll(ConvertStream(iotest.OneByteReader(strings.NewReader(anthropicStream)), Anthropic, OpenAI, 99))
	if err != nil {
		t.Fatal(err)
	}
	var text, args, finish string
	for _, line := range strings.Split(string(mid), "\n") {
		data, ok := strings.CutPrefix(line, "data: ")
		if !ok || data == "[DONE]" {
			continue
		}
		var c openAIChunk
		if err := json.Unmarshal([]byte(data), &c); err != nil {
			t.Fatal(err)
		}
		for _, ch := range c.Choices {
			text += ch.Delta.Content
			finish += ch.FinishReason
			for _, call := range ch.Delta.ToolCalls {
				args += call.Function.Arguments
			}
		}
	}
	if text != "hello" || args != `{"a":1}` || finish != "tool_calls" || !strings.HasSuffix(string(mid), "data: [DONE]\n\n") || !strings.Contains(string(mid), `"total_tokens":7`) {
		t.Errorf("%q %q %q in %s", text, args, finish, mid)
	}
	back, err := io.ReadAll(ConvertStream(strings.NewReader(string(mid)), OpenAI, Anthropic, 0))
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"event: message_start", `"text":"hel"`, `"name":"f"`, `"partial_json":"{\"a\":1}"`, `"stop_reason":"tool_use"`, "event: message_stop"} {
		if !strings.Contains(string(back), part) {
			t.Errorf("%s is not in %s", part, back)
		}
	}
	if n := strings.Count(string(back), "content_block_start\n"); n != 2 || n != strings.Count(string(back), "content_block_stop\n") {
		t.Errorf("%d blocks begin: %s", n, back)
	}
}

func TestStreamThatBreaksOff(t *testing.T) {
	cut := anthropicStream[:strings.Index(anthropicStream, "event: message_delta")]
	if _, err := io.ReadAll(ConvertStream(strings.NewReader(cut), Anthropic, OpenAI, 0)); err != io.ErrUnexpectedEOF {
		t.Errorf("%v", err)
	}
	got, err := io.ReadAll(ConvertStream(strings.NewReader("data: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"m\"}}\n\n"), Anthropic, OpenAI, 0))
	if err != nil || !strings.Contains(string(got), "overloaded_error") {
		t.Errorf("%s %v", got, err)
	}
}

// FuzzRequest: what is accepted is written so that it is read as the same, and
// stripping leaves nothing hosted.
func FuzzRequest(f *testing.F) {
	f.Add([]byte(openAIRequest))
	f.Add([]byte(`{"model":"m","tools":[{"type":"web_search"}],"mcp_servers":[1]}`))
	f.Add([]byte(`{"model":"m","messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"x","content":[{"type":"text","text":"y"}]}]}]}`))
	f.Fuzz(func(t *testing.T, in []byte) {
		r, err := ParseRequest(in)
		if err != nil {
			return
		}
		out, err := r.Bytes()
		if err != nil {
			t.Fatal(err)
		}
		again, err := ParseRequest(out)
		if err != nil || again.Model != r.Model || len(again.Also) != len(r.Also) || again.Stream != r.Stream {
			t.Fatalf("%s: %v", out, err)
		}
		for _, api := range []API{OpenAI, Anthropic} {
			if other, err := again.Convert(api, map[API]API{OpenAI: Anthropic, Anthropic: OpenAI}[api]); err == nil {
				if _, err := other.Bytes(); err != nil {
					t.Fatal(err)
				}
			}
			again.StripHosted(api)
			if left := again.Hosted(api); len(left) > 0 {
				t.Fatalf("left after stripping: %v", left)
			}
		}
	})
}
