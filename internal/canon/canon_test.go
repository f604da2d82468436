package canon

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"strings"
	"testing"
)

func unhex(t *testing.T, s string) string {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestCheckRefusesEachKindWithItsReason(t *testing.T) {
	nest := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	for _, c := range []struct {
		name, in string
		want     Reason
	}{
		{"object", `{"a":1,"b":[true,false,null,"x"]}`, ""},
		{"empty containers", `{"a":{},"b":[]}`, ""},
		{"scalar", `0`, ""},
		{"limits of integers", `[-9007199254740991,9007199254740991]`, ""},
		{"short escapes", `"\"\\\b\t\n\f\r\u0000\u001f/"`, ""},
		{"raw DEL and non-ASCII", "\"\x7fé😀\u2028\"", ""},
		{"UTF-16 order", "{\"\U0001F600\":1,\"\uFB33\":2}", ""},

		{"empty", ``, ReasonSyntax},
		{"byte order mark", "\uFEFF{}", ReasonSyntax},
		{"two values", `{}{}`, ReasonSyntax},
		{"trailing comma", `[1,]`, ReasonSyntax},
		{"cut short", `{"a":`, ReasonSyntax},
		{"single quotes", `{'a':1}`, ReasonSyntax},
		{"NaN", `NaN`, ReasonSyntax},
		{"leading zero", `01`, ReasonSyntax},
		{"plus", `+1`, ReasonSyntax},
		{"bare minus", `-`, ReasonSyntax},
		{"control character", "\"\n\"", ReasonSyntax},
		{"unknown escape", `"\x41"`, ReasonSyntax},
		{"short unicode escape", `"\u12"`, ReasonSyntax},

		{"E17 run twice", `{"run":1,"run":2}`, ReasonDuplicate},
		{"E17 run escaped", `{"ru\u006e":1,"run":2}`, ReasonDuplicate},
		{"E17 run, then escaped", `{"run":1,"ru\u006e":2}`, ReasonDuplicate},
		{"E17 nested", `{"a":[{"b":{"x":1,"x":1}}]}`, ReasonDuplicate},
		{"duplicates not side by side", `{"a":1,"b":2,"a":3}`, ReasonDuplicate},
		{"duplicate after white space", `{"b":1, "a":2,"b":3}`, ReasonDuplicate},
		{"duplicate empty name", `{"":1,"":2}`, ReasonDuplicate},

		{"E18 surrogates", unhex(t, "5b225c75646530305c7564383364225d"), ReasonSurrogate},
		{"E18 invalid UTF-8", unhex(t, "5b22ff225d"), ReasonUTF8},
		{"high surrogate alone", `"\ud83d"`, ReasonSurrogate},
		{"low surrogate alone", `"\ude00"`, ReasonSurrogate},
		{"two high surrogates", `"\ud83d\ud83d"`, ReasonSurrogate},
		{"high surrogate, letter", `"\ud83dx"`, ReasonSurrogate},
		{"surrogate as three bytes", "\"\xed\xa0\xbd\"", ReasonSurrogate},
		{"overlong", "\"\xc0\x80\"", ReasonUTF8},
		{"beyond Unicode", "\"\xf4\x90\x80\x80\"", ReasonUTF8},
		{"cut UTF-8", "\"\xe2\x82\"", ReasonUTF8},
		{"invalid UTF-8 in a name", "{\"\xff\":1}", ReasonUTF8},

		{"white space", `{"a": 1}`, ReasonNotCanonical},
		{"line feed at the end", "{}\n", ReasonNotCanonical},
		{"order", `{"b":1,"a":2}`, ReasonNotCanonical},
		{"order by UTF-8", "{\"\uFB33\":2,\"\U0001F600\":1}", ReasonNotCanonical},
		{"escaped letter", `"\u0041"`, ReasonNotCanonical},
		{"escaped slash", `"\/"`, ReasonNotCanonical},
		{"upper case escape", `"\u001F"`, ReasonNotCanonical},
		{"long tab", `"\u0009"`, ReasonNotCanonical},
		{"escaped pair", `"\ud83d\ude00"`, ReasonNotCanonical},
		{"escaped U+2028", `"\u2028"`, ReasonNotCanonical},

		{"fraction", `1.5`, ReasonNotInteger},
		{"whole fraction", `1.0`, ReasonNotInteger},
		{"exponent", `1e3`, ReasonNotInteger},
		{"minus zero", `-0`, ReasonNotInteger},
		{"2^53", `9007199254740992`, ReasonNumberRange},
		{"2^53+1", `9007199254740993`, ReasonNumberRange},
		{"−2^53", `-9007199254740992`, ReasonNumberRange},
		{"2^64+1 does not wrap", `18446744073709551617`, ReasonNumberRange},
		{"long number", `1` + strings.Repeat("0", 400), ReasonNumberRange},

		{"depth at the limit", nest(DefaultDepth), ""},
		{"depth over the limit", nest(DefaultDepth + 1), ReasonDepth},
		{"E8 depth 10,000", nest(10000), ReasonDepth},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := ReasonOf(Check([]byte(c.in), Limits{})); got != c.want {
				t.Errorf("Check = %q, want %q", got, c.want)
			}
			strict := ReasonOf(CheckStrict([]byte(c.in), Limits{}))
			want := c.want
			if want == ReasonNotCanonical {
				want = ""
			}
			if strict != want {
				t.Errorf("CheckStrict = %q, want %q", strict, want)
			}
			if c.want == ReasonNotInteger || c.want == ReasonNumberRange {
				if err := CheckJSON([]byte(c.in), Limits{}); err != nil {
					t.Errorf("CheckJSON refused a JSON number: %v", err)
				}
			}
		})
	}
}

