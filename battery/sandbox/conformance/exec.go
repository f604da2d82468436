package conformance

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/wallproof/wallproof/battery/sandbox"
)

func (s *suite) exec(t *testing.T) {
	sb := s.start(t, s.spec("exec"))
	t.Run("streams", func(t *testing.T) {
		in := make([]byte, 300_000) // more than pipes hold
		if _, err := rand.Read(in); err != nil {
			t.Fatal(err)
		}
		r := try(t, sb, func(c *sandbox.Command) { c.Stdin = bytes.NewReader(in) }, "echo", "a b", "", "ü\n\"")
		if r.err != nil || r.exit != 0 || sha256.Sum256([]byte(r.stdout)) != sha256.Sum256(in) || r.stderr != "a b  ü\n\"" {
			t.Errorf("exit %d, %v, %d bytes, stderr %q", r.exit, r.err, len(r.stdout), r.stderr)
		}
	})
	t.Run("no stdin is an empty one", func(t *testing.T) {
		if out := must(t, sb, "echo"); out != "" {
			t.Errorf("read %q", out)
		}
	})
	t.Run("output into a file of the host", func(t *testing.T) {
		f, err := os.Create(filepath.Join(t.TempDir(), "out"))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.WriteString("before "); err != nil {
			t.Fatal(err)
		}
		mustAs(t, sb, func(c *sandbox.Command) { c.Stdin, c.Stdout = strings.NewReader("after"), f }, "echo")
		if got, err := os.ReadFile(f.Name()); err != nil || string(got) != "before after" {
			t.Errorf("file has %q, %v", got, err)
		}
	})
	t.Run("nothing but the three streams is open", func(t *testing.T) {
		if out := must(t, sb, "descriptors"); out != "0\n1\n2\n" {
			t.Errorf("open: %q", out)
		}
	})
	t.Run("exit codes", func(t *testing.T) {
		for arg, want := range map[string]int{"0": 0, "1": 1, "42": 42, "127": 127, "128": 128, "255": 255, "kill": 137} {
			if r := try(t, sb, nil, "exit", arg); r.err != nil || r.exit != want {
				t.Errorf("exit %s: got %d, %v", arg, r.exit, r.err)
			}
		}
	})
	t.Run("stdin that never ends", func(t *testing.T) {
		in, w := io.Pipe()
		defer w.Close()
		if r := try(t, sb, func(c *sandbox.Command) { c.Stdin = in }, "exit", "3"); r.err != nil || r.exit != 3 {
			t.Errorf("exit %d, %v", r.exit, r.err)
		}
	})
	t.Run("a child that holds the output open", func(t *testing.T) {
		if out := must(t, sb, "leave", "keep"); out != "left" {
			t.Errorf("output %q", out)
		}
	})
	t.Run("a writer that fails", func(t *testing.T) {
		r := try(t, sb, func(c *sandbox.Command) {
			c.Stdin, c.Stdout = bytes.NewReader(make([]byte, 300_000)), failingWriter{}
		}, "echo")
		if r.err != nil || r.exit != 0 {
			t.Errorf("exit %d, %v", r.exit, r.err)
		}
	})
}

type failingWriter struct{}

func (failingWriter) Write([]byte) (int, error) { return 0, errors.New("full") }

func (s *suite) execFailures(t *testing.T) {
	sb := s.start(t, s.spec("fail"))
	for name, c := range map[string]sandbox.Command{
		"no program":     {},
		"missing":        {Argv: []string{"/missing"}},
		"not executable": {Argv: []string{"/etc/passwd"}},
		"missing folder": {Argv: []string{guestPath, "exit", "0"}, WorkDir: "/missing"},
		"bad variable":   {Argv: []string{guestPath, "exit", "0"}, Env: []string{"novalue"}},
	} {
		if exit, err := sb.Exec(t.Context(), c); err == nil {
			t.Errorf("%s: exit %d and no error", name, exit)
		}
	}
	if r := try(t, sb, nil, "exit", "0"); r.err != nil {
		t.Errorf("the sandbox does not work afterwards: %v", r.err)
	}
}

func (s *suite) environment(t *testing.T) {
	t.Setenv("WALLPROOF_TEST_HOST_VARIABLE", "of the host")
	sb := s.start(t, s.spec("env"))
	for name, tt := range map[string]struct{ set, want []string }{
		"exact": {set: []string{"A=1", "B=two words", "C=", "HOME=/x", "D=a=b"}, want: []string{"A=1", "B=two words", "C=", "HOME=/x", "D=a=b"}},
		"empty": {want: []string{"HOME=/"}}, // never the one of the image's password file
	} {
		got := strings.Split(mustAs(t, sb, func(c *sandbox.Command) { c.Env = tt.set }, "env"), "\x00")
		slices.Sort(got) // the order means nothing, and fabrics do not keep it
		slices.Sort(tt.want)
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: environment is %q, want %q", name, got, tt.want)
		}
	}
	init := strings.Split(strings.TrimSuffix(mustAs(t, sb, asRootLike(s.spec("env").User), "read", "/proc/1/environ"), "\x00"), "\x00")
	slices.Sort(init)
	if !slices.Equal(init, slices.Sorted(slices.Values(s.spec("env").Env))) {
		t.Errorf("environment of the first process is %q", init)
	}
}

