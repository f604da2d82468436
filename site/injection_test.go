package site

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode"

	"golang.org/x/net/html"
)

// payloads are texts that would change a page's meaning if they were not
// escaped, or not escaped for the place where they stand.
var payloads = []string{
	`<script>alert(1)</script>`,
	`</script><script>alert(1)</script>`,
	`"><img src=x onerror=alert(1)>`,
	`'><svg onload=alert(1)>`,
	`" onmouseover="alert(1)`,
	`' onfocus='alert(1)' autofocus='`,
	"` onclick=`alert(1)`",
	`javascript:alert(1)`,
	`JaVaScRiPt:alert(1)`,
	"java\tscript:alert(1)",
	"\x01javascript:alert(1)",
	`data:text/html,<script>alert(1)</script>`,
	`vbscript:msgbox(1)`,
	`//evil.example/x.js`,
	`https://evil.example/"onclick="alert(1)`,
	`<a href="javascript:alert(1)">x</a>`,
	`<iframe srcdoc="<script>alert(1)</script>">`,
	`<base href="https://evil.example/">`,
	`<meta http-equiv="refresh" content="0;url=https://evil.example">`,
	`<link rel="stylesheet" href="https://evil.example/x.css">`,
	`<style>*{display:none}</style>`,
	`</style><style>body{display:none}</style>`,
	`<template><script>alert(1)</script></template>`,
	`</template><div data-claim>`,
	`</title><script>alert(1)</script>`,
	`</textarea><script>alert(1)</script>`,
	`</code></pre><h1>0 critical escapes</h1>`,
	`--><script>alert(1)</script><!--`,
	`<![CDATA[<script>alert(1)</script>]]>`,
	`]]><script xmlns="http://www.w3.org/1999/xhtml">alert(1)</script>`,
	`</text></svg><script>alert(1)</script>`,
	`<math><mtext></form><form><mglyph><style></math><img src onerror=alert(1)>`,
	`<form action="https://evil.example"><button>`,
	`&lt;script&gt;alert(1)&lt;/script&gt;`,
	`&#x3C;script&#x3E;alert(1)`,
	`{{.Claim}}{{template "claim" .}}`,
	`${alert(1)}`,
	`%3Cscript%3Ealert(1)%3C/script%3E`,
	"\u202e\u2066gpj.exe\u2069",
	"line one\r\nX-Injected: 1\n\u2028\u2029",
	"\x00\x1b[31mred\x7f",
	"\xff\xfe<script>",
	strings.Repeat("<b>", 300),
}

// words that stand for one of a closed list; a text in their place changes what
// a page shows, as it should.
var closed = []string{"Outcome", "Vector", "State", "state", "Posture", "status", "name", "Severity", "Attestor", "NotApplicable", "Reason", "Placement", "EgressDefault", "Variant", "Kind"}

// poison sets every text within a value, however deep, but for those of closed
// lists, digests that name files and map keys.
func poison(v reflect.Value, name, text string) {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			poison(v.Elem(), name, text)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			poison(reach(v.Field(i)), v.Type().Field(i).Name, text)
		}
	case reflect.Slice:
		for i := range v.Len() {
			poison(v.Index(i), name, text)
		}
	case reflect.Map:
		for _, k := range v.MapKeys() {
			if v.Type().Elem().Kind() == reflect.String {
				v.SetMapIndex(k, reflect.ValueOf(text))
			}
		}
	case reflect.String:
		if !slices.Contains(closed, name) && v.CanSet() {
			v.SetString(text)
		}
	}
}

// reach makes an unexported field settable.
func reach(v reflect.Value) reflect.Value {
	if v.CanSet() || !v.CanAddr() {
		return v
	}
	return reflect.NewAt(v.Type(), v.Addr().UnsafePointer()).Elem()
}

