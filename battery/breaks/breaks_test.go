//go:build breaks

package breaks

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/wallproof/wallproof/probes/catalog"
)

const folder = "../../testdata/breaks"

// least is how many breaks there are at least.
const least = 80

// The files of this repository: enough of them, over every vector and every kind
// of thing that can be got wrong.
func TestRepositorysBreaks(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
	if err != nil || len(files) < least {
		t.Fatalf("%d breaks, want %d: %v", len(files), least, err)
	}
	byVector, byKind := map[catalog.Vector]int{}, map[string]int{}
	names := map[string]string{}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		b, err := Parse(file, data)
		if err != nil {
			t.Error(err)
			continue
		}
		if names[b.Name] != "" {
			t.Errorf("%s and %s have one name", file, names[b.Name])
		}
		names[b.Name] = file
		byKind[b.Kind]++
		technique, _ := catalog.Lookup(b.CaughtBy[0])
		byVector[technique.Vector]++
	}
	for _, v := range catalog.Vectors() {
		if byVector[v] == 0 {
			t.Errorf("no break for %s", v)
		}
	}
	for _, kind := range []string{"filter-accept", "policy", "proxy", "driver", "image", "mount", "leak", "environment-leak", "tenant", "namespace", "descriptor"} {
		if byKind[kind] == 0 {
			t.Errorf("no break of kind %s", kind)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"unknown key":         {"kind: network-dead\ncaught-by: [NET-TCP]\nmore: 1\n", "more"},
		"unknown kind":        {"kind: nothing\ncaught-by: [NET-TCP]\n", `no kind "nothing"`},
		"unknown technique":   {"kind: network-dead\ncaught-by: [NET-NOTHING]\n", "NET-NOTHING"},
		"no technique":        {"kind: network-dead\n", "caught-by"},
		"unknown parameter":   {"kind: filter-accept\nwith: {cidr: 10.0.0.0/8, prot: tcp}\ncaught-by: [LAT-10]\n", "prot"},
		"no parameter":        {"kind: filter-accept\ncaught-by: [LAT-10]\n", "cidr"},
		"unknown policy":      {"kind: network-dead\npolicy: none\ncaught-by: [NET-TCP]\n", "denylist"},
		"unknown driver":      {"kind: network-dead\ndriver: none\ncaught-by: [NET-TCP]\n", "runc-bare"},
		"unknown expectation": {"kind: network-dead\nexpect: luck\ncaught-by: [NET-TCP]\n", "luck"},
		"own machine":         {"kind: proxy\nwith: {openRange: 127.0.0.0/8}\ncaught-by: [LAT-LOOPBACK]\n", "opens no hole"},
		"a shared name":       {"kind: namespace\nwith: {share: [uts]}\ncaught-by: [TEN-SYSV]\n", "opens no hole"},
		"devices unmade":      {"kind: driver\nwith: {makeDevices: true}\ndriver: runc\ncaught-by: [ENV-MKNOD]\n", "opens no hole"},
		"no such secret":      {"kind: leak\nwith: {file: /x, secret: API_TOKEN}\npolicy: denylist\ncaught-by: [INJ-README]\n", "has no secret"},
		"ids of its own":      {"kind: driver\nwith: {noUserNamespace: true}\ncaught-by: [ENV-HOST-ROOT]\n", "opens no hole"},
		"own namespaces":      {"kind: driver\nwith: {hostNamespaces: [pid]}\ncaught-by: [ENV-CMDLINE]\n", "opens no hole"},
		"a flag alone":        {"kind: driver\nwith: {flags: [--net-raw]}\ncaught-by: [ENV-CAPABILITIES]\n", "add capabilities"},
		"call let through":    {"kind: driver\nwith: {allowCalls: [ptrace]}\ndriver: runc\ncaught-by: [ENV-SECCOMP]\n", "opens no hole"},
		"call for nobody":     {"kind: driver\nwith: {allowCalls: [init_module]}\ndriver: runc\ncaught-by: [ENV-SECCOMP]\n", "add the capability"},
		"no filter":           {"kind: driver\nwith: {allowCalls: [bpf]}\ncaught-by: [ENV-SECCOMP]\n", "use runc"},
		"no device":           {"kind: driver\nwith: {devices: [/dev/none-such]}\ncaught-by: [ENV-DEVICE-NODES]\n", "has no /dev/none-such"},
		"nobody's port":       {"kind: filter-accept\nwith: {chain: input, cidr: 192.0.2.0/24, proto: tcp, ports: [{first: 22}]}\ncaught-by: [TEN-PROXY]\n", "no hole"},
		"nobody's address":    {"kind: filter-accept\nwith: {chain: input, cidr: 203.0.113.1/32}\ncaught-by: [TEN-PROXY]\n", "no hole"},
		"router's echo":       {"kind: filter-accept\nwith: {chain: input, cidr: 0.0.0.0/0, proto: icmp}\ncaught-by: [NET-FILTER]\n", "no hole"},
		"forwarded nowhere":   {"kind: filter-accept\nwith: {cidr: 224.0.0.0/4}\ncaught-by: [LAT-MULTICAST]\n", "no hole"},
		"changed to nowhere":  {"kind: filter-changed\nwith: {after: 1, cidr: 127.0.0.0/8}\ncaught-by: [LAT-LOOPBACK]\n", "no hole"},
		"a file of nobody's":  {"kind: over\nwith: {path: /etc/hosts}\ncaught-by: [ENV-PROC-WRITES]\n", "opens no hole"},
		"a setting it lacks":  {"kind: over\nwith: {path: /proc/sys/kernel/core_pattern}\ncaught-by: [ENV-PROC-WRITES]\n", "gvisor has no"},
		"no queues":           {"kind: leak\nwith: {queue: a, secret: host}\ncaught-by: [TEN-QUEUE]\n", "no POSIX"},
		"a longer lease":      {"kind: policy\nwith: {set: {broker: [{name: forge, host: git.wallproof-demo.example, api: 'https://git.wallproof-demo.example/api/v3', app: '4711', installation: 1, key: {env: FORGE_APP_KEY}, lease: 50m, repositories: [{name: acme/app, push: ['refs/heads/agent/*']}]}]}}\ncaught-by: [TOK-LEASE-EXPIRED]\n", "how long a lease"},
		"folder handed over":  {"kind: descriptor\nwith: {of: folder}\ncaught-by: [ENV-INHERITED]\n", "hands no folder"},
		"mount over all":      {"kind: mount\nwith: {target: /, of: host}\ncaught-by: [ENV-MOUNTS]\n", "not /"},
		"over a process":      {"kind: over\nwith: {path: /proc/self/uid_map}\ncaught-by: [ENV-PROC-WRITES]\n", "no process yet"},
		"over nothing":        {"kind: over\nwith: {path: dev/null}\ncaught-by: [ENV-NULL-DEVICE]\n", "needs path"},
		"nothing in HTML":     {"kind: proxy\nwith: {skipEncoding: html}\ncaught-by: [TOK-ECHO]\n", "opens no hole"},
		"two switches":        {"kind: proxy\nwith: {noRedaction: true, allowTrace: true}\ncaught-by: [TOK-ECHO]\n", "one switch"},
		"no switch":           {"kind: proxy\ncaught-by: [TOK-ECHO]\n", "one switch"},
		"unknown word":        {"kind: proxy\nwith: {skipNormalisation: spelling}\ncaught-by: [NET-NUL]\n", "trailing-dot"},
		"two leaks":           {"kind: leak\nwith: {file: /a, memory: true, secret: host}\ncaught-by: [ENV-FILES]\n", "exactly one"},
		"no secret":           {"kind: leak\nwith: {file: /a}\ncaught-by: [ENV-FILES]\n", "secret or a shape"},
		"unknown shape":       {"kind: environment-leak\nwith: {variable: A, shape: x}\ncaught-by: [TOK-KEYS]\n", "private-key"},
		"unknown sandbox":     {"kind: environment-leak\nwith: {variable: A, secret: host, sandbox: x}\ncaught-by: [TOK-ENV]\n", "restored"},
		"host's network":      {"kind: driver\nwith: {hostNamespaces: [network]}\ndriver: runc\ncaught-by: [ENV-HOST-ROOT]\n", "network"},
		"unknown namespace":   {"kind: namespace\nwith: {share: [net]}\ncaught-by: [TEN-PROCESS]\n", "net"},
		"two documents":       {"kind: network-dead\ncaught-by: [NET-TCP]\n---\nkind: network-dead\n", "more than one"},
		"broken policy":       {"kind: policy\nwith: {set: {mode: maybe}}\ncaught-by: [NET-HTTP]\n", "mode"},
	} {
		t.Run(name, func(t *testing.T) {
			b, err := Parse("x.yaml", []byte(c.text))
			if err == nil || b != nil {
				t.Fatalf("accepted: %+v", b)
			}
			if !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "x.yaml") {
				t.Errorf("%v does not say %q and the file", err, c.want)
			}
		})
	}
}

