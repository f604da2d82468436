//go:build e2e

package e2e

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/wallproof/wallproof/policy/proxy"
)

// The rows of docs/systems.md that take running sandboxes, each named after it.

const (
	exampleVault     = "../../examples/system-b/policy.yaml"
	exampleSelective = "../../examples/system-b/selective.yaml"
	exampleTask      = "../../examples/system-c/"
)

// vaultEnv are the operator's secrets of the example. No sandbox may hold one.
var vaultValues = map[string]string{"API_TOKEN": "vault-bearer-7f3a9c", "ROBOT_PASSWORD": "vault-basic-51ce02", "MAPS_KEY": "vault-query-88d1b4", "RAW_KEY": "vault-header-c6e70f"}

func environ(values map[string]string) []string {
	var out []string
	for k, v := range values {
		out = append(out, k+"="+v)
	}
	return out
}

// has asserts lines of an output.
func has(t *testing.T, r result, wants ...string) {
	t.Helper()
	for _, w := range wants {
		if !strings.Contains(r.stdout, w) {
			t.Errorf("the output lacks %q: %s", w, r)
		}
	}
}

func lacks(t *testing.T, r result, wants ...string) {
	t.Helper()
	for _, w := range wants {
		if strings.Contains(r.stdout, w) {
			t.Errorf("the output has %q: %s", w, r)
		}
	}
}

func ok(t *testing.T, r result) {
	t.Helper()
	if r.code != 0 {
		t.Fatalf("%s", r)
	}
}

