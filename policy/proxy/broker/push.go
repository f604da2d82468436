package broker

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Bounds of a push (gitprotocol-pack, "Reference Update Request").
const (
	maxPacket   = 65520
	maxCommands = 1000
	maxRef      = 1024
	maxRefs     = 1 << 20 // of an advertisement
	maxHead     = 4 << 20 // of all commands and options
)

// ErrMalformed: what was read is no such message, or one that is not served.
var ErrMalformed = errors.New("malformed push")

// Command is one update of a ref. An id of zeros stands for "not there".
type Command struct{ Old, New, Ref string }

// Creates, Deletes say what the command does.
func (c Command) Creates() bool { return isZero(c.Old) }
func (c Command) Deletes() bool { return isZero(c.New) }

func isZero(id string) bool { return strings.Trim(id, "0") == "" }

// Push is the part of a receive-pack request that comes before the pack.
type Push struct {
	Commands     []Command
	Capabilities []string
	Raw          []byte // every byte that was read
}

// Has says whether the client asked for a capability.
func (p *Push) Has(name string) bool {
	for _, c := range p.Capabilities {
		if c == name || strings.HasPrefix(c, name+"=") { // as git reads it
			return true
		}
	}
	return false
}

// ReadPush reads the commands, up to the flush that ends them, and the push
// options if there are any. A signed push is refused: its commands lie in a
// certificate.
func ReadPush(r io.Reader) (*Push, error) {
	p := &Push{}
	tee := io.TeeReader(io.LimitReader(r, maxHead), &rawSink{p})
	for {
		line, flush, err := readPacket(tee)
		if err != nil {
			return nil, err
		}
		if flush {
			break
		}
		if err := p.line(line); err != nil {
			return nil, err
		}
	}
	if p.Has("push-options") {
		if err := skipToFlush(tee); err != nil {
			return nil, err
		}
	}
	return p, nil
}

type rawSink struct{ p *Push }

func (s *rawSink) Write(b []byte) (int, error) {
	s.p.Raw = append(s.p.Raw, b...)
	return len(b), nil
}

func skipToFlush(r io.Reader) error {
	for range maxCommands {
		if _, flush, err := readPacket(r); err != nil || flush {
			return err
		}
	}
	return fmt.Errorf("%w: too many options", ErrMalformed)
}

// readPacket reads one pkt-line.
func readPacket(r io.Reader) (line []byte, flush bool, err error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, false, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	n, err := strconv.ParseUint(string(head[:]), 16, 16)
	if err != nil || strings.ContainsAny(string(head[:]), "+-_") {
		return nil, false, fmt.Errorf("%w: packet length", ErrMalformed)
	}
	switch {
	case n == 0:
		return nil, true, nil
	case n <= 4 || n > maxPacket:
		return nil, false, fmt.Errorf("%w: packet of %d bytes", ErrMalformed, n)
	}
	line = make([]byte, n-4)
	if _, err := io.ReadFull(r, line); err != nil {
		return nil, false, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	return line, false, nil
}

func (p *Push) line(line []byte) error {
	line = bytes.TrimSuffix(line, []byte("\n"))
	text, caps, hasCaps := strings.Cut(string(line), "\x00")
	if hasCaps {
		if len(p.Commands) > 0 {
			return fmt.Errorf("%w: capabilities in the wrong place", ErrMalformed)
		}
		p.Capabilities = capabilities(caps)
	}
	if id, ok := strings.CutPrefix(text, "shallow "); ok && !hasCaps && isID(id) {
		return nil
	}
	if strings.HasPrefix(text, "push-cert") {
		return fmt.Errorf("%w: signed pushes are not served", ErrMalformed)
	}
	if len(p.Commands) >= maxCommands {
		return fmt.Errorf("%w: more than %d commands", ErrMalformed, maxCommands)
	}
	old, rest, ok1 := strings.Cut(text, " ")
	id, ref, ok2 := strings.Cut(rest, " ")
	if !ok1 || !ok2 || !isID(old) || !isID(id) || len(old) != len(id) || !ValidRef(ref) {
		return fmt.Errorf("%w: command", ErrMalformed)
	}
	for _, c := range p.Commands {
		if c.Ref == ref || len(c.Old) != len(old) {
			return fmt.Errorf("%w: ref named twice, or ids of two kinds", ErrMalformed)
		}
	}
	p.Commands = append(p.Commands, Command{old, id, ref})
	return nil
}

// capabilities splits a list as git does: at ASCII white space, up to a NUL.
func capabilities(list string) []string {
	list, _, _ = strings.Cut(list, "\x00")
	return strings.FieldsFunc(list, func(r rune) bool { return r == ' ' || r == '\t' || r == '\n' || r == '\r' })
}

// isID: a SHA-1 or SHA-256 in lower-case hex.
func isID(s string) bool {
	if len(s) != 40 && len(s) != 64 {
		return false
	}
	for i := 0; i < len(s); i++ {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// ValidRef applies the rules of git-check-ref-format to a full ref name.
func ValidRef(ref string) bool {
	if !strings.HasPrefix(ref, "refs/") || len(ref) > maxRef || strings.HasSuffix(ref, ".") ||
		strings.Contains(ref, "..") || strings.Contains(ref, "@{") || strings.ContainsAny(ref, " ~^:?*[\\\x7f") {
		return false
	}
	for _, part := range strings.Split(ref, "/") {
		if part == "" || part[0] == '.' || strings.HasSuffix(part, ".lock") {
			return false
		}
	}
	for i := 0; i < len(ref); i++ {
		if ref[i] < ' ' {
			return false
		}
	}
	return true
}

// ReadAdvertisement reads the refs that a receive-pack service advertises over
// smart HTTP (the answer to info/refs?service=git-receive-pack).
func ReadAdvertisement(r io.Reader) (map[string]string, error) {
	first, flush, err := readPacket(r)
	if err != nil || flush || strings.TrimSuffix(string(first), "\n") != "# service=git-receive-pack" {
		return nil, fmt.Errorf("%w: not an advertisement of git-receive-pack", ErrMalformed)
	}
	if _, flush, err := readPacket(r); err != nil || !flush {
		return nil, fmt.Errorf("%w: advertisement", ErrMalformed)
	}
	refs := map[string]string{}
	for len(refs) < maxRefs {
		line, flush, err := readPacket(r)
		if err != nil {
			return nil, err
		}
		if flush {
			return refs, nil
		}
		text, _, _ := strings.Cut(strings.TrimSuffix(string(line), "\n"), "\x00")
		id, ref, ok := strings.Cut(text, " ")
		if text == "version 1" || id == "shallow" || strings.HasPrefix(text, ".have") {
			continue
		}
		if !ok || !isID(id) {
			return nil, fmt.Errorf("%w: advertised ref", ErrMalformed)
		}
		if ref != "capabilities^{}" && ref != ".have" {
			refs[ref] = id
		}
	}
	return nil, fmt.Errorf("%w: too many refs", ErrMalformed)
}
