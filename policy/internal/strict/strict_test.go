package strict

import (
	"fmt"
	"strings"
	"testing"
)

var testLimits = Limits{Bytes: 1 << 16, Depth: 8, Nodes: 1000, Scalar: 100}

// show writes a tree so that tests can compare it.
func show(n *Node) string {
	switch n.Kind {
	case Map:
		var b strings.Builder
		for _, m := range n.Members {
			fmt.Fprintf(&b, "%q@%d:%d=%s,", m.Name, m.Line, m.Column, show(&m.Value))
		}
		return "{" + b.String() + "}"
	case List:
		var b strings.Builder
		for i := range n.Items {
			b.WriteString(show(&n.Items[i]) + ",")
		}
		return "[" + b.String() + "]"
	case Text:
		return fmt.Sprintf("%q@%d:%d", n.Text, n.Line, n.Column)
	}
	return fmt.Sprintf("%s(%s)", n.Kind, n.Text)
}

func TestBothFormatsGiveOneTree(t *testing.T) {
	for _, c := range []struct{ yaml, json, want string }{
		{"a: 1\nb: [x, true]\n", "{\"a\": 1,\n\"b\":[\"x\",true]}", ""},
		{"a: null\n", "{\"a\":null}", ""},
		{"- -5\n- ü\n", "[-5,\n\"\\u00fc\"]", ""},
		{"{}", "{}", ""},
		{"[]", "[]", ""},
		{"\"\\U0001F600\"", "\"\\ud83d\\ude00\"", ""},
	} {
		y, err := Read(YAML, []byte(c.yaml), testLimits)
		if err != nil {
			t.Fatalf("%q: %v", c.yaml, err)
		}
		j, err := Read(JSON, []byte(c.json), testLimits)
		if err != nil {
			t.Fatalf("%q: %v", c.json, err)
		}
		if a, b := stripPositions(show(y)), stripPositions(show(j)); a != b {
			t.Errorf("YAML %s\nJSON %s", a, b)
		}
	}
}

