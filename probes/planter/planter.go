// Package planter applies a plant.Seed inside a sandbox and holds it. It is
// linked into wallproof-probe only.
package planter

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/wallproof/wallproof/probes/kit"
	"github.com/wallproof/wallproof/probes/plant"
	"golang.org/x/sys/unix"
)

// HoldArgument as the last argument makes wallproof-probe hold until its standard
// input ends, whatever it is called and whatever its other arguments are: that is
// how a planted process carries a name, arguments and an environment.
const HoldArgument = "--wallproof-hold"

// HoldCommand is the argument that makes wallproof-probe a sandbox's first process.
const HoldCommand = "hold"

// Standing is what has been planted. It lasts until Close or the end of the
// process.
type Standing struct {
	mu        sync.Mutex
	planted   int
	failed    []string
	files     []*os.File
	listeners []net.Listener
	processes []*exec.Cmd
	inputs    []io.Closer
	memory    [][]byte
	segments  [][]byte
}

// Plant makes everything that a seed asks for, as far as the sandbox lets it.
func Plant(seed plant.Seed) *Standing {
	s := &Standing{}
	if len(seed.Memory) > 0 || len(seed.Processes) > 0 {
		letTrace()
	}
	owner := int(seed.Owner)
	for _, f := range seed.Files {
		s.count("file "+f.Path, makeFile(f, owner))
	}
	for _, f := range seed.Deleted {
		s.count("deleted file "+f.Path, s.deleted(f, owner))
	}
	for _, m := range seed.Memory {
		s.memory = append(s.memory, []byte(m))
		s.planted++
	}
	for _, k := range seed.Sockets {
		s.count("socket "+k.Name, s.socket(k))
	}
	for _, g := range seed.Segments {
		s.count(fmt.Sprintf("segment %#x", g.Key), s.segment(g))
	}
	for _, q := range seed.Queues {
		s.count("queue "+q.Name, kit.MakeQueue(q.Name, []byte(q.Message)))
	}
	for _, k := range seed.Keys {
		s.count("key "+k.Name, kit.MakeKey(k.Name, []byte(k.Content)))
	}
	for _, p := range seed.Pipes {
		s.count("pipe", s.pipe(p))
	}
	for _, p := range seed.Processes {
		s.count("process "+p.Name, s.process(p, seed.Owner))
	}
	return s
}

// letTrace lets every process of the same user read this one's memory, where a
// kernel lets only ancestors (Yama). It can fail where there is no such rule.
func letTrace() { _ = unix.Prctl(unix.PR_SET_PTRACER, unix.PR_SET_PTRACER_ANY, 0, 0, 0) }

// HoldUntilEOF is what a planted process does.
func HoldUntilEOF(in io.Reader) {
	letTrace()
	_, _ = io.Copy(io.Discard, in)
}

// Ready says what stands.
func (s *Standing) Ready() plant.Ready {
	s.mu.Lock()
	defer s.mu.Unlock()
	return plant.Ready{Ready: true, Planted: s.planted, Failed: s.failed}
}

// Close takes down what does not end with the process: sockets and processes.
func (s *Standing) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.listeners {
		l.Close()
	}
	for _, in := range s.inputs {
		in.Close()
	}
	for _, p := range s.processes {
		_ = p.Wait() // it was told to end; how it did is of no interest
	}
	for _, b := range s.segments {
		_ = unix.SysvShmDetach(b)
	}
}

func (s *Standing) count(what string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.failed = append(s.failed, what+": "+err.Error())
		return
	}
	s.planted++
}

func makeFile(f plant.File, owner int) error {
	out, err := create(f, owner)
	if err != nil {
		return err
	}
	return out.Close()
}

// create makes a file with its folders, open for reading and writing.
func create(f plant.File, owner int) (*os.File, error) {
	if err := os.MkdirAll(filepath.Dir(f.Path), 0o755); err != nil {
		return nil, err
	}
	mode := fs.FileMode(f.Mode)
	if mode == 0 {
		mode = 0o644
	}
	out, err := os.OpenFile(f.Path, os.O_RDWR|os.O_CREATE|os.O_TRUNC, mode)
	if err != nil {
		return nil, err
	}
	if owner != 0 {
		err = out.Chown(owner, owner)
	}
	if err == nil {
		_, err = out.WriteString(f.Content)
	}
	if err == nil && f.Mode&^0o777 != 0 { // after the writing, which takes a set-user-id bit off
		err = unix.Fchmod(int(out.Fd()), f.Mode&0o7777)
	}
	if err != nil {
		out.Close()
		return nil, err
	}
	return out, nil
}

func (s *Standing) deleted(f plant.File, owner int) error {
	out, err := create(f, owner)
	if err != nil {
		return err
	}
	s.files = append(s.files, out)
	return os.Remove(f.Path)
}

// questionWait is how long a planted socket waits for the question.
const questionWait = time.Second

// socket answers every connection with its text, whatever it was asked.
func (s *Standing) socket(k plant.Socket) error {
	if !strings.HasPrefix(k.Name, "@") {
		if err := os.MkdirAll(filepath.Dir(k.Name), 0o755); err != nil {
			return err
		}
		if err := os.Remove(k.Name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	l, err := net.Listen("unix", k.Name)
	if err != nil {
		return err
	}
	if !strings.HasPrefix(k.Name, "@") {
		if err := os.Chmod(k.Name, 0o666); err != nil {
			l.Close()
			return err
		}
	}
	s.listeners = append(s.listeners, l)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				_ = c.SetDeadline(time.Now().Add(questionWait))
				_, _ = c.Read(make([]byte, 1024))
				_, _ = io.WriteString(c, k.Answer)
			}()
		}
	}()
	return nil
}

func (s *Standing) segment(g plant.Segment) error {
	id, err := unix.SysvShmGet(g.Key, len(g.Content), unix.IPC_CREAT|0o666)
	if err != nil {
		return err
	}
	b, err := unix.SysvShmAttach(id, 0, 0)
	if err != nil {
		return err
	}
	copy(b, g.Content)
	s.segments = append(s.segments, b)
	return nil
}

func (s *Standing) pipe(content string) error {
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	s.files = append(s.files, r, w)
	_, err = w.WriteString(content)
	return err
}

func (s *Standing) process(p plant.Process, owner uint32) error {
	in, err := s.start(p, owner)
	if err != nil {
		return err
	}
	s.inputs = append(s.inputs, in)
	return nil
}

func (s *Standing) start(p plant.Process, owner uint32) (io.Closer, error) {
	cmd := &exec.Cmd{
		Path: "/proc/self/exe",
		Args: append(append([]string{p.Name}, p.Args...), HoldArgument),
		Env:  append([]string{}, p.Env...),
		Dir:  p.Dir,
	}
	if cmd.Dir == "" {
		cmd.Dir = "/"
	}
	if owner != 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: owner, Gid: owner}}
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	// A pipe that nobody reads takes the place of /dev/null, which may be missing.
	r, w, err := os.Pipe()
	if err != nil {
		in.Close()
		return nil, err
	}
	r.Close()
	defer w.Close()
	cmd.Stdout, cmd.Stderr = w, w
	if err := cmd.Start(); err != nil {
		in.Close()
		return nil, err
	}
	s.processes = append(s.processes, cmd)
	return in, nil
}
