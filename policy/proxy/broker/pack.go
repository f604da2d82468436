package broker

import (
	"bufio"
	"bytes"
	"compress/zlib"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Bounds of what of a pack is looked at.
const (
	maxObject  = 1 << 20  // of a commit; larger objects are only skipped over
	maxHistory = 64 << 20 // bytes of commits kept to undo deltas
)

// ErrSpool: the pack has to be looked into further than may be held back.
var ErrSpool = errors.New("the push is too large to be checked")

// History is what a pack says of commits: who is whose parent. Ids are computed
// from the objects, so nobody can claim a parent that a commit does not have.
type History struct{ parents map[string][]string }

// Reaches says whether base is a commit that head descends from, as far as the
// pack shows it.
func (h *History) Reaches(head, base string) bool {
	seen := map[string]bool{head: true}
	for todo := []string{head}; len(todo) > 0; {
		id := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if id == base {
			return true
		}
		for _, p := range h.parents[id] {
			if !seen[p] {
				seen[p] = true
				todo = append(todo, p)
			}
		}
	}
	return false
}

// Has says whether the pack holds the commit.
func (h *History) Has(id string) bool { _, ok := h.parents[id]; return ok }

// Object types of a pack (gitformat-pack).
const (
	objCommit   = 1
	objTree     = 2
	objBlob     = 3
	objTag      = 4
	objOfsDelta = 6
	objRefDelta = 7
)

// ScanPack reads a pack until enough returns true: it is asked whenever the
// commits may be complete, which in a pack that git writes is early, because
// commits come first. What is read goes to spool, which holds at most limit
// bytes; beyond it the error is ErrSpool. idLen is 40 or 64.
func ScanPack(r io.Reader, spool *bytes.Buffer, limit int, idLen int, enough func(*History) bool) (*History, error) {
	sc := &packScanner{
		in:      &spooler{r: bufio.NewReaderSize(r, 32<<10), spool: spool, limit: limit},
		idLen:   idLen,
		history: &History{parents: map[string][]string{}},
		byPos:   map[int64][]byte{}, byID: map[string][]byte{},
	}
	err := sc.run(enough)
	// What the buffer took in and nobody read belongs to the spool, too.
	rest, _ := sc.in.r.Peek(sc.in.r.Buffered())
	spool.Write(rest)
	return sc.history, err
}

// spooler counts and keeps what is read. It is an io.ByteReader, so that the
// inflater reads not one byte too many.
type spooler struct {
	r     *bufio.Reader
	spool *bytes.Buffer
	limit int
	pos   int64
}

func (s *spooler) ReadByte() (byte, error) {
	if s.spool.Len() >= s.limit {
		return 0, ErrSpool
	}
	b, err := s.r.ReadByte()
	if err == nil {
		s.spool.WriteByte(b)
		s.pos++
	}
	return b, err
}

func (s *spooler) Read(p []byte) (int, error) {
	if s.spool.Len() >= s.limit {
		return 0, ErrSpool
	}
	n, err := s.r.Read(p)
	s.spool.Write(p[:n])
	s.pos += int64(n)
	return n, err
}

type packScanner struct {
	in      *spooler
	idLen   int
	history *History
	byPos   map[int64][]byte // commits by where they begin
	byID    map[string][]byte
	kept    int
}

func (sc *packScanner) run(enough func(*History) bool) error {
	var head [12]byte
	if _, err := io.ReadFull(sc.in, head[:]); err != nil {
		return fmt.Errorf("%w: pack header: %w", ErrMalformed, err)
	}
	version := binary.BigEndian.Uint32(head[4:])
	if string(head[:4]) != "PACK" || version != 2 && version != 3 {
		return fmt.Errorf("%w: not a pack", ErrMalformed)
	}
	asked := false
	for n := binary.BigEndian.Uint32(head[8:]); n > 0; n-- {
		isCommit, err := sc.object()
		if err != nil {
			return err
		}
		if !isCommit && !asked {
			asked = true
			if enough(sc.history) {
				return nil
			}
		}
		asked = asked && !isCommit
	}
	return nil
}

// object reads one object.
func (sc *packScanner) object() (isCommit bool, err error) {
	start := sc.in.pos
	kind, size, err := sc.objectHead()
	if err != nil {
		return false, err
	}
	var base []byte
	switch kind {
	case objOfsDelta:
		back, err := sc.offset()
		if err != nil {
			return false, err
		}
		base = sc.byPos[start-back]
	case objRefDelta:
		id := make([]byte, sc.idLen/2)
		if _, err := io.ReadFull(sc.in, id); err != nil {
			return false, fmt.Errorf("%w: %w", ErrMalformed, err)
		}
		base = sc.byID[hex.EncodeToString(id)]
	case objCommit, objTree, objBlob, objTag:
	default:
		return false, fmt.Errorf("%w: object of type %d", ErrMalformed, kind)
	}
	wanted := kind == objCommit || base != nil
	data, err := sc.inflate(size, wanted)
	if err != nil || !wanted || data == nil {
		return kind == objCommit || kind == objTag, err
	}
	if base != nil {
		if data, err = applyDelta(base, data); err != nil {
			return false, err
		}
	}
	sc.commit(start, data)
	return true, nil
}

func (sc *packScanner) objectHead() (kind int, size int64, err error) {
	b, err := sc.in.ReadByte()
	if err != nil {
		return 0, 0, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	kind, size = int(b>>4&7), int64(b&15)
	for shift := 4; b&0x80 != 0; shift += 7 {
		if b, err = sc.in.ReadByte(); err != nil || shift > 56 {
			return 0, 0, fmt.Errorf("%w: object size", ErrMalformed)
		}
		size |= int64(b&0x7f) << shift
	}
	return kind, size, nil
}

// offset reads the distance to a delta's base.
func (sc *packScanner) offset() (int64, error) {
	b, err := sc.in.ReadByte()
	n := int64(b & 0x7f)
	for i := 0; err == nil && b&0x80 != 0; i++ {
		if i > 8 {
			return 0, fmt.Errorf("%w: delta offset", ErrMalformed)
		}
		b, err = sc.in.ReadByte()
		n = (n+1)<<7 | int64(b&0x7f)
	}
	if err != nil {
		return 0, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	return n, nil
}

// inflate reads an object's data; it keeps it only if it is wanted and small.
func (sc *packScanner) inflate(size int64, wanted bool) ([]byte, error) {
	z, err := zlib.NewReader(sc.in)
	if err != nil {
		return nil, packError(err)
	}
	defer z.Close()
	if !wanted || size > maxObject || sc.kept+int(size) > maxHistory {
		n, err := io.Copy(io.Discard, io.LimitReader(z, size+1))
		if err == nil && n != size {
			err = errors.New("object of another size")
		}
		return nil, packError(err)
	}
	data, err := io.ReadAll(io.LimitReader(z, size+1))
	if err == nil && int64(len(data)) != size {
		err = errors.New("object of another size")
	}
	return data, packError(err)
}

func packError(err error) error {
	if err == nil || errors.Is(err, ErrSpool) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrMalformed, err)
}

// commit keeps a commit's parents, and its text as a base for deltas.
func (sc *packScanner) commit(pos int64, data []byte) {
	head := fmt.Appendf(nil, "commit %d\x00", len(data))
	var id string
	if sc.idLen == 64 {
		sum := sha256.Sum256(append(head, data...))
		id = hex.EncodeToString(sum[:])
	} else {
		sum := sha1.Sum(append(head, data...))
		id = hex.EncodeToString(sum[:])
	}
	sc.byPos[pos], sc.byID[id] = data, data
	sc.kept += len(data)
	sc.history.parents[id] = parentsOf(string(data))
}

func parentsOf(text string) []string {
	parents := []string{}
	for i := 0; ; i++ {
		line, rest, ok := strings.Cut(text, "\n")
		if id, isParent := strings.CutPrefix(line, "parent "); isParent && isID(id) {
			parents = append(parents, id)
		} else if i > 0 || !strings.HasPrefix(line, "tree ") {
			return parents
		}
		if !ok {
			return parents
		}
		text = rest
	}
}

// applyDelta undoes a delta (gitformat-pack, "Deltified representation").
func applyDelta(base, delta []byte) ([]byte, error) {
	bad := fmt.Errorf("%w: delta", ErrMalformed)
	d := bytes.NewReader(delta)
	from, err1 := binary.ReadUvarint(d)
	to, err2 := binary.ReadUvarint(d)
	if err1 != nil || err2 != nil || from != uint64(len(base)) || to > maxObject {
		return nil, bad
	}
	out := make([]byte, 0, to)
	for d.Len() > 0 {
		op, _ := d.ReadByte()
		switch {
		case op&0x80 != 0:
			off, n, ok := copyArgs(op, d)
			if !ok || off+n > len(base) || len(out)+n > int(to) {
				return nil, bad
			}
			out = append(out, base[off:off+n]...)
		case op != 0:
			part := make([]byte, op)
			if _, err := io.ReadFull(d, part); err != nil || len(out)+len(part) > int(to) {
				return nil, bad
			}
			out = append(out, part...)
		default:
			return nil, bad
		}
	}
	if len(out) != int(to) {
		return nil, bad
	}
	return out, nil
}

func copyArgs(op byte, d *bytes.Reader) (off, n int, ok bool) {
	for i := range 7 {
		if op&(1<<i) == 0 {
			continue
		}
		b, err := d.ReadByte()
		if err != nil {
			return 0, 0, false
		}
		if i < 4 {
			off |= int(b) << (8 * i)
		} else {
			n |= int(b) << (8 * (i - 4))
		}
	}
	if n == 0 {
		n = 0x10000
	}
	return off, n, true
}
