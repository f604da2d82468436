package sandbox

import (
	"slices"
	"strings"
	"testing"
)

func good() Spec {
	return Spec{
		ID: "wallproof-00000000-a-work", Rootfs: "/rootfs", NetNS: "/run/netns/x", IDBase: 0x70000000, Env: []string{"A=1", "B="},
		WorkDir: "/w", Hostname: "box-1", Init: []string{"/init"}, DNS: []string{"192.0.2.1", "2001:db8::1"},
		Mounts: []Mount{{Source: "/a", Target: "/b"}}, Hosts: map[string]string{"a_b.example": "192.0.2.1"},
	}
}

func TestSpecValidate(t *testing.T) {
	s := good()
	if err := s.Validate(); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*Spec){
		"id without prefix":     func(s *Spec) { s.ID = "x" },
		"id with a slash":       func(s *Spec) { s.ID = "wallproof-a/b" },
		"id too long":           func(s *Spec) { s.ID = "wallproof-" + strings.Repeat("a", 51) },
		"relative rootfs":       func(s *Spec) { s.Rootfs = "rootfs" },
		"rootfs not clean":      func(s *Spec) { s.Rootfs = "/a/../b" },
		"rootfs with NUL":       func(s *Spec) { s.Rootfs = "/a\x00" },
		"relative namespace":    func(s *Spec) { s.NetNS = "x" },
		"relative folder":       func(s *Spec) { s.WorkDir = "w" },
		"no init":               func(s *Spec) { s.Init = nil },
		"empty init":            func(s *Spec) { s.Init = []string{""} },
		"host name":             func(s *Spec) { s.Hostname = "a b" },
		"negative limit":        func(s *Spec) { s.Limits.DiskBytes = -1 },
		"id base":               func(s *Spec) { s.IDBase = 1 << 31 },
		"too many variables":    func(s *Spec) { s.Env = slices.Repeat([]string{"A=1"}, maxEnv+1) },
		"variable without =":    func(s *Spec) { s.Env = []string{"A"} },
		"variable without name": func(s *Spec) { s.Env = []string{"=1"} },
		"variable with NUL":     func(s *Spec) { s.Env = []string{"A=\x00"} },
		"mount of nothing":      func(s *Spec) { s.Mounts[0].Source = "" },
		"mount over all":        func(s *Spec) { s.Mounts[0].Target = "/" },
		"mount at . ":           func(s *Spec) { s.Mounts[0].Target = "/a/." },
		"two at one place":      func(s *Spec) { s.Mounts = append(s.Mounts, s.Mounts[0]) },
		"name server":           func(s *Spec) { s.DNS = []string{"192.0.2.1\noptions x"} },
		"host entry's name":     func(s *Spec) { s.Hosts = map[string]string{"a b": "192.0.2.1"} },
		"host entry's address":  func(s *Spec) { s.Hosts = map[string]string{"a": "192.0.2.1 b"} },
	} {
		s := good()
		change(&s)
		if err := s.Validate(); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
}

func TestValidateKeepsSecretsToItself(t *testing.T) {
	c := Command{Argv: []string{"x"}, Env: []string{"A=1", "wpsecret"}}
	if err := c.Validate(); err == nil || strings.Contains(err.Error(), "wpsecret") {
		t.Errorf("error %v", err)
	}
}

func TestCommandValidate(t *testing.T) {
	for name, c := range map[string]Command{
		"empty": {}, "no program": {Argv: []string{"", "x"}}, "NUL": {Argv: []string{"a", "b\x00"}},
		"folder": {Argv: []string{"a"}, WorkDir: "x"}, "variable": {Argv: []string{"a"}, Env: []string{"x"}},
	} {
		if c.Validate() == nil {
			t.Errorf("%s: taken", name)
		}
	}
}

func TestDefaults(t *testing.T) {
	if got := (Limits{Processes: 5}).WithDefaults(); got.Processes != 5 || got.MemoryBytes != DefaultLimits.MemoryBytes || got.DiskBytes != DefaultLimits.DiskBytes {
		t.Errorf("limits %+v", got)
	}
	for _, tt := range []struct{ in, want []string }{{nil, []string{"HOME=/"}}, {[]string{"HOME="}, []string{"HOME="}}, {[]string{"XHOME=1"}, []string{"XHOME=1", "HOME=/"}}} {
		if got := WithHome(tt.in); !slices.Equal(got, tt.want) {
			t.Errorf("%q gave %q", tt.in, got)
		}
	}
}
