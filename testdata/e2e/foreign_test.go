//go:build e2e && adapters

package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// foreignPolicy is what the stacks below are told to enforce.
const foreignPolicy = `version: 1
name: somebody-elses
mode: allowlist
allow:
  - host: pages.wallproof-demo.example
    ports: [80, 443]
  - host: api.wallproof-demo.example
secrets:
  - name: API_TOKEN
    from: {env: API_TOKEN}
    inject: [{host: api.wallproof-demo.example, as: bearer}]
`

// stack is somebody else's proxy with its configuration.
type stack struct {
	name    string
	args    []string
	version string
	ca      bool
}

func stacks(t *testing.T) []stack {
	t.Helper()
	dir := public(t)
	if err := os.CopyFS(dir, os.DirFS("../../examples/stacks")); err != nil {
		t.Fatal(err)
	}
	in := func(elem ...string) string { return filepath.Join(append([]string{dir}, elem...)...) }
	return []stack{
		{name: "squid", version: "squid/", args: []string{"--proxy", "squid", "--proxy-start", in("squid", "start"), "--proxy-file", in("squid", "squid.conf"),
			"--proxy-log", "access.log", "--proxy-env", "ALLOW=pages.wallproof-demo.example api.wallproof-demo.example"}},
		{name: "mitmproxy", version: "mitmproxy ", ca: true, args: []string{"--proxy", "mitmproxy", "--proxy-start", in("mitmproxy", "start"), "--proxy-file", in("mitmproxy", "policy.py"),
			"--proxy-file", in("mitmproxy", "wallproof_log.py"), "--proxy-log", "flows.jsonl", "--proxy-ca", "mitmproxy-ca-cert.pem",
			"--proxy-env", "ALLOW=pages.wallproof-demo.example api.wallproof-demo.example", "--proxy-env", "SECRET_HOST=api.wallproof-demo.example", "--proxy-env", "SECRET_NAME=API_TOKEN"}},
	}
}

