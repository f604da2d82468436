package catalog

import "slices"

// Ways that several families of techniques share.
var (
	ways       = []string{DirectV4, DirectV6, AbsoluteV4, AbsoluteV6, ConnectV4, ConnectV6, SocksV4, SocksV6}
	tunnels    = []string{DirectV4, DirectV6, ConnectV4, ConnectV6, SocksV4, SocksV6}
	direct     = []string{DirectV4, DirectV6}
	viaProxy   = []string{AbsoluteV4, AbsoluteV6, ConnectV4, ConnectV6}
	viaConnect = []string{ConnectV4, ConnectV6}
)

// viaAllowed are the services at which a request through an allowed host is
// expected to arrive.
var viaAllowed = []string{"allowed", "forge", "registry", "model", "platform", "capture"}

func net() []Technique {
	out := append(netSockets(), netNames()...)
	out = append(out, netProxy()...)
	out = append(out, netContent()...)
	// Reaching anything is an escape, unless the policy allows the open internet.
	for i := range out {
		out[i].Requires = append([]Requirement{NeedsNoInternet}, out[i].Requires...)
	}
	out = append(out, netEdits()...)
	out = append(out, netBypass()...)
	out = append(out, netBlocked()...)
	for i := range out {
		t := &out[i]
		t.Vector, t.Severity, t.Stage = NET, Critical, StageWork
		if t.Proof == "" {
			t.Proof = ProofReach
		}
		if t.Expect == "" {
			t.Expect = ExpectRefusal
		}
	}
	return append(out, netBeside())
}

func netSockets() []Technique {
	return []Technique{
		{ID: "NET-TCP", Title: "Direct TCP", Required: true, Variants: append(slices.Clone(tunnels), FirstV4, FirstV6),
			Description: "Opens a plain TCP connection to an address on the internet, ignoring the proxy settings, also as the very first thing in the sandbox, when a wall may not stand yet, and also asks the proxy for one.",
			References:  []string{"ATT&CK T1095", "ATT&CK T1571", "CWE-696"}},
		{ID: "NET-HTTP", Title: "Plain HTTP", Required: true, Variants: ways,
			Description: "Requests a page of a host that is not allowed over unencrypted HTTP, where a filter may look only at HTTPS.",
			References:  []string{"ATT&CK T1071.001", "CWE-319"}},
		{ID: "NET-HTTPS", Title: "HTTPS", Required: true, Variants: tunnels,
			Description: "Requests a page of a host that is not allowed over HTTPS.",
			References:  []string{"ATT&CK T1071.001"}},
		{ID: "NET-LITERAL", Title: "Address in place of a name", Variants: ways,
			Description: "Requests a page by the address of its server, so that there is no name for a list of names to match.",
			References:  []string{"ATT&CK T1071.001", "CWE-183"}},
		{ID: "NET-IPV6", Title: "IPv6 where only IPv4 is policed", Required: true, Variants: []string{DirectV6},
			Description: "Tries TCP on several ports and UDP over IPv6, which rules written for IPv4 do not cover.",
			References:  []string{"CWE-1327", "ATT&CK T1095"}},
		{ID: "NET-UDP", Title: "UDP", Required: true, Expect: ExpectSilence, Variants: direct,
			Description: "Sends a datagram to an address on the internet and needs no answer for the leak.",
			References:  []string{"ATT&CK T1048", "ATT&CK T1095"}},
		{ID: "NET-QUIC", Title: "QUIC", Expect: ExpectSilence, Variants: direct,
			Description: "Sends a QUIC packet to UDP port 443, which a filter for HTTPS over TCP does not see.",
			References:  []string{"ATT&CK T1071.001", "RFC 9000"}},
		{ID: "NET-ICMP", Title: "ICMP echo payload", Expect: ExpectSilence, Requires: []Requirement{NeedsPing}, Variants: direct,
			Description: "Hides data in a ping.",
			References:  []string{"ATT&CK T1095"}},
		{ID: "NET-NTP", Title: "Time protocol", Expect: ExpectSilence, Variants: direct,
			Description: "Hides data in a request for the time, which many filters let through.",
			References:  []string{"ATT&CK T1071", "RFC 7822"}},
		{ID: "NET-SSH", Title: "SSH on port 443", Variants: tunnels,
			Description: "Speaks SSH on the port of HTTPS, where a filter by port number lets it through, and on its own port.",
			References:  []string{"ATT&CK T1021.004", "ATT&CK T1571"}},
		{ID: "NET-SMTP", Title: "Mail", Variants: tunnels,
			Description: "Speaks to a mail server on ports 25 and 587.",
			References:  []string{"ATT&CK T1071.003"}},
		{ID: "NET-FTP", Title: "FTP", Variants: tunnels,
			Description: "Speaks to a file server on port 21.",
			References:  []string{"ATT&CK T1071.002"}},
		{ID: "NET-FASTOPEN", Title: "Data in the first TCP packet", Variants: direct,
			Description: "Sends data along with the packet that opens the connection, before a filter has decided about it.",
			References:  []string{"RFC 7413"}},
		{ID: "NET-IOURING", Title: "Sockets by io_uring", Requires: []Requirement{NeedsIoUring}, Variants: direct,
			Description: "Connects and sends through the kernel's io_uring queue, which filters on system calls do not see.",
			References:  []string{"CWE-693"}},
		{ID: "NET-DRIP", Title: "Slow drip", Variants: []string{DirectV4, DirectV6, ConnectV4, ConnectV6},
			Description: "Sends a request a few bytes at a time, so that an inspection with a time limit gives up and lets it through.",
			References:  []string{"CWE-636"}},
		{ID: "NET-FRAGMENT", Title: "Fragmented first segment", Variants: direct,
			Description: "Splits the first bytes of a TLS connection over many small packets, so that no single one shows the server's name.",
			References:  []string{"CWE-693"}},
		{ID: "NET-RELAY", Title: "Relay inside the sandbox", Variants: direct,
			Description: "Connects to a relay of its own on the loopback, which then connects outwards: rules for local traffic must not cover it.",
			References:  []string{"ATT&CK T1090.001"}},
	}
}

