package verify_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"
	"unicode"

	"github.com/wallproof/wallproof/attest/packet"
	"github.com/wallproof/wallproof/verify"
	"github.com/wallproof/wallproof/verify/render"
	"github.com/wallproof/wallproof/verify/show"
)

// hostile is text that acts where it is printed: on a terminal, on a reader's sense
// of direction, on CI systems that read logs, in Markdown and in HTML.
const hostile = "\x1b]0;title\x07\x1b[2J\u009b1m\u202eevil\u2066\u200b\u2028\u00ad\U000e0041##[set-output name=x]1 ###vso[task.complete]\r\n::error::forged\n##teamcity[x] | <script>`www.example.org` @all #1"

// printable says what is wrong with a text that is printed, or "". Lines may begin
// with a workflow command only where such are printed.
func printable(form render.Format, out string) string {
	for _, r := range out {
		if r != '\n' && unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Co) {
			return fmt.Sprintf("prints %U", r)
		}
	}
	for _, command := range []string{"##[", "##vso", "##teamcity"} {
		if strings.Contains(out, command) {
			return "prints " + command
		}
	}
	for line := range strings.Lines(out) {
		if strings.HasPrefix(strings.TrimSpace(line), "::") && form != annotations {
			return "prints a workflow command: " + line
		}
		if form == annotations && !strings.HasPrefix(line, "::error title=wallproof ") && !strings.HasPrefix(line, "::warning title=wallproof ") {
			return "prints a line that is no annotation: " + line
		}
		for _, active := range []string{"<script", "www.example", "@all", " #1"} {
			if form == render.FormatMarkdown && strings.Contains(line, active) {
				return "prints " + active + " in Markdown: " + line
			}
		}
	}
	return ""
}

// annotations stands for GitHub's annotations among the forms of output.
const annotations render.Format = "annotations"

// printed prints a report in every form.
func printed(t *testing.T, r verify.Report) map[render.Format]string {
	t.Helper()
	out := map[render.Format]string{}
	for _, f := range render.Formats() {
		var b bytes.Buffer
		if err := render.Report(&b, r, f, render.Options{Artifact: "packet"}); err != nil {
			t.Fatal(err)
		}
		out[f] = b.String()
	}
	var github, gitlab bytes.Buffer
	if err := render.GitHub(&github, r); err != nil {
		t.Fatal(err)
	}
	if err := render.GitLab(&gitlab, r, render.Options{}); err != nil {
		t.Fatal(err)
	}
	out[annotations], out["gitlab"] = github.String(), gitlab.String()
	return out
}

// Text of a signer's or of anybody else's in the place of each string, and in each
// member's name, of the statement and of the manifest: nothing that verify, inspect
// or an annotation prints acts on what it is printed to.
func TestHostileTextInReports(t *testing.T) {
	p := tiny(t)
	quoted, err := json.Marshal(hostile)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	look := func(where string, r verify.Report) {
		n++
		for form, out := range printed(t, r) {
			if what := printable(form, out); what != "" {
				t.Errorf("%s: %s %s", where, form, what)
			}
		}
	}
	inspect := func(where string, print func(*bytes.Buffer) error) {
		var b bytes.Buffer
		err := print(&b)
		if what := printable("", b.String()); what != "" {
			t.Errorf("%s: inspect %s", where, what)
		}
		if err != nil && printable("", verify.Clean(err.Error())) != "" {
			t.Errorf("%s: inspect: %v", where, err)
		}
	}
	everyString(parseTree(p.Statement), string(quoted), func(where string, statement []byte) {
		look("statement "+where, verify.Verify(alone(p, p.Sign(t, statement))))
		inspect("statement "+where, func(b *bytes.Buffer) error { return show.File(b, statement) })
	})
	lines := manifestLines(p)
	for _, i := range []int{0, 1, len(lines) - 1} {
		line := lines[i]
		everyString(parseTree(line), string(quoted), func(where string, changed []byte) {
			all := append([][]byte{}, lines...)
			all[i] = changed
			files := maps.Clone(p.Files)
			files[packet.ManifestFile] = append(bytes.Join(all, []byte("\n")), '\n')
			in := p.Input()
			in.Packet = files
			look(fmt.Sprintf("line %d %s", i, where), verify.Verify(in))
			inspect(fmt.Sprintf("line %d %s", i, where), func(b *bytes.Buffer) error { return show.Packet(b, files) })
		})
	}
	if n < 150 {
		t.Errorf("%d texts tried", n)
	}
}

// everyString puts a raw value in the place of each string of a document, and as the
// name of another member of each object.
func everyString(root *node, value string, fn func(where string, data []byte)) {
	var walk func(n *node, path string)
	walk = func(n *node, path string) {
		if strings.HasPrefix(n.raw, `"`) {
			old := n.raw
			n.raw = value
			fn(path, root.bytes())
			n.raw = old
		}
		for i, e := range n.elems {
			at := fmt.Sprintf("%s[%d]", path, i)
			if n.kind == '{' {
				at = path + "." + n.names[i]
			}
			walk(e, at)
		}
	}
	walk(root, "")
	const name = "\x1b[2Jzz##[set-output name=x]1\u202ename"
	var objects func(n *node, path string)
	objects = func(n *node, path string) {
		if n.kind == '{' {
			names, elems := n.names, n.elems
			n.names, n.elems = append(append([]string{}, names...), name), append(append([]*node{}, elems...), &node{raw: "1"})
			fn(path+" with another member", jsonNames(root))
			n.names, n.elems = names, elems
		}
		for i, e := range n.elems {
			objects(e, fmt.Sprintf("%s[%d]", path, i))
		}
	}
	objects(root, "")
}

// jsonNames writes a document with members' names as JSON has them: the test's own
// writer quotes as Go does.
func jsonNames(root *node) []byte {
	return bytes.ReplaceAll(root.bytes(), []byte(`"\x1b`), []byte(`"\u001b`))
}
