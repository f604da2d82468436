package redact

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"math/rand/v2"
	"net/url"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/wallproof/wallproof/internal/processor"
)

const testSecret = `wpcanary/a+b"c<d>&e'f=g7h3k2m5`

func mustNew(t testing.TB, values ...string) *Redactor {
	t.Helper()
	var bs [][]byte
	for _, v := range values {
		bs = append(bs, []byte(v))
	}
	r, err := New(bs...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// forms are encodings as libraries make them, each with the secret inside
// other text.
func encodings(secret string) map[string]string {
	js, _ := json.Marshal(secret)
	var noHTML bytes.Buffer
	enc := json.NewEncoder(&noHTML)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(secret)
	out := map[string]string{
		"raw":          secret,
		"hex":          hex.EncodeToString([]byte(secret)),
		"HEX":          strings.ToUpper(hex.EncodeToString([]byte(secret))),
		"query":        url.QueryEscape(secret),
		"path":         url.PathEscape(secret),
		"json":         strings.Trim(string(js), `"`),
		"json no html": strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(noHTML.String()), `"`), `"`),
		"html":         html.EscapeString(secret),
	}
	for i, prefix := range []string{"", "x", "xy"} {
		out[fmt.Sprintf("base64 std %d", i)] = base64.StdEncoding.EncodeToString([]byte(prefix + secret + "tail"))
		out[fmt.Sprintf("base64 url %d", i)] = base64.URLEncoding.EncodeToString([]byte(prefix + secret + "tail"))
		std := base64.StdEncoding.EncodeToString([]byte(prefix + secret + "tail"))
		out[fmt.Sprintf("base64 in a form %d", i)] = url.QueryEscape(std)
		out[fmt.Sprintf("base64 in a path %d", i)] = url.PathEscape(std)
		out[fmt.Sprintf("base64 with escaped slashes %d", i)] = strings.ReplaceAll(std, "/", `\/`)
		out[fmt.Sprintf("base64 in careful JSON %d", i)] = strings.NewReplacer("+", `\u002B`).Replace(std)
	}
	return out
}

func TestEveryEncodingIsMasked(t *testing.T) {
	r := mustNew(t, testSecret)
	for name, text := range encodings(testSecret) {
		t.Run(name, func(t *testing.T) {
			b := []byte("before " + text + " after")
			n := len(b)
			if r.Bytes(b) == 0 {
				t.Fatalf("nothing found in %q", text)
			}
			if len(b) != n || !bytes.HasPrefix(b, []byte("before ")) || !bytes.HasSuffix(b, []byte(" after")) {
				t.Errorf("surroundings changed: %q", b)
			}
			// Whatever is left decodes to nothing that holds half of the secret.
			if left := strings.ReplaceAll(string(b), "*", ""); strings.Contains(left, text[len(text)/3:2*len(text)/3]) {
				t.Errorf("the middle of the secret is left: %q", left)
			}
		})
	}
}

// What redaction does not find, as the package and docs/enforcement.md say. A form that is
// found after all has to leave this list, and theirs.
func TestFormsThatAreNotFound(t *testing.T) {
	const secret = "wpcanaryabcdefghijklmnopqrstuvwx"
	r := mustNew(t, secret)
	each := func(format string) string {
		var b strings.Builder
		for i := range len(secret) {
			fmt.Fprintf(&b, format, secret[i])
		}
		return b.String()
	}
	backwards := []byte(secret)
	slices.Reverse(backwards)
	b64 := base64.StdEncoding.EncodeToString([]byte(secret))
	for name, text := range map[string]string{
		"UTF-16":                              each("%c\x00"),
		"numeric HTML entities":               each("&#x%x;"),
		"percent, twice":                      each("%%25%02X"),
		"quoted-printable, every byte":        each("=%02X"),
		"quoted-printable, a soft line break": secret[:16] + "=\r\n" + secret[16:],
		"base64 in lines":                     b64[:8] + "\r\n" + b64[8:16] + "\r\n" + b64[16:24] + "\r\n" + b64[24:],
		"base64 of base64":                    base64.StdEncoding.EncodeToString([]byte(b64)),
		"JSON, some characters escaped":       `wp\u0063an\u0061rya\u0062cdef\u0067hijk\u006cmnop\u0071rstu\u0076wx`,
		"backwards":                           string(backwards),
		"two lines of an event stream":        "data: " + secret[:16] + "\ndata: " + secret[16:],
		"two packets of git's side-band":      "0015\x02" + secret[:16] + "0015\x02" + secret[16:],
		"two fields":                          "X-A: " + secret[:16] + "\r\nX-B: " + secret[16:],
	} {
		if r.Contains([]byte(text)) {
			t.Errorf("%s: it is found: %q", name, text)
		}
	}
	for name, text := range map[string]string{ // their neighbours, which are
		"JSON, every character escaped, small": each(`\u00%02x`),
		"JSON, every character escaped, large": each(`\u00%02X`),
		"percent, once":                        each("%%%02x"),
		"base64 in one line":                   b64,
		"one packet of git's side-band":        "0025\x02" + secret,
	} {
		if !r.Contains([]byte(text)) {
			t.Errorf("%s: it is not found: %q", name, text)
		}
	}
}

