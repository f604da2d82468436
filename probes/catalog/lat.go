package catalog

import "slices"

var (
	private4 = []string{DirectV4, AbsoluteV4, ConnectV4, SocksV4}
	private6 = []string{DirectV6, AbsoluteV6, ConnectV6, SocksV6}
	services = []string{DirectV4, DirectV6, ConnectV4, ConnectV6}
)

func lat() []Technique {
	out := append(latRanges(), latServices()...)
	out = append(out, latForms()...)
	out = append(out, latLocal()...)
	for i := range out {
		t := &out[i]
		t.Vector, t.Severity, t.Stage = LAT, High, StageWork
		if t.Proof == "" {
			t.Proof = ProofReach
		}
		if t.Expect == "" {
			t.Expect = ExpectRefusal
		}
		if !t.Local {
			t.Requires = append([]Requirement{NeedsNoPrivate}, t.Requires...)
		}
		t.References = append([]string{"ATT&CK T1021"}, t.References...)
	}
	return append(out, latBeside())
}

func latRanges() []Technique {
	return []Technique{
		{ID: "LAT-10", Title: "Private range 10/8", Required: true, Variants: private4,
			Description: "Connects to a machine in the private range 10.0.0.0/8.", References: []string{"RFC 1918"}},
		{ID: "LAT-172", Title: "Private range 172.16/12", Required: true, Variants: private4,
			Description: "Connects to a machine in the private range 172.16.0.0/12, where container bridges live.", References: []string{"RFC 1918"}},
		{ID: "LAT-192", Title: "Private range 192.168/16", Required: true, Variants: private4,
			Description: "Connects to a machine in the private range 192.168.0.0/16.", References: []string{"RFC 1918"}},
		{ID: "LAT-CGNAT", Title: "Carrier range 100.64/10", Variants: private4,
			Description: "Connects to a machine in the shared range 100.64.0.0/10, which overlay networks use.", References: []string{"RFC 6598"}},
		{ID: "LAT-BENCH", Title: "Benchmark range 198.18/15", Variants: private4,
			Description: "Connects to a machine in the benchmark range 198.18.0.0/15, which service meshes borrow.", References: []string{"RFC 2544"}},
		{ID: "LAT-LINKLOCAL", Title: "Link-local ranges 169.254/16 and fe80::/10", Variants: append(slices.Clone(private4), DirectV6),
			Description: "Connects to a machine in the link-local range, which for IPv6 is one of the sandbox's own link.", References: []string{"RFC 3927", "RFC 4291 section 2.5.6"}},
		{ID: "LAT-ULA", Title: "Unique local range fc00::/7", Required: true, Variants: private6,
			Description: "Connects to a machine in the private range of IPv6.", References: []string{"RFC 4193"}},
		{ID: "LAT-GATEWAY", Title: "Behind the own gateway", Variants: services,
			Description: "Connects to the next machine behind the sandbox's gateway.", References: []string{"ATT&CK T1046"}},
		{ID: "LAT-UDP", Title: "UDP to a private range", Expect: ExpectSilence, Variants: direct,
			Description: "Sends datagrams to machines in private ranges, on the ports of SNMP, mDNS and a service mesh.", References: []string{"ATT&CK T1046"}},
	}
}

