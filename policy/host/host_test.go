package host

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	long := strings.Repeat("a", 63)
	for _, c := range []struct{ in, want string }{
		{"github.com", "github.com"},
		{"GitHub.COM", "github.com"},
		{"github.com.", "github.com"},
		{"BÜCHER.example", "xn--bcher-kva.example"},
		{"xn--bcher-kva.example", "xn--bcher-kva.example"},
		{"XN--BCHER-KVA.example.", "xn--bcher-kva.example"},
		{"faß.de", "xn--fa-hia.de"},
		{"ｇｉｔｈｕｂ.com", "github.com"},
		{"github。com", "github.com"},
		{"git\u00adhub.com", "github.com"},
		{"r3---sn-apo3qvuoxuxbt-j5pe.googlevideo.com", "r3---sn-apo3qvuoxuxbt-j5pe.googlevideo.com"},
		{"_dmarc.example.org", "_dmarc.example.org"},
		{"1password.com", "1password.com"},
		{"0xdeadbeef.example", "0xdeadbeef.example"},
		{long + ".example", long + ".example"},
		{"localhost", "localhost"},
		// Every old spelling of an IPv4 address.
		{"127.0.0.1", "127.0.0.1"},
		{"127.0.0.1.", "127.0.0.1"},
		{"127.1", "127.0.0.1"},
		{"127.0.1", "127.0.0.1"},
		{"2130706433", "127.0.0.1"},
		{"0x7f000001", "127.0.0.1"},
		{"0X7F.1", "127.0.0.1"},
		{"017700000001", "127.0.0.1"},
		{"0177.0.0.0x1", "127.0.0.1"},
		{"0xa9fea9fe", "169.254.169.254"},
		{"0251.0376.0251.0376", "169.254.169.254"},
		{"169.254.43518", "169.254.169.254"},
		{"0", "0.0.0.0"},
		{"0x", "0.0.0.0"},
		{"１２７.０.０.１", "127.0.0.1"},
		{"127。0。0。1", "127.0.0.1"},
		{"⑯⑨.254.169.254", "169.254.169.254"},
		// IPv6.
		{"[::1]", "::1"},
		{"::1", "::1"},
		{"[2001:DB8::A]", "2001:db8::a"},
		{"::ffff:127.0.0.1", "127.0.0.1"},
		{"[::ffff:7f00:1]", "127.0.0.1"},
		{"[::127.0.0.1]", "::7f00:1"},
	} {
		h, err := Parse(c.in)
		if err != nil {
			t.Errorf("Parse(%q): %v", c.in, err)
			continue
		}
		if h.String() != c.want {
			t.Errorf("Parse(%q) = %s, want %s", c.in, h, c.want)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for _, c := range []struct {
		in   string
		want Code
	}{
		{"", CodeEmpty},
		{".", CodeEmpty},
		{"a..b", CodeLabel},
		{".example.org", CodeLabel},
		{"example.org..", CodeLabel},
		{"-a.example", CodeLabel},
		{"a-.example", CodeLabel},
		{strings.Repeat("a", 64) + ".example", CodeLabel},
		{strings.Repeat("abcdefgh.", 30) + "example", CodeTooLong},
		{strings.Repeat("a", MaxInput+1), CodeTooLong},
		{"attacker.example\x00.allowed.example", CodeCharacter}, // B5
		{"allowed.example\t", CodeCharacter},
		{"allowed.example\n", CodeCharacter},
		{" allowed.example", CodeCharacter},
		{"allowed%2eexample", CodeCharacter},
		{"allowed@evil.example", CodeCharacter},
		{"evil.example#allowed", CodeCharacter},
		{"evil.example/allowed", CodeCharacter},
		{"evil.example\\allowed", CodeCharacter},
		{"a,b", CodeCharacter},
		{"*.example.org", CodeWildcard},
		{"a\u2100b.example", CodeCharacter}, // maps to "a/c"
		{"xn--foo-.example", CodeIDNA},      // an A-label that is only ASCII
		{"xn--\u00e9.example", CodeIDNA},
		{"\u200d.example", CodeIDNA},
		{"a\xff.example", CodeIDNA},
		{"1.2.3.4.5", CodeAddress},
		{"256.1.1.1", CodeAddress},
		{"1.2.3.256", CodeAddress},
		{"4294967296", CodeAddress},
		{"08.1.1.1", CodeAddress},
		{"foo.0x1", CodeAddress},
		{"foo.1", CodeAddress},
		{"0x1ffffffffffffffffffffff", CodeAddress},
		{"[::1", CodeAddress},
		{"[127.0.0.1]", CodeAddress},
		{"[allowed.example]", CodeAddress}, // B4
		{"fe80::1%eth0", CodeZone},
		{"[fe80::1%25eth0]", CodeZone},
		{"::g", CodeAddress},
	} {
		h, err := Parse(c.in)
		var e *Error
		if !errors.As(err, &e) {
			t.Errorf("Parse(%q) = %s, want %s", c.in, h, c.want)
			continue
		}
		if e.Code != c.want {
			t.Errorf("Parse(%q): code %s (%s), want %s", c.in, e.Code, e.Why, c.want)
		}
		if !h.IsZero() {
			t.Errorf("Parse(%q) left the value %s", c.in, h)
		}
	}
}

func TestParsePattern(t *testing.T) {
	for _, c := range []struct {
		in, want string
		code     Code
	}{
		{"*.Packages.Example.", "*.packages.example", ""},
		{"github.com", "github.com", ""},
		{"*.bücher.example", "*.xn--bcher-kva.example", ""},
		{"0x7f.1", "127.0.0.1", ""},
		{"*", "", CodeWildcard},
		{"*.", "", CodeWildcard},       // B10
		{"www*.com", "", CodeWildcard}, // B11
		{"*.*.com", "", CodeWildcard},  //
		{"a.*.com", "", CodeWildcard},  //
		{"*example.com", "", CodeWildcard},
		{"*.10.0.0.1", "", CodeWildcard}, //
		{"*..com", "", CodeLabel},
	} {
		p, err := ParsePattern(c.in)
		if c.code == "" {
			if err != nil || p.String() != c.want {
				t.Errorf("ParsePattern(%q) = %s, %v; want %s", c.in, p, err, c.want)
			}
			continue
		}
		var e *Error
		if !errors.As(err, &e) || e.Code != c.code {
			t.Errorf("ParsePattern(%q) = %s, %v; want code %s", c.in, p, err, c.code)
		}
	}
}

func TestParseURL(t *testing.T) {
	for _, c := range []struct {
		in, want string
		code     Code
	}{
		{"https://GitHub.com", "https://github.com/", ""},
		{"HTTPS://github.com:443/a?b#c", "https://github.com/a", ""},
		{"http://github.com:8080/", "http://github.com:8080/", ""},
		{"wss://x.example/s", "https://x.example/s", ""},
		{"http://[::1]:80/x", "http://[::1]/x", ""},
		{"http://0x7f.1/", "http://127.0.0.1/", ""},
		{"https://x.example?q", "https://x.example/", ""},
		{"https://x.example#/y", "https://x.example/", ""},
		{"https://allowed@evil.example/", "", CodeUserinfo},
		{"https://evil.example\\@allowed/", "", CodeUserinfo},
		{"https://evil.example\\.allowed/", "", CodeCharacter},
		{"ftp://x.example/", "", CodeScheme},
		{"javascript:alert(1)", "", CodeScheme},
		{"github.com", "", CodeScheme},
		{"https:/github.com", "", CodeScheme},
		{"https:///x", "", CodeEmpty},
		{"https://x.example:0/", "", CodePort},
		{"https://x.example:/", "", CodePort},
		{"https://x.example:65536/", "", CodePort},
		{"https://x.example:0443/", "", CodePort},
		{"https://x.example:443:443/", "", CodePort},
		{"https://[::1]x/", "", CodePort},
		{"https://[x.example]/", "", CodeAddress},
		{" https://x.example/", "", CodeCharacter},
		{"https://x.example/\n", "", CodeCharacter},
		{"https://" + strings.Repeat("a", MaxURL), "", CodeTooLong},
	} {
		u, err := ParseURL(c.in)
		if c.code == "" {
			if err != nil || u.String() != c.want {
				t.Errorf("ParseURL(%q) = %s, %v; want %s", c.in, u, err, c.want)
			}
			continue
		}
		var e *Error
		if !errors.As(err, &e) || e.Code != c.code {
			t.Errorf("ParseURL(%.40q) = %s, %v; want code %s", c.in, u, err, c.code)
		}
	}
}

func TestCleanPath(t *testing.T) {
	for _, c := range []struct {
		in, want string
		code     Code
	}{
		{"/", "/", ""},
		{"", "/", ""},
		{"*", "/", ""},
		{"/a/b", "/a/b", ""},
		{"/a/b/", "/a/b", ""},
		{"/a/b?x=/../c", "/a/b", ""},
		{"//a///b//", "/a/b", ""},
		{"/a/./b", "/a/b", ""},
		{"/a/../b", "/b", ""},
		{"/../../b", "/b", ""},
		{"/a/..", "/", ""},
		{"/a/.", "/a", ""},
		{"/a/%2e%2e/b", "/b", ""},
		{"/a/%2E./b", "/b", ""},
		{"/%70apers/x", "/papers/x", ""},
		{"/@scope%2fname", "/@scope/name", ""},
		{"/.well-known/x", "/.well-known/x", ""},
		{"/..a/b", "/..a/b", ""},
		{"/a;v=1/b", "/a;v=1/b", ""},
		{"/a%20b", "/a b", ""},
		{"/ü", "/ü", ""},
		{"/%C3%BC", "/ü", ""},
		{"/100%25", "/100%", ""},
		{"/a/..;/b", "", CodeAmbiguous},
		{"/a/.;x/b", "", CodeAmbiguous},
		{"/a/%2e%2e;x/b", "", CodeAmbiguous},
		{"/a\\..\\b", "", CodeAmbiguous},
		{"/a/..%5cb", "", CodeAmbiguous},
		{"/a/..%2fb", "", CodeAmbiguous},
		{"/a%2f../b", "", CodeAmbiguous},
		{"/%252e%252e/b", "", CodeAmbiguous},
		{"/a%00b", "", CodeAmbiguous},
		{"/a%0d%0ab", "", CodeAmbiguous},
		{"/a b", "", CodeAmbiguous},
		{"/a#b", "", CodeAmbiguous},
		{"/%c0%af", "", CodeAmbiguous},
		{"/%", "", CodeEscape},
		{"/%2", "", CodeEscape},
		{"/%zz", "", CodeEscape},
		{"a/b", "", CodeAmbiguous},
		{"/" + strings.Repeat("a", MaxPath), "", CodeTooLong},
	} {
		got, err := CleanPath(c.in)
		if c.code == "" {
			if err != nil || got != c.want {
				t.Errorf("CleanPath(%q) = %q, %v; want %q", c.in, got, err, c.want)
			}
			continue
		}
		var e *Error
		if !errors.As(err, &e) || e.Code != c.code || got != "" {
			t.Errorf("CleanPath(%.40q) = %q, %v; want code %s", c.in, got, err, c.code)
		}
	}
}

func TestFoldPath(t *testing.T) {
	for in, want := range map[string]string{
		"/":               "/",
		"/Papers/X":       "/papers/x",
		"/papers;v=1/x":   "/papers/x",
		"/papers./x ":     "/papers/x",
		"/;a/x":           "/x",
		"/\u212aey/ſ":     "/key/s",
		"/;a":             "/",
		"/ÄÖ":             string(FoldPath(nil, "/äö")),
		"/admin.. ;x/../": string(FoldPath(nil, "/admin")),
	} {
		if got := string(FoldPath(nil, in)); got != want {
			t.Errorf("FoldPath(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestHasPrefix(t *testing.T) {
	for _, c := range []struct {
		path, prefix string
		want         bool
	}{
		{"/a/b", "/a", true}, {"/a", "/a", true}, {"/ab", "/a", false}, {"/", "/a", false}, {"/x", "/", true},
	} {
		if got := HasPrefix(c.path, c.prefix); got != c.want {
			t.Errorf("HasPrefix(%q, %q) = %t", c.path, c.prefix, got)
		}
	}
}

func TestClassify(t *testing.T) {
	for _, c := range []struct {
		in   string
		want Class
		form string
	}{
		{"8.8.8.8", ClassPublic, ""},
		{"0.0.0.0", ClassUnspecified, ""},
		{"0.1.2.3", ClassUnspecified, ""},
		{"10.1.2.3", ClassPrivate, ""},
		{"100.64.0.1", ClassCGNAT, ""},
		{"100.128.0.1", ClassPublic, ""},
		{"127.255.255.255", ClassLoopback, ""},
		{"169.254.1.1", ClassLinkLocal, ""},
		{"169.254.169.254", ClassMetadata, ""},
		{"169.254.170.2", ClassMetadata, ""},
		{"100.100.100.200", ClassMetadata, ""},
		{"168.63.129.16", ClassMetadata, ""},
		{"172.15.255.255", ClassPublic, ""},
		{"172.16.0.0", ClassPrivate, ""},
		{"172.31.255.255", ClassPrivate, ""},
		{"172.32.0.0", ClassPublic, ""},
		{"192.0.0.1", ClassReserved, ""},
		{"192.0.2.1", ClassDocumentation, ""},
		{"192.88.99.1", ClassReserved, ""},
		{"192.168.1.5", ClassPrivate, ""},
		{"198.18.0.1", ClassReserved, ""},
		{"198.20.0.1", ClassPublic, ""},
		{"198.51.100.1", ClassDocumentation, ""},
		{"203.0.113.1", ClassDocumentation, ""},
		{"224.0.0.1", ClassMulticast, ""},
		{"240.0.0.1", ClassReserved, ""},
		{"255.255.255.255", ClassBroadcast, ""},
		{"::", ClassUnspecified, ""},
		{"::1", ClassLoopback, ""},
		{"fe80::1", ClassLinkLocal, ""},
		{"fec0::1", ClassPrivate, ""},
		{"fd12::1", ClassPrivate, ""},
		{"fd00:ec2::254", ClassMetadata, ""},
		{"ff02::1", ClassMulticast, ""},
		{"2001:db8::1", ClassDocumentation, ""},
		{"3fff::1", ClassDocumentation, ""},
		{"2001:20::1", ClassReserved, ""},
		{"100::1", ClassReserved, ""},
		{"4000::1", ClassReserved, ""},
		{"9000::1", ClassReserved, ""},
		{"2606:4700::1111", ClassPublic, ""},
		{"2000::1", ClassPublic, ""}, // B13: not 6to4
		{"2003::1", ClassPublic, ""},
		// IPv4 inside IPv6: decoded, then classified.
		{"::ffff:10.0.0.1", ClassPrivate, ""},
		{"::ffff:8.8.8.8", ClassPublic, ""},
		{"::169.254.169.254", ClassMetadata, "compatible"}, // B13
		{"::8.8.8.8", ClassReserved, "compatible"},
		{"::ffff:0:127.0.0.1", ClassLoopback, "translated"},
		{"64:ff9b::8.8.8.8", ClassPublic, "nat64"},
		{"64:ff9b::169.254.169.254", ClassMetadata, "nat64"},
		{"64:ff9b::10.0.0.1", ClassPrivate, "nat64"},
		{"64:ff9b:1::8.8.8.8", ClassPrivate, "nat64"},
		{"64:ff9b:1::169.254.169.254", ClassMetadata, "nat64"},
		{"64:ff9b:1:a9fe:a9:fe00::", ClassMetadata, "nat64"},   // /48
		{"64:ff9b:1:a9:fe:a9fe::", ClassMetadata, "nat64"},     // /56
		{"64:ff9b:1:0:a9:fea9:fe00:0", ClassMetadata, "nat64"}, // /64
		{"2002:a9fe:a9fe::", ClassMetadata, "6to4"},            // B13
		{"2002:7f00:1::1", ClassLoopback, "6to4"},
		{"2002:808:808::1", ClassTunnel, "6to4"},
		{"2001:0:a9fe:a9fe::1", ClassMetadata, "teredo"},
		{"2001:0:808:808::5601:5601", ClassMetadata, "teredo"},
		{"2001:0:808:808::f7f7:f7f7", ClassTunnel, "teredo"},
		{"2606:4700::5efe:10.0.0.1", ClassPrivate, "isatap"},
		{"2606:4700::200:5efe:169.254.169.254", ClassMetadata, "isatap"},
		{"2606:4700::5efe:8.8.8.8", ClassPublic, "isatap"},
	} {
		got := Classify(netip.MustParseAddr(c.in))
		if got.Class != c.want || got.Form != c.form {
			t.Errorf("Classify(%s) = %s %q, want %s %q", c.in, got.Class, got.Form, c.want, c.form)
		}
	}
	if got := Classify(netip.Addr{}); got.Class == ClassPublic {
		t.Error("the zero address is public")
	}
	if got := Classify(netip.MustParseAddr("fe80::1%eth0")); got.Class != ClassLinkLocal {
		t.Errorf("an address with a zone is %s", got.Class)
	}
}

// Every address of every special range is denied, at both ends.
func TestSpecialRangesAreClassified(t *testing.T) {
	if len(SpecialRanges()) < 30 {
		t.Fatalf("only %d ranges", len(SpecialRanges()))
	}
	for _, r := range SpecialRanges() {
		first := r.Prefix.Addr()
		if c := Classify(first); c.Class == ClassPublic {
			t.Errorf("%s, the first of %s, is public", first, r.Prefix)
		}
		for _, rows := range [][]special{special4, special6} {
			for _, s := range rows {
				if s.prefix == r.Prefix {
					hi, lo := halves(first)
					if hi&s.mask[0] != s.base[0] || lo&s.mask[1] != s.base[1] {
						t.Errorf("%s is not found by its mask", r.Prefix)
					}
				}
			}
		}
		if r.Prefix != r.Prefix.Masked() {
			t.Errorf("%s has host bits", r.Prefix)
		}
	}
}

func TestNameClass(t *testing.T) {
	for name, want := range map[string]Class{
		"localhost": ClassLoopback, "a.b.localhost": ClassLoopback, "notlocalhost": ClassPublic,
		"localhost.example": ClassPublic, "metadata.google.internal": ClassMetadata,
		"x.metadata.google.internal": ClassMetadata, "metadata": ClassMetadata, "metadata.example": ClassPublic,
		"instance-data": ClassMetadata, "ip6-localhost": ClassLoopback,
	} {
		if got := NameClass(name); got != want {
			t.Errorf("NameClass(%s) = %s, want %s", name, got, want)
		}
	}
}

func TestParseDoesNotAllocate(t *testing.T) {
	for _, s := range []string{"registry.npmjs.org", "a.b.c.example.org.", "127.0.0.1", "0x7f.1", "2001:db8::1"} {
		if n := testing.AllocsPerRun(100, func() {
			if _, err := Parse(s); err != nil {
				t.Fatal(err)
			}
		}); n != 0 {
			t.Errorf("Parse(%q) allocates %v times", s, n)
		}
	}
	if n := testing.AllocsPerRun(100, func() {
		if _, err := CleanPath("/api/v1/items/42?q=1"); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("CleanPath allocates %v times", n)
	}
}
