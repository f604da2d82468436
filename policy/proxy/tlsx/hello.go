// Package tlsx reads a TLS ClientHello (RFC 8446, section 4.1.2; RFC 6066,
// section 3) before anything is decided about its connection. It reads across
// records and segments, keeps the bytes for whoever continues the handshake,
// and refuses what it cannot read exactly.
package tlsx

import (
	"encoding/binary"
	"errors"
	"io"
)

// Bounds of a hello: one handshake message over a few records.
const (
	maxRecord = 16384
	maxHello  = 64 << 10
)

// Errors of Read and Parse.
var (
	// ErrNotTLS: the first byte does not begin a handshake record.
	ErrNotTLS = errors.New("not TLS")
	// ErrMalformed: it begins like a ClientHello and is none.
	ErrMalformed = errors.New("malformed ClientHello")
)

// Hello is what a ClientHello says of where it goes.
type Hello struct {
	ServerName string // as sent; "" without the extension
	ALPN       []string
	ECH        bool // carries encrypted_client_hello: the real name may be another
	Early      bool // carries early_data
}

// Read reads one ClientHello from r. raw is every byte that was consumed, also
// when there is an error.
func Read(r io.Reader) (h Hello, raw []byte, err error) {
	raw = make([]byte, 0, 2048)
	var msg []byte
	for {
		head, err := grow(r, &raw, 5)
		if err != nil {
			return h, raw, err
		}
		if head[0] != 22 {
			if len(msg) == 0 {
				return h, raw, ErrNotTLS
			}
			return h, raw, ErrMalformed
		}
		n := int(binary.BigEndian.Uint16(head[3:]))
		if head[1] != 3 || n == 0 || n > maxRecord || len(msg)+n > maxHello {
			return h, raw, ErrMalformed
		}
		body, err := grow(r, &raw, n)
		if err != nil {
			return h, raw, err
		}
		msg = append(msg, body...)
		if len(msg) < 4 {
			continue
		}
		if msg[0] != 1 {
			return h, raw, ErrMalformed
		}
		want := 4 + int(msg[1])<<16 + int(msg[2])<<8 + int(msg[3])
		switch {
		case want > maxHello || len(msg) > want:
			return h, raw, ErrMalformed
		case len(msg) == want:
			h, err = Parse(msg[4:])
			return h, raw, err
		}
	}
}

// grow reads n bytes more into raw and returns them. The first byte is looked
// at before the others, so that what is not TLS is known at once.
func grow(r io.Reader, raw *[]byte, n int) ([]byte, error) {
	start := len(*raw)
	if start == 0 {
		var first [1]byte
		if _, err := io.ReadFull(r, first[:]); err != nil {
			return nil, err
		}
		*raw = append(*raw, first[0])
		if first[0] != 22 {
			return nil, ErrNotTLS
		}
	}
	have := len(*raw) - start
	*raw = append(*raw, make([]byte, n-have)...)
	got, err := io.ReadFull(r, (*raw)[start+have:])
	*raw = (*raw)[:start+have+got]
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return (*raw)[start:], err
}

// cursor reads length-prefixed vectors; ok turns false for good on the first
// read past the end.
type cursor struct {
	b  []byte
	ok bool
}

func (c *cursor) take(n int) []byte {
	if !c.ok || n > len(c.b) {
		c.ok = false
		return nil
	}
	v := c.b[:n]
	c.b = c.b[n:]
	return v
}

func (c *cursor) vector(lenBytes int) []byte {
	n := 0
	for _, x := range c.take(lenBytes) {
		n = n<<8 | int(x)
	}
	return c.take(n)
}

// Extension numbers.
const (
	extServerName = 0
	extALPN       = 16
	extEarlyData  = 42
	extECH        = 0xfe0d
)

// Parse reads the body of a ClientHello message.
func Parse(body []byte) (Hello, error) {
	c := cursor{body, true}
	version := c.take(2)
	c.take(32)             // random
	c.vector(1)            // session id
	ciphers := c.vector(2) //
	compression := c.vector(1)
	if !c.ok || version[0] != 3 || len(ciphers) < 2 || len(ciphers)%2 != 0 || len(compression) == 0 {
		return Hello{}, ErrMalformed
	}
	if len(c.b) == 0 {
		return Hello{}, nil // TLS 1.2 without extensions
	}
	exts := cursor{c.vector(2), true}
	if !c.ok || len(c.b) != 0 {
		return Hello{}, ErrMalformed
	}
	return parseExtensions(exts)
}

func parseExtensions(c cursor) (Hello, error) {
	var h Hello
	seen := map[uint16]bool{}
	for len(c.b) > 0 {
		id := c.take(2)
		data := c.vector(2)
		if !c.ok {
			return Hello{}, ErrMalformed
		}
		n := binary.BigEndian.Uint16(id)
		if seen[n] {
			return Hello{}, ErrMalformed // RFC 8446: no more than one of a type
		}
		seen[n] = true
		ok := true
		switch n {
		case extServerName:
			h.ServerName, ok = serverName(data)
		case extALPN:
			h.ALPN, ok = protocols(data)
		case extECH:
			h.ECH = true
		case extEarlyData:
			h.Early = true
		}
		if !ok {
			return Hello{}, ErrMalformed
		}
	}
	return h, nil
}

// serverName wants exactly one name of type host_name.
func serverName(data []byte) (string, bool) {
	c := cursor{data, true}
	list := cursor{c.vector(2), true}
	kind := list.take(1)
	name := list.vector(2)
	if !c.ok || !list.ok || len(c.b) != 0 || len(list.b) != 0 || kind[0] != 0 || len(name) == 0 {
		return "", false
	}
	return string(name), true
}

func protocols(data []byte) ([]string, bool) {
	c := cursor{data, true}
	list := cursor{c.vector(2), true}
	if !c.ok || len(c.b) != 0 {
		return nil, false
	}
	var out []string
	for len(list.b) > 0 {
		p := list.vector(1)
		if !list.ok || len(p) == 0 {
			return nil, false
		}
		out = append(out, string(p))
	}
	return out, len(out) > 0
}
