//go:build breaks

package breaks

import "strings"

// switched are the proxy's protections that have no parameter to draw, each off in turn,
// on the policy and by the techniques that show it.
var switched = []struct{ with, policy, by string }{
	{`noAddressGate: true`, "", "IMD-NAME, LAT-NAME"},
	{`anyPort: true`, "", "NET-PORT"},
	{`dnsAnswersAnyAddress: true`, "", "LAT-DNS-ANSWER"},
	{`dnsAnswersAnything: true`, "", "NET-DNS-LABEL"},
	{`dnsTypesUnpoliced: true`, "", "NET-DNS-TYPES"},
	{`allowEveryName: true`, "", "NET-HTTP, NET-HTTPS"},
	{`expectUnpoliced: true`, "", "NET-EXPECT"},
	{`onlyFirstRequest: true`, "", "NET-PIPELINE"},
	{`allowForcePush: true`, "", "TOK-LEASE-FORCE"},
	{`forwardHost: true`, "", "NET-HOST-FRONT"},
	{`noHostAgreement: true`, "", "NET-HOST-FRONT, NET-H2-AUTHORITY"},
	{`searchPassed: true`, "model", "INJ-SEARCH"},
	{`injectByHost: true`, "", "TOK-CONNECT-MISMATCH, TOK-HOST-SPOOF, TOK-SNI-SPOOF, TOK-ABSOLUTE-HOST, TOK-H2-AUTHORITY, TOK-DUP-HOST, NET-HOST-FRONT"},
	{`injectEverywhere: true`, "", "TOK-CROSS"},
	{`noLeaseExpiry: true`, "", "TOK-LEASE-EXPIRED"},
	{`noRefScope: true`, "", "TOK-LEASE-REF"},
	{`noRepositoryScope: true`, "", "TOK-LEASE-REPO"},
	{`lookupBeforePolicy: true`, "", "NET-DNS-DENIED"},
	{`nameMatch: any-dot`, "", "NET-SUFFIX"},
	{`nameMatch: below`, "", "NET-STRANGERS"},
	{`nameMatch: contains`, "", "NET-SUFFIX"},
	{`nameMatch: prefix`, "", "NET-SUFFIX"},
	{`nameMatch: suffix`, "", "NET-SUFFIX"},
	{`noMethodGate: true`, "paths", "NET-METHOD"},
	{`modelUnpoliced: true`, "model", "NET-MODEL-ROUTE"},
	{`noRedaction: true`, "", "TOK-ECHO"},
	{`skipNormalisation: 6to4`, "", "LAT-NAME-EMBEDDED"},
	{`skipNormalisation: backslash`, "", "NET-USERINFO"},
	{`skipNormalisation: case`, "denylist", "NET-BLOCKED-HOST"},
	{`skipNormalisation: idn`, "", "NET-IDN"},
	{`skipNormalisation: ipv4-spelling`, "denylist", "LAT-SPELLING, IMD-SPELLING"},
	{`skipNormalisation: isatap`, "", "LAT-NAME-EMBEDDED"},
	{`skipNormalisation: mapped`, "denylist", "IMD-MAPPED, LAT-MAPPED"},
	{`skipNormalisation: nat64`, "", "IMD-NAME-EMBEDDED"},
	{`skipNormalisation: nul`, "", "NET-NUL"},
	{`skipNormalisation: percent`, "", "NET-PERCENT, NET-NUL"},
	{`skipNormalisation: teredo`, "", "IMD-NAME-EMBEDDED"},
	{`skipNormalisation: trailing-dot`, "denylist", "NET-BLOCKED-HOST"},
	{`skipNormalisation: translated`, "", "LAT-NAME-EMBEDDED"},
	{`skipNormalisation: userinfo`, "", "NET-USERINFO"},
	{`skipNormalisation: white-space`, "", "NET-NUL"},
	{`noOriginalDst: true`, "", "NET-SNI-FRONT"},
	{`ownCredential: true`, "", "TEN-LEASE"},
	{`skipPathStep: backslash`, "paths", "NET-PATH"},
	{`skipPathStep: case`, "paths", "NET-PATH"},
	{`skipPathStep: parameters`, "paths", "NET-PATH"},
	{`skipPathStep: dots`, "paths", "NET-PATH"},
	{`skipPathStep: percent`, "paths", "NET-PATH"},
	{`skipPathStep: slashes`, "paths", "NET-PATH"},
	{`noPathGate: true`, "paths", "NET-PATH"},
	{`wavePinned: true`, "", "NET-PINNED"},
	{`plainHTTPUnpoliced: true`, "", "NET-HTTP"},
	{`resolveTwice: true`, "", "IMD-REBIND"},
	{`skipEncoding: base64`, "", "TOK-ECHO-BASE64"},
	{`skipEncoding: chunks`, "", "TOK-ECHO-SPLIT"},
	{`skipEncoding: encoded`, "", "TOK-ECHO-GZIP"},
	{`skipEncoding: errors`, "", "TOK-ECHO-ERROR"},
	{`skipEncoding: headers`, "", "TOK-ECHO-HEADER"},
	{`skipEncoding: hex`, "", "TOK-ECHO-HEX"},
	{`skipEncoding: percent`, "", "TOK-ECHO-PERCENT"},
	{`skipEncoding: raw`, "", "TOK-ECHO"},
	{`skipEncoding: trailers`, "", "TOK-ECHO-TRAILER"},
	{`followRedirects: keep`, "", "TOK-REDIRECT"},
	{`followRedirects: strip`, "", "IMD-REDIRECT"},
	{`followRedirects: strip`, "", "LAT-REDIRECT"},
	{`followRedirects: strip`, "", "NET-REDIRECT"},
	{`acceptSmuggling: true`, "", "TOK-SMUGGLE-TRAILER"},
	{`acceptSmuggling: true`, "", "TOK-DUP-HOST, TOK-SMUGGLE-CLCL, TOK-SMUGGLE-CLTE"},
	{`noSNIAgreement: true`, "spliced", "NET-SNI-OTHER"},
	{`allowTrace: true`, "", "TOK-TRACE"},
	{`webSocketUnpoliced: true`, "", "NET-WEBSOCKET"},
	{`writeSinks: true`, "", "TOK-SINK-COMMENT"},
	{`writeSinks: true`, "", "TOK-SINK-FORK"},
	{`writeSinks: true`, "", "TOK-SINK-LFS"},
	{`writeSinks: true`, "", "TOK-SINK-GIST"},
}

// oneSwitch is a protection of the proxy that is off.
func oneSwitch(s *sampler) string {
	w := pick(s, switched...)
	more := []string{caught(strings.Split(w.by, ", ")...)}
	if w.policy != "" {
		more = append([]string{"policy: " + w.policy}, more...)
	}
	return doc("proxy", w.with, more...)
}