func stripPositions(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '@' {
			for i+1 < len(s) && strings.IndexByte("0123456789:", s[i+1]) >= 0 {
				i++
			}
			continue
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

func TestPositions(t *testing.T) {
	j, err := Read(JSON, []byte("{\n  \"ü\": \"a\", \"b\": [\"c\",\n \"d\"]}"), testLimits)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := show(j), `{"ü"@2:3="a"@2:8,"b"@2:13=["c"@2:19,"d"@3:2,],}`; got != want {
		t.Errorf("JSON: got %s\nwant %s", got, want)
	}
	y, err := Read(YAML, []byte("ü: a\nb:\n  - c\n"), testLimits)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := show(y), `{"ü"@1:1="a"@1:4,"b"@2:1=["c"@3:5,],}`; got != want {
		t.Errorf("YAML: got %s\nwant %s", got, want)
	}
}

func TestRefusals(t *testing.T) {
	for _, c := range []struct {
		name   string
		format Format
		in     string
		line   int
		want   string
	}{
		{"empty", YAML, "", 1, "empty"},
		{"only a comment", YAML, "# x\n", 1, "empty"},
		{"empty", JSON, " \n ", 2, "empty"},
		{"second document", YAML, "a: 1\n---\nb: 2\n", 2, "second document"},
		{"trailing", JSON, "{}\n{}", 2, "follows the end"},
		{"trailing", YAML, "{a: 1} x\n", 1, "not YAML"},
		{"anchor", YAML, "a: &x 1\nb: *x\n", 1, "anchors"},
		{"bomb", YAML, "a: &a [x,x]\nb: &b [*a,*a]\nc: [*b,*b]\n", 1, "anchors"},
		{"merge", YAML, "a:\n  <<: {b: 1}\n", 2, "merge"},
		{"tag", YAML, "a: !!binary aGk=\n", 1, "tags"},
		{"own tag", YAML, "a: !x 1\n", 1, "tags"},
		{"duplicate", YAML, "a: 1\nb: 2\na: 3\n", 3, "given twice; the first is in line 1"},
		{"duplicate", JSON, "{\"a\":1,\n\"\\u0061\":2}", 2, "given twice"},
		{"number as key", YAML, "1: x\n", 1, "a key is text"},
		{"list as key", YAML, "[a]: x\n", 1, "a key is text"},
		{"octal", YAML, "a: 0o17\n", 1, "plain decimal"},
		{"leading zero", YAML, "a: 017\n", 1, "plain decimal"},
		{"underscore", YAML, "a: 1_000\n", 1, "plain decimal"},
		{"large", YAML, "a: 9007199254740993\n", 1, "too large"},
		{"large", JSON, "{\"a\": 9007199254740993}", 1, "too large"},
		{"fraction", JSON, "{\"a\": 1.5}", 1, "plain whole number"},
		{"minus zero", JSON, "[-0]", 1, "plain whole number"},
		{"True", YAML, "a: True\n", 1, "lower case"},
		{"invalid UTF-8", YAML, "a: 1\nb: \xff\n", 2, "UTF-8"},
		{"NUL", YAML, "a: \"\x00\"\n", 1, "NUL"},
		{"escaped NUL", JSON, "[\"\\u0000\"]", 1, "escape"},
		{"lone surrogate", JSON, "[\"\\ud800\"]", 1, "surrogate"},
		{"surrogate and no half", JSON, "[\"\\ud800\\u0041\"]", 1, "surrogate"},
		{"control character", JSON, "[\"a\tb\"]", 1, "control character"},
		{"control character after an escape", JSON, "[\"\\na\tb\"]", 1, "control character"},
		{"unknown escape", JSON, "[\"\\x\"]", 1, "unknown escape"},
		{"open text", JSON, "[\"abc", 1, "not closed"},
		{"open text after an escape", JSON, "[\"\\nabc", 1, "not closed"},
		{"cut", JSON, "{\"a\":", 1, "ends in the middle"},
		{"cut", JSON, "[1", 1, "a comma or ]"},
		{"trailing comma", JSON, "[1,]", 1, "a value is expected"},
		{"no colon", JSON, "{\"a\" 1}", 1, "a colon"},
		{"single quotes", JSON, "{'a': 1}", 1, "a key in double quotes"},
		{"comment", JSON, "{} // x", 1, "follows the end"},
		{"deep", JSON, strings.Repeat("[", 100), 1, "deeper than 8"},
		{"deep", YAML, strings.Repeat("[", 20) + strings.Repeat("]", 20), 1, "deeper than 8"},
		{"many", JSON, "[" + strings.Repeat("1,", 1000) + "1]", 1, "more than 1000"},
		{"many", YAML, "[" + strings.Repeat("1,", 1000) + "1]", 1, "more than 1000"},
		{"long text", JSON, "[\"" + strings.Repeat("a", 101) + "\"]", 1, "at most 100"},
		{"long text with escapes", JSON, "[\"" + strings.Repeat("\\n", 101) + "\"]", 1, "longer than 100"},
		{"long text", YAML, strings.Repeat("a", 101), 1, "at most 100"},
		{"long document", YAML, strings.Repeat("#", 1<<16+1), 0, "at most 65536"},
		{"tab", YAML, "a:\n\tb: 1\n", 2, "not YAML"},
	} {
		n, err := Read(c.format, []byte(c.in), testLimits)
		if err == nil {
			t.Errorf("%s: accepted as %s", c.name, show(n))
			continue
		}
		if n != nil {
			t.Errorf("%s: refused but left a value", c.name)
		}
		if !strings.Contains(err.Message, c.want) || err.Line != c.line {
			t.Errorf("%s: %v, want line %d and %q", c.name, err, c.line, c.want)
		}
	}
}

func TestFormatOf(t *testing.T) {
	for _, c := range []struct {
		name, data string
		want       Format
	}{
		{"p.json", "a: 1", JSON}, {"p.YAML", "{}", YAML}, {"p.yml", "{}", YAML},
		{"p", " \n{\"a\":1}", JSON}, {"p", "a: 1", YAML}, {"", "", YAML},
	} {
		if got := FormatOf(c.name, []byte(c.data)); got != c.want {
			t.Errorf("FormatOf(%q, %q) = %d", c.name, c.data, got)
		}
	}
}

// Neither reader panics, a refusal leaves no value, and what the JSON reader
// accepts has no key twice at any depth and no text that is not UTF-8.
func FuzzRead(f *testing.F) {
	for _, s := range []string{"a: 1\nb: [x]\n", `{"a":[1,"\u00e9",null]}`, "&a [*a]", "{a: 1, a: 2}", "--- x\n---\n", "[\"\\ud83d\\ude00\"]", "a: |\n  x\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, format := range []Format{YAML, JSON} {
			n, err := Read(format, data, testLimits)
			if (n == nil) == (err == nil) {
				t.Fatalf("node %v, error %v", n, err)
			}
			if n != nil {
				checkTree(t, n)
			}
		}
	})
}

func checkTree(t *testing.T, n *Node) {
	seen := map[string]bool{}
	for i := range n.Members {
		if seen[n.Members[i].Name] {
			t.Fatalf("the key %q twice", n.Members[i].Name)
		}
		seen[n.Members[i].Name] = true
		checkTree(t, &n.Members[i].Value)
	}
	for i := range n.Items {
		checkTree(t, &n.Items[i])
	}
	if n.Line < 1 || n.Column < 1 {
		t.Fatalf("a value at %d:%d", n.Line, n.Column)
	}
}
