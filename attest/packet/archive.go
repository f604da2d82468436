package packet

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"
)

// MaxArchiveBytes bounds what ReadArchive holds in memory.
const MaxArchiveBytes = 1 << 30

// WriteArchive writes a packet as one tar file. The same files give the same
// bytes.
func WriteArchive(w io.Writer, packet fs.FS) error {
	paths, err := list(packet)
	if err != nil {
		return err
	}
	tw := tar.NewWriter(w)
	for _, p := range paths {
		if err := addFile(tw, packet, p); err != nil {
			return fmt.Errorf("write packet archive: %s: %w", p, err)
		}
	}
	if err := tw.Close(); err != nil {
		return fmt.Errorf("write packet archive: %w", err)
	}
	return nil
}

func addFile(tw *tar.Writer, packet fs.FS, p string) error {
	f, err := Open(packet, p)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if err := tw.WriteHeader(archiveHeader(p, info.Size())); err != nil {
		return err
	}
	_, err = io.Copy(tw, f)
	return err
}

func archiveHeader(p string, size int64) *tar.Header {
	return &tar.Header{Typeflag: tar.TypeReg, Name: p, Size: size, Mode: 0o644, ModTime: time.Unix(0, 0).UTC(), Format: tar.FormatPAX}
}

// ReadArchive reads a packet's archive into memory, as ParseArchive does.
func ReadArchive(r io.Reader) (Memory, error) {
	b, err := io.ReadAll(io.LimitReader(r, MaxArchiveBytes+1))
	if err != nil {
		return nil, &Error{Reason: ReasonArchive, Err: err}
	}
	return ParseArchive(b)
}

// ParseArchive reads a packet's archive. It accepts exactly what WriteArchive
// writes: the files that it returns give the same bytes again. They share memory
// with b.
func ParseArchive(b []byte) (Memory, error) {
	if len(b) > MaxArchiveBytes {
		return nil, &Error{Reason: ReasonLimit, Detail: fmt.Sprintf("more than %d bytes in all", MaxArchiveBytes)}
	}
	m, err := readEntries(b)
	if err != nil {
		return nil, err
	}
	again := &comparison{rest: b}
	if err := WriteArchive(again, m); err != nil {
		return nil, err
	}
	if again.differs || len(again.rest) > 0 {
		return nil, &Error{Reason: ReasonArchive, Detail: "cut short, or not written as a packet's archive is"}
	}
	return m, nil
}

// comparison tells whether what is written to it is what it expects.
type comparison struct {
	rest    []byte
	differs bool
}

func (c *comparison) Write(p []byte) (int, error) {
	if c.differs || !bytes.HasPrefix(c.rest, p) {
		c.differs = true
		return len(p), nil
	}
	c.rest = c.rest[len(p):]
	return len(p), nil
}

// readEntries reads the files of an archive: with names of the layout, sorted.
func readEntries(b []byte) (Memory, error) {
	m := Memory{}
	last := ""
	in := bytes.NewReader(b)
	for tr := tar.NewReader(in); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return m, nil
		}
		if err != nil {
			return nil, &Error{Reason: ReasonArchive, Err: err}
		}
		if h.Typeflag != tar.TypeReg {
			return nil, &Error{Reason: ReasonNotFile, Path: h.Name, Detail: "only regular files belong into a packet"}
		}
		if err := checkName(h.Name); err != nil {
			return nil, err
		}
		if h.Name <= last || len(m) >= MaxFiles {
			return nil, &Error{Reason: ReasonArchive, Path: h.Name, Detail: "entries are not sorted, are double, or too many"}
		}
		last = h.Name
		rest := b[len(b)-in.Len():]
		if h.Size < 0 || h.Size > int64(len(rest)) {
			return nil, &Error{Reason: ReasonArchive, Path: h.Name, Detail: "cut short"}
		}
		m[h.Name] = rest[:h.Size:h.Size]
	}
}