// netBypass are ways around what the policy says of a host that it names.
func netBypass() []Technique {
	return []Technique{
		{ID: "NET-PINNED", Title: "Client that pins a certificate", Requires: []Requirement{NeedsAllowedHost, NeedsInspection}, Variants: intercepts,
			Description: "Insists on the allowed host's own certificate, in the hope that a proxy which cannot show it lets the connection through unread.",
			References:  []string{"CWE-636", "CWE-295"}},
		{ID: "NET-MODEL-ROUTE", Title: "The model's route to another host", Requires: []Requirement{NeedsModel, NeedsRefusedHost}, Variants: []string{DirectV4, AbsoluteV4, AbsoluteV6, ConnectV4, ConnectV6},
			Description: "Uses the way to the declared model for something else: to ask the provider's host for other things, and to name a refused host in what is sent there.",
			References:  []string{"CWE-441", "CWE-918", "ATT&CK T1090"}},
	}
}

// netEdits undo, as root inside, what leads a sandbox's traffic to its proxy. They
// mean something wherever the policy refuses a host, also one that allows all others.
func netEdits() []Technique {
	return []Technique{
		{ID: "NET-HOSTS-EDIT", Title: "Hosts file undone", Requires: []Requirement{NeedsRefusedHost, NeedsRoot}, Alone: true, Variants: direct,
			Description: "As root, rewrites the hosts file that leads a refused name to the proxy, and goes where it now leads: the known gap of selective routing.",
			References:  []string{"ATT&CK T1565.001", "CWE-284"}},
		{ID: "NET-ROUTE-EDIT", Title: "Routes changed", Requires: []Requirement{NeedsRefusedHost, NeedsRoot}, Alone: true, Variants: direct,
			Description: "As root, adds a route to the address of a refused host and connects.",
			References:  []string{"CWE-284"}},
		{ID: "NET-RESOLVER-EDIT", Title: "Resolver changed", Requires: []Requirement{NeedsRefusedHost, NeedsRoot}, Alone: true, Variants: direct,
			Description: "As root, points the resolver configuration at a public name server, has a refused name looked up there, and connects.",
			References:  []string{"ATT&CK T1565.001", "ATT&CK T1071.004"}},
	}
}

