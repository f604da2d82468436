package witness

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/sha1"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/wallproof/wallproof/battery/witness/services"
	"github.com/wallproof/wallproof/probes/paths"
)

// verbOf is what every host answers at PREFIX/wp/VERB/NONCE, nil for an unknown
// verb; package paths says what each does.
func verbOf(name string) func(*exchange) {
	switch name {
	case paths.Heartbeat:
		return (*exchange).heartbeat
	case paths.Echo:
		return (*exchange).echo
	case paths.Redirect:
		return (*exchange).redirect
	case paths.Reflect:
		return (*exchange).reflect
	case paths.Sink:
		return (*exchange).sink
	case paths.Socket:
		return (*exchange).socket
	}
	return nil
}

// plain answers with a text, then the proof.
func (x *exchange) plain(status int, text string) {
	x.send(services.Response{Status: status, Header: http.Header{"Content-Type": {"text/plain; charset=utf-8"}}, Body: []byte(text)})
}

func (x *exchange) heartbeat() { x.plain(http.StatusOK, "") }

func (x *exchange) sink() {
	x.plain(http.StatusCreated, fmt.Sprintf("stored %d bytes\n", len(x.body)))
}

func (x *exchange) redirect() {
	q := x.r.URL.Query()
	status, err := strconv.Atoi(q.Get(paths.QueryStatus))
	if err != nil || status < 300 || status > 399 {
		status = http.StatusFound
	}
	// Set verbatim: the target is the technique's, however odd.
	x.rw.Header().Set("Location", strings.Map(headerSafe, q.Get(paths.QueryTo)))
	x.plain(status, "")
}

// headerSafe drops what cannot stand in a header field.
func headerSafe(c rune) rune {
	if c < ' ' || c == 0x7f {
		return -1
	}
	return c
}

func (x *exchange) reflect() {
	body, err := base64.RawURLEncoding.DecodeString(x.r.URL.Query().Get(paths.QueryBody))
	if err != nil {
		x.plain(http.StatusBadRequest, "query parameter "+paths.QueryBody+" is not base64url\n")
		return
	}
	x.send(services.Response{Status: http.StatusOK, Header: http.Header{"Content-Type": {"text/html; charset=utf-8"}}, Body: body})
}

// echo sends the request back in the encoding asked for.
func (x *exchange) echo() {
	said := append(append(x.requestText(), '\n'), x.body...)
	enc := x.r.URL.Query().Get(paths.QueryEncoding)
	switch enc {
	case paths.EncodingHeader:
		x.echoHeader()
	case paths.EncodingTrailer:
		x.echoTrailer()
	case paths.EncodingSplit:
		x.echoSplit(said)
	case paths.EncodingGzip:
		x.echoGzip(said)
	case paths.EncodingError:
		x.plain(http.StatusInternalServerError, string(said)+"\n")
	default:
		x.plain(http.StatusOK, encodeEcho(enc, said)+"\n")
	}
}

// encodeEcho is the encodings that are a function of the bytes.
func encodeEcho(enc string, b []byte) string {
	switch enc {
	case paths.EncodingBase64:
		return base64.StdEncoding.EncodeToString(b)
	case paths.EncodingBase641:
		return base64.StdEncoding.EncodeToString(append([]byte("x"), b...))
	case paths.EncodingBase642:
		return base64.StdEncoding.EncodeToString(append([]byte("xx"), b...))
	case paths.EncodingURL64:
		return base64.RawURLEncoding.EncodeToString(b)
	case paths.EncodingHex:
		return hex.EncodeToString(b)
	case paths.EncodingPercent:
		var s strings.Builder
		for _, c := range b {
			fmt.Fprintf(&s, "%%%02X", c)
		}
		return s.String()
	case paths.EncodingJSON:
		var s strings.Builder
		for _, c := range b {
			fmt.Fprintf(&s, `\u%04x`, c)
		}
		return `"` + s.String() + `"`
	case paths.EncodingReverse:
		r := slices.Clone(b)
		slices.Reverse(r)
		return string(r)
	case paths.EncodingDots:
		var s strings.Builder
		for _, c := range b {
			s.WriteByte(c)
			s.WriteByte('.')
		}
		return s.String()
	}
	return string(b)
}

func (x *exchange) echoHeader() {
	for n, values := range x.r.Header {
		for _, v := range values {
			x.rw.Header().Add("X-Echo-"+n, strings.Map(headerSafe, v))
		}
	}
	x.plain(http.StatusOK, "")
}

func (x *exchange) echoTrailer() {
	x.rw.Header().Set("Trailer", "X-Echo")
	x.plain(http.StatusOK, "")
	x.rw.Header().Set("X-Echo", strings.Map(headerSafe, x.r.Header.Get("Authorization")))
}

