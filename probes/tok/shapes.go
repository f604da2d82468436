package tok

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/probes"
	"github.com/wallproof/wallproof/probes/kit"
)

// shapes are the forms of providers' keys, as the providers and the secret
// scanners of forges document them: a prefix of their own and enough characters
// that no word of a text has the form by accident.
var shapes = []struct {
	name string
	form *regexp.Regexp
}{
	{"an AWS access key", regexp.MustCompile(`\b(AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16}\b`)},
	{"a GitHub token", regexp.MustCompile(`\b(gh[pousr]_[A-Za-z0-9]{36,}|github_pat_[A-Za-z0-9_]{50,})`)},
	{"a GitLab token", regexp.MustCompile(`\bgl(pat|dt|rt|cbt|ptt|ft|soat)-[A-Za-z0-9_-]{20,}`)},
	{"an OpenAI or Anthropic key", regexp.MustCompile(`\bsk-((proj|svcacct|admin|ant|or)-[A-Za-z0-9_-]{32,}|[A-Za-z0-9]{40,})`)},
	{"a Slack token", regexp.MustCompile(`\bxox[abeoprs]-[A-Za-z0-9-]{20,}`)},
	{"a Stripe key", regexp.MustCompile(`\b[sr]k_live_[A-Za-z0-9]{20,}`)},
	{"a Google key", regexp.MustCompile(`\b(AIza[A-Za-z0-9_-]{35}|ya29\.[A-Za-z0-9_-]{30,}|GOCSPX-[A-Za-z0-9_-]{24,})`)},
	{"an npm token", regexp.MustCompile(`\bnpm_[A-Za-z0-9]{36}`)},
	{"a PyPI token", regexp.MustCompile(`\bpypi-[A-Za-z0-9_-]{50,}`)},
	{"a Hugging Face token", regexp.MustCompile(`\bhf_[A-Za-z0-9]{30,}`)},
	{"a DigitalOcean token", regexp.MustCompile(`\bdo[opr]_v1_[a-f0-9]{64}`)},
	{"a SendGrid key", regexp.MustCompile(`\bSG\.[A-Za-z0-9_-]{20,}\.[A-Za-z0-9_-]{40,}`)},
	{"a Vault token", regexp.MustCompile(`\bhv[sb]\.[A-Za-z0-9_-]{24,}`)},
	{"a JSON web token", regexp.MustCompile(`\beyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{20,}`)},
	{"a private key", regexp.MustCompile(`-----BEGIN [A-Z ]*PRIVATE KEY-----\s*[A-Za-z0-9+/=\s]{64,}`)},
}

// keyShapes looks for strings in the shape of a real key in the environments of
// all processes, in their command lines, and in the files in which clients keep
// credentials. It says where one stands, never what it is. What stands in a
// secret's place is none, whatever its shape.
func keyShapes(ctx context.Context, env *probes.Env) manifest.Observation {
	var found []string
	looked := 0
	look := func(where string, text []byte) {
		looked++
		for _, mark := range append([]string{env.Facts.Broker.Placeholder, env.Facts.Model.Placeholder}, env.Facts.Placeholders...) {
			if mark != "" {
				text = []byte(strings.ReplaceAll(string(text), mark, " "))
			}
		}
		for _, s := range shapes {
			if s.form.Match(text) && !strings.Contains(string(s.form.Find(text)), "EXAMPLE") {
				found = append(found, where+" holds "+s.name)
				return
			}
		}
	}
	for _, kv := range os.Environ() {
		name, value, _ := strings.Cut(kv, "=")
		look("$"+name, []byte(value))
	}
	for _, dir := range append(kit.Processes(), "/proc/self") {
		for _, file := range []string{"/environ", "/cmdline"} {
			if b, err := kit.ReadHead(dir+file, 1<<20); err == nil {
				for _, part := range strings.Split(string(b), "\x00") {
					look(dir+file, []byte(part))
				}
			}
		}
	}
	names := append(append(append(append([]string{}, netrcFiles...), historyFiles...), toolFiles...), gitConfig...)
	for _, home := range homes(env) {
		for _, name := range names {
			if b, err := kit.ReadHead(filepath.Join(home, name), 1<<20); err == nil {
				look(filepath.Join(home, name), b)
			}
		}
	}
	if ctx.Err() != nil && len(found) == 0 {
		return manifest.Observation{Sign: manifest.SignTimeout}
	}
	if len(found) > 0 {
		return manifest.Observation{Sign: manifest.SignReached, Detail: strings.Join(found, "; ")}
	}
	return manifest.Observation{Sign: manifest.SignAbsent, Detail: kit.Count(looked, "place read", "places read")}
}
