package battery

import (
	"context"
	"errors"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/battery/image"
	"github.com/wallproof/wallproof/battery/sandbox"
	"github.com/wallproof/wallproof/policy"
	"github.com/wallproof/wallproof/policy/proxy"
)

// idleDriver enforces some modes and must never be asked to start anything.
type idleDriver struct {
	t     *testing.T
	modes []string
}

func (d idleDriver) Describe(context.Context) (sandbox.Description, error) {
	return sandbox.Description{Name: "idle", NetworkModes: d.modes}, nil
}

func (d idleDriver) Start(context.Context, sandbox.Spec) (sandbox.Sandbox, error) {
	d.t.Error("a sandbox was started")
	return nil, errors.New("idle")
}

func parsed(t *testing.T, doc string) *policy.Policy {
	t.Helper()
	p, err := policy.Parse("policy.yaml", []byte(doc))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

const fullPolicy = `version: 1
mode: allowlist
allow: [{host: git.example}]
secrets: [{name: S, from: {env: S}, inject: [{host: git.example, as: bearer}]}]
broker: [{host: git.example, api: "https://git.example/api/v3", app: "1", installation: 2, key: {env: K}, repositories: [{name: a/b}]}]
model: {api: openai, url: "https://model.example/v1", secret: S, allow: [gpt-oss]}
services: [{name: db, image: "r.example/db@sha256:1111111111111111111111111111111111111111111111111111111111111111", ports: [5432]}]
phases: {setup: {mode: denylist, block: [{host: bad.example}]}, verifier: {mode: no-network}}
`

func execOf(t *testing.T, p *policy.Policy, modes ...string) ExecOptions {
	img := &image.Resolved{Digest: "sha256:00", Config: &v1.ConfigFile{}}
	o := ExecOptions{Image: img, Policy: p, Driver: idleDriver{t, modes}, Services: map[string]*image.Resolved{}}
	for _, s := range p.Services {
		o.Services[s.Name] = img
	}
	return o
}

// What exec or the driver cannot do is refused before anything is started, and
// leaves no folder.
func TestExecRefusesBeforeStart(t *testing.T) {
	every := []string{"public", "no-network", "denylist", "allowlist"}
	for name, tt := range map[string]struct {
		doc   string
		modes []string
		edit  func(*ExecOptions)
		want  string
	}{
		"a mode that the driver lacks":                   {fullPolicy, []string{"public", "no-network", "denylist"}, nil, "cannot enforce mode allowlist, which the agent phase needs"},
		"a set-up that the driver cannot hold":           {fullPolicy, []string{"public", "no-network", "allowlist"}, nil, "cannot enforce mode denylist, which the setup phase needs"},
		"a verifier that the driver cannot hold":         {fullPolicy, []string{"public", "denylist", "allowlist"}, nil, "cannot enforce mode no-network, which the verifier phase needs"},
		"a driver that enforces nothing":                 {"version: 1\nmode: public\n", nil, nil, "cannot enforce mode public"},
		"an egress agent":                                {"version: 1\nmode: public\negress: {agent: 'agent.example:8443', server-ca: {file: ca}, client-cert: {file: c}, client-key: {file: k}}\n", every, nil, "egress agent"},
		"a service without its image":                    {fullPolicy, every, func(o *ExecOptions) { o.Services = nil }, "image of the service db"},
		"a login that the policy has not":                {fullPolicy, every, func(o *ExecOptions) { o.Login = []byte("x") }, "no login"},
		"a task without a name":                          {fullPolicy, every, func(o *ExecOptions) { o.Tasks = []ExecTask{{}} }, "task name"},
		"a task's name that leads elsewhere":             {fullPolicy, every, func(o *ExecOptions) { o.Tasks = []ExecTask{{Name: "../x"}} }, "task name"},
		"two tasks of one name":                          {fullPolicy, every, func(o *ExecOptions) { o.Tasks = []ExecTask{{Name: "a"}, {Name: "a"}} }, "task name"},
		"more sandboxes than a boundary has":             {fullPolicy, every, func(o *ExecOptions) { o.Tasks = manyTasks(20) }, "a boundary holds"},
		"more sandboxes than a boundary has, by a task":  {fullPolicy, every, func(o *ExecOptions) { o.Tasks = manyTasks(15) }, "a boundary holds"},
		"a policy that blocks its own model's host, too": {strings.Replace(fullPolicy, "secrets:", "block: [{host: model.example}]\nsecrets:", 1), every, nil, "model"},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := policy.Parse("policy.yaml", []byte(tt.doc))
			if err == nil {
				o := execOf(t, p, tt.modes...)
				if tt.edit != nil {
					tt.edit(&o)
				}
				_, _, err = Exec(t.Context(), o)
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %q", err, tt.want)
			}
		})
	}
}

func manyTasks(n int) (out []ExecTask) {
	for i := range n {
		out = append(out, ExecTask{Name: "t" + strings.Repeat("x", i)})
	}
	return out
}

