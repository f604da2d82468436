package proxy

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/miekg/dns"
	"golang.org/x/net/http2/hpack"
)

// speaker is a host that answers each connection on port 80 with the bytes of say,
// whatever it is asked; it is what no library would be.
func (w *world) speaker(name, addr string, say func(n int) string) {
	w.t.Helper()
	w.name(name, addr)
	l := w.listen(addr + ":80")
	var n atomic.Int64
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				br := bufio.NewReader(c)
				for {
					if _, err := http.ReadRequest(br); err != nil {
						return
					}
					if _, err := io.WriteString(c, say(int(n.Add(1)))); err != nil {
						return
					}
				}
			}()
		}
	}()
}

const overridePolicy = `version: 1
name: test
mode: allowlist
allow:
  - host: plain.example
    ports: [80]
    methods: [GET]
    paths: [/open]
  - host: token.example
    ports: [80, 443]
secrets:
  - name: TOKEN
    from: {env: TOKEN}
    inject: [{host: token.example, paths: [/v2], as: bearer, cleartext: true, ports: [80, 443]}]
`

// A path is decided on whatever the host's name is spelled like, in tunnels and out of them.
func TestPathsAtOtherSpellingsOfTheHost(t *testing.T) {
	w, s := newWorld(t), &seen{}
	w.host("token.example", otherIP, s.handler(echo()))
	p := w.proxy(strings.Replace(overridePolicy, "ports: [80, 443]\nsecrets", "ports: [443]\n    paths: [/open]\nsecrets", 1), withToken)
	for _, name := range []string{"token.example", "TOKEN.EXAMPLE", "Token.Example.", "token.example."} {
		for way, open := range map[string]func() net.Conn{
			"tunnel":     func() net.Conn { return p.tunnel(name + ":443") },
			"redirected": func() net.Conn { return p.redirected(otherIP + ":443") },
		} {
			for path, want := range map[string]int{"/open/a": 200, "/shut/a": 403} {
				before := s.count()
				tc, err := p.handshake(open(), name, "http/1.1")
				if err != nil {
					t.Errorf("%s %s: %v", way, name, err)
					continue
				}
				status, reason := ask(t, tc, "GET "+path+" HTTP/1.1\r\nHost: "+name+"\r\nConnection: close\r\n\r\n")
				if status != want || want == 403 && reason != "path" {
					t.Errorf("%s %s%s: %d %s", way, name, path, status, reason)
				}
				if (s.count() > before) != (want == 200) {
					t.Errorf("%s %s%s: the host got %d requests", way, name, path, s.count()-before)
				}
			}
		}
	}
}

