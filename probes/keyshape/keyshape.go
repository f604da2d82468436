// Package keyshape knows strings in the shape of a provider's key: what no canary is,
// and what a real secret is known by. It is pure.
package keyshape

import (
	"bytes"
	"regexp"
	"slices"
	"sync"
)

// forms are the forms of providers' keys, as the providers and the secret scanners of
// forges document them: a prefix of their own (one of begins, after at most one word of
// text) and enough characters that no word of a text has the form by accident.
var forms = []struct {
	name, form string
	begins     []string
}{
	{"an AWS access key", `\b(AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16}\b`, []string{"AKIA", "ASIA", "ABIA", "ACCA"}},
	{"a GitHub token", `\b(gh[pousr]_[A-Za-z0-9]{36,}|github_pat_[A-Za-z0-9_]{50,})`, []string{"ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"}},
	{"a GitLab token", `\bgl(pat|dt|rt|cbt|ptt|ft|soat)-[A-Za-z0-9_-]{20,}`, []string{"glpat-", "gldt-", "glrt-", "glcbt-", "glptt-", "glft-", "glsoat-"}},
	{"an OpenAI or Anthropic key", `\bsk-((proj|svcacct|admin|ant|or)-[A-Za-z0-9_-]{32,}|[A-Za-z0-9]{40,})`, []string{"sk-"}},
	{"a Slack token", `\bxox[abeoprs]-[A-Za-z0-9-]{20,}`, []string{"xox"}},
	{"a Stripe key", `\b[sr]k_live_[A-Za-z0-9]{20,}`, []string{"sk_live_", "rk_live_"}},
	{"a Google key", `\b(AIza[A-Za-z0-9_-]{35}|ya29\.[A-Za-z0-9_-]{30,}|GOCSPX-[A-Za-z0-9_-]{24,})`, []string{"AIza", "ya29.", "GOCSPX-"}},
	{"an npm token", `\bnpm_[A-Za-z0-9]{36}`, []string{"npm_"}},
	{"a PyPI token", `\bpypi-[A-Za-z0-9_-]{50,}`, []string{"pypi-"}},
	{"a Hugging Face token", `\bhf_[A-Za-z0-9]{30,}`, []string{"hf_"}},
	{"a DigitalOcean token", `\bdo[opr]_v1_[a-f0-9]{64}`, []string{"doo_v1_", "dop_v1_", "dor_v1_"}},
	{"a SendGrid key", `\bSG\.[A-Za-z0-9_-]{20,}\.[A-Za-z0-9_-]{40,}`, []string{"SG."}},
	{"a Vault token", `\bhv[sb]\.[A-Za-z0-9_-]{24,}`, []string{"hvs.", "hvb."}},
	{"a JSON web token", `\beyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{20,}`, []string{"eyJ"}},
	{"a private key", `-----BEGIN [A-Z ]*PRIVATE KEY-----\s*[A-Za-z0-9+/=\s]{64,}`, []string{"-----BEGIN "}},
}

// compiled are made when they are first needed: most processes never look.
var compiled = sync.OnceValue(func() []*regexp.Regexp {
	out := make([]*regexp.Regexp, len(forms))
	for i, f := range forms {
		out[i] = regexp.MustCompile(f.form)
	}
	return out
})

// example stands in keys that documentation shows.
var example = []byte("EXAMPLE")

// Find names the first form of which a key stands in a text, "" for none. What is
// marked as an example is none.
func Find(text []byte) string {
	for i, form := range compiled() {
		if found := form.Find(text); found != nil && !bytes.Contains(found, example) {
			return forms[i].name
		}
	}
	return ""
}

// Match is a string in the shape of a key.
type Match struct{ Form, Text string }

// Bounds of All.
const (
	maxMatches = 16
	maxMatch   = 2 << 10 // bytes of one that are looked at
)

// All finds keys in much text, such as memory: it looks for what each form begins
// with, and only there for the form. Of a long key it returns the beginning.
func All(text []byte) (out []Match) {
	may := beginnings()
	for at := 0; at+2 < len(text) && len(out) < maxMatches; at++ {
		m := &may[text[at]]
		if m.second&(1<<(text[at+1]&63)) != 0 && m.third&(1<<(text[at+2]&63)) != 0 {
			out = append(out, matchesAt(text, at)...)
		}
	}
	return out
}

// follows has the low six bits of what may come second and third after a byte.
type follows struct{ second, third uint64 }

// beginnings has what comes after the first byte of what each form begins with: a look
// or two decide for nearly all of a text that no key begins there.
var beginnings = sync.OnceValue(func() *[256]follows {
	var all [256]follows
	for _, f := range forms {
		for _, begin := range f.begins { // three bytes or more
			all[begin[0]].second |= 1 << (begin[1] & 63)
			all[begin[0]].third |= 1 << (begin[2] & 63)
		}
	}
	return &all
})

// matchesAt returns the keys of which the beginning stands at a place of a text.
func matchesAt(text []byte, at int) (out []Match) {
	for i, f := range forms {
		if !slices.ContainsFunc(f.begins, func(b string) bool { return bytes.HasPrefix(text[at:], []byte(b)) }) {
			continue
		}
		window := text[max(at-1, 0):min(at+maxMatch, len(text))]
		found := compiled()[i].FindIndex(window)
		if found != nil && found[0] <= 1 && !bytes.Contains(window[found[0]:found[1]], example) {
			out = append(out, Match{Form: f.name, Text: string(window[found[0]:found[1]])})
		}
	}
	return out
}
