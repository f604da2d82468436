package proxy

import (
	"net/http"
	"strconv"
	"time"

	"github.com/wallproof/wallproof/policy/proxy/httpx"
)

// reasonField is the field that tells a client why it was refused. A response
// that carries it comes from the proxy: upstream's are removed.
const reasonField = "X-Wallproof-Reason"

// refusalText is the body of a refusal. It holds the code alone: nothing of
// what the client or an upstream said.
func refusalText(status int, reason string) string {
	return "wallproof: " + reason + " (" + strconv.Itoa(status) + " " + http.StatusText(status) + ")\n"
}

// refuse answers with a refusal, records it, and returns whether the
// connection can go on: after a malformed request it cannot.
func (x *session) refuse(ev *Event, ref *refusal, raw string) bool {
	ev.Entry, ev.Point = ref.entry, ref.point
	ev.Status = ref.status
	if ev.Host == "" && raw != "" {
		ev.Host = quoteHost(raw)
	}
	x.o.s.refused(ev, ref.reason)
	keep := (ref.status == 403 || ref.status == 502) && x.bodyRead()
	if !x.writeRefusal(ev, ref, keep) {
		return false
	}
	if !keep && (x.q == nil || x.q.sending == nil) {
		x.lingerClose()
	}
	return keep
}

// writeRefusal writes the answer of a refusal. It is false when the client has
// gone.
func (x *session) writeRefusal(ev *Event, ref *refusal, keep bool) bool {
	text := refusalText(ref.status, ref.reason)
	w := x.bw
	httpx.WriteStatusLine(w, ref.status)
	httpx.WriteField(w, reasonField, ref.reason)
	httpx.WriteField(w, "Content-Type", "text/plain; charset=utf-8")
	httpx.WriteField(w, "Cache-Control", "no-store")
	if !keep {
		httpx.WriteField(w, "Connection", "close")
	}
	httpx.WriteLength(w, int64(len(text)))
	w.WriteString("\r\n")
	if ev.Method != http.MethodHead {
		w.WriteString(text)
	}
	return w.Flush() == nil
}

// lingerTime is how long a refused client may go on sending what nobody reads.
// Without it the reset that follows could destroy the answer on its way.
const lingerTime = time.Second

// lingerBytes is how much of it is thrown away.
const lingerBytes = 256 << 10

// closeWrite ends our half of the connection.
func (x *session) closeWrite() {
	if cw, ok := x.rw.(interface{ CloseWrite() error }); ok {
		_ = cw.CloseWrite()
	} else if cw, ok := x.c.Conn.(interface{ CloseWrite() error }); ok {
		_ = cw.CloseWrite()
	}
}

// lingerClose ends our half and reads a little of what is still coming.
func (x *session) lingerClose() {
	x.c.within(lingerTime)
	x.closeWrite()
	buf := make([]byte, 4096)
	for left := lingerBytes; left > 0; {
		n, err := x.rw.Read(buf)
		if err != nil {
			return
		}
		left -= n
	}
}

// knownMethod keeps methods that clients make up out of the record.
func knownMethod(m string) string {
	switch m {
	case "GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH", "PROPFIND", "MKCOL", "REPORT", "SEARCH":
		return m
	}
	return ""
}
