package site

import (
	"html"
	"regexp"
	"strings"
	"testing"
)

// TestNamesBreakAfterSeparators: a line may end after the separators of a name, and the
// name stays what it was.
func TestNamesBreakAfterSeparators(t *testing.T) {
	for name, want := range map[string]string{
		"registry.example.org/agents/demo": "registry.<wbr>example.<wbr>org/<wbr>agents/<wbr>demo",
		"localhost:5000/a_b":               "localhost:<wbr>5000/<wbr>a_<wbr>b",
		"plain":                            "plain",
		"a/<b>&'":                          "a/<wbr>&lt;b&gt;&amp;&#39;",
	} {
		got := breakable(name)
		if got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
		if back := html.UnescapeString(strings.ReplaceAll(got, "<wbr>", "")); back != name {
			t.Errorf("%s became %s", name, back)
		}
	}
	dir := t.TempDir()
	e := sampleEvidence()
	sampleSite(t, dir, Theme{}, e)
	for _, page := range []string{"index.html", "procurement/index.html", "fleet/index.html", "history/index.html", attestationStem(e.id) + endPage} {
		_, body, _ := strings.Cut(read(t, dir, page), "<body>")
		body = regexp.MustCompile(`(?s)<pre.*?</pre>`).ReplaceAllString(body, "") // its lines do not break
		if !strings.Contains(body, "agents/<wbr>python") {
			t.Errorf("%s does not name the image", page)
		}
		if at := regexp.MustCompile(`>[^<]*agents/python[^<]*<`).FindString(body); at != "" {
			t.Errorf("%s: a name that breaks within a word: %s", page, at)
		}
	}
}

// TestWordsStayWhole: no line ends at the hyphen of "re-run", anywhere in a text, and
// nothing but texts is touched.
func TestWordsStayWhole(t *testing.T) {
	in := `<head><title>re-run</title></head><body><p id="re-run" title="a re-run">Re-run and re-run, one-run<b>re-run</b>`
	want := `<head><title>re-run</title></head><body><p id="re-run" title="a re-run"><span class="nb">Re-run</span> and <span class="nb">re-run</span>, one-run<b><span class="nb">re-run</span></b>`
	if got := string(unbroken([]byte(in))); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	dir := t.TempDir()
	e := sampleEvidence()
	sampleSite(t, dir, Theme{}, e)
	for _, page := range []string{"index.html", attestationStem(e.id) + endPage} {
		_, body, _ := strings.Cut(read(t, dir, page), "<body>")
		loose := regexp.MustCompile(`<span class="nb">[rR]e-run</span>`).ReplaceAllString(body, "")
		if loose == body {
			t.Errorf("%s has no such word", page)
		}
		if at := regexp.MustCompile(`>[^<]*[rR]e-run[^<]*`).FindString(loose); at != "" {
			t.Errorf("%s: %s", page, at)
		}
	}
}

// TestDigestsInTexts: whole SHA-256 digests have the letters of digests, with and without
// their algorithm, and nothing else has.
func TestDigestsInTexts(t *testing.T) {
	h := strings.Repeat("0a", 32)
	code := func(s string) string { return `<code class="digest">` + s + `</code>` }
	for in, want := range map[string]string{
		"head " + h:                       "head " + code(h),
		"is sha256:" + h + ", not so":     "is " + code("sha256:"+h) + ", not so",
		h + " and sha256:" + h:            code(h) + " and " + code("sha256:"+h),
		h + "0":                           h + "0",
		"x" + h:                           "x" + h,
		strings.ToUpper(h):                strings.ToUpper(h),
		"sha256:" + h[:62] + "…":          "sha256:" + h[:62] + "…",
		"sha256:":                         "sha256:",
		"":                                "",
		"&#39;" + h + "&#39;":             "&#39;" + code(h) + "&#39;",
		"sha512:" + h + " sha256:" + h:    "sha512:" + code(h) + " " + code("sha256:"+h),
		h + "/" + h:                       code(h) + "/" + code(h),
		"sha256:sha256:" + h:              "sha256:" + code("sha256:"+h),
		"line " + h + "_" + h[:3] + " ok": "line " + h + "_" + h[:3] + " ok",
	} {
		if got := markDigests(in); got != want {
			t.Errorf("%s:\n have %s\n want %s", in, got, want)
		}
	}
}

// TestEscapeBelowCritical: a page that is held in part counts an escape as a conclusive
// result, and does not say that a critical one is the case.
func TestEscapeBelowCritical(t *testing.T) {
	e := sampleEvidence().hold("escape")
	e.boundary.Battery.Vectors[6].Outcome = "escaped"
	for i, k := range e.checks {
		if k.name == "battery" {
			e.checks[i].status, e.checks[i].code = "held", "escape"
		}
	}
	if got := e.figures()[1].Text; got != "8 of 8" {
		t.Errorf("%s vectors conclusive", got)
	}
	if c := e.conditions()[0]; c.Glyph != "signed" {
		t.Errorf("%+v", c)
	}
	e.boundary.Battery.Vectors[5].Outcome = "inconclusive"
	e.checks = append(e.checks, check{name: "battery", status: "held", code: "vector-inconclusive"})
	if got := e.figures()[1].Text; got != "7 of 8" {
		t.Errorf("with one inconclusive: %s vectors conclusive", got)
	}
	if c := e.conditions()[0]; c.Glyph != "held" {
		t.Errorf("with one inconclusive: %+v", c)
	}
}

// TestCodesStayWhole: in the list a line ends between reason codes, not within one.
func TestCodesStayWhole(t *testing.T) {
	dir := t.TempDir()
	sampleSite(t, dir, Theme{}, sampleEvidence().hold("critical-escape", "rerun-failed"))
	if page := read(t, dir, "fleet/index.html"); !strings.Contains(page, `<span class="unit">critical-escape,</span> <span class="unit">rerun-failed</span></span>`) {
		t.Error("a line may end within a reason code")
	}
}

// TestNoLinkToItself: the page of an attestation offers its files, and not itself.
func TestNoLinkToItself(t *testing.T) {
	for _, e := range []*evidence{sampleEvidence(), sampleEvidence().hold("expired")} {
		dir := t.TempDir()
		sampleSite(t, dir, Theme{}, e)
		page := read(t, dir, attestationStem(e.id)+endPage)
		if strings.Contains(page, `href="`+e.id+endPage+`"`) || !strings.Contains(page, `href="`+e.id+endBundle+`"`) {
			t.Error("the page links to itself, or not to its bundle")
		}
		if index := read(t, dir, "index.html"); !strings.Contains(index, `href="`+attestationStem(e.id)+endPage+`"`) {
			t.Error("the trust boundary does not link to the evidence")
		}
	}
}
