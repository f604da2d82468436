package image

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Resource limits of the unpacking process.
const (
	childMemory  = 512 << 20 // the Go runtime's soft limit
	childAddress = 4 << 30   // RLIMIT_AS: address space, of which Go reserves much
	childFiles   = 1024      // open descriptors; removing a tree needs one a level
	childSeconds = 3600      // of processor time
)

// rootFD is the folder to unpack into, as a mount that Unpack hands over;
// selfFD is the executable.
const (
	rootFD = 3
	selfFD = 4
)

// UnpackMain is the unpacking process: the command line calls it, and nothing
// else, when it was started with UnpackOptions.Command. It returns the exit
// code. args are not used.
//
// Before it reads a byte of the image it confines itself: its root becomes the
// folder to unpack into, mounted without set-user-id, devices and execution; it
// keeps only the capabilities over its own files, none of which it has over a
// file of the host, whose ids are not mapped; it can gain none; and it bounds
// its memory, processor time, open files and file size.
func UnpackMain([]string) int {
	a := answer{Report: Report{Examples: []string{}}}
	err := unpackStdin(&a.Report)
	if err != nil {
		a.Message = err.Error()
		for code, is := range codes {
			if errors.Is(err, is) {
				a.Code = code
			}
		}
	}
	os.Stdout.Write(append(marshal(a), '\n'))
	if err != nil {
		return 1
	}
	return 0
}

func unpackStdin(report *Report) error {
	debug.SetMemoryLimit(childMemory)
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	line, err := readLine(in, maxJob)
	if err != nil {
		return fmt.Errorf("read the job: %w", err)
	}
	var j job
	if err := json.Unmarshal(line, &j); err != nil {
		return fmt.Errorf("read the job: %w", err)
	}
	if err := confine(j.Limits); err != nil {
		return fmt.Errorf("confine the unpacking process: %w", err)
	}
	root, err := unix.Open("/", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open the root: %w", err)
	}
	x, err := newExtractor(root, j.Limits, report)
	if err != nil {
		return err
	}
	for i, l := range j.Layers {
		if err := x.layer(io.LimitReader(in, l.Size), l.DiffID); err != nil {
			return fmt.Errorf("layer %d: %w", i, err)
		}
	}
	if _, err := in.ReadByte(); err != io.EOF {
		return errors.New("there is more after the last layer")
	}
	report.Hidden, report.Secrets = x.tree.hidden.looked, x.tree.hidden.found
	return nil
}

func readLine(r *bufio.Reader, most int) ([]byte, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		line = append(line, part...)
		if len(line) > most {
			return nil, fmt.Errorf("more than %d bytes", most)
		}
		if err != bufio.ErrBufferFull {
			return line, err
		}
	}
}

func confine(l Limits) error {
	unix.Umask(0)
	unix.Close(selfFD)
	if err := enterRoot(); err != nil {
		return err
	}
	for res, most := range map[int]uint64{
		unix.RLIMIT_FSIZE: uint64(l.FileBytes), unix.RLIMIT_CORE: 0, unix.RLIMIT_NOFILE: childFiles,
		unix.RLIMIT_AS: childAddress, unix.RLIMIT_CPU: childSeconds,
	} {
		var now unix.Rlimit
		if err := unix.Getrlimit(res, &now); err != nil {
			return fmt.Errorf("limit resource %d: %w", res, err)
		}
		most = min(most, now.Max) // it may be lower already, and cannot be raised
		if err := unix.Setrlimit(res, &unix.Rlimit{Cur: most, Max: most}); err != nil {
			return fmt.Errorf("limit resource %d: %w", res, err)
		}
	}
	return dropPrivileges()
}

// enterRoot makes the folder, which comes as a mount that is attached nowhere,
// the root of a mount namespace that holds nothing else.
func enterRoot() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	if err := unix.MoveMount(rootFD, "", unix.AT_FDCWD, "/", unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return fmt.Errorf("attach the folder: %w", err)
	}
	if err := unix.Fchdir(rootFD); err != nil {
		return fmt.Errorf("enter the folder: %w", err)
	}
	unix.Close(rootFD)
	// The old root ends up on top of the new one and is then taken away.
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("change the root: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("let go of the old root: %w", err)
	}
	return unix.Chdir("/")
}

// dropPrivileges acts on every thread of the process: capabilities belong to
// threads. The Go runtime can do that only where there is no C.
func dropPrivileges() error {
	if _, _, errno := syscall.AllThreadsSyscall6(unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0, 0); errno == unix.ENOTSUP {
		return errors.New("this program was built with cgo; build it with CGO_ENABLED=0")
	} else if errno != 0 {
		return fmt.Errorf("set no-new-privileges: %w", errno)
	}
	const keep = 1<<unix.CAP_CHOWN | 1<<unix.CAP_DAC_OVERRIDE | 1<<unix.CAP_FOWNER | 1<<unix.CAP_FSETID
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	data := [2]unix.CapUserData{{Effective: keep, Permitted: keep}}
	_, _, errno := syscall.AllThreadsSyscall(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&header)), uintptr(unsafe.Pointer(&data)), 0)
	if errno != 0 {
		return fmt.Errorf("drop capabilities: %w", errno)
	}
	return nil
}