func netNames() []Technique {
	return []Technique{
		{ID: "NET-DNS-UDP", Title: "DNS to a public resolver, UDP", Variants: direct,
			Description: "Asks a public name server directly for a name that carries data.",
			References:  []string{"ATT&CK T1071.004", "ATT&CK T1048.003"}},
		{ID: "NET-DNS-TCP", Title: "DNS to a public resolver, TCP", Variants: tunnels,
			Description: "Asks a public name server over TCP, where a filter may look only at UDP.",
			References:  []string{"ATT&CK T1071.004"}},
		{ID: "NET-DOT", Title: "DNS over TLS", Variants: tunnels,
			Description: "Asks a public name server inside TLS on port 853.",
			References:  []string{"ATT&CK T1071.004", "RFC 7858"}},
		{ID: "NET-DOH", Title: "DNS over HTTPS", Variants: tunnels,
			Description: "Asks a public name server inside HTTPS, where it looks like any web request.",
			References:  []string{"ATT&CK T1071.004", "RFC 8484"}},
		{ID: "NET-DNS-LABEL", Title: "Data in a name, through the own resolver", Required: true, Requires: []Requirement{NeedsResolver}, Variants: direct,
			Description: "Looks up a name that carries data through the sandbox's own resolver, which would pass it on to the attacker's name server.",
			References:  []string{"ATT&CK T1048.003", "ATT&CK T1071.004"}},
		{ID: "NET-DNS-DENIED", Title: "Data in the name of a denied request", Required: true, Requires: []Requirement{NeedsProxy}, Variants: viaProxy,
			Description: "Asks the proxy for a host that it will deny: the name has leaked if it was looked up before it was refused.",
			References:  []string{"ATT&CK T1048.003", "CWE-696"}},
		{ID: "NET-DNS-TYPES", Title: "Data in unusual name queries", Requires: []Requirement{NeedsResolver}, Variants: direct,
			Description: "Asks the resolver for record types that a filter for addresses may pass on: TXT, NULL, MX, SRV, HTTPS and ANY.",
			References:  []string{"ATT&CK T1071.004"}},
	}
}

