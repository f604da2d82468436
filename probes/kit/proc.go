package kit

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/wallproof/wallproof/probes/canary"
	"github.com/wallproof/wallproof/probes/keyshape"
	"golang.org/x/sys/unix"
)

const nonBlock = unix.O_NONBLOCK | unix.O_CLOEXEC

// identity returns what makes a file the same file.
func identity(info fs.FileInfo) (fileID, bool) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return fileID{}, false
	}
	return fileID{dev: uint64(st.Dev), ino: st.Ino}, true
}

// Processes returns the folders in /proc of all processes but this one.
func Processes() []string {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	self := strconv.Itoa(os.Getpid())
	var out []string
	for _, e := range entries {
		if _, err := strconv.Atoi(e.Name()); err == nil && e.Name() != self {
			out = append(out, "/proc/"+e.Name())
		}
	}
	return out
}

// CommandOf returns a process's name and arguments, separated by spaces.
func CommandOf(dir string) string {
	b, err := ReadHead(dir+"/cmdline", 64<<10)
	if err != nil {
		return ""
	}
	return string(bytes.ReplaceAll(bytes.TrimRight(b, "\x00"), []byte{0}, []byte(" ")))
}

// Environs looks at the environment of a process and of its threads.
func (s *Search) Environs(dir string) {
	s.Special(dir + "/environ")
	threads, _ := filepath.Glob(dir + "/task/*/environ")
	for _, t := range threads {
		if filepath.Base(filepath.Dir(t)) != filepath.Base(dir) {
			s.Special(t)
		}
	}
}

// Descriptors looks at what a process has open, files that are no longer in any
// folder included.
func (s *Search) Descriptors(dir string) {
	list, err := os.ReadDir(dir + "/fd")
	if err != nil {
		s.miss(err)
		return
	}
	for _, e := range list {
		path := dir + "/fd/" + e.Name()
		info, err := os.Stat(path)
		if err != nil || !info.Mode().IsRegular() {
			continue
		}
		s.Special(path)
	}
	s.Pipes(dir)
}

// Bounds of a look at one mapping, at the memory of one process, and at all that a
// search looks at.
const (
	maxRegion    = 16 << 20
	maxMemory    = 32 << 20
	maxAllMemory = 96 << 20
	memoryStep   = 256 << 10
)

// memoryID names a process for as long as it lives: pids come round again.
type memoryID struct {
	pid, start string
	remote     bool // read by process_vm_readv alone
}

// memoryLook is what one look at a process's memory brought.
type memoryLook struct {
	once   sync.Once
	found  []string
	keys   []keyshape.Match
	bytes  int64
	missed error
}

// memoryLooks are the looks of this process, one a process. Several techniques
// ask for the same memory, and to read it once more costs a sandbox more than all
// that they do besides: it is read for the first of them, and counts for each.
var memoryLooks sync.Map // of memoryID to *memoryLook

// Memory looks at the writable memory of a process, by /proc/PID/mem or, where
// that is not offered, by process_vm_readv. Small mappings come first: what a
// program keeps in its heap is found before its large empty tables are. What no
// page was ever made for is left out.
func (s *Search) Memory(dir string) { s.look(dir, false) }

// RemoteMemory is Memory by process_vm_readv alone (process_vm_readv(2)).
func (s *Search) RemoteMemory(dir string) { s.look(dir, true) }

func readRemote(pid int, b []byte, at uint64) (int, error) {
	return unix.ProcessVMReadv(pid, []unix.Iovec{iovec(b)}, []unix.RemoteIovec{{Base: uintptr(at), Len: len(b)}}, 0)
}

// look takes what a look at a process's memory brings, its own or an earlier one's.
func (s *Search) look(dir string, remote bool) {
	if s.memory > maxAllMemory || s.ctx.Err() != nil {
		return
	}
	id := memoryID{pid: filepath.Base(dir), start: startTime(dir), remote: remote}
	l, _ := memoryLooks.LoadOrStore(id, &memoryLook{})
	look := l.(*memoryLook)
	look.once.Do(func() { look.read(s.ctx, dir, remote) })
	if errors.Is(look.missed, context.Canceled) || errors.Is(look.missed, context.DeadlineExceeded) {
		memoryLooks.CompareAndDelete(id, look) // the next one has its own time
	}
	if look.missed != nil {
		s.miss(look.missed)
	}
	if look.missed == nil || look.bytes > 0 {
		s.read++
	}
	s.memory += look.bytes
	s.keep(dir+"/mem", look.keys)
	for _, d := range look.found {
		s.found[d] = true
	}
}

