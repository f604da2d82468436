package proxy

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"github.com/wallproof/wallproof/policy"
	"github.com/wallproof/wallproof/policy/proxy/model"
)

const modelValue = "sk-provider-0123456789abcdefghij"

func modelPolicy(api, more string) string {
	return fmt.Sprintf(`version: 1
name: test
mode: no-network
model:
  api: %s
  url: https://model.example/v1
  secret: KEY
  allow: [gpt-5, claude-x, vendor/*]
%ssecrets:
  - name: KEY
    from: {env: KEY}
`, api, more)
}

// provider is a model provider of either format that shows what it was asked.
func provider(s *seen) http.Handler {
	return s.handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var ask struct {
			Model  string
			Stream bool
		}
		_ = json.Unmarshal(body, &ask)
		switch {
		case r.URL.Path == "/v1/chat/completions" && ask.Stream:
			w.Header().Set("Content-Type", "text/event-stream")
			for _, part := range []string{"your key ", "is " + modelValue} {
				fmt.Fprintf(w, "data: {\"id\":\"x\",\"model\":%q,\"choices\":[{\"delta\":{\"content\":%q}}]}\n\n", ask.Model, part)
				w.(http.Flusher).Flush()
			}
			fmt.Fprint(w, "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n")
		case r.URL.Path == "/v1/chat/completions":
			fmt.Fprintf(w, `{"id":"x","model":%q,"choices":[{"message":{"role":"assistant","content":%q},"finish_reason":"stop"}]}`, ask.Model, "auth "+r.Header.Get("Authorization"))
		case r.URL.Path == "/v1/messages":
			fmt.Fprintf(w, `{"id":"x","type":"message","role":"assistant","model":%q,"content":[{"type":"text","text":%q}],"stop_reason":"end_turn","usage":{}}`, ask.Model, "auth "+r.Header.Get("X-Api-Key"))
		default:
			w.WriteHeader(404)
		}
	}))
}

func (p *proxyUnderTest) askModel(path, key, body string) (int, string, string) {
	p.w.t.Helper()
	req, err := http.NewRequest("POST", "https://"+policy.ModelHost+path, strings.NewReader(body))
	if err != nil {
		p.w.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+key)
	return p.do(p.client(true), req)
}

func newModelWorld(t *testing.T, doc string) (*proxyUnderTest, *seen, string) {
	w, s := newWorld(t), &seen{}
	w.host("model.example", allowedIP, provider(s))
	key := NewModelKey()
	p := w.proxy(doc, func(c *Config) {
		c.ModelKey = key
		c.Secrets = []Secret{{Name: "KEY", Value: modelValue}}
	})
	return p, s, key
}

const ask5 = `{"model":"gpt-5","messages":[{"role":"user","content":"hi"}]}`

func TestModelSwapsTheKey(t *testing.T) {
	p, s, key := newModelWorld(t, modelPolicy("openai", ""))
	status, _, body := p.askModel("/v1/chat/completions", key, ask5)
	if status != 200 || s.last(t).Header.Get("Authorization") != "Bearer "+modelValue || strings.Contains(body, modelValue) || !strings.Contains(body, "auth Bearer ****") {
		t.Errorf("%d %s", status, body)
	}
	ev := p.w.event("model", func(e Event) bool { return e.Host == policy.ModelHost && e.Verdict == Allow })
	if len(ev.Injected) != 1 || ev.Injected[0] != "KEY" {
		t.Errorf("event %+v", ev)
	}
	if r := query(t, p, policy.ModelHost, dns.TypeA); len(r.Answer) != 1 {
		t.Errorf("the fixed name: %v", r)
	}
	if r := query(t, p, "model.example", dns.TypeA); r.Rcode != dns.RcodeRefused {
		t.Errorf("the provider's own name: %v", r)
	}
}

func TestModelOverATransparentConnection(t *testing.T) {
	p, s, key := newModelWorld(t, modelPolicy("openai", ""))
	tc, err := p.handshake(p.redirected(modelAddr.String()+":443"), policy.ModelHost, "http/1.1")
	if err != nil {
		t.Fatal(err)
	}
	if status, reason := ask(t, tc, fmt.Sprintf("POST /v1/chat/completions HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n%s", policy.ModelHost, key, len(ask5), ask5)); status != 200 || s.count() != 1 {
		t.Errorf("%d %s", status, reason)
	}
}