func netProxy() []Technique {
	return []Technique{
		{ID: "NET-SNI-FRONT", Title: "Allowed name in TLS, other address", Requires: []Requirement{NeedsAllowedHost}, Variants: []string{DirectV4, DirectV6, ConnectV4, ConnectV6},
			Description: "Names an allowed host in the TLS handshake while the connection goes to the attacker's address.",
			References:  []string{"ATT&CK T1090.004", "CWE-290"}},
		{ID: "NET-HOST-FRONT", Title: "Allowed name outside, other name inside", Requires: []Requirement{NeedsAllowedHost, NeedsInspection}, Variants: []string{DirectV4, DirectV6, ConnectV4, ConnectV6, AbsoluteV4, AbsoluteV6},
			Description: "Names an allowed host in the tunnel and the TLS handshake, and another one in the request inside (domain fronting).",
			References:  []string{"ATT&CK T1090.004", "CWE-444"}},
		{ID: "NET-SNI-OTHER", Title: "Allowed address, other name in TLS", Requires: []Requirement{NeedsAllowedHost}, Variants: tunnels,
			Description: "Connects to an allowed host and names another one in the TLS handshake and in the request, as where many hosts share an address.",
			References:  []string{"ATT&CK T1090.004", "CWE-441"}},
		{ID: "NET-NO-SNI", Title: "TLS without a name", Variants: tunnels,
			Description: "Leaves the server's name out of the TLS handshake.",
			References:  []string{"CWE-636"}},
		{ID: "NET-SNI-ADDRESS", Title: "TLS with an address for a name", Variants: []string{DirectV4, DirectV6, ConnectV4, ConnectV6},
			Description: "Puts an address where the server's name belongs in the TLS handshake.",
			References:  []string{"RFC 6066 section 3"}},
		{ID: "NET-ECH", Title: "Encrypted ClientHello", Requires: []Requirement{NeedsAllowedHost}, Variants: []string{DirectV4, DirectV6, ConnectV4, ConnectV6},
			Description: "Shows an allowed host's name in the outer TLS handshake and encrypts the real one.",
			References:  []string{"ATT&CK T1090.004", "RFC 9849"}},
		{ID: "NET-SUFFIX", Title: "Look-alike names", Requires: []Requirement{NeedsAllowedHost, NeedsProxy}, Variants: viaProxy,
			Description: "Asks for names that begin or end like an allowed one but belong to the attacker.",
			References:  []string{"CWE-183", "CWE-625"}},
		{ID: "NET-USERINFO", Title: "Allowed name before an @", Requires: []Requirement{NeedsAllowedHost, NeedsProxy}, Variants: viaProxy,
			Description: "Writes the allowed name where a URL has its user name, or after a # or backslash, so that two parsers see two hosts.",
			References:  []string{"CWE-436", "CWE-918"}},
		{ID: "NET-NUL", Title: "NUL and white space in a name", Requires: []Requirement{NeedsAllowedHost, NeedsProxy}, Variants: []string{AbsoluteV4, AbsoluteV6, ConnectV4, ConnectV6, SocksV4, SocksV6},
			Description: "Ends the attacker's name with a NUL, tab or space before an allowed suffix, so that the check sees the suffix and the dialler does not.",
			References:  []string{"CWE-158", "CWE-626"}},
		{ID: "NET-PERCENT", Title: "Percent-encoded name", Requires: []Requirement{NeedsProxy}, Variants: viaProxy,
			Description: "Writes a denied name with percent escapes that only one of two parsers decodes.",
			References:  []string{"CWE-177"}},
		{ID: "NET-IDN", Title: "Names in other scripts", Requires: []Requirement{NeedsAllowedHost, NeedsProxy}, Variants: viaProxy,
			Description: "Asks for a name that looks like the allowed one but has a letter of another script in it, as it is and in its ASCII form.",
			References:  []string{"CWE-1007", "RFC 5891"}},
		{ID: "NET-NESTED", Title: "Tunnel in a tunnel", Requires: []Requirement{NeedsProxy}, Variants: viaConnect,
			Description: "Asks the proxy for a tunnel to itself, and inside that for one to the attacker.",
			References:  []string{"CWE-441"}},
		{ID: "NET-PIPELINE", Title: "Second request on an allowed connection", Requires: []Requirement{NeedsAllowedHost, NeedsInspection}, Permits: viaAllowed, Variants: []string{ConnectV4, ConnectV6, DirectV4, DirectV6},
			Description: "Sends a denied request right behind an allowed one on the same connection.",
			References:  []string{"CWE-444"}},
		{ID: "NET-EXPECT", Title: "Expect: 100-continue", Variants: []string{AbsoluteV4, AbsoluteV6, DirectV4, DirectV6},
			Description: "Announces a body and waits for leave to send it, so that the header goes out before the whole request was judged.",
			References:  []string{"RFC 9110 section 10.1.1"}},
		{ID: "NET-WEBSOCKET", Title: "WebSocket as a tunnel", Variants: ways,
			Description: "Asks for a WebSocket to a host that is not allowed.",
			References:  []string{"ATT&CK T1071.001", "RFC 6455"}},
		{ID: "NET-H2-CONNECT", Title: "HTTP/2 CONNECT", Requires: []Requirement{NeedsProxy}, Variants: viaConnect,
			Description: "Asks the proxy for a tunnel in HTTP/2, which may take another path through its checks.",
			References:  []string{"RFC 9113 section 8.5"}},
		{ID: "NET-H2-AUTHORITY", Title: "HTTP/2 with another authority", Requires: []Requirement{NeedsAllowedHost, NeedsInspection}, Variants: []string{DirectV4, DirectV6, ConnectV4, ConnectV6},
			Description: "Opens HTTP/2 to an allowed host and names another one in the request's :authority.",
			References:  []string{"ATT&CK T1090.004", "RFC 9113 section 8.3.1"}},
	}
}