// A field that says another method or path to servers that heed it is decided
// on like the request line.
func TestFieldsThatOverruleTheRequestLine(t *testing.T) {
	w, s := newWorld(t), &seen{}
	w.host("plain.example", allowedIP, s.handler(echo()))
	w.host("token.example", otherIP, s.handler(echo()))
	p := w.proxy(overridePolicy, withToken)
	for _, tc := range []struct {
		line, fields string
		status       int
		reason       string
	}{
		{"GET http://plain.example/open/a", "", 200, ""},
		{"GET http://plain.example/open/a", "X-HTTP-Method-Override: GET\r\n", 200, ""},
		{"GET http://plain.example/open/a", "X-HTTP-Method-Override: DELETE\r\n", 403, "method"},
		{"GET http://plain.example/open/a", "x-http-method: put\r\n", 403, "method"},
		{"GET http://plain.example/open/a", "X_Method_Override: GET, DELETE\r\n", 403, "method"},
		{"GET http://plain.example/open/a?x=1&_method=DELETE", "", 403, "method"},
		{"GET http://plain.example/open/a?%5Fmetho%64=DELETE", "", 403, "method"},
		{"GET http://plain.example/open/a", "X-Original-URL: /admin\r\n", 403, "path"},
		{"GET http://plain.example/open/a", "X-Rewrite-URL: /open/../admin\r\n", 403, "path"},
		{"GET http://plain.example/open/a", "X-Rewrite-URL: https://plain.example/admin?x\r\n", 403, "path"},
		{"GET http://plain.example/open/a", "X-Original-URL: admin\r\n", 400, "bad-header"},
		{"GET http://plain.example/open/a", "X-Original-URL: /open/b?c=d\r\n", 200, ""},
		{"GET http://plain.example/open/a", strings.Repeat("X-HTTP-Method: PUT\r\n", 9), 400, "bad-header"},
		{"GET http://token.example/", "X-Original-URL: /admin\r\n", 200, ""},
		{"GET http://token.example/v2/x", "X-Original-URL: /v1\r\n", 403, ReasonOverride},
		{"GET http://token.example/v1", "X-Original-URL: /v2/x\r\n", 403, ReasonOverride},
		{"POST http://token.example/v2/x", "X-HTTP-Method-Override: PATCH\r\nContent-Length: 0\r\n", 200, ""},
	} {
		host := strings.SplitN(tc.line, "/", 4)[2]
		before := s.count()
		status, reason := p.send(tc.line + " HTTP/1.1\r\nHost: " + host + "\r\n" + tc.fields + "\r\n")
		if status != tc.status || reason != tc.reason {
			t.Errorf("%s %q: %d %s, want %d %s", tc.line, tc.fields, status, reason, tc.status, tc.reason)
		}
		if (s.count() > before) != (tc.status == 200) {
			t.Errorf("%s %q: the host got %d requests", tc.line, tc.fields, s.count()-before)
		}
	}
}

func TestMethodsThatServersReadInAnyCase(t *testing.T) {
	w, s := basicWorld(t)
	p := w.proxy(basicPolicy, withToken)
	for _, m := range []string{"trace", "Track", "connect", "TrAcE"} {
		if status, reason := p.send(m + " http://token.example/ HTTP/1.1\r\nHost: token.example\r\n\r\n"); status != 405 || reason != ReasonMethodRefused {
			t.Errorf("%s: %d %s", m, status, reason)
		}
		if got := newH2Client(t, p).request(":method", m, ":scheme", "https", ":path", "/", ":authority", "token.example"); got != "405 "+ReasonMethodRefused && got != "reset" {
			t.Errorf("h2 %s: %s", m, got)
		}
	}
	if s.count() != 0 {
		t.Error("a host got one")
	}
}

// A host that switches protocols unasked gets no tunnel.
func TestProtocolSwitchThatNobodyAskedFor(t *testing.T) {
	w := newWorld(t)
	w.speaker("plain.example", allowedIP, func(int) string {
		return "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nraw bytes"
	})
	p := w.proxy(basicPolicy, withToken)
	for _, fields := range []string{"", "Connection: Upgrade\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQCAAAAAAIAAAAA\r\n", "Connection: Upgrade\r\nUpgrade: websocket\r\n"} {
		if status, reason := p.send("GET http://plain.example/ HTTP/1.1\r\nHost: plain.example\r\n" + fields + "\r\n"); status != 502 || reason != ReasonUpstreamResponse {
			t.Errorf("%q: %d %s", fields, status, reason)
		}
	}
	w.name("token.example", otherIP)
	h1 := &http.Server{Handler: http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		c, _, err := rw.(http.Hijacker).Hijack()
		if err == nil {
			_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n")
			_ = c.Close()
		}
	})}
	w.serve(otherIP, h1.Handler, "h1", "token.example")
	if got := newH2Client(t, p).request(":method", "GET", ":scheme", "https", ":path", "/", ":authority", "token.example"); got != "502 "+ReasonUpstreamResponse {
		t.Errorf("to an HTTP/2 client: %s", got)
	}
}