func TestSecretsThatCannotBeRedactedAreRefused(t *testing.T) {
	for _, v := range []string{"", "short", strings.Repeat("x", MaxSecret+1)} {
		if _, err := New([]byte(v)); err == nil {
			t.Errorf("a secret of %d bytes was accepted", len(v))
		} else if v != "" && strings.Contains(err.Error(), v) {
			t.Errorf("the error quotes the secret")
		}
	}
}

// naive masks with the plain meaning: every occurrence of every pattern.
func naive(patterns []string, text []byte) []byte {
	out := append([]byte(nil), text...)
	for _, p := range patterns {
		for i := 0; i+len(p) <= len(text); i++ {
			if string(text[i:i+len(p)]) == p {
				fill(out[i : i+len(p)])
			}
		}
	}
	return out
}

func patternsOf(values ...string) []string {
	set := map[string]bool{}
	for _, v := range values {
		expand([]byte(v), AllForms, func(p string) { set[p] = true })
	}
	var out []string
	for p := range set {
		out = append(out, p)
	}
	return out
}

// TestAgainstNaiveSearch compares with the plain search over random texts made
// of pieces of secrets, over every way to cut them.
func TestAgainstNaiveSearch(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	sets := [][]string{
		{"abcdefgh"},
		{"abcdefgh", "cdefghijkl"},
		{"abcdefgh", "abcdefghijklmnopqrstuvwxyz", "xyzxyzxyzxyzxyzxyzxyzxyz"},
		{"secret-with-a-long-tail-0123456789", "secret-with-a-long-tail-0123456780", "tail-0123456789abcdef0123"},
	}
	for i, values := range sets {
		r := mustNew(t, values...)
		patterns := patternsOf(values...)
		for round := range 300 {
			text := randomText(rng, patterns)
			want := naive(patterns, text)
			got := append([]byte(nil), text...)
			r.Bytes(got)
			if !bytes.Equal(got, want) {
				t.Fatalf("set %d round %d:\ntext %q\n got %q\nwant %q", i, round, text, got, want)
			}
			// The end is followed by a byte that completes nothing, so that the
			// rule for texts that end inside a secret does not apply.
			streamed := streamInPieces(t, r, append(text, '\n'), rng)
			if !bytes.Equal(streamed, append(want, '\n')) {
				t.Fatalf("set %d round %d, streamed:\ntext %q\n got %q\nwant %q", i, round, text, streamed, want)
			}
		}
	}
}

func randomText(rng *rand.Rand, patterns []string) []byte {
	var b []byte
	for range rng.IntN(12) {
		p := patterns[rng.IntN(len(patterns))]
		switch rng.IntN(4) {
		case 0:
			b = append(b, p...)
		case 1:
			b = append(b, p[:rng.IntN(len(p))]...)
		case 2:
			b = append(b, p[rng.IntN(len(p)):]...)
		default:
			for range rng.IntN(9) {
				b = append(b, byte('a'+rng.IntN(26)))
			}
		}
	}
	return b
}