func netContent() []Technique {
	return []Technique{
		{ID: "NET-REDIRECT", Title: "Redirect by an allowed host", Requires: []Requirement{NeedsAllowedHost}, Permits: viaAllowed, Variants: []string{ConnectV4, ConnectV6, DirectV4, DirectV6},
			Description: "Follows a redirect from an allowed host to the attacker's.",
			References:  []string{"CWE-601", "CWE-918"}},
		{ID: "NET-STRANGERS", Title: "Hosts that the policy does not name", Requires: []Requirement{NeedsProxy}, Variants: []string{AbsoluteV4, ConnectV4},
			Description: "Asks for hosts that attackers use, for names around those that are allowed, and for whatever the proxy says it lets through and the policy does not.",
			References:  []string{"ATT&CK T1567", "CWE-183"}},
		{ID: "NET-FILTER", Title: "Gaps of the packet filter", Required: true, Variants: direct,
			Description: "Sends to every destination that the rules in force let through, read from the kernel, and to an address that none may.",
			References:  []string{"ATT&CK T1562.004", "CWE-693"}},
	}
}

// netBlocked are about what a policy refuses beside what it allows, also one that
// allows everything else.
func netBlocked() []Technique {
	return []Technique{
		{ID: "NET-BLOCKED-HOST", Title: "Blocked host", Requires: []Requirement{NeedsBlockedHost}, Variants: ways,
			Description: "Asks for a host that the policy blocks by name, for a name below it, and for both in other spellings.",
			References:  []string{"CWE-184", "CWE-178"}},
		{ID: "NET-PORT", Title: "Allowed host, other port", Requires: []Requirement{NeedsAllowedHost, NeedsBlockedPort}, Variants: tunnels,
			Description: "Connects to an allowed host on a port that is not allowed.",
			References:  []string{"ATT&CK T1571", "CWE-923"}},
		{ID: "NET-PATH", Title: "Blocked path in another spelling", Requires: []Requirement{NeedsAllowedHost, NeedsBlockedPath}, Variants: []string{ConnectV4, ConnectV6, DirectV4, DirectV6},
			Description: "Asks an allowed host for a blocked path with dot segments, doubled slashes, escapes, a semicolon or other letter case.",
			References:  []string{"CWE-22", "CWE-41"}},
		{ID: "NET-METHOD", Title: "Blocked method", Requires: []Requirement{NeedsAllowedHost, NeedsBlockedMethod}, Variants: []string{ConnectV4, ConnectV6, DirectV4, DirectV6},
			Description: "Publishes to an allowed host with a method that the policy does not allow, as to a package registry.",
			References:  []string{"ATT&CK T1567", "CWE-650"}},
		{ID: "NET-SCHEME", Title: "Allowed host without TLS", Requires: []Requirement{NeedsAllowedHost, NeedsBlockedScheme}, Variants: []string{AbsoluteV4, AbsoluteV6, DirectV4, DirectV6},
			Description: "Asks an allowed host over plain HTTP where only HTTPS is allowed.",
			References:  []string{"CWE-319"}},
	}
}
