package proxy

import (
	"bytes"
	"context"
	"crypto/subtle"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/textproto"
	"strings"
	"time"

	"github.com/wallproof/wallproof/policy"
	"github.com/wallproof/wallproof/policy/proxy/httpx"
	"github.com/wallproof/wallproof/policy/proxy/model"
)

// modelAddr is where the model's fixed name leads inside a sandbox: an address
// that nothing real has (RFC 5737), so that the packet filter brings the
// connection here. It is never dialled.
var modelAddr = netip.MustParseAddr("198.51.100.1")

// exchangeModel answers a request to the model's fixed name: it checks the
// run's key, the model, and what is asked of the provider, and sends it on with
// the provider's key, in the provider's format.
func (o *origin) exchangeModel(ctx context.Context, r *rules, q *request, ev *Event) (*response, *refusal) {
	m := r.policy.Model
	call, ok := model.ParseCall(q.method, q.path)
	if !ok {
		return modelRefusal(model.OpenAI, 404, ReasonModelRequest), nil
	}
	if call.API == "" {
		call.API = model.OpenAI
		if q.header.Has("Anthropic-Version") {
			call.API = model.Anthropic
		}
	}
	if !o.s.isModelKey(q.header) {
		return modelRefusal(call.API, 401, ReasonModelKey), nil
	}
	if call.Models {
		return listModels(m, call.API), nil
	}
	body, ref := o.modelRequest(ctx, r, q, call)
	if body == nil || ref != nil {
		return ref, nil
	}
	defer body.release()
	hresp, err := o.askModel(ctx, r, q, call, body.data)
	if err != nil {
		return modelRefusal(call.API, 502, ReasonUpstreamClosed), nil
	}
	if m.Secret != "" {
		ev.Injected = []string{m.Secret}
	}
	resp, refused := fromHTTP(q, hresp)
	if refused != nil {
		return nil, refused
	}
	if resp.status < 200 {
		resp.release(false)
		return nil, deny(502, ReasonUpstreamResponse)
	}
	resp.header.Filter(func(f httpx.Field) bool {
		return strings.EqualFold(f.Name, "Content-Type") || strings.EqualFold(f.Name, "Content-Encoding") || strings.EqualFold(f.Name, "Retry-After") || strings.EqualFold(f.Name, "Request-Id") || strings.EqualFold(f.Name, "X-Request-Id")
	})
	if api := model.API(m.API); api != call.API {
		if contentCodings(resp.header) != "" { // none was asked for
			resp.release(false)
			return nil, deny(502, ReasonEncoding)
		}
		o.convertAnswer(resp, api, call.API, body.stream)
	}
	if ref := o.clean(q, resp); ref != nil {
		resp.release(false)
		return nil, ref
	}
	return resp, nil
}

// isModelKey compares what the client sent with the run's key, in whichever of
// the two fields its format has.
func (s *Server) isModelKey(h httpx.Header) bool {
	got := h.Get("X-Api-Key")
	if got == "" {
		_, got, _ = strings.Cut(h.Get("Authorization"), " ")
	}
	want := s.modelKey
	return want != "" && subtle.ConstantTimeCompare([]byte(got), []byte(want)) == 1
}

// modelBody is a request as it goes to the provider.
type modelBody struct {
	data    []byte
	stream  bool
	release func() // of the memory that it takes
}

