package proxy

import (
	"context"
	"io"
	"strings"

	"github.com/wallproof/wallproof/policy"
	"github.com/wallproof/wallproof/policy/proxy/httpx"
	"github.com/wallproof/wallproof/policy/proxy/redact"
)

// exchange decides on one request and, when it is allowed, carries it out: the
// policy's word on method and path, then injection, then the way there, then
// redaction on the way back. ev collects what is recorded of it.
func (o *origin) exchange(ctx context.Context, r *rules, q *request, wantH2 bool, ev *Event) (*response, *refusal) {
	o.s.earlyLookup(q.target)
	ask := q.question()
	o.c.asking.begin(q, ask)
	if now := o.s.rules.Load(); now != r { // an edit has come meanwhile, and did not know of this request
		r = now
	}
	d := r.ev.Request(ask)
	ev.Reason, ev.Entry = string(d.Reason), d.Entry
	if !d.Allowed() && !o.waived(q, d) {
		return nil, denied(d)
	}
	if ref := o.agreeOverrides(r, q, ask); ref != nil {
		return nil, ref
	}
	if ref := o.s.useRequest(r); ref != nil {
		return nil, ref
	}
	if d.Reason == policy.ReasonModel && q.host.Name() == policy.ModelHost {
		return o.exchangeModel(ctx, r, q, ev)
	}
	if ref := o.credentials(ctx, r, q, ask, ev); ref != nil {
		return nil, ref
	}
	if d.Pin != nil && d.Pin.Covers(q.path) {
		askWhole(q)
	}
	o.prepare(r, q)
	resp, ref := o.roundTrip(ctx, r, q, wantH2)
	ev.Dialled = q.dialled
	if ref != nil {
		return nil, ref
	}
	if resp.status < 200 && !q.websocket {
		resp.release(false)
		return nil, deny(502, ReasonUpstreamResponse) // nobody asked for another protocol
	}
	if resp, ref = o.s.breaks.follow(ctx, o, r, q, resp); ref != nil {
		return nil, ref
	}
	if ref := o.clean(q, resp); ref != nil {
		resp.release(false)
		return nil, ref
	}
	if d.Pin != nil {
		if ref := o.holdToPin(d.Pin, q, resp); ref != nil {
			resp.release(false)
			return nil, ref
		}
	}
	return resp, nil
}

// waived is false unless a seeded break switches the first gate off.
func (o *origin) waived(q *request, d policy.Decision) bool {
	b := o.s.breaks
	return b.unpoliced(o, q, d) || o.s.isModelHost(o.s.rules.Load(), q.host) || b.skip(nameGate) || b.skip(plainHTTPGate) && q.scheme == "http" ||
		b.skip(portGate) && d.Reason == policy.ReasonPort
}

// credentials adds what the policy wants added, and refuses a placeholder that
// is left over: its secret may not go where it was sent.
func (o *origin) credentials(ctx context.Context, r *rules, q *request, ask policy.Request, ev *Event) *refusal {
	if ref := o.lease(ctx, r, q, ask, ev); ref != nil {
		return ref
	}
	if o.s.breaks.skip(injectionBinding) {
		ask.Host, ask.Port = q.claimed.host, q.claimed.port
	}
	rule := r.ev.Injection(ask)
	names, ref := r.inject(q, rule)
	if ref != nil {
		return ref
	}
	o.s.breaks.believed(r, q, rule)
	names = append(names, o.s.breaks.swapAnywhere(r, q)...)
	ev.Injected = names
	if r.holdsPlaceholder(q) {
		return deny(403, ReasonPlaceholder)
	}
	return nil
}

// prepare removes what would let a response escape redaction: codings that it
// cannot look into, and parts of a body, which may begin or end in a secret.
func (o *origin) prepare(r *rules, q *request) {
	if q.websocket {
		q.header.Del("Sec-WebSocket-Extensions") // compression, above all
	}
	if o.s.live.Get().Empty() {
		return
	}
	q.header.Del("Range")
	q.header.Del("If-Range")
	for _, name := range innerCodings.accept {
		q.header.Del(name)
	}
	if q.header.Has("Accept-Encoding") {
		q.header.Set("Accept-Encoding", knownCodings(q.header))
	}
}

// innerCodings are the fields of protocols that compress messages inside a body, or
// send it as a difference: what a client accepts, and what a server says it did.
var innerCodings = struct{ accept, done []string }{
	accept: []string{"Grpc-Accept-Encoding", "Connect-Accept-Encoding", "A-IM", "Available-Dictionary"},
	done:   []string{"Grpc-Encoding", "Connect-Content-Encoding", "IM"},
}