// What is refused to travel as a header does not travel as an upgrade request.
func TestUpgradesDoNotTravel(t *testing.T) {
	w, s := basicWorld(t)
	p := w.proxy(basicPolicy, withToken)
	for _, fields := range []string{
		"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQCAAAAAAIAAAAA\r\n",
		"Connection: Upgrade\r\nUpgrade: websocket\r\nUpgrade: h2c\r\n",
		"Upgrade: websocket\r\nConnection: keep-alive\r\n",
		"Connection: upgrade\r\nUpgrade: TLS/1.2\r\n",
	} {
		if status, reason := p.send("GET http://token.example/ HTTP/1.1\r\nHost: token.example\r\n" + fields + "\r\n"); status != 200 {
			t.Errorf("%q: %d %s", fields, status, reason)
		}
		if h := s.last(t).Header; h.Get("Upgrade") != "" || h.Get("Http2-Settings") != "" || h.Get("Connection") != "" {
			t.Errorf("%q: the host got %v", fields, h)
		}
	}
}

func TestInterimResponsesCarryNothing(t *testing.T) {
	w := newWorld(t)
	w.host("token.example", otherIP, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Link", "</?"+r.Header.Get("Authorization")+">; rel=preload")
		rw.WriteHeader(http.StatusEarlyHints)
		rw.Header().Del("Link")
		_, _ = io.WriteString(rw, "done")
	}))
	p := w.proxy(basicPolicy, withToken)
	for _, h2 := range []bool{false, true} {
		if status, _, body := p.get(p.client(h2), "https://token.example/"); status != 200 || body != "done" {
			t.Errorf("h2=%v: %d %q", h2, status, body)
		}
	}
	tc, err := p.handshake(p.tunnel("token.example:443"), "token.example", "http/1.1")
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.WriteString(tc, "GET / HTTP/1.1\r\nHost: token.example\r\nConnection: close\r\n\r\n")
	all, _ := io.ReadAll(tc)
	if bytes.Contains(all, []byte(testValue)) || bytes.Contains(all, []byte("103")) {
		t.Errorf("%s", all)
	}
}

// Trailers neither forge a refusal of the proxy's nor describe the message.
func TestTrailersCannotForge(t *testing.T) {
	w := newWorld(t)
	w.host("token.example", otherIP, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(rw, "body")
		rw.(http.Flusher).Flush()
		for _, name := range []string{reasonField, "Alt-Svc", "Good"} {
			rw.Header().Set(http.TrailerPrefix+name, "x")
		}
	}))
	p := w.proxy(basicPolicy, withToken)
	for _, h2 := range []bool{false, true} {
		resp, err := p.client(h2).Get("https://token.example/")
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		if len(resp.Trailer) != 1 || resp.Trailer.Get("Good") != "x" {
			t.Errorf("h2=%v: %v", h2, resp.Trailer)
		}
	}
}

// Bytes behind a response that has no body are not taken for the next response.
func TestBytesBehindABodylessResponse(t *testing.T) {
	for name, head := range map[string]string{
		"304":            "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n",
		"204":            "HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n",
		"counted":        "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
		"the last chunk": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
	} {
		w := newWorld(t)
		w.speaker("plain.example", allowedIP, func(n int) string {
			if n == 1 {
				return head + "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison"
			}
			return "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ngood"
		})
		p := w.proxy(basicPolicy, withToken)
		c := p.raw(p.explicit)
		br := bufio.NewReader(c)
		var got string
		for range 2 {
			_, _ = io.WriteString(c, "GET http://plain.example/ HTTP/1.1\r\nHost: plain.example\r\n\r\n")
			resp, err := http.ReadResponse(br, nil)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			b, _ := io.ReadAll(resp.Body)
			got = string(b)
		}
		if got != "good" {
			t.Errorf("%s: the second request got %q", name, got)
		}
	}
}