func TestLimits(t *testing.T) {
	for _, c := range []struct {
		in   string
		lim  Limits
		want Reason
	}{
		{`[1,2,3]`, Limits{Bytes: 7}, ""},
		{`[1,2,3]`, Limits{Bytes: 6}, ReasonSize},
		{`[1,2,3]`, Limits{Members: 2}, ReasonSize},
		{`{"a":1,"b":2}`, Limits{Members: 1}, ReasonSize},
		{`[[1]]`, Limits{Depth: 1}, ReasonDepth},
	} {
		if got := ReasonOf(Check([]byte(c.in), c.lim)); got != c.want {
			t.Errorf("Check(%s, %+v) = %q, want %q", c.in, c.lim, got, c.want)
		}
	}
}

// The example of RFC 8785, section 3.2.3 (order) and 3.2.2.2 (strings), without
// its fractions.
func TestCanonicalizeRFC8785(t *testing.T) {
	in := `{
  "\u20ac": "Euro Sign", "\r": "Carriage Return", "\ufb33": "Hebrew Letter Dalet With Dagesh",
  "1": "One", "\ud83d\ude00": "Emoji: Grinning Face", "\u0080": "Control", "\u00f6": "Latin Small Letter O With Diaeresis",
  "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/", "literals": [null, true, false]
}`
	want := "{\"\\r\":\"Carriage Return\",\"1\":\"One\",\"literals\":[null,true,false]," +
		"\"string\":\"€$\\u000f\\nA'B\\\"\\\\\\\\\\\"/\",\"\u0080\":\"Control\",\"ö\":\"Latin Small Letter O With Diaeresis\"," +
		"\"€\":\"Euro Sign\",\"😀\":\"Emoji: Grinning Face\",\"\uFB33\":\"Hebrew Letter Dalet With Dagesh\"}"
	got, err := Canonicalize([]byte(in), Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

type inner struct {
	X int64 `json:"x"`
}

type sample struct {
	Run    string            `json:"run"`
	Inner  inner             `json:"inner"`
	List   []inner           `json:"list,omitempty"`
	Map    map[string]inner  `json:"map,omitempty"`
	Free   json.RawMessage   `json:"free,omitempty"`
	Labels map[string]string `json:"labels,omitempty"`
	Ptr    *inner            `json:"ptr,omitempty"`
	Hidden string            `json:"-"`
}

func TestUnmarshal(t *testing.T) {
	for _, c := range []struct {
		in   string
		want Reason
	}{
		{`{"run":"a","inner":{"x":1}}`, ""},
		{`{ "inner": {"x":1}, "run":"a" }`, ""},
		{`{"labels":{"a":"1","A":"2"}}`, ""},
		{`{"free":{"q":[1],"Q":2},"ptr":null,"list":null}`, ""},
		{`{"run":"a","Run":"b"}`, ReasonCaseFolded},
		{`{"RUN":"a"}`, ReasonCaseFolded},
		{`{"li\u017Ft":[]}`, ReasonCaseFolded}, // U+017F folds to s
		{`{"inner":{"X":1}}`, ReasonCaseFolded},
		{`{"map":{"k":{"x":1,"y":2}}}`, ReasonUnknownMember},
		{`{"list":[{"x":1},{"z":1}]}`, ReasonUnknownMember},
		{`{"Hidden":"x"}`, ReasonUnknownMember},
		{`{"-":"x"}`, ReasonUnknownMember},
		{`{"run":null}`, ReasonType},
		{`{"inner":null}`, ReasonType},
		{`{"run":1}`, ReasonType},
		{`{"run":"a","run":"a"}`, ReasonDuplicate},
		{`{"inner":{"x":1.5}}`, ReasonNotInteger},
	} {
		v := sample{Hidden: "kept"}
		err := Unmarshal([]byte(c.in), &v)
		if got := ReasonOf(err); got != c.want || (c.want == "") != (err == nil) {
			t.Errorf("Unmarshal(%s) = %v, want %q", c.in, err, c.want)
		}
		if err != nil && v.Hidden != "kept" {
			t.Errorf("Unmarshal(%s) touched the destination", c.in)
		}
	}
	if err := Unmarshal([]byte(`{}`), sample{}); ReasonOf(err) != ReasonType {
		t.Errorf("a destination that is no pointer: %v", err)
	}
}

func TestUnmarshalExact(t *testing.T) {
	for _, c := range []struct {
		in   string
		want Reason
	}{
		{`{"inner":{"x":1},"run":"a"}`, ""},
		{`{"inner":{"x":0},"list":[{"x":1}],"run":""}`, ""},
		{`{"inner":{"x":1}}`, ReasonMissingMember},
		{`{"inner":{},"run":"a"}`, ReasonMissingMember},
		{`{"inner":{"x":1},"list":[{}],"run":"a"}`, ReasonMissingMember},
		{`{"inner":{"x":1},"list":[],"run":"a"}`, ReasonMissingMember},
		{`{"inner":{"x":1},"labels":{},"run":"a"}`, ReasonMissingMember},
		{`{"inner":{"x":1},"ptr":null,"run":"a"}`, ReasonMissingMember},
		{`{"inner":{"x":1},"run":"a","z":1}`, ReasonUnknownMember},
	} {
		var v sample
		err := UnmarshalExact([]byte(c.in), &v)
		if got := ReasonOf(err); got != c.want {
			t.Errorf("UnmarshalExact(%s) = %v, want %q", c.in, err, c.want)
		}
		if err != nil {
			continue
		}
		if again, err := Marshal(v); err != nil || string(again) != c.in {
			t.Errorf("%s is written again as %s, %v", c.in, again, err)
		}
	}
}

func TestUnmarshalOpenReportsUnknownMembers(t *testing.T) {
	var v sample
	unknown, err := UnmarshalOpen([]byte(`{"run":"a","inner":{"x":1},"new":{"x":1},"list":[{"x":2,"extra":1}]}`), Limits{}, &v)
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(unknown, " "); got != "new list[].extra" {
		t.Errorf("unknown = %q", got)
	}
	if v.Run != "a" || v.List[0].X != 2 {
		t.Errorf("v = %+v", v)
	}
	if _, err := UnmarshalOpen([]byte(`{"run":"a","new":1}`), Limits{}, &v); ReasonOf(err) != ReasonMissingMember {
		t.Errorf("a missing member is read as zero: %v", err)
	}
	for _, in := range []string{`{"Run":"b","run":"a"}`, `{"new":1,"NEW":2}`} {
		if _, err := UnmarshalOpen([]byte(in), Limits{}, &v); ReasonOf(err) != ReasonCaseFolded {
			t.Errorf("%s: %v", in, err)
		}
	}
	if _, err := UnmarshalJSON([]byte(`{"new":1.5e9}`), Limits{}, &v); err != nil {
		t.Errorf("UnmarshalJSON refused a fraction: %v", err)
	}
}

func TestMarshal(t *testing.T) {
	got, err := Marshal(map[string]any{"b": "<&>\u2028\x7f", "a": []any{int64(-5), true, nil, 3.0}, "\ufffd": `\ufffd`})
	if err != nil {
		t.Fatal(err)
	}
	want := "{\"a\":[-5,true,null,3],\"b\":\"<&>\u2028\x7f\",\"\ufffd\":\"\\\\ufffd\"}"
	if string(got) != want {
		t.Errorf("got %s, want %s", got, want)
	}
	for _, c := range []struct {
		v    any
		want Reason
	}{
		{"a\xffb", ReasonUTF8},
		{map[string]int{"\xc0": 1}, ReasonUTF8},
		{json.RawMessage(`"\ud800"`), ReasonSurrogate},
		{json.RawMessage(`{"a":1,"a":2}`), ReasonDuplicate},
		{1.5, ReasonNotInteger},
		{int64(1) << 53, ReasonNumberRange},
		{make(chan int), ReasonUnmarshallable},
	} {
		if _, err := Marshal(c.v); ReasonOf(err) != c.want {
			t.Errorf("Marshal(%v) = %v, want %q", c.v, err, c.want)
		}
	}
}

func TestCheckMembers(t *testing.T) {
	got := map[string]string{}
	err := CheckMembers([]byte(`{"prev":"x","seq":12,"type":{"seq":1}}`), Limits{}, func(n, v []byte) { got[string(n)] = string(v) })
	if err != nil || len(got) != 3 || got["seq"] != "12" || got["prev"] != `"x"` {
		t.Errorf("members = %v, err = %v", got, err)
	}
}

func FuzzCheck(f *testing.F) {
	for _, s := range []string{
		`{"a":1,"b":[true,null,"x"]}`, `{"b":1, "a":2}`, `{"a":1,"a":2}`, `"\ud83d\ude00"`, `"\ud800"`, "\"\xff\"",
		`[9007199254740993]`, `-0`, `1e3`, `[[[[]]]]`, "{\"\U0001F600\":1,\"\uFB33\":2}", `"\u001f\/"`, `{"":{"":[]}}`, ` 1 `,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		lim := Limits{Bytes: 1 << 16}
		check, strict, loose := Check(data, lim), CheckStrict(data, lim), CheckJSON(data, lim)
		if check == nil && strict != nil || strict == nil && loose != nil {
			t.Fatalf("a stricter reader accepts more: %v, %v, %v", check, strict, loose)
		}
		if loose == nil && !json.Valid(data) {
			t.Fatal("accepts what encoding/json does not")
		}
		out, err := Canonicalize(data, lim)
		if (err == nil) != (strict == nil) {
			t.Fatalf("Canonicalize: %v, CheckStrict: %v", err, strict)
		}
		if err != nil {
			if out != nil {
				t.Fatal("a refusal leaves a value")
			}
			return
		}
		if bytes.Equal(out, data) != (check == nil) {
			t.Fatalf("Check = %v, but the canonical form of %q is %q", check, data, out)
		}
		if err := Check(out, lim); err != nil {
			t.Fatalf("canonical form %q is refused: %v", out, err)
		}
		var a, b any
		if json.Unmarshal(data, &a) != nil || json.Unmarshal(out, &b) != nil {
			t.Fatal("encoding/json refuses")
		}
		x, _ := json.Marshal(a)
		y, _ := json.Marshal(b)
		if !bytes.Equal(x, y) {
			t.Fatalf("meaning changed: %s and %s", x, y)
		}
	})
}

func BenchmarkCheck(b *testing.B) {
	line, err := Marshal(map[string]any{
		"attack":  map[string]any{"nonce": strings.Repeat("w", 25), "observations": []any{map[string]any{"side": "probe", "detail": "connect: refused", "millis": 12, "time": "2026-01-02T03:04:05.678Z"}}},
		"control": map[string]any{"nonce": strings.Repeat("v", 25), "observations": []any{map[string]any{"side": "witness", "source": "192.0.2.2:40123", "dest": "203.0.113.2:80", "count": 1}}},
		"outcome": "blocked", "prev": strings.Repeat("0", 64), "seq": 7, "technique": "NET-TCP-DIRECT",
	})
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(line)))
	for b.Loop() {
		if err := Check(line, Limits{}); err != nil {
			b.Fatal(err)
		}
	}
}

