package procs

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Bounds on what a child may say and on how long it may take.
const (
	MaxLine             = 1 << 20 // bytes of one line on its standard output
	MaxConfig           = 8 << 20 // bytes of its configuration
	maxStderrHead       = 4 << 10 // bytes of standard error kept from the beginning
	maxStderrTail       = 8 << 10 // bytes of standard error kept from the end
	maxFiles            = 512
	defaultReadyTimeout = 30 * time.Second
	defaultStopGrace    = 3 * time.Second
	// lingerAfterExit is how long output is still read after the process has
	// ended, should a descendant of it hold the pipe open.
	lingerAfterExit = 2 * time.Second
)

// Self is the Spec.Path of the running program itself.
const Self = "/proc/self/exe"

// Errors that callers branch on.
var (
	// ErrNotReady: the process ended, or its time ran out, before it was ready.
	ErrNotReady = errors.New("process did not become ready")
	// ErrProtocol: the process wrote something that is no message; it was killed.
	ErrProtocol = errors.New("process broke the message protocol")
	// ErrKilled: Stop had to kill the process because it did not end by itself.
	ErrKilled = errors.New("process had to be killed")
)

// NamedFile is an open file with the name under which a child finds it. Several
// files may share a name: the child gets them in order.
type NamedFile struct {
	Name string // [a-z0-9-]{1,32}
	File *os.File
}

// Spec says what to start.
type Spec struct {
	// Path is the executable: absolute, and the whole path must be open to UID,
	// which a program below /root is not. Self is this very program wherever it
	// lies.
	Path  string
	Argv  []string // as the process sees it; Argv[0] is only a name
	Env   []string // the whole environment; nothing is added but WALLPROOF_FDNAMES
	Dir   string   // working directory, "" means /
	NetNS string   // path of the network namespace, "" for the caller's own
	UID   uint32   // never 0
	GID   uint32   // never 0
	// Namespaces gives the process user, mount, PID, IPC and UTS namespaces of its
	// own. Inside it is user 0 of a user namespace that has no other user, with
	// all capabilities over those namespaces and none over anything else, until it
	// drops them; outside it is UID and GID.
	Namespaces bool
	Files      []NamedFile // descriptors 3, 4, …; stay open in the parent, which closes them

	// Config is marshalled to JSON and written to standard input.
	Config any
	// OnEvent gets each event in order, from one goroutine. While it runs, nothing
	// more is read and the child blocks once its pipe is full: an event is never
	// lost. nil discards events.
	OnEvent func(json.RawMessage)
	// ReadyTimeout is how long the process may take until it is ready; 0 means 10 s.
	ReadyTimeout time.Duration
	// StopGrace is how long Stop waits after SIGTERM; 0 means 3 s.
	StopGrace time.Duration
}

func (s *Spec) check() error {
	switch {
	case !filepath.IsAbs(s.Path):
		return fmt.Errorf("path %q of the executable is not absolute", s.Path)
	case len(s.Argv) == 0:
		return errors.New("argv is empty")
	case s.UID == 0 || s.GID == 0:
		return errors.New("uid and gid must not be 0")
	case len(s.Files) > maxFiles:
		return fmt.Errorf("%d files are more than %d", len(s.Files), maxFiles)
	}
	for _, f := range s.Files {
		if !validFileName(f.Name) || f.File == nil {
			return fmt.Errorf("file name %q is not [a-z0-9-]{1,32}, or its file is nil", f.Name)
		}
	}
	for _, kv := range s.Env {
		if strings.HasPrefix(kv, fdNamesVar+"=") {
			return errors.New("environment must not set " + fdNamesVar)
		}
	}
	return nil
}

func validFileName(s string) bool {
	if len(s) == 0 || len(s) > 32 {
		return false
	}
	for _, c := range []byte(s) {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return false
		}
	}
	return true
}
