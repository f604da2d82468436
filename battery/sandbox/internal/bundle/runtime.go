package bundle

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

const (
	// MaxLog is how many bytes of a runtime's log are read.
	MaxLog = 64 << 10
	// maxMessage bounds a runtime's message that goes into an error.
	maxMessage = 2 << 10
)

// Program is the path of an OCI runtime's executable.
type Program string

// Digest is the SHA-256 of the program, as "sha256:…".
func (p Program) Digest() (string, error) {
	f, err := os.Open(string(p))
	if err != nil {
		return "", fmt.Errorf("read the runtime: %w", err)
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", fmt.Errorf("read the runtime: %w", err)
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil)), nil
}

// Command prepares an invocation. The runtime gets no environment of ours, so
// that nothing of it can be read from the runtime's own /proc/PID/environ, and
// a session of its own, so that Ctrl-C at the terminal ends us and not it.
func (p Program) Command(args ...string) *exec.Cmd {
	return &exec.Cmd{
		Path:        string(p),
		Args:        append([]string{filepath.Base(string(p))}, args...),
		Env:         []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"},
		Dir:         "/",
		SysProcAttr: &syscall.SysProcAttr{Setsid: true},
	}
}

// RunOptions say how Run runs the runtime.
type RunOptions struct {
	Log       string                // the file for the runtime's errors
	Inherited []*os.File            // descriptors from 3 on
	Start     func(*exec.Cmd) error // how it is started; nil means (*exec.Cmd).Start
}

// Run runs a subcommand to its end, killing it when ctx ends. Its standard
// streams are the null device: those of a start become the first process's.
func (p Program) Run(ctx context.Context, o RunOptions, args ...string) error {
	cmd := p.Command(append([]string{"--log=" + o.Log, "--log-format=json"}, args...)...)
	cmd.ExtraFiles = o.Inherited
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := p.Start(cmd, o.Start); err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { cmd.Process.Kill() })
	defer stop()
	err := cmd.Wait()
	if ctxErr := ctx.Err(); ctxErr != nil && err != nil {
		return ctxErr
	}
	if err == nil {
		return nil
	}
	if said := readLog(o.Log); said != nil {
		return said
	}
	return err
}

// Start starts a command of the program by start, which may be nil.
func (p Program) Start(cmd *exec.Cmd, start func(*exec.Cmd) error) error {
	if start == nil {
		start = (*exec.Cmd).Start
	}
	if err := start(cmd); err != nil {
		return fmt.Errorf("start %s: %w", p, err)
	}
	return nil
}

// readLog returns the runtime's own words on a failure, nil if it left none.
func readLog(file string) error {
	f, err := os.Open(file)
	if err != nil {
		return nil
	}
	defer f.Close()
	b, _ := io.ReadAll(io.LimitReader(f, MaxLog))
	return RuntimeError(b)
}

// RuntimeError turns a runtime's JSON log, a sequence of objects with the
// members "msg" and "level", into one error of one line. Only failures count;
// what else the log has is left out. It is nil when nothing is left.
func RuntimeError(log []byte) error {
	var msgs []string
	structured := false
	dec := json.NewDecoder(bytes.NewReader(log))
	for {
		var entry struct {
			Msg   string `json:"msg"`
			Level string `json:"level"`
		}
		if err := dec.Decode(&entry); err != nil {
			break
		}
		if entry.Msg == "" {
			continue
		}
		structured = true
		switch entry.Level {
		case "", "error", "fatal", "panic":
			msgs = append(msgs, entry.Msg)
		}
	}
	text := strings.Join(msgs, "; ")
	if text == "" && !structured {
		text = string(log)
	}
	text = strings.Join(strings.Fields(text), " ")
	if text == "" {
		return nil
	}
	if len(text) > maxMessage {
		text = text[:maxMessage]
	}
	return errors.New(strings.ToValidUTF8(text, "?"))
}
