//go:build breaks

package breaks

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
)

// Sample makes n breaks of all kinds in turn, with parameters that no file of the
// repository has, as documents by name. The same seed gives the same breaks.
func Sample(seed uint64, n int) map[string]string {
	s := &sampler{rand.New(rand.NewPCG(seed, 0x77616c6c))}
	out := map[string]string{}
	order := s.Perm(len(samples)) // a small sample is not always of the same kinds
	for i := range n {
		k := samples[order[i%len(order)]]
		out[fmt.Sprintf("%03d-%s", i, k.name)] = k.make(s)
	}
	return out
}

type sampler struct{ *rand.Rand }

func pick[T any](s *sampler, list ...T) T { return list[s.IntN(len(list))] }

// word is a name that nobody has thought of.
func (s *sampler) word() string {
	const letters = "abcdefghijklmnopqrstuvwxyz"
	b := make([]byte, 3+s.IntN(7))
	for i := range b {
		b[i] = letters[s.IntN(len(letters))]
	}
	return string(b)
}

func (s *sampler) variable() string {
	return strings.ToUpper(s.word()) + pick(s, "", "_"+strings.ToUpper(s.word()), fmt.Sprint(s.IntN(99)))
}

// path is a file at any depth below a folder that a program may write to.
func (s *sampler) path() string {
	p := pick(s, "/srv", "/opt", "/var/lib", "/usr/share", "/usr/lib", "/etc", "/home/"+s.word(), "/media", "/data", "/root", "/var/spool", "/tmp", "/run/"+s.word())
	for range 1 + s.IntN(3) {
		p += "/" + pick(s, "", ".") + s.word()
	}
	return p
}

func (s *sampler) port() int { return 1 + s.IntN(65000) }

// public is an ordinary address, and a prefix around it.
func (s *sampler) public() string {
	return fmt.Sprintf("%d.%d.%d.%d/%d", pick(s, 23, 44, 52, 93, 104, 151, 185, 212), s.IntN(256), s.IntN(256), s.IntN(256), 14+s.IntN(19))
}

func (s *sampler) public6() string {
	return fmt.Sprintf("%s:%x:%x::/%d", pick(s, "2600", "2a00", "2c0f", "2403"), 1+s.IntN(0xfffe), 1+s.IntN(0xfffe), 48+s.IntN(80))
}

// proto is a protocol with ports, or without.
func (s *sampler) proto() string {
	one := s.port()
	return pick(s, "", ", proto: tcp", ", proto: udp", fmt.Sprintf(", proto: tcp, ports: [{first: %d}]", one), fmt.Sprintf(", proto: udp, ports: [{first: %d}]", one),
		fmt.Sprintf(", proto: tcp, ports: [{first: %d, last: %d}]", one, one+s.IntN(500)))
}

// private is a part of a range, with the technique that is about the range.
func (s *sampler) private() (cidr, technique string) {
	cidr, technique = s.part()
	if p, err := netip.ParsePrefix(cidr); err == nil {
		cidr = p.Masked().String()
	}
	return cidr, technique
}

func (s *sampler) part() (cidr, technique string) {
	switch s.IntN(5) {
	case 0:
		return fmt.Sprintf("10.%d.%d.0/%d", s.IntN(256), s.IntN(256), 16+s.IntN(9)), "LAT-10"
	case 1:
		return fmt.Sprintf("172.%d.%d.0/%d", 16+s.IntN(16), s.IntN(256), 18+s.IntN(9)), "LAT-172"
	case 2:
		return fmt.Sprintf("192.168.%d.0/%d", s.IntN(256), 24+s.IntN(8)), "LAT-192"
	case 3:
		return fmt.Sprintf("100.%d.%d.0/%d", 64+s.IntN(64), s.IntN(256), 20+s.IntN(9)), "LAT-CGNAT"
	}
	return fmt.Sprintf("fd%02x:%x::/%d", s.IntN(256), 1+s.IntN(0xfffe), 32+s.IntN(80)), "LAT-ULA"
}

func (s *sampler) shape() string { return pick(s, shapeNames()...) }

func doc(kind, with string, more ...string) string {
	out := "kind: " + kind + "\n"
	if with != "" {
		out += "with: {" + with + "}\n"
	}
	return out + strings.Join(more, "\n") + "\n"
}

func caught(ids ...string) string { return "caught-by: [" + strings.Join(ids, ", ") + "]" }