// Every policy that a break can be tried on is one, and every shape is drawn anew.
func TestPoliciesAndShapes(t *testing.T) {
	if !slices.Contains(Policies(), DefaultPolicy) || len(Policies()) < 3 {
		t.Errorf("policies %v", Policies())
	}
	for _, name := range Policies() {
		if _, err := (&Break{Policy: name}).Tested(); err != nil {
			t.Error(err)
		}
	}
	for name, draw := range shapes {
		if a, b := draw(), draw(); a == b || len(a) < 20 {
			t.Errorf("%s: %q and %q", name, a, b)
		}
	}
}

// TestEveryTechniqueHasABreak: every technique is named by a seeded break, or by the
// documentation with the reason why none can make it fire.
func TestEveryTechniqueHasABreak(t *testing.T) {
	named := map[string]bool{}
	files, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no breaks: %v", err)
	}
	for _, path := range files {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		b, err := Parse(path, data)
		if err != nil {
			t.Fatal(err)
		}
		if b.Expect == ExpectNothingBlocked { // it makes nothing fire
			continue
		}
		for _, id := range b.CaughtBy {
			named[id] = true
		}
	}
	docs, err := os.ReadFile("../../docs/breaks.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, ok := strings.Cut(string(docs), "\n## Techniques that no break makes fire\n")
	if !ok {
		t.Fatal("docs/breaks.md has no such section")
	}
	excused := map[string]bool{}
	for line := range strings.Lines(table) {
		cells := strings.Split(line, "|")
		if len(cells) < 3 {
			continue
		}
		for _, id := range regexp.MustCompile("`([A-Z]+-[A-Z0-9-]+)`").FindAllStringSubmatch(cells[1], -1) {
			excused[id[1]] = true
		}
	}
	for _, tech := range catalog.All() {
		if named[tech.ID] == excused[tech.ID] {
			t.Errorf("%s: named by a break %v, excused by docs/breaks.md %v: want one of the two", tech.ID, named[tech.ID], excused[tech.ID])
		}
		delete(excused, tech.ID)
	}
	if len(excused) > 0 {
		t.Errorf("docs/breaks.md excuses what the catalogue does not have: %v", excused)
	}
}