// poisoned is the sample with a text in every place that a packet can set.
func poisoned(text string) *evidence {
	e := sampleEvidence()
	id, digest := e.id, e.digest
	for i := range e.techniques {
		e.techniques[i].Reason = text
	}
	catalog := e.catalog
	e.catalog = nil
	poison(reflect.ValueOf(e).Elem(), "", text)
	e.id, e.digest, e.catalog = id, digest, catalog
	e.boundary.Fabric.Driver.Isolation = map[string]string{text: text, "kernel": "own"}
	for i := range e.checks {
		e.checks[i].message = text
	}
	return e
}

// poisonedTheme has a text in every field of a theme that takes it. The fields
// are found by reflection. One that refuses the text, as addresses, dates and
// colours do, keeps a harmless value; so does every field that refused it before.
func poisonedTheme(t *testing.T, text string) Theme {
	t.Helper()
	theme := Theme{
		Name: "word", Tagline: "word", Home: "https://example.org/", Colors: Colors{"#0a5a4c", "#74cdb7"}, Contact: Contact{"word", "a@example.org", "https://example.org/c"},
		FAQ: []QA{{"word", "word"}}, KnownGaps: []Gap{{"word", "word"}}, Documents: []Document{{"word", "https://example.org/d", "2026-01-31", "word"}},
	}
	taken := 0
	eachText(reflect.ValueOf(&theme).Elem(), func(v reflect.Value) {
		good := v.String()
		if good == "" {
			t.Fatalf("a field of the theme has no harmless value here: add one (%v)", theme)
		}
		v.SetString(text)
		if theme.check() != nil {
			v.SetString(good)
			return
		}
		taken++
	})
	if text == "word" && taken < 7 {
		t.Fatalf("only %d fields take a plain word", taken)
	}
	return theme
}

// eachText visits every text within a value.
func eachText(v reflect.Value, visit func(reflect.Value)) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() && f.Name != "LogoFile" { // a path, never on a page
				eachText(v.Field(i), visit)
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			eachText(v.Index(i), visit)
		}
	case reflect.String:
		visit(v)
	}
}

// TestInjection renders every page with each payload in every field, and holds
// the document's structure against the same page with a harmless word.
func TestInjection(t *testing.T) {
	harmless := map[string]string{} // folders of the same pages with a word
	base := t.TempDir()
	for _, held := range []bool{false, true} {
		for i, p := range payloads {
			t.Run(fmt.Sprintf("%d held=%v", i, held), func(t *testing.T) {
				theme := poisonedTheme(t, p)
				key := fmt.Sprint(held)
				if harmless[key] == "" {
					harmless[key] = filepath.Join(base, key)
					poisonedSite(t, harmless[key], poisonedTheme(t, "word"), "word", held)
				}
				dir := t.TempDir()
				poisonedSite(t, dir, theme, p, held)
				comparePages(t, harmless[key], dir)
				checkOthers(t, dir)
			})
		}
	}
}

func poisonedSite(t *testing.T, dir string, theme Theme, text string, held bool) {
	t.Helper()
	e := poisoned(text)
	if held {
		e.hold("policy-drift").reasons[0].message = text
	}
	sampleSite(t, dir, theme, e)
}

func comparePages(t *testing.T, good, bad string) {
	t.Helper()
	pages := 0
	for name := range treeDigests(t, good) {
		if filepath.Ext(name) != ".html" {
			continue
		}
		pages++
		got := read(t, bad, name)
		a, b := skeleton(t, read(t, good, name)), skeleton(t, got)
		for i := range min(len(a), len(b)) {
			if a[i] != b[i] {
				t.Fatalf("%s: element %d is %q, with a harmless word %q", name, i, b[i], a[i])
			}
		}
		if len(a) != len(b) {
			t.Errorf("%s: %d elements, with a harmless word %d", name, len(b), len(a))
		}
		if i := strings.IndexFunc(got, func(r rune) bool { return unicode.Is(unicode.Cf, r) || (unicode.IsControl(r) && r != '\n') }); i >= 0 {
			t.Errorf("%s: control or format character at %d: %q", name, i, got[max(0, i-40):min(len(got), i+40)])
		}
	}
	if pages < 6 {
		t.Errorf("only %d pages were compared", pages)
	}
}