func leakDoc(with string, ids ...string) string { return doc("leak", with, caught(ids...)) }

func proxyDoc(with string, ids ...string) string { return doc("proxy", with, caught(ids...)) }

// samples are the kinds with parameters, several of one where they differ.
var samples = []struct {
	name string
	make func(s *sampler) string
}{
	{"filter-public", func(s *sampler) string {
		return doc("filter-accept", "cidr: "+s.public()+s.proto(), caught("NET-FILTER"))
	}},
	{"filter-public6", func(s *sampler) string {
		return doc("filter-accept", fmt.Sprintf("cidr: %q", s.public6())+s.proto(), caught("NET-FILTER"))
	}},
	{"filter-icmp", func(s *sampler) string {
		return doc("filter-accept", "cidr: "+s.public()+", proto: icmp", caught("NET-FILTER"))
	}},
	{"filter-private", func(s *sampler) string {
		cidr, id := s.private()
		return doc("filter-accept", fmt.Sprintf("cidr: %q", cidr)+pick(s, "", ", proto: tcp", fmt.Sprintf(", proto: tcp, ports: [{first: %d}]", s.port())), caught(id))
	}},
	{"filter-input", func(s *sampler) string {
		return doc("filter-accept", "chain: input, cidr: "+pick(s, "192.0.2.4/30", "192.0.2.5/32", "192.0.2.0/27")+
			pick(s, "", ", proto: tcp", ", proto: tcp, ports: [{first: 1080}]", ", proto: tcp, ports: [{first: 3000, last: 3200}]"), caught("TEN-PROXY"))
	}},
	{"filter-late", func(s *sampler) string {
		return doc("filter-late", fmt.Sprintf("milliseconds: %d", 300000+s.IntN(600000)), caught("NET-TCP", "NET-HTTPS"))
	}},
	{"environment", func(s *sampler) string {
		return doc("environment-leak", "variable: "+s.variable()+", secret: "+pick(s, "API_TOKEN", "SEARCH_KEY", "host", "git", "platform"), caught("TOK-ENV"))
	}},
	{"environment-shape", func(s *sampler) string {
		return doc("environment-leak", "variable: "+s.variable()+", shape: "+s.shape(), caught("TOK-KEYS"))
	}},
	{"file", func(s *sampler) string {
		return leakDoc(fmt.Sprintf("file: %s, secret: %s, text: %q", s.path(), pick(s, "host", "API_TOKEN", "platform"), pick(s, "{}", "key={}\n", `{"a":"{}"}`, "x{}y")), "ENV-FILES")
	}},
	{"file-neighbour", func(s *sampler) string { return leakDoc("file: "+s.path()+", secret: neighbour", "TEN-FILES") }},
	{"file-prior", func(s *sampler) string {
		return leakDoc("file: "+s.path()+", secret: prior, sandbox: "+pick(s, "fresh", "restored"), "SNP-EVERY-FILE")
	}},
	{"deleted", func(s *sampler) string { return leakDoc("deleted-file: "+s.path()+", secret: host", "ENV-DESCRIPTORS") }},
	{"process-arguments", func(s *sampler) string {
		return leakDoc(fmt.Sprintf("process: %s, arguments: [%q], secret: host", s.word(), pick(s, "--"+s.word()+"={}", "{}", "-p{}")), "ENV-CMDLINE")
	}},
	{"process-environment", func(s *sampler) string {
		return leakDoc(fmt.Sprintf("process: %s, environment: [%q], secret: host", s.word(), s.variable()+"={}"), "ENV-ENVIRON")
	}},
	{"socket", func(s *sampler) string {
		return leakDoc(fmt.Sprintf("socket: %q, secret: host", "@"+s.word()+"/"+s.word()), "LAT-SHIM")
	}},
	{"socket-neighbour", func(s *sampler) string {
		return leakDoc(fmt.Sprintf("socket: %q, secret: neighbour", "@"+s.word()), "TEN-SOCKET")
	}},
	{"socket-runtime", func(s *sampler) string {
		return leakDoc(fmt.Sprintf("socket: %s, secret: host", pick(s, "/run/", "/var/run/", "/var/lib/", "/srv/")+s.word()+".sock"), "LAT-SOCKETS")
	}},
	{"segment", func(s *sampler) string {
		return leakDoc(fmt.Sprintf("segment: %d, secret: neighbour", 1+s.IntN(1<<30)), "TEN-SYSV")
	}},
	{"queue", func(s *sampler) string {
		return doc("leak", "queue: "+s.word()+", secret: neighbour", "driver: runc-bare", caught("TEN-QUEUE"))
	}},
	{"key", func(s *sampler) string {
		return doc("leak", "key: "+s.word()+", secret: neighbour", "driver: runc-bare", caught("TEN-KEYRING"))
	}},
	{"mount-host", func(s *sampler) string {
		return doc("mount", fmt.Sprintf("target: %s, of: host, file: %s, read-only: %t", s.path(), s.word(), s.IntN(2) == 0), caught("ENV-MOUNTS"))
	}},
	{"mount-neighbour", func(s *sampler) string {
		return doc("mount", fmt.Sprintf("target: %s, of: neighbour, file: %s/%s", s.path(), s.word(), s.word()), caught("TEN-FILES"))
	}},
	{"image-file", func(s *sampler) string { return doc("image", "file: "+s.path(), caught("ENV-FILES")) }},
	{"image-environment", func(s *sampler) string {
		return doc("image", fmt.Sprintf("environment: %s, text: %q", s.variable(), "{}"), caught("TOK-ENV", "ENV-IMAGE"))
	}},
	{"image-label", func(s *sampler) string { return doc("image", "label: "+s.word()+"."+s.word(), caught("ENV-IMAGE")) }},
	{"capability", func(s *sampler) string {
		return doc("driver", "capabilities: ["+pick(s, "CAP_SYS_ADMIN", "CAP_SYS_TIME", "CAP_SYSLOG", "CAP_DAC_READ_SEARCH", "CAP_SYS_RAWIO", "CAP_NET_ADMIN", "CAP_BPF", "CAP_PERFMON", "CAP_SYS_BOOT", "CAP_AUDIT_CONTROL")+"]",
			"driver: "+pick(s, "runc", "runc-bare"), caught("ENV-CAPABILITIES"))
	}},
	{"calls", func(s *sampler) string {
		return doc("driver", "allowCalls: ["+pick(s, "bpf", "userfaultfd", "perf_event_open", "open_by_handle_at", "keyctl", "io_uring_setup")+"]", "driver: runc", caught("ENV-SECCOMP"))
	}},
	{"unmasked", func(s *sampler) string {
		return doc("driver", "unmasked: ["+pick(s, "/proc/kcore", "/proc/keys", "/proc/timer_list", "/proc/sched_debug", "/sys/firmware", "/proc/interrupts")+"]", "driver: runc", caught("ENV-MASKED"))
	}},
	{"identity", func(s *sampler) string {
		return doc("tenant", "believe-header: X-"+strings.ToUpper(s.word()[:1])+s.word()+"-"+s.word(), caught("TEN-IDENTITY"))
	}},
	{"policy-host", func(s *sampler) string {
		return doc("policy", fmt.Sprintf("add: {allow: [{host: %s.%s.example%s}]}", s.word(), s.word(), pick(s, "", fmt.Sprintf(", ports: [%d]", s.port()))), caught("NET-STRANGERS"))
	}},
	{"policy-wildcard", func(s *sampler) string {
		return doc("policy", fmt.Sprintf("add: {allow: [{host: \"*.%s.example\"}]}", s.word()), caught("NET-STRANGERS"))
	}},
	{"policy-range", func(s *sampler) string {
		cidr, id := s.private()
		return doc("policy", fmt.Sprintf("add: {allow: [{cidr: %q}]}", cidr), caught(id, "NET-STRANGERS"))
	}},
	{"admin-page", func(s *sampler) string { return proxyDoc("adminPage: /"+s.word()+"/"+s.word(), "TOK-PROXY-ADMIN") }},
	{"open-range", func(s *sampler) string {
		cidr, _ := s.private()
		return proxyDoc(fmt.Sprintf("openRange: %q", cidr), "LAT-RANGES")
	}},
	{"unpoliced-port", func(s *sampler) string { return proxyDoc(fmt.Sprintf("unpolicedPort: %d", s.port()), "NET-STRANGERS") }},
	{"unpoliced-listener", func(s *sampler) string {
		return proxyDoc("unpolicedListener: "+pick(s, "explicit", "socks", "transparent"), "NET-HTTP", "NET-HTTPS")
	}},
	{"encoding", func(s *sampler) string {
		return proxyDoc("skipEncoding: "+pick(s, "json", "html", "raw", "hex", "percent"), "TOK-ECHO", "TOK-ECHO-HEX", "TOK-ECHO-PERCENT")
	}},
	{"proxy-switch", oneSwitch}, {"proxy-other", oneSwitch}, {"proxy-third", oneSwitch}, // it has the most to get wrong
	{"filter-ipv6", func(s *sampler) string { return doc("filter-skip-ipv6", "", caught("NET-IPV6", "LAT-ULA")) }},
	{"filter-silent", func(s *sampler) string {
		return doc("filter-drop", "", caught("NET-RELAY", "NET-FASTOPEN"), "expect: nothing-blocked")
	}},
	{"filter-changed", func(s *sampler) string {
		cidr, id := s.private()
		return doc("filter-changed", fmt.Sprintf("after: %d, cidr: %q, proto: %s", 50+s.IntN(400), cidr, pick(s, "tcp", "udp")), caught(id, "NET-TCP"), "expect: nothing-blocked")
	}},
	{"network-dead", func(s *sampler) string {
		return doc("network-dead", "", caught(pick(s, "NET-TCP", "LAT-172", "IMD-AWS-V1"), "NET-HTTP"), "expect: nothing-blocked")
	}},
	{"weakness", func(s *sampler) string {
		w := pick(s, [2]string{"selective", "NET-HOSTS-EDIT"}, [2]string{"orchestrator", "TOK-PLATFORM-API"}, [2]string{"orchestrator", "TEN-BUILD-CACHE"})
		return doc("weakness", "", "policy: "+w[0], caught(w[1]))
	}},
	{"segment", func(s *sampler) string {
		w := pick(s, [3]string{"neighbour", "runc", "TEN-ARP"}, [3]string{"world", "runc", "LAT-ARP"}, [3]string{"world", pick(s, "gvisor", "runc", "runc-bare"), "LAT-NDP"})
		return doc("segment", "with: "+w[0], "driver: "+w[1], caught(w[2]))
	}},
	{"groups", func(s *sampler) string {
		return doc("groups", "", "driver: "+pick(s, "gvisor", "runc"), caught("LAT-MULTICAST"))
	}},
	{"over", func(s *sampler) string {
		w := pick(s, [2]string{"/dev/null", "ENV-NULL-DEVICE"}, [2]string{"/dev/console", "ENV-CONSOLE"}, [2]string{"/proc/sys/kernel/domainname", "ENV-PROC-WRITES"}, [2]string{"/proc/self/oom_score_adj", "ENV-PROC-WRITES"})
		return doc("over", "path: "+w[0], caught(w[1]))
	}},
	{"tools", func(s *sampler) string {
		return doc("tools-writable", "", "driver: "+pick(s, "gvisor", "runc", "runc-bare"), caught("ENV-RUNTIME-PROGRAM"))
	}},
	{"unredacted", func(s *sampler) string {
		return doc("unredacted", "what: "+pick(s, "transcripts", "observations"), caught(pick(s, "INJ-COMMENT", "INJ-HOMOGLYPH")), "expect: refused")
	}},
	{"random", func(s *sampler) string {
		return doc("random", "path: "+pick(s, "/dev/urandom", "/dev/random"), caught("SNP-RANDOM"))
	}},
	{"namespace", func(s *sampler) string {
		w := pick(s, [2]string{"pid", "TEN-PROCESS"}, [2]string{"pid", "TEN-SIGNAL"}, [2]string{"pid", "TEN-PTRACE"}, [2]string{"pid", "TEN-VM-READ"}, [2]string{"pid", "TEN-PIDFD"}, [2]string{"pid, uts", "TEN-MEMORY"},
			[2]string{"ipc", "TEN-SYSV"}, [2]string{"ipc", "TEN-QUEUE"}, [2]string{"ipc, pid", "TEN-ROOT"})
		return doc("namespace", "share: ["+w[0]+"]", "driver: runc-bare", caught(w[1]))
	}},
	{"tenant-placeholder", func(s *sampler) string { return doc("tenant", "accept-placeholder: true", caught("TEN-PLACEHOLDER")) }},
	{"tenant-authority", func(s *sampler) string {
		return doc("tenant", "believe-authority: true", "driver: "+pick(s, "gvisor", "runc", "runc-bare"), caught("TEN-CA"))
	}},
	{"memory", func(s *sampler) string {
		w := pick(s, [3]string{"host", "work", "ENV-MEMORY"}, [3]string{"neighbour", "work", "TEN-MEMORY"}, [3]string{"prior", "restored", "SNP-MEMORY"}, [3]string{"prior", "restored", "SNP-AT-REST"})
		return leakDoc(fmt.Sprintf("memory: true, secret: %s, sandbox: %s, text: %q", w[0], w[1], pick(s, "{}", "xx{}", "a=1\nb={}\n")), w[2])
	}},
	{"pipe", func(s *sampler) string {
		return leakDoc("pipe: true, secret: prior, sandbox: "+pick(s, "fresh", "restored"), "SNP-PIPE")
	}},
	{"set-user-id", func(s *sampler) string {
		return leakDoc(fmt.Sprintf("file: %s, mode: %d, secret: prior, sandbox: %s", s.path(), pick(s, 0o4755, 0o2755, 0o6711), pick(s, "fresh", "restored")), "SNP-ARCHIVE")
	}},
	{"agent-file", func(s *sampler) string {
		return doc("leak", "file: /workspace/.env, secret: git, text: "+pick(s, `"GITHUB_TOKEN={}\n"`, `"{}"`)+", sandbox: agent", "policy: denylist", caught(pick(s, "INJ-BASE64", "INJ-AUTHORITY")))
	}},
	{"agent-environment", func(s *sampler) string {
		return doc("environment-leak", "variable: GITHUB_TOKEN, secret: git, sandbox: agent", "policy: denylist",
			caught(pick(s, "INJ-README", "INJ-LANGUAGE", "INJ-ZERO-WIDTH", "INJ-PACKAGE", "INJ-IMAGE", "INJ-IMAGE-LABEL", "INJ-COMMIT", "INJ-FILE-NAME", "INJ-CRON", "INJ-TOOL-SCHEMA")))
	}},
	{"image-history", func(s *sampler) string {
		return doc("image", fmt.Sprintf("history: true, text: %q", "RUN "+s.word()+" --"+s.word()+"={}"), caught(pick(s, "ENV-IMAGE", "SNP-IMAGE")))
	}},
	{"image-lower", func(s *sampler) string {
		return doc("image", "lower-file: "+s.path()+pick(s, "", ", shape: "+s.shape()), "driver: "+pick(s, "gvisor", "runc"), caught("ENV-LAYERS"))
	}},
	{"isolation", func(s *sampler) string {
		w := pick(s, [3]string{"noSeccomp: true", "runc", "ENV-SECCOMP"}, [3]string{"newPrivileges: true", "runc", "ENV-NEW-PRIVS"}, [3]string{"newPrivileges: true", "gvisor", "ENV-NEW-PRIVS"}, [3]string{"noUserNamespace: true", "runc", "ENV-HOST-ROOT"},
			[3]string{"makeDevices: true", "runc-bare", "ENV-MKNOD"}, [3]string{"devices: [/dev/" + pick(s, "kmsg", "mem", "vda") + "]", "runc-bare", "ENV-DEVICE-NODES"}, [3]string{"hostNamespaces: [pid]", "runc-bare", "ENV-ENVIRON"},
			[3]string{"writable: [/proc/sys]", "runc-bare", "ENV-CORE-PATTERN"}, [3]string{"flags: [--net-raw]", "gvisor", "ENV-CAPABILITIES"})
		return doc("driver", w[0], "driver: "+w[1], caught(w[2]))
	}},
	{"policy-method", func(s *sampler) string {
		return doc("policy", fmt.Sprintf("add: {allow: [{host: pages.wallproof-demo.example, methods: [%s]}]}", pick(s, "POST", "PUT", "DELETE", "PATCH")), caught("NET-STRANGERS", "NET-METHOD"))
	}},
	{"policy-mode", func(s *sampler) string {
		return doc("policy", "set: {mode: "+pick(s, "public", "denylist")+"}, remove: [allow]", caught("NET-HTTPS", "NET-STRANGERS"))
	}},
	{"descriptor", func(s *sampler) string {
		return doc("descriptor", "of: "+pick(s, "file", "folder"), "driver: "+pick(s, "runc", "runc-bare"), caught("ENV-INHERITED"))
	}},
}
