package site

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestThemeRefused(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"unknown key":      {"nmae: x", "field nmae not found"},
		"script link":      {"home: 'javascript:alert(1)'", "not an https"},
		"link with login":  {"home: 'https://a:b@example.org'", "not an https"},
		"document link":    {"documents: [{title: x, url: 'data:text/html,x'}]", "not an https"},
		"colour":           {"colors: {accent: 'red;}'}", "#rrggbb"},
		"pale colour":      {"colors: {accent: '#dddddd'}", "contrast"},
		"dark colour":      {"colors: {accentDark: '#202020'}", "contrast"},
		"mail":             {"contact: {email: 'a@b'}", "not an address"},
		"mail with header": {`contact: {email: "a@b.example\r\nbcc:c@d.example"}`, "not an address"},
		"control":          {`name: "a\x07b"`, "control characters"},
		"date":             {"documents: [{title: x, date: yesterday}]", "date"},
		"long":             {"tagline: " + strings.Repeat("x", maxThemeText+1), "longer"},
		"many":             {"faq: [" + strings.Repeat("{question: a, answer: b},", maxThemeItems+1) + "]", "entries"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := ParseTheme([]byte(c.text)); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an error with %q", err, c.want)
			}
		})
	}
}

func TestLogo(t *testing.T) {
	svg := func(inner string) string {
		return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 8 8">` + inner + `</svg>`
	}
	for name, c := range map[string]struct {
		content string
		ok      bool
	}{
		"png":           {"\x89PNG\r\n\x1a\nrest", true},
		"jpeg":          {"\xff\xd8\xffrest", true},
		"webp":          {"RIFF1234WEBPrest", true},
		"plain svg":     {svg(`<path d="M0 0h8v8z" fill="#123"/>`), true},
		"gradient":      {svg(`<defs><linearGradient id="a"><stop offset="0" stop-color="#fff"/></linearGradient></defs><rect fill="url(#a)"/>`), true},
		"script":        {svg(`<script>alert(1)</script>`), false},
		"handler":       {svg(`<rect onload="alert(1)"/>`), false},
		"style":         {svg(`<style>*{}</style>`), false},
		"style attr":    {svg(`<rect style="fill:url(https://evil.example)"/>`), false},
		"link":          {svg(`<a href="https://evil.example"><rect/></a>`), false},
		"use":           {svg(`<use href="https://evil.example#x"/>`), false},
		"xlink":         {`<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"><image xlink:href="x"/></svg>`, false},
		"foreign":       {svg(`<foreignObject><body xmlns="http://www.w3.org/1999/xhtml"/></foreignObject>`), false},
		"outside url":   {svg(`<rect fill="url(https://evil.example#a)"/>`), false},
		"two urls":      {svg(`<rect fill="url(#a) url(https://evil.example)"/>`), false},
		"entity":        {`<!DOCTYPE svg [<!ENTITY x "y">]>` + svg(""), false},
		"processing":    {`<?xml-stylesheet href="x"?>` + svg(""), false},
		"animation":     {svg(`<rect><set attributeName="onload" to="alert(1)"/></rect>`), false},
		"html":          {"<html><script>alert(1)</script></html>", false},
		"not a picture": {"hello", false},
		"unclosed":      {`<svg xmlns="http://www.w3.org/2000/svg"><rect>`, false},
	} {
		t.Run(name, func(t *testing.T) {
			th := Theme{Logo: []byte(c.content)}
			if err := th.check(); (err == nil) != c.ok {
				t.Errorf("error %v, want accepted: %v", err, c.ok)
			}
		})
	}
	big := Theme{Logo: append([]byte("\x89PNG\r\n\x1a\n"), make([]byte, maxLogoBytes)...)}
	if err := big.check(); err == nil {
		t.Error("a logo beyond the limit is accepted")
	}
}

func TestLoadTheme(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("theme.yaml", "name: Example\nlogo: logo.png\ncolors: {accent: '#0a5a4c', accentDark: '#74cdb7'}\n")
	write("logo.png", "\x89PNG\r\n\x1a\nrest")
	th, err := LoadTheme(filepath.Join(dir, "theme.yaml"))
	if err != nil || th.Name != "Example" || th.logo.ext != "png" {
		t.Fatalf("%+v, %v", th, err)
	}
	out := filepath.Join(dir, "site")
	sampleSite(t, out, th, sampleEvidence())
	if index := read(t, out, "index.html"); !strings.Contains(index, "assets/logo-") || !strings.Contains(index, "assets/theme-") || !strings.Contains(index, "Example") {
		t.Error("the page does not carry the theme")
	}
	write("out.yaml", "logo: ../secret.png\n")
	if _, err := LoadTheme(filepath.Join(dir, "out.yaml")); err == nil {
		t.Error("a logo outside the theme's folder is read")
	}
}

// TestPalette keeps the style sheet, the contrast check of themes and the
// readability of every text colour in step.
func TestPalette(t *testing.T) {
	b, err := assetFiles.ReadFile("assets/site.css")
	if err != nil {
		t.Fatal(err)
	}
	css := string(b)
	if !strings.Contains(css, "--paper: "+paperLight) || strings.Count(css, "--paper: "+paperDark) != 2 {
		t.Fatal("the backgrounds of palette.go are not those of site.css")
	}
	light, dark := palette(css, 0), palette(css, strings.LastIndex(css, `:root[data-scheme="dark"] {`))
	for name, p := range map[string]map[string]string{"light": light, "dark": dark} {
		for _, pair := range [][2]string{
			{"ink", "paper"}, {"ink", "panel"}, {"soft", "paper"}, {"soft", "panel"}, {"accent", "paper"}, {"accent", "panel"}, {"accent", "wash"},
			{"hold", "paper"}, {"hold", "hold-wash"}, {"alarm", "paper"}, {"alarm", "alarm-wash"}, {"ink", "hold-wash"}, {"ink", "alarm-wash"}, {"ink", "wash"}, {"soft", "hold-wash"}, {"soft", "alarm-wash"},
		} {
			if r := contrast(p[pair[0]], p[pair[1]]); r < minContrast {
				t.Errorf("%s: %s on %s has a contrast of %.2f", name, pair[0], pair[1], r)
			}
		}
	}
}

// palette reads the colours of the first block after a place in a style sheet.
func palette(css string, from int) map[string]string {
	block := css[from:]
	block = block[:strings.Index(block, "}")]
	m := map[string]string{}
	for line := range strings.Lines(block) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ": "); ok && strings.HasPrefix(name, "--") && strings.HasPrefix(value, "#") {
			m[strings.TrimPrefix(name, "--")] = strings.TrimSuffix(value, ";")
		}
	}
	return m
}
