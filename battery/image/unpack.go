package image

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"golang.org/x/sys/unix"
)

// UnpackOptions configure Unpack.
type UnpackOptions struct {
	// Command is the argv prefix that runs UnpackMain in a process of its own,
	// usually the running executable and a hidden command name.
	Command []string
	Limits  Limits
}

// Report is what Unpack found.
type Report struct {
	Entries  int64    `json:"entries"`
	Bytes    int64    `json:"bytes"`    // uncompressed, of all layers
	Skipped  int64    `json:"skipped"`  // entries left out: device nodes
	Examples []string `json:"examples"` // the first of them
	SetID    int64    `json:"setId"`    // files whose set-user-id or set-group-id bit was taken off
	Remapped int64    `json:"remapped"` // entries of an id beyond IDCount, given to nobody
	// Hidden is how many files of lower layers higher ones removed or replaced; Secrets
	// is what was found in them, each with the file's name: a canary by its digest, a key
	// by what it looks like.
	Hidden  int64    `json:"hidden"`
	Secrets []string `json:"secrets,omitempty"`
}

// Unpack writes the image's root file system into the new folder dir, which
// must not exist. Files are owned by IDBase + their id in the image. On an
// error nothing is left.
//
// The layers are read by a process of its own: in a user namespace where root
// is IDBase outside, with a mount namespace that holds nothing but the folder,
// without network, without capabilities beyond those over its own files, and
// with resource limits (see UnpackMain). What that process says is believed
// only about itself: this side compares the compressed bytes with the
// manifest's digests, that side the uncompressed ones with the diff ids.
//
// Left out or changed: device nodes (the sandbox has its own), extended
// attributes, and set-user-id and set-group-id bits of files, which would hand
// the sandbox's ids to users of the host; sandboxes run with no-new-privileges
// and would ignore them.
func Unpack(ctx context.Context, r *Resolved, dir string, o UnpackOptions) (*Report, error) {
	report, err := unpack(ctx, r, dir, o)
	if err != nil {
		return nil, fmt.Errorf("unpack %s: %w", r.Digest, err)
	}
	return report, nil
}

