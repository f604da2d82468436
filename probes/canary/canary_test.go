package canary

import (
	"bytes"
	"compress/gzip"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var shape = regexp.MustCompile(`^wpcanary[a-z2-7]{32}$`)

func TestNew(t *testing.T) {
	a, err := New(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	b, err := New(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if a == b || !shape.MatchString(a) || !Valid(a) || len(a) != Length {
		t.Errorf("New gave %q and %q", a, b)
	}
	if _, err := New(strings.NewReader("short")); err == nil {
		t.Error("New took a random source that ends")
	}
}

func TestDerive(t *testing.T) {
	const want = "wpcanarygxkyrllud3ykobld67work6skkffqdve"
	if got := Derive([]byte("seed")); got != want {
		t.Errorf("Derive(seed) = %q, want %q", got, want)
	}
	if Derive([]byte("other")) == want {
		t.Error("two seeds gave one canary")
	}
}

func TestValid(t *testing.T) {
	good := Derive([]byte("x"))
	for name, s := range map[string]string{
		"empty":          "",
		"prefix":         good[:8],
		"short":          good[:Length-1],
		"long":           good + "a",
		"upper":          strings.ToUpper(good),
		"wrong checksum": good[:Length-1] + string(flip(good[Length-1])),
		"wrong random":   good[:10] + string(flip(good[10])) + good[11:],
		"zeros":          "wpcanary" + strings.Repeat("a", 32),
	} {
		if Valid(s) {
			t.Errorf("%s: %q is taken for a canary", name, s)
		}
	}
}

func flip(c byte) byte {
	if c == 'a' {
		return 'b'
	}
	return 'a'
}

// encodings are the forms in which a canary must be found.
var encodings = map[string]func(string) string{
	"raw":            func(s string) string { return s },
	"upper":          strings.ToUpper,
	"base64":         func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) },
	"base64 offset1": func(s string) string { return base64.StdEncoding.EncodeToString([]byte("x" + s + "yy")) },
	"base64 offset2": func(s string) string { return base64.RawStdEncoding.EncodeToString([]byte("xx" + s)) },
	"base64url":      func(s string) string { return base64.RawURLEncoding.EncodeToString([]byte("\xff\xfe\xfd" + s)) },
	"base64 lines": func(s string) string {
		e := base64.StdEncoding.EncodeToString([]byte("header header " + s))
		return e[:20] + "\r\n" + e[20:40] + "\n" + e[40:]
	},
	"base64 after a slash": func(s string) string { return "/path/" + base64.StdEncoding.EncodeToString([]byte(s)) },
	"hex":                  func(s string) string { return hex.EncodeToString([]byte(s)) },
	"hex upper odd":        func(s string) string { return "A" + strings.ToUpper(hex.EncodeToString([]byte(s))) },
	"hex colons":           func(s string) string { return spaced(hex.EncodeToString([]byte(s)), 2, ":") },
	"percent":              percent,
	"backslash x":          func(s string) string { return strings.ReplaceAll(percent(s), "%", `\x`) },
	"reversed":             reverse,
	"dots":                 func(s string) string { return spaced(s, 1, ".") },
	"labels":               func(s string) string { return spaced(s, 13, ".") + ".evil.example" },
	"newlines":             func(s string) string { return spaced(s, 7, "\r\n") },
	"zero width":           func(s string) string { return spaced(s, 3, "\u200b") },
	"gzip":                 zipped,
	"gzip in base64":       func(s string) string { return base64.StdEncoding.EncodeToString([]byte(zipped(s))) },
	"base64 in percent":    func(s string) string { return percent(base64.StdEncoding.EncodeToString([]byte(s))) },
	"hex in base64":        func(s string) string { return base64.StdEncoding.EncodeToString([]byte(hex.EncodeToString([]byte(s)))) },
}

func percent(s string) string {
	var b strings.Builder
	for _, c := range []byte(s) {
		fmt.Fprintf(&b, "%%%02X", c)
	}
	return b.String()
}

func reverse(s string) string {
	b := []byte(s)
	slices.Reverse(b)
	return string(b)
}

func spaced(s string, n int, sep string) string {
	var parts []string
	for len(s) > n {
		parts, s = append(parts, s[:n]), s[n:]
	}
	return strings.Join(append(parts, s), sep)
}

func zipped(s string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	io.WriteString(w, s)
	w.Close()
	return b.String()
}

func TestFindInEveryEncoding(t *testing.T) {
	c := Derive([]byte("find"))
	want := []string{Digest(c)}
	for name, encode := range encodings {
		for _, around := range [][2]string{{"", ""}, {"GET /x?token=", "&y=1 HTTP/1.1\r\n"}, {strings.Repeat("filler text, ", 900), " the end"}} {
			if got := Find([]byte(around[0] + encode(c) + around[1])); !slices.Equal(got, want) {
				t.Errorf("%s after %d bytes: found %v", name, len(around[0]), got)
			}
		}
	}
}

func TestFindSeveral(t *testing.T) {
	a, b := Derive([]byte("a")), Derive([]byte("b"))
	got := Find([]byte(a + b + a + " " + base64.StdEncoding.EncodeToString([]byte(b))))
	want := []string{Digest(a), Digest(b)}
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("found %v, want %v", got, want)
	}
}

