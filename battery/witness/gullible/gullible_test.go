package gullible

import (
	"net/netip"
	"testing"
)

func TestParse(t *testing.T) {
	tests := []struct {
		in   string
		name string
		addr string
		port uint16
	}{
		{"Evil.Example:8080", "evil.example", "", 8080},
		{"evil.example.", "evil.example", "", 0},
		{"allowed.example@evil.example", "evil.example", "", 0},
		{"allowed.example:443@evil.example:80", "evil.example", "", 80},
		{"evil.example#@allowed.example", "evil.example", "", 0},
		{`evil.example\@allowed.example:443`, "evil.example", "", 443},
		{"evil.example?@allowed.example", "evil.example", "", 0},
		{"evil.example\x00.allowed.example:80", "evil.example", "", 80},
		{"evil.example%00.allowed.example", "evil.example", "", 0},
		{"evil.example\t.allowed.example", "evil.example", "", 0},
		{"evil.example\x0b.allowed.example", "evil.example", "", 0},
		{"%65vil%2eexample", "evil.example", "", 0},
		{"[allowed.example]:443", "allowed.example", "", 443},
		{"ｅvil。example", "evil.example", "", 0},
		{"169.254.169.254:80", "", "169.254.169.254", 80},
		{"2852039166", "", "169.254.169.254", 0},
		{"0xa9fea9fe", "", "169.254.169.254", 0},
		{"0251.0376.0251.0376", "", "169.254.169.254", 0},
		{"169.254.43518", "", "169.254.169.254", 0},
		{"0xa9.254.0251.254.", "", "169.254.169.254", 0},
		{"127.1", "", "127.0.0.1", 0},
		{"0", "", "0.0.0.0", 0},
		{"[::1]:80", "", "::1", 80},
		{"[fe80::1%25eth0]:80", "", "fe80::1", 80},
		{"[::ffff:10.1.2.3]", "", "10.1.2.3", 0},
		{"::1", "", "::1", 0},
		{"１６９.254.169.254", "", "169.254.169.254", 0},
		{"256.1.1.1", "256.1.1.1", "", 0},
		{"1.2.3.4.5", "1.2.3.4.5", "", 0},
		{"4294967296", "4294967296", "", 0},
		{"", "", "", 0},
	}
	for _, tc := range tests {
		h := Parse(tc.in)
		addr := ""
		if h.Addr.IsValid() {
			addr = h.Addr.String()
		}
		if h.Name != tc.name || addr != tc.addr || h.Port != tc.port {
			t.Errorf("Parse(%q) = %+v, want name %q address %q port %d", tc.in, h, tc.name, tc.addr, tc.port)
		}
	}
}

func TestLoopback(t *testing.T) {
	for _, s := range []string{"localhost", "LOCALHOST.", "x.localhost", "127.0.0.1", "127.9.9.9", "0x7f.1", "[::1]:1", "0.0.0.0", "[::]", "[::ffff:127.0.0.1]"} {
		if !Parse(s).Loopback() {
			t.Errorf("%q is not taken for loopback", s)
		}
	}
	for _, s := range []string{"localhost.example", "128.0.0.1", "notlocalhost", "example"} {
		if Parse(s).Loopback() {
			t.Errorf("%q is taken for loopback", s)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"a@b:1", "[::1%25x]:9", "0x7f.1", "%31%32", "ａ.b", "\x00"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		h := Parse(s)
		if h.Addr.IsValid() == (h.Name != "") && h.Name != "" {
			t.Fatalf("%q is both a name and an address: %+v", s, h)
		}
		if h.Addr.IsValid() {
			again := Parse(h.Addr.String())
			if again.Addr != h.Addr {
				t.Fatalf("%q: address %s reads as %+v", s, h.Addr, again)
			}
			if want, err := netip.ParseAddr(s); err == nil && want.Unmap().WithZone("") != h.Addr {
				t.Fatalf("%q reads as %s", s, h.Addr)
			}
		}
	})
}
