//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// Test8ExecIsATool: exec behaves as a tool does.
func Test8ExecIsATool(t *testing.T) {
	o := newOutside(t)
	img := actorImage(t, o.ca, v1.Config{})
	public := writeFile(t, "version: 1\nmode: public\n")
	base := []string{"--image", img, "--policy", public}
	run := func(t *testing.T, args ...string) result { t.Helper(); return o.exec(t, nil, append(base, args...)...) }

	t.Run("exit codes", func(t *testing.T) {
		for _, tt := range []struct {
			want int
			args []string
			text string
		}{
			{0, []string{"--", "actor", "exit", "0"}, ""},
			{1, []string{"--", "actor", "exit", "1"}, ""},
			{42, []string{"--", "actor", "exit", "42"}, ""},
			{255, []string{"--", "actor", "exit", "255"}, ""},
			{137, []string{"--", "actor", "kill"}, ""},
			{127, []string{"--", "no-such-program"}, "no program no-such-program along PATH=/bin"},
			{127, []string{"--", "/no/such/program"}, "no program /no/such/program"},
			{126, []string{"--", "/etc/passwd"}, "not a program"},
			{1, []string{"--setup", "no-such-program", "--", "actor", "id"}, "the agent was not started"},
			{1, []string{}, "no command given"},
			{1, []string{"--user", "agent", "--", "actor", "id"}, "UID"},
			{1, []string{"--task", "one", "--", "actor", "id"}, "NAME=COMMAND"},
			{1, []string{"--task", "One=actor id", "--", "actor", "id"}, "task name"},
			{1, []string{"--setup", "'", "--", "actor", "id"}, "--setup"},
			{1, []string{"--driver", "none", "--", "actor", "id"}, "gvisor"},
			{1, []string{"--upstream-ca", "/no/such/file", "--", "actor", "id"}, "/no/such/file"},
		} {
			r := run(t, tt.args...)
			if r.code != tt.want || !strings.Contains(r.stderr, tt.text) || strings.Contains(r.stdout, "uid=") || strings.Contains(r.stderr, "goroutine") {
				t.Errorf("%q: want %d and %q: %s", tt.args, tt.want, tt.text, r)
			}
		}
	})
	t.Run("standard input, output and error", func(t *testing.T) {
		cmd := o.command(t, nil, append(base, "--", "actor", "copy")...)
		cmd.Stdin = strings.NewReader(strings.Repeat("x", 1<<20) + "end")
		var stdout, stderr strings.Builder
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		o.start(t, cmd)
		if err := cmd.Wait(); err != nil || stdout.Len() != 1<<20+3 || !strings.HasSuffix(stdout.String(), "end") {
			t.Errorf("%v: %d bytes, %s", err, stdout.Len(), stderr.String())
		}
	})
	t.Run("the agent is an unprivileged user, with a home and a working folder of its own", func(t *testing.T) {
		r := run(t, "--", "actor", "all", "id", ",", "write", "/home/agent/file", "x", ",", "write", "/workspace/file", "x", ",", "write", "/etc/file", "x")
		if r.code == 0 || !strings.Contains(r.stdout, "uid=1000") || !strings.Contains(r.stderr, "/etc/file: permission denied") {
			t.Errorf("%s", r)
		}
		if r := run(t, "--user", "4321:99", "--", "actor", "all", "id", ",", "write", "/home/agent/file", "x"); r.code != 0 || !strings.Contains(r.stdout, "uid=4321 gid=99") {
			t.Errorf("%s", r)
		}
		if r := run(t, "--user", "0", "--", "actor", "id"); r.code != 0 || !strings.Contains(r.stdout, "uid=0") || !strings.Contains(r.stderr, "runs as root") {
			t.Errorf("%s", r)
		}
	})
	t.Run("limits.duration", func(t *testing.T) {
		policy := writeFile(t, "version: 1\nmode: public\nlimits: {duration: 1s}\n")
		r := o.exec(t, nil, "--image", img, "--policy", policy, "--", "actor", "linger", "http://any.example/")
		if r.code != 124 || !strings.Contains(r.stderr, "limits.duration") {
			t.Errorf("%s", r)
		}
	})
	t.Run("the proxy is killed: the run ends and says so, and nothing has gone past it", func(t *testing.T) {
		record := filepath.Join(t.TempDir(), "record.json")
		i := o.interact(t, nil, append(base, "--record", record, "--", "actor", "obey")...)
		i.say("get http://any.example/before")
		i.expect(i.lines, "http://any.example/before 200")
		killProxy(t, i.pid)
		i.expect(i.stderr, "the proxy has ended")
		if err := i.wait(); err == nil {
			t.Error("it ended with exit code 0")
		}
		if rec := readRecord(t, record); rec.Enforcement.State != "failed" || rec.Attestable {
			t.Errorf("%+v", rec)
		}
	})
	t.Run("a full disk", func(t *testing.T) {
		cmd := o.command(t, nil)
		cmd.Path = "/usr/bin/env"
		cmd.Args = append([]string{"env", "unshare", "-m", "sh", "-c", `mount -t tmpfs -o size=1m,mode=755 tmpfs /var/lib/wallproof && exec "$@"`, "sh", filepath.Join(bin(t), "wallproof"), "exec"}, append(base, "--", "actor", "id")...)
		var out strings.Builder
		cmd.Stdout, cmd.Stderr = &out, &out
		o.start(t, cmd)
		err := cmd.Wait()
		if err == nil || !strings.Contains(out.String(), "no space left") || strings.Contains(out.String(), "uid=") {
			t.Errorf("%v\n%s", err, out.String())
		}
	})
	for _, tt := range []struct {
		name string
		sig  syscall.Signal
		args []string
	}{
		{"ctrl-c while the agent runs", syscall.SIGINT, []string{"--task", "one=actor wait task", "--", "actor", "obey"}},
		{"kill while the agent runs", syscall.SIGTERM, []string{"--", "actor", "obey"}},
		{"kill -9 while the agent runs", syscall.SIGKILL, []string{"--task", "one=actor wait task", "--", "actor", "obey"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			i := o.interact(t, nil, append(base, tt.args...)...)
			i.say("id")
			i.expect(i.lines, "uid=1000")
			if err := syscall.Kill(i.pid, tt.sig); err != nil {
				t.Fatal(err)
			}
			if err := i.wait(); err == nil {
				t.Error("it ended with exit code 0")
			}
			if tt.sig == syscall.SIGKILL {
				if r := wallproof(t, "gc"); r.code != 0 || !strings.Contains(r.stdout, "removed") {
					t.Errorf("gc: %s", r)
				}
			}
			if sockets, _ := filepath.Glob("/run/wallproof/*.sock"); len(sockets) > 0 {
				t.Errorf("left behind: %v", sockets)
			}
			for _, f := range leftovers(t) {
				if !strings.Contains(f, "/e2e-") {
					t.Errorf("left behind: %s", f)
				}
			}
		})
	}
}

// killProxy kills the proxy of a run, a child of its process.
func killProxy(t *testing.T, parent int) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for time.Now().Before(deadline) {
		dirs, _ := filepath.Glob("/proc/[0-9]*")
		for _, d := range dirs {
			stat, err1 := os.ReadFile(filepath.Join(d, "stat"))
			cmdline, err2 := os.ReadFile(filepath.Join(d, "cmdline"))
			if err1 != nil || err2 != nil || !strings.Contains(string(cmdline), "internal\x00proxy") {
				continue
			}
			var pid, ppid int
			var state string
			_, rest, _ := strings.Cut(string(stat), ") ")
			_, _ = fmt.Sscan(filepath.Base(d), &pid)
			_, _ = fmt.Sscan(rest, &state, &ppid)
			if ppid == parent {
				if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
					t.Fatal(err)
				}
				return
			}
		}
	}
	t.Fatal("the run has no proxy")
}