// startTime is when a process began, in the kernel's ticks, field 22 of
// /proc/PID/stat (proc(5)), or "".
func startTime(dir string) string {
	b, err := ReadHead(dir+"/stat", 4<<10)
	if err != nil {
		return ""
	}
	_, rest, ok := bytes.Cut(b, []byte(") "))
	fields := strings.Fields(string(rest))
	if !ok || len(fields) < 20 {
		return ""
	}
	return fields[19]
}

// read reads a process's writable memory and searches it.
func (l *memoryLook) read(ctx context.Context, dir string, remote bool) {
	list, err := mappings(dir)
	if err != nil {
		l.missed = err
		return
	}
	pid, err := strconv.Atoi(filepath.Base(dir))
	if err != nil {
		l.missed = err
		return
	}
	read := func(b []byte, at uint64) (int, error) { return readRemote(pid, b, at) }
	if mem, err := os.Open(dir + "/mem"); err == nil {
		defer mem.Close()
		if !remote {
			read = func(b []byte, at uint64) (int, error) {
				if n, err := mem.ReadAt(b, int64(at)); n > 0 || err == nil {
					return n, nil
				}
				return readRemote(pid, b, at)
			}
		}
	}
	buf := make([]byte, memoryStep)
	left := uint64(maxMemory)
	for _, r := range list {
		if left == 0 {
			return
		}
		if l.missed = ctx.Err(); l.missed != nil {
			return
		}
		n := l.region(ctx, read, buf, r.from, min(r.to, r.from+min(left, maxRegion)))
		left -= min(n, left)
	}
}

// mappings returns a process's writable mappings, small ones first, without those
// that the kernel says have never held anything.
func mappings(dir string) ([]region, error) {
	if b, err := ReadHead(dir+"/smaps", 4<<20); err == nil && bytes.Contains(b, []byte("\nRss:")) {
		return regions(string(b)), nil
	}
	b, err := ReadHead(dir+"/maps", 4<<20)
	return regions(string(b)), err
}

// region is one mapping.
type region struct{ from, to uint64 }

// regions returns the writable mappings in a process's maps or smaps, small ones
// first. In smaps (proc(5)) a mapping of which nothing is in memory or swapped out
// is empty, and left out.
func regions(maps string) []region {
	var out []region
	var last *region // the mapping whose fields come now
	holds := true    // it or its fields do not say that it is empty
	end := func() {
		if last != nil && holds {
			out = append(out, *last)
		}
		last, holds = nil, true
	}
	for _, line := range strings.Split(maps, "\n") {
		name, value, isField := strings.Cut(line, ":")
		switch {
		case isField && name == "Rss":
			holds = !zeroKB(value)
		case isField && slices.Contains(besideRss, name):
			holds = holds || !zeroKB(value)
		case isField && !strings.Contains(name, " "):
		default:
			end()
			if from, to, ok := writable(line); ok {
				last = &region{from, to}
			}
		}
	}
	end()
	slices.SortStableFunc(out, func(a, b region) int { return cmp.Compare(a.to-a.from, b.to-b.from) })
	return out
}

// besideRss are the fields of what a mapping holds that Rss does not count.
var besideRss = []string{"Swap", "Private_Hugetlb", "Shared_Hugetlb"}

func zeroKB(value string) bool { return strings.TrimSpace(value) == "0 kB" }

// region reads one mapping in steps that overlap by a canary's length, and
// returns how much of it was read.
func (l *memoryLook) region(ctx context.Context, read func([]byte, uint64) (int, error), buf []byte, from, to uint64) uint64 {
	var total uint64
	for at := from; at < to && ctx.Err() == nil; {
		n, err := read(buf[:min(uint64(len(buf)), to-at)], at)
		if n <= 0 {
			if err != nil && l.missed == nil {
				l.missed = err
			}
			return total
		}
		l.bytes += int64(n)
		l.found = append(l.found, canary.FindPlain(buf[:n])...)
		if len(l.keys) < maxShapes {
			l.keys = append(l.keys, keyshape.All(buf[:n])...)
		}
		total += uint64(n)
		if at+uint64(n) >= to {
			return total
		}
		at += uint64(max(n-overlap, 1))
	}
	return total
}

const overlap = 64

func iovec(b []byte) unix.Iovec {
	v := unix.Iovec{Base: &b[0]}
	v.SetLen(len(b))
	return v
}

// writable reads a line of /proc/PID/maps and returns the range when it is
// private writable memory.
func writable(line string) (from, to uint64, ok bool) {
	fields := strings.Fields(line)
	if len(fields) < 2 || !strings.HasPrefix(fields[1], "rw") {
		return 0, 0, false
	}
	if _, err := fmt.Sscanf(fields[0], "%x-%x", &from, &to); err != nil {
		return 0, 0, false
	}
	return from, to, to > from
}
