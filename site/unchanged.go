package site

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync"
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

// settled tells whether a file was changed before a time, and not since.
func (id fileID) settled(before int64) bool { return id.Changed < before && telling(id.Changed) }

// archiveID names the state of a packet that is one file, or gives "" where that
// is not to be relied on: it was changed no earlier than before.
func archiveID(at *folders, path string, before int64) string {
	id, ok := at.identify(path)
	if !ok || !id.settled(before) || !at.keepsChangeTime(filepath.Dir(path)) {
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
		id, ok := identify(p)
		if n++; !ok || !id.settled(before) || n > packet.MaxFiles {
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

// filesID names the files of an attestation that are there. It is "" when one is
// missing, or was changed no earlier than before.
func filesID(at *folders, stem string, ends []string, before int64) string {
	ids := make([]fileID, len(ends))
	dir, name := filepath.Split(stem)
	f, open := at.open(dir)
	for i, end := range ends {
		var id fileID
		var ok bool
		if open {
			id, ok = f.identify(name + end)
		} else {
			id, ok = identify(stem + end)
		}
		if !ok || !id.settled(before) {
			return ""
		}
		ids[i] = id
	}
	return nameOf(ends, ids)
}

// nameOf names files by inode, size and time of modification. It is "" when one of
// them is not known. (The time of change itself is not part of the name: taking a
// file over by a link changes it.)
func nameOf(ends []string, ids []fileID) string {
	var b []byte
	for i, id := range ids {
		if id == (fileID{}) || !telling(id.Changed) {
			return ""
		}
		b = append(b, ends[i]...)
		for _, n := range []uint64{id.Device, id.Inode, uint64(id.Size), uint64(id.Modified)} {
			b = strconv.AppendUint(append(b, ' '), n, 10)
		}
		b = append(b, '\n')
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:16])
}

// folders keeps folders open in which many files are identified: the way to a
// folder costs more than the look at a file in it. It may be used by several
// goroutines at a time; a nil one keeps nothing.
type folders struct {
	mu   sync.RWMutex
	list map[string]openFolder
}

// openFolder is a folder with what is known of its file system.
type openFolder struct {
	folder
	keeps bool // see keepsChangeTime
}

// maxFolders bounds the descriptors of folders.
const maxFolders = 256

func newFolders() *folders { return &folders{list: map[string]openFolder{}} }

// close closes all of them.
func (o *folders) close() {
	for _, f := range o.list {
		f.close()
	}
	o.list = nil
}

// open gives an open folder. It reports false where it cannot be opened, or too many are.
func (o *folders) open(dir string) (openFolder, bool) {
	if o == nil {
		return openFolder{}, false
	}
	o.mu.RLock()
	f, ok := o.list[dir]
	o.mu.RUnlock()
	if ok {
		return f, true
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if f, ok = o.list[dir]; ok {
		return f, true
	}
	if len(o.list) >= maxFolders {
		return openFolder{}, false
	}
	if f.folder, ok = inFolder(dir); !ok {
		return openFolder{}, false
	}
	f.keeps = keepsChangeTime(dir)
	o.list[dir] = f
	return f, true
}

// identify does what the function of that name does.
func (o *folders) identify(path string) (fileID, bool) {
	dir, name := filepath.Split(path)
	if f, ok := o.open(dir); ok && name != "" {
		return f.identify(name)
	}
	return identify(path)
}

// keepsChangeTime does what the function of that name does.
func (o *folders) keepsChangeTime(dir string) bool {
	if f, ok := o.open(dir + string(filepath.Separator)); ok {
		return f.keeps
	}
	return keepsChangeTime(dir)
}
