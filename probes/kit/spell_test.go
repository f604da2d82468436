package kit

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
)

func TestSpellings(t *testing.T) {
	want := []string{"2852039166", "0xa9fea9fe", "025177524776", "0251.0376.0251.0376", "0xa9.0xfe.0xa9.0xfe", "169.254.43518", "169.16689662", "0xa9.254.0251.254", "169.254.169.254."}
	if got := Spellings("169.254.169.254"); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestInsideIPv6(t *testing.T) {
	want := []string{"[::ffff:169.254.169.254]", "[::ffff:a9fe:a9fe]", "[::169.254.169.254]", "[::a9fe:a9fe]", "[::ffff:0:169.254.169.254]",
		"[64:ff9b::a9fe:a9fe]", "[64:ff9b:1::a9fe:a9fe]", "[2002:a9fe:a9fe::]", "[2001:0:4136:e378:8000:63bf:5601:5601]", "[2001:470:1:1:0:5efe:a9fe:a9fe]"}
	got := append(Mapped("169.254.169.254"), Translated("169.254.169.254")...)
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	for _, f := range got {
		if a, err := netip.ParseAddr(strings.Trim(f, "[]")); err != nil || !a.Is6() {
			t.Errorf("%s: %v", f, err)
		}
	}
	if r := Routable(got); len(r) != len(got)-2 || slices.Contains(r, "[::a9fe:a9fe]") {
		t.Errorf("routable: %q", r)
	}
}

func TestJoinHostPort(t *testing.T) {
	for host, want := range map[string]string{"a.example": "a.example:1", "192.0.2.1": "192.0.2.1:1", "2001:db8::1": "[2001:db8::1]:1", "[::1]": "[::1]:1", "[a.example]": "[a.example]:1"} {
		if got := JoinHostPort(host, 1); got != want {
			t.Errorf("JoinHostPort(%q) = %q", host, got)
		}
	}
}

func TestChecksum(t *testing.T) {
	// The example of RFC 1071 section 3.
	if got := Checksum([]byte{0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7}); got != ^uint16(0xddf2) {
		t.Errorf("%#x", got)
	}
	if got := Checksum([]byte{0x01}); got != ^uint16(0x0100) {
		t.Errorf("odd length: %#x", got)
	}
}
