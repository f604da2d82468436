package proxy

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

const (
	allowedIP = "93.184.216.34"
	otherIP   = "93.184.216.35"
	evilIP    = "198.41.0.4"
)

const testValue = "wpcanaryabcdefghijklmnopqrstuvwx234567abcd"

// basicPolicy allows one host that is passed on and one that gets a token.
const basicPolicy = `version: 1
name: test
mode: allowlist
allow:
  - host: plain.example
    ports: [80, 443]
  - host: token.example
    ports: [80, 443]
  - host: other.example
secrets:
  - name: TOKEN
    from: {env: TOKEN}
    inject: [{host: token.example, as: bearer}]
`

func withToken(cfg *Config) {
	cfg.Secrets = []Secret{{Name: "TOKEN", Value: testValue, Placeholder: "wpplaceholder-of-the-token"}}
}

func basicWorld(t testing.TB) (*world, *seen) {
	w, s := newWorld(t), &seen{}
	w.host("plain.example", allowedIP, echo())
	w.host("token.example", otherIP, s.handler(echo()))
	w.host("other.example", "93.184.216.36", echo())
	w.host("evil.example", evilIP, echo())
	return w, s
}

func TestExplicitPlainHTTP(t *testing.T) {
	w, _ := basicWorld(t)
	p := w.proxy(basicPolicy, withToken)
	status, _, body := p.get(p.client(false), "http://plain.example/a?b=c", "X-Test", "yes")
	if status != 200 || !strings.Contains(body, "GET HTTP/1.1 plain.example /a?b=c") || !strings.Contains(body, "X-Test: yes") {
		t.Fatalf("%d %s", status, body)
	}
	ev := w.event("allowed", func(e Event) bool { return e.Verdict == Allow })
	if ev.Route != RouteDirect || ev.Host != "plain.example" || ev.Port != 80 || ev.Dialled != allowedIP+":80" || ev.Status != 200 || ev.Down == 0 {
		t.Errorf("event %+v", ev)
	}
}

func TestConnectIsPassedOnWithoutTermination(t *testing.T) {
	w, _ := basicWorld(t)
	p := w.proxy(basicPolicy, withToken)
	resp, err := p.client(true).Get("https://plain.example/")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.ProtoMajor != 2 || resp.TLS.PeerCertificates[0].Issuer.CommonName != "world" {
		t.Errorf("%s, issued by %s", resp.Proto, resp.TLS.PeerCertificates[0].Issuer)
	}
	ev := w.event("tunnel", func(e Event) bool { return e.Route == RouteTunnel })
	if ev.Verdict != Allow || ev.Dialled != allowedIP+":443" {
		t.Errorf("event %+v", ev)
	}
}

func TestInterceptInjectsAndRedacts(t *testing.T) {
	for _, h2 := range []bool{false, true} {
		t.Run(fmt.Sprintf("h2=%v", h2), func(t *testing.T) {
			w, s := basicWorld(t)
			p := w.proxy(basicPolicy, withToken)
			status, _, body := p.get(p.client(h2), "https://token.example/x", "Authorization", "Bearer wpplaceholder-of-the-token")
			if got := s.last(t).Header.Get("Authorization"); got != "Bearer "+testValue {
				t.Errorf("the host got %q", got)
			}
			if h2 != (s.last(t).ProtoMajor == 2) {
				t.Errorf("the host was asked in %s", s.last(t).Proto)
			}
			if status != 200 || strings.Contains(body, testValue) || !strings.Contains(body, strings.Repeat("*", len(testValue))) {
				t.Errorf("%d %s", status, body)
			}
			ev := w.event("allowed", func(e Event) bool { return e.Verdict == Allow })
			if ev.Route != RouteIntercept || len(ev.Injected) != 1 || ev.Injected[0] != "TOKEN" || ev.Redacted != 1 {
				t.Errorf("event %+v", ev)
			}
		})
	}
}

