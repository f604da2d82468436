package kit

import (
	"bufio"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// kernelTypes are file systems of the kernel's own, without files of anybody.
var kernelTypes = map[string]bool{
	"proc": true, "sysfs": true, "cgroup": true, "cgroup2": true, "devpts": true, "mqueue": true, "securityfs": true, "debugfs": true,
	"tracefs": true, "bpf": true, "configfs": true, "pstore": true, "efivarfs": true, "binfmt_misc": true, "fusectl": true, "devtmpfs": true,
}

// Mount is one mounted file system.
type Mount struct{ Point, Type, Root string }

// Mounts returns what is mounted in this mount namespace, without the kernel's
// own file systems and the root.
func Mounts() []Mount {
	return slices.DeleteFunc(allMounts(), func(m Mount) bool {
		return m.Point == "/" || kernelTypes[m.Type] || strings.HasPrefix(m.Point, "/proc") || strings.HasPrefix(m.Point, "/sys")
	})
}

// KernelMounts returns what is mounted over the kernel's own files: what hides or locks
// them.
func KernelMounts() []Mount {
	return slices.DeleteFunc(allMounts(), func(m Mount) bool {
		return !strings.HasPrefix(m.Point, "/proc/") && !strings.HasPrefix(m.Point, "/sys/")
	})
}

// allMounts reads proc_pid_mountinfo(5).
func allMounts() []Mount {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil
	}
	defer f.Close()
	var out []Mount
	for s := bufio.NewScanner(f); s.Scan(); {
		left, right, ok := strings.Cut(s.Text(), " - ")
		fields, kind := strings.Fields(left), strings.Fields(right)
		if !ok || len(fields) < 5 || len(kind) < 1 {
			continue
		}
		out = append(out, Mount{Root: unescape(fields[3]), Point: unescape(fields[4]), Type: kind[0]})
	}
	return out
}

