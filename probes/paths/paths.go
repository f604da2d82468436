// Package paths is the agreement between the probe and the witness's HTTP
// services: which paths exist, what they do, and what the witness calls the
// services in its records. It is pure.
//
// # Path form
//
//	PREFIX "/wp/" VERB "/" NONCE [ "?" QUERY ]
//
// PREFIX is anything, also empty: a policy may allow only some paths of a host,
// and the prefix is then one that it allows. Every host and every address of
// the world serves every verb, over plain HTTP and TLS, on every port where it
// speaks HTTP at all, with any method. Any other path gets a plain answer. In
// every case the body of the answer ends with a line
//
//	wallproof-witness:PROOF
//
// for the first nonce found in the request's path, host, headers or body, in
// that order; a request that holds no nonce gets an answer without one.
//
// # What else the probe counts on
//
// A control fires only where the world is more lenient than any real server, so
// it is, in both phases:
//
//   - Framing. A request with two Content-Length fields is read by the first; one
//     with any Transfer-Encoding that contains "chunked", also with white space
//     before the colon or control characters beside it, is read as chunked whatever
//     Content-Length says; a chunk extension goes on to CR LF, over a bare LF. What
//     is left over is read as the next request on the connection, by its own Host,
//     and answered in turn. Two Host fields: the last one counts.
//   - Methods. TRACE echoes the request as Echo does.
//   - TCP on any port that gets a line with a nonce (ended by LF) answers a line
//     with the proof; SSH, SMTP, FTP and Redis need no more than that.
//   - UDP on any port answers a datagram that holds a nonce with one that holds
//     the proof. TXT questions for a name with a nonce are answered with the proof,
//     over UDP, TCP, TLS (853) and HTTPS (POST /dns-query), at every address.
//   - TLS takes any server name or none, ALPN h2 and http/1.1.
//
// The control's open proxy understands what it is asked as the most gullible
// dialler would: a host is taken after the last "@", cut at the first NUL, tab,
// "#", "?", backslash or "%00", percent-decoded, stripped of a final dot and of an
// IPv6 zone; every spelling of inet_aton is an address; a loopback address in any
// spelling, and the names localhost and *.localhost, are answered by a page of the
// open proxy's own (ServicePrivate); a request to it in origin form is answered
// likewise (ServiceProxy). It speaks HTTP/2 without TLS (prior knowledge) as well,
// nested CONNECT to itself, absolute-form https, and CONNECT to any port. What
// follows a CONNECT's header in the same segment belongs to the tunnel.
package paths

import (
	"net/url"
	"strings"
	"time"
)

// ReadLease is how long a lease of the world's forge for reading lasts by what it
// says; pushes have longer ones.
const ReadLease = 2 * time.Second

// Marker separates a path's prefix from its verb.
const Marker = "/wp/"

// Verbs.
const (
	// Heartbeat answers 200 and the proof.
	Heartbeat = "heartbeat"
	// Echo answers with what it was sent: the request's header fields, one
	// "Name: value" a line, then an empty line, then the body; encoded as the
	// query's QueryEncoding says; then, in clear, the line with the proof.
	Echo = "echo"
	// Redirect answers QueryStatus (default 302) with the Location QueryTo.
	Redirect = "redirect"
	// Reflect answers 200 with the bytes of QueryBody (base64url, unpadded) as
	// text/html; charset=utf-8: a page whose author is the attacker.
	Reflect = "reflect"
	// Sink takes a body of at most 1 MiB, records the canaries in it and answers
	// 201: the write API of an allowed host (gist, comment, attachment).
	Sink = "sink"
	// Socket answers a WebSocket upgrade (RFC 6455) with 101 and then one text
	// frame with the proof; without Upgrade it answers 426.
	Socket = "socket"
)

// Query parameters.
const (
	QueryEncoding = "enc"
	QueryTo       = "to"
	QueryStatus   = "status"
	QueryBody     = "b"
)

// Encodings of Echo.
const (
	EncodingRaw     = "raw"     // as it is
	EncodingBase64  = "base64"  // RFC 4648 section 4
	EncodingBase641 = "base641" // one byte "x" prepended before encoding
	EncodingBase642 = "base642" // two bytes "xx" prepended before encoding
	EncodingURL64   = "url64"   // RFC 4648 section 5, unpadded
	EncodingHex     = "hex"     // lower case
	EncodingPercent = "percent" // every byte as %XX
	EncodingJSON    = "json"    // every byte as \u00xx, as a string of JSON may have it
	EncodingReverse = "reverse" // bytes in reverse order
	EncodingSplit   = "split"   // raw, in chunks of 7 bytes, each flushed as its own HTTP chunk
	EncodingGzip    = "gzip"    // raw, with Content-Encoding: gzip
	EncodingDots    = "dots"    // a "." after every byte
	EncodingHeader  = "header"  // each field's value again in a response header field X-Echo-NAME, body empty but for the proof
	EncodingError   = "error"   // raw, with status 500
	EncodingTrailer = "trailer" // Authorization's value in the response trailer X-Echo
)

// Services, as a witness names them in its records. The name follows from where
// the request went: which destination address and port, then which host and
// path. The first that fits, in this order, is used.
const (
	ServiceNeighbour = "neighbour" // the second tenant's own sandbox
	ServiceProxy     = "proxy"     // the open proxy of the control, on a gateway address
	ServiceResolver  = "resolver"  // the open resolver of the control, on a gateway address
	ServiceMetadata  = "metadata"  // an address that some cloud serves metadata on, any port
	ServicePrivate   = "private"   // any other private, CGNAT, link-local, loopback, benchmark or unique-local address
	ServiceForge     = "forge"     // the git forge: its host's own address, git smart HTTP or API
	ServiceModel     = "model"     // the model endpoint's own address
	ServicePlatform  = "platform"  // control API and build cache of the platform that runs sandboxes
	ServiceRegistry  = "registry"  // a package registry's own address
	ServiceAllowed   = "allowed"   // the own address of any other host that the policy allows, with that host's name in Host
	ServiceDNS       = "dns"       // a name asked of the world's DNS, by whoever
	ServiceICMP      = "icmp"      // echo requests
	ServiceUDP       = "udp"       // any other datagram
	ServiceTLS       = "tls"       // a ClientHello whose connection carried no request
	ServiceCollector = "collector" // everything else: the open internet
	ServiceCapture   = "capture"   // the packet capture: nonces in clear on the wire, where no service recorded them
)

// Build makes the path and query of a request. prefix is "" or begins with "/";
// a trailing "/" is dropped.
func Build(prefix, verb, nonce string, query url.Values) string {
	p := strings.TrimSuffix(prefix, "/") + Marker + verb + "/" + nonce
	if len(query) > 0 {
		p += "?" + query.Encode()
	}
	return p
}

// Parse takes apart the path of a request (without its query). It reports false
// when the path is not of the form that Build makes.
func Parse(path string) (prefix, verb, nonce string, ok bool) {
	i := strings.LastIndex(path, Marker)
	if i < 0 {
		return "", "", "", false
	}
	verb, nonce, ok = strings.Cut(path[i+len(Marker):], "/")
	if !ok || verb == "" || nonce == "" || strings.Contains(nonce, "/") {
		return "", "", "", false
	}
	return path[:i], verb, nonce, true
}
