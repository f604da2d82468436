package image

import (
	"fmt"

	"github.com/wallproof/wallproof/probes/canary"
	"github.com/wallproof/wallproof/probes/keyshape"
	"golang.org/x/sys/unix"
)

// A file that a higher layer removes or replaces is not in the root file system, and
// is in the image all the same: whoever can fetch the image can read it. So its
// beginning is searched for secrets before it goes.

// Bounds of that search.
const (
	maxHiddenFiles = 1 << 14
	maxHiddenHead  = 256 << 10
	maxHiddenFound = 32
	maxHiddenName  = 100
)

// hidden searches what is about to be removed.
type hidden struct {
	looked int64
	found  []string // canaries by their digests, other secrets by what they look like
	buf    []byte
}

// lose looks at a name in a folder, and at all below it.
func (h *hidden) lose(at int, name string) {
	if h == nil || h.looked >= maxHiddenFiles || len(h.found) >= maxHiddenFound {
		return
	}
	if child, err := openFolder(at, name); err == nil {
		defer unix.Close(child)
		names, err := list(child)
		if err != nil {
			return
		}
		for _, n := range names {
			h.lose(child, n)
		}
		return
	}
	// A pipe without a writer does not keep who opens it waiting; a link is not followed.
	fd, err := unix.Openat(at, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return
	}
	h.looked++
	if h.buf == nil {
		h.buf = make([]byte, maxHiddenHead)
	}
	n, err := unix.Pread(fd, h.buf, 0)
	if err != nil || n <= 0 {
		return
	}
	h.search(name, h.buf[:n])
}

func (h *hidden) search(name string, text []byte) {
	for _, d := range canary.Find(text) {
		h.found = append(h.found, d+" in a file called "+printable(name))
	}
	if shape := keyshape.Find(text); shape != "" {
		h.found = append(h.found, shape+" in a file called "+printable(name))
	}
}

func printable(name string) string { return fmt.Sprintf("%q", name[:min(len(name), maxHiddenName)]) }