// modelRequest reads and judges a request. It returns either the body to send
// or the answer that refuses it.
func (o *origin) modelRequest(ctx context.Context, r *rules, q *request, call model.Call) (*modelBody, *response) {
	m := r.policy.Model
	raw, release, err := o.s.readRequest(ctx, q, model.MaxRequest)
	no := func(status int, reason string) (*modelBody, *response) {
		release()
		return nil, modelRefusal(call.API, status, reason)
	}
	if err != nil {
		return no(400, ReasonModelRequest)
	}
	req, err := model.ParseRequest(raw)
	if err != nil {
		return no(400, ReasonModelRequest)
	}
	rules := modelRules(r.policy)
	for _, id := range append([]string{req.Model}, req.Also...) {
		if !rules.Decide(id).Allowed {
			return no(403, ReasonModelDenied)
		}
	}
	if rules.Restricted && len(req.Hosted(call.API)) > 0 && !o.s.breaks.skip(hostedSearch) {
		if searchRule(r.policy) == policy.SearchRefuse {
			return no(403, ReasonModelSearch)
		}
		req.StripHosted(call.API)
	}
	if rules.Restricted && !o.s.breaks.skip(hostedSearch) && req.Remote() {
		return no(403, ReasonModelRemote)
	}
	if api := model.API(m.API); api != call.API {
		if !call.Convert {
			return no(404, ReasonModelRequest)
		}
		if req, err = req.Convert(call.API, api); err != nil {
			return no(400, ReasonModelRequest)
		}
	}
	data, err := req.Bytes()
	if err != nil {
		return no(400, ReasonModelRequest)
	}
	return &modelBody{data, req.Stream, release}, nil
}

// readRequest reads the body of a request for the model, within what the proxy may
// keep in memory.
func (s *Server) readRequest(ctx context.Context, q *request, limit int64) (raw []byte, release func(), err error) {
	if q.body == nil || q.header.Has("Content-Encoding") {
		return nil, func() {}, errors.New("no plain body")
	}
	if q.expect != nil {
		if err := q.expect(); err != nil {
			return nil, func() {}, err
		}
		q.expect = nil
	}
	raw, release, err = s.heavy.read(ctx, q.body, limit)
	if err == nil && int64(len(raw)) > limit {
		err = errors.New("too large")
	}
	return raw, release, err
}

// searchRule is what happens to hosted search: by default it is refused where
// the web is restricted.
func searchRule(p *policy.Policy) string {
	switch {
	case p.Model.HostedSearch != "":
		return p.Model.HostedSearch
	case p.Mode.DefaultAllows():
		return policy.SearchAllow
	}
	return policy.SearchRefuse
}

func modelRules(p *policy.Policy) model.Rules {
	return model.Rules{
		Route: p.Model.URL, Allow: p.Model.Allow, SelfSearch: p.Model.SelfSearch,
		Restricted: searchRule(p) != policy.SearchAllow,
	}
}

// DecideModel decides on a model before a sandbox starts, by the same rules as
// the proxy during the run. A policy without a model allows none.
func DecideModel(p *policy.Policy, id string) model.Verdict {
	if p.Model == nil {
		return model.Verdict{Model: id, Reason: model.ReasonNotListed, Remedy: "declare a model in the policy"}
	}
	return modelRules(p).Decide(id)
}

// modelRefusal answers in the client's format, so that its library says why.
func modelRefusal(api model.API, status int, reason string) *response {
	body := model.ErrorBody(api, reason, "wallproof: "+reason)
	return &response{
		status: status, length: int64(len(body)), body: bytes.NewReader(body), refused: reason,
		header:  httpx.Header{{Name: "Content-Type", Value: "application/json"}, {Name: reasonField, Value: reason}},
		release: func(bool) {},
	}
}

func listModels(m *policy.Model, api model.API) *response {
	var data []map[string]string
	for _, id := range m.Allow {
		if strings.HasSuffix(id, "/*") {
			continue
		}
		if api == model.Anthropic {
			data = append(data, map[string]string{"type": "model", "id": id, "display_name": id})
		} else {
			data = append(data, map[string]string{"object": "model", "id": id, "owned_by": "policy"})
		}
	}
	body, err := json.Marshal(map[string]any{"object": "list", "data": data, "has_more": false})
	if err != nil {
		body = []byte(`{"data":[]}`)
	}
	return &response{
		status: 200, length: int64(len(body)), body: bytes.NewReader(body),
		header:  httpx.Header{{Name: "Content-Type", Value: "application/json"}},
		release: func(bool) {},
	}
}

// defaultAnthropicVersion is sent when the client's format carries none.
const defaultAnthropicVersion = "2023-06-01"

