package site

import (
	"fmt"
	"strings"
)

// Content security policy. Everything comes from the site itself; nothing is
// inline. frame-ancestors has no effect in a meta element, which is why header
// files for static hosts are written too.
const (
	cspBase   = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'"
	cspVerify = "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'"
	// cspHeader is sent with every page. It has to allow WebAssembly, which the
	// verify page needs; every other page takes that away again in its meta
	// element, since both policies apply.
	cspHeader = cspVerify + "; frame-ancestors 'none'"
)

type header struct{ name, value string }

// headers are sent with every file.
var headers = []header{
	{"Content-Security-Policy", cspHeader},
	{"X-Content-Type-Options", "nosniff"},
	{"X-Frame-Options", "DENY"},
	{"Referrer-Policy", "no-referrer"},
	{"Permissions-Policy", "camera=(), geolocation=(), microphone=(), payment=(), usb=()"},
	{"Cross-Origin-Opener-Policy", "same-origin"},
}

// lasting is sent with files that are named by their content.
var lasting = header{"Cache-Control", "public, max-age=31536000, immutable"}

// contentTypes are those that hosts tend to get wrong.
var contentTypes = []struct{ ext, kind string }{
	{"jsonld", "application/ld+json"},
	{"wasm", "application/wasm"},
	{"xml", "application/atom+xml; charset=utf-8"},
}

// headerFiles are the configurations of common static hosts, by name.
func headerFiles() (map[string][]byte, error) {
	vercel, err := pretty(vercelConfig())
	if err != nil {
		return nil, err
	}
	azure, err := pretty(azureConfig())
	if err != nil {
		return nil, err
	}
	firebase, err := pretty(map[string]any{"hosting": map[string]any{"public": ".", "headers": vercelHeaders("source", "**", "/assets/**")}})
	if err != nil {
		return nil, err
	}
	return map[string][]byte{
		"_headers":                 netlifyHeaders(),
		".htaccess":                apacheHeaders(),
		"nginx-headers.conf":       nginxHeaders(),
		"vercel.json":              vercel,
		"staticwebapp.config.json": azure,
		"firebase.json":            firebase,
		".nojekyll":                {},
	}, nil
}

// netlifyHeaders is the form of Netlify and Cloudflare Pages.
func netlifyHeaders() []byte {
	var b strings.Builder
	b.WriteString("/*\n")
	for _, h := range headers {
		fmt.Fprintf(&b, "  %s: %s\n", h.name, h.value)
	}
	fmt.Fprintf(&b, "/assets/*\n  %s: %s\n", lasting.name, lasting.value)
	return []byte(b.String())
}

func apacheHeaders() []byte {
	var b strings.Builder
	b.WriteString("ErrorDocument 404 /404.html\n<IfModule mod_headers.c>\n")
	for _, h := range headers {
		fmt.Fprintf(&b, "  Header always set %s \"%s\"\n", h.name, h.value)
	}
	b.WriteString("</IfModule>\n<IfModule mod_mime.c>\n")
	for _, t := range contentTypes {
		fmt.Fprintf(&b, "  AddType \"%s\" .%s\n", t.kind, t.ext)
	}
	b.WriteString("</IfModule>\n")
	return []byte(b.String())
}

// nginxHeaders is to be included in a server block.
func nginxHeaders() []byte {
	var b strings.Builder
	for _, h := range headers {
		fmt.Fprintf(&b, "add_header %s \"%s\" always;\n", h.name, h.value)
	}
	b.WriteString("error_page 404 /404.html;\n")
	return []byte(b.String())
}

func vercelHeaders(key, all, assets string) []any {
	var hs []any
	for _, h := range headers {
		hs = append(hs, map[string]any{"key": h.name, "value": h.value})
	}
	return []any{
		map[string]any{key: all, "headers": hs},
		map[string]any{key: assets, "headers": []any{map[string]any{"key": lasting.name, "value": lasting.value}}},
	}
}

func vercelConfig() map[string]any {
	return map[string]any{"headers": vercelHeaders("source", "/(.*)", "/assets/(.*)")}
}

func azureConfig() map[string]any {
	global := map[string]any{}
	for _, h := range headers {
		global[h.name] = h.value
	}
	types := map[string]any{}
	for _, t := range contentTypes {
		types["."+t.ext] = t.kind
	}
	return map[string]any{
		"globalHeaders":     global,
		"mimeTypes":         types,
		"responseOverrides": map[string]any{"404": map[string]any{"rewrite": "/404.html", "statusCode": 404}},
		"routes":            []any{map[string]any{"route": "/assets/*", "headers": map[string]any{lasting.name: lasting.value}}},
	}
}