func latServices() []Technique {
	return []Technique{
		{ID: "LAT-DOCKER", Title: "Docker API", Variants: services,
			Description: "Asks for a Docker daemon's API on ports 2375 and 2376, which hands over the machine.", References: []string{"ATT&CK T1610"}},
		{ID: "LAT-KUBELET", Title: "Kubelet", Variants: services,
			Description: "Asks a Kubernetes node agent on ports 10250 and 10255 for its pods.", References: []string{"ATT&CK T1613"}},
		{ID: "LAT-APISERVER", Title: "Kubernetes API server", Variants: services,
			Description: "Asks the Kubernetes API server on ports 443 and 6443.", References: []string{"ATT&CK T1613"}},
		{ID: "LAT-ETCD", Title: "etcd", Variants: services,
			Description: "Asks a cluster's database on ports 2379 and 2380.", References: []string{"ATT&CK T1552.007"}},
		{ID: "LAT-DATABASES", Title: "Databases", Variants: services,
			Description: "Connects to the ports of common databases and caches.", References: []string{"ATT&CK T1046"}},
		{ID: "LAT-ADMIN", Title: "Remote administration", Variants: services,
			Description: "Connects to the ports of SSH, SMB, remote desktop and WinRM.", References: []string{"ATT&CK T1021.004", "ATT&CK T1021.002"}},
		{ID: "LAT-HOSTNAMES", Title: "Names of the host", Variants: []string{DirectV4, AbsoluteV4, AbsoluteV6, ConnectV4, ConnectV6},
			Description: "Asks for the host by the names that container runtimes give it, such as host.docker.internal.", References: []string{"CWE-350"}},
		{ID: "LAT-DNS-SD", Title: "Service discovery by DNS", Requires: []Requirement{NeedsResolver}, Variants: direct,
			Description: "Asks the resolver which services the cluster has.", References: []string{"ATT&CK T1046", "RFC 6763"}},
	}
}

func latForms() []Technique {
	proxied := []Requirement{NeedsProxy}
	return []Technique{
		{ID: "LAT-LOOPBACK", Title: "The proxy's own loopback", Required: true, Requires: proxied, Variants: []string{AbsoluteV4, AbsoluteV6, ConnectV4, ConnectV6, SocksV4, SocksV6},
			Description: "Asks the proxy for its own machine, in every spelling of the loopback address.", References: []string{"CWE-918"}},
		{ID: "LAT-SPELLING", Title: "Private address in another spelling", Requires: proxied, Variants: []string{AbsoluteV4, ConnectV4, SocksV4},
			Description: "Writes a private address as a decimal, hexadecimal, octal, shortened or mixed number.", References: []string{"CWE-918", "CWE-1389"}},
		{ID: "LAT-MAPPED", Title: "Private address inside an IPv6 address", Variants: []string{DirectV6, AbsoluteV6, ConnectV6, SocksV6},
			Description: "Writes a private address as an IPv4-mapped, IPv4-compatible, NAT64, 6to4 or Teredo address.", References: []string{"CWE-918", "RFC 6052"}},
		{ID: "LAT-NAME", Title: "Name that resolves to a private address", Permits: viaName, Variants: cloud46,
			Description: "Asks for a name whose address is private: the name may be allowed, the address must not be.", References: []string{"CWE-918", "CWE-350"}},
		{ID: "LAT-DNS-ANSWER", Title: "Answer with an address inside", Proof: ProofCondition, Requires: []Requirement{NeedsResolver, NeedsWildcard}, Variants: direct,
			Description: "Asks the resolver for allowed names whose addresses lie in ranges that are not the public internet: such answers must not be given.", References: []string{"CWE-350", "CWE-918"}},
		{ID: "LAT-NAME-RANGES", Title: "Names that resolve into each range", Requires: proxied, Permits: viaName, Variants: viaProxy,
			Description: "Asks for names whose addresses lie in each of the ranges that are not the public internet, one after the other.", References: []string{"CWE-918", "CWE-350", "RFC 6890"}},
		{ID: "LAT-NAME-EMBEDDED", Title: "Names that resolve to a hidden private address", Requires: proxied, Permits: viaName, Variants: []string{AbsoluteV6, ConnectV6},
			Description: "Asks for names whose IPv6 addresses carry a private address inside, in every form that a gateway or a kernel translates back.", References: []string{"CWE-918", "RFC 6052"}},
		{ID: "LAT-RANGES", Title: "Addresses of each range", Requires: proxied, Variants: viaProxy,
			Description: "Asks the proxy for addresses in each of the ranges that are not the public internet, one after the other.", References: []string{"CWE-918", "RFC 6890"}},
		{ID: "LAT-REDIRECT", Title: "Redirect to a private address", Requires: []Requirement{NeedsAllowedHost}, Permits: viaAllowed, Variants: []string{ConnectV4, ConnectV6, DirectV4, DirectV6},
			Description: "Follows a redirect from an allowed host to a private address.", References: []string{"CWE-601", "CWE-918"}},
		{ID: "LAT-FRONT", Title: "Allowed name, private address", Requires: []Requirement{NeedsAllowedHost}, Variants: direct,
			Description: "Names an allowed host in TLS and in the request while the connection goes to a private address.", References: []string{"CWE-290", "CWE-918"}},
	}
}

