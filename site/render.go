package site

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"html"
	"html/template"
	"path"
	"regexp"
	"strings"
	"sync"
)

//go:embed templates/*.html
var templateFiles embed.FS

//go:embed assets/*
var assetFiles embed.FS

// The pages; each is a template file that defines "content".
const (
	pageIndex       = "index.html"
	pageProcurement = "procurement.html"
	pageAttestation = "attestation.html"
	pageFleet       = "fleet.html"
	pageHistory     = "history.html"
	pageVerify      = "verify.html"
	pageMissing     = "missing.html"
)

var partials = []string{"templates/base.html", "templates/boundary.html", "templates/held.html"}

// pages parses every page once a process.
var pages = sync.OnceValues(func() (map[string]*template.Template, error) {
	base, err := template.New("base").Funcs(snippets).ParseFS(templateFiles, partials...)
	if err != nil {
		return nil, fmt.Errorf("site: templates: %w", err)
	}
	m := map[string]*template.Template{}
	for _, name := range []string{pageIndex, pageProcurement, pageAttestation, pageFleet, pageHistory, pageVerify, pageMissing} {
		t, err := base.Clone()
		if err == nil {
			t, err = t.ParseFS(templateFiles, "templates/"+name)
		}
		if err != nil {
			return nil, fmt.Errorf("site: template %s: %w", name, err)
		}
		m[name] = t
	}
	return m, nil
})

// snippets are the smallest parts, which a page has by the hundred. Everything in
// them is escaped here.
var snippets = template.FuncMap{
	"chip": func(c chip) template.HTML {
		return template.HTML(c.html()) //nolint:gosec // escaped
	},
	"facts": func(fs []fact) template.HTML {
		var b strings.Builder
		b.WriteString(`<dl class="facts">`)
		for _, f := range fs {
			f.write(&b)
		}
		b.WriteString("\n</dl>")
		return template.HTML(b.String()) //nolint:gosec // escaped
	},
	"techniques": rows[techniqueRow],
	"checks":     rows[checkRow],
	"fleet":      rows[fleetRow],
	"digests": func(s string) template.HTML {
		return template.HTML(markDigests(html.EscapeString(s))) //nolint:gosec // escaped
	},
	"name":  func(s string) template.HTML { return template.HTML(breakable(s)) },   //nolint:gosec // escaped
	"glyph": func(name string) template.HTML { return template.HTML(glyph(name)) }, //nolint:gosec // escaped
	"moment": func(m moment) template.HTML {
		return template.HTML(m.html()) //nolint:gosec // escaped
	},
}

// rowBytes is what a row of a table takes, about.
const rowBytes = 640

// rows are those of a table, each on a line of its own. One call for all of them: a
// template's call of a function costs more than a row.
func rows[R interface{ write(*strings.Builder) }](list []R) template.HTML {
	var b strings.Builder
	b.Grow(rowBytes * len(list))
	for _, r := range list {
		b.WriteByte('\n')
		r.write(&b)
	}
	return template.HTML(b.String()) //nolint:gosec // each row is escaped
}

// markDigests sets the digests in an escaped text in the letters of digests, also
// those that are written without their algorithm.
func markDigests(escaped string) string {
	var b strings.Builder
	done, from := 0, -1 // what is written; where the word that is read begins
	for i := 0; i <= len(escaped); i++ {
		if i < len(escaped) && wordByte(escaped[i]) {
			if from < 0 {
				from = i
			}
			continue
		}
		if from >= 0 && isHash(escaped[from:i]) {
			if before, found := strings.CutSuffix(escaped[:from], digestAlgorithm); found && len(before) >= done {
				from = len(before)
			}
			b.WriteString(escaped[done:from] + `<code class="digest">` + escaped[from:i] + `</code>`)
			done = i
		}
		from = -1
	}
	return b.String() + escaped[done:]
}

const digestAlgorithm = "sha256:"

func wordByte(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_'
}

// isHash tells a SHA-256 hash in lower-case hexadecimal digits.
func isHash(word string) bool {
	return len(word) == 2*sha256.Size && strings.Trim(word, "0123456789abcdef") == ""
}

// separators are the signs of an image's name after which a line may end.
var separators = strings.NewReplacer("/", "/<wbr>", ".", ".<wbr>", ":", ":<wbr>", "_", "_<wbr>", "@", "@<wbr>")

// breakable escapes a name so that a line ends after one of its separators, and within a
// word only where that word alone is longer than a line.
func breakable(name string) string { return separators.Replace(html.EscapeString(name)) }

