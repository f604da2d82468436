// Package tok holds the attempts of the vector TOK: ways to a usable credential.
// What each one means is in probes/catalog.
package tok

import (
	"github.com/wallproof/wallproof/probes"
	"github.com/wallproof/wallproof/probes/kit"
	"github.com/wallproof/wallproof/probes/paths"
)

// Attempts returns the attempts of this vector by technique id.
func Attempts() map[string]probes.Attempt {
	return map[string]probes.Attempt{
		"TOK-ENV":           environment,
		"TOK-PROCESS":       commandLines,
		"TOK-NETRC":         kit.OrLike(files(netrcFiles), `(?i)/[._]?(netrc|pgpass|my\.cnf|curlrc|wgetrc|wget-hsts|authinfo)[^/]*$`),
		"TOK-GIT":           kit.OrLike(gitFiles, `/[^/]*\.git/|/\.?git(config|-credentials|modules)[^/]*$|/git/(config|credentials)`),
		"TOK-HISTORY":       kit.OrLike(files(historyFiles), `(?i)/[^/]*(history|_hist|lesshst|viminfo)[^/]*$`),
		"TOK-FILES":         kit.OrLike(hiddenFiles(toolFiles), `(?i)/\.[^/]+(/|$)|/[^/]*(credential|token|secret|kube-?config|passw|api[-_]?key|id_(rsa|dsa|ecdsa|ed25519))[^/]*$|\.(pem|key|p12|pfx|jks|keystore|kdbx|ovpn|tfvars|tfstate|env)$|/(auth|hosts|settings)\.(json|ya?ml|xml|toml)$`),
		"TOK-PROXY-PROCESS": proxyProcess,
		"TOK-LOG":           kit.OrLike(captureLogs, `(?i)/logs?/|\.(log|har|pcap|pcapng|cap|mitm|flows?|trace|dump)([.-][^/]*)?$|/[^/]*proxy[^/]*`),
		"TOK-PROXY-ADMIN":   adminPages,

		"TOK-KEYS": keyShapes,

		"TOK-UNBOUND":          unbound,
		"TOK-CROSS":            cross,
		"TOK-HOST-SPOOF":       hostSpoof,
		"TOK-SNI-SPOOF":        sniSpoof,
		"TOK-CONNECT-MISMATCH": connectMismatch,
		"TOK-ABSOLUTE-HOST":    absoluteHost,
		"TOK-H2-AUTHORITY":     h2Authority,
		"TOK-BRACKET":          bracket,
		"TOK-REDIRECT":         redirect,
		"TOK-DOWNGRADE":        downgrade,
		"TOK-WEBSOCKET":        webSocket,

		"TOK-DUP-HOST":      duplicateHost,
		"TOK-SMUGGLE-CLCL":  smuggle(twoLengths),
		"TOK-SMUGGLE-CLTE":  smuggle(lengthAndChunked),
		"TOK-SMUGGLE-TE":    smuggle(disguisedChunked),
		"TOK-SMUGGLE-CHUNK": smuggle(chunkExtension),
		"TOK-TRACE":         trace,

		"TOK-SMUGGLE-TRAILER": smuggle(lengthAndTrailer, bareTrailer),
		"TOK-OWN-KEY":         ownKey,

		"TOK-ECHO":         echo(paths.EncodingRaw),
		"TOK-ECHO-BASE64":  echo(paths.EncodingBase64, paths.EncodingBase641, paths.EncodingBase642, paths.EncodingURL64),
		"TOK-ECHO-HEX":     echo(paths.EncodingHex),
		"TOK-ECHO-PERCENT": echo(paths.EncodingPercent),
		"TOK-ECHO-JSON":    echo(paths.EncodingJSON),
		"TOK-ECHO-SPLIT":   echo(paths.EncodingSplit),
		"TOK-ECHO-GZIP":    echo(paths.EncodingGzip),
		"TOK-ECHO-HEADER":  echo(paths.EncodingHeader),
		"TOK-ECHO-TRAILER": echo(paths.EncodingTrailer),
		"TOK-ECHO-ERROR":   echo(paths.EncodingError),

		"TOK-LEASE-REPO":  leaseRepository,
		"TOK-LEASE-REF":   leaseRef,
		"TOK-LEASE-FORCE": leaseForce,
		"TOK-LEASE-ECHO":  leaseEcho,
		"TOK-LEASE-STEAL": leaseSteal,

		"TOK-LEASE-EXPIRED": leaseExpired,
		"TOK-SINK-GIST":     sink("POST", "/gists", gistBody),
		"TOK-SINK-COMMENT":  sink("POST", "/repos/OWNER/REPO/issues/1/comments", commentBody),
		"TOK-SINK-LFS":      largeFile,
		"TOK-SINK-FORK":     fork,

		"TOK-PLATFORM-API":   platformAPI,
		"TOK-PLATFORM-AFTER": platformAfter,
	}
}