// A message that is compressed inside a body is as opaque as a compressed body: no
// client can ask for one, and a server that sends one unasked is refused.
func TestCodingsInsideABody(t *testing.T) {
	w, s := newWorld(t), &seen{}
	w.host("token.example", otherIP, s.handler(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if name := strings.TrimPrefix(r.URL.Path, "/"); name != "" {
			rw.Header().Set(name, r.URL.RawQuery)
		}
		_, _ = io.WriteString(rw, "message")
	})))
	p := w.proxy(basicPolicy, withToken)
	for _, h2 := range []bool{false, true} {
		for field, want := range map[string]int{"": 200, "Grpc-Encoding?gzip": 502, "Grpc-Encoding?identity": 200, "Connect-Content-Encoding?br": 502, "IM?vcdiff": 502} {
			status, reason, _ := p.get(p.client(h2), "https://token.example/"+field, "Grpc-Accept-Encoding", "gzip", "Connect-Accept-Encoding", "gzip", "A-IM", "vcdiff")
			if status != want || want == 502 && reason != ReasonEncoding {
				t.Errorf("h2=%v %s: %d %s", h2, field, status, reason)
			}
			for _, name := range innerCodings.accept {
				if s.last(t).Header.Get(name) != "" {
					t.Errorf("h2=%v: %s went on", h2, name)
				}
			}
		}
	}
}

// A small compressed body that grows without end costs no memory that the client
// does not take, and a window beyond the limit breaks off.
func TestCompressedBombs(t *testing.T) {
	var bomb bytes.Buffer
	z, _ := gzip.NewWriterLevel(&bomb, gzip.BestSpeed)
	zeros := make([]byte, 1<<20)
	for range 512 {
		_, _ = z.Write(zeros)
	}
	_ = z.Close()
	var wide bytes.Buffer
	enc, err := zstd.NewWriter(&wide, zstd.WithWindowSize(64<<20))
	if err != nil {
		t.Fatal(err)
	}
	_, _ = enc.Write(zeros)
	_ = enc.Flush()
	_, _ = enc.Write(bytes.Repeat([]byte("a"), 70<<20))
	_ = enc.Close()
	w := newWorld(t)
	w.host("token.example", otherIP, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/wide" {
			rw.Header().Set("Content-Encoding", "zstd")
			_, _ = rw.Write(wide.Bytes())
			return
		}
		rw.Header().Set("Content-Encoding", "gzip")
		_, _ = rw.Write(bomb.Bytes())
	}))
	p := w.proxy(basicPolicy, withToken)
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	for _, h2 := range []bool{false, true} {
		req, _ := http.NewRequest("GET", "https://token.example/", nil)
		req.Header.Set("Accept-Encoding", "gzip")
		resp, err := p.client(h2).Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.CopyN(io.Discard, resp.Body, 32<<20); err != nil {
			t.Errorf("h2=%v: %v", h2, err)
		}
		if grown := int64(heap()) - int64(before); grown > 64<<20 {
			t.Errorf("h2=%v: %d MiB are held for a client that does not read", h2, grown>>20)
		}
		resp.Body.Close()
		req, _ = http.NewRequest("GET", "https://token.example/wide", nil)
		req.Header.Set("Accept-Encoding", "zstd")
		if resp, err = p.client(h2).Do(req); err != nil {
			continue
		}
		if n, err := io.Copy(io.Discard, resp.Body); err == nil {
			t.Errorf("h2=%v: a window of 64 MiB was decoded, %d bytes", h2, n)
		}
		resp.Body.Close()
	}
}

// Streams that are opened and reset at once do not outnumber the limit at the
// host, and other clients are served meanwhile.
func TestRapidReset(t *testing.T) {
	w := newWorld(t)
	var now, most atomic.Int64
	w.host("token.example", otherIP, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		n := now.Add(1)
		defer now.Add(-1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		if r.URL.Path == "/held" {
			<-r.Context().Done()
		}
	}))
	p := w.proxy(basicPolicy, withToken)
	h := newH2Client(t, p)
	var block strings.Builder
	enc := hpack.NewEncoder(&block)
	for _, f := range [][2]string{{":method", "GET"}, {":scheme", "https"}, {":path", "/held"}, {":authority", "token.example"}} {
		_ = enc.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]})
	}

	go func() { _, _ = io.Copy(io.Discard, h.c) }()
	for id := uint32(1); id < 20000; id += 2 {
		block.Reset()
		for _, f := range [][2]string{{":method", "GET"}, {":scheme", "https"}, {":path", "/held"}, {":authority", "token.example"}} {
			_ = enc.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]})
		}
		h.frame(1, 5, id, []byte(block.String()))
		h.frame(3, 0, id, []byte{0, 0, 0, 8})
	}

	if status, _, _ := p.get(p.client(true), "https://token.example/"); status != 200 {
		t.Errorf("another client: %d", status)
	}
	if most.Load() > maxStreams {
		t.Errorf("%d requests at the host at once", most.Load())
	}
}