func unpack(ctx context.Context, r *Resolved, dir string, o UnpackOptions) (*Report, error) {
	if len(o.Command) == 0 {
		return nil, errors.New("no command for the unpacking process")
	}
	if _, err := os.Lstat(dir); err == nil {
		return nil, fmt.Errorf("%s exists already", dir)
	}
	job, layers, err := newJob(r, o.Limits.withDefaults())
	if err != nil {
		return nil, err
	}
	// The folder gets its name last, so that a folder of that name is whole.
	tmp, err := os.MkdirTemp(filepath.Dir(dir), ".unpack-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(tmp)
	root := filepath.Join(tmp, "root")
	if err := errors.Join(os.Mkdir(root, 0o755), os.Chmod(root, 0o755), os.Chown(root, IDBase, IDBase)); err != nil {
		return nil, err
	}
	report, err := runChild(ctx, root, job, layers, o.Command)
	if err != nil {
		return nil, err
	}
	return report, os.Rename(root, dir)
}

// job is the first line that the child reads.
type job struct {
	Limits Limits     `json:"limits"`
	Layers []jobLayer `json:"layers"`
}

type jobLayer struct {
	Size   int64  `json:"size"` // compressed
	DiffID string `json:"diffId"`
}

// answer is the one line that the child writes.
type answer struct {
	Report  Report `json:"report"`
	Code    string `json:"code"` // "" or a key of codes
	Message string `json:"message"`
}

// codes are the errors that a caller can tell apart, as the child sends them.
var codes = map[string]error{"limit": ErrLimit, "hostile": ErrHostile, "mismatch": ErrMismatch, "invalid": ErrInvalid}

const (
	maxJob    = 1 << 20
	maxAnswer = 64 << 10
	maxStderr = 4 << 10
)

func newJob(r *Resolved, limits Limits) (job, []v1.Layer, error) {
	layers, err := r.Image.Layers()
	if err != nil {
		return job{}, nil, asRegistryError(err)
	}
	if len(layers) > limits.Layers {
		return job{}, nil, limitError("layers", limits.Layers)
	}
	if len(layers) != len(r.Config.RootFS.DiffIDs) {
		return job{}, nil, fmt.Errorf("%w: %d layers, but %d diff ids", ErrInvalid, len(layers), len(r.Config.RootFS.DiffIDs))
	}
	j := job{Limits: limits, Layers: make([]jobLayer, 0, len(layers))}
	for i, l := range layers {
		size, err := l.Size()
		if err != nil {
			return job{}, nil, asRegistryError(err)
		}
		if size < 0 || size > limits.Bytes {
			return job{}, nil, limitError("bytes", limits.Bytes)
		}
		j.Layers = append(j.Layers, jobLayer{Size: size, DiffID: r.Config.RootFS.DiffIDs[i].String()})
	}
	return j, layers, nil
}

// runChild starts the unpacking process, sends it the layers and reads its
// answer.
func runChild(ctx context.Context, root string, j job, layers []v1.Layer, command []string) (*Report, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	cmd, closeFiles, err := childCommand(ctx, root, command)
	if err != nil {
		return nil, err
	}
	defer closeFiles()
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	var stdout, stderr bytes.Buffer
	cmd.Stdout = &capped{&stdout, maxAnswer}
	cmd.Stderr = &capped{&stderr, maxStderr}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the unpacking process %s in namespaces of its own: %w", command[0], err)
	}
	sendErr := send(stdin, j, layers)
	stdin.Close()
	if sendErr != nil && !errors.Is(sendErr, syscall.EPIPE) {
		cancel() // the layers are no good: nothing of it is wanted
	}
	waitErr := cmd.Wait()
	switch {
	case sendErr != nil && !errors.Is(sendErr, syscall.EPIPE):
		return nil, sendErr
	case ctx.Err() != nil:
		return nil, ctx.Err()
	}
	report, err := readAnswer(stdout.Bytes())
	switch {
	case err != nil:
		return nil, err
	case waitErr != nil || report == nil:
		return nil, fmt.Errorf("the unpacking process failed without an answer (%v): %s", waitErr, strings.TrimSpace(stderr.String()))
	case sendErr != nil:
		return nil, fmt.Errorf("the unpacking process stopped reading: %w", sendErr)
	}
	return report, nil
}

func childCommand(ctx context.Context, root string, command []string) (*exec.Cmd, func(), error) {
	path, err := exec.LookPath(command[0])
	if err != nil {
		return nil, nil, err
	}
	// What this process inherited from whoever started it is not for the child.
	if err := unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return nil, nil, fmt.Errorf("keep descriptors from the child: %w", err)
	}
	dir, err := openMount(root)
	if err != nil {
		return nil, nil, fmt.Errorf("open %s as a mount: %w", root, err)
	}
	self, err := openExecutable(path)
	if err != nil {
		dir.Close()
		return nil, nil, err
	}
	// Both are handed over as descriptors: the child's ids may not pass through
	// the folders that lead to them.
	cmd := exec.CommandContext(ctx, "/proc/self/fd/4")
	cmd.Args = command
	cmd.Env = []string{"GODEBUG=containermaxprocs=0"} // else its runtime holds files of the host's control groups open
	cmd.Dir = "/"
	cmd.ExtraFiles = []*os.File{dir, self}
	ids := []syscall.SysProcIDMap{{ContainerID: 0, HostID: IDBase, Size: IDCount}}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET |
			syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS,
		UidMappings: ids, GidMappings: ids, GidMappingsEnableSetgroups: true,
		Credential: &syscall.Credential{Uid: 0, Gid: 0}, // also empties the list of groups
		Setsid:     true,
	}
	return cmd, func() { dir.Close(); self.Close() }, nil
}