func TestPostBodies(t *testing.T) {
	for _, h2 := range []bool{false, true} {
		for _, chunked := range []bool{false, true} {
			t.Run(fmt.Sprintf("h2=%v chunked=%v", h2, chunked), func(t *testing.T) {
				w, s := basicWorld(t)
				p := w.proxy(basicPolicy, withToken)
				client := p.client(h2)
				big := strings.Repeat("0123456789abcdef", 20000)
				for range 3 {
					var body io.Reader = strings.NewReader(big)
					if chunked {
						body = io.MultiReader(body)
					}
					req, _ := http.NewRequest("POST", "https://token.example/up", body)
					status, _, got := p.do(client, req)
					if status != 200 || !strings.HasSuffix(got, big) {
						t.Fatalf("%d, %d bytes", status, len(got))
					}
				}
				if s.count() != 3 {
					t.Errorf("%d requests", s.count())
				}
			})
		}
	}
}

func TestKeepAliveUsesOneUpstreamConnection(t *testing.T) {
	w, _ := basicWorld(t)
	p := w.proxy(basicPolicy, withToken)
	c := p.client(false)
	for range 5 {
		if status, _, _ := p.get(c, "https://token.example/"); status != 200 {
			t.Fatal(status)
		}
	}
	n := 0
	for _, d := range w.dials() {
		if d == otherIP+":443" {
			n++
		}
	}
	if n != 1 {
		t.Errorf("%d connections", n)
	}
}

func TestDeniedHostIsRefusedWithReason(t *testing.T) {
	w, _ := basicWorld(t)
	p := w.proxy(basicPolicy, withToken)
	status, reason, _ := p.get(p.client(false), "http://evil.example/")
	if status != 403 || reason != "default-deny" {
		t.Errorf("%d %s", status, reason)
	}
	if status, reason := p.send("CONNECT evil.example:443 HTTP/1.1\r\nHost: evil.example:443\r\n\r\n"); status != 403 || reason != "default-deny" {
		t.Errorf("%d %s", status, reason)
	}
	if w.wasAsked("evil.example") || w.wasDialled(evilIP) {
		t.Error("a denied host was looked up or dialled")
	}
}

func TestTransparentHTTPAndTLS(t *testing.T) {
	w, s := basicWorld(t)
	p := w.proxy(basicPolicy, withToken)
	status, _ := ask(t, p.redirected(allowedIP+":80"), "GET / HTTP/1.1\r\nHost: plain.example\r\nConnection: close\r\n\r\n")
	if status != 200 {
		t.Errorf("http: %d", status)
	}
	tc, err := p.handshake(p.redirected(otherIP+":443"), "token.example", "http/1.1")
	if err != nil {
		t.Fatal(err)
	}
	if status, reason := ask(t, tc, "GET /t HTTP/1.1\r\nHost: token.example\r\nConnection: close\r\n\r\n"); status != 200 {
		t.Errorf("https: %d %s", status, reason)
	}
	if s.last(t).Header.Get("Authorization") != "Bearer "+testValue {
		t.Error("nothing was injected")
	}
	ev := w.event("intercept", func(e Event) bool { return e.Route == RouteIntercept })
	if ev.Original != otherIP+":443" || ev.Listener != KindTransparent {
		t.Errorf("event %+v", ev)
	}
	// Passed on.
	tc, err = p.handshake(p.redirected(allowedIP+":443"), "plain.example", "h2")
	if err != nil {
		t.Fatal(err)
	}
	if tc.ConnectionState().PeerCertificates[0].Issuer.CommonName != "world" {
		t.Error("it was terminated")
	}
}

// refusedTLS wants a handshake that is refused by an access_denied alert.
func refusedTLS(t *testing.T, err error) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), "access denied") {
		t.Errorf("want an access_denied alert, got %v", err)
	}
}

