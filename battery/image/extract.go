package image

import (
	"archive/tar"
	"bufio"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"strings"

	"github.com/klauspost/compress/zstd"
)

const (
	nobody      = 65534
	maxExamples = 16
	maxWindow   = 128 << 20 // memory of a zstd stream; larger windows are refused
)

// extractor applies layers to a folder. Every access goes through tree, which
// cannot leave it.
type extractor struct {
	tree   *tree
	limits Limits
	report *Report
	copied int64 // content of files, which a sparse entry makes more of than the layer's bytes
	buf    []byte
}

func newExtractor(root int, limits Limits, report *Report) (*extractor, error) {
	t, err := newTree(root, limits.Depth)
	if err != nil {
		return nil, err
	}
	t.hidden = &hidden{}
	return &extractor{tree: t, limits: limits, report: report, buf: make([]byte, 256<<10)}, nil
}

// layer applies one compressed layer and compares what it uncompressed with
// the diff id.
func (x *extractor) layer(compressed io.Reader, diffID string) error {
	in := &counter{r: compressed}
	plain, closePlain, err := uncompress(in)
	if err != nil {
		return err
	}
	defer closePlain()
	out := &bounded{r: plain, in: in, hash: sha256.New(), limits: x.limits, total: &x.report.Bytes}
	x.tree.newLayer()
	err = x.entries(tar.NewReader(out))
	if err == nil {
		// What follows the archive's end belongs to the diff id too.
		if _, err = io.CopyBuffer(io.Discard, struct{ io.Reader }{out}, x.buf); err != nil {
			err = fmt.Errorf("%w: %w", ErrInvalid, err)
		}
	}
	switch {
	case out.limit != nil:
		return out.limit
	case err != nil:
		return err
	}
	if _, err := io.Copy(io.Discard, compressed); err != nil { // the next layer follows
		return err
	}
	if got := "sha256:" + hex.EncodeToString(out.hash.Sum(nil)); got != diffID {
		return fmt.Errorf("%w: the uncompressed layer is %s, its diff id %s", ErrMismatch, got, diffID)
	}
	return nil
}

// uncompress goes by the first bytes, whatever the manifest's media type says.
func uncompress(r io.Reader) (io.Reader, func(), error) {
	b := bufio.NewReaderSize(r, 256<<10)
	magic, _ := b.Peek(4)
	switch {
	case strings.HasPrefix(string(magic), "\x1f\x8b"):
		z, err := gzip.NewReader(b)
		if err != nil {
			return nil, nil, fmt.Errorf("%w: gzip: %w", ErrInvalid, err)
		}
		return z, func() { z.Close() }, nil
	case string(magic) == "\x28\xb5\x2f\xfd":
		z, err := zstd.NewReader(b, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow), zstd.WithDecoderLowmem(true))
		if err != nil {
			return nil, nil, fmt.Errorf("%w: zstd: %w", ErrInvalid, err)
		}
		return z, z.Close, nil
	}
	return b, func() {}, nil
}

type counter struct {
	r io.Reader
	n int64
}

// Read implements io.Reader.
func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}

// bounded hashes and counts a layer's uncompressed bytes, and ends at a limit.
type bounded struct {
	r      io.Reader
	in     *counter
	hash   hash.Hash
	limits Limits
	out    int64
	total  *int64
	limit  error // the limit that was reached; the tar reader hides it
}

// Read implements io.Reader.
func (b *bounded) Read(p []byte) (int, error) {
	if b.limit != nil {
		return 0, b.limit
	}
	n, err := b.r.Read(p)
	b.hash.Write(p[:n])
	b.out += int64(n)
	*b.total += int64(n)
	switch {
	case *b.total > b.limits.Bytes:
		b.limit = limitError("bytes", b.limits.Bytes)
	case b.out > RatioFloor && b.out/max(1, b.in.n) > b.limits.Ratio:
		b.limit = limitError("compression ratio", b.limits.Ratio)
	default:
		return n, err
	}
	return 0, b.limit
}

func (x *extractor) entries(r *tar.Reader) error {
	for {
		h, err := r.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%w: tar: %w", ErrInvalid, err)
		}
		if h.Typeflag == tar.TypeXGlobalHeader {
			continue
		}
		x.report.Entries++
		if x.report.Entries > x.limits.Entries {
			return limitError("entries", x.limits.Entries)
		}
		if err := x.entry(h, r); err != nil {
			return fmt.Errorf("entry %.200q: %w", h.Name, err)
		}
	}
}