// Surrogates that are no pair, and bytes that are no UTF-8: no canonical form.
func TestE18NoCanonicalForm(t *testing.T) {
	for _, c := range []struct {
		hex    string
		reason Reason
	}{{"5b225c75646530305c7564383364225d", ReasonSurrogate}, {"5b22ff225d", ReasonUTF8}} {
		if _, err := Marshal(json.RawMessage(unhex(t, c.hex))); ReasonOf(err) != c.reason {
			t.Errorf("%s: %v, want %s", c.hex, err, c.reason)
		}
	}
}

// TestSkipPlain compares the scan of eight bytes at a time with one of each byte, for
// every byte at every place of a word, beside every neighbour that could carry into it.
func TestSkipPlain(t *testing.T) {
	slow := func(d []byte) int {
		for i, c := range d {
			if !plain[c] {
				return i
			}
		}
		return len(d)
	}
	for length := range 20 {
		for at := range length {
			for c := range 256 {
				for _, rest := range []byte{' ', '!', '#', '[', ']', '~', 0x7f, 0x1f, 0x80} {
					d := bytes.Repeat([]byte{rest}, length)
					for i := range at {
						d[i] = 'a'
					}
					d[at] = byte(c)
					if got, want := skipPlain(d, 0), slow(d); got != want {
						t.Fatalf("% x: stops at %d, want %d", d, got, want)
					}
				}
			}
		}
	}
}