// asRootLike runs as the given user, for reading what is that user's own.
func asRootLike(u sandbox.User) func(*sandbox.Command) {
	return func(c *sandbox.Command) { c.User = &u }
}

func (s *suite) identity(t *testing.T) {
	spec := s.spec("id")
	spec.WorkDir = "/home/user"
	sb := s.start(t, spec)
	got := must(t, sb, "id")
	for _, want := range []string{"uid=1000 gid=1000 cwd=/home/user host=box\n", "CapEff=0000000000000000\n", "CapPrm=0000000000000000\n", "CapBnd=0000000000000000\n", "NoNewPrivs=1\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("ordinary user: no %q in\n%s", want, got)
		}
	}
	got = mustAs(t, sb, func(c *sandbox.Command) { c.User, c.WorkDir = &sandbox.User{}, "/etc" }, "id")
	for _, want := range []string{"uid=0 gid=0 cwd=/etc host=box\n", "NoNewPrivs=1\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("root: no %q in\n%s", want, got)
		}
	}
	if owner := must(t, sb, "stat", "/etc/passwd"); owner != "-rw-r--r-- 0 0" {
		t.Errorf("a file of the image's root shows as %s", owner)
	}
	mustAs(t, sb, asRoot, "write", "/root/new", "x")
	if r := try(t, sb, nil, "write", "/etc/new", "x"); r.exit == 0 {
		t.Error("an ordinary user wrote to /etc")
	}
}

func (s *suite) terminal(t *testing.T) {
	sb := s.start(t, s.spec("tty"))
	sizes := make(chan sandbox.Size, 1)
	sizes <- sandbox.Size{Rows: 33, Cols: 77}
	out := mustAs(t, sb, func(c *sandbox.Command) {
		c.TTY, c.Resize, c.Stdin = true, sizes, strings.NewReader("typed\n")
	}, "tty", "33x77")
	if !strings.Contains(out, `terminal 33x77, read "typed\n"`) {
		t.Errorf("output %q", out)
	}
	if r := try(t, sb, func(c *sandbox.Command) { c.TTY = true }, "exit", "7"); r.err != nil || r.exit != 7 {
		t.Errorf("exit %d, %v", r.exit, r.err)
	}
}

// argvSecrecy looks at every process of the host while a command with a secret
// in its environment, its arguments and its input runs. Where the kernel is shared
// the command itself is a process of the host; those in other process namespaces
// are left out then.
func (s *suite) argvSecrecy(t *testing.T) {
	const secret = "wpsecret0123456789"
	spec := s.spec("argv")
	spec.Env = append(spec.Env, "TOKEN="+secret)
	sb := s.start(t, spec)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out, w := io.Pipe()
	done := make(chan error, 1)
	go func() {
		_, err := sb.Exec(ctx, sandbox.Command{Argv: []string{guestPath, "sleep", secret}, Env: []string{"TOKEN=" + secret}, Stdout: w})
		done <- err
	}()
	if _, err := out.Read(make([]byte, 5)); err != nil {
		t.Fatal(err)
	}
	desc, err := s.driver.Describe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for pid, line := range cmdlines(t) {
		if strings.Contains(line, secret) && (desc.Facts["kernel"] != "shared" || sameProcesses(t, pid)) {
			t.Errorf("argv of a process on the host: %s", line)
		}
	}
	if env := mustAs(t, sb, func(c *sandbox.Command) { c.Env = []string{"TOKEN=" + secret} }, "env"); !strings.Contains(env, secret) {
		t.Errorf("the secret did not arrive: %q", env)
	}
	go io.Copy(io.Discard, out)
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled exec returned %v", err)
	}
}

func (s *suite) copyIn(t *testing.T) {
	sb := s.start(t, s.spec("copy"))
	big := make([]byte, 1<<20)
	if _, err := rand.Read(big); err != nil {
		t.Fatal(err)
	}
	if err := sb.CopyIn(t.Context(), "/home/user/deep/er/file", 0o640, bytes.NewReader(big)); err != nil {
		t.Fatal(err)
	}
	if got := must(t, sb, "read", "/home/user/deep/er/file"); got != string(big) {
		t.Errorf("%d bytes came out", len(got))
	}
	if got := must(t, sb, "stat", "/home/user/deep/er/file"); got != "-rw-r----- 1000 1000" {
		t.Errorf("file is %s", got)
	}
	broken := io.MultiReader(strings.NewReader("half"), failingReader{})
	if err := sb.CopyIn(t.Context(), "/etc/passwd", fs.FileMode(0o644), broken); err == nil || !strings.Contains(err.Error(), "source broke") {
		t.Errorf("broken source: %v", err)
	}
	if got := must(t, sb, "read", "/etc/passwd"); !strings.HasPrefix(got, "root:") {
		t.Errorf("a broken source left %q", got)
	}
	if err := sb.CopyIn(t.Context(), "/elsewhere", 0o644, strings.NewReader("x")); err == nil {
		t.Error("a folder was replaced by a file")
	}
	if err := sb.CopyIn(t.Context(), "relative", 0o644, strings.NewReader("x")); err == nil {
		t.Error("a relative path was taken")
	}
}

type failingReader struct{}

func (failingReader) Read([]byte) (int, error) { return 0, errors.New("source broke") }