// entry applies one entry.
func (x *extractor) entry(h *tar.Header, content io.Reader) error {
	path, err := x.split(h.Name)
	if err != nil {
		return err
	}
	if len(path) == 0 {
		if h.Typeflag != tar.TypeDir {
			return fmt.Errorf("%w: the root is no folder", ErrHostile)
		}
		return x.tree.setRoot(x.meta(h))
	}
	dir, name := path[:len(path)-1], path[len(path)-1]
	if rest, ok := strings.CutPrefix(name, whiteoutPrefix); ok {
		return x.whiteout(dir, rest)
	}
	switch h.Typeflag {
	case tar.TypeDir:
		return x.tree.mkdir(dir, name, x.meta(h))
	case tar.TypeReg, tar.TypeGNUSparse:
		return x.file(dir, name, h, content)
	case tar.TypeSymlink:
		if h.Linkname == "" || len(h.Linkname) >= x.limits.PathBytes {
			return limitError("bytes of a link's target", x.limits.PathBytes)
		}
		return x.tree.symlink(dir, name, h.Linkname, x.meta(h))
	case tar.TypeLink:
		target, err := x.split(h.Linkname)
		if err != nil {
			return err
		}
		if len(target) == 0 {
			return fmt.Errorf("%w: a link to the root", ErrHostile)
		}
		return x.tree.link(dir, name, target)
	case tar.TypeFifo:
		return x.tree.fifo(dir, name, x.meta(h))
	case tar.TypeChar, tar.TypeBlock:
		x.report.Skipped++
		if len(x.report.Examples) < maxExamples {
			x.report.Examples = append(x.report.Examples, fmt.Sprintf("%.200q: device node", h.Name))
		}
		return nil
	}
	return fmt.Errorf("%w: entry of the unknown type %q", ErrHostile, h.Typeflag)
}

// file writes a regular file. The tar reader delivers exactly h.Size bytes,
// holes of sparse files included.
func (x *extractor) file(dir []string, name string, h *tar.Header, content io.Reader) error {
	if h.Size > x.limits.FileBytes {
		return limitError("bytes of a file", x.limits.FileBytes)
	}
	if x.copied += h.Size; x.copied > x.limits.Bytes {
		return limitError("bytes", x.limits.Bytes)
	}
	f, err := x.tree.create(dir, name)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := io.CopyBuffer(struct{ io.Writer }{f}, struct{ io.Reader }{content}, x.buf); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	return x.tree.finish(f, x.meta(h))
}

// split takes a name apart. A leading slash means the root as no slash does;
// ".." is refused, and so is what goes beyond the limits.
func (x *extractor) split(name string) ([]string, error) {
	if len(name) > x.limits.PathBytes {
		return nil, limitError("bytes of a name", x.limits.PathBytes)
	}
	var path []string
	for part := range strings.SplitSeq(name, "/") {
		switch {
		case part == "" || part == ".":
			continue
		case part == "..":
			return nil, fmt.Errorf("%w: the name goes up with \"..\"", ErrHostile)
		case strings.ContainsRune(part, 0):
			return nil, fmt.Errorf("%w: the name has a NUL byte", ErrHostile)
		}
		path = append(path, part)
	}
	if len(path) > x.limits.Depth {
		return nil, limitError("depth", x.limits.Depth)
	}
	return path, nil
}

// meta is what an entry says about owner, mode and time.
func (x *extractor) meta(h *tar.Header) meta {
	m := meta{uid: h.Uid, gid: h.Gid, mode: uint32(h.Mode & 0o7777), mtime: h.ModTime}
	if m.uid < 0 || m.uid >= IDCount || m.gid < 0 || m.gid >= IDCount {
		x.report.Remapped++
		m.uid, m.gid = nobody, nobody
	}
	const setID = 0o6000
	switch {
	case h.Typeflag == tar.TypeDir:
		m.mode &^= 0o4000 // it means nothing on a folder
	case m.mode&setID != 0:
		x.report.SetID++
		m.mode &^= setID
	}
	return m
}
