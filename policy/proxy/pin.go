package proxy

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"sort"
	"strings"

	"github.com/wallproof/wallproof/policy"
)

// errPin breaks a response off: the artefact is not the one that is pinned.
var errPin = errors.New("artefact is not pinned")

// Bounds of pinning.
const (
	// pinHold is how much of an artefact is held back until it was hashed. A
	// client never gets the end of one that is not pinned.
	pinHold = 64 << 10
	// maxPinnedZip is the largest Go module that can be pinned by its h1 digest,
	// which needs the whole archive at once. It is the go command's own limit
	// for what a module's zip may hold, scaled to what one proxy may keep.
	maxPinnedZip = 128 << 20
)

// holdToPin makes a response break off before its end unless its body is one of
// the pinned artefacts.
func holdToPin(pin *policy.Pin, q *request, resp *response) {
	if resp.status != 200 || resp.body == nil || !pinCovers(pin, q.path) {
		return
	}
	resp.body = &pinReader{src: resp.body, check: newPinCheck(pin)}
	resp.ended = nil
}

func pinCovers(pin *policy.Pin, path string) bool {
	if len(pin.Artefacts) == 0 {
		return true
	}
	for _, ending := range pin.Artefacts {
		if strings.HasSuffix(path, ending) {
			return true
		}
	}
	return false
}

type pinReader struct {
	src   io.Reader
	check *pinCheck
	held  []byte
	ready int // of held, may be given out
	err   error
}

func (p *pinReader) Read(b []byte) (int, error) {
	for p.ready == 0 {
		if p.err != nil {
			return 0, p.err
		}
		p.fill()
	}
	n := copy(b, p.held[:p.ready])
	p.held = p.held[n:]
	p.ready -= n
	return n, nil
}

func (p *pinReader) fill() {
	buf := make([]byte, pinHold)
	n, err := p.src.Read(buf)
	p.check.write(buf[:n])
	p.held = append(p.held, buf[:n]...)
	// The last byte waits for the hash, however short the artefact is.
	p.ready = max(0, len(p.held)-pinHold)
	switch {
	case err == io.EOF && p.check.pinned():
		p.ready, p.err = len(p.held), io.EOF
	case err == io.EOF:
		p.ready, p.held, p.err = 0, nil, errPin
	case err != nil:
		p.ready, p.held, p.err = 0, nil, err
	}
}

// pinCheck hashes an artefact in every way that its pin names.
type pinCheck struct {
	pin    *policy.Pin
	hashes map[string]hash.Hash
	zip    *bytes.Buffer // for h1; nil when not needed or too large
}

func newPinCheck(pin *policy.Pin) *pinCheck {
	c := &pinCheck{pin: pin, hashes: map[string]hash.Hash{}}
	for _, d := range pin.Digests {
		kind, _, _ := strings.Cut(d, ":")
		switch {
		case c.hashes[kind] != nil:
		case kind == "sha256":
			c.hashes[kind] = sha256.New()
		case kind == "sha384":
			c.hashes[kind] = sha512.New384()
		case kind == "sha512":
			c.hashes[kind] = sha512.New()
		case kind == "h1" && c.zip == nil:
			c.zip = new(bytes.Buffer)
		}
	}
	return c
}

func (c *pinCheck) write(b []byte) {
	for _, h := range c.hashes {
		h.Write(b)
	}
	if c.zip != nil {
		if c.zip.Len()+len(b) > maxPinnedZip {
			c.zip = nil
			return
		}
		c.zip.Write(b)
	}
}

func (c *pinCheck) pinned() bool {
	for kind, h := range c.hashes {
		if c.names(kind + ":" + hex.EncodeToString(h.Sum(nil))) {
			return true
		}
	}
	if c.zip == nil {
		return false
	}
	h1, err := moduleHash(c.zip.Bytes())
	return err == nil && c.names(h1)
}

func (c *pinCheck) names(digest string) bool {
	for _, d := range c.pin.Digests {
		if d == digest {
			return true
		}
	}
	return false
}

// moduleHash is the h1 digest of a Go module's zip: SHA-256 over one line of
// "hex  name" for each file in the order of their names (Go modules reference,
// "go.sum files").
func moduleHash(archive []byte) (string, error) {
	z, err := zip.NewReader(bytes.NewReader(archive), int64(len(archive)))
	if err != nil {
		return "", fmt.Errorf("read module zip: %w", err)
	}
	lines := make([]string, 0, len(z.File))
	sort.Slice(z.File, func(i, j int) bool { return z.File[i].Name < z.File[j].Name })
	var total int64
	for _, f := range z.File {
		r, err := f.Open()
		if err != nil {
			return "", fmt.Errorf("read module zip: %w", err)
		}
		h := sha256.New()
		n, err := io.Copy(h, io.LimitReader(r, 4*maxPinnedZip-total+1))
		_ = r.Close()
		if total += n; err != nil || total > 4*maxPinnedZip || strings.Contains(f.Name, "\n") {
			return "", errors.New("read module zip: too large or malformed")
		}
		lines = append(lines, fmt.Sprintf("%x  %s\n", h.Sum(nil), f.Name))
	}
	sum := sha256.Sum256([]byte(strings.Join(lines, "")))
	return "h1:" + base64.StdEncoding.EncodeToString(sum[:]), nil
}
