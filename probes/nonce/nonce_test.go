package nonce

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
)

var key = []byte("0123456789abcdef0123456789abcdef")

// The values are fixed: packets recorded by one version are verified by others.
func TestGolden(t *testing.T) {
	n := New(key, "run", "NET-TCP", "direct-v4", PhaseAttack)
	for _, tt := range []struct{ got, want string }{
		{n, "wcmsxyeugpvccnemvnj7jigke"},
		{Proof(key, n), "28154230336cf332"},
		{Answer(key, n), "wallproof-witness:28154230336cf332"},
		{AddrFor(n, netip.MustParsePrefix("10.0.0.0/8")).String(), "10.54.189.24"},
		{AddrFor(n, netip.MustParsePrefix("2a0d:5600::/32")).String(), "2a0d:5600:5243:3fcb:1368:37eb:7f36:bd18"},
	} {
		if tt.got != tt.want {
			t.Errorf("got %q, want %q", tt.got, tt.want)
		}
	}
}

func TestNewDependsOnEverything(t *testing.T) {
	base := []string{"run", "technique", "variant", PhaseAttack}
	seen := map[string]bool{New(key, base[0], base[1], base[2], base[3]): true}
	for i := range base {
		other := slices.Clone(base)
		other[i] += "x"
		n := New(key, other[0], other[1], other[2], other[3])
		if seen[n] || !Valid(n) {
			t.Errorf("changing part %d gave %q", i, n)
		}
		seen[n] = true
	}
	if n := New([]byte("other key"), base[0], base[1], base[2], base[3]); seen[n] {
		t.Errorf("another key gave %q", n)
	}
	// The parts are separated, so that moving a character between them matters.
	if New(key, "ab", "c", "", "") == New(key, "a", "bc", "", "") {
		t.Error("the parts run together")
	}
}

func TestFind(t *testing.T) {
	a, b := New(key, "1", "", "", ""), New(key, "2", "", "", "")
	for _, tt := range []struct {
		name, in string
		want     []string
	}{
		{"alone", a, []string{a}},
		{"name", a + ".evil.example", []string{a}},
		{"path and header", "GET /wp/echo/" + a + "?x=1 HTTP/1.1\r\nUser-Agent: " + b + "\r\n", []string{a, b}},
		{"repeated", a + " " + a, []string{a}},
		{"mixed case", strings.ToUpper(a), []string{a}},
		{"inside a word", "x" + a, nil},
		{"followed by a digit", a + "7", nil},
		{"cut", a[:Length-1], nil},
		{"wrong alphabet", "w" + strings.Repeat("0", Length-1), nil},
		{"canary", "wpcanary" + strings.Repeat("a", 32), nil},
		{"binary around", "\x00" + a + "\xff", []string{a}},
		{"empty", "", nil},
	} {
		if got := Find([]byte(tt.in)); !slices.Equal(got, tt.want) {
			t.Errorf("%s: Find(%q) = %v, want %v", tt.name, tt.in, got, tt.want)
		}
	}
	var many strings.Builder
	for i := range 2 * maxFound {
		many.WriteString(New(key, fmt.Sprint(i), "", "", "") + " ")
	}
	if got := Find([]byte(many.String())); len(got) != maxFound {
		t.Errorf("found %d nonces, the bound is %d", len(got), maxFound)
	}
}

func TestFindProof(t *testing.T) {
	n := New(key, "1", "", "", "")
	proof := Proof(key, n)
	for in, want := range map[string]string{
		Answer(key, n):                           proof,
		"blocked page\n" + Answer(key, n) + "\n": proof,
		AnswerPrefix + "short":                   "",
		AnswerPrefix + strings.Repeat("x", 16) + " " + Answer(key, n): proof,
		AnswerPrefix + strings.ToUpper(proof):                         onlyIfDigits(proof),
		"":                                                            "",
	} {
		if got := FindProof([]byte(in)); got != want {
			t.Errorf("FindProof(%q) = %q, want %q", in, got, want)
		}
	}
}

// onlyIfDigits is what an upper-cased proof is: itself when it has no letters.
func onlyIfDigits(proof string) string {
	if strings.ToUpper(proof) == proof {
		return proof
	}
	return ""
}

func TestAddrFor(t *testing.T) {
	for _, p := range []string{"10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "169.254.32.0/19", "203.0.113.0/24", "2a0d:5600::/32", "fe80::/64", "ff05::/112", "10.1.2.3/32"} {
		prefix := netip.MustParsePrefix(p)
		seen := map[netip.Addr]bool{}
		for i := range 200 {
			a := AddrFor(New(key, fmt.Sprint(i), "", "", ""), prefix)
			if !prefix.Contains(a) {
				t.Fatalf("%s does not contain %s", prefix, a)
			}
			last := a.As16()[15]
			if prefix.Bits() < prefix.Addr().BitLen() && (last == 0 || last == 255) {
				t.Errorf("%s in %s ends in %d", a, prefix, last)
			}
			seen[a] = true
		}
		if size := prefix.Addr().BitLen() - prefix.Bits(); size > 16 && len(seen) < 190 {
			t.Errorf("%s: 200 nonces have only %d addresses", prefix, len(seen))
		}
	}
}

func FuzzFind(f *testing.F) {
	f.Add("GET /", " HTTP/1.1", "seed")
	f.Add("x.", ".y", "")
	f.Add("\x00", "\xff\xfe", "z")
	f.Fuzz(func(t *testing.T, before, after, seed string) {
		n := New(key, seed, "", "", "")
		got := Find([]byte(before + "/" + n + "/" + after))
		if len(got) < maxFound && !slices.Contains(got, n) {
			t.Fatalf("%q was not found between %q and %q", n, before, after)
		}
		for _, g := range got {
			if !Valid(g) {
				t.Fatalf("%q is no nonce", g)
			}
		}
	})
}

// A nonce survives as a DNS label and in base32's own decoder.
func TestAlphabet(t *testing.T) {
	n := New(key, "1", "", "", "")
	if _, err := base32.StdEncoding.WithPadding(base32.NoPadding).DecodeString(strings.ToUpper(n[1:])); err != nil {
		t.Errorf("%q: %v", n, err)
	}
	if len(n) > 63 {
		t.Errorf("%q is no DNS label", n)
	}
}

// TestMAC compares with the standard library: keys shorter than a block, as long, one
// longer, and messages beyond the room that is on the stack.
func TestMAC(t *testing.T) {
	for _, key := range []int{0, 1, 32, 63, 64, 65, 200} {
		for _, size := range []int{0, 1, 55, 64, 255, 256, 257, 5000} {
			k, m := bytes.Repeat([]byte{0x5a}, key), strings.Repeat("m", size)
			want := hmac.New(sha256.New, k)
			want.Write([]byte(m))
			if got := mac(k, m[:size/3], m[size/3:]); !bytes.Equal(got[:], want.Sum(nil)) {
				t.Errorf("key of %d, message of %d bytes: %x", key, size, got)
			}
			if !bytes.Equal(k, bytes.Repeat([]byte{0x5a}, key)) {
				t.Errorf("the key was changed")
			}
		}
	}
}