func TestModelRefusals(t *testing.T) {
	p, s, key := newModelWorld(t, modelPolicy("openai", ""))
	for name, tc := range map[string]struct {
		path, key, body string
		status          int
		reason          string
	}{
		"wrong key":        {"/v1/chat/completions", "wpmodelxxx", ask5, 401, ReasonModelKey},
		"provider's key":   {"/v1/chat/completions", modelValue, ask5, 401, ReasonModelKey},
		"another model":    {"/v1/chat/completions", key, `{"model":"gpt-4"}`, 403, ReasonModelDenied},
		"fallback model":   {"/v1/chat/completions", key, `{"model":"gpt-5","models":["sonar"]}`, 403, ReasonModelDenied},
		"unclassified":     {"/v1/chat/completions", key, `{"model":"vendor/x"}`, 403, ReasonModelDenied},
		"hosted search":    {"/v1/responses", key, `{"model":"gpt-5","tools":[{"type":"web_search"}]}`, 403, ReasonModelSearch},
		"search options":   {"/v1/chat/completions", key, `{"model":"gpt-5","web_search_options":{}}`, 403, ReasonModelSearch},
		"files":            {"/v1/files", key, `{}`, 404, ReasonModelRequest},
		"no JSON":          {"/v1/chat/completions", key, `model=gpt-5`, 400, ReasonModelRequest},
		"not translatable": {"/v1/messages/count_tokens", key, ask5, 404, ReasonModelRequest},
	} {
		status, reason, body := p.askModel(tc.path, tc.key, tc.body)
		if status != tc.status || reason != tc.reason || !strings.Contains(body, `"error"`) {
			t.Errorf("%s: %d %s %s", name, status, reason, body)
		}
		p.w.denied(tc.reason)
	}
	if s.count() != 0 {
		t.Error("the provider was asked")
	}
}

func TestModelStripsHostedSearchWhenAsked(t *testing.T) {
	p, s, key := newModelWorld(t, modelPolicy("openai", "  hosted-search: strip\n"))
	if status, _, body := p.askModel("/v1/chat/completions", key, `{"model":"gpt-5","tools":[{"type":"web_search"},{"type":"function","function":{"name":"f"}}],"web_search_options":{}}`); status != 200 {
		t.Fatalf("%d %s", status, body)
	}
	if got := s.lastBody(); strings.Contains(got, "web_search") || !strings.Contains(got, `"function"`) {
		t.Errorf("the provider got %s", got)
	}
}

func TestD17ModelTranslates(t *testing.T) {
	p, s, key := newModelWorld(t, modelPolicy("anthropic", ""))
	status, _, body := p.askModel("/v1/chat/completions", key, `{"model":"claude-x","messages":[{"role":"user","content":"hi"}]}`)
	if status != 200 || !strings.Contains(body, `"chat.completion"`) || strings.Contains(body, modelValue) {
		t.Errorf("%d %s", status, body)
	}
	if r := s.last(t); r.URL.Path != "/v1/messages" || r.Header.Get("X-Api-Key") != modelValue || r.Header.Get("Anthropic-Version") == "" || r.Header.Get("Authorization") != "" {
		t.Errorf("%s %v", r.URL, r.Header)
	}
	p, _, key = newModelWorld(t, modelPolicy("openai", ""))
	status, _, body = p.askModel("/v1/messages", key, `{"model":"gpt-5","stream":true,"max_tokens":9,"messages":[{"role":"user","content":"hi"}]}`)
	if status != 200 || !strings.Contains(body, "event: message_stop") || strings.Contains(body, modelValue[10:]) {
		t.Errorf("%d %s", status, body)
	}
}

func TestModelIsDecidedBeforeTheSandboxStarts(t *testing.T) {
	for _, tc := range []struct {
		doc, id string
		want    string
	}{
		{modelPolicy("openai", ""), "gpt-5", model.ReasonListed},
		{modelPolicy("openai", ""), "vendor/x", model.ReasonUnclassified},
		{modelPolicy("openai", "  self-search: [vendor/*]\n"), "vendor/x", model.ReasonOverride},
		{"version: 1\nname: t\nmode: public\n", "gpt-5", model.ReasonNotListed},
	} {
		p, err := policy.Parse("t", []byte(tc.doc))
		if err != nil {
			t.Fatal(err)
		}
		if v := DecideModel(p, tc.id); v.Reason != tc.want {
			t.Errorf("%s: %+v, want %s", tc.id, v, tc.want)
		}
	}
}
