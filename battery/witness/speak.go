package witness

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"time"
)

// Ports at which a server speaks first, or speaks one protocol whatever comes.
const (
	portFTP    = 21
	portSSH    = 22
	portSMTP   = 25
	portDNS    = 53
	portPOP    = 110
	portIMAP   = 143
	portSubmit = 587
	portDoT    = 853
)

// greetings are what servers say first, by port.
var greetings = map[uint16]string{
	portFTP:    "220 wallproof world FTP\r\n",
	portSSH:    "SSH-2.0-wallproof_world\r\n",
	portSMTP:   "220 wallproof world ESMTP\r\n",
	portPOP:    "+OK wallproof world\r\n",
	portIMAP:   "* OK wallproof world\r\n",
	portSubmit: "220 wallproof world ESMTP\r\n",
}

// speak answers one connection in whatever protocol it turns out to be, and
// closes it unless another owner has taken it over.
func (w *World) speak(c *conn) {
	handed := false
	defer func() {
		if !handed {
			_ = c.Close()
		}
	}()
	if c.dst.Port() == portDNS || c.dst.Port() == portDoT && c.inTLS {
		w.dnsStream(c)
		return
	}
	switch w.listen(c) {
	case wireTLS:
		if c.inTLS {
			w.echoLines(c) // TLS inside TLS: its bytes have been scanned, and that is all
			return
		}
		inner, err := c.startTLS()
		if err != nil {
			return // what its ClientHello held is recorded when it is closed
		}
		handed = true
		w.speak(inner)
	case wireHTTP:
		w.serveOne(c)
	case wireHTTP2:
		serveTwo(c, func(rw http.ResponseWriter, r *http.Request) { w.handleTwo(rw, r, c) })
	case wireSSH:
		_, _ = io.WriteString(c, greetings[portSSH])
		w.echoLines(c)
	case wirePlain:
		w.echoLines(c)
	case wireUnknown: // it said nothing, or stopped in the middle
	}
}

// listen waits until the first bytes show the protocol. A client that waits for
// the server to speak gets a greeting.
func (w *World) listen(c *conn) wire {
	patience := silence
	for greeted := false; ; {
		_ = c.SetReadDeadline(time.Now().Add(patience))
		kind, more := sniffNext(c.br)
		switch {
		case kind != wireUnknown:
			return kind
		case more == nil:
		case errors.Is(more, os.ErrDeadlineExceeded) && !greeted:
			greeted, patience = true, idleTime
			if c.br.Buffered() == 0 && !w.greet(c) {
				return wireUnknown
			}
		default:
			return wireUnknown
		}
	}
}

// sniffNext looks at what a connection has sent so far, and when that does not
// tell its protocol waits for more. The error is that wait's.
func sniffNext(br *bufio.Reader) (wire, error) {
	seen := br.Buffered()
	b, _ := br.Peek(seen) // what is there cannot fail
	if kind := sniff(b); kind != wireUnknown {
		return kind, nil
	}
	if seen >= peekSize {
		return wirePlain, nil
	}
	_, err := br.Peek(seen + 1)
	return wireUnknown, err
}

// greet is what a server says to a client that waits, on the ports where servers
// speak first. On any other port a greeting would break the protocol of a client
// that is merely slow.
func (w *World) greet(c *conn) bool {
	text := greetings[c.dst.Port()]
	if text == "" {
		return true
	}
	if n := w.byAddr[c.dst.Addr()]; n != "" {
		text = text[:len(text)-2] + " " + w.answer(n) + "\r\n"
	}
	_, err := io.WriteString(c, text)
	return err == nil
}

// replyPrefix is what a line must begin with to pass for a reply, by port.
var replyPrefix = map[uint16]string{portFTP: "230 ", portSMTP: "250 ", portSubmit: "250 ", portPOP: "+OK ", portIMAP: "* OK "}

// echoLines reads a connection of no known protocol to its end, and answers with
// the proof as soon as a nonce has come.
func (w *World) echoLines(c *conn) {
	prefix := replyPrefix[c.dst.Port()]
	buf := make([]byte, peekSize)
	stream := w.finder.Stream()
	sent := map[string]bool{}
	for total := 0; total < maxStream; {
		_ = c.SetReadDeadline(time.Now().Add(idleTime))
		n, err := c.Read(buf)
		total += n
		found := stream.Add(buf[:n])
		if n > 0 && len(sent) == 0 && len(found) == 0 {
			if own := w.byAddr[c.dst.Addr()]; own != "" {
				found = []string{own}
			}
		}
		for _, nonce := range found {
			if !sent[nonce] {
				sent[nonce] = true
				if _, err := io.WriteString(c, prefix+w.answer(nonce)+"\r\n"); err != nil {
					return
				}
			}
		}
		if len(found) == 0 && prefix != "" && bytes.HasSuffix(buf[:n], []byte("\n")) {
			_, _ = io.WriteString(c, prefix+"go on\r\n")
		}
		if err != nil {
			if !errors.Is(err, io.EOF) {
				return
			}
			if tc, ok := c.Conn.(*net.TCPConn); ok {
				_ = tc.CloseWrite()
			}
			return
		}
	}
}
