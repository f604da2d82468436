package scan

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"encoding/base32"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/wallproof/wallproof/probes/nonce"
)

const (
	one = "wabcdefghijklmnopqrstuvwx"
	two = "w234567abcdefghijklmnopqr"
)

// encodings are the forms in which a nonce must be found.
var encodings = map[string]func(string) string{
	"plain":          func(s string) string { return s },
	"upper case":     strings.ToUpper,
	"reversed":       func(s string) string { b := []byte(s); slices.Reverse(b); return string(b) },
	"dots":           func(s string) string { return strings.Join(strings.Split(s, ""), ".") },
	"labels":         func(s string) string { return s[:9] + "." + s[9:20] + "." + s[20:] },
	"percent":        func(s string) string { return each1(s, "%%%02x") },
	"backslash x":    func(s string) string { return each1(s, `\x%02X`) },
	"backslash u":    func(s string) string { return each1(s, `\u%04x`) },
	"HTML decimal":   func(s string) string { return each1(s, "&#%d;") },
	"HTML hex":       func(s string) string { return each1(s, "&#x%x;") },
	"hex":            func(s string) string { return hex.EncodeToString([]byte(s)) },
	"hex upper":      func(s string) string { return strings.ToUpper(hex.EncodeToString([]byte(s))) },
	"hex with colon": func(s string) string { return strings.TrimSuffix(each1(s, "%02x:"), ":") },
	"hex shifted":    func(s string) string { return "a" + hex.EncodeToString([]byte(s)) },
	"base64":         func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) },
	"base64 at 1":    func(s string) string { return base64.StdEncoding.EncodeToString([]byte("." + s)) },
	"base64 at 2":    func(s string) string { return base64.StdEncoding.EncodeToString([]byte(".." + s)) },
	"base64 URL":     func(s string) string { return base64.RawURLEncoding.EncodeToString([]byte("?>" + s)) },
	"base64 lines": func(s string) string {
		e := base64.StdEncoding.EncodeToString([]byte(s))
		return e[:20] + "\r\n" + e[20:]
	},
	"base32": func(s string) string { return strings.ToLower(base32.StdEncoding.EncodeToString([]byte(s))) },
	"base32 in name": func(s string) string {
		e := base32.StdEncoding.EncodeToString([]byte("x." + s))
		return e[:24] + "." + e[24:]
	},
	"gzip": func(s string) string {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		_, _ = w.Write([]byte(s))
		_ = w.Close()
		return b.String()
	},
	"zlib": func(s string) string {
		var b bytes.Buffer
		w := zlib.NewWriter(&b)
		_, _ = w.Write([]byte(s))
		_ = w.Close()
		return b.String()
	},
}

func each1(s, format string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		fmt.Fprintf(&b, format, s[i])
	}
	return b.String()
}

func TestEncodings(t *testing.T) {
	f := New([]string{one, two})
	for name, enc := range encodings {
		t.Run(name, func(t *testing.T) {
			for _, text := range []string{enc(two), "<<" + enc(two) + ">>"} {
				if got := f.FindString(text); !slices.Equal(got, []string{two}) {
					t.Errorf("in %q found %q", text, got)
				}
			}
		})
	}
}

func TestNested(t *testing.T) {
	f := New([]string{one})
	for _, pair := range [][2]string{{"hex", "base64"}, {"base64", "gzip"}, {"percent", "base64"}, {"gzip", "base64"}, {"base64", "reversed"}, {"percent", "percent"}} {
		text := encodings[pair[0]](encodings[pair[1]](one))
		if got := f.FindString(text); !slices.Equal(got, []string{one}) {
			t.Errorf("%s of %s: found %q", pair[0], pair[1], got)
		}
	}
}

func TestUnknown(t *testing.T) {
	f := New([]string{one})
	for _, text := range []string{"", "w", two, one[:24], strings.Repeat("w", 500), "hello world"} {
		if got := f.FindString(text); len(got) != 0 {
			t.Errorf("in %q found %q", text, got)
		}
	}
	if got := f.FindString("xx" + one + "yy"); !slices.Equal(got, []string{one}) {
		t.Errorf("inside a word: %q", got)
	}
}

func TestByShape(t *testing.T) {
	f := New(nil)
	if got := f.FindString("a " + two + ", b"); !slices.Equal(got, []string{two}) {
		t.Errorf("found %q", got)
	}
	if got := f.FindString("xx" + two + "yy"); len(got) != 0 {
		t.Errorf("inside a word: %q", got)
	}
	for _, name := range []string{two + ".evil.example.", two[:9] + "." + two[9:20] + "." + two[20:] + ".evil.example."} {
		if got := f.FindName(name); !slices.Contains(got, two) {
			t.Errorf("in %q found %q", name, got)
		}
	}
}

func TestStream(t *testing.T) {
	f := New([]string{one, two})
	text := "POST / HTTP/1.1\r\n\r\n" + encodings["percent"](one) + strings.Repeat("-", 2000) + two
	for size := 1; size < 90; size += 11 {
		s := f.Stream()
		var got []string
		for part := range slices.Chunk([]byte(text), size) {
			got = append(got, s.Add(part)...)
		}
		if !slices.Equal(got, []string{one, two}) {
			t.Errorf("in pieces of %d: %q", size, got)
		}
	}
}

func TestBounded(t *testing.T) {
	var many []string
	for i := range 200 {
		many = append(many, nonce.New([]byte("k"), "r", fmt.Sprint(i), "v", "p"))
	}
	if got := New(many).FindString(strings.Join(many, " ")); len(got) != maxFound {
		t.Errorf("%d found, want the bound of %d", len(got), maxFound)
	}
}

// Whatever surrounds it and however two encodings are combined, a nonce is
// found; and by shape nothing is ever reported that is no nonce.
func FuzzFind(f *testing.F) {
	names := make([]string, 0, len(encodings))
	for n := range encodings {
		names = append(names, n)
	}
	slices.Sort(names)
	f.Add([]byte("<"), []byte(">"), uint8(0))
	f.Add([]byte("a=b&c="), []byte(""), uint8(9))
	f.Add([]byte{0x1f, 0x8b, 8, 0}, []byte{0xff}, uint8(200))
	known, shape := New([]string{one}), New(nil)
	f.Fuzz(func(t *testing.T, before, after []byte, which uint8) {
		if len(before)+len(after) > 4096 {
			return
		}
		name := names[int(which)%len(names)]
		// A separator on each side: a run of digits that goes on can shift a decoder.
		text := string(before) + "\x01" + encodings[name](one) + "\x01" + string(after)
		if got := known.FindString(text); !slices.Contains(got, one) {
			t.Fatalf("%s in %q not found", name, text)
		}
		for _, n := range shape.Find(before) {
			if !nonce.Valid(n) {
				t.Fatalf("%q is reported from %q", n, before)
			}
		}
	})
}

func BenchmarkFind(b *testing.B) {
	f := New([]string{one, two})
	for name, text := range map[string]string{
		"request": "POST /v1/messages HTTP/1.1\r\nHost: api.example.com\r\nAuthorization: Bearer abcdefghijklmnopqrstuvwxyz0123456789\r\n\r\n{\"model\":\"m\",\"messages\":[]}",
		"1MiB":    strings.Repeat("x", 1<<20),
		"random":  base64.StdEncoding.EncodeToString(bytes.Repeat([]byte("wallproof!?"), 6000)),
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				f.FindString(text)
			}
		})
	}
}
