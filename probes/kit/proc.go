package kit

import (
	"bytes"
	"cmp"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

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
}

// Bounds of a look at one mapping, at the memory of one process, and at all that a
// search looks at.
const (
	maxRegion    = 16 << 20
	maxMemory    = 32 << 20
	maxAllMemory = 96 << 20
	memoryStep   = 1 << 20
)

// Memory looks at the writable memory of a process, by /proc/PID/mem or, where
// that is not offered, by process_vm_readv. Small mappings come first: what a
// program keeps in its heap is found before its large empty tables are.
func (s *Search) Memory(dir string) {
	mem, err := os.Open(dir + "/mem")
	if err != nil {
		s.RemoteMemory(dir)
		return
	}
	defer mem.Close()
	s.mappings(dir, func(pid int, b []byte, at uint64) (int, error) {
		if n, err := mem.ReadAt(b, int64(at)); n > 0 || err == nil {
			return n, nil
		}
		return readRemote(pid, b, at)
	})
}

// RemoteMemory is Memory by process_vm_readv alone (process_vm_readv(2)).
func (s *Search) RemoteMemory(dir string) { s.mappings(dir, readRemote) }

func readRemote(pid int, b []byte, at uint64) (int, error) {
	return unix.ProcessVMReadv(pid, []unix.Iovec{iovec(b)}, []unix.RemoteIovec{{Base: uintptr(at), Len: len(b)}}, 0)
}

// mappings reads a process's writable memory, mapping by mapping.
func (s *Search) mappings(dir string, read func(pid int, b []byte, at uint64) (int, error)) {
	maps, err := ReadHead(dir+"/maps", 4<<20)
	if err != nil {
		s.miss(err)
		return
	}
	pid, err := strconv.Atoi(filepath.Base(dir))
	if err != nil {
		s.miss(err)
		return
	}
	s.read++
	left := uint64(maxMemory)
	for _, r := range regions(string(maps)) {
		if left == 0 || s.memory > maxAllMemory || s.ctx.Err() != nil {
			return
		}
		n := s.region(func(b []byte, at uint64) (int, error) { return read(pid, b, at) }, r.from, min(r.to, r.from+min(left, maxRegion)))
		left -= min(n, left)
	}
}

// region is one mapping.
type region struct{ from, to uint64 }

// regions returns the writable mappings in a process's maps, small ones first.
func regions(maps string) []region {
	var out []region
	for _, line := range strings.Split(maps, "\n") {
		if from, to, ok := writable(line); ok {
			out = append(out, region{from, to})
		}
	}
	slices.SortStableFunc(out, func(a, b region) int { return cmp.Compare(a.to-a.from, b.to-b.from) })
	return out
}

// region reads one mapping in steps that overlap by a canary's length, and
// returns how much of it was read.
func (s *Search) region(read func([]byte, uint64) (int, error), from, to uint64) uint64 {
	buf := make([]byte, min(memoryStep, to-from))
	var total uint64
	for at := from; at < to && s.ctx.Err() == nil; {
		n, err := read(buf[:min(uint64(len(buf)), to-at)], at)
		if n <= 0 {
			if err != nil {
				s.miss(err)
			}
			return total
		}
		s.bulk(buf[:n])
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