func Test5SystemB(t *testing.T) {
	o := newOutside(t)
	img := actorImage(t, o.ca, v1.Config{})
	env := environ(vaultValues)
	values := []string{}
	for _, v := range vaultValues {
		values = append(values, v)
	}
	base := []string{"--image", img, "--policy", exampleVault}
	run := func(t *testing.T, more ...string) result { t.Helper(); return o.exec(t, env, append(base, more...)...) }

	t.Run("per run: a work sandbox, a proxy that alone holds credentials, a sandbox per task, an orchestrator", func(t *testing.T) {
		record := filepath.Join(t.TempDir(), "record.json")
		search := append([]string{"search"}, values...)
		each := append(append([]string{"all", "id", ",", "env", ","}, search...), ",", "get", "https://api.vault.example/who")
		command := "actor " + strings.Join(each, " ")
		r := run(t, append([]string{"--record", record, "--task", "one=" + command, "--task", "two=" + command,
			"--orchestrator", "actor all copy , " + strings.TrimPrefix(command, "actor all "), "--", "actor"}, each...)...)
		ok(t, r)
		has(t, r, "host=work", "[one] uid=1000 gid=1000 host=one", "[two] uid=1000 gid=1000 host=two", "[orchestrator] uid=1000 gid=1000 host=orchestrator")
		if n := strings.Count(r.stdout, "searched; found 0"); n != 4 {
			t.Errorf("%d of 4 sandboxes hold nothing of the vault: %s", n, r)
		}
		lacks(t, r, values...)
		// What a role may hold, in the table and in the running sandboxes.
		for prefix, role := range map[string]proxy.Role{"": proxy.RoleWork, "[one] ": proxy.RoleTask, "[two] ": proxy.RoleTask, "[orchestrator] ": proxy.RoleOrchestrator} {
			for name := range vaultValues {
				holds := false
				for line := range strings.Lines(r.stdout) {
					holds = holds || strings.HasPrefix(line, prefix+name+"=wpplaceholder")
				}
				if holds != role.May(proxy.HoldsPlaceholders) {
					t.Errorf("%q holds the placeholder %s: %v", role, name, holds)
				}
			}
		}
		// The orchestrator learns what becomes of the tasks, and its requests get no
		// secret even where it may go.
		has(t, r, `[orchestrator] {"task":"one","event":"started"}`, `[orchestrator] {"task":"two","event":"ended","exit":0}`)
		var auth []string
		for _, q := range o.requests("api.vault.example") {
			auth = append(auth, q.Auth)
		}
		slices.Sort(auth)
		if want := []string{"", "Bearer " + vaultValues["API_TOKEN"], "Bearer " + vaultValues["API_TOKEN"], "Bearer " + vaultValues["API_TOKEN"]}; !slices.Equal(auth, want) {
			t.Errorf("what arrived: %q", auth)
		}
		rec := readRecord(t, record)
		var roles []string
		for _, s := range rec.Sandboxes {
			roles = append(roles, s.Role)
			if s.PolicyDigest != rec.PolicyDigest || s.Routing != "catch-all" {
				t.Errorf("the sandbox %s was wired with %+v", s.Name, s)
			}
		}
		slices.Sort(roles)
		if !slices.Equal(roles, []string{"orchestrator", "task", "task", "work"}) || rec.Proxy.Placement != "outside-sandbox" || rec.Enforcement.State != "enforced" || !rec.Attestable {
			t.Errorf("record: %+v", rec)
		}
	})

	t.Run("injection by header, query, bearer, basic and raw, by host pattern", func(t *testing.T) {
		o.reset()
		r := run(t, "--", "actor", "get", "https://api.vault.example/a", "https://basic.vault.example/b", "https://maps.vault.example/c?q=1", "https://x.y.raw.vault.example/d", "https://plain.vault.example/e")
		ok(t, r)
		lacks(t, r, values...) // what the site repeats of them is redacted
		first := func(host string) seen {
			if q := o.requests(host); len(q) == 1 {
				return q[0]
			}
			t.Errorf("%s: %d requests arrived, want 1", host, len(o.requests(host)))
			return seen{}
		}
		if a, b := first("api.vault.example").Auth, first("basic.vault.example").User; a != "Bearer "+vaultValues["API_TOKEN"] || b != "robot:"+vaultValues["ROBOT_PASSWORD"] {
			t.Errorf("bearer %q, basic %q", a, b)
		}
		if c, d := first("maps.vault.example").Query, first("x.y.raw.vault.example").Key; !strings.Contains(c, "key="+vaultValues["MAPS_KEY"]) || d != vaultValues["RAW_KEY"] {
			t.Errorf("query %q, raw %q", c, d)
		}
		if e := first("plain.vault.example"); e.Auth+e.Key+e.Query != "" {
			t.Errorf("a host without a rule got %+v", e)
		}
	})

	t.Run("a blocked host is a 403 and a record, and nothing is dialled or looked up", func(t *testing.T) {
		o.reset()
		log := filepath.Join(t.TempDir(), "log.jsonl")
		r := run(t, "--log", log, "--report", "--", "actor", "get", "http://evil.example/secret-path?q=secret-query", "https://tracker.raw.vault.example/secret-path", "http://plain.vault.example/")
		ok(t, r)
		has(t, r, "http://evil.example/secret-path?q=secret-query 403", "http://plain.vault.example/ 200")
		if !strings.Contains(r.stderr, "refused evil.example, 1 times") || !strings.Contains(r.stderr, "refused tracker.raw.vault.example") {
			t.Errorf("--report: %s", r)
		}
		if n := len(o.requests("evil.example")) + len(o.requests("tracker.raw.vault.example")); n != 0 || o.lookedUp("evil.example") || o.lookedUp("tracker.raw.vault.example") {
			t.Errorf("%d requests to blocked hosts arrived, looked up: %v", n, o.asked)
		}
		data, err := os.ReadFile(log)
		if err != nil || strings.Contains(string(data), "secret-path") || strings.Contains(string(data), "secret-query") {
			t.Errorf("the log has a path or a query: %v\n%s", err, data)
		}
		blocked := wallproof(t, "logs", "blocked", "--log", log, "--output", "json")
		routes := wallproof(t, "logs", "routes", "--log", log, "--output", "json")
		for _, w := range []string{`"host": "evil.example"`, `"count": 1`, `"firstSeen"`, `"lastSeen"`, `"point": "proxy"`, `"run"`} {
			if !strings.Contains(blocked.stdout, w) {
				t.Errorf("blocked hosts lack %s: %s", w, blocked)
			}
		}
		if !strings.Contains(routes.stdout, `"route": "direct"`) || !strings.Contains(routes.stdout, `"route": "refused"`) {
			t.Errorf("egress routes: %s", routes)
		}
	})

	t.Run("a per-run authority, whose key the sandbox has not", func(t *testing.T) {
		a := run(t, "--", "actor", "all", "read", "/etc/wallproof/ca.pem", ",", "search", "-----BEGIN PRIVATE KEY", ",", "env")
		b := run(t, "--", "actor", "read", "/etc/ssl/certs/ca-certificates.crt")
		ok(t, a)
		ok(t, b)
		has(t, a, "searched; found 0")
		for _, name := range []string{"SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "GIT_SSL_CAINFO"} {
			has(t, a, name+"=/etc/wallproof/ca.pem")
		}
		common := 0
		for _, c := range strings.SplitAfter(a.stdout, "-----END CERTIFICATE-----") {
			if strings.Contains(c, "BEGIN") && strings.Contains(b.stdout, strings.TrimSpace(c)) {
				common++
			}
		}
		if n := strings.Count(a.stdout, "BEGIN CERTIFICATE"); n != 2 || common != 1 {
			t.Errorf("%d authorities, of which %d in both runs; want the image's own in both and one of each run's own", n, common)
		}
	})

	t.Run("catch-all: what ignores the proxy meets it all the same, and there is no other way", func(t *testing.T) {
		o.reset()
		r := run(t, "--", "actor", "all", "get", "direct:https://api.vault.example/d", "direct:http://evil.example/", "direct:http://93.184.216.34/", "direct:https://93.184.216.34/",
			",", "tcp", "93.184.216.34:22", "93.184.216.34:8443", "192.0.2.1:22", "127.0.0.1:1")
		ok(t, r)
		has(t, r, "direct:https://api.vault.example/d 200")
		for _, u := range []string{"direct:http://evil.example/ error", "direct:http://93.184.216.34/ 403", "direct:https://93.184.216.34/ error", "93.184.216.34:22 error", "93.184.216.34:8443 error"} {
			has(t, r, u)
		}
		if n := len(o.got); n != 1 {
			t.Errorf("%d requests arrived, want 1: %+v", n, o.got)
		}
	})

	t.Run("selective: what the policy does not name passes unread; exec wires it catch-all", func(t *testing.T) {
		o.reset()
		record := filepath.Join(t.TempDir(), "record.json")
		r := o.exec(t, env, "--image", img, "--policy", exampleSelective, "--record", record, "--", "actor", "get", "https://unnamed.example/x", "https://api.vault.example/y", "https://tracker.vault.example/z", "https://sub.tracker.vault.example/")
		ok(t, r)
		has(t, r, "https://unnamed.example/x 200", "https://api.vault.example/y 200", "https://sub.tracker.vault.example/ 200")
		lacks(t, r, "https://tracker.vault.example/z 200")
		if q := o.requests("api.vault.example"); len(q) != 1 || q[0].Auth != "Bearer "+vaultValues["API_TOKEN"] {
			t.Errorf("%+v", q)
		}
		if rec := readRecord(t, record); rec.Routing != "selective" || rec.Wired != "catch-all" {
			t.Errorf("%+v", rec)
		}
	})

	t.Run("a vault that cannot be read stops the run before any code executes", func(t *testing.T) {
		o.reset()
		r := o.exec(t, env[1:], append(base, "--setup", "actor get http://plain.vault.example/", "--", "actor", "id")...)
		if r.code != 1 || !strings.Contains(r.stderr, "nothing was run") || r.stdout != "" || len(o.got) != 0 {
			t.Errorf("%s", r)
		}
	})

	t.Run("a redirect that cannot be installed stops the run", func(t *testing.T) {
		// What stands at the place of a run's namespace cannot be replaced by one.
		cmd := o.command(t, env, append(base, "--", "actor", "id")...)
		cmd.Path, cmd.Args = "/usr/bin/env", nil
		bin := filepath.Join(bin(t), "wallproof")
		cmd.Args = append([]string{"env", "unshare", "-m", "sh", "-c", `mount -t tmpfs -o ro tmpfs /run/netns && exec "$@"`, "sh", bin}, "exec", "--resolver", outsideResolver, "--image", img, "--policy", exampleVault, "--", "actor", "id")
		var out strings.Builder
		cmd.Stdout, cmd.Stderr = &out, &out
		o.start(t, cmd)
		err := cmd.Wait()
		if err == nil || strings.Contains(out.String(), "uid=") || !strings.Contains(out.String(), "namespace") {
			t.Errorf("%v\n%s", err, out.String())
		}
	})

	t.Run("nothing to enforce is told apart from enforced", func(t *testing.T) {
		record := filepath.Join(t.TempDir(), "record.json")
		r := o.exec(t, nil, "--image", img, "--policy", writeFile(t, "version: 1\nmode: public\n"), "--record", record, "--", "actor", "id")
		ok(t, r)
		if rec := readRecord(t, record); rec.Enforcement.State != "nothing-to-enforce" || rec.Attestable || !strings.Contains(r.stderr, "nothing to enforce") {
			t.Errorf("%+v %s", rec, r)
		}
	})

	t.Run("a set-up that fails is told apart from nothing to enforce", func(t *testing.T) {
		record := filepath.Join(t.TempDir(), "record.json")
		r := o.exec(t, env, append(base, "--record", record, "--setup", "actor exit 9", "--", "actor", "id")...)
		rec := readRecord(t, record)
		if r.code != 1 || !strings.Contains(r.stderr, "exit code 9") || strings.Contains(r.stdout, "uid=") || rec.Enforcement.State != "failed" || rec.Attestable {
			t.Errorf("%+v %s", rec, r)
		}
	})

	t.Run("an edit takes effect within seconds, and the run can no longer be attested", func(t *testing.T) { editedRun(t, o, img, env) })
	t.Run("a run is halted for review and resumed", func(t *testing.T) { haltedRun(t, o, img, env) })

	t.Run("an observed host is promoted to an allow entry", func(t *testing.T) {
		log := filepath.Join(t.TempDir(), "log.jsonl")
		ok(t, run(t, "--log", log, "--", "actor", "get", "http://wanted.example/", "http://wanted.example/", "http://wanted.example/"))
		r := wallproof(t, "policy", "suggest", "--policy", exampleVault, log)
		ok(t, r)
		has(t, r, "wanted.example")
	})
}

