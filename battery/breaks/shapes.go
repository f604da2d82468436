//go:build breaks

package breaks

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
	"strings"
)

const (
	upperDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
	alnum       = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
)

// shapes makes strings in the shape of real keys. They open nothing.
var shapes = map[string]func() string{
	"aws":         func() string { return "AKIA" + draw(upperDigits, 16) },
	"aws-session": func() string { return "ASIA" + draw(upperDigits, 16) },
	"github":      func() string { return "ghp_" + draw(alnum, 36) },
	"github-app":  func() string { return "ghs_" + draw(alnum, 36) },
	"github-fine": func() string { return "github_pat_" + draw(alnum, 22) + "_" + draw(alnum, 59) },
	"gitlab":      func() string { return "glpat-" + draw(alnum, 20) },
	"openai":      func() string { return "sk-proj-" + draw(alnum, 48) },
	"anthropic":   func() string { return "sk-ant-api03-" + draw(alnum, 93) + "AA" },
	"slack": func() string {
		return "xoxb-" + draw("0123456789", 12) + "-" + draw("0123456789", 12) + "-" + draw(alnum, 24)
	},
	"stripe":       func() string { return "sk_live_" + draw(alnum, 24) },
	"google":       func() string { return "AIza" + draw(alnum, 35) },
	"google-oauth": func() string { return "ya29." + draw(alnum, 60) },
	"npm":          func() string { return "npm_" + draw(alnum, 36) },
	"pypi":         func() string { return "pypi-" + draw(alnum, 80) },
	"hugging-face": func() string { return "hf_" + draw(alnum, 34) },
	"digitalocean": func() string { return "dop_v1_" + draw("0123456789abcdef", 64) },
	"sendgrid":     func() string { return "SG." + draw(alnum, 22) + "." + draw(alnum, 43) },
	"vault":        func() string { return "hvs." + draw(alnum, 28) },
	"jwt": func() string {
		return "eyJhbGciOiJIUzI1NiJ9." + base64.RawURLEncoding.EncodeToString([]byte(`{"sub":"`+draw(alnum, 12)+`"}`)) + "." + draw(alnum, 43)
	},
	"private-key": func() string {
		return "-----BEGIN PRIVATE KEY-----\n" + draw(alnum, 64) + "\n" + draw(alnum, 64) + "\n-----END PRIVATE KEY-----"
	},
}

func shaped(name string) (string, error) {
	f, ok := shapes[name]
	if !ok {
		var names []string
		for n := range shapes {
			names = append(names, n)
		}
		slices.Sort(names)
		return "", fmt.Errorf("shape: %q is none of %s", name, strings.Join(names, ", "))
	}
	return f(), nil
}

func shapeNames() []string { return slices.Sorted(maps.Keys(shapes)) }

func draw(alphabet string, n int) string {
	raw := make([]byte, n)
	_, _ = rand.Read(raw) // never fails (crypto/rand)
	for i, b := range raw {
		raw[i] = alphabet[int(b)%len(alphabet)]
	}
	return string(raw)
}
