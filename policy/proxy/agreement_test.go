package proxy

import (
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"golang.org/x/net/http2/hpack"
)

func TestPinnedClientFailsWithItsOwnReason(t *testing.T) {
	w, s := basicWorld(t)
	p := w.proxy(basicPolicy, withToken)
	tc := tls.Client(p.tunnel("token.example:443"), &tls.Config{ServerName: "token.example"}) // trusts the system's authorities only
	if err := tc.Handshake(); err == nil {
		t.Fatal("it trusts the run's authority")
	}
	w.denied(ReasonTLSPinned)
	if s.count() != 0 {
		t.Error("it was waved through")
	}
}

func TestSNIThatIsNone(t *testing.T) {
	w, _ := basicWorld(t)
	p := w.proxy(basicPolicy, withToken)
	for _, open := range []func() io.ReadWriteCloser{
		func() io.ReadWriteCloser { return p.tunnel("plain.example:443") },
		func() io.ReadWriteCloser { return p.redirected(allowedIP + ":443") },
	} {
		c := open()
		_, _ = c.Write(helloFor(t, ""))
		wantAlert(t, c)
	}
	w.denied(ReasonSNIMissing)
	w.denied("default-deny") // the address, which nothing allows
	c := p.tunnel("plain.example:443")
	_, _ = c.Write(patchedHello(t, "93.184.216.34"))
	wantAlert(t, c)
	w.denied(ReasonSNIAddress)
	c = p.tunnel("plain.example:443")
	_, _ = c.Write(patchedHello(t, "plain.example\x00x"))
	wantAlert(t, c)
	if w.wasDialled(allowedIP) {
		t.Error("something was dialled")
	}
}

// wantAlert reads a fatal access_denied alert.
func wantAlert(t *testing.T, r io.Reader) {
	t.Helper()
	got := make([]byte, len(alertAccessDenied))
	if _, err := io.ReadFull(r, got); err != nil || string(got) != string(alertAccessDenied) {
		t.Errorf("% x %v", got, err)
	}
}

// helloFor is a ClientHello of the standard library.
func helloFor(t *testing.T, serverName string) []byte {
	t.Helper()
	rec := &recorderConn{}
	_ = tls.Client(rec, &tls.Config{ServerName: serverName, InsecureSkipVerify: true}).Handshake()
	return rec.sent
}

// patchedHello is one whose name the standard library would not send.
func patchedHello(t *testing.T, serverName string) []byte {
	t.Helper()
	stand := strings.Repeat("a", len(serverName))
	b := []byte(strings.Replace(string(helloFor(t, stand)), stand, serverName, 1))
	if !strings.Contains(string(b), serverName) {
		t.Fatal("the name was not found")
	}
	return b
}

// Nobody can tell a real encrypted ClientHello from a pretended one. It is
// terminated: the pretender goes on, and a real one cannot lead elsewhere.
func TestEncryptedClientHelloIsNotPassedOn(t *testing.T) {
	w, _ := basicWorld(t)
	p := w.proxy(basicPolicy, withToken)
	raw := helloFor(t, "plain.example")
	// type outer, KDF, AEAD, config id, encapsulated key, payload
	ech := append([]byte{0, 0, 1, 0, 1, 0x55, 0, 32}, make([]byte, 32)...)
	ech = append(ech, append([]byte{0, 16}, make([]byte, 16)...)...)
	ext := append([]byte{0xfe, 0x0d, 0, byte(len(ech))}, ech...)
	raw = append(raw, ext...)
	grow := func(at, width int) {
		n := 0
		for i := range width {
			n = n<<8 | int(raw[at+i])
		}
		n += len(ext)
		for i := width - 1; i >= 0; i-- {
			raw[at+i] = byte(n)
			n >>= 8
		}
	}
	at := 9 + 2 + 32
	at += 1 + int(raw[at])
	at += 2 + int(raw[at])<<8 + int(raw[at+1])
	at += 1 + int(raw[at])
	grow(3, 2)  // record
	grow(6, 3)  // message
	grow(at, 2) // extensions
	c := p.tunnel("plain.example:443")
	_, _ = c.Write(raw)
	head := make([]byte, 6)
	if _, err := io.ReadFull(c, head); err != nil || head[0] != 22 || head[5] != 2 {
		t.Fatalf("no ServerHello: % x %v", head, err)
	}
	if w.wasDialled(allowedIP) {
		t.Error("it was passed on")
	}
}

