package site

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/wallproof/wallproof/attest/packet"
)

// A rebuild of a large site cannot read every file of the build before. What it
// did not read it takes for unchanged on the kernel's word: the same inode with
// the same size, and no change of it since it was read. The time of change
// (ctime) is set by the kernel alone, at each write, truncation, rename, link and
// change of owner, mode or times; no program can set it.
//
// What is left: somebody with root who sets the clock or writes to the disk past
// the file system, somebody who holds the file mapped into memory while it is
// read and stores into it afterwards, and a clock that was set back. So the word
// holds for a day at most (trustKernel), and only on file systems that are known
// to keep it (keepsChangeTime). A packet that changed without a trace makes no
// page lie: the page says what was verified, and offers those bytes.

// fileID is a regular file as the operating system describes it.
type fileID struct {
	Device, Inode     uint64
	Size              int64
	Modified, Changed int64 // nanoseconds since 1970
}

// trustKernel is how long a file that was not read counts as unchanged.
const trustKernel = 24 * time.Hour

// settle is longer than the steps of the clock by which file systems note times
// (at most 10 ms), so that a change after it cannot bear the same time as one
// before it.
const settle = 20 * time.Millisecond

// telling reports whether a time of change is finer than a second. File systems
// that note whole seconds say too little.
func telling(changed int64) bool { return changed%int64(time.Second) != 0 }

// kernelTime is the time at which the kernel changes a file in a folder now, or 0
// where that cannot be told.
func kernelTime(dir string) int64 {
	if !keepsChangeTime(dir) {
		return 0
	}
	f, err := os.CreateTemp(dir, ".wallproof-now-")
	if err != nil {
		return 0
	}
	defer os.Remove(f.Name())
	defer f.Close()
	id, ok := identify(f.Name())
	if !ok || !telling(id.Changed) {
		return 0
	}
	return id.Changed
}

// recent tells whether what was read at a time still counts at another.
func recent(read, now int64) bool {
	return read != 0 && now >= read && time.Duration(now-read) < trustKernel
}

// settled identifies a file that was changed before a time, and not since.
func settled(path string, before int64) (fileID, bool) {
	id, ok := identify(path)
	return id, ok && id.Changed < before && telling(id.Changed)
}

// archiveID names the state of a packet that is one file, or gives "" where that
// is not to be relied on: it was changed no earlier than before.
func archiveID(path string, before int64) string {
	id, ok := settled(path, before)
	if !ok || !keepsChangeTime(filepath.Dir(path)) {
		return ""
	}
	return fmt.Sprintf("archive %q %v", path, id)
}

// folderID names the state of a packet that is a folder, as archiveID does.
func folderID(dir string, before int64) string {
	if !keepsChangeTime(dir) {
		return ""
	}
	h := sha256.New()
	n := 0
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		id, ok := settled(p, before)
		if n++; !ok || n > packet.MaxFiles {
			return fs.ErrInvalid
		}
		fmt.Fprintf(h, "%q %v\n", p, id)
		return nil
	})
	if err != nil || n == 0 {
		return ""
	}
	return fmt.Sprintf("folder %q %x", dir, h.Sum(nil))
}

// filesID names the files of an attestation by inode, size and time of
// modification. It is "" when one is missing, or was changed no earlier than
// before. (The time of change itself is not part of the name: taking a file over
// by a link changes it.)
func filesID(stem string, ends []string, before int64) string {
	h := sha256.New()
	for _, end := range ends {
		id, ok := settled(stem+end, before)
		if !ok {
			return ""
		}
		fmt.Fprintf(h, "%s %d %d %d %d\n", end, id.Device, id.Inode, id.Size, id.Modified)
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}
