package witness

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/wallproof/wallproof/battery/witness/services"
)

// Bounds on what is relayed.
const (
	relayTimeout = 3 * time.Minute
	maxRelayed   = 8 << 20
)

// service is the model endpoint: with a relay, conversations go to it.
func (m Model) service() services.Service {
	own := services.Model(m.Replies)
	if m.Relay == "" || m.Mark == "" {
		return own
	}
	client := &http.Client{Timeout: relayTimeout, Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", m.Relay)
	}}}
	return func(req services.Request) (services.Response, bool) {
		if !m.converses(req.Body) || req.Method != http.MethodPost {
			return own(req)
		}
		return relay(client, req), true
	}
}

// converses tells whether a request's body belongs to the conversation of an agent
// with the model.
func (m Model) converses(body []byte) bool {
	return m.Mark != "" && bytes.Contains(body, []byte(m.Mark)) && !services.HostedSearch(body)
}

// relay asks the real model. Nothing but the body goes there.
func relay(client *http.Client, req services.Request) services.Response {
	failed := func(text string) services.Response {
		return services.Response{Status: http.StatusBadGateway, Header: http.Header{"Content-Type": {"text/plain"}}, Body: []byte(text + "\n")}
	}
	out, err := http.NewRequest(http.MethodPost, "http://model"+req.Path, bytes.NewReader(req.Body))
	if err != nil {
		return failed("the request has no usable path")
	}
	out.Header.Set("Content-Type", "application/json")
	out.Header.Set("Accept", "text/event-stream, application/json")
	resp, err := client.Do(out)
	if err != nil {
		return failed("the model cannot be reached")
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxRelayed+1))
	if err != nil || len(body) > maxRelayed {
		return failed("the model's answer broke off, or is too long")
	}
	h := http.Header{}
	if t := resp.Header.Get("Content-Type"); t != "" {
		h.Set("Content-Type", t)
	}
	return services.Response{Status: resp.StatusCode, Header: h, Body: body, Closed: true}
}
