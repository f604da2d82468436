package gvisor

import (
	"context"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

const (
	runtimeName   = "wallproof-runsc"
	gvisorModule  = "gvisor.dev/gvisor"
	maxRuntimeLog = 64 << 10 // bytes of the runtime's error log that are read
)

// program is the runtime's executable.
type program string

// findRuntime returns the runtime program: path if given, else what RuntimeEnv
// says, else the file beside the running executable.
func findRuntime(path string) (program, error) {
	if path == "" {
		path = os.Getenv(RuntimeEnv)
	}
	if path == "" {
		self, err := os.Executable()
		if err != nil {
			return "", fmt.Errorf("gvisor: find the running executable: %w", err)
		}
		path = filepath.Join(filepath.Dir(self), runtimeName)
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("gvisor: runtime's path: %w", err)
	}
	fi, err := os.Stat(path)
	switch {
	case err != nil:
		return "", fmt.Errorf("gvisor: no runtime: %w; build it with \"make build\", or set %s to where %s is", err, RuntimeEnv, runtimeName)
	case !fi.Mode().IsRegular() || fi.Mode()&0o111 == 0:
		return "", fmt.Errorf("gvisor: %s is not an executable file; set %s to where %s is", path, RuntimeEnv, runtimeName)
	case fi.Mode()&0o001 == 0: // it executes itself again as an id of the sandbox
		return "", fmt.Errorf("gvisor: %s may be executed by root only; run \"chmod 755 %[1]s\"", path)
	}
	return program(path), nil
}

// version is the gVisor module's version that the program was built from, as
// its build information says; no process is started for it.
func (p program) version() string {
	info, err := buildinfo.ReadFile(string(p))
	if err != nil {
		return "unknown"
	}
	for _, m := range info.Deps {
		if m.Path == gvisorModule {
			return strings.TrimPrefix(m.Version, "v")
		}
	}
	return "unknown"
}

func (p program) digest() (string, error) {
	f, err := os.Open(string(p))
	if err != nil {
		return "", fmt.Errorf("gvisor: read the runtime: %w", err)
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", fmt.Errorf("gvisor: read the runtime: %w", err)
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil)), nil
}

// command prepares an invocation. The runtime gets no environment of ours, so
// that nothing of it can be read from the runtime's own /proc/PID/environ, and
// a session of its own, so that Ctrl-C at the terminal ends us and not it.
func (p program) command(args ...string) *exec.Cmd {
	return &exec.Cmd{
		Path:        string(p),
		Args:        append([]string{runtimeName}, args...),
		Env:         []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"},
		Dir:         "/",
		SysProcAttr: &syscall.SysProcAttr{Setsid: true},
	}
}

// run runs a subcommand to its end, killing it when ctx ends. Its standard
// streams are the null device: for run and restore they become the first
// process's.
func (p program) run(ctx context.Context, logFile string, args ...string) error {
	cmd := p.command(append([]string{"--log=" + logFile, "--log-format=json"}, args...)...)
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", p, err)
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
	if said := readRuntimeLog(logFile); said != nil {
		return said
	}
	return err
}

// readRuntimeLog returns the runtime's own words on a failure, nil if it left
// none.
func readRuntimeLog(file string) error {
	f, err := os.Open(file)
	if err != nil {
		return nil
	}
	defer f.Close()
	b, _ := io.ReadAll(io.LimitReader(f, maxRuntimeLog))
	return runtimeError(b)
}