// interactive is a run whose agent goes on when it is told to.
type interactive struct {
	t      *testing.T
	pid    int
	in     io.WriteCloser
	lines  chan string
	stderr chan string
	wait   func() error
}

func (o *outside) interact(t *testing.T, env []string, args ...string) *interactive {
	t.Helper()
	cmd := o.command(t, env, args...)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	i := &interactive{t: t, in: in, lines: make(chan string, 1024), stderr: make(chan string, 1024)}
	o.start(t, cmd)
	go scanLines(stdout, i.lines)
	go scanLines(stderr, i.stderr)
	i.wait, i.pid = cmd.Wait, cmd.Process.Pid
	return i
}

// expect waits for a line of a channel that has a text.
func (i *interactive) expect(lines <-chan string, text string) string {
	i.t.Helper()
	deadline := time.After(time.Minute)
	var all []string
	for {
		select {
		case line, open := <-lines:
			all = append(all, line)
			if strings.Contains(line, text) {
				return line
			}
			if !open {
				i.t.Fatalf("it ended before it said %q:\n%s", text, strings.Join(all, "\n"))
			}
		case <-deadline:
			i.t.Fatalf("it did not say %q:\n%s", text, strings.Join(all, "\n"))
		}
	}
}

func (i *interactive) say(format string, args ...any) {
	fmt.Fprintf(i.in, format+"\n", args...)
}