func TestNestedConnectAndTraceInside(t *testing.T) {
	w, s := basicWorld(t)
	p := w.proxy(basicPolicy, withToken)
	for _, line := range []string{"CONNECT evil.example:443", "TRACE /", "TRACK /"} {
		tc, err := p.handshake(p.tunnel("token.example:443"), "token.example", "http/1.1")
		if err != nil {
			t.Fatal(err)
		}
		want, reason := 405, ReasonMethodRefused
		if strings.HasPrefix(line, "CONNECT") {
			want, reason = 400, ReasonNotProxyRequest
		}
		if status, got := ask(t, tc, line+" HTTP/1.1\r\nHost: token.example\r\n\r\n"); status != want || got != reason {
			t.Errorf("%s: %d %s", line, status, got)
		}
	}
	if s.count() != 0 {
		t.Error("the host got a request")
	}
}

func TestSomethingElseThanTLSOrHTTP(t *testing.T) {
	w, _ := basicWorld(t)
	p := w.proxy(basicPolicy, withToken)
	for _, text := range []string{"SSH-2.0-OpenSSH_9.0\r\n", "GET / HTTP/1.1\r\nHost: plain.example\r\n\r\n", "\x00\x01\x02\x03"} {
		c := p.tunnel("plain.example:443")
		_, _ = io.WriteString(c, text)
		closesBy(t, text, c)
		c = p.redirected(allowedIP + ":443")
		_, _ = io.WriteString(c, text)
		closesBy(t, text, c)
	}
	w.denied(ReasonNotTLS)
	if w.wasDialled(allowedIP) {
		t.Error("it was passed on")
	}
}

// h2Client writes HTTP/2 frames by hand, as no library sends these.
type h2Client struct {
	t *testing.T
	c io.ReadWriter
}

func newH2Client(t *testing.T, p *proxyUnderTest) *h2Client {
	t.Helper()
	tc, err := p.handshake(p.tunnel("token.example:443"), "token.example", "h2")
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.WriteString(tc, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
	h := &h2Client{t, tc}
	h.frame(4, 0, 0, nil)
	return h
}

func (h *h2Client) frame(kind, flags byte, stream uint32, payload []byte) {
	n := len(payload)
	_, _ = h.c.Write(append([]byte{byte(n >> 16), byte(n >> 8), byte(n), kind, flags, byte(stream >> 24), byte(stream >> 16), byte(stream >> 8), byte(stream)}, payload...))
}

// request sends one request and returns status and reason, or "reset".
func (h *h2Client) request(fields ...string) string {
	h.t.Helper()
	var block strings.Builder
	enc := hpack.NewEncoder(&block)
	for i := 0; i+1 < len(fields); i += 2 {
		_ = enc.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]})
	}
	h.frame(1, 5, 1, []byte(block.String()))
	dec := hpack.NewDecoder(4096, nil)
	for {
		head := make([]byte, 9)
		if _, err := io.ReadFull(h.c, head); err != nil {
			return "closed"
		}
		payload := make([]byte, int(head[0])<<16|int(head[1])<<8|int(head[2]))
		if _, err := io.ReadFull(h.c, payload); err != nil {
			return "closed"
		}
		switch head[3] {
		case 1:
			got, err := dec.DecodeFull(payload)
			if err != nil {
				h.t.Fatal(err)
			}
			status, reason := "", ""
			for _, f := range got {
				switch f.Name {
				case ":status":
					status = f.Value
				case strings.ToLower(reasonField):
					reason = f.Value
				}
			}
			return strings.TrimSpace(status + " " + reason)
		case 3:
			return "reset"
		case 7:
			return "closed"
		}
	}
}