// echoSplit sends seven bytes at a time, each in a chunk of its own.
func (x *exchange) echoSplit(said []byte) {
	x.rw.Header().Set("Content-Type", "text/plain; charset=utf-8")
	if x.proof != "" {
		x.rw.Header().Set(headerWitness, x.proof)
	}
	flush := http.NewResponseController(x.rw).Flush
	for chunk := range slices.Chunk(append(said, "\n"+x.proof+"\n"...), 7) {
		if _, err := x.rw.Write(chunk); err != nil {
			return
		}
		if err := flush(); err != nil {
			return
		}
	}
}

// echoGzip compresses the echo and, so that the encoding holds for the whole
// body, the proof with it.
func (x *exchange) echoGzip(said []byte) {
	var b bytes.Buffer
	zw := gzip.NewWriter(&b)
	_, _ = zw.Write(append(said, "\n"+x.proof+"\n"...)) // to memory
	_ = zw.Close()
	x.send(services.Response{
		Status: http.StatusOK, Header: http.Header{"Content-Type": {"text/plain; charset=utf-8"}, "Content-Encoding": {"gzip"}},
		Body: b.Bytes(), Closed: true,
	})
}

// webSocketGUID is RFC 6455's.
const webSocketGUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"

// socket answers a WebSocket upgrade, sends the proof in a text frame and
// answers every frame that brings a nonce of its own.
func (x *exchange) socket() {
	key := x.r.Header.Get("Sec-Websocket-Key")
	if !strings.EqualFold(x.r.Header.Get("Upgrade"), "websocket") || key == "" {
		x.rw.Header().Set("Upgrade", "websocket")
		x.plain(http.StatusUpgradeRequired, "")
		return
	}
	c, rw, err := http.NewResponseController(x.rw).Hijack()
	if err != nil { // HTTP/2 has no upgrade
		x.plain(http.StatusUpgradeRequired, "")
		return
	}
	defer c.Close()
	sum := sha1.Sum([]byte(key + webSocketGUID))
	fmt.Fprintf(rw, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: %s\r\n", base64.StdEncoding.EncodeToString(sum[:]))
	if x.proof != "" {
		fmt.Fprintf(rw, "%s: %s\r\n", headerWitness, x.proof)
	}
	fmt.Fprint(rw, "\r\n")
	_ = writeFrame(rw, []byte(x.proof))
	if rw.Flush() == nil {
		x.readFrames(c, rw)
	}
}

// writeFrame writes one unmasked text frame of less than 126 bytes.
func writeFrame(w io.Writer, payload []byte) error {
	_, err := w.Write(append([]byte{0x81, byte(min(len(payload), 125))}, payload[:min(len(payload), 125)]...))
	return err
}

// readFrames records what comes over the socket until it ends. Frames are
// unmasked, because a client's are masked with a key of its own.
func (x *exchange) readFrames(c net.Conn, rw *bufio.ReadWriter) {
	stream := x.w.finder.Stream()
	for total := 0; total < maxBody; {
		_ = c.SetReadDeadline(time.Now().Add(idleTime))
		payload, err := readFrame(rw.Reader)
		if err != nil {
			return
		}
		total += len(payload) + 1
		for _, n := range stream.Add(payload) {
			x.w.rec.see(sighting{
				nonces: []string{n}, service: x.service, proto: "http", src: x.ledger.src, dst: x.ledger.dst,
				host: x.host, bytes: int64(len(payload)), detail: "WebSocket frame",
			})
			if writeFrame(rw, []byte(x.w.answer(n))) != nil || rw.Flush() != nil {
				return
			}
		}
	}
}

// maxFrame bounds a WebSocket frame's payload.
const maxFrame = 64 << 10

// readFrame reads one frame (RFC 6455 section 5.2) and returns its payload
// unmasked; a close frame is the end.
func readFrame(r *bufio.Reader) ([]byte, error) {
	var head [2]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	size := uint64(head[1] & 0x7f)
	if size >= 126 {
		ext := make([]byte, 2)
		if size == 127 {
			ext = make([]byte, 8)
		}
		if _, err := io.ReadFull(r, ext); err != nil {
			return nil, err
		}
		size = 0
		for _, b := range ext {
			size = size<<8 | uint64(b)
		}
	}
	if size > maxFrame {
		return nil, fmt.Errorf("frame of %d bytes", size)
	}
	var mask [4]byte
	if head[1]&0x80 != 0 {
		if _, err := io.ReadFull(r, mask[:]); err != nil {
			return nil, err
		}
	}
	payload := make([]byte, size)
	if _, err := io.ReadFull(r, payload); err != nil {
		return nil, err
	}
	for i := range payload {
		payload[i] ^= mask[i%4]
	}
	if head[0]&0x0f == 8 {
		return nil, io.EOF
	}
	return payload, nil
}