// unescape undoes the octal escapes of mountinfo.
func unescape(s string) string {
	for _, e := range [][2]string{{`\040`, " "}, {`\011`, "\t"}, {`\012`, "\n"}, {`\134`, `\`}} {
		s = strings.ReplaceAll(s, e[0], e[1])
	}
	return s
}

// HostPlaces are where files of a host that matter lie, below its root.
// Those that are large come last: a search has bounds.
var HostPlaces = []string{"run/wallproof*", "run/secrets", "var/lib/wallproof/runs/*/*/host", "var/lib/wallproof*", "var/run/wallproof*", "tmp/wallproof*", "var/tmp/wallproof*", "root", "home",
	"etc", "var/lib/kubelet", "srv", "mnt", "host"}

// Under looks at the places of a host below a folder.
func (s *Search) Under(root string) {
	for _, place := range HostPlaces {
		list, _ := filepath.Glob(filepath.Join(root, place))
		for _, path := range list {
			s.Tree(path)
		}
	}
}

// Links looks, for every other process, at what link names ("root" or "cwd"),
// and at the host's places below it and above it. Folders that are the same are
// looked at once.
func (s *Search) Links(link string, above int) {
	for _, dir := range Processes() {
		s.Folder(filepath.Join(dir, link), above)
	}
}

// Folder looks at a folder's own files and at the host's places in it and in so
// many folders above it.
func (s *Search) Folder(path string, above int) {
	if !s.first(path) {
		return
	}
	if !isRoot(path) { // of a root, only the places that matter
		s.Glob(path+"/*", path+"/*/*")
	}
	for up := path; above >= 0 && !s.Done(); above-- {
		if s.first(up) || up == path {
			s.Under(up)
		}
		up += "/.."
	}
}

// isRoot reports whether a folder looks like the root of a file system.
func isRoot(path string) bool {
	for _, name := range []string{"/etc", "/proc"} {
		if info, err := os.Stat(path + name); err != nil || !info.IsDir() {
			return false
		}
	}
	return true
}

// first reports whether a folder has not been looked at yet, and notes it.
func (s *Search) first(path string) bool {
	info, err := os.Stat(path)
	if err != nil {
		s.miss(err)
		return false
	}
	id, ok := identity(info)
	if !ok || s.seen[id] {
		return false
	}
	s.seen[id] = true
	return true
}

// OpenFolders returns the folders that a process has open.
func OpenFolders(dir string) []string {
	list, err := os.ReadDir(dir + "/fd")
	if err != nil {
		return nil
	}
	var out []string
	for _, e := range list {
		path := dir + "/fd/" + e.Name()
		if info, err := os.Stat(path); err == nil && info.IsDir() {
			out = append(out, path)
		}
	}
	return out
}

// Pipes looks at what waits in the pipes that a process reads from. It takes the
// bytes out, so standard input, output and error are left alone.
func (s *Search) Pipes(dir string) {
	list, err := os.ReadDir(dir + "/fd")
	if err != nil {
		s.miss(err)
		return
	}
	for _, e := range list {
		n, err := strconv.Atoi(e.Name())
		if err != nil || n <= 2 {
			continue
		}
		path := dir + "/fd/" + e.Name()
		info, err := os.Stat(path)
		if err != nil || info.Mode()&os.ModeNamedPipe == 0 || !readEnd(dir+"/fdinfo/"+e.Name()) {
			continue
		}
		s.pipe(path)
	}
}

func (s *Search) pipe(path string) {
	fd, err := unix.Open(path, unix.O_RDONLY|nonBlock, 0)
	if err != nil {
		s.miss(err)
		return
	}
	defer unix.Close(fd)
	from := fd
	// What is in it stays in it for whom it is meant, where the kernel can copy it.
	var copied [2]int
	if unix.Pipe2(copied[:], unix.O_CLOEXEC|unix.O_NONBLOCK) == nil {
		defer unix.Close(copied[0])
		defer unix.Close(copied[1])
		if _, err := unix.Tee(fd, copied[1], pipeBytes, unix.SPLICE_F_NONBLOCK); err == nil || errors.Is(err, unix.EAGAIN) {
			from = copied[0]
		}
	}
	buf := make([]byte, pipeBytes)
	if n, err := unix.Read(from, buf); err == nil && n > 0 {
		s.Bytes(buf[:n])
	}
}

// pipeBytes is how much of a pipe is looked at: what one holds by default.
const pipeBytes = 64 << 10

// readEnd reports whether a descriptor was opened for reading only.
func readEnd(fdinfo string) bool {
	b, err := ReadHead(fdinfo, 4096)
	if err != nil {
		return true // no way to tell; it is a pipe and no standard stream
	}
	for _, line := range strings.Split(string(b), "\n") {
		if value, ok := strings.CutPrefix(line, "flags:"); ok {
			flags, err := strconv.ParseUint(strings.TrimSpace(value), 8, 64)
			return err == nil && flags&unix.O_ACCMODE == unix.O_RDONLY
		}
	}
	return true
}

// maxSegment is how much of one shared memory segment is read.
const maxSegment = 1 << 20

// firstSegments is how many segments are tried by their number.
const firstSegments = 64

// attaches reports whether there is a segment of a number that can be read.
func attaches(id int) bool {
	b, err := unix.SysvShmAttach(id, 0, unix.SHM_RDONLY)
	return err == nil && unix.SysvShmDetach(b) == nil
}

// Segments looks at the System V shared memory segments that are listed, and at
// one of a known key.
func (s *Search) Segments(key int) {
	ids := map[int]bool{}
	if b, err := ReadHead("/proc/sysvipc/shm", 1<<20); err == nil {
		for _, line := range strings.Split(string(b), "\n") {
			if fields := strings.Fields(line); len(fields) > 3 {
				if id, err := strconv.Atoi(fields[1]); err == nil {
					ids[id] = true
				}
			}
		}
	}
	for id := range firstSegments { // where no list is offered; ids count from 0
		ids[id] = ids[id] || attaches(id)
	}
	if id, err := unix.SysvShmGet(key, 0, 0); err == nil {
		ids[id] = true
	} else {
		s.miss(err)
	}
	for id, there := range ids {
		if !there {
			continue
		}
		b, err := unix.SysvShmAttach(id, 0, unix.SHM_RDONLY)
		if err != nil {
			s.miss(err)
			continue
		}
		s.Bytes(b[:min(len(b), maxSegment)])
		if err := unix.SysvShmDetach(b); err != nil {
			s.miss(err)
		}
	}
}
