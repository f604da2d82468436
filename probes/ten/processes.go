package ten

import (
	"context"
	"fmt"
	"path/filepath"
	"runtime"
	"strconv"

	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/probes"
	"github.com/wallproof/wallproof/probes/kit"
	"golang.org/x/sys/unix"
)

// These attempts lay hands on the neighbour's processes. None of them changes one: a
// signal is the null signal, a trace is ended as soon as it stands, memory and open
// files are read.

// ofForeign tries something on every process of another sandbox.
func ofForeign(what string, try func(pid int) error) manifest.Observation {
	var last error
	list := kit.Foreign()
	for _, pid := range list {
		err := try(pid)
		if err == nil {
			return manifest.Observation{Sign: manifest.SignReached, Detail: "a process of the neighbour's can be " + what}
		}
		last = err
	}
	o := manifest.Observation{Sign: manifest.SignAbsent, Detail: kit.Count(len(list), "process of another sandbox in sight", "processes of other sandboxes in sight")}
	if last != nil {
		o.Detail += ": " + last.Error()
	}
	return o
}

// signal asks whether a signal could be sent (kill(2), signal 0).
func signal(context.Context, *probes.Env) manifest.Observation {
	return ofForeign("signalled", func(pid int) error { return unix.Kill(pid, 0) })
}

// trace attaches without stopping for long, and lets go at once (ptrace(2)).
func trace(ctx context.Context, _ *probes.Env) manifest.Observation {
	done := make(chan manifest.Observation, 1)
	go func() {
		runtime.LockOSThread() // whoever attaches must let go
		defer runtime.UnlockOSThread()
		done <- ofForeign("traced", attach)
	}()
	select {
	case o := <-done:
		return o
	case <-ctx.Done():
		return kit.Sign(ctx.Err())
	}
}

// attach seizes a process and lets it go.
func attach(pid int) error {
	if err := unix.PtraceSeize(pid); err != nil {
		return fmt.Errorf("seize: %w", err)
	}
	if err := unix.PtraceInterrupt(pid); err != nil {
		return nil // it is seized, and goes on when this thread ends
	}
	var status unix.WaitStatus
	for {
		_, err := unix.Wait4(pid, &status, unix.WALL, nil)
		if err == unix.EINTR {
			continue
		}
		break
	}
	_ = unix.PtraceDetach(pid) // it was seized all the same
	return nil
}

// remoteMemory reads memory by process_vm_readv alone, whatever /proc offers.
func remoteMemory(ctx context.Context, env *probes.Env) manifest.Observation {
	return each(ctx, env, (*kit.Search).RemoteMemory)
}

// processHandles opens a descriptor of every other process, and with it the files that
// the process has open (pidfd_open(2), pidfd_getfd(2)).
func processHandles(ctx context.Context, env *probes.Env) manifest.Observation {
	return each(ctx, env, func(s *kit.Search, dir string) {
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil {
			return
		}
		handle, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			s.Miss(err)
			return
		}
		defer unix.Close(handle)
		for n := range maxHandles {
			if !taken(s, handle, n) {
				return
			}
		}
	})
}

// maxHandles is how many of a process's descriptors are asked for: the lowest, which
// are handed out first.
const maxHandles = 64

// taken copies one descriptor and reads what can be read at its beginning. It reports
// whether there is any use in asking for another.
func taken(s *kit.Search, handle, n int) bool {
	fd, err := unix.PidfdGetfd(handle, n, 0)
	switch {
	case err == unix.EBADF:
		return true
	case err != nil:
		s.Miss(err)
		return false
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return true
	}
	buf := make([]byte, 64<<10)
	if k, err := unix.Pread(fd, buf, 0); err == nil && k > 0 {
		s.Bytes(buf[:k])
	}
	return true
}