// public is a folder that the proxy's unprivileged user may look into, which the
// tests' own and a checkout of root's are not.
func public(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "foreign-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// foreignRun attacks a stack with a few techniques and returns the packet's
// entries.
func foreignRun(t *testing.T, s stack, more ...string) (r result, entries []map[string]any, packet string) {
	t.Helper()
	dir := t.TempDir()
	layout, policy, out := filepath.Join(dir, "layout"), filepath.Join(dir, "policy.yaml"), filepath.Join(dir, "out")
	writeLayout(t, layout)
	if err := os.WriteFile(policy, []byte(foreignPolicy), 0o644); err != nil {
		t.Fatal(err)
	}
	args := append([]string{"run", "--image", layout, "--policy", policy, "--out", out, "--output", "json"}, s.args...)
	r = wallproof(t, append(args, more...)...)
	packet = filepath.Join(out, "packet")
	data, err := os.ReadFile(filepath.Join(packet, "manifest.jsonl"))
	if err != nil {
		return r, nil, packet
	}
	sc := bufio.NewScanner(bytes.NewReader(data))
	sc.Buffer(nil, 16<<20)
	for sc.Scan() {
		var e map[string]any
		if err := json.Unmarshal(sc.Bytes(), &e); err != nil {
			t.Fatal(err)
		}
		entries = append(entries, e)
	}
	return r, entries, packet
}

// outcomes counts the entries of each outcome, and of each reason.
func outcomes(entries []map[string]any) map[string]int {
	out := map[string]int{}
	for _, e := range entries {
		if e["type"] == "technique" {
			out[e["outcome"].(string)]++
			out[e["reason"].(string)]++
		}
	}
	return out
}

var network = []string{"--vector", "NET", "--vector", "IMD", "--vector", "TOK", "--vector", "LAT"}

// Test9ForeignProxy: the battery attacks the stack that is really there. Entry 0
// says whose proxy it was, refusals are attributed to attempts by its log, and the
// machine is afterwards as it was.
func Test9ForeignProxy(t *testing.T) {
	for _, s := range stacks(t) {
		t.Run(s.name, func(t *testing.T) {
			r, entries, packet := foreignRun(t, s, network...)
			if r.code != 3 || len(entries) == 0 { // a part of the catalogue is never conclusive
				t.Fatalf("%s", r)
			}
			px := entries[0]["proxy"].(map[string]any)
			version, _ := px["version"].(string)
			ca, _ := px["caDigest"].(string)
			if px["name"] != s.name || !strings.HasPrefix(version, s.version) || strings.HasPrefix(ca, "sha256:") != s.ca || px["placement"] != "outside-sandbox" {
				t.Errorf("entry 0 says of the proxy: %v", px)
			}
			n := outcomes(entries)
			t.Logf("%s: %v", s.name, n)
			if n["denied-by-proxy"] < 20 || n["denied-by-filter"] < 20 {
				t.Errorf("too few refusals are attributed: %v", n)
			}
			for _, e := range entries {
				if e["outcome"] == "escaped" {
					t.Logf("escaped: %v %v: %v", e["technique"], e["variant"], e["reason"])
				}
				if e["outcome"] == "inconclusive" {
					t.Logf("inconclusive: %v %v: %v", e["technique"], e["variant"], e["reason"])
				}
			}
			if v := wallproof(t, "inspect", packet); v.code != 0 && v.code != 3 {
				t.Errorf("the packet does not stand: %s", v)
			}
			id := entries[0]["runId"].(string)
			for _, left := range leftovers(t) {
				if strings.Contains(left, id) {
					t.Errorf("left on the machine: %s", left)
				}
			}
		})
	}
}

// Test9ForeignHole: a host that the stack lets through and the policy does not is
// an escape.
func Test9ForeignHole(t *testing.T) {
	for _, s := range stacks(t) {
		t.Run(s.name, func(t *testing.T) {
			for i, a := range s.args {
				s.args[i] = strings.Replace(a, "ALLOW=", "ALLOW=evil.example ", 1)
			}
			_, entries, _ := foreignRun(t, s, "--only", "NET-STRANGERS", "--only", "NET-TCP")
			n := outcomes(entries)
			if n["escaped"] == 0 {
				t.Errorf("the hole is not seen: %v", n)
			}
		})
	}
}

// Test9ForeignDeath: a proxy that dies in the middle has blocked nothing from then
// on, and one whose log says nothing that can be tied to anybody neither.
func Test9ForeignDeath(t *testing.T) {
	for _, s := range stacks(t) {
		t.Run(s.name, func(t *testing.T) {
			start := filepath.Join(public(t), "start")
			for i, a := range s.args {
				if i > 0 && s.args[i-1] == "--proxy-start" {
					// It lives until it has answered for a while.
					script := "#!/bin/sh\n\"" + a + "\" & pid=$!\nwhile [ ! -s \"$WALLPROOF_DIR/access.log\" ] && [ ! -s \"$WALLPROOF_DIR/flows.jsonl\" ]; do sleep 0.1; done\nkill -9 $pid\nsleep 600\n"
					if err := os.WriteFile(start, []byte(script), 0o755); err != nil {
						t.Fatal(err)
					}
					s.args[i] = start
				}
			}
			r, entries, _ := foreignRun(t, s, "--only", "NET-HTTP", "--only", "NET-HTTPS")
			n := outcomes(entries)
			if r.code != 3 || n["blocked"] > 0 || n["inconclusive"] == 0 {
				t.Errorf("a dead proxy blocks: %v %s", n, r)
			}
		})
	}
}

// Test9ForeignErrors: what cannot work is said, and nothing is left.
func Test9ForeignErrors(t *testing.T) {
	s := stacks(t)[0]
	silent := filepath.Join(public(t), "start")
	if err := os.WriteFile(silent, []byte("#!/bin/sh\necho cannot open the configuration >&2\nexit 7\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name string
		more []string
		want string
	}{
		{"it ends at once", []string{"--proxy-start", silent}, "cannot open the configuration"},
		{"no authority", []string{"--proxy-ca", "nowhere.pem"}, "nowhere.pem"},
		{"no log", []string{"--proxy-log", "nowhere.log"}, "nowhere.log"},
		{"another kind's log", []string{"--proxy-log", "cache.log"}, "logformat wallproof"},
		{"unknown kind", []string{"--proxy", "envoy"}, "squid, mitmproxy"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, _, _ := foreignRun(t, s, append(tt.more, "--only", "NET-TCP")...)
			if r.code != 1 || !strings.Contains(r.stderr, tt.want) {
				t.Errorf("want %q: %s", tt.want, r)
			}
			if left := leftovers(t); len(left) > 0 {
				t.Errorf("left on the machine: %v", left)
			}
		})
	}
}
