package proxy

import (
	"bufio"
	"bytes"
	"compress/zlib"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// packed is text in a content coding.
func packed(coding, text string) string {
	var b bytes.Buffer
	var w io.WriteCloser
	switch coding {
	case "gzip":
		z := gzip.NewWriter(&b)
		z.Name, z.Comment = "named-"+testValue, "about "+testValue
		w = z
	case "br":
		w = brotli.NewWriter(&b)
	case "zstd":
		w, _ = zstd.NewWriter(&b)
	case "zlib":
		w = zlib.NewWriter(&b)
	case "flate":
		w, _ = flate.NewWriter(&b, flate.BestSpeed)
	default:
		return text
	}
	_, _ = io.WriteString(w, text)
	_ = w.Close()
	return b.String()
}

// answers serves one raw response to every request at port 80 of token.example.
func answers(w *world, text *atomic.Value) {
	w.name("token.example", otherIP)
	l := w.listen(otherIP + ":80")
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				if _, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
					_, _ = io.WriteString(c, text.Load().(string))
				}
			}()
		}
	}()
}

// Whatever a host does with codings, framing and parts of messages, no form of the
// secret that decoding brings out arrives; and what is right arrives masked.
func TestSecretsInOddMessages(t *testing.T) {
	half := len(testValue) / 2
	text := "before " + testValue + " after"
	masked := "before " + strings.Repeat("*", len(testValue)) + " after"
	body := func(fields, b string) string { return "HTTP/1.1 200 OK\r\nConnection: close\r\n" + fields + "\r\n" + b }
	coded := func(codings, b string) string { return body("Content-Encoding: "+codings+"\r\n", b) }
	both := func(coding string) string {
		return packed(coding, "before "+testValue[:half]) + packed(coding, testValue[half:]+" after")
	}
	skippable := "\x50\x2a\x4d\x18" + string([]byte{byte(len(testValue)), 0, 0, 0}) + testValue
	chunked := "Transfer-Encoding: chunked\r\n"
	for name, c := range map[string]struct {
		says string
		want string // exact body; "-": none, whatever the status
	}{
		"gzip over identity":      {coded("identity, gzip", packed("gzip", text)), masked},
		"identity over gzip":      {coded("gzip, identity", packed("gzip", text)), masked},
		"x-gzip":                  {coded("x-gzip", packed("gzip", text)), masked},
		"capitals":                {coded("GZip", packed("gzip", text)), masked},
		"zlib":                    {coded("deflate", packed("zlib", text)), masked},
		"bare deflate":            {coded("deflate", packed("flate", text)), masked},
		"br over gzip":            {coded("gzip,br", packed("br", packed("gzip", text))), masked},
		"in two fields":           {body("Content-Encoding: gzip\r\nContent-Encoding: zstd\r\n", packed("zstd", packed("gzip", text))), masked},
		"empty members":           {coded(" , gzip,,", packed("gzip", text)), masked},
		"two members":             {coded("gzip", both("gzip")), masked},
		"two frames":              {coded("zstd", both("zstd")), masked},
		"a frame that is skipped": {coded("zstd", skippable+packed("zstd", text)), masked},
		"four codings":            {coded("gzip, gzip, gzip, gzip", packed("gzip", text)), "-"},
		"parameters":              {coded("gzip;q=1", packed("gzip", text)), "-"},
		"compress":                {coded("compress", text), "-"},
		"not what it says":        {coded("gzip", text), "-"},
		"text behind gzip":        {coded("gzip", packed("gzip", "x")+text), "-"},
		"text behind br":          {coded("br", packed("br", "x")+text), "-"},
		"text behind zlib":        {coded("deflate", packed("zlib", "x")+text), "-"},
		"coded for the way":       {body("Transfer-Encoding: gzip, chunked\r\n", "3\r\nabc\r\n0\r\n\r\n"), "-"},
		"extension of a chunk":    {body(chunked, "3;x="+testValue+"\r\nabc\r\n0;"+testValue+"\r\n\r\n"), "abc"},
		"trailer of its own":      {body(chunked+"Trailer: Authorization\r\n", "3\r\nabc\r\n0\r\nAuthorization: Bearer "+testValue+"\r\n\r\n"), "-"},
		"one byte a chunk":        {body(chunked, oneByteChunks(text)), masked},
		"cut by the end":          {body("", "before "+testValue[:half]), "before " + strings.Repeat("*", half)},
		"reason phrase":           {"HTTP/1.1 200 " + testValue + "\r\nConnection: close\r\nContent-Length: 1\r\n\r\nx", "x"},
		"CR in a field":           {body("X-A: a\rSet-Cookie: t="+testValue+"\r\n", "x"), "-"},
		"folded field":            {body("X-A: "+testValue[:half]+"\r\n "+testValue[half:]+"\r\n", "x"), "-"},
		"NUL in a field":          {body("X-A: a\x00"+testValue+"\r\n", "x"), "-"},
		"304 with a body":         {"HTTP/1.1 304 Not Modified\r\nConnection: close\r\nContent-Length: 60\r\n\r\n" + text, ""},
		"204 with a body":         {"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n" + text, ""},
		"part of what is coded":   {"HTTP/1.1 206 Partial Content\r\nConnection: close\r\nContent-Encoding: gzip\r\nContent-Range: bytes 0-9/100\r\n\r\n" + packed("gzip", text), "-"},
		"parts, said to be whole": {body("Content-Type: multipart/byteranges; boundary=B\r\n", "--B\r\nContent-Range: bytes 0-9/10\r\n\r\n"+text+"\r\n--B--\r\n"), "--B\r\nContent-Range: bytes 0-9/10\r\n\r\n" + masked + "\r\n--B--\r\n"},
		"side-band of git":        {body("Content-Type: application/x-git-upload-pack-result\r\n", "003f\x02"+text), "003f\x02" + masked},
		"event stream":            {body("Content-Type: text/event-stream\r\n", "data: "+text+"\n\n"), "data: " + masked + "\n\n"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			var says atomic.Value
			says.Store(c.says)
			answers(w, &says)
			p := w.proxy(basicPolicy, withToken)
			conn := p.raw(p.explicit)
			_, _ = io.WriteString(conn, "GET http://token.example/ HTTP/1.1\r\nHost: token.example\r\nTE: trailers\r\nConnection: close, TE\r\n\r\n")
			all, _ := io.ReadAll(conn)
			for _, part := range []string{testValue[:minSeen], testValue[len(testValue)-minSeen:]} {
				if bytes.Contains(all, []byte(part)) {
					t.Fatalf("it arrives: %q", all)
				}
			}
			resp, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(all)), nil)
			if len(all) == 0 && c.want == "-" {
				return // given up before anything went out
			}
			if err != nil {
				t.Fatalf("%v: %q", err, all)
			}
			got, err := io.ReadAll(resp.Body)
			switch {
			case c.want == "-" && resp.StatusCode == 200 && strings.Contains(string(got), "*"):
				t.Errorf("something arrives masked that cannot be right: %q", got)
			case c.want != "-" && (err != nil || string(got) != c.want):
				t.Errorf("%d %q (%v), want %q", resp.StatusCode, got, err, c.want)
			}
		})
	}
}

