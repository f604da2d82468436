package invoke

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	specs "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"github.com/wallproof/wallproof/battery/sandbox"
)

// fakeEnv makes the test binary a runtime that does what the process it is given
// says.
const fakeEnv = "WALLPROOF_TEST_RUNTIME"

func TestMain(m *testing.M) {
	if os.Getenv(fakeEnv) != "" {
		os.Exit(fakeRuntime())
	}
	os.Exit(m.Run())
}

func fakeRuntime() int {
	var p specs.Process
	in, err := os.Open(ProcessFile)
	if err != nil {
		return 100
	}
	if err := json.NewDecoder(in).Decode(&p); err != nil {
		return 101
	}
	log, err := os.OpenFile(LogFile, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return 102
	}
	switch p.Args[0] {
	case "echo":
		io.Copy(os.Stdout, os.Stdin)
		fmt.Fprint(os.Stderr, strings.Join(p.Env, " "))
		return 7
	case "fail":
		fmt.Fprintln(log, `{"level":"debug","msg":"a step"}`)
		fmt.Fprintln(log, `{"level":"error","msg":"it went wrong"}`)
		return 255
	case "long log":
		fmt.Fprintf(log, "{\"level\":\"debug\",\"msg\":%q}\n", strings.Repeat("x", 300_000)) // more than is kept, or pipes hold
		fmt.Fprintln(log, `{"level":"debug","msg":"exited 5"}`)
		return 5
	case "held open": // the command has ended, and what it left keeps the output open
		fmt.Print("said")
		fmt.Fprintln(log, `{"level":"debug","msg":"exited 9"}`)
		for {
			unix.Pause()
		}
	case "hang":
		fmt.Print("ready")
		for {
			unix.Pause()
		}
	case "late": // listens for a new size only when it is there already
		for w, err := unix.IoctlGetWinsize(0, unix.TIOCGWINSZ); err == nil && w.Row != 50; w, err = unix.IoctlGetWinsize(0, unix.TIOCGWINSZ) {
			time.Sleep(time.Millisecond)
		}
		changed := make(chan os.Signal, 1)
		signal.Notify(changed, unix.SIGWINCH)
		select {
		case <-changed:
		case <-time.After(time.Minute):
			return 9
		}
	case "type": // as many bytes as the terminal is given
		b := make([]byte, len("typed\n")+1)
		io.ReadFull(os.Stdin, b)
		fmt.Printf("%q", b)
	}
	return 0
}

// exited reads the fake runtime's word for it.
func exited(line []byte) (code int, yes bool) {
	n, _ := fmt.Sscanf(string(line), `{"level":"debug","msg":"exited %d"}`, &code)
	return code, n == 1
}

func invocation(what string, c sandbox.Command) *Invocation {
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), fakeEnv+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return &Invocation{
		Runtime: cmd, Process: &specs.Process{Args: []string{what}, Env: []string{"A=1"}}, Command: c, Exited: exited,
		Kill: func(<-chan struct{}) { cmd.Process.Kill() },
	}
}

func TestRun(t *testing.T) {
	big := strings.Repeat("input ", 50_000)
	for what, tt := range map[string]struct {
		in, out, err, log string
		exit              int
	}{
		"echo":      {in: big, out: big, err: "A=1", exit: 7},
		"fail":      {exit: 255, log: "it went wrong"},
		"long log":  {exit: 5},
		"held open": {out: "said", exit: 9},
	} {
		t.Run(what, func(t *testing.T) {
			var out, errs bytes.Buffer
			r, err := invocation(what, sandbox.Command{Stdin: strings.NewReader(tt.in), Stdout: &out, Stderr: &errs}).Run(t.Context())
			if err != nil || r.Exit != tt.exit || out.String() != tt.out || errs.String() != tt.err {
				t.Errorf("%v, %+v, %d bytes, %q", err, r, out.Len(), &errs)
			}
			if log := fmt.Sprint(r.Log); tt.log != "" && log != tt.log || tt.log == "" && r.Log != nil && what != "long log" {
				t.Errorf("log %s", log)
			}
		})
	}
}

// TestTerminalPassesOn: what is typed arrives as it is, its end included, from
// the first moment on; the terminal inside makes of it what it means.
func TestTerminalPassesOn(t *testing.T) {
	var out bytes.Buffer
	x := invocation("type", sandbox.Command{TTY: true, Stdin: strings.NewReader("typed\n"), Stdout: &out})
	x.OwnTerminal = true
	r, err := x.Run(t.Context())
	if err != nil || r.Exit != 0 || out.String() != `"typed\n\x04"` {
		t.Errorf("%v, %+v, %s", err, r, &out)
	}
}

// TestTerminalInterprets: where there is none inside, what is typed is echoed,
// comes by lines, and ends with its end.
func TestTerminalInterprets(t *testing.T) {
	var out bytes.Buffer
	r, err := invocation("type", sandbox.Command{TTY: true, Stdin: strings.NewReader("typed\n"), Stdout: &out}).Run(t.Context())
	if err != nil || r.Exit != 0 || !strings.HasPrefix(out.String(), "typed\r\n") || !strings.Contains(out.String(), `"typed\n`) || strings.Contains(out.String(), `\x04`) {
		t.Errorf("%v, %+v, %s", err, r, &out)
	}
}

// TestTerminalTellsAgain: a runtime that was not listening yet when the size changed
// learns of it all the same.
func TestTerminalTellsAgain(t *testing.T) {
	sizes := make(chan sandbox.Size, 1)
	sizes <- sandbox.Size{Rows: 50, Cols: 100}
	r, err := invocation("late", sandbox.Command{TTY: true, Resize: sizes}).Run(t.Context())
	if err != nil || r.Exit != 0 {
		t.Errorf("%v, exit %d: it was never told", err, r.Exit)
	}
}

func TestCutOff(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	out, w := io.Pipe()
	why := errors.New("enough")
	go func() {
		out.Read(make([]byte, 5))
		cancel(why)
		io.Copy(io.Discard, out)
	}()
	x := invocation("hang", sandbox.Command{Stdout: w})
	if _, err := x.Run(ctx); !errors.Is(err, why) {
		t.Errorf("cut off with %v", err)
	}
	if x.Runtime.ProcessState == nil {
		t.Error("it was not waited for")
	}
}

func TestNotStarted(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	x := invocation("echo", sandbox.Command{})
	x.Extra = []*os.File{w}
	x.Start = func(*exec.Cmd) error { return errors.New("not now") }
	if _, err := x.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "not now") {
		t.Errorf("started: %v", err)
	}
	if _, err := w.Write(nil); !errors.Is(err, os.ErrClosed) {
		t.Errorf("a file that was to be inherited is open: %v", err)
	}
}

func TestDeadline(t *testing.T) {
	ctx, cancel := Deadline(t.Context(), sandbox.Command{Timeout: 1})
	defer cancel()
	<-ctx.Done()
	if err := context.Cause(ctx); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "ran longer than 1ns") {
		t.Errorf("cause %v", err)
	}
	if same, cancel := Deadline(t.Context(), sandbox.Command{}); same != t.Context() {
		t.Error("without a timeout the context is another")
	} else {
		cancel()
	}
}