func TestB1HostIsNoIdentity(t *testing.T) {
	w, s := basicWorld(t)
	p := w.proxy(strings.Replace(basicPolicy, "as: bearer", "as: bearer, cleartext: true, ports: [80, 443]", 1), withToken)
	status, reason := ask(t, p.redirected(evilIP+":80"), "GET / HTTP/1.1\r\nHost: token.example\r\n\r\n")
	if status != 403 || reason != ReasonOriginalDst {
		t.Errorf("%d %s", status, reason)
	}
	_, err := p.handshake(p.redirected(evilIP+":443"), "token.example")
	refusedTLS(t, err)
	if s.count() != 0 || w.wasDialled(evilIP) {
		t.Error("something was sent")
	}
	w.denied(ReasonOriginalDst)
}

func TestB2PrivateOriginalDestination(t *testing.T) {
	w, s := basicWorld(t)
	p := w.proxy(basicPolicy, withToken)
	for _, orig := range []string{"10.0.0.7:443", "169.254.169.254:443", "[fd00:ec2::254]:443"} {
		_, err := p.handshake(p.redirected(orig), "token.example")
		refusedTLS(t, err)
	}
	if s.count() != 0 || w.wasDialled("10.") || w.wasDialled("169.") || w.wasDialled("[fd00") {
		t.Error("something was sent")
	}
	// A name whose lookup gives a private address is refused as well.
	w.name("plain.example", "10.0.0.7")
	p = w.proxy(basicPolicy, withToken)
	_, err := p.handshake(p.redirected("10.0.0.7:443"), "plain.example")
	refusedTLS(t, err)
	w.denied("private")
	if w.wasDialled("10.") {
		t.Error("a private address was dialled")
	}
}

func TestB3ConnectDiffersFromInside(t *testing.T) {
	w, _ := basicWorld(t)
	p := w.proxy(basicPolicy, withToken)
	for _, target := range []string{"plain.example:443", "token.example:443"} {
		_, err := p.handshake(p.tunnel(target), "evil.example")
		refusedTLS(t, err)
	}
	w.denied(ReasonSNIMismatch)
	tc, err := p.handshake(p.tunnel("token.example:443"), "token.example", "http/1.1")
	if err != nil {
		t.Fatal(err)
	}
	if status, reason := ask(t, tc, "GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n"); status != 421 || reason != ReasonHostMismatch {
		t.Errorf("%d %s", status, reason)
	}
	if w.wasDialled(evilIP) || w.wasAsked("evil.example") {
		t.Error("the inner name was looked up or dialled")
	}
}

func TestB4Authority(t *testing.T) {
	w, _ := basicWorld(t)
	p := w.proxy(basicPolicy, withToken)
	for _, target := range []string{
		"[plain.example]:443", "plain.example", "plain.example:", "plain.example:0", "plain.example:65536", "plain.example:443:443",
		"user@plain.example:443", "plain.example@evil.example:443", "evil.example#plain.example:443", "[::1:443", "plain.example:+443", "pl%61in.example:443", ":443",
	} {
		if status, reason := p.send("CONNECT " + target + " HTTP/1.1\r\nHost: x\r\n\r\n"); status != 400 {
			t.Errorf("CONNECT %s: %d %s", target, status, reason)
		}
	}
	tc, err := p.handshake(p.tunnel("token.example:443"), "token.example", "http/1.1")
	if err != nil {
		t.Fatal(err)
	}
	if status, _ := ask(t, tc, "GET / HTTP/1.1\r\nHost: other.example\r\n\r\n"); status != 421 {
		t.Errorf("inner Host of another allowed host: %d", status)
	}
}

func TestB5NULInSOCKSName(t *testing.T) {
	w, _ := basicWorld(t)
	p := w.proxy(basicPolicy, withToken)
	name := "evil.example\x00.plain.example"
	c := p.raw(p.sock)
	fmt.Fprintf(c, "\x05\x01\x00\x05\x01\x00\x03%c%s\x01\xbb", len(name), name)
	reply := make([]byte, 4)
	if _, err := io.ReadFull(c, reply); err != nil || reply[3] != socksBadAddress {
		t.Errorf("% x, %v", reply, err)
	}
	w.denied(ReasonSOCKS)
	if len(w.dials())+len(w.questions()) != 0 {
		t.Error("something was looked up or dialled")
	}
}

