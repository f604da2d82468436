package runc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/wallproof/wallproof/battery/sandbox"
	"github.com/wallproof/wallproof/battery/sandbox/internal/bundle"
)

// inherited is how the runtime names the first file that it inherits.
const inherited = "/proc/self/fd/3"

// initPidFile is the file in the bundle with the first process's id.
const initPidFile = "init.pid"

// box is one running sandbox.
type box struct {
	profile Profile
	host    host
	dir     bundle.Dir
	spec    sandbox.Spec
	net     *os.File      // the network namespace, where the runtime cannot enter it by itself
	init    *os.File      // descriptor of the first process (a pidfd); nil when it had ended at once
	execs   atomic.Uint64 // how many commands were run, for the names of files

	ending atomic.Bool // set before the sandbox is ended on purpose
	mu     sync.Mutex  // held while it is taken down
	gone   bool
}

// Start implements sandbox.Driver.
func (d *Driver) Start(ctx context.Context, spec sandbox.Spec) (sandbox.Sandbox, error) {
	h, err := d.host()
	if err != nil {
		return nil, err
	}
	if err := spec.Validate(); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("start %s: %w", spec.ID, err)
	}
	spec.Limits = spec.Limits.WithDefaults()
	dir, err := bundle.Make(d.opts.StateDir, spec.ID)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", spec.ID, err)
	}
	b := &box{profile: d.profile, host: h, dir: dir, spec: spec}
	if err := b.launch(ctx); err != nil {
		if undo := b.Stop(ctx); undo != nil {
			return nil, fmt.Errorf("start %s: %w (and cleaning up failed: %w)", spec.ID, err, undo)
		}
		return nil, fmt.Errorf("start %s: %w", spec.ID, err)
	}
	return b, nil
}

func (b *box) launch(ctx context.Context) error {
	if err := b.openNet(); err != nil {
		return err
	}
	spec, err := b.mountAll()
	if err != nil {
		return err
	}
	if err := b.dir.WriteEtc(spec, b.profile.base(spec)); err != nil {
		return err
	}
	config, err := b.writeConfig(spec)
	if err != nil {
		return err
	}
	defer config.Close()
	pidFile := filepath.Join(b.dir.Bundle(), initPidFile)
	args := []string{b.dir.RootArg(), "run", "--detach", "--bundle=" + b.dir.Bundle(), "--pid-file=" + pidFile, spec.ID}
	if err := b.host.runtime.Run(ctx, bundle.RunOptions{Log: b.dir.Log(), Inherited: []*os.File{config}, Start: b.start}, args...); err != nil {
		return err
	}
	pid, err := readPid(pidFile)
	if err != nil {
		return fmt.Errorf("learn the first process's id: %w", err)
	}
	b.init = openInit(pid, b.dir)
	return b.checkNet(pid)
}

// mountAll makes what is mounted on the host, and returns the spec with its
// mounts' sources as the runtime is to use them.
func (b *box) mountAll() (sandbox.Spec, error) {
	spec, root := b.spec, b.profile.layer(b.spec)
	root.Hosts = bundle.OwnHosts(spec)
	if b.profile.base(spec) == 0 && spec.IDBase != 0 {
		ids, err := bundle.MapNamespace(spec.IDBase)
		if err != nil {
			return spec, err
		}
		defer ids.Close()
		root.IDMap = ids
		if spec.Mounts, err = b.mapMounts(ids); err != nil {
			return spec, err
		}
	}
	if _, err := b.dir.MountRoot(root); err != nil {
		return spec, err
	}
	if b.net != nil {
		if err := allowPing(b.net, spec.IDBase); err != nil {
			return spec, err
		}
		return spec, mountSysfs(b.net, filepath.Join(b.dir.Mounts(), sysfsFolder))
	}
	return spec, nil
}

// mapMounts mounts the sources of the spec's mounts with changed ids, so that
// what the host stores as Spec.IDBase + n belongs to n inside although there is no
// user namespace.
func (b *box) mapMounts(ids *os.File) ([]sandbox.Mount, error) {
	out := make([]sandbox.Mount, len(b.spec.Mounts))
	for i, m := range b.spec.Mounts {
		at := filepath.Join(b.dir.Mounts(), "bind-"+strconv.Itoa(i))
		if err := bundle.MapMount(m.Source, at, ids); err != nil {
			return nil, fmt.Errorf("mount at %s: %w", m.Target, err)
		}
		out[i] = m
		out[i].Source = at
	}
	return out, nil
}

// writeConfig writes the OCI configuration. It holds the first process's
// environment, which may be secret, so it lies in memory, and the bundle has a
// link to where the runtime inherits it.
func (b *box) writeConfig(spec sandbox.Spec) (*os.File, error) {
	config, err := json.Marshal(b.profile.ociSpec(spec, b.dir, b.host))
	if err != nil {
		return nil, fmt.Errorf("write OCI configuration: %w", err)
	}
	if err := os.Symlink(inherited, filepath.Join(b.dir.Bundle(), "config.json")); err != nil {
		return nil, fmt.Errorf("write OCI configuration: %w", err)
	}
	fd, err := unix.MemfdCreate("config.json", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("write OCI configuration: %w", err)
	}
	f := os.NewFile(uintptr(fd), "config.json")
	if _, err := f.Write(config); err != nil {
		f.Close()
		return nil, fmt.Errorf("write OCI configuration: %w", err)
	}
	return f, nil
}

func readPid(file string) (int, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(b)))
}

// openInit returns a descriptor of the sandbox's first process, nil if it has
// ended: then its id may be another's, which is not in the sandbox.
func openInit(pid int, d bundle.Dir) *os.File {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return nil
	}
	if !inCgroup(pid, d.ID()) && !rootedIn(pid, d) {
		unix.Close(fd)
		return nil
	}
	return os.NewFile(uintptr(fd), "pidfd")
}

// running says whether the sandbox's first process is there, without which
// there is no other.
func (b *box) running() bool {
	if b.init == nil {
		return false
	}
	conn, err := b.init.SyscallConn()
	if err != nil {
		return false // it is stopped
	}
	ended := true
	if err := conn.Control(func(fd uintptr) { ended = bundle.Ended(int(fd)) }); err != nil {
		return false
	}
	return !ended
}

// ID implements sandbox.Sandbox.
func (b *box) ID() string { return b.spec.ID }

var errEndedItself = errors.New("its first process is no more, perhaps over the sandbox's limit of memory")

// explain adds to a failure that the sandbox is gone, if it is.
func (b *box) explain(err error) error {
	switch {
	case b.ending.Load():
		return sandbox.ErrEnded
	case b.running():
		return err
	}
	return fmt.Errorf("%w: %w: %w", sandbox.ErrEnded, errEndedItself, err)
}
