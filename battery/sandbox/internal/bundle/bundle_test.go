package bundle

import (
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/wallproof/wallproof/battery/sandbox"
)

func TestDetectCgroupsWhereThereAreNone(t *testing.T) {
	if got := DetectCgroups(t.TempDir()); got != CgroupsNone {
		t.Errorf("found %s in an empty folder", got)
	}
}

func TestRuntimeError(t *testing.T) {
	for in, want := range map[string]string{
		"": "", " \n": "",
		`{"msg":"first","level":"error"}{"msg":"second"}`: "first; second",
		"{\"msg\":\"a\\nb\\n\"}":                          "a b",
		"plain text\n":                                    "plain text",
		`{"level":"error"}`:                               `{"level":"error"}`,
		`{"msg":"step","level":"debug"}{"msg":"hm","level":"warning"}{"msg":"bad","level":"error"}`: "bad",
		`{"msg":"only a step","level":"debug"}`:                                                     "",
		strings.Repeat("x", 2*maxMessage):                                                           strings.Repeat("x", maxMessage),
	} {
		got := ""
		if err := RuntimeError([]byte(in)); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%.40q gave %.80q", in, got)
		}
	}
}

func TestOwner(t *testing.T) {
	me, err := OwnerOf(os.Getpid())
	if err != nil || !me.Alive() {
		t.Fatalf("%+v is not alive, %v", me, err)
	}
	for name, o := range map[string]Owner{
		"nobody": {}, "another start": {PID: me.PID, Start: me.Start + "1", Boot: me.Boot}, "another boot": {PID: me.PID, Start: me.Start, Boot: "x"},
	} {
		if o.Alive() {
			t.Errorf("%s is alive", name)
		}
	}
}

func TestGeneratedHosts(t *testing.T) {
	got := etcContent(sandbox.Spec{Hostname: "h", Hosts: map[string]string{"b": "192.0.2.2", "a": "2001:db8::1"}, DNS: []string{"192.0.2.1"}})
	want := map[string]string{
		"hosts":       "127.0.0.1 localhost\n::1 localhost\n127.0.0.1 h\n2001:db8::1 a\n192.0.2.2 b\n",
		"resolv.conf": "nameserver 192.0.2.1\n", "hostname": "h\n",
	}
	if !maps.Equal(got, want) || len(slices.Compact(slices.Sorted(maps.Keys(got)))) != len(etcFiles) {
		t.Errorf("%q", got)
	}
}

// holdArg makes the test binary wait to be killed.
const holdArg = "wallproof-hold"

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == holdArg {
		for {
			unix.Pause()
		}
	}
	os.Exit(m.Run())
}

func TestKillAll(t *testing.T) {
	const mark = "mark-of-TestKillAll"
	cmd := exec.Command("/proc/self/exe", holdArg, mark)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pid := cmd.Process.Pid
	if got := Parent(pid); got != os.Getpid() {
		t.Errorf("its parent is %d", got)
	}
	if !HasArgs(pid, mark, holdArg) || HasArgs(pid, mark, "other") || HasArgs(pid, "mark") {
		t.Error("its arguments are not told apart")
	}
	find := func() (Processes, error) { return Find(func(p int) bool { return HasArgs(p, mark) }) }
	if found, err := find(); err != nil || len(found) != 1 || Ended(found[0]) {
		t.Errorf("found %v, %v", found, err)
	} else {
		found.Close()
	}
	if err := KillAll(find); err != nil {
		t.Error(err)
	}
	// It is a zombie now, which is found no more.
	if found, err := Find(func(p int) bool { return p == pid }); err != nil || len(found) != 0 {
		t.Errorf("found %v, %v", found, err)
	}
	if err := cmd.Wait(); err == nil || cmd.ProcessState.ExitCode() != -1 {
		t.Errorf("it ended with %v", err)
	}
	if Parent(pid) == os.Getpid() || Parent(0) != 0 {
		t.Error("a process that is gone has a parent")
	}
}