// A head that goes on for ever in CONTINUATION frames, or in one field, is cut.
func TestContinuationFlood(t *testing.T) {
	w, s := basicWorld(t)
	p := w.proxy(basicPolicy, withToken)
	h := newH2Client(t, p)
	ended := make(chan struct{})
	go func() { _, _ = io.Copy(io.Discard, h.c); close(ended) }()
	var block strings.Builder
	enc := hpack.NewEncoder(&block)
	_ = enc.WriteField(hpack.HeaderField{Name: ":method", Value: "GET"})
	h.frame(1, 1, 1, []byte(block.String()))
	sent := 0
	for sent < 64<<20 {
		block.Reset()
		_ = enc.WriteField(hpack.HeaderField{Name: fmt.Sprintf("x-%d", sent), Value: strings.Repeat("a", 8000), Sensitive: true})
		b := []byte(block.String())
		if _, err := h.c.Write(append([]byte{byte(len(b) >> 16), byte(len(b) >> 8), byte(len(b)), 9, 0, 0, 0, 0, 1}, b...)); err != nil {
			break
		}
		sent += len(b)
	}
	if sent >= 64<<20 {
		t.Error("64 MiB of a head were taken")
	}
	<-ended
	if s.count() != 0 {
		t.Error("the host got a request")
	}
}

func TestSOCKSRefusals(t *testing.T) {
	w, _ := basicWorld(t)
	p := w.proxy(basicPolicy, withToken)
	v6 := func(a string) string { return "\x04" + string(net.ParseIP(a).To16()) }
	name := func(s string) string { return "\x03" + string(rune(len(s))) + s }
	for what, tc := range map[string]struct {
		greeting, request string
		reply             byte
	}{
		"SOCKS4":               {"\x04\x01\x01\xbb\x01\x02\x03\x04\x00", "", 0xfe},
		"SOCKS4a":              {"\x04\x01\x01\xbb\x00\x00\x00\x01\x00plain.example\x00", "", 0xfe},
		"password only":        {"\x05\x01\x02", "", 0xff},
		"no method":            {"\x05\x00", "", 0xfe},
		"BIND":                 {"\x05\x01\x00", "\x05\x02\x00" + name("plain.example") + "\x01\xbb", socksBadCommand},
		"UDP ASSOCIATE":        {"\x05\x01\x00", "\x05\x03\x00\x01\x00\x00\x00\x00\x01\xbb", socksBadCommand},
		"unknown command":      {"\x05\x01\x00", "\x05\xf0\x00" + name("plain.example") + "\x01\xbb", socksBadCommand},
		"port 0":               {"\x05\x01\x00", "\x05\x01\x00" + name("plain.example") + "\x00\x00", socksBadAddress},
		"reserved byte":        {"\x05\x01\x00", "\x05\x01\x01" + name("plain.example") + "\x01\xbb", socksBadAddress},
		"address type":         {"\x05\x01\x00", "\x05\x01\x00\x02plain.example\x01\xbb", socksBadAddress},
		"empty name":           {"\x05\x01\x00", "\x05\x01\x00\x03\x00\x01\xbb", socksBadAddress},
		"zone":                 {"\x05\x01\x00", "\x05\x01\x00" + name("fe80::1%eth0") + "\x01\xbb", socksBadAddress},
		"metadata":             {"\x05\x01\x00", "\x05\x01\x00\x01\xa9\xfe\xa9\xfe\x00\x50", socksDenied},
		"mapped metadata":      {"\x05\x01\x00", "\x05\x01\x00" + v6("::ffff:169.254.169.254") + "\x00\x50", socksDenied},
		"translated metadata":  {"\x05\x01\x00", "\x05\x01\x00" + v6("64:ff9b::a9fe:a9fe") + "\x00\x50", socksDenied},
		"metadata as a number": {"\x05\x01\x00", "\x05\x01\x00" + name("2852039166") + "\x00\x50", socksDenied},
		"denied name":          {"\x05\x01\x00", "\x05\x01\x00" + name("evil.example") + "\x01\xbb", socksDenied},
	} {
		c := p.raw(p.sock)
		_, _ = io.WriteString(c, tc.greeting+tc.request)
		all, _ := io.ReadAll(c)
		got := byte(0xfe) // closed without a word
		switch {
		case len(all) == 2:
			got = all[1]
		case len(all) > 3:
			got = all[3]
		}
		if got != tc.reply {
			t.Errorf("%s: % x, want %#x", what, all, tc.reply)
		}
	}
	if len(w.dials())+len(w.questions()) != 0 {
		t.Errorf("dialled %v, asked %v", w.dials(), w.questions())
	}
}

