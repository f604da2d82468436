// Package open holds the attempts of the vector NET: ways from the sandbox to
// the open internet. What each one means is in probes/catalog.
package open

import "github.com/wallproof/wallproof/probes"

// Attempts returns the attempts of this vector by technique id.
func Attempts() map[string]probes.Attempt {
	return map[string]probes.Attempt{
		"NET-TCP":           tcp,
		"NET-BESIDE":        tcp,
		"NET-HTTP":          plainHTTP,
		"NET-HTTPS":         secureHTTP,
		"NET-LITERAL":       literal,
		"NET-IPV6":          ipv6,
		"NET-UDP":           udp,
		"NET-QUIC":          quic,
		"NET-ICMP":          icmp,
		"NET-NTP":           ntp,
		"NET-SSH":           ssh,
		"NET-SMTP":          smtp,
		"NET-FTP":           ftp,
		"NET-FASTOPEN":      fastOpen,
		"NET-IOURING":       ioUring,
		"NET-DRIP":          drip,
		"NET-FRAGMENT":      fragment,
		"NET-RELAY":         relay,
		"NET-HOSTS-EDIT":    hostsEdit,
		"NET-ROUTE-EDIT":    routeEdit,
		"NET-RESOLVER-EDIT": resolverEdit,

		"NET-DNS-UDP":    dnsUDP,
		"NET-DNS-TCP":    dnsTCP,
		"NET-DOT":        dnsTLS,
		"NET-DOH":        dnsHTTPS,
		"NET-DNS-LABEL":  dnsLabel,
		"NET-DNS-DENIED": dnsDenied,
		"NET-DNS-TYPES":  dnsTypes,

		"NET-SNI-FRONT":    sniFront,
		"NET-HOST-FRONT":   hostFront,
		"NET-NO-SNI":       noSNI,
		"NET-SNI-ADDRESS":  sniAddress,
		"NET-ECH":          encryptedHello,
		"NET-SUFFIX":       lookAlike,
		"NET-USERINFO":     userinfo,
		"NET-NUL":          nulName,
		"NET-PERCENT":      percentName,
		"NET-IDN":          otherScript,
		"NET-PORT":         otherPort,
		"NET-NESTED":       nested,
		"NET-PIPELINE":     pipeline,
		"NET-EXPECT":       expectContinue,
		"NET-WEBSOCKET":    webSocket,
		"NET-H2-CONNECT":   h2Connect,
		"NET-H2-AUTHORITY": h2Authority,

		"NET-SNI-OTHER":   sniOther,
		"NET-PINNED":      pinned,
		"NET-MODEL-ROUTE": modelRoute,

		"NET-REDIRECT":  redirect,
		"NET-STRANGERS": strangers,
		"NET-FILTER":    filterGaps,

		"NET-BLOCKED-HOST": blockedHost,
		"NET-PATH":         blockedPath,
		"NET-METHOD":       blockedMethod,
		"NET-SCHEME":       blockedScheme,
	}
}
