//go:build e2e

package e2e

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// The cases of boundary that need real sandboxes, by their numbers.

const casePolicy = `version: 1
mode: allowlist
allow: [{host: api.example}, {host: plain.example, ports: [80, 443]}]
secrets:
  - {name: API_TOKEN, from: {env: API_TOKEN}, inject: [{host: api.example, as: bearer}]}
`

const caseSecret = "wpcasesecret0123456789"

// Test9B18: no process of a sandbox holds the secret, in any view of its
// environment: not the agent's, not set-up's or the verifier's, root or not; and
// outside, the proxy's environment does not either.
func Test9B18SecretInNoEnvironment(t *testing.T) {
	o := newOutside(t)
	img := actorImage(t, o.ca, v1.Config{})
	policy := writeFile(t, casePolicy)
	env := []string{"API_TOKEN=" + caseSecret}
	look := "actor search " + caseSecret
	for _, user := range []string{"1000", "0"} {
		r := o.exec(t, env, "--image", img, "--policy", policy, "--user", user, "--setup", look, "--verifier", look, "--task", "one="+look, "--", "actor", "all", "search", caseSecret, ",", "get", "https://api.example/")
		if r.code != 0 || strings.Count(r.stdout, "searched; found 0") < 4 || strings.Contains(r.stdout, "found "+caseSecret) || strings.Contains(r.stdout+r.stderr, caseSecret) {
			t.Errorf("user %s: %s", user, r)
		}
		if got := o.requests("api.example"); len(got) == 0 || got[len(got)-1].Auth != "Bearer "+caseSecret {
			t.Errorf("user %s: the secret was not injected, so its absence shows nothing: %+v", user, got)
		}
	}
	i := o.interact(t, env, "--image", img, "--policy", policy, "--", "actor", "obey")
	i.say("id")
	i.expect(i.lines, "uid=1000")
	proxies := 0
	for _, dir := range processes(t) {
		cmdline, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
		if !bytes.Contains(cmdline, []byte("internal\x00proxy")) {
			continue
		}
		proxies++
		for _, file := range append(tasks(dir, "environ"), filepath.Join(dir, "environ"), filepath.Join(dir, "cmdline")) {
			if b, _ := os.ReadFile(file); bytes.Contains(b, []byte(caseSecret)) {
				t.Errorf("the secret stands in %s", file)
			}
		}
	}
	if proxies == 0 {
		t.Error("no proxy was looked at")
	}
	_ = i.in.Close()
	_ = i.wait()
}

func processes(t *testing.T) []string {
	t.Helper()
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil || len(dirs) == 0 {
		t.Fatalf("read the process table: %v", err)
	}
	return dirs
}

func tasks(dir, file string) []string {
	out, _ := filepath.Glob(filepath.Join(dir, "task", "*", file))
	return out
}

// Test9B19: what is passed by --env arrives and stands in no command line of the
// machine.
func Test9B19SecretInNoArguments(t *testing.T) {
	o := newOutside(t)
	img := actorImage(t, o.ca, v1.Config{})
	policy := writeFile(t, casePolicy)
	host := []string{"API_TOKEN=x0123456789abcdef", "FROM_HERE=" + caseSecret}
	if r := o.exec(t, host, "--image", img, "--policy", policy, "-e", "FROM_HERE", "-e", "GIVEN="+caseSecret, "-e=JOINED="+caseSecret, "--", "actor", "env"); r.code != 0 || strings.Count(r.stdout, caseSecret) != 3 {
		t.Fatalf("what is passed does not arrive: %s", r)
	}
	i := o.interact(t, host, "--image", img, "--policy", policy, "-e", "FROM_HERE", "-e", "GIVEN="+caseSecret, "-e=JOINED="+caseSecret, "--", "actor", "obey")
	i.say("env")
	got := map[string]bool{}
	for len(got) < 3 {
		line := i.expect(i.lines, "="+caseSecret)
		got[line] = true
	}
	for _, dir := range processes(t) {
		for _, file := range append(tasks(dir, "cmdline"), filepath.Join(dir, "cmdline")) {
			if b, _ := os.ReadFile(file); bytes.Contains(b, []byte(caseSecret)) {
				t.Errorf("the secret stands in %s: %q", file, b)
			}
		}
	}
	_ = i.in.Close()
	_ = i.wait()
}

