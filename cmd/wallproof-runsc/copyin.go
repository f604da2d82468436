package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
)

// copyInName is the argv[0] that selects copyIn.
const copyInName = "wallproof-copyin"

// maxFrame bounds one frame of the input.
const maxFrame = 1 << 20

// copyIn writes standard input to a file: args are the absolute path, the mode
// in octal, and the owner's user and group id. The input is a sequence of
// frames, each a 4-byte big-endian length and that many bytes; the frame of
// length 0 ends it. Without that last frame the input was cut off, and then
// the path stays as it was. The file appears whole, by a rename, which also
// replaces a link at the path instead of following it.
func copyIn(args []string, in io.Reader) error {
	if len(args) != 4 {
		return errors.New("copy in: want PATH MODE UID GID")
	}
	mode, errM := strconv.ParseUint(args[1], 8, 12)
	uid, errU := strconv.ParseUint(args[2], 10, 31)
	gid, errG := strconv.ParseUint(args[3], 10, 31)
	if err := errors.Join(errM, errU, errG); err != nil {
		return fmt.Errorf("copy in: %w", err)
	}
	path := filepath.Clean(args[0])
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("copy in: %w", err)
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".wallproof-copyin-*")
	if err != nil {
		return fmt.Errorf("copy in: %w", err)
	}
	defer os.Remove(f.Name())
	defer f.Close()
	if err := readFrames(f, in); err != nil {
		return fmt.Errorf("copy in %s: %w", path, err)
	}
	return place(f, path, fs.FileMode(mode), int(uid), int(gid))
}

// place gives f its owner, mode and name. The owner comes first, because a
// change of owner clears mode bits.
func place(f *os.File, path string, mode fs.FileMode, uid, gid int) error {
	if err := f.Chown(uid, gid); err != nil {
		return fmt.Errorf("copy in: %w", err)
	}
	if err := f.Chmod(mode); err != nil {
		return fmt.Errorf("copy in: %w", err)
	}
	if err := f.Close(); err != nil {
		return fmt.Errorf("copy in: %w", err)
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return fmt.Errorf("copy in: %w", err)
	}
	return nil
}

func readFrames(w io.Writer, in io.Reader) error {
	for {
		var n uint32
		if err := binary.Read(in, binary.BigEndian, &n); err != nil {
			return fmt.Errorf("input was cut off: %w", err)
		}
		if n == 0 {
			return nil
		}
		if n > maxFrame {
			return fmt.Errorf("frame of %d bytes, more than %d", n, maxFrame)
		}
		if _, err := io.CopyN(w, in, int64(n)); err != nil {
			return fmt.Errorf("input was cut off: %w", err)
		}
	}
}
