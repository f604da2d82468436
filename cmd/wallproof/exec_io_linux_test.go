package main

import (
	"bytes"
	"slices"
	"sync"
	"testing"
)

func TestSplitWords(t *testing.T) {
	for text, want := range map[string][]string{
		"make test":                {"make", "test"},
		"  make\ttest \n":          {"make", "test"},
		`sh -c 'echo "a b"'`:       {"sh", "-c", `echo "a b"`},
		`echo "it's" a\ b '\'`:     {"echo", "it's", "a b", `\`},
		`echo "" ''`:               {"echo", "", ""},
		`echo "a"'b'c`:             {"echo", "abc"},
		"echo 'über'":              {"echo", "über"},
		`echo $HOME; rm -rf / | x`: {"echo", "$HOME;", "rm", "-rf", "/", "|", "x"},
	} {
		if got, err := splitWords(text); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %q, %v, want %q", text, got, err, want)
		}
	}
	for _, text := range []string{"", "  ", `''`, `echo "a`, `echo 'a`, `echo a\`} {
		if got, err := splitWords(text); err == nil {
			t.Errorf("%q is read as %q", text, got)
		}
	}
}

func TestLineWriterKeepsLinesWhole(t *testing.T) {
	var out bytes.Buffer
	var mu sync.Mutex
	a, b := &lineWriter{mu: &mu, out: &out, prefix: "[a] "}, &lineWriter{mu: &mu, out: &out, prefix: "[b] "}
	for _, w := range []struct {
		w    *lineWriter
		text string
	}{{a, "one"}, {b, "x\ny"}, {a, " two\n\nthree"}, {b, "\n"}} {
		if n, err := w.w.Write([]byte(w.text)); err != nil || n != len(w.text) {
			t.Fatal(n, err)
		}
	}
	a.flush()
	b.flush()
	if want := "[b] x\n[a] one two\n[a] \n[b] y\n[a] three\n"; out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
	out.Reset()
	if _, err := a.Write(bytes.Repeat([]byte("x"), 3*maxLine+1)); err != nil || out.Len() < 3*maxLine || len(a.rest) != 1 {
		t.Errorf("a line without an end is not broken: %d written, %d kept, %v", out.Len(), len(a.rest), err)
	}
}

func TestParseUser(t *testing.T) {
	for text, want := range map[string][2]uint32{"0": {0, 0}, "1000": {1000, 1000}, "1:2": {1, 2}, "65535:0": {65535, 0}} {
		if u, err := parseUser(text); err != nil || u == nil || u.UID != want[0] || u.GID != want[1] {
			t.Errorf("%q: %v, %v", text, u, err)
		}
	}
	if u, err := parseUser(""); u != nil || err != nil {
		t.Errorf("%v, %v", u, err)
	}
	for _, text := range []string{"agent", "-1", "65536", "1:", ":1", "1:2:3", "0x1", " 1"} {
		if u, err := parseUser(text); err == nil {
			t.Errorf("%q is read as %v", text, u)
		}
	}
}