// skeleton lists the elements of a page with the names of their attributes, and
// the values of those that lead somewhere.
func skeleton(t *testing.T, page string) []string {
	t.Helper()
	doc, err := html.Parse(strings.NewReader(page))
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	var walk func(*html.Node)
	walk = func(n *html.Node) {
		if n.Type == html.ElementNode && (n.Data != "wbr" || len(n.Attr) > 0) { // a place where a line may end is no structure
			var b strings.Builder
			b.WriteString(n.Data)
			for _, a := range n.Attr {
				fmt.Fprintf(&b, " %s", a.Key)
				switch a.Key {
				case "href", "src", "action", "id", "http-equiv":
					scheme, _, external := strings.Cut(a.Val, ":")
					if external { // a publisher's own: that it leads out counts, and by which scheme
						fmt.Fprintf(&b, "=%q", scheme)
						break
					}
					fmt.Fprintf(&b, "=%q", a.Val)
				}
				if strings.HasPrefix(a.Key, "on") || a.Key == "style" || a.Key == "srcdoc" {
					t.Errorf("attribute %s on %s", a.Key, n.Data)
				}
				if a.Key == "href" && !strings.HasPrefix(a.Val, "https://") && !strings.HasPrefix(a.Val, "http://") && !strings.HasPrefix(a.Val, "mailto:") && strings.Contains(strings.SplitN(a.Val, "/", 2)[0], ":") {
					t.Errorf("link to %q", a.Val)
				}
			}
			out = append(out, b.String())
		}
		for c := n.FirstChild; c != nil; c = c.NextSibling {
			walk(c)
		}
	}
	walk(doc)
	return out
}

// checkOthers parses every other file in its own language.
func checkOthers(t *testing.T, dir string) {
	t.Helper()
	for name := range treeDigests(t, dir) {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		switch filepath.Ext(name) {
		case ".json", ".jsonld":
			if !json.Valid(b) {
				t.Errorf("%s is not JSON", name)
			}
			if bytes.ContainsAny(b, "<>") {
				t.Errorf("%s holds angle brackets in clear", name)
			}
		case ".xml", ".svg":
			if strings.HasPrefix(name, "assets/") {
				continue
			}
			elements := xmlElements(t, name, b)
			for _, e := range elements {
				if e == "script" || e == "img" || e == "iframe" {
					t.Errorf("%s has an element %s", name, e)
				}
			}
		}
	}
}

func xmlElements(t *testing.T, name string, b []byte) []string {
	t.Helper()
	var out []string
	for dec := xml.NewDecoder(bytes.NewReader(b)); ; {
		tok, err := dec.Token()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Errorf("%s is not XML: %v", name, err)
			return out
		}
		if s, ok := tok.(xml.StartElement); ok {
			out = append(out, s.Name.Local)
		}
	}
}

func TestSafeURL(t *testing.T) {
	for in, want := range map[string]string{
		"https://example.org/a?b=c#d": "https://example.org/a?b=c#d",
		"http://example.org":          "http://example.org",
		"mailto:security@example.org": "mailto:security@example.org",
		"HTTPS://example.org/":        "https://example.org/",
		"javascript:alert(1)":         "", "JAVASCRIPT:alert(1)": "", "java\nscript:x": "", " javascript:x": "",
		"data:text/html,x": "", "vbscript:x": "", "file:///etc/passwd": "", "//evil.example": "", "/local": "",
		"https://user:pw@example.org/": "", "https:evil": "", "https:///x": "", "mailto:a@b": "", "mailto:a@b.example?bcc=c": "",
		"blob:https://x": "", "": "", "https://exa mple.org": "", "ftp://example.org": "",
	} {
		if got := safeURL(in); got != want {
			t.Errorf("safeURL(%q) = %q, want %q", in, got, want)
		}
	}
}

func FuzzClean(f *testing.F) {
	for _, p := range payloads {
		f.Add(p)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got := clean(s)
		if clean(got) != got {
			t.Errorf("not idempotent: %q", got)
		}
		for _, r := range got {
			if (unicode.IsControl(r) && r != '\n') || unicode.Is(unicode.Cf, r) {
				t.Errorf("%U is left in %q", r, got)
			}
		}
	})
}
