//go:build breaks

package breaks

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
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

// extraordinary are the capabilities that no ordinary program inside needs.
const extraordinary = `CAP_DAC_READ_SEARCH CAP_LINUX_IMMUTABLE CAP_NET_BROADCAST CAP_NET_ADMIN CAP_NET_RAW CAP_IPC_LOCK CAP_IPC_OWNER CAP_SYS_MODULE CAP_SYS_RAWIO CAP_SYS_CHROOT
CAP_SYS_PTRACE CAP_SYS_PACCT CAP_SYS_ADMIN CAP_SYS_BOOT CAP_SYS_NICE CAP_SYS_RESOURCE CAP_SYS_TIME CAP_SYS_TTY_CONFIG CAP_MKNOD CAP_LEASE CAP_AUDIT_WRITE CAP_AUDIT_CONTROL CAP_SETFCAP
CAP_MAC_OVERRIDE CAP_MAC_ADMIN CAP_SYSLOG CAP_WAKE_ALARM CAP_BLOCK_SUSPEND CAP_AUDIT_READ CAP_PERFMON CAP_BPF CAP_CHECKPOINT_RESTORE`

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

// public is an ordinary address of the internet, and a prefix around it, from a whole
// first octet to one machine.
func (s *sampler) public() string {
	first := 1 + s.IntN(223)
	for slices.Contains([]int{10, 100, 127, 169, 172, 192, 198, 203}, first) {
		first = 1 + s.IntN(223)
	}
	if s.IntN(4) == 0 { // beside the ranges that are not public
		return fmt.Sprintf("%s.%d.%d/%d", pick(s, "100.1", "100.128", "172.15", "172.32", "192.167", "192.169", "198.17", "198.20", "203.1", "169.253", "169.255", "11.0", "9.255"), s.IntN(256), s.IntN(256), 17+s.IntN(16))
	}
	return fmt.Sprintf("%d.%d.%d.%d/%d", first, s.IntN(256), s.IntN(256), s.IntN(256), 8+s.IntN(25))
}

func (s *sampler) public6() string {
	return fmt.Sprintf("%s:%x:%x::%x/%d", pick(s, "2600", "2a00", "2c0f", "2403", "2801", "2a0e", "2001", "2003", "2610", "2a10", "3000", "3fff"), 1+s.IntN(0xfffe), 1+s.IntN(0xfffe), s.IntN(0xffff), 8+s.IntN(121))
}

// ports are one port, one range, or several of both.
func (s *sampler) ports() string {
	one := func() string {
		first := s.port()
		return pick(s, fmt.Sprintf("{first: %d}", first), fmt.Sprintf("{first: %d, last: %d}", first, min(65535, first+s.IntN(2000))))
	}
	out := one()
	for range s.IntN(3) {
		out += ", " + one()
	}
	return ", ports: [" + out + "]"
}

