// Package sandbox is the driver interface: what the battery needs of a fabric
// that runs untrusted code. Drivers live in folders below; the battery knows
// none of them by name and gets them from the one explicit list in
// battery/sandbox/drivers. Every driver passes the suite in
// battery/sandbox/conformance.
package sandbox

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"time"
)

// ErrEnded means that a sandbox is no more: it was stopped, or it ended by
// itself, for example over its memory limit.
var ErrEnded = errors.New("the sandbox has ended")

// Driver starts sandboxes of one fabric.
type Driver interface {
	// Describe says what the fabric is and what it can do on this machine. It
	// starts nothing. An error means that the driver cannot be used here, and
	// says what is missing and how to get it.
	Describe(ctx context.Context) (Description, error)
	// Start starts a sandbox whose first process is Spec.Init, and returns once
	// that process runs. When it returns an error nothing is left behind. The
	// sandbox outlives ctx's end only until Stop: when ctx is cancelled while
	// Start runs, nothing is left; afterwards ctx no longer matters.
	Start(ctx context.Context, spec Spec) (Sandbox, error)
}

// Sandbox is one running sandbox.
type Sandbox interface {
	// ID is the sandbox's name on the fabric; it begins with "wallproof-".
	ID() string
	// Exec runs a command inside and waits for it. A non-zero exit is not an
	// error (a signal's is 128 + its number); err is for a command that could not
	// be run or was cut off, ErrEnded among them. When ctx ends or Timeout passes the command and
	// its process group are killed. Neither argv nor environment appears in an
	// argv on the host, but for the command's own where the kernel is shared.
	Exec(ctx context.Context, cmd Command) (exit int, err error)
	// CopyIn writes a file inside.
	// Missing parents are made; the file belongs to Spec.User. An existing file
	// is replaced, an existing link at path is not followed.
	CopyIn(ctx context.Context, path string, mode fs.FileMode, r io.Reader) error
	// Stop ends the sandbox and removes everything it left on the host. It is
	// idempotent.
	Stop(ctx context.Context) error
}

// Snapshotter is the optional second interface of a Driver that checkpoints.
type Snapshotter interface {
	// Checkpoint saves the sandbox's whole state (processes, memory, tmpfs,
	// overlay) into dir. The sandbox goes on when leave is set, else it ends.
	Checkpoint(ctx context.Context, sb Sandbox, dir string, leave bool) error
	// Restore starts a new sandbox from a checkpoint. spec must describe the
	// same root file system and mounts as the one that was saved; id, network
	// namespace and host name may be others. Init and its descendants go on;
	// what Exec started need not.
	Restore(ctx context.Context, spec Spec, dir string) (Sandbox, error)
}

// Description is what a driver says of itself.
type Description struct {
	Name         string            // "gvisor"
	Version      string            // of the runtime
	ConfigDigest string            // "sha256:…" over the isolation configuration
	Facts        map[string]string // e.g. "kernel": "own", "platform": "systrap"
	NetworkModes []string          // policy modes that it can enforce
	Snapshots    bool
}

// Spec describes a sandbox to start.
type Spec struct {
	ID       string            // "wallproof-<run>-<phase>-<name>"; [a-z0-9-], at most 60
	Rootfs   string            // folder with the unpacked image; never written to, every start gets a fresh overlay
	NetNS    string            // path of the network namespace, "" for one with loopback only
	IDBase   uint32            // host id of the rootfs's id 0, as image.Unpack leaves it (image.IDBase); 0 means ids are not shifted
	Env      []string          // the whole environment of Init; nothing of the host's is added; HOME=/ when it names no HOME
	User     User              //
	WorkDir  string            // "" means /
	Hostname string            //
	Mounts   []Mount           //
	Limits   Limits            //
	Init     []string          // argv of the first process; it must exist in Rootfs or Mounts
	DNS      []string          // written to /etc/resolv.conf
	Hosts    map[string]string // name → address, added to /etc/hosts
	OwnHosts bool              // /etc/hosts is a file of the sandbox's own, which root inside can change
	Breaks   Breaks            // empty unless built with the tag "breaks"
}

// User is the numeric user that processes inside run as.
type User struct{ UID, GID uint32 }

// Mount brings a host file or folder into the sandbox. Where Spec.IDBase is set,
// a file of the host's root belongs to nobody inside; one that the sandbox is
// to write must belong to IDBase plus the id inside, or be open to all.
type Mount struct {
	Source   string
	Target   string
	ReadOnly bool
}

// Limits bound a sandbox. Zero means the driver's default, never unlimited.
type Limits struct {
	MemoryBytes int64
	Processes   int64
	DiskBytes   int64
}

// Command is one process inside a running sandbox.
type Command struct {
	Argv    []string
	Env     []string // the whole environment, as Spec.Env
	WorkDir string
	User    *User // nil means the sandbox's own
	Stdin   io.Reader
	Stdout  io.Writer
	Stderr  io.Writer
	TTY     bool          // a terminal of its own: Stdout gets both outputs, Stderr is not used
	Resize  <-chan Size   // with TTY: its sizes; may be nil
	Timeout time.Duration // 0 means none beyond the context's
}

// Size is a terminal's size in characters.
type Size struct{ Rows, Cols uint16 }
