package site

import (
	"archive/tar"
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"

	"github.com/wallproof/wallproof/attest/packet"
)

// Packet is one evidence packet. It is opened only when it is needed: a site may
// have many thousands, which do not fit into memory at once.
type Packet struct {
	// Name is where it came from. It appears in messages only, never on a page.
	Name string
	// Stamp names the packet's bytes: no two contents may have the same. A packet
	// whose stamp is the same as at the build before, and not empty, may be taken
	// over from that build without being verified again (see Input.Cache). Of what
	// OpenPacket opens it is a digest.
	Stamp string
	// Live is a live.json for the deployment that this packet is about, or nil for
	// Input.Live where that applies.
	Live []byte
	// Open returns the packet's files, and what releases them.
	Open func() (fs.FS, io.Closer, error)
	// bundle returns the attestation alone, where that is cheaper than Open.
	bundle func() ([]byte, error)
	// content computes Stamp from the packet's bytes, where a cache needs it.
	content func() (string, error)
	// state names the packet's files without reading them, or is nil. It gives ""
	// where that is not to be relied on: see unchanged.go.
	state func(at *folders, before int64) string
}

// OpenPacket describes the packet at a path: a directory, or an archive as
// packet.WriteArchive writes it.
func OpenPacket(path string) (Packet, error) {
	info, err := os.Stat(path)
	if err != nil {
		return Packet{}, fmt.Errorf("site: open packet: %w", err)
	}
	if !info.IsDir() {
		return Packet{
			Name: path, Open: func() (fs.FS, io.Closer, error) { return openArchive(path) },
			bundle:  func() ([]byte, error) { return peekArchive(path) },
			content: func() (string, error) { return archiveStamp(path) },
			state:   func(at *folders, before int64) string { return archiveID(at, path, before) },
		}, nil
	}
	return Packet{
		Name: path, Open: func() (fs.FS, io.Closer, error) { return openDir(path) },
		content: func() (string, error) { return dirStamp(path) },
		state:   func(_ *folders, before int64) string { return folderID(path, before) },
	}, nil
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
	files, err := packet.ParseArchive(b)
	if err != nil {
		return nil, nil, fmt.Errorf("site: open packet %s: %w", path, err)
	}
	return archive{files, b, sync.OnceValue(func() [sha256.Size]byte { return sha256.Sum256(b) })}, nothing{}, nil
}

// archive is a packet that came as one file, with that file's bytes and their
// digest.
type archive struct {
	packet.Memory
	raw []byte
	sum func() [sha256.Size]byte
}

// peekArchive reads an archive's bundle. It is the first file of an archive,
// since its name sorts first, so no more than that is read.
func peekArchive(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	tr := tar.NewReader(bufio.NewReaderSize(f, 512)) // a header; what follows is read at once
	h, err := tr.Next()
	if err != nil {
		return nil, err
	}
	if h.Name != packet.AttestationFile || h.Size > packet.MaxDocumentBytes {
		return nil, fs.ErrNotExist
	}
	b := make([]byte, h.Size)
	_, err = io.ReadFull(tr, b)
	return b, err
}

// readBounded reads a file of at most limit bytes.
func readBounded(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	b := bytes.NewBuffer(make([]byte, 0, min(info.Size(), limit)+bytes.MinRead))
	if _, err := b.ReadFrom(io.LimitReader(f, limit+1)); err != nil {
		return nil, err
	}
	if int64(b.Len()) > limit {
		return nil, fmt.Errorf("%s: more than %d bytes", path, limit)
	}
	return b.Bytes(), nil
}

// contentStamp names the bytes of an open packet.
func contentStamp(files fs.FS) (string, error) {
	if whole, ok := files.(archive); ok {
		return stampOf(whole.sum()), nil
	}
	h := sha256.New()
	n := 0
	err := fs.WalkDir(files, ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if n++; n > packet.MaxFiles {
			return fmt.Errorf("more than %d files", packet.MaxFiles)
		}
		f, err := files.Open(p)
		if err != nil {
			return err
		}
		defer f.Close()
		one := sha256.New()
		if _, err := io.Copy(one, io.LimitReader(f, packet.MaxArchiveBytes)); err != nil {
			return err
		}
		fmt.Fprintf(h, "%q %x\n", p, one.Sum(nil))
		return nil
	})
	if err != nil {
		return "", fmt.Errorf("read packet: %w", err)
	}
	return "files " + hex.EncodeToString(h.Sum(nil)), nil
}

func stampOf(sum [sha256.Size]byte) string {
	return "archive " + hex.EncodeToString(sum[:])
}

func archiveStamp(path string) (string, error) {
	b, err := readBounded(path, packet.MaxArchiveBytes)
	if err != nil {
		return "", err
	}
	return stampOf(sha256.Sum256(b)), nil
}

func dirStamp(dir string) (string, error) {
	files, closer, err := openDir(dir)
	if err != nil {
		return "", err
	}
	stamp, err := contentStamp(files)
	return stamp, errors.Join(err, closer.Close())
}
