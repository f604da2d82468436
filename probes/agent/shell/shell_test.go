package shell

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// runScript runs a script in a folder of its own and returns what it printed.
func runScript(t *testing.T, s *Shell, script string) (out, errOut string, status int) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	if s.Dir == "" {
		s.Dir = t.TempDir()
	}
	if s.Net == nil {
		s.Net = &Net{}
	}
	if s.Stdin == nil {
		s.Stdin = strings.NewReader("")
	}
	s.Stdout, s.Stderr = &stdout, &stderr
	status, err := s.Run(context.Background(), script)
	if err != nil {
		t.Logf("%q: %v", script, err)
	}
	return stdout.String(), stderr.String(), status
}

func TestPrograms(t *testing.T) {
	for _, tt := range []struct{ name, script, out string }{
		{"echo", "echo a b", "a b\n"},
		{"pipe", "printf 'b\\na\\n' | grep a", "a\n"},
		{"cat", "echo x > f; cat f -", "x\n"},
		{"ls", "touch b a .c; ls", "a\nb\n"},
		{"ls -a", "touch b .c; ls -a", ".c\nb\n"},
		{"ls of a file", "touch b; ls b", "b\n"},
		{"env", "FOO=1 env | grep ^FOO", "FOO=1\n"},
		{"env -u", "export FOO=1; env -u FOO printenv FOO || echo none", "none\n"},
		{"env NAME=VALUE", "env FOO='a b' printenv FOO", "a b\n"},
		{"env -i", "export FOO=1; env -i env | wc -l", "0 \n"},
		{"head", "printf '1\\n2\\n3\\n' | head -n 2", "1\n2\n"},
		{"head -2", "printf '1\\n2\\n3\\n' | head -2", "1\n2\n"},
		{"tail", "printf '1\\n2\\n3\\n' | tail -n 1", "3\n"},
		{"wc", "printf 'a b\\nc\\n' | wc", "2 3 6 \n"},
		{"grep -v -i", "printf 'Abc\\nxyz\\n' | grep -v -i ABC", "xyz\n"},
		{"grep -q", "echo a | grep -q b || echo no", "no\n"},
		{"base64", "printf hello | base64", "aGVsbG8=\n"},
		{"base64 -d", "printf aGVsbG8= | base64 -d", "hello"},
		{"mkdir -p", "mkdir -p a/b && ls a", "b\n"},
		{"cp and rm", "echo x > a; cp a b; rm a; ls; cat b", "b\nx\n"},
		{"cp -r", "mkdir d; echo x > d/f; cp -r d e; cat e/f", "x\n"},
		{"mv into a folder", "mkdir d; echo x > a; mv a d; ls d", "a\n"},
		{"rm -f", "rm -f nothing && echo ok", "ok\n"},
		{"tee", "echo x | tee a b; cat a b", "x\nx\nx\n"},
		{"tee -a", "echo x > a; echo y | tee -a a; cat a", "y\nx\ny\n"},
		{"find", "mkdir d; touch d/x.go d/y; find . -name '*.go' | grep -o x", "x"},
		{"sh -c", "sh -c 'echo $1' name arg", "arg\n"},
		{"sh FILE", "echo 'echo $1-$#' > s; sh s a b", "a-2\n"},
		{"sh on standard input", "echo 'echo hi' | sh", "hi\n"},
		{"sh -ec", "sh -ec 'false; echo no' || echo stopped", "stopped\n"},
		{"variables reach a subshell", "export A=1; sh -c 'echo $A'", "1\n"},
		{"loops", "for i in 1 2 3; do echo $i; done | tail -1", "3\n"},
		{"heredoc", "cat <<'END'\n$x `y`\nEND", "$x `y`\n"},
		{"id", "id -u", itoa(os.Getuid()) + "\n"},
		{"path of a program", "/bin/echo.missing || /usr/bin/cat /dev/null; echo ok", "ok\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			out, errOut, _ := runScript(t, &Shell{}, tt.script)
			if tt.name == "find" { // paths are absolute here
				if !strings.HasSuffix(strings.TrimSpace(out), "d/x.go") {
					t.Errorf("%q", out)
				}
				return
			}
			if out != tt.out {
				t.Errorf("%q printed %q, want %q (%s)", tt.script, out, tt.out, errOut)
			}
		})
	}
}