// Set-up, verifier and orchestrator get policies without anything of the
// vault's, that compile and say the same of hosts.
func TestPoliciesWithoutTheVault(t *testing.T) {
	p := parsed(t, fullPolicy)
	for phase, mode := range map[policy.Phase]policy.Mode{policy.PhaseSetup: policy.ModeDenylist, policy.PhaseVerifier: policy.ModeNoNetwork} {
		q := phasePolicy(p, phase)
		if len(q.Secrets)+len(q.Broker)+len(q.Services) != 0 || q.Model != nil || q.Mode != mode {
			t.Errorf("%s: %+v", phase, q)
		}
		if _, err := policy.Compile(q); err != nil {
			t.Errorf("%s: %v", phase, err)
		}
	}
	if phasePolicy(p, policy.PhaseAgent) != p {
		t.Error("the agent's policy is another one than the document")
	}
	// An allowlist of nothing but the model is, without the model, nothing.
	only := parsed(t, "version: 1\nmode: allowlist\nsecrets: [{name: S, from: {env: S}}]\nmodel: {api: openai, url: 'https://m.example', secret: S, allow: [gpt-oss]}\n")
	bare := withoutVault(only, policy.PhasePolicy{Mode: only.Mode})
	e, err := policy.Compile(bare)
	if err != nil || e.Explain("https://m.example/").Verdict != policy.Deny {
		t.Errorf("%v", err)
	}
	canonical, err := bare.Canonical()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := policy.ParseCanonical(canonical); err != nil {
		t.Error(err)
	}
}

func TestEditsThatNeedAnotherWiringAreRefused(t *testing.T) {
	old := parsed(t, fullPolicy)
	for name, tt := range map[string]struct {
		edit func(string) string
		want string // "" means that it is taken
	}{
		"a host": {func(s string) string {
			return strings.Replace(s, "git.example}]", "git.example}, {host: b.example}]", 1)
		}, ""},
		"a service less":     {func(s string) string { return cutLine(s, "services:") }, "changes the services"},
		"a service's port":   {func(s string) string { return strings.Replace(s, "5432", "5433", 1) }, "the service db"},
		"a service's image":  {func(s string) string { return strings.Replace(s, "sha256:1", "sha256:2", 1) }, "the service db"},
		"no model":           {func(s string) string { return cutLine(s, "model:") }, "the model"},
		"another model list": {func(s string) string { return strings.Replace(s, "[gpt-oss]", "[gpt-oss, gpt-4]", 1) }, ""},
	} {
		edited := parsed(t, tt.edit(fullPolicy))
		err := rewired(old, edited)
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
	}
}

func cutLine(s, prefix string) string {
	var out strings.Builder
	for line := range strings.Lines(s) {
		if !strings.HasPrefix(line, prefix) {
			out.WriteString(line)
		}
	}
	return out.String()
}

// Only a run that was under one policy from the first to the last byte can be
// attested.
func TestExecRecordSaysWhatCannotBeAttested(t *testing.T) {
	p := parsed(t, "version: 1\nmode: allowlist\nallow: [{host: a.example}]\n")
	e, err := policy.Compile(p)
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		happens func(*execRecorder)
		err     error
		want    string // "" means that it can
	}{
		"nothing else":                 {func(*execRecorder) {}, nil, ""},
		"an edit":                      {func(r *execRecorder) { r.edit("sha256:other", nil) }, nil, "edited during the run"},
		"an edit that was refused":     {func(r *execRecorder) { r.edit("sha256:other", errors.New("no")) }, nil, ""},
		"an edit that changes nothing": {func(r *execRecorder) { r.edit(e.Digest(), nil) }, nil, ""},
		"a halt":                       {func(r *execRecorder) { r.halted(true); r.halted(false) }, nil, ""},
		"a proxy that ended":           {func(r *execRecorder) { r.failed(errProxyEnded) }, nil, "enforcement: failed"},
		"a run that was cut short":     {func(*execRecorder) {}, context.Canceled, "not completed"},
	} {
		o := execOf(t, p)
		r := newExecRecord("0123abcd", &o, sandbox.Description{}, e)
		r.proxy(policy.PhaseAgent, proxy.Ready{PolicyDigest: e.Digest(), Enforcement: manifest.EnforcementEnforced}, p)
		tt.happens(r)
		r.end(tt.err)
		rec := r.get()
		if rec.Attestable != (tt.want == "") || !strings.Contains(strings.Join(rec.Why, "\n"), tt.want) {
			t.Errorf("%s: %v %q", name, rec.Attestable, rec.Why)
		}
	}
	o := execOf(t, p)
	r := newExecRecord("0123abcd", &o, sandbox.Description{}, e)
	r.end(nil)
	if rec := r.get(); rec.Attestable || rec.Enforcement.State != manifest.EnforcementFailed {
		t.Errorf("a run whose proxy never started: %+v", rec)
	}
}