func TestHTTP2Agreement(t *testing.T) {
	w, s := basicWorld(t)
	p := w.proxy(basicPolicy, withToken)
	base := []string{":method", "GET", ":scheme", "https", ":path", "/"}
	for _, tc := range []struct {
		name   string
		fields []string
		want   string
	}{
		{"good", append(base, ":authority", "token.example"), "200"},
		{"port spelled out", append(base, ":authority", "TOKEN.example.:443"), "200"},
		{"another authority", append(base, ":authority", "evil.example"), "421 host-mismatch"},
		{"another allowed authority", append(base, ":authority", "other.example"), "421 host-mismatch"},
		{"another port", append(base, ":authority", "token.example:8443"), "421 host-mismatch"},
		{"bracketed", append(base, ":authority", "[token.example]"), "400 bad-authority"},
		{"userinfo", append(base, ":authority", "token.example@evil.example"), "reset"},
		{"another Host", append(base, ":authority", "token.example", "host", "evil.example"), "421 host-mismatch"},
		{"Host alone", append(base, "host", "evil.example"), "421 host-mismatch"},
		{"two lengths", append(base, ":authority", "token.example", "content-length", "0", "content-length", "0"), "400 conflicting-length"},
		{"upgrade", append(base, ":authority", "token.example", "upgrade", "websocket"), "reset"},
		{"masked length", append(base, ":authority", "token.example", "content_length", "5"), "400 bad-header"},
		{"CONNECT", []string{":method", "CONNECT", ":authority", "evil.example:443"}, "405 method-refused"},
		{"TRACE", []string{":method", "TRACE", ":scheme", "https", ":path", "/", ":authority", "token.example"}, "405 method-refused"},
		{"absolute path", []string{":method", "GET", ":scheme", "https", ":path", "https://evil.example/", ":authority", "token.example"}, "reset"},
	} {
		before := s.count()
		got := newH2Client(t, p).request(tc.fields...)
		if got != tc.want && !(tc.want == "reset" && (strings.HasPrefix(got, "400") || got == "closed")) {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
		if (s.count() > before) != (tc.want == "200") {
			t.Errorf("%s: the host got %d requests", tc.name, s.count()-before)
		}
	}
	if w.wasDialled(evilIP) || w.wasAsked("evil.example") {
		t.Error("something was looked up or dialled")
	}
}

func TestUpstreamCertificateIsAlwaysVerified(t *testing.T) {
	w := newWorld(t)
	w.name("token.example", otherIP)
	w.serve(otherIP, echo(), "h1", "another.example")
	p := w.proxy(basicPolicy, withToken)
	for _, h2 := range []bool{false, true} {
		if status, reason, _ := p.get(p.client(h2), "https://token.example/"); status != 502 || reason != ReasonUpstreamTLS {
			t.Errorf("h2=%v: %d %s", h2, status, reason)
		}
	}
}

func TestMalformedUpstreams(t *testing.T) {
	for name, text := range map[string]string{
		"two lengths":  "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
		"CL and TE":    "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"NUL":          "HTTP/1.1 200 OK\r\nX-A: \x00\r\n\r\n",
		"no HTTP":      "hello\r\n\r\n",
		"huge":         "HTTP/1.1 200 OK\r\nX-A: " + strings.Repeat("a", 70000) + "\r\n\r\n",
		"1xx for ever": strings.Repeat("HTTP/1.1 100 Continue\r\n\r\n", 20),
		"nothing":      "",
	} {
		w := newWorld(t)
		w.name("plain.example", allowedIP)
		l := w.listen(allowedIP + ":80")
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				go func() {
					_, _ = c.Read(make([]byte, 4096))
					_, _ = io.WriteString(c, text)
					_ = c.Close()
				}()
			}
		}()
		p := w.proxy(basicPolicy, withToken)
		want := ReasonUpstreamResponse
		if text == "" {
			want = ReasonUpstreamClosed
		}
		if status, reason, _ := p.get(p.client(false), "http://plain.example/"); status != 502 || reason != want {
			t.Errorf("%s: %d %s", name, status, reason)
		}
	}
}

// A body that breaks off is not made to look whole.
func TestBrokenBodiesStayBroken(t *testing.T) {
	for _, text := range []string{
		"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nzz\r\n",
	} {
		w := newWorld(t)
		w.name("plain.example", allowedIP)
		l := w.listen(allowedIP + ":80")
		go func() {
			if c, err := l.Accept(); err == nil {
				_, _ = c.Read(make([]byte, 4096))
				_, _ = io.WriteString(c, text)
				_ = c.Close()
			}
		}()
		p := w.proxy(basicPolicy, withToken)
		resp, err := p.client(false).Get("http://plain.example/")
		if err != nil {
			t.Fatal(err)
		}
		if b, err := io.ReadAll(resp.Body); err == nil {
			t.Errorf("%.60q: %q looks whole", text, b)
		}
		resp.Body.Close()
	}
}

func TestTrailersOfgRPC(t *testing.T) {
	w := newWorld(t)
	w.host("token.example", otherIP, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Te") != "trailers" {
			rw.WriteHeader(400)
			return
		}
		rw.Header().Set("Content-Type", "application/grpc")
		_, _ = io.WriteString(rw, "data")
		rw.Header().Set(http.TrailerPrefix+"Grpc-Status", "0")
		rw.Header().Set(http.TrailerPrefix+"Grpc-Message", "you sent "+r.Header.Get("Authorization"))
	}))
	p := w.proxy(basicPolicy, withToken)
	req, _ := http.NewRequest("POST", "https://token.example/s/m", strings.NewReader("ask"))
	req.Header.Set("Te", "trailers")
	resp, err := p.client(true).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	_, _ = io.ReadAll(resp.Body)
	if resp.Trailer.Get("Grpc-Status") != "0" || strings.Contains(fmt.Sprint(resp.Trailer), testValue) || !strings.Contains(resp.Trailer.Get("Grpc-Message"), "****") {
		t.Errorf("%d %v", resp.StatusCode, resp.Trailer)
	}
}