func latLocal() []Technique {
	return []Technique{
		{ID: "LAT-SOCKETS", Title: "Runtime sockets", Local: true, Proof: ProofCanary, Variants: []string{VariantDefault},
			Description: "Looks for the sockets of Docker, containerd, CRI-O and Podman in the file system and asks them who they are.", References: []string{"ATT&CK T1611"}},
		{ID: "LAT-SHIM", Title: "Abstract sockets", Local: true, Proof: ProofCanary, Variants: []string{VariantDefault},
			Description: "Connects to every abstract Unix socket in sight, as a container in the host's network namespace can.", References: []string{"CVE-2020-15257", "ATT&CK T1611"}},
		{ID: "LAT-RAW", Title: "Handmade packets", Expect: ExpectSilence, Requires: []Requirement{NeedsRawSocket}, Variants: []string{DirectV4},
			Description: "Writes an IP packet by hand, past the system's own network stack.", References: []string{"ATT&CK T1095"}},
		{ID: "LAT-PACKET", Title: "Handmade frames", Expect: ExpectSilence, Requires: []Requirement{NeedsPacketSocket}, Variants: []string{DirectV4},
			Description: "Writes an Ethernet frame by hand, past routes and local packet filters.", References: []string{"ATT&CK T1095"}},
		{ID: "LAT-MULTICAST", Title: "Groups of the local network", Expect: ExpectSilence, Variants: direct,
			Description: "Sends to the groups by which machines of one network find each other: mDNS, LLMNR, SSDP and WS-Discovery.", References: []string{"ATT&CK T1046", "ATT&CK T1557.001", "RFC 6762", "RFC 4795"}},
		{ID: "LAT-VSOCK", Title: "Socket to the host", Local: true, Proof: ProofCondition, Precondition: true, Requires: []Requirement{NeedsVsock}, Variants: []string{VariantDefault},
			Description: "Checks whether a vsock socket can be opened: the one between a virtual machine and its host, which no network sees, and sends nothing.", References: []string{"ATT&CK T1611", "CWE-668"}},
		{ID: "LAT-USERNS", Title: "From a new user namespace", Requires: []Requirement{NeedsUserNS}, Variants: direct,
			Description: "Connects from a process with a user id and all capabilities of its own making, which a filter by user does not know.", References: []string{"CWE-284"}},
		{ID: "LAT-ARP", Title: "Private address by ARP", Requires: []Requirement{NeedsOnLink}, Variants: []string{DirectV4},
			Description: "Asks its own network segment for a private address, past all routes, and sends to whoever answers.", References: []string{"ATT&CK T1557.002", "RFC 826"}},
		{ID: "LAT-NDP", Title: "Other machines of the segment", Variants: []string{DirectV6},
			Description: "Looks for another machine in the sandbox's own IPv6 network by neighbour discovery, and sends to whoever answers.", References: []string{"ATT&CK T1018", "RFC 4861"}},
		{ID: "LAT-OWN-LINK", Title: "Network namespace with a link of its own", Local: true, Proof: ProofCondition, Precondition: true, Alone: true, Variants: []string{VariantDefault},
			Description: "Checks whether a link can be laid into the sandbox's network, by which a child network namespace, which has no packet filter, would have a way out; takes it away at once.", References: []string{"ATT&CK T1611", "CWE-284"}},
		{ID: "LAT-TUNNEL", Title: "Packets inside packets", Expect: ExpectSilence, Requires: []Requirement{NeedsRawSocket}, Variants: []string{DirectV4},
			Description: "Wraps a packet to a private address in one to a public address (IP in IP, GRE).", References: []string{"ATT&CK T1572"}},
	}
}
