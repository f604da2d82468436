package battery

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/internal/canon"
)

// packetDir is the packet's folder below the output folder.
const packetDir = "packet"

// ErrExists means that the output folder already holds a packet. Evidence is
// never overwritten.
var ErrExists = errors.New("there is a packet already")

// recorder writes a run's evidence. The manifest is flushed entry by entry;
// until it is closed the packet is incomplete and is recognised as such.
type recorder struct {
	dir      string
	file     *os.File
	manifest *manifest.Writer
}

// newRecorder creates DIR/packet with an empty manifest in it.
func newRecorder(out string) (*recorder, error) {
	dir := filepath.Join(out, packetDir)
	if err := os.MkdirAll(out, 0o755); err != nil {
		return nil, storage("create the output folder", err)
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		if errors.Is(err, fs.ErrExist) {
			return nil, fmt.Errorf("%w at %s; choose another --out, or remove it", ErrExists, dir)
		}
		return nil, storage("create the packet's folder", err)
	}
	for _, sub := range []string{"observations", "logs"} {
		if err := os.Mkdir(filepath.Join(dir, sub), 0o755); err != nil {
			return nil, storage("create the packet's folders", err)
		}
	}
	f, err := os.OpenFile(filepath.Join(dir, "manifest.jsonl"), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, storage("create the manifest", err)
	}
	return &recorder{dir: dir, file: f, manifest: manifest.NewWriter(f)}, nil
}

// close ends the recording, complete or not.
func (r *recorder) close() error { return r.file.Close() }

// writeFile writes a whole file of the packet: to a name of its own first, so
// that a file of the packet is complete or absent.
func (r *recorder) writeFile(name string, data []byte) error {
	path := filepath.Join(r.dir, name)
	tmp := path + ".part"
	err := func() error {
		f, err := os.OpenFile(tmp, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
		if err != nil {
			return err
		}
		if _, err = f.Write(data); err == nil {
			err = f.Sync()
		}
		return errors.Join(err, f.Close())
	}()
	if err == nil {
		err = os.Rename(tmp, path)
	}
	if err != nil {
		os.Remove(tmp)
		return storage("write "+name, err)
	}
	return nil
}

// writeLines writes one canonical JSON object a line.
func writeLines[T any](r *recorder, name string, values []T) error {
	path := filepath.Join(r.dir, name)
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return storage("create "+name, err)
	}
	w := bufio.NewWriter(f)
	for _, v := range values {
		line, err := canon.Marshal(v)
		if err != nil {
			return errors.Join(fmt.Errorf("encode a line of %s: %w", name, err), f.Close())
		}
		w.Write(line)
		w.WriteByte('\n')
	}
	if err := errors.Join(w.Flush(), f.Sync(), f.Close()); err != nil {
		return storage("write "+name, err)
	}
	return nil
}

// storage says what a failed write means for the reader.
func storage(what string, err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return fmt.Errorf("%s: the disk is full; the packet is incomplete and will not verify: free some space and run again (%w)", what, err)
	}
	return fmt.Errorf("%s: %w", what, err)
}
