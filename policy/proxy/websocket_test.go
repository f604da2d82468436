package proxy

import (
	"bufio"
	"bytes"
	"crypto/sha1"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"

	"github.com/wallproof/wallproof/policy/proxy/redact"
)

// frame builds a server's frame.
func frame(op byte, fin bool, payload []byte) []byte {
	b := []byte{op}
	if fin {
		b[0] |= finBit
	}
	switch n := len(payload); {
	case n < 126:
		b = append(b, byte(n))
	case n < 1<<16:
		b = append(b, 126)
		b = binary.BigEndian.AppendUint16(b, uint16(n))
	default:
		b = append(b, 127)
		b = binary.BigEndian.AppendUint64(b, uint64(n))
	}
	return append(b, payload...)
}

// webSocketHost upgrades, says what it was sent as a credential in fragments,
// and then echoes what it gets.
func webSocketHost(accept func(key string) string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") == "" || r.Header.Get("Sec-WebSocket-Extensions") != "" {
			w.WriteHeader(400)
			return
		}
		c, rw, err := w.(http.Hijacker).Hijack()
		if err != nil {
			return
		}
		defer c.Close()
		fmt.Fprintf(rw, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: %s\r\n\r\n", accept(r.Header.Get("Sec-WebSocket-Key")))
		v := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		_, _ = rw.Write(frame(1, false, []byte("token "+v[:15])))
		_, _ = rw.Write(frame(9, true, []byte("ping"))) // a control frame in between
		_, _ = rw.Write(frame(0, true, []byte(v[15:]+" end")))
		_ = rw.Flush()
		_, _ = io.Copy(c, rw)
	})
}

func goodAccept(key string) string {
	sum := sha1.Sum([]byte(key + webSocketGUID))
	return base64.StdEncoding.EncodeToString(sum[:])
}

const upgradeRequest = "GET /ws HTTP/1.1\r\nHost: token.example\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n" +
	"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Extensions: permessage-deflate\r\n\r\n"

func TestWebSocketIsInjectedAndMasked(t *testing.T) {
	w := newWorld(t)
	w.name("token.example", otherIP)
	w.serve(otherIP, webSocketHost(goodAccept), "h1", "token.example")
	p := w.proxy(basicPolicy, withToken)
	tc, err := p.handshake(p.tunnel("token.example:443"), "token.example", "http/1.1")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(tc, upgradeRequest); err != nil {
		t.Fatal(err)
	}
	br := bufio.NewReader(tc)
	resp, err := http.ReadResponse(br, nil)
	if err != nil || resp.StatusCode != 101 {
		t.Fatalf("%v %v", resp, err)
	}
	want := append(frame(1, false, []byte("token "+redact.Masked(15))), frame(9, true, []byte("ping"))...)
	want = append(want, frame(0, true, []byte(redact.Masked(len(testValue)-15)+" end"))...)
	got := make([]byte, len(want))
	if _, err := io.ReadFull(br, got); err != nil || !bytes.Equal(got, want) {
		t.Fatalf("got %q, %v\nwant %q", got, err, want)
	}
	// The client's frames go through, and the answer at once.
	if _, err := tc.Write(frame(1, true, []byte("hello"))); err != nil {
		t.Fatal(err)
	}
	got = got[:7]
	if _, err := io.ReadFull(br, got); err != nil || string(got[2:]) != "hello" {
		t.Errorf("%q %v", got, err)
	}
	_ = tc.Close()
	ev := w.event("closed", func(e Event) bool { return e.Type == EventClosed })
	if ev.Redacted != 1 || ev.Up == 0 || ev.Down == 0 || ev.Status != 101 {
		t.Errorf("event %+v", ev)
	}
}

// A server that says 101 without being a WebSocket server does not open an
// unread tunnel.
func TestWebSocketThatIsNoneIsRefused(t *testing.T) {
	w := newWorld(t)
	w.name("token.example", otherIP)
	w.serve(otherIP, webSocketHost(func(string) string { return "d3Jvbmc=" }), "h1", "token.example")
	p := w.proxy(basicPolicy, withToken)
	tc, err := p.handshake(p.tunnel("token.example:443"), "token.example", "http/1.1")
	if err != nil {
		t.Fatal(err)
	}
	if status, reason := ask(t, tc, upgradeRequest); status != 502 || reason != ReasonUpstreamResponse {
		t.Errorf("%d %s", status, reason)
	}
}

