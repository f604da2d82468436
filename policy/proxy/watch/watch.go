//go:build linux

// Package watch tells of edits of a file at once: saved in place, replaced by a
// rename, or by a symbolic link that leads elsewhere, as a ConfigMap's does.
package watch

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// MaxBytes bounds a watched file.
const MaxBytes = 128 << 20

// events are those after which a file's content is complete: closed after a
// write, or moved into place, or made as a symbolic link. A plain file that was
// only just made has no content yet.
const events = unix.IN_CLOSE_WRITE | unix.IN_MOVED_TO | unix.IN_CREATE | unix.IN_DELETE_SELF | unix.IN_MOVE_SELF

// File calls changed with the new content whenever it differs from the last, until
// ctx ends, which is no error. first is the content that is known already. An
// edit that leaves the file unreadable for a moment is waited for.
func File(ctx context.Context, path string, first []byte, changed func([]byte)) error {
	in, err := watchFolder(filepath.Dir(path))
	if err != nil {
		return fmt.Errorf("watch %s: %w", path, err)
	}
	defer in.Close()
	stop := context.AfterFunc(ctx, func() { _ = in.Close() })
	defer stop()
	last := first
	// What changed between the first reading and the watch is not missed.
	last = check(path, last, changed)
	buf := make([]byte, 64<<10)
	for {
		n, err := in.Read(buf)
		if err != nil {
			if ctx.Err() != nil || errors.Is(err, os.ErrClosed) {
				return nil
			}
			return fmt.Errorf("watch %s: %w", path, err)
		}
		if !onlyMade(buf[:n]) || isLink(path) {
			last = check(path, last, changed)
		}
	}
}

// onlyMade says whether all events of a batch are that something was made.
func onlyMade(batch []byte) bool {
	for len(batch) >= unix.SizeofInotifyEvent {
		mask := binary.NativeEndian.Uint32(batch[4:])
		if mask&unix.IN_CREATE == 0 {
			return false
		}
		size := unix.SizeofInotifyEvent + int(binary.NativeEndian.Uint32(batch[12:]))
		batch = batch[min(size, len(batch)):]
	}
	return true
}

func isLink(path string) bool {
	fi, err := os.Lstat(path)
	return err == nil && fi.Mode()&os.ModeSymlink != 0
}

// watchFolder opens an inotify descriptor that the runtime can wait on.
func watchFolder(dir string) (*os.File, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, err
	}
	if _, err := unix.InotifyAddWatch(fd, dir, events); err != nil {
		_ = unix.Close(fd)
		return nil, err
	}
	return os.NewFile(uintptr(fd), "inotify"), nil
}

func check(path string, last []byte, changed func([]byte)) []byte {
	f, err := os.Open(path)
	if err != nil {
		return last
	}
	defer f.Close()
	now, err := io.ReadAll(io.LimitReader(f, MaxBytes+1))
	if err != nil || len(now) > MaxBytes || bytes.Equal(now, last) {
		return last
	}
	changed(now)
	return now
}