// What a sandbox writes around its question stays with the proxy, and what a
// name server answers around its addresses does, too.
func TestDNSAroundTheQuestion(t *testing.T) {
	w := newWorld(t)
	type asked struct {
		options, records int
		name             string
	}
	var log = make(chan asked, 100)
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := &dns.Server{PacketConn: pc, Handler: dns.HandlerFunc(func(rw dns.ResponseWriter, m *dns.Msg) {
		a := asked{name: m.Question[0].Name, records: len(m.Extra)}
		if opt := m.IsEdns0(); opt != nil {
			a.options = len(opt.Option)
		}
		log <- a
		r := new(dns.Msg)
		r.SetReply(m)
		name := strings.ToLower(m.Question[0].Name)
		hdr := func(owner string, t uint16) dns.RR_Header {
			return dns.RR_Header{Name: owner, Rrtype: t, Class: dns.ClassINET, Ttl: 0}
		}
		addr := func(owner, ip string) {
			if m.Question[0].Qtype == dns.TypeA {
				r.Answer = append(r.Answer, &dns.A{Hdr: hdr(owner, dns.TypeA), A: net.ParseIP(ip)})
			}
		}
		switch name {
		case "plain.example.": // a chain that ends in a private address
			r.Answer = append(r.Answer, &dns.CNAME{Hdr: hdr(name, dns.TypeCNAME), Target: "inner.corp.example."})
			addr("inner.corp.example.", "10.9.9.9")
		case "inside.example.": // a loop
			r.Answer = append(r.Answer, &dns.CNAME{Hdr: hdr(name, dns.TypeCNAME), Target: "loop.example."},
				&dns.CNAME{Hdr: hdr("loop.example.", dns.TypeCNAME), Target: name})
		case "mixed.example.": // an address of another name, and far too many
			addr("evil.example.", "198.51.100.7")
			for i := range 68 {
				addr(name, fmt.Sprintf("93.184.200.%d", i+1))
			}
			r.Compress = true
		case "six.example.":
			r.Extra = append(r.Extra, &dns.A{Hdr: hdr(name, dns.TypeA), A: net.ParseIP("93.184.216.99")})
		}
		_ = rw.WriteMsg(r)
	})}
	go srv.ActivateAndServe()
	t.Cleanup(func() { _ = srv.Shutdown() })
	w.places["udp "+resolverAddr] = udpPlace{pc}
	p := w.proxy(dnsPolicy, nil)
	ask := func(name string, size uint16) *dns.Msg {
		t.Helper()
		m := new(dns.Msg)
		m.SetQuestion(name, dns.TypeA)
		m.SetEdns0(size, true)
		m.IsEdns0().Option = append(m.IsEdns0().Option,
			&dns.EDNS0_COOKIE{Code: dns.EDNS0COOKIE, Cookie: "6461746164617461"},
			&dns.EDNS0_SUBNET{Code: dns.EDNS0SUBNET, Family: 1, SourceNetmask: 32, Address: net.ParseIP("1.2.3.4")},
			&dns.EDNS0_LOCAL{Code: 65001, Data: []byte("stolen data")})
		m.Extra = append(m.Extra, &dns.TXT{Hdr: dns.RR_Header{Name: "data.example.", Rrtype: dns.TypeTXT, Class: dns.ClassINET}, Txt: []string{"stolen"}})
		r, _, err := (&dns.Client{Timeout: 10 * time.Second, UDPSize: 65535}).Exchange(m, p.nameServer)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if len(r.Extra) > 0 {
			t.Errorf("%s: the answer holds %v", name, r.Extra)
		}
		return r
	}
	if r := ask("pLaIn.example.", 4096); r.Rcode != dns.RcodeRefused || len(r.Answer) != 0 {
		t.Errorf("a chain to a private address: %v", r)
	}
	if r := ask("inside.example.", 4096); len(r.Answer) != 0 {
		t.Errorf("a loop: %v", r)
	}
	r := ask("mixed.example.", 65535)
	r.Compress = true
	if len(r.Answer) == 0 || r.Len() > 1232 {
		t.Errorf("a large answer: %d records in %d bytes", len(r.Answer), r.Len())
	}
	for _, rr := range r.Answer {
		if a, ok := rr.(*dns.A); !ok || strings.HasPrefix(a.A.String(), "198.51.") || a.Hdr.Ttl == 0 {
			t.Errorf("%v", rr)
		}
	}
	if r := ask("six.example.", 512); len(r.Answer) != 0 {
		t.Errorf("an address beside the answer: %v", r)
	}
	close(log)
	for a := range log {
		if a.options != 0 || a.records > 1 || a.name != strings.ToLower(a.name) {
			t.Errorf("the name server was asked %+v", a)
		}
	}
	if w.wasDialled("10.") {
		t.Error("a private address was dialled")
	}
}

