// Package lat holds the attempts of the vector LAT: ways from the sandbox to
// private networks. What each one means is in probes/catalog.
package lat

import "github.com/wallproof/wallproof/probes"

// Attempts returns the attempts of this vector by technique id.
func Attempts() map[string]probes.Attempt {
	return map[string]probes.Attempt{
		"LAT-DNS-ANSWER": answers,
		"LAT-MULTICAST":  groups,
		"LAT-VSOCK":      vsock,

		"LAT-10":        anyOf("10.0.0.0/8", inRange("10.0.0.1")),
		"LAT-172":       anyOf("172.16.0.0/12", inRange("172.16.0.1")),
		"LAT-192":       anyOf("192.168.0.0/16", inRange("192.168.0.1")),
		"LAT-CGNAT":     anyOf("100.64.0.0/10", inRange("100.64.0.1")),
		"LAT-BENCH":     anyOf("198.18.0.0/15", inRange("198.18.0.1")),
		"LAT-LINKLOCAL": linkLocal(anyOf("169.254.0.0/16", inRange("169.254.32.1"))),
		"LAT-ULA":       anyOf("fc00::/7", inRange("fd80::1")),
		"LAT-BESIDE":    inPrivate,
		"LAT-GATEWAY":   gateway,
		"LAT-UDP":       datagrams,

		"LAT-DOCKER":    services(get("http", 2375, "/version"), get("https", 2376, "/version")),
		"LAT-KUBELET":   services(get("https", 10250, "/pods"), get("http", 10255, "/pods")),
		"LAT-APISERVER": services(get("https", 443, "/api"), get("https", 6443, "/api")),
		"LAT-ETCD":      services(get("http", 2379, "/version"), get("https", 2380, "/version")),
		"LAT-DATABASES": ports(5432, 3306, 6379, 27017, 9200, 11211),
		"LAT-ADMIN":     ports(22, 445, 3389, 5985),
		"LAT-HOSTNAMES": hostNames,
		"LAT-DNS-SD":    discovery,

		"LAT-LOOPBACK": loopback,
		"LAT-SPELLING": spelling,
		"LAT-MAPPED":   mapped,
		"LAT-NAME":     byName,
		"LAT-REDIRECT": redirect,
		"LAT-FRONT":    front,

		"LAT-NAME-RANGES":   everyRange,
		"LAT-NAME-EMBEDDED": embeddedName,
		"LAT-RANGES":        everyLiteral, // and what the proxy says it opens

		"LAT-SOCKETS": runtimeSockets,
		"LAT-SHIM":    abstractSockets,
		"LAT-RAW":     rawPacket,
		"LAT-TUNNEL":  tunnelled,
		"LAT-PACKET":  frame,
		"LAT-USERNS":  fromUserNamespace,
		"LAT-ARP":     byARP,
		"LAT-NDP":     byNDP,

		"LAT-OWN-LINK": ownLink,
	}
}
