package host

import (
	"net/netip"
	"strings"
	"testing"
)

// Normalisation is idempotent: what comes out goes in again and is the same
// host. Case and one trailing dot make no difference. A refusal leaves no value.
func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"github.com", "GitHub.com.", "bücher.example", "xn--bcher-kva.example", "127.1", "0x7f.0.0.1",
		"[::ffff:127.0.0.1]", "::1", "fe80::1%eth0", "a..b", "*.x", "a\x00b", "1.2.3.4.5", "xn--foo-.x", "ＡＢＣ.com",
		"\u0130.example", "\u212a.example", "\u2100.example", "faß.de", "xn--fa-hia.de", "\u05d0b.example", "a\u200d.example",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		h, err := Parse(s)
		if err != nil {
			if !h.IsZero() {
				t.Fatalf("refused %q but left %s", s, h)
			}
			return
		}
		again, err := Parse(h.String())
		if err != nil || again != h {
			t.Fatalf("Parse(%q) = %s, which parses to %s, %v", s, h, again, err)
		}
		if h.IsAddr() {
			if h.Addr().Is4In6() || h.Addr().Zone() != "" {
				t.Fatalf("%q gave the address %s", s, h)
			}
			return
		}
		if len(h.Name()) > MaxName || !plain(h.Name()) || strings.HasSuffix(h.Name(), ".") {
			t.Fatalf("%q gave the name %q", s, h.Name())
		}
		for _, other := range []string{h.Name() + ".", strings.ToUpper(h.Name())} {
			if got, err := Parse(other); err != nil || got != h {
				t.Fatalf("%q and %q differ: %s, %v", h.Name(), other, got, err)
			}
		}
	})
}

// A clean path has no empty and no dot segments, and reads back from its
// encoded form.
func FuzzCleanPath(f *testing.F) {
	for _, s := range []string{"/", "/a/../b", "/%2e%2e/x", "//a;b//c/", "/..;/x", "/a%2f..", "/ü%20", "*", "/%25zz", "/a?b#c", "/%3f%23"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		p, err := CleanPath(s)
		if err != nil {
			if p != "" {
				t.Fatalf("refused %q but left %q", s, p)
			}
			return
		}
		if p[0] != '/' || len(p) > 1 && strings.HasSuffix(p, "/") {
			t.Fatalf("CleanPath(%q) = %q", s, p)
		}
		for _, seg := range strings.Split(p[1:], "/") {
			if p != "/" && seg == "" || seg == "." || seg == ".." {
				t.Fatalf("CleanPath(%q) = %q", s, p)
			}
		}
		again, err := CleanPath(EncodePath(p))
		if err != nil || again != p {
			t.Fatalf("CleanPath(%q) = %q, whose encoded form %q gives %q, %v", s, p, EncodePath(p), again, err)
		}
		folded := string(FoldPath(nil, p))
		if twice := string(FoldPath(nil, folded)); twice != folded {
			t.Fatalf("FoldPath(%q) = %q, folded again %q", p, folded, twice)
		}
	})
}

// An address is never public when what it carries is not.
func FuzzClassify(f *testing.F) {
	for _, s := range []string{"::1", "2002:a9fe:a9fe::", "64:ff9b::a00:1", "64:ff9b:1:ffff:ff:ffff:ffff:ffff", "2001::1", "::5efe:a00:1", "8.8.8.8"} {
		b := netip.MustParseAddr(s).As16()
		f.Add(b[:])
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		a, ok := netip.AddrFromSlice(b)
		if !ok {
			return
		}
		c := Classify(a)
		if c.Len() == 0 || c.Layer(0).Addr != a.Unmap() {
			t.Fatalf("Classify(%s) has %d layers", a, c.Len())
		}
		for i := range c.Len() {
			l := c.Layer(i)
			if (l.Class == ClassPublic) == l.Range.IsValid() {
				t.Fatalf("%s is %s in %s", l.Addr, l.Class, l.Range)
			}
			if l.Class != ClassPublic && c.Class == ClassPublic {
				t.Fatalf("Classify(%s) is public, but %s is %s", a, l.Addr, l.Class)
			}
			if l.Range.IsValid() && !l.Range.Contains(l.Addr) {
				t.Fatalf("%s is not in %s", l.Addr, l.Range)
			}
		}
	})
}

// The quick comparison and netip agree on the special range of any address.
func FuzzFind(f *testing.F) {
	for _, r := range SpecialRanges() {
		f.Add(r.Prefix.Addr().AsSlice())
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		a, ok := netip.AddrFromSlice(b)
		if !ok || a.Is4In6() {
			return
		}
		rows := special4
		if a.Is6() {
			rows = special6
		}
		var want *special
		for i := range rows {
			if rows[i].prefix.Contains(a) {
				if want = &rows[i]; want.class == ClassPublic {
					want = nil
				}
				break
			}
		}
		if got := find(a); (got == nil) != (want == nil) || got != nil && got.prefix != want.prefix {
			t.Fatalf("%s: %v, want %v", a, got, want)
		}
	})
}
