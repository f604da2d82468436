package kit

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/probes"
	"github.com/wallproof/wallproof/probes/canary"
	"golang.org/x/sys/unix"
)

func write(t *testing.T, path, content string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func made(name string) string { return canary.Derive([]byte(name)) }

func TestTree(t *testing.T) {
	root := t.TempDir()
	write(t, filepath.Join(root, "a/b/c"), "token "+made("file"))
	write(t, filepath.Join(root, made("name")), "nothing")
	write(t, filepath.Join(root, "probe/x"), made("own"))
	write(t, filepath.Join(root, "big"), strings.Repeat("filler\n", 100000)+made("late"))
	outside := write(t, filepath.Join(t.TempDir(), "x"), made("linked"))
	if err := os.Symlink(filepath.Dir(outside), filepath.Join(root, "folder-link")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/nowhere/"+made("target"), filepath.Join(root, "dangling")); err != nil {
		t.Fatal(err)
	}
	deep := filepath.Join(root, strings.Repeat("d/", maxSearchDepth+3), "x")
	write(t, deep, made("deep"))
	env := testEnv("default")
	env.Facts.Local = probes.Local{ProbeMount: filepath.Join(root, "probe")}
	s := NewSearch(context.Background(), env)
	s.Tree(root)
	o := s.Observation()
	for name, want := range map[string]bool{"file": true, "name": true, "late": true, "target": true, "own": false, "linked": false, "deep": false} {
		if got := contains(o.Obtained, canary.Digest(made(name))); got != want {
			t.Errorf("%s: found %v, want %v", name, got, want)
		}
	}
	if o.Sign != manifest.SignReached {
		t.Errorf("%+v", o)
	}
}

func contains(list []string, s string) bool {
	for _, x := range list {
		if x == s {
			return true
		}
	}
	return false
}

// TestOrLike: a kind of file is found wherever it lies, and counts for its kind alone.
func TestOrLike(t *testing.T) {
	before := every.result
	defer func() { every.result = before }()
	every.result = &Search{places: map[string][]string{"/srv/a/dump.sql": {"one"}, "/srv/a/main.c": {"two"}}}
	sign := func(s string) probes.Attempt {
		return func(context.Context, *probes.Env) manifest.Observation {
			return manifest.Observation{Sign: s, Detail: "usual"}
		}
	}
	for _, tt := range []struct {
		usual string
		kind  string
		want  string
		found []string
	}{
		{manifest.SignAbsent, `\.sql$`, manifest.SignReached, []string{"one"}},
		{manifest.SignAbsent, `\.bak$`, manifest.SignAbsent, nil},
		{manifest.SignReached, `\.sql$`, manifest.SignReached, nil}, // found in its usual place
		{manifest.SignTimeout, `\.sql$`, manifest.SignTimeout, nil},
	} {
		o := OrLike(sign(tt.usual), tt.kind)(t.Context(), testEnv("default"))
		if o.Sign != tt.want || !slices.Equal(o.Obtained, tt.found) {
			t.Errorf("%s, %s: %+v, want %s with %v", tt.usual, tt.kind, o, tt.want, tt.found)
		}
	}
	every.turn <- struct{}{} // somebody looks and does not come to an end
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	if o := OrLike(sign(manifest.SignAbsent), `\.sql$`)(ctx, testEnv("default")); o.Sign != manifest.SignAbsent {
		t.Errorf("without a turn: %+v", o)
	}
	<-every.turn
}

// TestPlaces: of what is found, it is known where.
func TestPlaces(t *testing.T) {
	root := t.TempDir()
	path := write(t, filepath.Join(root, "a/b"), "token "+made("file"))
	named := filepath.Join(root, made("name"))
	write(t, named, "nothing")
	s := NewSearch(t.Context(), testEnv("default"))
	s.places = map[string][]string{}
	s.Tree(root)
	if !slices.Contains(s.places[path], canary.Digest(made("file"))) || !slices.Contains(s.places[named], canary.Digest(made("name"))) || len(s.places) != 2 {
		t.Errorf("places %v", s.places)
	}
}

func TestSearchEnds(t *testing.T) {
	root := t.TempDir()
	write(t, filepath.Join(root, "a"), made("x"))
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	s := NewSearch(ctx, testEnv("default"))
	s.Tree(root)
	if o := s.Observation(); o.Sign != manifest.SignTimeout || len(o.Obtained) > 0 {
		t.Errorf("cut off: %+v", o)
	}
	s = NewSearch(context.Background(), testEnv("default"))
	s.bytes = maxSearchBytes + 1
	s.Tree(root)
	if o := s.Observation(); o.Sign != manifest.SignAbsent {
		t.Errorf("over its bound: %+v", o)
	}
	s = NewSearch(context.Background(), testEnv("default"))
	s.Tree(filepath.Join(root, "missing"))
	if o := s.Observation(); o.Sign != manifest.SignAbsent {
		t.Errorf("missing folder: %+v", o)
	}
}

// A device or pipe that never ends, or never begins, does not hold a search up.
func TestReadHead(t *testing.T) {
	if b, err := ReadHead("/dev/zero", 1000); err != nil || len(b) != 1000 {
		t.Errorf("%d bytes, %v", len(b), err)
	}
	if _, err := ReadHead(filepath.Join(t.TempDir(), "x"), 10); !os.IsNotExist(err) {
		t.Errorf("%v", err)
	}
}

func TestRegions(t *testing.T) {
	got := regions("00400000-00500000 r-xp 00000000 00:1a 5 /bin/x\n" +
		"7f0000000000-7f0000100000 rw-p 00000000 00:00 0\n" +
		"c000000000-c000001000 rw-p 00000000 00:00 0 [heap]\nnonsense\n5-3 rw-p 0 0 0\n")
	want := []region{{0xc000000000, 0xc000001000}, {0x7f0000000000, 0x7f0000100000}}
	if len(got) != 2 || got[0] != want[0] || got[1] != want[1] {
		t.Errorf("%+v", got)
	}
}

// What smaps says to be empty is left out, unless something of it is swapped out
// or in huge pages, which Rss does not count.
func TestRegionsOfSmaps(t *testing.T) {
	got := regions("10000-11000 rw-p 00000000 00:00 0 [heap]\nSize: 4 kB\nRss: 4 kB\nSwap: 0 kB\nVmFlags: rd wr\n" +
		"20000-21000 rw-p 00000000 00:00 0\nRss: 0 kB\nSwap: 0 kB\n" +
		"30000-31000 rw-p 00000000 00:00 0\nRss: 0 kB\nPrivate_Hugetlb: 0 kB\nSwap: 4 kB\n" +
		"40000-41000 rw-p 00000000 00:00 0\nRss: 0 kB\nPrivate_Hugetlb: 2048 kB\n" +
		"50000-51000 r--p 00000000 00:1a 5 /x: y\nRss: 4 kB\n" +
		"60000-61000 rw-p 00000000 00:1a 5 /x: y\nRss: 4 kB\n")
	want := []region{{0x10000, 0x11000}, {0x30000, 0x31000}, {0x40000, 0x41000}, {0x60000, 0x61000}}
	if !slices.Equal(got, want) {
		t.Errorf("%x", got)
	}
}

// A process's memory is read once for all techniques and counts for each; one that
// had no time for it takes none of the others'.
func TestMemoryIsReadOnce(t *testing.T) {
	value := canary.Derive([]byte("held in memory"))
	cmd := exec.Command("sleep", "60")
	cmd.Env = []string{"HELD=" + value} // it lies on the stack
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { cmd.Process.Kill(); cmd.Wait() }()
	dir := fmt.Sprintf("/proc/%d", cmd.Process.Pid)
	late, cancel := context.WithCancel(t.Context())
	cancel()
	NewSearch(late, testEnv("direct-v4")).Memory(dir)
	for i := range 2 {
		s := NewSearch(t.Context(), testEnv("direct-v4"))
		s.Memory(dir)
		if o := s.Observation(); !slices.Contains(o.Obtained, canary.Digest(value)) || o.Bytes == 0 {
			t.Errorf("look %d: %+v", i, o)
		}
	}
	if n := startTime(dir); n == "" || n == "0" {
		t.Errorf("start time %q", n)
	}
}

func TestMountEscapes(t *testing.T) {
	if got := unescape(`/a\040b\134c`); got != `/a b\c` {
		t.Errorf("%q", got)
	}
}

func TestPing(t *testing.T) {
	o := Ping(within(t), testEnv("direct-v4"), netip.MustParseAddr("127.0.0.1"), []byte(testNonce))
	if o.Sign != manifest.SignAnswered || o.Proof != "" {
		t.Errorf("an echo is an answer, and no proof: %+v", o)
	}
}

func TestFastOpen(t *testing.T) {
	got := make(chan string, 1)
	address := serve(t, func(c net.Conn) {
		b := make([]byte, 5)
		io.ReadFull(c, b)
		got <- string(b)
	})
	try := Begin(testEnv("direct-v4"))
	defer try.End()
	if _, err := try.DialFastOpen(within(t), address, []byte("first")); err != nil {
		t.Fatal(err)
	}
	if s := <-got; s != "first" || len(try.local) != 1 {
		t.Errorf("read %q, local %v", s, try.local)
	}
}

func TestQueue(t *testing.T) {
	name := "wallproof-test-" + testNonce
	if err := MakeQueue(name, []byte("message")); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := RemoveQueue(name); err != nil {
			t.Error(err)
		}
	}()
	for range 2 { // reading leaves it as it was
		if b, err := Queue(name); err != nil || string(b) != "message" {
			t.Errorf("%q, %v", b, err)
		}
	}
	if _, err := Queue(name + "-none"); Sign(err).Sign != manifest.SignAbsent {
		t.Errorf("a queue that does not exist: %v", err)
	}
}

func TestSegments(t *testing.T) {
	const key = 0x77707430
	id, err := unix.SysvShmGet(key, 4096, unix.IPC_CREAT|0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.SysvShmCtl(id, unix.IPC_RMID, nil)
	b, err := unix.SysvShmAttach(id, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	copy(b, "token "+made("segment"))
	if err := unix.SysvShmDetach(b); err != nil {
		t.Fatal(err)
	}
	s := NewSearch(context.Background(), testEnv("default"))
	s.Segments(key)
	if o := s.Observation(); !contains(o.Obtained, canary.Digest(made("segment"))) {
		t.Errorf("%+v", o)
	}
}