// openExecutable opens a program so that the child's ids may execute it, in a
// copy in memory where the file's mode would not let them.
func openExecutable(path string) (*os.File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	fi, err := f.Stat()
	if err == nil && fi.Mode()&0o001 != 0 {
		return f, nil
	}
	defer f.Close()
	if err != nil {
		return nil, err
	}
	fd, err := unix.MemfdCreate("wallproof-unpack", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("copy %s into memory: %w", path, err)
	}
	writable := os.NewFile(uintptr(fd), path)
	defer writable.Close()
	if _, err := io.Copy(writable, f); err != nil {
		return nil, fmt.Errorf("copy %s into memory: %w", path, err)
	}
	if err := writable.Chmod(0o555); err != nil {
		return nil, fmt.Errorf("copy %s into memory: %w", path, err)
	}
	// What is open for writing cannot be executed.
	return os.Open(fmt.Sprintf("/proc/self/fd/%d", fd))
}

// openMount makes a mount of a folder that is attached nowhere yet, without
// set-user-id, devices and execution. The child attaches it: in its own mount
// namespace it may not make one of a folder that it got from another.
func openMount(path string) (*os.File, error) {
	fd, err := unix.OpenTree(unix.AT_FDCWD, path, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return nil, err
	}
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV | unix.MOUNT_ATTR_NOEXEC}
	if err := unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH, &attr); err != nil {
		unix.Close(fd)
		return nil, err
	}
	return os.NewFile(uintptr(fd), path), nil
}

// send writes the job and then each layer's compressed bytes, which must have
// the size and digest that the manifest says.
func send(w io.Writer, j job, layers []v1.Layer) error {
	b := bufio.NewWriterSize(w, 1<<20)
	if _, err := b.Write(append(marshal(j), '\n')); err != nil {
		return err
	}
	for i, l := range layers {
		if err := sendLayer(b, l, j.Layers[i].Size); err != nil {
			return fmt.Errorf("layer %d: %w", i, err)
		}
	}
	return b.Flush()
}

func sendLayer(w io.Writer, l v1.Layer, size int64) error {
	digest, err := l.Digest()
	if err != nil {
		return err
	}
	rc, err := l.Compressed()
	if err != nil {
		return asRegistryError(err)
	}
	defer rc.Close()
	h := sha256.New()
	n, err := io.Copy(io.MultiWriter(h, w), io.LimitReader(rc, size))
	if err != nil {
		return asRegistryError(err)
	}
	if n < size {
		return fmt.Errorf("%w: %s ends after %d bytes, the manifest says %d", ErrMismatch, digest, n, size)
	}
	if more, _ := rc.Read(make([]byte, 1)); more > 0 {
		return fmt.Errorf("%w: %s has more than the %d bytes that the manifest says", ErrMismatch, digest, size)
	}
	if got := "sha256:" + hex.EncodeToString(h.Sum(nil)); got != digest.String() {
		return fmt.Errorf("%w: the layer %s is %s", ErrMismatch, digest, got)
	}
	return nil
}

// readAnswer returns nil, nil when there is no answer.
func readAnswer(b []byte) (*Report, error) {
	var a answer
	if len(b) == 0 || json.Unmarshal(b, &a) != nil {
		return nil, nil
	}
	if a.Code == "" && a.Message == "" {
		return &a.Report, nil
	}
	return nil, &childError{is: codes[a.Code], text: oneLine(errors.New(a.Message))}
}

// childError is an error as the child worded it, and what it was.
type childError struct {
	is   error
	text string
}

// Error implements error.
func (e *childError) Error() string { return e.text }

// Unwrap returns the exported error that it is, or nil.
func (e *childError) Unwrap() error { return e.is }

// capped keeps the first n bytes and swallows the rest.
type capped struct {
	w *bytes.Buffer
	n int
}

// Write implements io.Writer.
func (c *capped) Write(p []byte) (int, error) {
	c.w.Write(p[:min(len(p), max(0, c.n-c.w.Len()))])
	return len(p), nil
}