func TestFrameRelayAgainstWholeMessages(t *testing.T) {
	red, err := redact.New([]byte("abcdefgh"), []byte("ghijklmnop"))
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(7, 8))
	for range 300 {
		var wire, want bytes.Buffer
		for range 1 + rng.IntN(3) {
			var msg []byte
			for range rng.IntN(5) {
				msg = append(msg, []string{"abcdefgh", "ghijklmnop", "abcd", "xyz", "ijklm", "abcdefghijklmnop"}[rng.IntN(6)]...)
			}
			masked := append(append([]byte{}, msg...), '.')
			red.Bytes(masked)
			msg = append(msg, '.')
			op := byte(2)
			for len(msg) > 0 {
				n := 1 + rng.IntN(len(msg))
				wire.Write(frame(op, n == len(msg), msg[:n]))
				want.Write(frame(op, n == len(msg), masked[:n]))
				msg, masked, op = msg[n:], masked[n:], 0
				if rng.IntN(3) == 0 && len(msg) > 0 {
					wire.Write(frame(9, true, []byte("p")))
					want.Write(frame(9, true, []byte("p")))
				}
			}
		}
		var got bytes.Buffer
		fr := frameRelay{dst: &got, live: redact.NewLive(red)}
		if err := fr.run(bytes.NewReader(wire.Bytes())); err != io.EOF {
			t.Fatal(err)
		}
		if !bytes.Equal(got.Bytes(), want.Bytes()) {
			t.Fatalf("wire %q\n got %q\nwant %q", wire.Bytes(), got.Bytes(), want.Bytes())
		}
	}
}

// A secret that a host spreads over messages, a few bytes in each, is masked but for
// its first bytes; so is one in pongs.
func TestSecretOverMessages(t *testing.T) {
	const value = "wpcanary-spread-over-messages"
	red, err := redact.New([]byte(value))
	if err != nil {
		t.Fatal(err)
	}
	for _, op := range []byte{1, 2, 10} {
		for size := 1; size < len(value); size++ {
			var wire bytes.Buffer
			text := "a " + value + " b"
			for rest := text; rest != ""; {
				n := min(size, len(rest))
				wire.Write(frame(op, true, []byte(rest[:n])))
				rest = rest[n:]
			}
			total := wire.Len()
			var got bytes.Buffer
			fr := frameRelay{dst: &got, live: redact.NewLive(red)}
			if err := fr.run(&wire); err != io.EOF || got.Len() != total {
				t.Fatalf("%v, %d bytes of %d", err, got.Len(), total)
			}
			var payload []byte
			for b := got.Bytes(); len(b) > 0; b = b[2+b[1]:] {
				payload = append(payload, b[2:2+b[1]]...)
			}
			if !strings.HasSuffix(string(payload), redact.Masked(len(value)-redact.MinSecret+1)+" b") || !strings.HasPrefix(string(payload), "a ") {
				t.Errorf("opcode %d, %d bytes a message: %q", op, size, payload)
			}
		}
	}
}

func TestFramesThatNobodyAgreedTo(t *testing.T) {
	for name, b := range map[string][]byte{
		"reserved bit":       {0xc1, 0},
		"masked":             {0x81, 0x80, 0, 0, 0, 0},
		"long control frame": append([]byte{0x89, 126, 0, 126}, make([]byte, 126)...),
		"fragmented control": {0x09, 0},
		"negative length":    {0x82, 127, 0xff, 0, 0, 0, 0, 0, 0, 0},
	} {
		fr := frameRelay{dst: io.Discard, live: redact.NewLive(nil)}
		if err := fr.run(bytes.NewReader(b)); err != errFrame {
			t.Errorf("%s: %v", name, err)
		}
	}
}