func TestB6PlainHTTPIsPolicedToo(t *testing.T) {
	w, _ := basicWorld(t)
	p := w.proxy(basicPolicy, withToken)
	if status, reason, _ := p.get(p.client(false), "http://evil.example/"); status != 403 {
		t.Errorf("%d %s", status, reason)
	}
	if status, reason := ask(t, p.redirected(evilIP+":80"), "GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n"); status != 403 || reason != "default-deny" {
		t.Errorf("transparent: %d %s", status, reason)
	}
	// Port 80 of a host that is allowed at 443 only.
	if status, reason, _ := p.get(p.client(false), "http://other.example/"); status != 403 || reason != "port" {
		t.Errorf("%d %s", status, reason)
	}
}

func TestB7RequestHygiene(t *testing.T) {
	const good = "GET http://plain.example/ HTTP/1.1\r\nHost: plain.example\r\n"
	for name, tc := range map[string]struct {
		text   string
		status int
		reason string
	}{
		"two Content-Length":    {"POST http://plain.example/ HTTP/1.1\r\nHost: plain.example\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\nhello", 400, "conflicting-length"},
		"list Content-Length":   {"POST http://plain.example/ HTTP/1.1\r\nHost: plain.example\r\nContent-Length: 5, 5\r\n\r\nhello", 400, "bad-content-length"},
		"plus Content-Length":   {"POST http://plain.example/ HTTP/1.1\r\nHost: plain.example\r\nContent-Length: +5\r\n\r\nhello", 400, "bad-content-length"},
		"CL and TE":             {"POST http://plain.example/ HTTP/1.1\r\nHost: plain.example\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400, "conflicting-length"},
		"TE xchunked":           {good + "Transfer-Encoding: xchunked\r\n\r\n", 400, "bad-transfer-encoding"},
		"TE gzip, chunked":      {good + "Transfer-Encoding: gzip, chunked\r\n\r\n", 400, "bad-transfer-encoding"},
		"TE twice":              {good + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n", 400, "bad-transfer-encoding"},
		"TE in HTTP/1.0":        {"POST http://plain.example/ HTTP/1.0\r\nHost: plain.example\r\nTransfer-Encoding: chunked\r\n\r\n", 400, "bad-transfer-encoding"},
		"duplicate Host":        {good + "Host: plain.example\r\n\r\n", 400, "duplicate-host"},
		"no Host":               {"GET http://plain.example/ HTTP/1.1\r\n\r\n", 400, "host-missing"},
		"other Host":            {"GET http://plain.example/ HTTP/1.1\r\nHost: other.example\r\n\r\n", 421, "host-mismatch"},
		"space before colon":    {good + "X-A : b\r\n\r\n", 400, "bad-header"},
		"obs-fold":              {good + "X-A: b\r\n c\r\n\r\n", 400, "obsolete-line-folding"},
		"NUL":                   {good + "X-A: b\x00c\r\n\r\n", 400, "bad-header"},
		"bare CR":               {good + "X-A: b\rc\r\n\r\n", 400, "bad-header"},
		"bare LF":               {"GET http://plain.example/ HTTP/1.1\nHost: plain.example\n\n", 400, "bad-request-line"},
		"underscore length":     {good + "Content_Length: 5\r\n\r\n", 400, "bad-header"},
		"Connection names Host": {good + "Connection: host\r\n\r\n", 400, "bad-connection-header"},
		"Expect something":      {good + "Expect: 200-ok\r\n\r\n", 417, "bad-expect"},
		"TRACE":                 {"TRACE http://plain.example/ HTTP/1.1\r\nHost: plain.example\r\n\r\n", 405, "method-refused"},
		"origin form":           {"GET / HTTP/1.1\r\nHost: plain.example\r\n\r\n", 400, "not-a-proxy-request"},
		"https absolute":        {"GET https://plain.example/ HTTP/1.1\r\nHost: plain.example\r\n\r\n", 400, "not-a-proxy-request"},
		"userinfo":              {"GET http://plain.example@evil.example/ HTTP/1.1\r\nHost: plain.example\r\n\r\n", 400, "bad-authority"},
		"fragment":              {"GET http://evil.example#plain.example/ HTTP/1.1\r\nHost: plain.example\r\n\r\n", 400, "bad-request-line"},
		"HTTP/2 preface":        {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505, "bad-http-version"},
		"huge header":           {good + "X-A: " + strings.Repeat("a", 70000) + "\r\n\r\n", 431, "head-too-large"},
		"many headers":          {good + strings.Repeat("X-A: b\r\n", 200) + "\r\n", 431, "head-too-large"},
		"bad upgrade":           {good + "Sec-WebSocket-Key: AAAA\r\n\r\n", 400, "bad-upgrade"},
		"early data":            {"CONNECT plain.example:443 HTTP/1.1\r\nHost: plain.example:443\r\n\r\nGET / HTTP/1.1\r\nHost: evil.example\r\n\r\n", 400, "early-data"},
		"CONNECT with a body":   {"CONNECT plain.example:443 HTTP/1.1\r\nHost: plain.example:443\r\nContent-Length: 3\r\n\r\nabc", 400, "bad-content-length"},
		"CONNECT other Host":    {"CONNECT plain.example:443 HTTP/1.1\r\nHost: evil.example:443\r\n\r\n", 421, "host-mismatch"},
	} {
		t.Run(name, func(t *testing.T) {
			w, _ := basicWorld(t)
			p := w.proxy(basicPolicy, withToken)
			c := p.raw(p.explicit)
			status, reason := ask(t, c, tc.text)
			if status != tc.status || reason != tc.reason {
				t.Errorf("%d %s, want %d %s", status, reason, tc.status, tc.reason)
			}
			if n, err := io.Copy(io.Discard, c); err != nil && n > 0 {
				t.Errorf("the connection is still open: %v", err)
			}
			if len(w.dials()) != 0 {
				t.Errorf("dialled %v", w.dials())
			}
		})
	}
}

func TestB8NoQueryForADeniedHost(t *testing.T) {
	w, _ := basicWorld(t)
	p := w.proxy(basicPolicy, withToken)
	p.send("CONNECT secret-data.evil.example:443 HTTP/1.1\r\nHost: secret-data.evil.example:443\r\n\r\n")
	p.send("GET http://secret-data.evil.example/ HTTP/1.1\r\nHost: secret-data.evil.example\r\n\r\n")
	_, _ = p.handshake(p.redirected(evilIP+":443"), "secret-data.evil.example")
	if len(w.questions()) != 0 {
		t.Errorf("asked %v", w.questions())
	}
}

func TestTransparentWithoutOriginalIsRefused(t *testing.T) {
	w, _ := basicWorld(t)
	p := w.proxy(basicPolicy, withToken)
	w.meantFor(p.transparent) // dialled directly: its own address
	if !turnedAway(p.transparent) {
		t.Error("it was answered")
	}
	w.denied(ReasonNoOriginal)
}

func TestSOCKSConnect(t *testing.T) {
	w, _ := basicWorld(t)
	p := w.proxy(basicPolicy, withToken)
	c := p.raw(p.sock)
	fmt.Fprintf(c, "\x05\x01\x00\x05\x01\x00\x03%c%s\x01\xbb", len("plain.example"), "plain.example")
	if _, err := io.ReadFull(c, make([]byte, 12)); err != nil {
		t.Fatal(err)
	}
	if _, err := p.handshake(c, "plain.example"); err != nil {
		t.Error(err)
	}
	c = p.raw(p.sock)
	fmt.Fprintf(c, "\x05\x01\x00\x05\x03\x00\x03%c%s\x01\xbb", len("plain.example"), "plain.example")
	reply := make([]byte, 12)
	if _, err := io.ReadFull(c, reply); err != nil || reply[3] != socksBadCommand {
		t.Errorf("UDP ASSOCIATE: % x %v", reply, err)
	}
}
