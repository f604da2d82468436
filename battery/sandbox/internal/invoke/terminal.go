package invoke

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"github.com/wallproof/wallproof/battery/sandbox"
)

// endOfInput is what a terminal takes for the end of its input (Ctrl-D).
const endOfInput = 4

// terminal is a pseudo terminal of its own, never the caller's: a command that
// held the user's terminal could type into it.
type terminal struct {
	cmd     sandbox.Command
	runtime *exec.Cmd
	master  *os.File
	slave   *os.File
	output  sync.WaitGroup
	done    chan struct{}
}

func newTerminal(c sandbox.Command, inside bool) (streams, error) {
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("open a terminal: %w", err)
	}
	t := &terminal{cmd: c, master: master, done: make(chan struct{})}
	if t.slave, err = openSlave(master); err != nil {
		master.Close()
		return nil, fmt.Errorf("open a terminal: %w", err)
	}
	// Where there is a terminal inside, that one interprets what is typed, and this
	// one passes it on. The runtime makes it so too, but only after it has started,
	// and what was typed until then would be interpreted twice. Where there is none,
	// this one is the command's: it makes a Ctrl-C an interrupt, which the runtime
	// passes on.
	if inside {
		if err := makeRaw(t.slave); err != nil {
			t.close()
			return nil, fmt.Errorf("set up a terminal: %w", err)
		}
	}
	return t, nil
}

func makeRaw(f *os.File) error {
	conn, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var raw error
	err = conn.Control(func(fd uintptr) { _, raw = term.MakeRaw(int(fd)) })
	return errors.Join(err, raw)
}

// openSlave unlocks and opens the other side by descriptor, so that it does
// not matter what is mounted at /dev/pts.
func openSlave(master *os.File) (*os.File, error) {
	var slave uintptr
	var errno unix.Errno
	conn, err := master.SyscallConn()
	if err != nil {
		return nil, err
	}
	err = conn.Control(func(fd uintptr) {
		if e := unix.IoctlSetPointerInt(int(fd), unix.TIOCSPTLCK, 0); e != nil {
			errno, _ = e.(unix.Errno)
			return
		}
		slave, _, errno = unix.Syscall(unix.SYS_IOCTL, fd, unix.TIOCGPTPEER, unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC)
	})
	if err != nil {
		return nil, err
	}
	if errno != 0 {
		return nil, errno
	}
	return os.NewFile(slave, "terminal"), nil
}

// attach makes the terminal the controlling one of the runtime's exec, so that
// it learns of a new size and passes it on.
func (t *terminal) attach(cmd *exec.Cmd) {
	cmd.Stdin, cmd.Stdout, cmd.Stderr = t.slave, t.slave, t.slave
	cmd.SysProcAttr.Setctty = true
	cmd.SysProcAttr.Ctty = 0
	t.runtime = cmd
}

func (t *terminal) start() {
	t.slave.Close()
	if t.cmd.Stdin != nil {
		go func() {
			io.Copy(t.master, t.cmd.Stdin)
			t.master.Write([]byte{endOfInput})
		}()
	}
	if t.cmd.Resize != nil {
		go t.resize()
	}
	w := t.cmd.Stdout
	if w == nil {
		w = io.Discard
	}
	t.output.Go(func() { drain(w, t.master) }) // ends with EIO once nobody has the other side open
}

// toldAgain is after what times the runtime is told once more of a new size. It
// passes on that the size has changed only from when it listens for that, which on a
// busy machine is after the command was seen at work; a program that is told twice
// finds the size that it knows.
var toldAgain = []time.Duration{200 * time.Millisecond, time.Second, 5 * time.Second}

func (t *terminal) resize() {
	sizes := t.cmd.Resize
	var told int
	var again <-chan time.Time
	for {
		select {
		case <-t.done:
			return
		case s, ok := <-sizes:
			if !ok {
				sizes = nil
				continue
			}
			t.setSize(s)
			told, again = 0, time.After(toldAgain[0])
		case <-again:
			_ = t.runtime.Process.Signal(unix.SIGWINCH) // it may have ended
			if told++; told == len(toldAgain) {
				again = nil
				continue
			}
			again = time.After(toldAgain[told])
		}
	}
}

// setSize may fail only because the terminal is closed already.
func (t *terminal) setSize(s sandbox.Size) {
	conn, err := t.master.SyscallConn()
	if err != nil {
		return
	}
	_ = conn.Control(func(fd uintptr) {
		_ = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Row: s.Rows, Col: s.Cols})
	})
}

func (t *terminal) finish(grace time.Duration) {
	close(t.done)
	waitOrClose(&t.output, grace, []*os.File{t.master})
}

func (t *terminal) close() {
	t.master.Close()
	t.slave.Close()
}