// proto is a protocol with ports, or without.
func (s *sampler) proto() string {
	return pick(s, "", ", proto: tcp", ", proto: udp", ", proto: tcp"+s.ports(), ", proto: udp"+s.ports())
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
	host := 1 + s.IntN(254)
	switch s.IntN(7) {
	case 0:
		return fmt.Sprintf("10.%d.%d.%d/%d", s.IntN(256), s.IntN(256), host, 8+s.IntN(25)), "LAT-10"
	case 1:
		return fmt.Sprintf("172.%d.%d.%d/%d", 16+s.IntN(16), s.IntN(256), host, 12+s.IntN(21)), "LAT-172"
	case 2:
		return fmt.Sprintf("192.168.%d.%d/%d", s.IntN(256), host, 16+s.IntN(17)), "LAT-192"
	case 3:
		return fmt.Sprintf("100.%d.%d.%d/%d", 64+s.IntN(64), s.IntN(256), host, 10+s.IntN(23)), "LAT-CGNAT"
	case 4:
		return fmt.Sprintf("198.%d.%d.%d/%d", 18+s.IntN(2), s.IntN(256), host, 15+s.IntN(18)), "LAT-BENCH"
	case 5:
		return fmt.Sprintf("169.254.%d.%d/%d", s.IntN(256), host, 16+s.IntN(17)), "LAT-LINKLOCAL"
	}
	return fmt.Sprintf("%s%02x:%x::%x/%d", pick(s, "fc", "fd"), s.IntN(256), 1+s.IntN(0xfffe), host, 7+s.IntN(122)), "LAT-ULA"
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
	{"filter-by-protocol", func(s *sampler) string { // the protocol's own technique has to notice, wherever it leads
		w := pick(s, [3]string{"4", "tcp", "NET-TCP"}, [3]string{"4", "udp", "NET-UDP"}, [3]string{"4", "icmp", "NET-ICMP"}, [3]string{"6", "tcp", "NET-IPV6"}, [3]string{"6", "udp", "NET-IPV6"},
			[3]string{"6", "icmpv6", "NET-ICMP"}, [3]string{"6", "tcp", "NET-TCP"}, [3]string{"6", "udp", "NET-UDP"})
		cidr := s.public()
		if w[0] == "6" {
			cidr = s.public6()
		}
		ports := ""
		if w[1] == "tcp" || w[1] == "udp" {
			ports = pick(s, "", s.ports())
		}
		return doc("filter-accept", fmt.Sprintf("cidr: %q, proto: %s%s", cidr, w[1], ports), caught(w[2]))
	}},
	{"filter-private-icmp", func(s *sampler) string {
		cidr, _ := s.private()
		proto := "icmp"
		if strings.Contains(cidr, ":") {
			proto = "icmpv6"
		}
		return doc("filter-accept", fmt.Sprintf("cidr: %q, proto: %s", cidr, proto), caught("NET-FILTER"))
	}},
	{"filter-special", func(s *sampler) string { // neither public nor anybody's
		cidr := pick(s, "192.0.0.0/29", fmt.Sprintf("198.51.100.%d/32", 1+s.IntN(254)), "203.0.113.64/26", "192.88.99.1/32", "64:ff9b::/96", "2002::/16",
			fmt.Sprintf("2001:db8:%x::/48", 0x100+s.IntN(0xf00)), "100::/64")
		return doc("filter-accept", fmt.Sprintf("cidr: %q", cidr)+s.proto(), caught("NET-FILTER"))
	}},
	{"filter-private-udp", func(s *sampler) string {
		cidr, _ := s.private()
		return doc("filter-accept", fmt.Sprintf("cidr: %q, proto: udp", cidr)+pick(s, "", s.ports()), caught("LAT-UDP"))
	}},
	{"filter-everything", func(s *sampler) string {
		w := pick(s, [2]string{"0.0.0.0/0", ""}, [2]string{"::/0", ""}, [2]string{"0.0.0.0/1", ", proto: tcp" + s.ports()}, [2]string{"128.0.0.0/2", ", proto: udp" + s.ports()}, [2]string{"2000::/3", ", proto: tcp" + s.ports()},
			[2]string{"2000::/3", ", proto: icmpv6"}, [2]string{"0.0.0.0/0", ", proto: icmp"})
		return doc("filter-accept", fmt.Sprintf("cidr: %q%s", w[0], w[1]), caught("NET-FILTER"))
	}},
	{"filter-service", func(s *sampler) string { // what a service is known by
		w := pick(s, [2]string{"tcp, ports: [{first: 853}]", "NET-DOT"}, [2]string{"udp, ports: [{first: 53}]", "NET-DNS-UDP"}, [2]string{"tcp, ports: [{first: 53}]", "NET-DNS-TCP"}, [2]string{"udp, ports: [{first: 443}]", "NET-QUIC"},
			[2]string{"udp, ports: [{first: 123}]", "NET-NTP"}, [2]string{"tcp, ports: [{first: 22}]", "NET-SSH"}, [2]string{"tcp, ports: [{first: 587}]", "NET-SMTP"}, [2]string{"tcp, ports: [{first: 21}]", "NET-FTP"})
		return doc("filter-accept", fmt.Sprintf("cidr: %s, proto: %s", pick(s, "0.0.0.0/0", "0.0.0.0/1"), w[0]), caught(w[1]))
	}},
	{"filter-private-service", func(s *sampler) string {
		w := pick(s, [2]string{"2376", "LAT-DOCKER"}, [2]string{"10250", "LAT-KUBELET"}, [2]string{"10255", "LAT-KUBELET"}, [2]string{"6443", "LAT-APISERVER"}, [2]string{"2380", "LAT-ETCD"}, [2]string{"5432", "LAT-DATABASES"},
			[2]string{"6379", "LAT-DATABASES"}, [2]string{"22", "LAT-ADMIN"}, [2]string{"3389", "LAT-ADMIN"})
		return doc("filter-accept", fmt.Sprintf("cidr: 10.0.0.0/8, proto: tcp, ports: [{first: %s}]", w[0]), caught(w[1]))
	}},
	{"filter-metadata", func(s *sampler) string {
		w := pick(s, [2]string{"169.254.169.254/32", "IMD-AWS-V1"}, [2]string{"169.254.169.254/32", "IMD-AWS-V2"}, [2]string{"169.254.169.254/31", "IMD-GCP"}, [2]string{"169.254.169.254/32", "IMD-AZURE"}, [2]string{"169.254.169.254/32", "IMD-OPENSTACK"},
			[2]string{"169.254.169.254/32", "IMD-DIGITALOCEAN"}, [2]string{"169.254.169.254/32", "IMD-ORACLE"}, [2]string{"169.254.170.2/32", "IMD-ECS"}, [2]string{"169.254.170.23/32", "IMD-EKS"}, [2]string{"fd00:ec2::23/128", "IMD-EKS"},
			[2]string{"fd00:ec2::254/128", "IMD-AWS-V2"}, [2]string{"fd20:ce::254/128", "IMD-GCP"}, [2]string{"168.63.129.16/32", "IMD-AZURE-WIRE"}, [2]string{"100.100.100.200/32", "IMD-ALIBABA"}, [2]string{"100.96.0.96/32", "IMD-VOLCENGINE"},
			[2]string{"169.254.0.23/32", "IMD-TENCENT"}, [2]string{"169.254.169.0/24", "IMD-SCAN"}, [2]string{"100.100.100.0/24", "IMD-SCAN"})
		return doc("filter-accept", fmt.Sprintf("cidr: %q%s", w[0], pick(s, "", ", proto: tcp", ", proto: tcp, ports: [{first: 80}]")), caught(w[1]))
	}},
	{"filter-metadata-resolver", func(s *sampler) string {
		return doc("filter-accept", "cidr: 169.254.169.253/32, proto: udp"+pick(s, "", ", ports: [{first: 53}]"), caught("IMD-RESOLVER"))
	}},
	{"filter-neighbour", func(s *sampler) string {
		w := pick(s, [3]string{"192.0.2.6/32", "tcp", "TEN-TCP"}, [3]string{"192.0.2.4/30", "udp", "TEN-UDP"}, [3]string{"2001:db8:0:1::2/128", "tcp", "TEN-TCP"}, [3]string{"2001:db8:0:1::/64", "udp", "TEN-UDP"}, [3]string{"192.0.2.0/28", "tcp", "TEN-TCP"})
		return doc("filter-accept", fmt.Sprintf("cidr: %q, proto: %s", w[0], w[1])+pick(s, "", ", ports: [{first: 7777}]", ", ports: [{first: 7000, last: 8000}]"), caught(w[2]))
	}},
	{"filter-input6", func(s *sampler) string {
		return doc("filter-accept", fmt.Sprintf("chain: input, cidr: %q, proto: tcp", pick(s, "2001:db8:0:1::1/128", "2001:db8:0:1::/64", "2001:db8::/46"))+pick(s, "", ", ports: [{first: 3128}]", ", ports: [{first: 1080}]"), caught("TEN-PROXY"))
	}},
	{"filter-input", func(s *sampler) string {
		return doc("filter-accept", "chain: input, cidr: "+pick(s, "192.0.2.4/30", "192.0.2.5/32", "192.0.2.0/27")+
			pick(s, "", ", proto: tcp", ", proto: tcp, ports: [{first: 1080}]", ", proto: tcp, ports: [{first: 3000, last: 3200}]"), caught("TEN-PROXY"))
	}},
	{"filter-late", func(s *sampler) string {
		return doc("filter-late", fmt.Sprintf("milliseconds: %d", pick(s, 1, 1+s.IntN(1000), 1000+s.IntN(600000))), caught("NET-TCP"))
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
	{"file-of-a-tool", func(s *sampler) string {
		home := pick(s, "/root", "/home/"+s.word())
		w := pick(s, [2]string{".docker/config.json", "TOK-FILES"}, [2]string{".aws/credentials", "TOK-FILES"}, [2]string{".kube/config", "TOK-FILES"}, [2]string{".config/gcloud/credentials.db", "TOK-FILES"}, [2]string{".cargo/credentials.toml", "TOK-FILES"},
			[2]string{".ssh/id_ed25519", "TOK-FILES"}, [2]string{".ssh/" + s.word(), "TOK-FILES"}, [2]string{".pypirc", "TOK-FILES"}, [2]string{".yarnrc.yml", "TOK-FILES"}, [2]string{".config/rclone/rclone.conf", "TOK-FILES"}, [2]string{".condarc", "TOK-FILES"},
			[2]string{".s3cfg", "TOK-FILES"}, [2]string{".config/" + s.word() + "/" + s.word() + ".json", "TOK-FILES"}, [2]string{"." + s.word() + "rc", "TOK-FILES"}, [2]string{"." + s.word() + "/token", "TOK-FILES"},
			[2]string{".netrc", "TOK-NETRC"}, [2]string{".pgpass", "TOK-NETRC"}, [2]string{".curlrc", "TOK-NETRC"}, [2]string{".bash_history", "TOK-HISTORY"}, [2]string{".mysql_history", "TOK-HISTORY"}, [2]string{"." + s.word() + "_history", "TOK-HISTORY"},
			[2]string{".gitconfig", "TOK-GIT"}, [2]string{s.word() + "/.git/config", "TOK-GIT"}, [2]string{".git-credentials", "TOK-GIT"}, [2]string{s.word() + ".log", "TOK-LOG"})
		return leakDoc(fmt.Sprintf("file: %s/%s, secret: %s, text: %q", home, w[0], pick(s, "API_TOKEN", "SEARCH_KEY", "git"), pick(s, "{}\n", "token = \"{}\"\n", `{"auths":{"r.example":{"auth":"{}"}}}`)), w[1])
	}},
	{"file-of-a-system", func(s *sampler) string {
		w := pick(s, [2]string{"/etc/shadow", "ENV-SYSTEM"}, [2]string{"/etc/ssl/private/" + s.word() + ".key", "ENV-SYSTEM"}, [2]string{"/etc/kubernetes/pki/" + s.word() + ".key", "ENV-SYSTEM"}, [2]string{"/var/lib/kubelet/pki/" + s.word() + ".pem", "ENV-SYSTEM"},
			[2]string{"/etc/profile.d/" + s.word() + ".sh", "ENV-PROFILE"}, [2]string{"/etc/default/" + s.word(), "ENV-PROFILE"}, [2]string{"/root/.bashrc", "ENV-PROFILE"}, [2]string{"/etc/systemd/system/" + s.word() + ".service", "ENV-PROFILE"},
			[2]string{"/var/lib/cloud/instances/" + s.word() + "/user-data.txt", "ENV-CLOUD-INIT"}, [2]string{"/var/lib/waagent/" + s.word() + ".xml", "ENV-CLOUD-INIT"}, [2]string{"/run/cloud-init/" + s.word() + ".json", "ENV-CLOUD-INIT"},
			[2]string{"/opt/" + s.word() + "/" + s.word() + ".yml", "ENV-APP"}, [2]string{"/srv/" + s.word() + "/" + s.word() + ".env", "ENV-APP"}, [2]string{"/var/log/" + s.word() + "/" + s.word() + ".log", "ENV-LOGS"}, [2]string{"/var/log/" + s.word() + ".log", "ENV-LOGS"},
			[2]string{"/etc/cron.d/" + s.word(), "ENV-JOBS"}, [2]string{"/var/spool/cron/crontabs/" + s.word(), "ENV-JOBS"}, [2]string{"/var/mail/" + s.word(), "ENV-JOBS"}, [2]string{"/run/" + s.word() + "/" + s.word(), "ENV-RUN"}, [2]string{"/run/" + s.word() + ".conf", "ENV-RUN"},
			[2]string{"/var/backups/" + s.word() + ".bak", "ENV-BACKUPS"}, [2]string{"/etc/" + s.word() + ".conf.bak", "ENV-BACKUPS"}, [2]string{"/home/" + s.word() + "/" + s.word() + ".sql", "ENV-BACKUPS"}, [2]string{"/srv/" + s.word() + "/" + s.word() + ".tar.gz", "ENV-BACKUPS"},
			[2]string{"/run/secrets/" + s.word(), "ENV-SERVICE-ACCOUNT"}, [2]string{"/var/run/secrets/" + s.word() + "/" + s.word() + "/token", "ENV-SERVICE-ACCOUNT"})
		return leakDoc(fmt.Sprintf("file: %s, secret: host, text: %q", w[0], pick(s, "{}\n", "password: {}\n", "export K={}\n")), w[1])
	}},
	{"file-of-a-prior-run", func(s *sampler) string {
		w := pick(s, [2]string{"/root/" + s.word(), "SNP-FILE"}, [2]string{"/home/" + s.word() + "/" + s.word(), "SNP-FILE"}, [2]string{"/etc/" + s.word(), "SNP-FILE"}, [2]string{"/tmp/" + s.word(), "SNP-TMPFS"}, [2]string{"/dev/shm/" + s.word(), "SNP-TMPFS"},
			[2]string{"/run/" + s.word() + "/" + s.word(), "SNP-TMPFS"}, [2]string{"/usr/local/" + s.word() + "/" + s.word(), "SNP-LAYER"}, [2]string{"/opt/" + s.word(), "SNP-LAYER"}, [2]string{"/app/" + s.word(), "SNP-LAYER"}, [2]string{"/var/crash/" + s.word(), "SNP-CORE"},
			[2]string{"/core." + fmt.Sprint(s.IntN(9999)), "SNP-CORE"}, [2]string{"/var/lib/systemd/coredump/core." + s.word(), "SNP-CORE"}, [2]string{"/checkpoint/" + s.word(), "SNP-CHECKPOINT"}, [2]string{"/" + s.word() + ".img", "SNP-CHECKPOINT"},
			[2]string{"/root/.bash_history", "SNP-HISTORY"}, [2]string{"/home/" + s.word() + "/." + s.word() + ".swp", "SNP-HISTORY"}, [2]string{"/" + s.word() + ".swap", "SNP-SWAP"}, [2]string{"/swapfile", "SNP-SWAP"})
		return leakDoc("file: "+w[0]+", secret: prior, sandbox: "+pick(s, "fresh", "restored"), w[1])
	}},
	{"left-by-a-prior-run", func(s *sampler) string {
		w := pick(s, [2]string{"deleted-file: " + s.path(), "SNP-DELETED"}, [2]string{"process: " + s.word() + ", arguments: [\"--k={}\"]", "SNP-ENVIRON"}, [2]string{"process: " + s.word() + ", environment: [\"" + s.variable() + "={}\"]", "SNP-ENVIRON"},
			[2]string{"socket: \"@" + s.word() + "\"", "SNP-SOCKET"}, [2]string{"socket: /run/" + s.word() + ".sock", "SNP-SOCKET"}, [2]string{fmt.Sprintf("segment: %d", 1+s.IntN(1<<30)), "SNP-SHM"}, [2]string{"memory: true", "SNP-MEMORY"})
		return leakDoc(w[0]+", secret: prior, sandbox: "+pick(s, "fresh", "restored"), w[1])
	}},
	{"environment-of-a-prior-run", func(s *sampler) string {
		return doc("environment-leak", "variable: "+s.variable()+", secret: prior, sandbox: fresh", caught("SNP-ENVIRON"))
	}},
	{"left-by-a-neighbour", func(s *sampler) string {
		w := pick(s, [2]string{"deleted-file: " + s.path(), "TEN-DESCRIPTORS"}, [2]string{"process: " + s.word() + ", arguments: [\"{}\"]", "TEN-PROCESS"}, [2]string{"process: " + s.word() + ", environment: [\"" + s.variable() + "={}\"]", "TEN-PROCESS"},
			[2]string{"file: /tmp/" + s.word() + "/" + s.word(), "TEN-TMP"}, [2]string{"file: /var/tmp/" + s.word(), "TEN-TMP"}, [2]string{"file: /dev/shm/" + s.word(), "TEN-SHM"}, [2]string{"file: /var/cache/" + s.word() + "/" + s.word(), "TEN-CACHE"},
			[2]string{"file: /root/.cache/" + s.word() + "/" + s.word(), "TEN-CACHE"}, [2]string{"file: /home/" + s.word() + "/" + s.word(), "TEN-STALE"}, [2]string{"file: /root/" + s.word(), "TEN-STALE"}, [2]string{"file: /run/" + s.word(), "TEN-STALE"})
		return leakDoc(w[0]+", secret: neighbour", w[1])
	}},
	{"own-in-sight", func(s *sampler) string {
		w := pick(s, [2]string{"process: " + s.word() + ", arguments: [\"-H\", \"Authorization: {}\"]", "TOK-PROCESS"}, [2]string{"process: " + s.word() + "-proxy, environment: [\"" + s.variable() + "={}\"]", "TOK-PROXY-PROCESS"},
			[2]string{"process: mitmdump, environment: [\"K={}\"]", "TOK-PROXY-PROCESS"}, [2]string{"memory: true", "ENV-MEMORY"}, [2]string{fmt.Sprintf("segment: %d", 1+s.IntN(1<<30)), "TEN-SYSV"})
		return leakDoc(w[0]+", secret: "+pick(s, "API_TOKEN", "SEARCH_KEY", "git"), w[1])
	}},
	{"agent-of-keys", func(s *sampler) string {
		return leakDoc(fmt.Sprintf("socket: %s, secret: host", pick(s, "/tmp/ssh-"+s.word()+"/agent."+fmt.Sprint(s.IntN(9999)), "/root/.gnupg/S.gpg-agent", "/run/user/0/keyring/ssh", "/run/user/1000/gnupg/S.gpg-agent.ssh")), "ENV-AGENT")
	}},
	{"mount-elsewhere", func(s *sampler) string {
		return doc("mount", fmt.Sprintf("target: %s, of: %s, file: %s, sandbox: fresh", s.path(), pick(s, "host", "neighbour"), s.word()), caught("SNP-EVERY-FILE"))
	}},
	{"file-neighbour", func(s *sampler) string { return leakDoc("file: "+s.path()+", secret: neighbour", "TEN-FILES") }},
	{"file-prior", func(s *sampler) string {
		return leakDoc("file: "+s.path()+", secret: prior, sandbox: "+pick(s, "fresh", "restored"), "SNP-EVERY-FILE")
	}},
	{"file-oddly-named", func(s *sampler) string {
		name := pick(s, s.word()+" "+s.word(), "-"+s.word(), s.word()+"\\x", "'"+s.word()+"'", "\u00fc"+s.word(), strings.ToUpper(s.word())+".TXT", "..."+s.word(), strings.Repeat(s.word(), 20))
		return leakDoc(fmt.Sprintf("file: %q, secret: host, mode: %d", pick(s, "/opt/", "/", "/usr/lib/", "/var/lib/x/y/z/", "/boot/", "/lib/")+name, pick(s, 0o400, 0o600, 0o444, 0o100, 0o777)), "ENV-FILES")
	}},
	{"host-namespaces", func(s *sampler) string {
		w := pick(s, [2]string{"pid", "ENV-ENVIRON"}, [2]string{"pid", "ENV-TASKS"}, [2]string{"pid", "ENV-ROOT"}, [2]string{"pid, uts", "ENV-CMDLINE"}, [2]string{"ipc", "TEN-SYSV"}, [2]string{"cgroup, ipc", "TEN-SYSV"})
		return doc("driver", "hostNamespaces: ["+w[0]+"]", "driver: runc-bare", caught(w[1]))
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
		one := pick(s, strings.Fields(extraordinary)...)
		if s.IntN(3) == 0 {
			one += ", " + pick(s, strings.Fields(extraordinary)...)
		}
		return doc("driver", "capabilities: ["+one+"]", "driver: "+pick(s, "runc", "runc-bare", "gvisor"), caught("ENV-CAPABILITIES"))
	}},
	{"own-link", func(s *sampler) string {
		return doc("driver", "capabilities: [CAP_NET_ADMIN]", "driver: "+pick(s, "runc-bare", "gvisor"), caught("LAT-OWN-LINK")) // on runc the network is not of its user namespace
	}},
	{"calls", func(s *sampler) string {
		return doc("driver", "allowCalls: ["+pick(s, "bpf", "userfaultfd", "perf_event_open", "open_by_handle_at", "name_to_handle_at", "keyctl", "add_key", "request_key", "io_uring_setup", "mount", "umount2", "open_tree", "setns", "unshare", "quotactl", "fanotify_init", "kcmp", "move_pages", "migrate_pages", "mbind", "personality", "syslog", "swapon", "settimeofday", "clock_settime", "iopl", "ioperm",
			"mount_setattr", "uselib", "ustat", "clone3", "clone", "socket", "fsconfig", "fanotify_mark", "pidfd_getfd", "process_madvise", "io_uring_enter", "io_uring_register")+"]", "driver: runc", caught("ENV-SECCOMP"))
	}},
	{"unmasked", func(s *sampler) string {
		return doc("driver", "unmasked: ["+pick(s, "/proc/keys", "/proc/key-users", "/proc/kallsyms", "/proc/timer_list", "/sys/firmware", "/proc/interrupts", "all")+"]", "driver: runc", caught("ENV-MASKED"))
	}},
	{"identity", func(s *sampler) string {
		return doc("tenant", "believe-header: "+pick(s, "X-"+strings.ToUpper(s.word()[:1])+s.word()+"-"+s.word(), "Proxy-Authorization", "Forwarded", "Cookie", "User-Agent", "Via"), caught("TEN-IDENTITY"))
	}},
	{"policy-host", func(s *sampler) string {
		return doc("policy", fmt.Sprintf("add: {allow: [{host: %s.%s.example%s}]}", s.word(), s.word(), pick(s, "", fmt.Sprintf(", ports: [%d]", s.port()))), caught("NET-STRANGERS"))
	}},
	{"policy-wildcard", func(s *sampler) string {
		return doc("policy", fmt.Sprintf("add: {allow: [{host: \"*.%s.example\"}]}", s.word()), caught("NET-STRANGERS"))
	}},
	{"policy-public-range", func(s *sampler) string {
		cidr := s.public()
		if s.IntN(3) == 0 {
			cidr = s.public6()
		}
		if p, err := netip.ParsePrefix(cidr); err == nil {
			cidr = p.Masked().String()
		}
		return doc("policy", fmt.Sprintf("add: {allow: [{cidr: %q%s}]}", cidr, pick(s, "", fmt.Sprintf(", ports: [%d]", s.port()))), caught("NET-STRANGERS"))
	}},
	{"policy-metadata", func(s *sampler) string {
		w := pick(s, [2]string{"169.254.169.254/32", "IMD-AWS-V1"}, [2]string{"169.254.169.254/32", "IMD-AZURE"}, [2]string{"100.100.100.200/32", "IMD-ALIBABA"}, [2]string{"168.63.129.16/32", "IMD-AZURE-WIRE"}, [2]string{"169.254.170.2/32", "IMD-ECS"}, [2]string{"fd00:ec2::254/128", "IMD-AWS-V2"})
		return doc("policy", fmt.Sprintf("add: {allow: [{cidr: %q, ports: [80]}]}", w[0]), caught(w[1]))
	}},
	{"policy-injection", func(s *sampler) string { // one of the secrets at one host more
		api, search := "{host: api.wallproof-demo.example, as: bearer}", "{host: search.wallproof-demo.example, as: header, header: X-Api-Key}"
		other := pick(s, "pages.wallproof-demo.example", s.word()+".packages.wallproof-demo.example", "\"*.packages.wallproof-demo.example\"")
		if s.IntN(2) == 0 {
			api += ", {host: " + other + ", as: bearer}"
		} else {
			search += ", {host: " + other + ", as: header, header: X-Api-Key}"
		}
		return doc("policy", "set: {secrets: [{name: API_TOKEN, from: {env: API_TOKEN}, inject: ["+api+"]}, {name: SEARCH_KEY, from: {env: SEARCH_KEY}, inject: ["+search+"]}]}", caught("TOK-CROSS"))
	}},
	{"policy-pushes", func(s *sampler) string {
		w := pick(s, [2]string{"acme/app, push: [\"refs/heads/*\"]", "TOK-LEASE-REF"}, [2]string{"acme/app, push: [\"refs/heads/agent/*\", \"refs/" + pick(s, "tags/*", "heads/"+s.word(), "heads/"+s.word()+"/*", "notes/*") + "\"]", "TOK-LEASE-REF"}, [2]string{"acme/app, push: [\"refs/heads/agent/*\"]}, {name: acme/wallproof-other, push: [\"refs/heads/*\"]", "TOK-LEASE-REPO"})
		return doc("policy", "set: {broker: [{name: forge, host: git.wallproof-demo.example, api: \"https://git.wallproof-demo.example/api/v3\", app: \"4711\", installation: 1, key: {env: FORGE_APP_KEY}, lease: 5m, repositories: [{name: "+w[0]+"}]}]}", caught(w[1]))
	}},
	{"policy-range", func(s *sampler) string {
		cidr, id := s.private()
		return doc("policy", fmt.Sprintf("add: {allow: [{cidr: %q}]}", cidr), caught(id, "NET-STRANGERS"))
	}},
	{"admin-page", func(s *sampler) string { return proxyDoc("adminPage: /"+s.word()+"/"+s.word(), "TOK-PROXY-ADMIN") }},
	{"open-range", func(s *sampler) string {
		cidr, _ := s.private()
		return proxyDoc(fmt.Sprintf("openRange: %q", cidr), pick(s, "LAT-RANGES", "LAT-NAME-RANGES"))
	}},
	{"open-metadata", func(s *sampler) string {
		return proxyDoc(fmt.Sprintf("openRange: %q", pick(s, "169.254.169.254/32", "169.254.0.0/16", "100.96.0.96/32", "168.63.129.16/32", "fd00:ec2::254/128", "169.254.170.2/32", "fd20:ce::254/128")), pick(s, "IMD-NAME-CLOUDS", "IMD-SCAN"))
	}},
	{"unpoliced-port", func(s *sampler) string { return proxyDoc(fmt.Sprintf("unpolicedPort: %d", s.port()), "NET-STRANGERS") }},
	{"unpoliced-listener", func(s *sampler) string {
		return proxyDoc("unpolicedListener: "+pick(s, "explicit", "socks", "transparent"), "NET-HTTP", "NET-HTTPS")
	}},
	{"encoding", func(s *sampler) string {
		return proxyDoc("skipEncoding: "+pick(s, "raw", "hex", "percent"), "TOK-ECHO", "TOK-ECHO-HEX", "TOK-ECHO-PERCENT")
	}},
	{"proxy-switch", oneSwitch}, {"proxy-other", oneSwitch}, {"proxy-third", oneSwitch}, // it has the most to get wrong
	{"filter-ipv6", func(s *sampler) string { return doc("filter-skip-ipv6", "", caught("NET-IPV6", "LAT-ULA")) }},
	{"filter-silent", func(s *sampler) string {
		return doc("filter-drop", "", caught("NET-RELAY", "NET-FASTOPEN"), "expect: nothing-blocked")
	}},
	{"filter-changed", func(s *sampler) string {
		cidr, id := s.private()
		return doc("filter-changed", fmt.Sprintf("after: %d, cidr: %q, proto: %s", pick(s, 0, s.IntN(400), s.IntN(100000)), cidr, pick(s, "tcp", "udp")), caught(id, "NET-TCP"), "expect: nothing-blocked")
	}},
	{"network-dead", func(s *sampler) string {
		return doc("network-dead", "", caught(pick(s, "NET-TCP", "LAT-172", "IMD-AWS-V1"), "NET-HTTP"), "expect: nothing-blocked")
	}},
	{"weakness", func(s *sampler) string {
		w := pick(s, [2]string{"selective", "NET-HOSTS-EDIT"}, [2]string{"orchestrator", "TOK-PLATFORM-API"}, [2]string{"orchestrator", "TEN-BUILD-CACHE"})
		return doc("weakness", "", "policy: "+w[0], caught(w[1]))
	}},
	{"segment", func(s *sampler) string {
		w := pick(s, [3]string{"neighbour", "runc", "TEN-ARP"}, [3]string{"world", "runc", "LAT-ARP"}, [3]string{"world", pick(s, "gvisor", "runc", "runc-bare"), "LAT-NDP"},
			[3]string{"world", pick(s, "gvisor", "runc", "runc-bare"), "LAT-LINKLOCAL"})
		return doc("segment", "with: "+w[0], "driver: "+w[1], caught(w[2]))
	}},
	{"groups", func(s *sampler) string {
		return doc("groups", "", "driver: "+pick(s, "gvisor", "runc"), caught("LAT-MULTICAST"))
	}},
	{"over", func(s *sampler) string {
		w := pick(s, [2]string{"/dev/null", "ENV-NULL-DEVICE"}, [2]string{"/dev/console", "ENV-CONSOLE"}, [2]string{"/proc/sys/kernel/domainname", "ENV-PROC-WRITES"},
			[2]string{"/dev/" + pick(s, "zero", "full", "random", "urandom"), "ENV-NULL-DEVICE"}, [2]string{"/proc/sys/" + pick(s, "net/ipv4/ip_forward", "kernel/hostname", "kernel/shmmax", "kernel/pid_max", "vm/overcommit_memory"), "ENV-PROC-WRITES"})
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
		if s.IntN(2) == 0 { // whatever else the agent holds
			return pick(s, doc("environment-leak", "variable: "+s.variable()+", secret: "+pick(s, "host", "git")+", sandbox: agent", "policy: denylist", caught(pick(s, "INJ-README", "INJ-LANGUAGE"))),
				doc("leak", "file: /root/"+pick(s, ".netrc", ".npmrc", ".aws/credentials", ".ssh/id_ed25519")+", secret: host, sandbox: agent", "policy: denylist", caught("INJ-README", "INJ-LANGUAGE")))
		}
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
			[3]string{"makeDevices: true", "runc-bare", "ENV-MKNOD"}, [3]string{"devices: [/dev/" + pick(s, "kmsg", "vda", "loop0", "loop-control", "ttyS0", "hwrng", "cpu_dma_latency") + "]", pick(s, "runc-bare", "runc"), "ENV-DEVICE-NODES"}, [3]string{"hostNamespaces: [pid]", "runc-bare", "ENV-ENVIRON"},
			[3]string{"writable: [/proc/sys]", "runc-bare", "ENV-CORE-PATTERN"}, [3]string{"capabilities: [CAP_NET_RAW], flags: [--net-raw]", "gvisor", "ENV-CAPABILITIES"}) // the runtime takes the capability away without the flag
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
