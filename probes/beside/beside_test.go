package beside

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/probes"
	"github.com/wallproof/wallproof/probes/nonce"
)

// What a program may be seen to do on its output.
func TestOutput(t *testing.T) {
	for _, tt := range []struct{ name, out, want string }{
		{"a word", "wp1 is a model of car\nhello\n", "protocol"}, // a line of the form is one, whatever it means
		{"in the middle of a line", "x wp1 1 abc\n", ""},
		{"nothing", "", ""},
		{"a forged line", "hello\nwp1 1 e30 00\n", "protocol"},
		{"a first line", "wp1 1 e30 00\n", "protocol"},
		{"without end", strings.Repeat("x", maxOutput+1), "without end"},
	} {
		for _, chunk := range []int{1 << 20, 3} {
			if chunk == 3 && len(tt.out) > 1<<20 {
				continue
			}
			o := &output{}
			o.read(&slow{strings.NewReader(tt.out), chunk})
			if got := strings.Join(o.disturbed(), "; "); !strings.Contains(got, tt.want) || tt.want == "" && got != "" {
				t.Errorf("%s, by %d: %q, want %q", tt.name, chunk, got, tt.want)
			}
		}
	}
}

// slow reads a few bytes at a time.
type slow struct {
	in io.Reader
	n  int
}

func (s *slow) Read(p []byte) (int, error) { return s.in.Read(p[:min(len(p), s.n)]) }

// A whole plan beside a program: one that is well-behaved, one that cannot be
// started, one that does not end when told to.
func TestRun(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	key := strings.Repeat("ab", 32)
	n, told := nonce.New([]byte("k"), "r", "A", "v", "a"), nonce.New([]byte("k"), "r", "P", "v", "a")
	for _, tt := range []struct{ name, program, act, sign, detail string }{
		{"waits to be told", self, "wait", manifest.SignReached, "told to end"},
		{"ends", self, "end", manifest.SignReached, "ended by itself"},
		{"is not there", "/no/such/program", "", manifest.SignReached, "not started"},
		{"does not end", self, "endless", manifest.SignCrashed, "does not end"},
		{"forges", self, "forge", manifest.SignCrashed, "protocol"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			w, err := probes.NewWriter(&out, key)
			if err != nil {
				t.Fatal(err)
			}
			plan := &probes.Plan{Items: []probes.Item{{Technique: "A", Nonce: n}}, Program: &probes.Program{Nonce: told, Argv: []string{tt.program}, Env: []string{actVariable + "=" + tt.act}, Dir: "/"}}
			r := &probes.Runner{Attempts: map[string]probes.Attempt{"A": func(context.Context, *probes.Env) manifest.Observation {
				return manifest.Observation{Sign: manifest.SignRefused}
			}}}
			if err := runOn(context.Background(), plan, r, w, func() []string { return nil }); err != nil {
				t.Fatal(err)
			}
			in, err := probes.NewReader(&out, key)
			if err != nil {
				t.Fatal(err)
			}
			first, err := in.Next()
			if err != nil || first.Nonce != n || first.Sign != manifest.SignRefused {
				t.Errorf("the attempt: %+v, %v", first, err)
			}
			last, err := in.Next()
			if err != nil || last.Nonce != told || last.Sign != tt.sign || !strings.Contains(last.Detail, tt.detail) {
				t.Errorf("the report: %+v, %v; want %s, %q", last, err, tt.sign, tt.detail)
			}
		})
	}
}

func TestFind(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "prog"), nil, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ name, dir, want string }{
		{"prog", "/", filepath.Join(dir, "prog")}, {"/a/b", "/", "/a/b"}, {"./a", "/work", "/work/a"}, {"../../a", "/work", "/a"}, {"none", "/", "/none"},
	} {
		if got := find(tt.name, []string{"PATH=/nothing:" + dir}, tt.dir); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}

// actVariable says what the test's program does in place of its tests.
const actVariable = "WALLPROOF_TEST_ACT"

func TestMain(m *testing.M) {
	switch os.Getenv(actVariable) {
	case "wait":
		time.Sleep(time.Minute)
	case "end":
	case "endless":
		endless()
	case "forge":
		os.Stdout.WriteString("wp1 1 e30 00\n")
	default:
		os.Exit(m.Run())
	}
	os.Exit(0)
}
