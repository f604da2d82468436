package procs

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// fdNamesVar carries the names of Spec.Files, in order, separated by colons.
const fdNamesVar = "WALLPROOF_FDNAMES"

// firstFD is the descriptor of the first of Spec.Files.
const firstFD = 3

// Child is the child's side of Start.
type Child struct {
	files map[string][]*os.File

	mu  sync.Mutex
	out *bufio.Writer
}

// Join is the first thing that a process started by Start calls: it forbids core
// dumps and tracing, takes in the configuration (strictly: unknown keys are
// errors) and the files. It may be called once.
func Join(config any) (*Child, error) {
	if err := harden(); err != nil {
		return nil, err
	}
	files, err := inherited(os.Getenv(fdNamesVar))
	if err != nil {
		return nil, err
	}
	if err := readConfig(os.Stdin, config); err != nil {
		return nil, err
	}
	return &Child{files: files, out: bufio.NewWriter(os.Stdout)}, nil
}

// harden is what Start cannot do from outside, because exec resets it.
func harden() error {
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}); err != nil {
		return fmt.Errorf("forbid core dumps: %w", err)
	}
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("forbid tracing: %w", err)
	}
	return nil
}

func inherited(names string) (map[string][]*os.File, error) {
	files := make(map[string][]*os.File)
	if names == "" {
		return files, nil
	}
	for i, name := range strings.Split(names, ":") {
		if !validFileName(name) || i >= maxFiles {
			return nil, fmt.Errorf("%s holds an invalid name or too many", fdNamesVar)
		}
		fd := firstFD + i
		unix.CloseOnExec(fd)
		if err := pollable(fd); err != nil {
			return nil, fmt.Errorf("inherited file %s: %w", name, err)
		}
		files[name] = append(files[name], os.NewFile(uintptr(fd), name+"#"+strconv.Itoa(fd)))
	}
	return files, nil
}

// pollable makes a socket's reads interruptible by a deadline or by Close, as the
// runtime's poller wants it. Handing it over has made it blocking.
func pollable(fd int) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFSOCK {
		return nil
	}
	return unix.SetNonblock(fd, true)
}

func readConfig(r io.Reader, config any) error {
	b, err := io.ReadAll(io.LimitReader(r, MaxConfig+1))
	if err != nil {
		return fmt.Errorf("read configuration: %w", err)
	}
	if len(b) > MaxConfig {
		return fmt.Errorf("configuration is over the limit of %d bytes", MaxConfig)
	}
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	if err := dec.Decode(config); err != nil {
		return fmt.Errorf("read configuration: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("read configuration: more than one value")
	}
	return nil
}

// Files are the files handed over under name, in order; nil when there are none.
func (c *Child) Files(name string) []*os.File { return c.files[name] }

// Listeners turns the files handed over under name into listeners. The files are
// used up.
func (c *Child) Listeners(name string) ([]net.Listener, error) {
	return takeAll(c, name, net.FileListener)
}

// PacketConns turns the files handed over under name into packet connections;
// for UDP each is a *net.UDPConn. The files are used up.
func (c *Child) PacketConns(name string) ([]net.PacketConn, error) {
	return takeAll(c, name, net.FilePacketConn)
}

func takeAll[T io.Closer](c *Child, name string, open func(*os.File) (T, error)) ([]T, error) {
	files := c.files[name]
	delete(c.files, name)
	var all []T
	var errs []error
	for _, f := range files {
		s, err := open(f)
		if err != nil {
			errs = append(errs, fmt.Errorf("use inherited socket %s: %w", f.Name(), err))
		} else {
			all = append(all, s)
		}
		_ = f.Close()
	}
	if len(errs) > 0 {
		for _, s := range all {
			_ = s.Close()
		}
		return nil, errors.Join(errs...)
	}
	return all, nil
}

// Ready tells the parent that set-up is complete. It is sent once, before any
// event.
func (c *Child) Ready(v any) error { return c.send("ready", v) }

// Event sends one event. It is safe for concurrent use, and blocks while the
// parent does not read.
func (c *Child) Event(v any) error { return c.send("event", v) }

// Fail tells the parent why set-up failed. The process then exits with a status
// other than 0.
func (c *Child) Fail(err error) error { return c.send("error", err.Error()) }

func (c *Child) send(kind string, v any) error {
	b, err := json.Marshal(map[string]any{kind: v})
	if err != nil {
		return fmt.Errorf("encode %s: %w", kind, err)
	}
	if len(b)+1 > MaxLine {
		return fmt.Errorf("%s of %d bytes is over the limit of %d", kind, len(b), MaxLine)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	_, _ = c.out.Write(b)
	_ = c.out.WriteByte('\n')
	if err := c.out.Flush(); err != nil {
		return fmt.Errorf("send %s to the parent: %w", kind, err)
	}
	return nil
}
