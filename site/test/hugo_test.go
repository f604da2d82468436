//go:build browser

package sitetest

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A page of about what an attestation's page shows, in Hugo's words.
const hugoPage = `<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{{ .Title }}</title><link rel="stylesheet" href="/site.css"></head><body>
<header><nav><ul>{{ range .Site.Menus.main }}<li><a href="{{ .URL }}">{{ .Name }}</a></li>{{ end }}</ul></nav></header>
<main><h1>{{ .Params.claim }}</h1><dl>{{ range $k, $v := .Params.facts }}<div><dt>{{ $k }}</dt><dd><code>{{ $v }}</code></dd></div>{{ end }}</dl>
{{ range .Params.sections }}<section><h2>{{ .title }}</h2><table>{{ range .rows }}<tr><th>{{ .name }}</th><td>{{ .control }}</td><td>{{ .outcome }}</td><td>{{ .severity }}</td><td>{{ .reason }}</td></tr>{{ end }}</table></section>{{ end }}
</main></body></html>
`

const hugoList = `<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{{ .Title }}</title></head><body><table>
{{ $p := .Paginate .Pages 100 }}{{ range $p.Pages }}<tr><th><a href="{{ .RelPermalink }}">{{ .Title }}</a></th><td>{{ .Params.claim }}</td></tr>{{ end }}</table>{{ template "_internal/pagination.html" . }}</body></html>
`

// hugo builds as many pages with Hugo and prints its time, where it is
// installed. Hugo verifies nothing and offers no packets; the comparison is one
// of rendering.
func hugo(t *testing.T, n int) {
	t.Helper()
	path, err := exec.LookPath("hugo")
	if err != nil {
		t.Log("hugo is not installed, so there is nothing to compare with (Debian: apt-get install hugo)")
		return
	}
	dir := t.TempDir()
	write := func(name, content string) {
		t.Helper()
		p := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("config.json", `{"baseURL":"https://example.org/","title":"x","disableKinds":["taxonomy","term","RSS","sitemap"],"menu":{"main":[{"name":"a","url":"/a"},{"name":"b","url":"/b"}]}}`)
	write("layouts/_default/single.html", hugoPage)
	write("layouts/_default/list.html", hugoList)
	for i := range n {
		front, err := json.Marshal(hugoFront(i))
		if err != nil {
			t.Fatal(err)
		}
		write(fmt.Sprintf("content/attestations/a%05d.md", i), string(front)+"\n")
	}
	cmd := exec.Command(path, "--quiet", "--source", dir, "--destination", filepath.Join(dir, "public"))
	start := time.Now()
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("hugo: %v\n%s", err, out)
	}
	took := time.Since(start)
	version, err := exec.Command(path, "version").Output()
	if err != nil {
		t.Fatal(err)
	}
	cpu := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	t.Logf("%-10s %6.1f s, %6.1f s of processor, for as many pages (%s)", "hugo", took.Seconds(), cpu.Seconds(), strings.Join(strings.Fields(string(version))[:2], " "))
}

func hugoFront(i int) map[string]any {
	row := func(name string) map[string]any {
		return map[string]any{"name": name, "control": "Succeeded", "outcome": "Blocked", "severity": "Critical", "reason": "refused by the packet filter, on record"}
	}
	var sections []map[string]any
	for _, s := range []string{"Techniques", "Checks", "Measured"} {
		var rows []map[string]any
		for k := range 12 {
			rows = append(rows, row(fmt.Sprintf("%s %d of %d", s, k, i)))
		}
		sections = append(sections, map[string]any{"title": s, "rows": rows})
	}
	digest := fmt.Sprintf("sha256:%064x", i)
	return map[string]any{
		"title": fmt.Sprintf("registry.example.org/agents/image-%05d", i), "claim": "0 critical escapes", "sections": sections,
		"facts": map[string]string{"Image": digest, "Policy": digest, "Collected": "2026-11-28", "Valid until": "2027-01-27", "Signer": digest, "Attestation": digest},
	}
}