func streamInPieces(t *testing.T, r *Redactor, text []byte, rng *rand.Rand) []byte {
	t.Helper()
	var out bytes.Buffer
	w := r.Writer(&out)
	for rest := text; len(rest) > 0; {
		n := min(len(rest), 1+rng.IntN(7))
		if _, err := w.Write(rest[:n]); err != nil {
			t.Fatal(err)
		}
		rest = rest[n:]
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestReaderOneByteAtATime(t *testing.T) {
	r := mustNew(t, testSecret)
	for name, text := range encodings(testSecret) {
		in := strings.Repeat("x", 100) + text + "\n"
		got, err := io.ReadAll(r.Reader(iotest.OneByteReader(strings.NewReader(in))))
		if err != nil {
			t.Fatal(err)
		}
		want := []byte(in)
		r.Bytes(want)
		if !bytes.Equal(got, want) {
			t.Errorf("%s: got %q want %q", name, got, want)
		}
	}
}

// B17: the secret straddles a limit far into the text.
func TestB17SecretAcrossALargeBorder(t *testing.T) {
	r := mustNew(t, testSecret)
	const limit = 4 << 20
	in := append(bytes.Repeat([]byte("a"), limit-10), testSecret...)
	in = append(in, bytes.Repeat([]byte("b"), 1<<20)...)
	got, err := io.ReadAll(r.Reader(bytes.NewReader(in)))
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != len(in) || bytes.Contains(got, []byte(testSecret[:8])) || bytes.Contains(got, []byte(testSecret[12:])) {
		t.Fatal("a part of the secret is left, or the length changed")
	}
}

func TestNothingIsHeldBackThatCannotBeASecret(t *testing.T) {
	r := mustNew(t, "wpcanaryabcdefgh")
	var out bytes.Buffer
	w := r.Writer(&out)
	_, _ = w.Write([]byte("data: hello\n\n"))
	if out.String() != "data: hello\n\n" {
		t.Fatalf("held back: %q", out.String())
	}
	_, _ = w.Write([]byte("wpcan"))
	if out.String() != "data: hello\n\n" {
		t.Fatalf("the beginning of a secret went out: %q", out.String())
	}
	_, _ = w.Write([]byte("cer"))
	if out.String() != "data: hello\n\nwpcancer" {
		t.Fatalf("still held back: %q", out.String())
	}
}

func TestTextThatEndsInsideASecret(t *testing.T) {
	r := mustNew(t, "wpcanaryabcdefgh")
	got, _ := io.ReadAll(r.Reader(strings.NewReader("error: wpcanaryabcdef")))
	if string(got) != "error: "+Masked(14) {
		t.Errorf("cut secret: %q", got)
	}
	got, _ = io.ReadAll(r.Reader(strings.NewReader("the wpca")))
	if string(got) != "the wpca" {
		t.Errorf("a few bytes that may be anything: %q", got)
	}
}

func TestBrokenSourceGivesNothingOfWhatIsHeldBack(t *testing.T) {
	r := mustNew(t, "wpcanaryabcdefgh")
	src := io.MultiReader(strings.NewReader("x wpcanaryab"), iotest.ErrReader(io.ErrUnexpectedEOF))
	got, err := io.ReadAll(r.Reader(src))
	if err != io.ErrUnexpectedEOF || string(got) != "x " {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestSelfOverlappingTextStaysBounded(t *testing.T) {
	r := mustNew(t, strings.Repeat("ab", 10))
	in := strings.Repeat("ab", 1<<20)
	rd := r.Reader(strings.NewReader(in))
	got, err := io.ReadAll(rd)
	if err != nil || len(got) != len(in) {
		t.Fatalf("%d bytes, %v", len(got), err)
	}
	if strings.Contains(string(got), strings.Repeat("ab", 10)) {
		t.Error("the secret is left")
	}
	if len(rd.buf) > 4*streamBuffer {
		t.Errorf("the buffer grew to %d bytes", len(rd.buf))
	}
}

func TestLiveIsExchangedInAStream(t *testing.T) {
	live := NewLive(nil)
	var out bytes.Buffer
	w := live.Writer(&out)
	_, _ = w.Write([]byte("wpcanaryabcdefgh "))
	live.Set(mustNew(t, "wpcanaryabcdefgh"))
	_, _ = w.Write([]byte("wpcanaryabcdefgh\n"))
	_ = w.Close()
	if out.String() != "wpcanaryabcdefgh "+Masked(16)+"\n" {
		t.Errorf("got %q", out.String())
	}
}

func TestWithFindsBoth(t *testing.T) {
	r := mustNew(t, "first-secret-000").With(mustNew(t, "second-secret-00"))
	b := []byte("first-secret-000 second-secret-00")
	if n := r.Bytes(b); n != 2 || string(b) != Masked(16)+" "+Masked(16) {
		t.Errorf("%d %q", n, b)
	}
}

func FuzzStreamEqualsWhole(f *testing.F) {
	f.Add([]byte("x abcdefgh y"), uint8(3))
	f.Add([]byte("6162636465666768"), uint8(1))
	f.Add([]byte("YWJjZGVmZ2g= YWJj"), uint8(5))
	f.Add([]byte("abcdefghijklmnopabcdefgh"), uint8(9))
	r, err := New([]byte("abcdefgh"), []byte("ijklmnopabcdef"))
	if err != nil {
		f.Fatal(err)
	}
	patterns := patternsOf("abcdefgh", "ijklmnopabcdef")
	f.Fuzz(func(t *testing.T, text []byte, step uint8) {
		want := naive(patterns, text)
		got := append([]byte(nil), text...)
		r.Bytes(got)
		if !bytes.Equal(got, want) {
			t.Fatalf("text %q\n got %q\nwant %q", text, got, want)
		}
		text = append(text, '\n')
		var out bytes.Buffer
		w := r.Writer(&out)
		for rest := text; len(rest) > 0; {
			n := min(len(rest), int(step)+1)
			_, _ = w.Write(rest[:n])
			rest = rest[n:]
		}
		_ = w.Close()
		if !bytes.Equal(out.Bytes(), append(want, '\n')) {
			t.Fatalf("streamed: text %q\n got %q\nwant %q", text, out.Bytes(), want)
		}
	})
}

func benchText(n int) []byte {
	rng := rand.New(rand.NewPCG(3, 4))
	b := make([]byte, n)
	const chars = "abcdefghijklmnopqrstuvwxyz0123456789 {}\":,\n<>/=-"
	for i := range b {
		b[i] = chars[rng.IntN(len(chars))]
	}
	return b
}

func benchBase64(n int) []byte {
	rng := rand.New(rand.NewPCG(7, 8))
	raw := make([]byte, n)
	for i := range raw {
		raw[i] = byte(rng.Uint32())
	}
	return []byte(base64.StdEncoding.EncodeToString(raw))[:n]
}

func BenchmarkMask(b *testing.B) {
	texts := map[string][]byte{"text": benchText(1 << 20), "base64": benchBase64(1 << 20)}
	for _, c := range []struct {
		n, size int
		text    string
	}{{1, 40, "text"}, {100, 40, "text"}, {1000, 40, "text"}, {10000, 40, "text"}, {10000, 40, "base64"}, {10000, 16, "text"}, {10000, 16, "base64"}, {1000, 8, "text"}, {1000, 8, "base64"}, {10000, 8, "text"}, {10000, 8, "base64"}} {
		text := texts[c.text]
		b.Run(fmt.Sprintf("secrets=%d/bytes=%d/%s", c.n, c.size, c.text), func(b *testing.B) {
			rng := rand.New(rand.NewPCG(5, 6))
			var values [][]byte
			for range c.n {
				v := make([]byte, c.size)
				for i := range v {
					v[i] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"[rng.IntN(64)]
				}
				values = append(values, v)
			}
			r, err := New(values...)
			if err != nil {
				b.Fatal(err)
			}
			runtime.GC() // of what compiling left
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			began, n := processor.Time(), 0
			for b.Loop() {
				rd := r.Reader(bytes.NewReader(text))
				if _, err := io.Copy(io.Discard, rd); err != nil {
					b.Fatal(err)
				}
				n++
			}
			b.ReportMetric(float64(n*len(text))/1e6/(processor.Time()-began).Seconds(), "MB/cpu-s")
		})
	}
}

// TestPiecesOfASecret spreads secrets over pieces that go out one by one: no more
// than the first bytes of each are seen, and what is no secret arrives as it was.
func TestPiecesOfASecret(t *testing.T) {
	values := []string{"wpcanaryabcdefghijkl", "canarywpother-secret"}
	r := mustNew(t, values...)
	rng := rand.New(rand.NewPCG(9, 10))
	for round := range 2000 {
		var text []byte
		for range 1 + rng.IntN(6) {
			text = append(text, []string{values[0], values[1], "plain ", "x", "\n\n"}[rng.IntN(5)]...)
		}
		text = append(text, '.')
		want := append([]byte(nil), text...)
		r.Bytes(want)
		var p Pieces
		var got, held []byte
		for rest := text; len(rest) > 0; {
			n := min(len(rest), 1+rng.IntN(1+rng.IntN(25)))
			b := append(held, rest[:n]...)
			rest = rest[n:]
			end := len(rest) == 0 || rng.IntN(2) == 0
			_, hold := p.Mask(r, b, end)
			if end && hold != len(b) {
				t.Fatalf("round %d: %d bytes of a piece that ended are held back", round, len(b)-hold)
			}
			got, held = append(got, b[:hold]...), append([]byte(nil), b[hold:]...)
		}
		if len(got) != len(text) {
			t.Fatalf("round %d: %d bytes of %d", round, len(got), len(text))
		}
		for i := range got {
			switch {
			case want[i] != Mask && got[i] != text[i] && got[i] != Mask:
				t.Fatalf("round %d: byte %d is another\ntext %q\n got %q", round, i, text, got)
			case want[i] == Mask && got[i] != Mask && i >= minTail-1 && want[i-minTail+1] == Mask && !startsNear(text, values, i):
				t.Fatalf("round %d: byte %d of a secret is seen\ntext %q\n got %q", round, i, text, got)
			}
		}
	}
}

// startsNear says whether i is among the first bytes of an occurrence.
func startsNear(text []byte, values []string, i int) bool {
	for k := max(0, i-minTail+2); k <= i; k++ {
		for _, v := range values {
			if bytes.HasPrefix(text[k:], []byte(v)) {
				return true
			}
		}
	}
	return false
}
