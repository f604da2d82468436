package bundle

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

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