// minSeen is how much of a secret may not be seen in one piece.
const minSeen = 12

func oneByteChunks(text string) string {
	var b strings.Builder
	for i := range len(text) {
		b.WriteString("1\r\n" + text[i:i+1] + "\r\n")
	}
	return b.String() + "0\r\n\r\n"
}

// HTTP/2 that nobody agreed on, and tunnels inside its streams, lead nowhere.
func TestHTTP2ByOtherDoors(t *testing.T) {
	w, s := basicWorld(t)
	p := w.proxy(basicPolicy, withToken)
	const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"
	for name, c := range map[string]func() net.Conn{
		"explicit":    func() net.Conn { return p.raw(p.explicit) },
		"transparent": func() net.Conn { return p.redirected(otherIP + ":80") },
	} {
		if status, reason := ask(t, c(), preface); status != 400 && status != 505 {
			t.Errorf("%s: %d %s", name, status, reason)
		}
	}
	// RFC 8441: a WebSocket inside a stream.
	if got := newH2Client(t, p).request(":method", "CONNECT", ":protocol", "websocket", ":scheme", "https", ":path", "/", ":authority", "token.example",
		"sec-websocket-version", "13"); got != "reset" && got != "closed" && !strings.HasPrefix(got, "4") {
		t.Errorf("extended CONNECT: %s", got)
	}
	if s.count() != 0 {
		t.Error("the host got it")
	}
}