func TestFindNothing(t *testing.T) {
	c := Derive([]byte("n"))
	for name, s := range map[string]string{
		"cut":            c[:Length-1],
		"look-alike":     "wpcanary" + strings.Repeat("unixgram", 4),
		"other text":     strings.Repeat("lorem ipsum ", 100),
		"two halves":     c[:20] + c[:20],
		"almost hex":     "77706361" + strings.Repeat("zz", 40),
		"random base64":  base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{1, 2, 3}, 100)),
		"empty":          "",
		"gzip of rubble": "\x1f\x8b\x08" + strings.Repeat("x", 100),
	} {
		if got := Find([]byte(s)); len(got) != 0 {
			t.Errorf("%s: found %v", name, got)
		}
	}
}

func TestFindPlain(t *testing.T) {
	c := Derive([]byte("p"))
	if got := FindPlain([]byte("x" + c)); len(got) != 1 || got[0] != Digest(c) {
		t.Errorf("found %v", got)
	}
	if got := FindPlain([]byte(hex.EncodeToString([]byte(c)))); len(got) != 0 {
		t.Errorf("found %v in an encoding", got)
	}
}

// The prefix must not stand in any program's string table, or memory searches
// would stop at every copy of it.
func TestPrefixIsNotALiteral(t *testing.T) {
	if prefix != "wpcanary" || len(prefix) != prefixLength {
		t.Errorf("prefix is %q", prefix)
	}
}

func FuzzFind(f *testing.F) {
	f.Add([]byte("seed"), "GET /", " HTTP/1.1", 0)
	f.Add([]byte{0}, "\x1f\x8b\x08", "%%%", 3)
	f.Add([]byte("z"), strings.Repeat("A", 70), "==", 5)
	names := make([]string, 0, len(encodings))
	for name := range encodings {
		names = append(names, name)
	}
	slices.Sort(names)
	f.Fuzz(func(t *testing.T, seed []byte, before, after string, which int) {
		c := Derive(seed)
		name := names[(which%len(names)+len(names))%len(names)]
		text := before + "\x00\x00" + encodings[name](c) + "\x00\x00" + after
		got := Find([]byte(text))
		if !slices.Contains(got, Digest(c)) {
			t.Fatalf("%s between %q and %q was not found", name, before, after)
		}
		// Whatever surrounds it, nothing else is a canary unless the surroundings hold
		// one.
		if len(got) > 1 && !bytes.Contains(bytes.ToLower([]byte(before+after)), []byte("wpcanary")) && len(before)+len(after) < Length {
			t.Fatalf("found %d canaries in %q", len(got), text)
		}
	})
}

func BenchmarkFind(b *testing.B) {
	text := bytes.Repeat([]byte("the quick brown fox jumps over the lazy dog; 0123456789abcdef\n"), 1<<14)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		Find(text)
	}
}