func editedRun(t *testing.T, o *outside, img string, env []string) {
	text, err := os.ReadFile(exampleVault)
	if err != nil {
		t.Fatal(err)
	}
	policy := writeFile(t, string(text))
	record := filepath.Join(t.TempDir(), "record.json")
	i := o.interact(t, env, "--image", img, "--policy", policy, "--record", record, "--", "actor", "obey")
	i.say("get http://added.example/")
	i.expect(i.lines, "http://added.example/ 403")
	edit := func(to string) {
		if err := os.WriteFile(policy, []byte(to), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	edit(strings.Replace(string(text), "allow:\n", "allow:\n  - {host: added.example, ports: [80]}\n", 1))
	i.expect(i.stderr, "is in force")
	i.say("get http://added.example/")
	i.expect(i.lines, "http://added.example/ 200")
	edit("version: 1\nmode: allowlist\nallow: [{hosst: x}]\n")
	i.expect(i.stderr, "the edit is not in force")
	i.say("get http://added.example/")
	i.expect(i.lines, "http://added.example/ 200")
	i.in.Close()
	if err := i.wait(); err != nil {
		t.Error(err)
	}
	rec := readRecord(t, record)
	if rec.Attestable || len(rec.Edits) != 1 || !rec.Edits[0].InForce || rec.Edits[0].PolicyDigest == rec.PolicyDigest || len(rec.Why) == 0 || !strings.Contains(rec.Why[0], "edited during the run") {
		t.Errorf("%+v", rec)
	}
}

func haltedRun(t *testing.T, o *outside, img string, env []string) {
	record := filepath.Join(t.TempDir(), "record.json")
	i := o.interact(t, env, "--image", img, "--policy", exampleVault, "--record", record, "--report", "--", "actor", "obey")
	i.say("id")
	i.expect(i.lines, "uid=1000")
	if r := wallproof(t, "halt"); r.code != 0 {
		t.Fatalf("%s", r)
	}
	i.expect(i.stderr, "halted for review")
	i.say("get http://plain.vault.example/while-halted")
	select { // it takes a moment to see that nothing comes; a run that goes on answers in far less
	case line := <-i.lines:
		t.Errorf("a halted run says %q", line)
	case <-time.After(2 * time.Second):
	}
	if r := wallproof(t, "resume"); r.code != 0 {
		t.Fatalf("%s", r)
	}
	i.expect(i.lines, "http://plain.vault.example/while-halted 200")
	i.in.Close()
	if err := i.wait(); err != nil {
		t.Error(err)
	}
	if rec := readRecord(t, record); len(rec.Halts) != 2 || !rec.Halts[0].Halted || rec.Halts[1].Halted || !rec.Attestable {
		t.Errorf("%+v", rec)
	}
}

func Test6SystemC(t *testing.T) {
	o := newOutside(t)
	img := actorImage(t, o.ca, v1.Config{})
	env := []string{"PROVIDER_KEY=provider-key-2b94f1", "DATASET=mnist", "OTHER=host-variable-e04d"}
	run := func(t *testing.T, mode string, more ...string) result {
		t.Helper()
		return o.exec(t, env, append([]string{"--image", img, "--policy", exampleTask + mode + ".yaml"}, more...)...)
	}
	metadata := []string{"http://169.254.169.254/latest/meta-data/", "http://metadata.google.internal/", "direct:http://169.254.169.254/", "http://10.1.2.3/", "direct:http://192.168.7.7/"}
	refusesMetadata := func(t *testing.T, r result) {
		t.Helper()
		for _, u := range metadata {
			lacks(t, r, u+" 200")
		}
		for _, q := range o.got {
			if strings.HasPrefix(q.Addr, "169.254.") || strings.HasPrefix(q.Addr, "10.") || strings.HasPrefix(q.Addr, "192.168.") {
				t.Errorf("something arrived at %s", q.Addr)
			}
		}
	}

	t.Run("public reaches the internet, except cloud metadata", func(t *testing.T) {
		o.reset()
		r := run(t, "public", append([]string{"--", "actor", "get", "https://any.example/", "http://any.example/", "direct:https://other.example/"}, metadata...)...)
		ok(t, r)
		has(t, r, "https://any.example/ 200", "http://any.example/ 200", "direct:https://other.example/ 200")
		refusesMetadata(t, r)
	})
	t.Run("no-network reaches only the model, through the model proxy", func(t *testing.T) {
		o.reset()
		r := run(t, "no-network", append([]string{"--", "actor", "all", "chat", "gpt-oss-120b", ",", "chat", "vendor/qwen-x", ",", "chat", "other", ",", "get", "https://any.example/", "direct:http://any.example/", "https://model.provider.example/"}, metadata...)...)
		ok(t, r)
		has(t, r, "chat gpt-oss-120b 200", "the model answers", "chat vendor/qwen-x 200", "chat other 403")
		lacks(t, r, "https://any.example/ 200", "direct:http://any.example/ 200", "provider-key-2b94f1", "https://model.provider.example/ 200")
		refusesMetadata(t, r)
		q := o.requests("model.provider.example")
		if len(q) != 2 || q[0].Auth != "Bearer provider-key-2b94f1" {
			t.Errorf("what arrived at the provider: %+v", q)
		}
	})
	t.Run("denylist reaches the internet minus blocked URLs and hosts, with all below them", func(t *testing.T) {
		o.reset()
		r := run(t, "denylist", append([]string{"--", "actor", "get", "https://papers.example/", "https://papers.example/answers", "http://papers.example/answers/1", "https://papers.example/%61nswers", "https://papers.example/answersheet",
			"https://leaderboard.example/", "https://a.b.leaderboard.example/", "https://notleaderboard.example/"}, metadata...)...)
		ok(t, r)
		has(t, r, "https://papers.example/ 200", "https://papers.example/answersheet 200", "https://notleaderboard.example/ 200",
			"https://papers.example/answers 403", "http://papers.example/answers/1 403", "https://papers.example/%61nswers 403")
		lacks(t, r, "https://leaderboard.example/ 200", "https://a.b.leaderboard.example/ 200")
		refusesMetadata(t, r)
	})
	t.Run("allowlist reaches only the allowed hosts, plus the model", func(t *testing.T) {
		o.reset()
		r := run(t, "allowlist", append([]string{"--env", "DATASET", "--", "actor", "all", "chat", "gpt-oss-120b", ",", "get", "https://docs.example/", "https://sub.docs.example/", "https://packages.example/", "https://any.example/"}, metadata...)...)
		ok(t, r)
		has(t, r, "https://docs.example/ 200", "chat gpt-oss-120b 200")
		lacks(t, r, "https://sub.docs.example/ 200", "https://packages.example/ 200", "https://any.example/ 200")
		refusesMetadata(t, r)
	})
	t.Run("an empty allowlist is refused, or admits only the model", func(t *testing.T) {
		empty := "version: 1\nmode: allowlist\n"
		if r := o.exec(t, env, "--image", img, "--policy", writeFile(t, empty), "--", "actor", "id"); r.code != 1 || r.stdout != "" {
			t.Errorf("%s", r)
		}
		model := empty + "secrets: [{name: PROVIDER_KEY, from: {env: PROVIDER_KEY}}]\nmodel: {api: openai, url: 'https://model.provider.example/v1', secret: PROVIDER_KEY, allow: [gpt-oss-120b]}\n"
		r := o.exec(t, env, "--image", img, "--policy", writeFile(t, model), "--", "actor", "all", "chat", "gpt-oss-120b", ",", "get", "http://any.example/")
		ok(t, r)
		has(t, r, "chat gpt-oss-120b 200", "http://any.example/ 403")
	})
	t.Run("names of the task's own services are allowed, and reached by nothing else", func(t *testing.T) { services(t, o, img) })

	t.Run("set-up, agent and verifier have phases of their own", func(t *testing.T) {
		o.reset()
		record := filepath.Join(t.TempDir(), "record.json")
		hosts := "http://packages.example/ https://packages.example/p https://docs.example/d https://any.example/a"
		r := run(t, "allowlist", "--env", "DATASET", "--record", record,
			"--setup", "actor all id , env , get "+hosts+" , write /workspace/from-setup made-by-root",
			"--verifier", "actor all id , env , get "+hosts+" , read /workspace/result",
			"--", "actor", "all", "id", ",", "read", "/workspace/from-setup", ",", "write", "/workspace/result", "made-by-agent", ",", "get", "https://packages.example/p", "https://docs.example/d")
		ok(t, r)
		has(t, r, "[setup] uid=0", "[setup] https://packages.example/p 200", "uid=1000", "made-by-root", "https://docs.example/d 200", "[verifier] uid=0", "made-by-agent")
		lacks(t, r, "[setup] https://docs.example/d 200", "[verifier] https://packages.example/p 200", "[verifier] https://docs.example/d 200", "[setup] PROVIDER_KEY", "[verifier] PROVIDER_KEY", "[setup] OPENAI_API_KEY", "[verifier] OPENAI_API_KEY")
		rec := readRecord(t, record)
		var phases []string
		for _, p := range rec.Phases {
			phases = append(phases, p.Phase+" "+p.Mode)
		}
		if !slices.Equal(phases, []string{"setup allowlist", "agent allowlist", "verifier no-network"}) {
			t.Errorf("%q", phases)
		}
	})
	t.Run("set-up and verifier are public by default", func(t *testing.T) {
		o.reset()
		r := run(t, "no-network", "--setup", "actor get https://any.example/s http://169.254.169.254/", "--verifier", "actor get https://any.example/v http://169.254.169.254/", "--", "actor", "get", "http://any.example/a")
		ok(t, r)
		has(t, r, "[setup] https://any.example/s 200", "[verifier] https://any.example/v 200", "http://any.example/a 403", "[setup] http://169.254.169.254/ 403", "[verifier] http://169.254.169.254/ 403")
	})
	t.Run("what the agent leaves behind does not live on under the verifier's policy", func(t *testing.T) {
		o.reset()
		r := run(t, "no-network", "--verifier", "actor get https://verified.example/", "--", "actor", "leave", "linger", "http://exfiltrated.example/")
		ok(t, r)
		has(t, r, "[verifier] https://verified.example/ 200")
		if n := len(o.requests("exfiltrated.example")) + len(o.requests("queued")); n != 0 {
			t.Errorf("%d requests of the agent arrived in the verifier's time", n)
		}
	})
	t.Run("the verifier decides", func(t *testing.T) {
		if r := run(t, "public", "--verifier", "actor exit 3", "--", "actor", "id"); r.code != 3 {
			t.Errorf("%s", r)
		}
		if r := run(t, "public", "--verifier", "actor exit 0", "--", "actor", "exit", "5"); r.code != 0 {
			t.Errorf("%s", r)
		}
	})
	t.Run("a model that may search by itself is refused before the sandbox starts, unless allowed by name; the override is recorded", func(t *testing.T) {
		record := filepath.Join(t.TempDir(), "record.json")
		if r := run(t, "no-network", "--model", "vendor/sonar-online", "--", "actor", "id"); r.code != 1 || r.stdout != "" || !strings.Contains(r.stderr, "vendor/sonar-online") {
			t.Errorf("%s", r)
		}
		r := run(t, "no-network", "--model", "vendor/sonar-online", "--allow-self-search", "vendor/sonar-online", "--record", record, "--", "actor", "id")
		ok(t, r)
		if rec := readRecord(t, record); len(rec.Overrides) != 1 || !strings.Contains(rec.Overrides[0], "vendor/sonar-online") {
			t.Errorf("%+v", rec.Overrides)
		}
		if r := run(t, "no-network", "--model", "gpt-oss-120b", "--", "actor", "id"); r.code != 0 {
			t.Errorf("%s", r)
		}
	})
	t.Run("hosted web search is turned off where web access is restricted", func(t *testing.T) {
		o.reset()
		r := run(t, "no-network", "--", "actor", "chat", "gpt-oss-120b", "search")
		ok(t, r)
		has(t, r, "chat gpt-oss-120b 403")
		if len(o.requests("model.provider.example")) != 0 {
			t.Error("it arrived at the provider")
		}
	})
	t.Run("what enters: no host variable, a proxy key for the model, what is passed, what a task asks for when it is named", func(t *testing.T) {
		if r := run(t, "allowlist", "--", "actor", "env"); r.code != 1 || r.stdout != "" || !strings.Contains(r.stderr, "DATASET") {
			t.Errorf("a variable that the task asks for, not named: %s", r)
		}
		r := run(t, "allowlist", "--env", "DATASET", "--env", "GIVEN=value", "--env", "MY_API_KEY=looks-like-one", "--", "actor", "all", "env", ",", "search", "provider-key-2b94f1", "host-variable-e04d")
		ok(t, r)
		has(t, r, "DATASET=mnist", "GIVEN=value", "CI=1", "OPENAI_API_KEY=wpmodel", "PROVIDER_KEY=wpplaceholder", "searched; found 0")
		lacks(t, r, "host-variable-e04d", "provider-key-2b94f1", "NO_COLOR")
		if !strings.Contains(r.stderr, "MY_API_KEY looks like a credential") {
			t.Errorf("no warning: %s", r)
		}
		// A scripted agent's policy has no model and no secret: there is nothing.
		r = run(t, "public", "--", "actor", "env")
		ok(t, r)
		lacks(t, r, "wpplaceholder", "wpmodel", "API_KEY=")
	})
	t.Run("a subscription login enters for its agent alone", func(t *testing.T) {
		login := filepath.Join(t.TempDir(), "login.json")
		if err := os.WriteFile(login, []byte(`{"login":"subscription-19ab"}`), 0o600); err != nil {
			t.Fatal(err)
		}
		policy := writeFile(t, "version: 1\nmode: public\nenvironment:\n  login: {agent: coder, path: /home/agent/.coder/login.json, from: {file: "+login+"}}\n")
		r := o.exec(t, nil, "--image", img, "--policy", policy, "--agent", "coder", "--task", "other=actor search subscription-19ab", "--", "actor", "read", "/home/agent/.coder/login.json")
		ok(t, r)
		has(t, r, `{"login":"subscription-19ab"}`, "[other] searched; found 0")
		for _, agent := range []string{"", "another"} {
			r := o.exec(t, nil, "--image", img, "--policy", policy, "--agent", agent, "--", "actor", "search", "subscription-19ab")
			ok(t, r)
			has(t, r, "searched; found 0")
		}
	})
	t.Run("a probe script run as the agent shows which sites answer, and which key-like variables exist, per mode", func(t *testing.T) {
		for mode, want := range map[string][]string{
			"public":     {"https://any.example/\tproxy\tHTTP 200", "https://any.example/\tdirect\tHTTP 200", "https://none.invalid/\tdirect\tno-such-name"},
			"no-network": {"https://any.example/\tproxy\tCONNECT 403 default-deny", "https://any.example/\tdirect\tno-such-name", "key-like variables\tANTHROPIC_API_KEY OPENAI_API_KEY PROVIDER_KEY"},
			"denylist":   {"https://any.example/\tproxy\tHTTP 200", "https://leaderboard.example/\tproxy\tCONNECT 403 block-entry", "https://leaderboard.example/\tdirect\tno-such-name"},
			"allowlist":  {"https://docs.example/\tproxy\tHTTP 200", "https://docs.example/\tdirect\tHTTP 200", "https://any.example/\tproxy\tCONNECT 403 default-deny", "https://any.example/\tdirect\tno-such-name"},
		} {
			r := run(t, mode, "--env", "DATASET=x", "--reach", "https://any.example/", "--reach", "https://docs.example/", "--reach", "https://leaderboard.example/", "--reach", "https://none.invalid/")
			ok(t, r)
			has(t, r, want...)
			lacks(t, r, "provider-key-2b94f1")
		}
	})
	t.Run("exports are redacted", func(t *testing.T) {
		// The provider's key comes back in an answer, whole and encoded; neither what
		// the agent prints nor the log and the record have it.
		log, record := filepath.Join(t.TempDir(), "log.jsonl"), filepath.Join(t.TempDir(), "record.json")
		policy := writeFile(t, "version: 1\nmode: allowlist\nallow: [{host: docs.example}]\nsecrets: [{name: PROVIDER_KEY, from: {env: PROVIDER_KEY}, inject: [{host: docs.example, as: bearer}]}]\n")
		r := o.exec(t, env, "--image", img, "--policy", policy, "--log", log, "--record", record, "--report", "--", "actor", "get", "https://docs.example/echo", "http://provider-key-2b94f1.example/")
		ok(t, r)
		has(t, r, "https://docs.example/echo 200")
		if q := o.requests("docs.example"); len(q) == 0 || q[len(q)-1].Auth != "Bearer provider-key-2b94f1" {
			t.Errorf("the site got %+v", q)
		}
		lacks(t, r, "auth=Bearer provider-key-2b94f1")
		for _, path := range []string{log, record} {
			if b, err := os.ReadFile(path); err != nil || strings.Contains(string(b), "provider-key-2b94f1") {
				t.Errorf("%s: %v\n%s", path, err, b)
			}
		}
	})
}
