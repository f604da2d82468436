package site

import (
	"strings"
	"testing"
)

// TestClean: a text from a packet looks like what it is.
func TestClean(t *testing.T) {
	for name, c := range map[string]struct{ in, want string }{
		"plain":             {"a b\nc", "a b\nc"},
		"tab":               {"a\tb", "a b"},
		"other scripts":     {"Zoë Ελλάς 日本 e\u0301", "Zoë Ελλάς 日本 e\u0301"},
		"bidi override":     {"a\u202eb\u2066c", "a\ufffdb\ufffdc"},
		"zero width":        {"a\u200bb\u200dc\ufeff", "a\ufffdb\ufffdc\ufffd"},
		"escape":            {"a\x1b[2Jb", "a\ufffd[2Jb"},
		"not UTF-8":         {"a\xffb", "a\ufffdb"},
		"line separator":    {"a\u2028b", "a\ufffdb"},
		"struck out":        {"1\u0338", "1\ufffd"},
		"enclosed":          {"1\u20e0", "1\ufffd"},
		"invisible letters": {"a\u3164b\u115fc\u2800", "a\ufffdb\ufffdc\ufffd"},
		"variation":         {"\u2713\ufe0f", "\u2713\ufffd"},
		"tower":             {"a\u0301\u0302\u0303\u0304b", "a\u0301\u0302\ufffd\ufffdb"},
	} {
		if got := clean(c.in); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	if got := clean(strings.Repeat("é", 1_000_000)); len(got) > 2*maxShown+40 || !strings.HasSuffix(got, "(2000000 bytes in all)") {
		t.Errorf("a giant text: %d bytes", len(got))
	}
	if got := clean(strings.Repeat("x", 1_000_000)); len(got) > maxShown+40 || !strings.HasSuffix(got, "(1000000 bytes in all)") {
		t.Errorf("a giant plain text: %d bytes", len(got))
	}
}

// TestPlain: letters that look like others are spelled out in names.
func TestPlain(t *testing.T) {
	for in, want := range map[string]string{
		"ghcr.io/example/agent":  "ghcr.io/example/agent",
		"ghcr.io/ex\u0430mple/a": `ghcr.io/ex\u{0430}mple/a`,
		"a\u202egpj":             `a\u{202e}gpj`,
		"a\nb":                   `a\u{000a}b`,
	} {
		if got := plain(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}
