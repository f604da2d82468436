// Package beside makes attempts while a program of the image runs in the same
// sandbox, and tells what that program did to the ground they stand on.
//
// The program may be hostile, and may be root. What it does is bounded: its output
// is read up to a limit and then left where it is, it is told to end when the
// attempts are over and killed if it does not. What it does is also looked at:
// lines of the probe's protocol on its output, output without end, a full disk,
// processes or descriptors without end, and not ending when told to. An attempt on
// such ground shows nothing, whatever was said of it. A probe that was killed says
// nothing at all, which its reader takes the same way.
package beside

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/probes"
	"golang.org/x/sys/unix"
)

// Bounds on the program.
const (
	settle    = 500 * time.Millisecond // from its start to the first attempt
	least     = 3 * time.Second        // it is looked at no earlier, if it runs as long
	patience  = 5 * time.Second        // from being told to end to being killed
	maxOutput = 16 << 20               // bytes of its output that are read
)

// Run starts the plan's program, makes the attempts of the plan beside it, and
// writes one observation more, with the program's nonce: what became of it. Its
// sign is manifest.SignReached where nothing was disturbed, and
// manifest.SignCrashed where the attempts show nothing.
func Run(ctx context.Context, plan *probes.Plan, r *probes.Runner, w *probes.Writer) error {
	return runOn(ctx, plan, r, w, pressure)
}

// runOn is Run with what tells the state of the ground.
func runOn(ctx context.Context, plan *probes.Plan, r *probes.Runner, w *probes.Writer, ground func() []string) error {
	given := limits()
	p := start(plan.Program)
	p.wait(ctx, settle)
	if err := r.Run(ctx, plan, w); err != nil {
		p.end()
		return err
	}
	p.wait(ctx, time.Until(p.began.Add(least)))
	disturbed := ground()
	if limits() != given {
		disturbed = append(disturbed, "somebody has changed what the probe may use")
	}
	disturbed = append(disturbed, p.end()...)
	return w.Write(report(plan.Program.Nonce, p, disturbed))
}

func report(nonce string, p *program, disturbed []string) manifest.Observation {
	o := manifest.Observation{Side: manifest.SideProbe, Nonce: nonce, Time: time.Now().UTC().Format(probes.TimeFormat), Sign: manifest.SignReached,
		Detail: p.fate(), Millis: time.Since(p.began).Milliseconds()}
	if len(disturbed) > 0 {
		o.Sign, o.Detail = manifest.SignCrashed, strings.Join(disturbed, "; ")
	}
	return o
}

// program is the image's program.
type program struct {
	began  time.Time
	cmd    *exec.Cmd // nil where it could not be started
	failed error
	out    *output
	ended  chan struct{}
	asked  bool  // it ran until it was told to end
	status error // once ended is closed
}

func start(what *probes.Program) *program {
	p := &program{began: time.Now(), out: &output{}, ended: make(chan struct{})}
	if len(what.Argv) == 0 {
		p.failed = errors.New("the image names no program")
		close(p.ended)
		return p
	}
	cmd := &exec.Cmd{Path: find(what.Argv[0], what.Env, what.Dir), Args: what.Argv, Env: what.Env, Dir: what.Dir, SysProcAttr: &syscall.SysProcAttr{Setpgid: true}}
	r, out, err := os.Pipe()
	if err == nil {
		cmd.Stdout, cmd.Stderr = out, out
		err = cmd.Start()
		out.Close()
	}
	if err != nil {
		p.failed = err
		close(p.ended)
		return p
	}
	p.cmd = cmd
	go p.out.read(r)
	go func() { p.status = cmd.Wait(); close(p.ended) }()
	return p
}

// find looks a program up as a shell would, in the folders of the environment
// that it is to run in.
func find(name string, env []string, dir string) string {
	if strings.Contains(name, "/") {
		if !filepath.IsAbs(name) {
			return filepath.Join("/", dir, name)
		}
		return name
	}
	for _, kv := range env {
		list, ok := strings.CutPrefix(kv, "PATH=")
		if !ok {
			continue
		}
		for _, folder := range filepath.SplitList(list) {
			path := filepath.Join("/", folder, name)
			if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
				return path
			}
		}
	}
	return "/" + name
}

// wait waits until the program has ended, at most for a time.
func (p *program) wait(ctx context.Context, most time.Duration) {
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-p.ended:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// end ends the program and tells what it did that no program has to do.
func (p *program) end() (disturbed []string) {
	if p.cmd != nil && !p.over() {
		p.asked = true
		_ = unix.Kill(-p.cmd.Process.Pid, unix.SIGTERM)
		if p.wait(context.Background(), patience); !p.over() {
			disturbed = append(disturbed, "the image's program does not end when it is told to")
		}
	}
	if p.cmd != nil {
		_ = unix.Kill(-p.cmd.Process.Pid, unix.SIGKILL)
	}
	return append(disturbed, p.out.disturbed()...)
}

func (p *program) over() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

func (p *program) fate() string {
	switch {
	case p.failed != nil:
		return "not started: " + p.failed.Error()
	case p.asked:
		return "ran until it was told to end"
	case p.over() && p.status != nil:
		return "ended: " + p.status.Error()
	}
	return "ended by itself"
}

// output is what is known of the program's output. None of it is kept.
type output struct {
	mu     sync.Mutex
	bytes  int
	forged bool
}

// forgery is how a line of the probe's protocol begins.
var forgery = []byte("\n" + probes.LineTag + " ")

// read reads up to the bound. What comes then stays in the pipe, which holds its
// writer up.
func (o *output) read(r io.Reader) {
	buf := make([]byte, 64<<10)
	last := []byte("\n") // the end of what was read before
	for o.size() < maxOutput {
		n, err := r.Read(buf)
		seen := append(last, buf[:n]...)
		o.mu.Lock()
		o.bytes += n
		o.forged = o.forged || bytes.Contains(seen, forgery)
		o.mu.Unlock()
		last = append([]byte(nil), seen[max(0, len(seen)-len(forgery)):]...)
		if err != nil {
			return
		}
	}
}

func (o *output) size() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.bytes
}

func (o *output) disturbed() (out []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.forged {
		out = append(out, "the image's program writes lines of the probe's protocol")
	}
	if o.bytes >= maxOutput {
		out = append(out, fmt.Sprintf("the image's program writes without end: more than %d bytes", maxOutput))
	}
	return out
}