// Test9B24: nothing untrusted runs before the boundary is verified, so that a
// sandbox that tries from its first moment on, in every phase, gets nowhere. That no
// phase begins where the boundary cannot be verified is Test5SystemB's.
func Test9B24NothingRunsBeforeTheFilter(t *testing.T) {
	o := newOutside(t)
	img := actorImage(t, o.ca, v1.Config{})
	policy := writeFile(t, casePolicy)
	env := []string{"API_TOKEN=" + caseSecret}
	for range 3 {
		o.reset()
		// The first thing that every sandbox does is to go past the proxy.
		first := "actor tcp 93.184.216.34:8080 93.184.216.34:22 93.184.216.34:25"
		r := o.exec(t, env, "--image", img, "--policy", policy, "--setup", first, "--task", "one="+first, "--verifier", first, "--",
			"actor", "all", "tcp", "93.184.216.34:8080", "93.184.216.34:22", ",", "get", "direct:http://early.example/", "direct:http://93.184.216.34/early")
		if r.code != 0 || strings.Contains(r.stdout+r.stderr, "connected") || len(o.requests("early.example")) > 0 {
			t.Errorf("something got out: %s", r)
		}
		for _, s := range o.all() {
			if strings.Contains(s.Path, "early") {
				t.Errorf("it arrived: %+v", s)
			}
		}
	}
}

func (o *outside) all() []seen {
	o.mu.Lock()
	defer o.mu.Unlock()
	return append([]seen(nil), o.got...)
}

// Test9KilledProxy: from the moment that the proxy is dead nothing leaves the
// sandbox, whatever the code inside does, by any way.
func Test9KilledProxyLeavesNoWayOut(t *testing.T) {
	o := newOutside(t)
	img := actorImage(t, o.ca, v1.Config{})
	policy := writeFile(t, "version: 1\nmode: public\n")
	i := o.interact(t, nil, "--image", img, "--policy", policy, "--task", "one=actor persist two", "--", "actor", "persist", "one")
	deadline := time.Now().Add(time.Minute)
	for len(o.all()) < 20 && time.Now().Before(deadline) {
		time.Sleep(50 * time.Millisecond)
	}
	if len(o.all()) < 20 {
		t.Fatal("nothing arrived while the proxy lived")
	}
	killProxy(t, i.pid)
	time.Sleep(300 * time.Millisecond) // what it had sent has arrived by now
	before := len(o.all())
	i.expect(i.stderr, "the proxy has ended")
	_ = i.wait()
	if after := len(o.all()); after != before {
		t.Errorf("%d requests arrived after the proxy was dead: %+v", after-before, o.all()[before:])
	}
}

// actPersist tries every way out that it knows, for ever and at once.
func actPersist(args []string) error {
	tries := []string{"http://persist.example/" + args[0], "direct:http://persist.example/" + args[0], "direct:http://93.184.216.34/" + args[0], "https://persist.example/" + args[0]}
	done := make(chan error)
	for _, u := range tries {
		go func() {
			for {
				_ = fetch(u)
			}
		}()
	}
	go func() {
		for {
			for _, a := range []string{"93.184.216.34:80", "93.184.216.34:443", "93.184.216.34:8080", "203.0.113.53:53"} {
				_ = dial(a)
			}
			if resp, err := http.Get("http://203.0.113.53/" + args[0]); err == nil {
				fmt.Println(resp.Status)
				_ = resp.Body.Close()
			}
		}
	}()
	return <-done
}