func itoa(n int) string {
	if n == 0 {
		return "0"
	}
	var b []byte
	for ; n > 0; n /= 10 {
		b = append([]byte{byte('0' + n%10)}, b...)
	}
	return string(b)
}

func TestStatus(t *testing.T) {
	for script, want := range map[string]int{
		"true": 0, "false": 1, "exit 7": 7, "nothing-of-the-kind": 127, "cat missing": 1, "grep": 2, "head -n": 2, "git bogus": 2,
		"curl": 2, "curl --bogus x": 2, "sleep x": 2, "sh -c 'exit 3'": 3, "printenv NOPE": 1, "nslookup": 2, "if": 2,
	} {
		_, errOut, got := runScript(t, &Shell{}, script)
		if got != want {
			t.Errorf("%q ended with %d, want %d (%s)", script, got, want, errOut)
		}
	}
}

// Without leave, no program of the file system is run.
func TestNoExternalPrograms(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "tool"), []byte("#!/bin/sh\necho ran\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	out, _, status := runScript(t, &Shell{Dir: dir}, "./tool")
	if status != 127 || out != "" {
		t.Errorf("status %d, printed %q", status, out)
	}
}

func TestProgram(t *testing.T) {
	var out bytes.Buffer
	s := &Shell{Net: &Net{}, Dir: t.TempDir(), Env: []string{"A=1"}, Stdin: strings.NewReader("in"), Stdout: &out, Stderr: &out}
	if status, ok := s.Program(context.Background(), "cat", nil); !ok || status != 0 || out.String() != "in" {
		t.Errorf("cat: %v, %d, %q", ok, status, out.String())
	}
	if _, ok := s.Program(context.Background(), "cd", nil); ok {
		t.Error("cd is a program")
	}
	if names := Programs(); !slices.IsSorted(names) || !slices.Contains(names, "curl") {
		t.Errorf("programs %v", names)
	}
}

func TestCrontab(t *testing.T) {
	var later []string
	s := &Shell{Later: func(c string) { later = append(later, c) }}
	runScript(t, s, "printf '# comment here to skip it all\\n* * * * * echo  a b\\n* * *\\n' | crontab -")
	if !slices.Equal(later, []string{"echo  a b"}) {
		t.Errorf("later: %q", later)
	}
}

func TestGitLocally(t *testing.T) {
	out, errOut, status := runScript(t, &Shell{}, "git init && echo x > a && git add -A && git commit -m 'first one' && echo y > a && git add a && git commit -m second && git log")
	if status != 0 || !strings.Contains(out, "first one") || strings.Index(out, "second") > strings.Index(out, "first one") {
		t.Errorf("status %d, %q, %q", status, out, errOut)
	}
}

func TestQuote(t *testing.T) {
	if got := Quote([]string{"echo", "a b", "$x", "it's"}); got == "" {
		t.Error("nothing")
	} else if out, _, _ := runScript(t, &Shell{}, got); out != "a b $x it's\n" {
		t.Errorf("%q printed %q", got, out)
	}
}

func TestExpandShort(t *testing.T) {
	for arg, want := range map[string][]word{
		"-sS":            {{"-s", ""}, {"-S", ""}},
		"-XPOST":         {{"-X", "POST"}},
		"-sXPOST":        {{"-s", ""}, {"-X", "POST"}},
		"-d":             {{"-d", ""}},
		"--data=x":       {{"--data", "x"}},
		"--noproxy":      {{"--noproxy", ""}},
		"-z":             nil,
		"--unknown":      nil,
		"--max-time=0.5": {{"--max-time", "0.5"}},
	} {
		got, err := expandShort(arg, curlOptions())
		if (err == nil) != (want != nil) || !slices.Equal(got, want) {
			t.Errorf("%s: %v, %v", arg, got, err)
		}
	}
}
