//go:build e2e

package e2e

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"golang.org/x/sys/unix"
)

// openPTY opens a terminal: what is written to one end is typed at the other.
func openPTY(t *testing.T) (ours, theirs *os.File) {
	t.Helper()
	ours, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ours.Close() })
	n, err := unix.IoctlGetInt(int(ours.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(ours.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	if theirs, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		t.Fatal(err)
	}
	return ours, theirs
}

func resize(t *testing.T, f *os.File, rows, cols uint16) {
	t.Helper()
	if err := unix.IoctlSetWinsize(int(f.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: cols}); err != nil {
		t.Fatal(err)
	}
}

// Test9ExecTerminal: on a terminal the agent has one of its own, of the same
// size; keys arrive inside, Ctrl-C too, and the terminal is put back.
func Test9ExecTerminal(t *testing.T) {
	o := newOutside(t)
	img := actorImage(t, o.ca, v1.Config{})
	ours, theirs := openPTY(t)
	resize(t, ours, 40, 120)
	before, err := unix.IoctlGetTermios(int(theirs.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	cmd := o.command(t, nil, "--image", img, "--policy", writeFile(t, "version: 1\nmode: public\n"), "--", "actor", "tty")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = theirs, theirs, theirs
	cmd.SysProcAttr = &unix.SysProcAttr{Setsid: true, Setctty: true}
	o.start(t, cmd)
	lines := make(chan string, 1024)
	go scanLines(ours, lines)
	i := &interactive{t: t, lines: lines}
	i.expect(lines, "tty 40x120")
	resize(t, ours, 50, 100)
	i.expect(lines, "resized 50x100")
	if _, err := ours.Write([]byte{3}); err != nil { // Ctrl-C
		t.Fatal(err)
	}
	i.expect(lines, "interrupted inside")
	err = cmd.Wait()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 3 {
		t.Errorf("%v, want exit code 3", err)
	}
	after, err := unix.IoctlGetTermios(int(theirs.Fd()), unix.TCGETS)
	if err != nil || after.Lflag != before.Lflag || after.Iflag != before.Iflag || after.Oflag != before.Oflag {
		t.Errorf("the terminal is not as it was: %v", err)
	}
	theirs.Close()
}

// actTTY tells of its terminal until it is interrupted.
func actTTY([]string) error {
	size := func() string {
		w, err := unix.IoctlGetWinsize(0, unix.TIOCGWINSZ)
		if err != nil {
			return err.Error()
		}
		return fmt.Sprintf("%dx%d", w.Row, w.Col)
	}
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, unix.SIGINT, unix.SIGWINCH)
	for deadline := time.Now().Add(time.Minute); strings.HasPrefix(size(), "0x") && time.Now().Before(deadline); {
		time.Sleep(10 * time.Millisecond) // the size comes after the start
	}
	fmt.Println("tty", size())
	for s := range signals {
		if s == unix.SIGINT {
			fmt.Println("interrupted inside")
			return exitCode(3)
		}
		fmt.Println("resized", size())
	}
	return nil
}
