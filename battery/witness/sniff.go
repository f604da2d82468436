package witness

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"strings"

	"github.com/wallproof/wallproof/battery/witness/lenient"
)

// wire is the protocol of a connection as its first bytes show it.
type wire int

const (
	wireUnknown wire = iota // not enough bytes to tell
	wirePlain               // none of those below
	wireTLS                 // a TLS record with a handshake message (RFC 8446 section 5.1)
	wireHTTP                // a request line of HTTP/1 (RFC 9112 section 3)
	wireHTTP2               // the connection preface of HTTP/2 (RFC 9113 section 3.4)
	wireSSH                 // a protocol version exchange (RFC 4253 section 4.2)
)

// http2Preface is what every HTTP/2 client sends first.
const http2Preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

// maxMethod is the most characters that are taken for an HTTP method.
const maxMethod = 24

// sniff tells the protocol from the first bytes of a connection. It answers
// wireUnknown only while more bytes could still change the answer.
func sniff(b []byte) wire {
	switch {
	case len(b) == 0:
		return wireUnknown
	case b[0] == 0x16:
		if len(b) == 1 {
			return wireUnknown
		}
		if b[1] == 3 {
			return wireTLS
		}
		return wirePlain
	case matches(b, "SSH-"):
		return complete(b, "SSH-", wireSSH)
	case matches(b, http2Preface):
		return complete(b, http2Preface, wireHTTP2)
	}
	return sniffMethod(b)
}

// matches reports whether b and text agree as far as both go.
func matches(b []byte, text string) bool {
	n := min(len(b), len(text))
	return string(b[:n]) == text[:n]
}

func complete(b []byte, text string, w wire) wire {
	if len(b) < len(text) {
		return wireUnknown
	}
	return w
}

// sniffMethod looks for a method, a space and the start of a target.
func sniffMethod(b []byte) wire {
	i := bytes.IndexByte(b, ' ')
	word := b
	if i >= 0 {
		word = b[:i]
	}
	if len(word) == 0 || len(word) > maxMethod {
		return wirePlain
	}
	for _, c := range word {
		if (c < 'A' || c > 'Z') && c != '-' && c != '_' {
			return wirePlain
		}
	}
	switch {
	case i < 0 || i+1 == len(b):
		return wireUnknown
	case b[i+1] == '/' || b[i+1] == '*':
		return wireHTTP
	}
	return sniffTarget(b[i+1:])
}

// sniffTarget tells a request line whose target is a URL or an authority from
// the line of a text protocol: only the first ends in a version.
func sniffTarget(b []byte) wire {
	end := bytes.IndexByte(b, '\n')
	if end < 0 {
		if len(b) < peekSize-maxMethod-1 {
			return wireUnknown
		}
		return wirePlain
	}
	line := bytes.TrimRight(b[:end], "\r")
	if i := bytes.LastIndexByte(line, ' '); i > 0 && bytes.HasPrefix(line[i+1:], []byte("HTTP/")) {
		return wireHTTP
	}
	return wirePlain
}

// namedIn returns the host that the first bytes of a connection name, in a
// request or in a ClientHello, folded; "" when they name none.
func namedIn(b []byte) (host string, overTLS bool) {
	switch sniff(b) {
	case wireHTTP:
		r, _ := lenient.Read(bufio.NewReader(bytes.NewReader(b)), lenient.Options{})
		if r != nil {
			return hostName(r.Host), false
		}
	case wireTLS:
		if hello := peekHello(&readOnly{r: bytes.NewReader(b)}); hello != nil {
			return strings.ToLower(strings.TrimSuffix(hello.ServerName, ".")), true
		}
		return "", true
	}
	return "", false
}

// errPeeked ends a handshake of which only the ClientHello was wanted.
var errPeeked = errors.New("seen")

// peekHello reads a ClientHello, nil when there is none.
func peekHello(c net.Conn) (hello *tls.ClientHelloInfo) {
	session := tls.Server(c, &tls.Config{GetConfigForClient: func(h *tls.ClientHelloInfo) (*tls.Config, error) {
		hello = h
		return nil, errPeeked
	}})
	_ = session.Handshake() // fails by design, or for want of a ClientHello
	return hello
}

// readOnly is a connection of which nothing is left but what it once sent.
type readOnly struct {
	net.Conn
	r io.Reader
}

// Read reads what there is.
func (r *readOnly) Read(b []byte) (int, error) { return r.r.Read(b) }

// Write drops what is written, the alert that ends a handshake.
func (r *readOnly) Write(b []byte) (int, error) { return len(b), nil }
