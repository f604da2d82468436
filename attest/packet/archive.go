package packet

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
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

// ReadArchive reads a packet's archive into memory. It accepts exactly what
// WriteArchive writes: the files that it returns give the same bytes again.
func ReadArchive(r io.Reader) (Memory, error) {
	seen := sha256.New()
	in := io.TeeReader(io.LimitReader(r, MaxArchiveBytes+1), seen)
	m, err := readEntries(in)
	if err != nil {
		return nil, err
	}
	if _, err := io.Copy(io.Discard, in); err != nil {
		return nil, &Error{Reason: ReasonArchive, Err: err}
	}
	again := sha256.New()
	if err := WriteArchive(again, m); err != nil {
		return nil, err
	}
	if !bytes.Equal(seen.Sum(nil), again.Sum(nil)) {
		return nil, &Error{Reason: ReasonArchive, Detail: "cut short, or not written as a packet's archive is"}
	}
	return m, nil
}

// readEntries reads the files of an archive: with names of the layout, sorted.
func readEntries(r io.Reader) (Memory, error) {
	m := Memory{}
	var total int64
	last := ""
	for tr := tar.NewReader(r); ; {
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
		if total += h.Size; h.Size < 0 || total > MaxArchiveBytes {
			return nil, &Error{Reason: ReasonLimit, Path: h.Name, Detail: fmt.Sprintf("more than %d bytes in all", MaxArchiveBytes)}
		}
		data, err := io.ReadAll(tr)
		if err != nil {
			return nil, &Error{Reason: ReasonArchive, Path: h.Name, Err: err}
		}
		m[h.Name] = data
	}
}