// unbroken keeps words together that a line would end within, at their hyphen. It looks
// at texts only, and at none before the body.
func unbroken(page []byte) []byte {
	var w bytes.Buffer
	done := max(0, bytes.Index(page, []byte("<body>")))
	w.Write(page[:done])
	for {
		i := bytes.Index(page[done:], []byte("e-run"))
		if i < 0 {
			break
		}
		i += done
		end := i + len("e-run")
		inText := bytes.LastIndexByte(page[:i], '>') > bytes.LastIndexByte(page[:i], '<')
		if first := page[i-1] | 0x20; first == 'r' && inText {
			w.Write(page[done : i-1])
			w.WriteString(`<span class="nb">` + string(page[i-1:end]) + `</span>`)
		} else {
			w.Write(page[done:end])
		}
		done = end
	}
	w.Write(page[done:])
	return w.Bytes()
}

func (m moment) html() string {
	if m.ISO == "" {
		return `<span class="soft">not recorded</span>`
	}
	return `<time datetime="` + html.EscapeString(m.ISO) + `">` + html.EscapeString(m.Text) + `</time>`
}

func (c chip) html() string {
	return `<span class="chip ` + html.EscapeString(c.Class) + `"><svg aria-hidden="true"><use href="#g-` + html.EscapeString(c.Glyph) + `"/></svg>` + html.EscapeString(c.Word) + `</span>`
}

// write writes one row of the list of all attestations, of which a site may have ten
// thousand. The address is made of hexadecimal digits.
func (r fleetRow) write(b *strings.Builder) {
	e := html.EscapeString
	b.WriteString(`<tr data-text="` + e(r.Search) + `" data-kind="` + e(r.Kind) + `"`)
	if r.Expires.ISO != "" {
		b.WriteString(` data-row-expires="` + e(r.Expires.ISO) + `"`)
	}
	b.WriteString(`><th scope="row"><a href="` + e(r.Href) + `">` + breakable(r.Name) + `</a><span class="soft digest">` + e(r.Short) + `</span></th><td data-label="State">` + r.Chip.html())
	if r.Codes != "" {
		b.WriteString(` <span class="soft small"><span class="unit">` + strings.ReplaceAll(e(r.Codes), ", ", `,</span> <span class="unit">`) + `</span></span>`)
	}
	b.WriteString(`</td><td data-label="Critical escapes">`)
	if r.Claim != "" {
		b.WriteString(`<span data-row-claim>` + e(r.Claim) + `</span>`)
	} else {
		b.WriteString(`<span class="soft">not shown</span>`)
	}
	b.WriteString(`</td><td class="day" data-label="Collected">` + r.Collected.html() + `</td><td class="day" data-label="Valid until">` + r.Until.html() + `</td></tr>`)
}

// write writes one technique on the page of an attestation, which has hundreds.
func (r techniqueRow) write(b *strings.Builder) {
	e := html.EscapeString
	soft := func(s string) { b.WriteString(`<span class="soft small block">` + e(s) + `</span>`) }
	b.WriteString(`<tr data-text="` + e(r.Search) + `" data-kind="` + e(r.Kind) + `"><th scope="row">` + e(r.Title) + `<span class="soft"><span class="mono">` + e(r.ID) + `</span>`)
	if r.References != "" {
		b.WriteString(" · " + e(r.References))
	}
	b.WriteString(`</span>`)
	if len(r.Variants) > 0 {
		b.WriteString(`<span class="soft">` + e(strings.Join(r.Variants, ", ")) + `</span>`)
	}
	b.WriteString(`</th><td data-label="Wall removed">` + e(r.Control) + `</td><td data-label="Wall up">` + r.Chip.html())
	soft(r.Reason)
	for _, f := range r.Findings {
		soft(f)
	}
	b.WriteString(`</td><td data-label="If it escaped">` + e(r.Severity) + `</td></tr>`)
}

// write writes one line of the verifier.
func (r checkRow) write(b *strings.Builder) {
	e := html.EscapeString
	b.WriteString(`<tr><th scope="row">` + e(r.Name) + `</th><td data-label="Result">` + r.Chip.html() + `</td><td data-label="Found">` + markDigests(e(r.Text)) + ` <span class="code">` + e(r.Code) + `</span></td></tr>`)
}

