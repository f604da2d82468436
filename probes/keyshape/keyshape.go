// Package keyshape knows strings in the shape of a provider's key: what no canary is,
// and what a real secret is known by. It is pure.
package keyshape

import (
	"bytes"
	"regexp"
	"sync"
)

// forms are the forms of providers' keys, as the providers and the secret scanners of
// forges document them: a prefix of their own and enough characters that no word of a
// text has the form by accident.
var forms = []struct{ name, form string }{
	{"an AWS access key", `\b(AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16}\b`},
	{"a GitHub token", `\b(gh[pousr]_[A-Za-z0-9]{36,}|github_pat_[A-Za-z0-9_]{50,})`},
	{"a GitLab token", `\bgl(pat|dt|rt|cbt|ptt|ft|soat)-[A-Za-z0-9_-]{20,}`},
	{"an OpenAI or Anthropic key", `\bsk-((proj|svcacct|admin|ant|or)-[A-Za-z0-9_-]{32,}|[A-Za-z0-9]{40,})`},
	{"a Slack token", `\bxox[abeoprs]-[A-Za-z0-9-]{20,}`},
	{"a Stripe key", `\b[sr]k_live_[A-Za-z0-9]{20,}`},
	{"a Google key", `\b(AIza[A-Za-z0-9_-]{35}|ya29\.[A-Za-z0-9_-]{30,}|GOCSPX-[A-Za-z0-9_-]{24,})`},
	{"an npm token", `\bnpm_[A-Za-z0-9]{36}`},
	{"a PyPI token", `\bpypi-[A-Za-z0-9_-]{50,}`},
	{"a Hugging Face token", `\bhf_[A-Za-z0-9]{30,}`},
	{"a DigitalOcean token", `\bdo[opr]_v1_[a-f0-9]{64}`},
	{"a SendGrid key", `\bSG\.[A-Za-z0-9_-]{20,}\.[A-Za-z0-9_-]{40,}`},
	{"a Vault token", `\bhv[sb]\.[A-Za-z0-9_-]{24,}`},
	{"a JSON web token", `\beyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{20,}`},
	{"a private key", `-----BEGIN [A-Z ]*PRIVATE KEY-----\s*[A-Za-z0-9+/=\s]{64,}`},
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
