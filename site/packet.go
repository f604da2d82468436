package site

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Bounds on a packet, which comes from outside.
const (
	MaxPacketFiles = 20_000
	MaxPacketBytes = 512 << 20
	// pathMax bounds the name of a file in a packet.
	pathMax = 512
)

// Packet is one evidence packet, read only when it is needed: a site may have
// many thousands, which do not fit into memory at once.
type Packet struct {
	// Name is where it came from; it appears in messages only, never on a page.
	Name string
	// Stamp changes whenever the files change. Packets of an equal, non-empty
	// stamp are taken over from the build before without being read.
	Stamp string
	// Load returns the files by their path in the packet.
	Load func() (map[string][]byte, error)
}

// OpenPacket describes the packet at a path: a directory, or an archive (tar).
func OpenPacket(path string) (Packet, error) {
	info, err := os.Stat(path)
	if err != nil {
		return Packet{}, fmt.Errorf("site: open packet: %w", err)
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return Packet{}, fmt.Errorf("site: open packet: %w", err)
	}
	if !info.IsDir() {
		return Packet{
			Name:  path,
			Stamp: fmt.Sprintf("%s %d %d", abs, info.Size(), info.ModTime().UnixNano()),
			Load:  func() (map[string][]byte, error) { return loadTar(path) },
		}, nil
	}
	stamp, err := dirStamp(abs)
	if err != nil {
		return Packet{}, err
	}
	return Packet{Name: path, Stamp: stamp, Load: func() (map[string][]byte, error) { return loadDir(path) }}, nil
}

// dirStamp lists names, sizes and times of a directory's files.
func dirStamp(dir string) (string, error) {
	var b strings.Builder
	b.WriteString(dir)
	n := 0
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if n++; n > MaxPacketFiles {
			return errTooManyFiles
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "\n%s %d %d", strings.TrimPrefix(p, dir), info.Size(), info.ModTime().UnixNano())
		return nil
	})
	if err != nil {
		return "", fmt.Errorf("site: open packet %s: %w", dir, err)
	}
	return b.String(), nil
}

var (
	errTooManyFiles = fmt.Errorf("more than %d files", MaxPacketFiles)
	errTooManyBytes = fmt.Errorf("more than %d bytes", MaxPacketBytes)
)

func loadDir(dir string) (map[string][]byte, error) {
	root, err := os.OpenRoot(dir) // no link in a packet leads out of it
	if err != nil {
		return nil, fmt.Errorf("site: read packet: %w", err)
	}
	defer root.Close()
	files := map[string][]byte{}
	var total int64
	err = fs.WalkDir(root.FS(), ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if !d.Type().IsRegular() {
			return fmt.Errorf("%s is not a regular file", p)
		}
		if len(files) >= MaxPacketFiles {
			return errTooManyFiles
		}
		b, err := root.ReadFile(p)
		if err != nil {
			return err
		}
		if total += int64(len(b)); total > MaxPacketBytes {
			return errTooManyBytes
		}
		files[p] = b
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("site: read packet %s: %w", dir, err)
	}
	return files, nil
}

func loadTar(path string) (map[string][]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("site: read packet: %w", err)
	}
	defer f.Close()
	files, err := readTar(f)
	if err != nil {
		return nil, fmt.Errorf("site: read packet %s: %w", path, err)
	}
	return files, nil
}

// readTar reads a packet's archive: regular files with plain relative names,
// each once.
func readTar(r io.Reader) (map[string][]byte, error) {
	files := map[string][]byte{}
	var total int64
	for tr := tar.NewReader(r); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return files, nil
		}
		if err != nil {
			return nil, err
		}
		if h.Typeflag == tar.TypeDir {
			continue
		}
		if h.Typeflag != tar.TypeReg || len(h.Name) > pathMax || !fs.ValidPath(h.Name) {
			return nil, fmt.Errorf("entry %q is not a plain file with a relative name", h.Name)
		}
		if _, twice := files[h.Name]; twice {
			return nil, fmt.Errorf("entry %q occurs twice", h.Name)
		}
		if len(files) >= MaxPacketFiles {
			return nil, errTooManyFiles
		}
		b, err := io.ReadAll(io.LimitReader(tr, MaxPacketBytes-total+1))
		if err != nil {
			return nil, err
		}
		if total += int64(len(b)); total > MaxPacketBytes {
			return nil, errTooManyBytes
		}
		files[h.Name] = b
	}
}

// writeTar writes the archive that a site offers for download: files in the
// order of their names, fixed times and owners, so that the same packet gives
// the same bytes.
func writeTar(w io.Writer, files map[string][]byte) error {
	tw := tar.NewWriter(w)
	for _, name := range sortedKeys(files) {
		h := &tar.Header{Typeflag: tar.TypeReg, Name: name, Size: int64(len(files[name])), Mode: 0o644, ModTime: time.Unix(0, 0).UTC(), Format: tar.FormatPAX}
		if err := tw.WriteHeader(h); err != nil {
			return fmt.Errorf("site: archive %s: %w", name, err)
		}
		if _, err := tw.Write(files[name]); err != nil {
			return fmt.Errorf("site: archive %s: %w", name, err)
		}
	}
	return tw.Close()
}