// innerCoded says whether a body holds what redaction cannot look into although
// nobody asked for it.
func innerCoded(h httpx.Header) bool {
	for _, name := range innerCodings.done {
		if h.Has(name) && !strings.EqualFold(h.Get(name), "identity") {
			return true
		}
	}
	return false
}

func knownCodings(h httpx.Header) string {
	var kept []string
	h.Tokens("Accept-Encoding", func(t string) bool {
		name, _, _ := strings.Cut(t, ";")
		if redact.Knows(strings.TrimSpace(name)) {
			kept = append(kept, t)
		}
		return true
	})
	if len(kept) == 0 {
		return "identity"
	}
	return strings.Join(kept, ", ")
}

func (o *origin) roundTrip(ctx context.Context, r *rules, q *request, wantH2 bool) (*response, *refusal) {
	if wantH2 && q.scheme == "https" && !q.websocket {
		return o.roundTrip2(ctx, r, q)
	}
	return o.roundTrip1(ctx, r, q)
}

// clean takes away what concerns the upstream connection and masks every
// secret in what is left: fields, body, trailers.
func (o *origin) clean(q *request, resp *response) *refusal {
	if resp.stream == nil {
		httpx.StripHopByHop(&resp.header)
	}
	resp.header.Filter(func(f httpx.Field) bool { return !dropped(f.Name) })
	if trailer := resp.trailer; trailer != nil {
		resp.trailer = func() httpx.Header {
			h := trailer()
			h.Filter(func(f httpx.Field) bool { return !dropped(f.Name) && !httpx.ForbiddenTrailer(f.Name) })
			return h
		}
	}
	red := o.s.live.Get()
	if red.Empty() || o.s.breaks.skip(redaction) || resp.status >= 400 && o.s.breaks.skip(redactErrors) {
		return nil
	}
	resp.masked = new(int64)
	if !o.s.breaks.skip(redactHeaders) {
		*resp.masked += maskFields(red, resp.header)
	}
	if trailer := resp.trailer; trailer != nil && !o.s.breaks.skip(redactTrailers) {
		resp.trailer = func() httpx.Header {
			h := trailer()
			*resp.masked += maskFields(o.s.live.Get(), h)
			return h
		}
	}
	if resp.status == 206 || resp.header.Has("Content-Range") && resp.status != 416 {
		return deny(502, ReasonRangeUnasked)
	}
	return o.cleanBody(q, resp)
}

// dropped are fields of a response that are never passed on.
func dropped(name string) bool {
	switch len(name) {
	case 7:
		return strings.EqualFold(name, "Alt-Svc") // leads to QUIC, which is refused
	case 18:
		return strings.EqualFold(name, reasonField) // ours alone
	}
	return false
}

func maskFields(red *redact.Redactor, h httpx.Header) int64 {
	total := 0
	for i := range h {
		var n, m int
		h[i].Value, n = red.String(h[i].Value)
		h[i].Name, m = red.FieldName(h[i].Name)
		total += n + m
	}
	return int64(total)
}

// cleanBody masks the body's secrets. What is encoded is decoded and stays so.
func (o *origin) cleanBody(q *request, resp *response) *refusal {
	if innerCoded(resp.header) && resp.body != nil && !o.s.breaks.skip(redactEncoded) {
		return deny(502, ReasonEncoding)
	}
	coded := contentCodings(resp.header)
	if coded == "" || o.s.breaks.skip(redactEncoded) {
		o.maskBody(resp, nil)
		return nil
	}
	if resp.body == nil {
		if q.method == "HEAD" {
			resp.header.Del("Content-Encoding")
			resp.length = -1
		}
		return nil
	}
	dec, err := redact.Decode(coded, resp.body)
	if err != nil {
		return &refusal{status: 502, reason: ReasonEncoding, err: err}
	}
	for _, name := range []string{"Content-Encoding", "Content-MD5", "Content-Digest"} {
		resp.header.Del(name)
	}
	resp.body, resp.length = dec, httpx.Chunked
	resp.ended = nil
	o.maskBody(resp, dec)
	return nil
}

func contentCodings(h httpx.Header) string {
	var all []string
	h.Tokens("Content-Encoding", func(t string) bool {
		if t != "identity" {
			all = append(all, t)
		}
		return true
	})
	return strings.Join(all, ",")
}

func (o *origin) maskBody(resp *response, dec io.Closer) {
	if resp.body == nil {
		return
	}
	if masked := o.s.breaks.bodyMasker(o.s.live, resp.body); masked != nil {
		resp.body = masked
		return
	}
	rd := o.s.live.Reader(resp.body)
	resp.body = rd
	release := resp.release
	resp.release = func(whole bool) {
		*resp.masked += rd.Found()
		rd.Close()
		if dec != nil {
			_ = dec.Close()
		}
		release(whole)
	}
}
