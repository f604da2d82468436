package site

import (
	"archive/tar"
	"bufio"
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/wallproof/wallproof/attest/packet"
)

// Packet is one evidence packet. It is opened only when it is needed: a site may
// have many thousands, which do not fit into memory at once.
type Packet struct {
	// Name is where it came from. It appears in messages only, never on a page.
	Name string
	// Stamp changes whenever the files change. A packet whose stamp is the same
	// as at the build before, and not empty, may be taken over from that build
	// without being read (see Input.Cache).
	Stamp string
	// Live is a live.json for the deployment that this packet is about, or nil for
	// Input.Live where that applies.
	Live []byte
	// Open returns the packet's files, and what releases them.
	Open func() (fs.FS, io.Closer, error)
	// bundle returns the attestation alone, where that is cheaper than Open.
	bundle func() ([]byte, error)
}

// OpenPacket describes the packet at a path: a directory, or an archive as
// packet.WriteArchive writes it.
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
		stamp := fmt.Sprintf("%s %d %d", abs, info.Size(), info.ModTime().UnixNano())
		return Packet{Name: path, Stamp: stamp, Open: func() (fs.FS, io.Closer, error) { return openArchive(path) }, bundle: func() ([]byte, error) { return peekArchive(path) }}, nil
	}
	stamp, err := dirStamp(abs)
	if err != nil {
		return Packet{}, err
	}
	return Packet{Name: path, Stamp: stamp, Open: func() (fs.FS, io.Closer, error) { return openDir(path) }}, nil
}

// FSPacket is a packet that is open already.
func FSPacket(name string, files fs.FS) Packet {
	return Packet{Name: name, Open: func() (fs.FS, io.Closer, error) { return files, nothing{}, nil }}
}

type nothing struct{}

func (nothing) Close() error { return nil }

func openDir(dir string) (fs.FS, io.Closer, error) {
	root, err := os.OpenRoot(dir) // no link in a packet leads out of it
	if err != nil {
		return nil, nil, fmt.Errorf("site: open packet: %w", err)
	}
	return root.FS(), root, nil
}

func openArchive(path string) (fs.FS, io.Closer, error) {
	b, err := readBounded(path, packet.MaxArchiveBytes)
	if err != nil {
		return nil, nil, fmt.Errorf("site: open packet: %w", err)
	}
	files, err := packet.ReadArchive(bytes.NewReader(b))
	if err != nil {
		return nil, nil, fmt.Errorf("site: open packet %s: %w", path, err)
	}
	return archive{files, b}, nothing{}, nil
}

// archive is a packet that came as one file, with that file's bytes.
type archive struct {
	packet.Memory
	raw []byte
}

// peekArchive reads an archive's bundle. It is the first file of an archive,
// since its name sorts first, so no more than that is read.
func peekArchive(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	tr := tar.NewReader(bufio.NewReader(f))
	h, err := tr.Next()
	if err != nil {
		return nil, err
	}
	if h.Name != packet.AttestationFile || h.Size > packet.MaxDocumentBytes {
		return nil, fs.ErrNotExist
	}
	return io.ReadAll(tr)
}

// readBounded reads a file of at most limit bytes.
func readBounded(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(b)) > limit {
		return nil, fmt.Errorf("%s: more than %d bytes", path, limit)
	}
	return b, nil
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
		if n++; n > packet.MaxFiles {
			return fmt.Errorf("more than %d files", packet.MaxFiles)
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
