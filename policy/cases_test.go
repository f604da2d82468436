package policy

import (
	"errors"
	"strings"
	"testing"
)

// The cases of boundary policies that went wrong elsewhere and that the language
// settles, each with other inputs of its kind.

func decides(t *testing.T, e *Evaluator, url, want string) {
	t.Helper()
	x := e.Explain(url)
	got := x.Verdict.String()
	if want != "allow" && want != "deny" {
		got += " " + string(x.Reason)
	}
	if got != want {
		t.Errorf("%s: %s (%s), want %s", url, got, x.Reason, want)
	}
}

// B9: the more specific entry wins, however the address is written and whichever
// list it is in.
func TestB9SpecificBlockWins(t *testing.T) {
	e := mustCompile(t, `mode: allowlist
allow: [{cidr: 192.168.0.0/16}, {cidr: "fd00:1::/32"}, {cidr: 100.64.0.0/16}]
block: [{host: 192.168.1.5}, {cidr: 192.168.9.0/24}, {cidr: "fd00:1:2::/48"}]
`)
	for url, want := range map[string]string{
		"https://192.168.1.4/":          "allow",
		"https://192.168.1.5/":          "deny",
		"https://0xc0a80105/":           "deny",
		"https://3232235781/":           "deny",
		"https://0300.0250.01.05/":      "deny",
		"https://192.168.261/":          "deny",
		"https://[::ffff:192.168.1.5]/": "deny",
		"https://[::ffff:c0a8:105]/":    "deny",
		"https://192.168.9.200/":        "deny",
		"https://192.168.10.1/":         "allow",
		"https://[fd00:1:1::1]/":        "allow",
		"https://[fd00:1:2::1]/":        "deny",
		"https://[fd00:2::1]/":          "deny",
		"https://100.64.0.1/":           "allow",
		"https://100.65.0.1/":           "deny",
	} {
		decides(t, e, url, want)
	}
}

// refused parses a document that may not load, and returns the error.
func refused(t *testing.T, doc string) string {
	t.Helper()
	p, err := Parse("test.yaml", []byte("version: 1\n"+doc))
	if err == nil {
		_, err = Compile(p)
	}
	if err == nil {
		t.Errorf("it loads:\n%s", doc)
		return ""
	}
	var bad *Error
	if !errors.As(err, &bad) && !strings.Contains(err.Error(), "test.yaml:") {
		t.Errorf("the error names no place: %v", err)
	}
	return err.Error()
}

// B10: a pattern that means nothing is refused when it is loaded.
func TestB10PatternThatMeansNothing(t *testing.T) {
	for _, entry := range []string{"*.", "*", ".", "*..", "*.*", "**.example.org", ".example.org", "*.*.example.org", "*.-", "*. ", "", "a..b", "*.a..b"} {
		if text := refused(t, "mode: allowlist\nallow:\n  - host: '"+entry+"'\n"); text != "" && !strings.Contains(text, "test.yaml:4:") {
			t.Errorf("%q: the error names no line: %s", entry, text)
		}
		refused(t, "mode: denylist\nblock:\n  - host: '"+entry+"'\n")
	}
}

// B11: a wildcard stands for whole labels or not at all.
func TestB11WildcardInsideALabel(t *testing.T) {
	for _, entry := range []string{"www*.com", "*www.com", "w*w.com", "www.*.com", "www.com.*", "*example.org", "a*", "*-x.example.org", "xn--*.example.org", "％.example.org", "www?.com", "[a-z].com"} {
		refused(t, "mode: allowlist\nallow:\n  - host: '"+entry+"'\n")
		refused(t, "mode: denylist\nblock:\n  - host: '"+entry+"'\n")
	}
	e := mustCompile(t, "mode: allowlist\nallow: [{host: '*.example.org'}]\n")
	for url, want := range map[string]string{
		"https://www.example.org/": "allow", "https://a.b.example.org/": "allow", "https://example.org/": "deny",
		"https://wwwexample.org/": "deny", "https://www.example.org.attacker.com/": "deny", "https://example.org.attacker.com/": "deny",
	} {
		decides(t, e, url, want)
	}
}

// B13: an address inside an address is decoded and then classified, and what only
// looks like one is not.
func TestB13DecodeThenClassify(t *testing.T) {
	e := mustCompile(t, "mode: public\n")
	for url, want := range map[string]string{
		"http://[2002:a9fe:a9fe::]/":           "deny metadata",
		"http://[2002:a9fe:a9fe:1:2:3:4:5]/":   "deny metadata",
		"http://[::169.254.169.254]/":          "deny metadata",
		"http://[::ffff:169.254.169.254]/":     "deny metadata",
		"http://[::ffff:a9fe:a9fe]/":           "deny metadata",
		"http://[0:0:0:0:0:ffff:a9fe:a9fe]/":   "deny metadata",
		"http://[64:ff9b::169.254.169.254]/":   "deny metadata",
		"http://[2001:0:1:2:3:4:5601:5601]/":   "deny metadata", // Teredo: the client's address, inverted
		"http://[2600::5efe:169.254.169.254]/": "deny metadata", // ISATAP
		"http://0xa9.0xfe.0xa9.0xfe/":          "deny metadata",
		"http://2852039166/":                   "deny metadata",
		"http://0251.0376.0251.0376/":          "deny metadata",
		"http://169.254.43518/":                "deny metadata",
		"http://[fd00:ec2::254]/":              "deny metadata",
		"http://169.254.169.254./":             "deny metadata",
		"http://[2000::1]/":                    "allow default-allow",
		"http://[2003:a9fe:a9fe::]/":           "allow default-allow",
		"http://[2a00:a9fe:a9fe::]/":           "allow default-allow",
		"http://[2606:4700:4700::1111]/":       "allow default-allow",
		"http://[2002:808:808::]/":             "deny tunnel", // a way through a tunnel, to whatever address
	} {
		decides(t, e, url, want)
	}
}