// write writes one line of a record.
func (f fact) write(b *strings.Builder) {
	b.WriteString("\n<div><dt>" + html.EscapeString(f.Label) + "</dt><dd>")
	switch {
	case f.Digest != "":
		if f.Text != "" {
			b.WriteString(html.EscapeString(f.Text) + " ")
		}
		b.WriteString(`<code class="digest">` + html.EscapeString(f.Digest) + `</code>`)
	case f.Time.ISO != "":
		b.WriteString(`<time datetime="` + html.EscapeString(f.Time.ISO) + `">` + html.EscapeString(f.Time.Text) + `</time>`)
	case f.Name != "":
		b.WriteString(breakable(f.Name))
	default:
		b.WriteString(html.EscapeString(f.Text))
	}
	if f.Note != "" {
		b.WriteString(` <span class="soft small">` + html.EscapeString(f.Note) + `</span>`)
	}
	if f.Life != nil {
		fmt.Fprintf(b, `<svg class="life" viewBox="0 0 100 6" preserveAspectRatio="none" aria-hidden="true"><rect class="whole" width="100" height="6"/><rect class="gone" width="%d" height="6"/></svg>`, f.Life.Percent)
	}
	b.WriteString("</dd></div>")
}

func glyph(name string) string {
	return `<svg class="glyph" aria-hidden="true"><use href="#g-` + html.EscapeString(name) + `"/></svg>`
}

// render executes a page.
func render(name string, v pageView) ([]byte, error) {
	var b bytes.Buffer
	if err := renderTo(&b, name, v); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// renderTo executes a page into a buffer.
func renderTo(w *bytes.Buffer, name string, v pageView) error {
	all, err := pages()
	if err != nil {
		return err
	}
	if err := all[name].ExecuteTemplate(w, "page", v); err != nil {
		return fmt.Errorf("site: render %s: %w", name, err)
	}
	return nil
}

// asset is one file below assets/, named by its content, so that it can be
// cached for ever and never goes with the page of another build.
type asset struct {
	path    string
	content []byte
}

func newAsset(name string, content []byte) asset {
	sum := sha256.Sum256(content)
	ext := path.Ext(name)
	return asset{"assets/" + strings.TrimSuffix(name, ext) + "-" + hex.EncodeToString(sum[:5]) + ext, content}
}

func builtinAsset(name string) (asset, error) {
	b, err := assetFiles.ReadFile("assets/" + name)
	if err != nil {
		return asset{}, fmt.Errorf("site: asset: %w", err)
	}
	return newAsset(name, shorten(name, b)), nil
}

// shorten takes out of a style sheet or script what only its authors read. It
// knows the style in which ours are written and nothing more: comments on lines
// of their own, no text over several lines.
func shorten(name string, b []byte) []byte {
	switch path.Ext(name) {
	case ".css":
		s := cssComment().ReplaceAllString(string(b), "")
		s = strings.Join(strings.Fields(s), " ")
		s = cssTight().ReplaceAllStringFunc(s, tighten)
		return []byte(strings.ReplaceAll(s, ";}", "}") + "\n")
	case ".js":
		var w strings.Builder
		for line := range strings.Lines(string(b)) {
			if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "//") {
				w.WriteString(closeUp(line))
			}
		}
		return []byte(w.String())
	}
	return b
}

// closeUp takes the spaces around signs out of a line of a script, but for those within
// its texts. A line with a template or with a slash, which may begin a comment or a
// regular expression, is left as it is. What follows a line that cannot end there is
// joined to it.
func closeUp(line string) string {
	parts := strings.Split(line, `"`)
	for i := 0; i < len(parts); i += 2 { // every other part is a text
		if strings.ContainsAny(parts[i], "`/'\\") {
			return line + "\n"
		}
		parts[i] = jsTight().ReplaceAllStringFunc(parts[i], tighten)
	}
	line = strings.Join(parts, `"`)
	if strings.HasSuffix(line, ";") || strings.HasSuffix(line, "{") || strings.HasSuffix(line, ",") {
		return line
	}
	return line + "\n"
}

// unused takes the signs that a page does not use out of its sprite.
func unused(page []byte) []byte {
	return symbol().ReplaceAllFunc(page, func(s []byte) []byte {
		if id := symbol().FindSubmatch(s)[1]; bytes.Contains(page, []byte(`"#`+string(id)+`"`)) {
			return s
		}
		return nil
	})
}

var symbol = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`<symbol id="([a-z-]+)".*</symbol>\n`) })

// tighten keeps the sign of a match and drops the spaces around it.
func tighten(match string) string { return strings.ReplaceAll(match, " ", "") }

var (
	cssComment = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?s)/\*.*?\*/`) })
	jsTight    = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(` ?(=>|[=!]==|&&|\|\||\?\?|[=?:,;{}<>]) ?|\b(if|for|while|catch) \(|\) (return|try|for)\b`)
	})
	cssTight = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(` ?([{};,]) ?| > |(\b): `) })
)