// askModel sends the request to the provider with the provider's key.
func (o *origin) askModel(ctx context.Context, r *rules, q *request, call model.Call, body []byte) (*http.Response, error) {
	m := r.policy.Model
	path := call.Path
	if model.API(m.API) != call.API {
		path = map[string]string{"openai": "/v1/chat/completions", "anthropic": "/v1/messages"}[m.API]
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, modelURL(m.URL, path), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "wallproof")
	for _, name := range []string{"Anthropic-Version", "Anthropic-Beta", "Openai-Beta", "Accept"} {
		if v := q.header.Get(name); v != "" {
			req.Header.Set(textproto.CanonicalMIMEHeaderKey(name), v)
		}
	}
	if m.API == string(model.Anthropic) && req.Header.Get("Anthropic-Version") == "" {
		req.Header.Set("Anthropic-Version", defaultAnthropicVersion)
	}
	if sec := r.secrets[m.Secret]; sec != nil {
		if m.API == string(model.Anthropic) {
			req.Header.Set("X-Api-Key", sec.value)
		} else {
			req.Header.Set("Authorization", "Bearer "+sec.value)
		}
	}
	return o.s.modelClient.Do(req)
}

// modelURL joins the provider's base URL, with or without /v1, and a path.
func modelURL(base, path string) string {
	return strings.TrimSuffix(strings.TrimRight(base, "/"), "/v1") + path
}

// newModelClient talks to the provider: no redirect, no proxy of the
// environment's, addresses by the policy's own gate for the model.
func (s *Server) newModelClient() *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			DialContext:         s.dialModel,
			TLSClientConfig:     &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: s.upstreamTLS.RootCAs},
			TLSHandshakeTimeout: s.limits.dialTimeout(),
			ForceAttemptHTTP2:   true,
			DisableCompression:  true,
			IdleConnTimeout:     time.Minute,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

func (s *Server) dialModel(ctx context.Context, _, address string) (net.Conn, error) {
	t, err := parseAuthority(address, 0)
	if err != nil {
		return nil, err
	}
	r := s.rules.Load()
	addrs := []netip.Addr{t.host.Addr()}
	if a, ok := s.pinned(t); ok {
		addrs, t.port = []netip.Addr{a.Addr()}, a.Port()
	} else if !t.host.IsAddr() {
		ans, err := s.resolver.Lookup(ctx, t.host.Name())
		if err != nil {
			return nil, err
		}
		addrs = ans.Addrs
	}
	var allowed []netip.AddrPort
	for _, a := range addrs {
		if r.ev.ModelAddress(a).Allowed() {
			allowed = append(allowed, netip.AddrPortFrom(a, t.port))
		}
	}
	c, _, ref := s.dial(ctx, t, allowed)
	if ref != nil {
		return nil, errors.New(ref.reason)
	}
	return c, nil
}

// convertAnswer translates an answer into the client's format.
func (o *origin) convertAnswer(resp *response, from, to model.API, stream bool) {
	src := resp.body
	if src == nil {
		return
	}
	now := o.s.now().Unix()
	resp.ended, resp.length = nil, httpx.Chunked
	if stream && resp.status == 200 {
		resp.body = model.ConvertStream(src, from, to, now)
		return
	}
	status := resp.status
	resp.body = &lateBody{make: func() (io.Reader, error) {
		raw, err := io.ReadAll(io.LimitReader(src, model.MaxAnswer))
		if err != nil {
			return nil, err
		}
		if status != 200 {
			return bytes.NewReader(model.ConvertError(raw, to)), nil
		}
		out, err := model.ConvertAnswer(raw, from, to, now)
		return bytes.NewReader(out), err
	}}
}

// lateBody is made with the first read.
type lateBody struct {
	make func() (io.Reader, error)
	r    io.Reader
	err  error
}

func (l *lateBody) Read(p []byte) (int, error) {
	if l.r == nil && l.err == nil {
		l.r, l.err = l.make()
	}
	if l.err != nil {
		return 0, l.err
	}
	return l.r.Read(p)
}