// The address may change between look-up and look-up; what is dialled is what
// was classified.
func TestDNSRebinding(t *testing.T) {
	w, s := basicWorld(t)
	p := w.proxy(basicPolicy, withToken)
	c := p.client(false)
	if status, _, _ := p.get(c, "http://token.example/"); status != 200 {
		t.Fatal(status)
	}
	for _, a := range []string{"127.0.0.1", "169.254.169.254", "::1", "fd00:ec2::254", "::ffff:10.0.0.1", "0.0.0.0"} {
		w.name("token.example", a)
		p := w.proxy(basicPolicy, withToken)
		if status, reason, _ := p.get(p.client(false), "http://token.example/"); status != 403 {
			t.Errorf("%s: %d %s", a, status, reason)
		}
		if status, _ := ask(t, p.redirected(net.JoinHostPort(a, "80")), "GET / HTTP/1.1\r\nHost: token.example\r\n\r\n"); status == 200 {
			t.Errorf("%s: redirected", a)
		}
	}
	if s.count() != 1 {
		t.Errorf("%d requests", s.count())
	}
}

// A ClientHello that is spread over many records, or padded, is read as the one
// that it is; one with two names is refused.
func TestHellosInPieces(t *testing.T) {
	w, _ := basicWorld(t)
	p := w.proxy(basicPolicy, withToken)
	cut := func(raw []byte, size int) []byte {
		var out []byte
		for body := raw[5:]; len(body) > 0; {
			n := min(size, len(body))
			out = append(out, raw[0], raw[1], raw[2])
			out = binary.BigEndian.AppendUint16(out, uint16(n))
			out = append(out, body[:n]...)
			body = body[n:]
		}
		return out
	}
	for _, size := range []int{1, 7, 100} {
		c := p.tunnel("plain.example:443")
		_, _ = c.Write(cut(helloFor(t, "evil.example"), size))
		wantAlert(t, c)
	}
	w.denied(ReasonSNIMismatch)
	if w.wasDialled(allowedIP) {
		t.Error("it was passed on")
	}
}
