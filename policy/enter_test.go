package policy

import (
	"strings"
	"testing"
)

// Each row of what may enter a sandbox, and what may not.
func TestEnter(t *testing.T) {
	host := map[string]string{"LANG": "C", "DATASET": "d", "AWS_SECRET_ACCESS_KEY": "x", "S": "secret", "HOME": "/root"}
	lookup := func(name string) (string, bool) { v, ok := host[name]; return v, ok }
	base := "mode: public\nsecrets: [{name: token, from: {env: S}}]\n"
	for _, c := range []struct {
		name, doc string
		named     []string
		want      string // "NAME=VALUE …", or the error
		warns     string
	}{
		{"no host variable", base, nil, "", ""},
		{"set", base + "environment: {set: {B: two, A: one}}\n", nil, "A=one B=two", ""},
		{"passed", base + "environment: {pass: [LANG]}\n", nil, "LANG=C", ""},
		{"passed but not set", base + "environment: {pass: [NOPE]}\n", nil, "", "is not set"},
		{"passed explicitly", base, []string{"DATASET", "X=1=2"}, "DATASET=d X=1=2", ""},
		{"a provider's key warns", base, []string{"AWS_SECRET_ACCESS_KEY"}, "AWS_SECRET_ACCESS_KEY=x", "looks like a credential"},
		{"asked for and named", base + "environment: {ask: [DATASET]}\n", []string{"DATASET"}, "DATASET=d", ""},
		{"asked for and not named", base + "environment: {ask: [DATASET]}\n", nil, "error: the policy asks for the variable DATASET", ""},
		{"named but not set", base, []string{"NOPE"}, "error: the variable NOPE is named but not set", ""},
		{"a secret's own", base, []string{"S"}, "error: the variable S holds the secret token", ""},
		{"not a name", base, []string{"A B=1"}, "error: \"A B\" is not the name", ""},
		{"the command line wins", base + "environment: {set: {A: one}}\n", []string{"A=two"}, "A=two", ""},
	} {
		got, err := mustParse(t, c.doc).Enter(lookup, c.named)
		if err != nil {
			if rest, ok := strings.CutPrefix(c.want, "error: "); !ok || !strings.Contains(err.Error(), rest) {
				t.Errorf("%s: %v", c.name, err)
			}
			continue
		}
		var vars []string
		for _, v := range got.Variables {
			vars = append(vars, v.Name+"="+v.Value)
		}
		if strings.Join(vars, " ") != c.want {
			t.Errorf("%s: %q, want %q", c.name, vars, c.want)
		}
		if warns := strings.Join(got.Warnings, " "); (c.warns == "") != (warns == "") || !strings.Contains(warns, c.warns) {
			t.Errorf("%s: warnings %q", c.name, warns)
		}
	}
}

func TestEnforceableBy(t *testing.T) {
	e := mustCompile(t, "mode: allowlist\nallow: [{host: a.example}]\nphases: {verifier: {mode: no-network}}\n")
	if err := e.EnforceableBy("gvisor", []string{"public", "allowlist", "no-network", "denylist"}); err != nil {
		t.Error(err)
	}
	for _, c := range []struct {
		modes []string
		want  string
	}{
		{[]string{"allowlist", "no-network"}, "cannot enforce mode public, which the setup phase needs"},
		{[]string{"public", "no-network"}, "cannot enforce mode allowlist, which the agent phase needs"},
		{[]string{"public", "allowlist"}, "cannot enforce mode no-network, which the verifier phase needs"},
		{nil, "cannot enforce"},
	} {
		if err := e.EnforceableBy("d", c.modes); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v", c.modes, err)
		}
	}
}
