package site

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/net/html"
)

// TestHeaders is case E22: frame-ancestors has no effect in a meta element, so
// every host's file must carry it, and no meta element may pretend to.
func TestHeaders(t *testing.T) {
	dir := t.TempDir()
	sampleSite(t, dir, Theme{}, sampleEvidence())
	for _, name := range []string{"_headers", ".htaccess", "nginx-headers.conf", "vercel.json", "staticwebapp.config.json", "firebase.json"} {
		b := read(t, dir, name)
		for _, want := range []string{"Content-Security-Policy", "frame-ancestors 'none'", "X-Content-Type-Options", "nosniff", "X-Frame-Options", "DENY", "no-referrer"} {
			if !strings.Contains(b, want) {
				t.Errorf("%s lacks %s", name, want)
			}
		}
		if strings.Contains(b, "unsafe-inline") || strings.Contains(b, "'unsafe-eval'") {
			t.Errorf("%s allows inline content or eval", name)
		}
		if filepath.Ext(name) == ".json" && !json.Valid([]byte(b)) {
			t.Errorf("%s is not JSON", name)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, ".nojekyll")); err != nil {
		t.Error(err)
	}
}

// TestPolicyOfPages: each page has a policy in its head before anything that it
// governs, nothing inline, nothing from elsewhere.
func TestPolicyOfPages(t *testing.T) {
	dir := t.TempDir()
	sampleSite(t, dir, Theme{Name: "Example", Colors: Colors{Accent: "#123456"}}, sampleEvidence())
	for name := range treeDigests(t, dir) {
		if filepath.Ext(name) != ".html" {
			continue
		}
		page := read(t, dir, name)
		doc, err := html.Parse(strings.NewReader(page))
		if err != nil {
			t.Fatal(err)
		}
		csp := ""
		for n := range doc.Descendants() {
			if n.Type != html.ElementNode {
				continue
			}
			a := attributes(n)
			switch n.Data {
			case "meta":
				if a["http-equiv"] == "Content-Security-Policy" {
					csp = a["content"]
				}
			case "script":
				if csp == "" || n.FirstChild != nil || a["src"] == "" || strings.Contains(a["src"], ":") || strings.HasPrefix(a["src"], "//") {
					t.Errorf("%s: script before the policy, inline, or from elsewhere: %v", name, a)
				}
			case "style":
				t.Errorf("%s: style element", name)
			case "link", "img":
				if u := a["href"] + a["src"]; strings.Contains(u, ":") || strings.HasPrefix(u, "//") {
					t.Errorf("%s: %s from elsewhere: %q", name, n.Data, u)
				}
			}
		}
		for _, bad := range []string{"frame-ancestors", "unsafe-inline", "unsafe-eval", "https:", "*"} {
			if strings.Contains(strings.ReplaceAll(csp, "wasm-unsafe-eval", ""), bad) {
				t.Errorf("%s: policy %q has %s", name, csp, bad)
			}
		}
		if !strings.HasPrefix(csp, "default-src 'none'") {
			t.Errorf("%s: policy %q", name, csp)
		}
	}
}

func attributes(n *html.Node) map[string]string {
	m := map[string]string{}
	for _, a := range n.Attr {
		m[a.Key] = a.Val
	}
	return m
}
