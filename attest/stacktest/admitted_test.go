//go:build stack

package stacktest

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/wallproof/wallproof/battery/admission"
	"github.com/wallproof/wallproof/battery/image"
)

// testAdmission: an image that the cosign command signed and attested as it does by
// itself, keyless, logged and timestamped, is let in by who signed it and by nobody
// else; and with a key and the log. The whole command line runs it then, and starts
// nothing of one that is not admitted.
func testAdmission(t *testing.T) {
	s := sharedStack(t)
	program := Optional(t, "cosign")
	if program == "" {
		t.Log("NOT RUN: cosign is not built (make stack ALL=1): admission of images that it signed")
		return
	}
	a := &admitted{t: t, s: s, program: program, dir: t.TempDir()}
	a.file("root.json", string(s.Root))
	a.file("signing.json", string(s.SigningConfig()))
	a.file("predicate.json", `{"buildDefinition":{"buildType":"https://ci.example/type","externalParameters":{}},"runDetails":{"builder":{"id":"https://ci.example/builder"}}}`)
	img, bare, keyed := a.serve()

	a.refused(bare, admission.Rules{Identity: who, Issuer: s.URL}, "neither signatures nor attestations")
	a.cosign("sign", "--identity-token", s.Token(t, who, nil), img.Reference)
	a.let(img, admission.Rules{Identity: who, Issuer: s.URL})
	a.refused(img, admission.Rules{Identity: "other@example.com", Issuer: s.URL}, "")
	a.refused(img, admission.Rules{Identity: who, Issuer: "https://issuer.example"}, "")
	a.refused(img, admission.Rules{Identity: who, Issuer: s.URL, Builder: "https://ci.example/builder"}, "no provenance")
	a.cosign("attest", "--identity-token", s.Token(t, who, nil), "--type", "slsaprovenance1", "--predicate", a.path("predicate.json"), img.Reference)
	a.let(img, admission.Rules{Identity: who, Issuer: s.URL, Builder: "https://ci.example/builder"})
	a.refused(img, admission.Rules{Identity: who, Issuer: s.URL, Builder: "https://ci.example/other"}, "provenance by the builder")

	ours, ourKey := cosignKey(t, a.dir, "ours")
	_, otherKey := cosignKey(t, a.dir, "theirs")
	a.cosign("sign", "--key", ours, keyed.Reference)
	a.let(keyed, admission.Rules{Key: ourKey})
	a.refused(keyed, admission.Rules{Key: otherKey}, "does not verify")
	a.refused(keyed, admission.Rules{Identity: who, Issuer: s.URL}, "")

	a.run(img, bare)
}

// admitted is one registry with images, and what signs them.
type admitted struct {
	t            *testing.T
	s            *Stack
	program, dir string
}

func (a *admitted) path(name string) string { return filepath.Join(a.dir, name) }

func (a *admitted) file(name, text string) {
	a.t.Helper()
	if err := os.WriteFile(a.path(name), []byte(text), 0o600); err != nil {
		a.t.Fatal(err)
	}
}

// built is a program that `make build` has built.
func (a *admitted) built(name string) string {
	a.t.Helper()
	path, err := filepath.Abs(filepath.Join("../../bin", name))
	if err != nil {
		a.t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		a.t.Fatalf("%v: run `make build` first", err)
	}
	return path
}

// serve serves three images that can be run.
func (a *admitted) serve() (img, bare, keyed *image.Resolved) {
	a.t.Helper()
	agent, err := os.ReadFile(a.built("wallproof-agent"))
	if err != nil {
		a.t.Fatal(err)
	}
	images := map[string]v1.Image{}
	for _, name := range []string{"acme/signed", "acme/bare", "acme/keyed"} {
		if images[name], err = image.Demo(agent, image.DemoOptions{Files: map[string][]byte{"name": []byte(name)}}); err != nil {
			a.t.Fatal(err)
		}
	}
	addr, stop, err := image.ServeRegistry(context.Background(), images)
	if err != nil {
		a.t.Fatal(err)
	}
	a.t.Cleanup(func() { _ = stop() })
	resolved := func(name string) *image.Resolved {
		d, err := images[name].Digest()
		if err != nil {
			a.t.Fatal(err)
		}
		return &image.Resolved{Reference: addr + "/" + name + "@" + d.String(), Source: image.FromRegistry, Digest: d.String()}
	}
	return resolved("acme/signed"), resolved("acme/bare"), resolved("acme/keyed")
}

func (a *admitted) cosign(command string, args ...string) {
	a.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, a.program, append([]string{command, "--signing-config", a.path("signing.json"), "--trusted-root", a.path("root.json"), "--yes"}, args...)...)
	cmd.Env = append(os.Environ(), "HOME="+a.dir, "SIGSTORE_NO_CACHE=1", "COSIGN_PASSWORD=secret")
	if out, err := cmd.CombinedOutput(); err != nil {
		a.t.Fatalf("cosign %s: %v\n%s", command, err, out)
	}
}

func (a *admitted) admit(img *image.Resolved, rules admission.Rules) error {
	if rules.Identity != "" {
		rules.TrustedRoot = a.s.Root
	}
	got, err := admission.Admit(context.Background(), img, "", &rules, image.Options{})
	if err == nil {
		a.t.Log(got.Detail)
	}
	return err
}

func (a *admitted) let(img *image.Resolved, rules admission.Rules) {
	a.t.Helper()
	if err := a.admit(img, rules); err != nil {
		a.t.Errorf("refused: %v", err)
	}
}

func (a *admitted) refused(img *image.Resolved, rules admission.Rules, why string) {
	a.t.Helper()
	if err := a.admit(img, rules); !errors.Is(err, admission.ErrNotAdmitted) || !strings.Contains(err.Error(), why) {
		a.t.Errorf("got %v; want a refusal with %q", err, why)
	}
}

// run runs a part of the battery on the signed image, and on none that is not.
func (a *admitted) run(signed, bare *image.Resolved) {
	a.t.Helper()
	c := &cli{t: a.t, bin: a.built("wallproof"), dir: a.dir}
	policy, err := filepath.Abs("../../internal/demo/policy.yaml")
	if err != nil {
		a.t.Fatal(err)
	}
	args := func(img *image.Resolved, out string, rules ...string) []string {
		return append([]string{"run", "--image", img.Reference, "--policy", policy, "--out", out, "--only", "NET-TCP", "--admit-trusted-root", "root.json"}, rules...)
	}
	by := func(identity string) []string {
		return []string{"--admit-identity", identity, "--admit-issuer", a.s.URL, "--admit-builder", "https://ci.example/builder"}
	}
	c.exits(2, args(bare, "unsigned", by(who)...), "not admitted")
	c.exits(2, args(signed, "stranger", by("other@example.com")...), "not admitted")
	for _, out := range []string{"unsigned", "stranger"} {
		if _, err := os.Stat(a.path(out)); err == nil {
			a.t.Errorf("%s: something was started", out)
		}
	}
	c.exits(3, args(signed, "out", by(who)...)) // a part of the catalogue is no claim
	manifest, err := os.ReadFile(a.path("out/packet/manifest.jsonl"))
	if err != nil {
		a.t.Fatal(err)
	}
	first, _, _ := strings.Cut(string(manifest), "\n")
	for _, want := range []string{`"state":"admitted"`, who, "https://ci.example/builder"} {
		if !strings.Contains(first, want) {
			a.t.Errorf("entry 0 lacks %q: %s", want, first)
		}
	}
}
