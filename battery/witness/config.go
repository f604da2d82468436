// Package witness is the world outside a sandbox. In the world's network
// namespace every IPv4 and IPv6 address answers, and behind every address and
// port stands this package: one unprivileged process that answers as the
// internet, a cloud's metadata service, a private host, a git forge, a registry
// or a model would, and records every nonce and every canary that arrives.
//
// Nothing that it answers can do harm: it makes no connection to anywhere,
// credentials that it hands out are canaries, and everything from outside is
// bounded.
//
// # What is recorded
//
// An arrival is a nonce of the run, found in whatever reached the world: a
// destination address that belongs to a nonce, a name asked of the DNS, an SNI,
// a request's line, headers, body or trailers, a datagram, a packet. Nonces are
// found in any letter case, reversed, percent- or otherwise escaped, in
// hexadecimal, base32 and base64 at any offset, split over labels, and inside
// gzip (package scan). Each arrival becomes a manifest.Observation of side
// "witness"; arrivals of one nonce at one service, protocol and destination are
// one observation with a count.
//
// # Which service
//
// The service of an arrival says where it went, not what it claims. See
// probes/paths for the names. The destination address decides first: metadata
// and special-purpose addresses are "metadata" and "private" whatever name a
// request carries. A host of Config.Hosts is recorded as itself only when the
// destination is the very address that the world's DNS gives for that name, and
// the SNI, if any, is the same name; a request that carries the name of an
// allowed host to another address is "collector", as is every other.
//
// # Process protocol
//
// Main is a child of internal/procs: its configuration is a Config, each of its
// events an Event, its Ready value a Ready. Sockets are handed over as
// Config.Sockets says; a pipe called "control" carries one Command a line. Start
// does the parent's part for the battery.
package witness

import (
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/wallproof/wallproof/battery/witness/forge"
	"github.com/wallproof/wallproof/battery/witness/pki"
	"github.com/wallproof/wallproof/battery/witness/services"
	"github.com/wallproof/wallproof/probes/nonce"
)

// Role says which of the two processes a Config is for.
type Role string

// The roles.
const (
	RoleWorld     Role = "world"      // the witness, in the world's namespace
	RoleOpenProxy Role = "open-proxy" // the control's proxy and resolver without a boundary, in the router's namespace
)

// Host roles: what content a host of Config.Hosts serves besides the verbs of
// probes/paths, which every host serves.
const (
	HostAllowed  = "allowed"  // pages, issues, tools; recorded as paths.ServiceAllowed
	HostForge    = "forge"    // git smart HTTP, GitHub App and REST API; paths.ServiceForge
	HostRegistry = "registry" // packages; paths.ServiceRegistry
	HostPlatform = "platform" // control API and build cache of a platform; paths.ServicePlatform
	HostModel    = "model"    // OpenAI- and Anthropic-compatible; paths.ServiceModel
	HostPlain    = ""         // not allowed by the policy: paths.ServiceCollector, but with pages, issues and tools served
)

// Services that this package records besides those of probes/paths. Both name
// things that no permitted use of a host does, so no technique lists them in
// Permits.
const (
	// ServiceForgeBreach: the forge accepted a write that Forge.Push does not
	// permit: another repository, another ref, or a forced one.
	ServiceForgeBreach = "forge-breach"
	// ServiceModelSearch: the model was asked with a hosted web-search tool.
	ServiceModelSearch = "model-search"
	// ServiceTrace: a request came with the method TRACE, whose answer repeats it,
	// with whatever was added on the way.
	ServiceTrace = "trace"
	// ServicePlatformBreach: the platform accepted its own token for something that
	// nobody in a sandbox may do.
	ServicePlatformBreach = "platform-breach"
)

// Config is everything that a witness is told. It crosses the process border as
// one line of JSON on standard input.
type Config struct {
	Role     Role   `json:"role"`
	Run      string `json:"run"`
	Phase    string `json:"phase"`    // nonce.PhaseControl or nonce.PhaseAttack
	NonceKey string `json:"nonceKey"` // hex

	// Nonces are all nonces of the phase. With them given, nothing else is
	// recorded, and they are found inside longer words too. Without, anything of
	// a nonce's shape that stands alone is.
	Nonces []string `json:"nonces,omitempty"`
	// AddrNonces gives the nonce that a destination address belongs to.
	AddrNonces map[string]string `json:"addrNonces,omitempty"`
	// Hosts gives the role of a host: a name, or "*.suffix" for all below it.
	Hosts map[string]string `json:"hosts,omitempty"`
	// Resolve overrides the world's DNS: name, or "*.suffix", to addresses.
	Resolve map[string][]string `json:"resolve,omitempty"`
	// CA signs the certificate of every name. The zero value makes a fresh one.
	CA CA `json:"ca"`

	Metadata Metadata           `json:"metadata"`           //
	Pages    map[string]string  `json:"pages,omitempty"`    // "/path" on any host, or "host/path", to content
	Issues   map[string]Issue   `json:"issues,omitempty"`   // "owner/repo#number"
	Packages map[string]Package `json:"packages,omitempty"` // by name; any other name is served empty
	Tools    []Tool             `json:"tools,omitempty"`    // of the tool server, at /mcp on any host
	Model    Model              `json:"model"`              //
	Forge    Forge              `json:"forge"`              //
	Open     OpenProxy          `json:"open"`               // for RoleOpenProxy
	// PlatformTokens are what the platform's control API and build cache take.
	PlatformTokens []string `json:"platformTokens,omitempty"`

	Sockets []Socket `json:"sockets,omitempty"` // for Main; New is given sockets

	// UnsafeTrustNames records a host as itself whatever the destination. It is
	// for tests over loopback, where every destination is 127.0.0.1.
	UnsafeTrustNames bool `json:"unsafeTrustNames,omitempty"`
}

// CA is a certificate authority as it crosses a process border.
type CA = pki.CA

// NewCA makes a certificate authority for the world. The battery makes one a
// phase and gives it to both roles.
func NewCA() (CA, error) { return pki.New("Wallproof world") }

// Metadata configures the cloud metadata services.
type Metadata struct {
	// Canary is the secret part of every credential that a metadata service
	// answers with.
	Canary string `json:"canary,omitempty"`
}

// What hosts serve; see package services.
type (
	Issue   = services.Issue   // of a forge or tracker
	Package = services.Package // of the registry
	Tool    = services.Tool    // of the MCP-like tool server
)

// Model configures the model endpoint.
type Model struct {
	// Replies are given in turn, one a request; the last one repeats. Empty means
	// a fixed sentence.
	Replies []string `json:"replies,omitempty"`
	// Relay is a Unix socket behind which a real model answers HTTP. Requests whose
	// body holds Mark, and no others, are passed on to it, without credentials. They
	// are a conversation about what an agent reads: nonces in their bodies are no
	// arrivals. A hosted search asked for in one is one all the same.
	Relay string `json:"relay,omitempty"`
	Mark  string `json:"mark,omitempty"`
}

// The forge; see package forge.
type (
	Forge    = forge.Config
	Repo     = forge.Repo
	PushRule = forge.PushRule
	App      = forge.App
)

// OpenProxy configures the control's proxy: what a platform with no boundary at
// all would do.
type OpenProxy struct {
	// Inject is done for whatever the Host header says, wherever the connection
	// goes.
	Inject []Injection `json:"inject,omitempty"`
	// Replace swaps each placeholder for its secret wherever it stands in a
	// request's line, headers or body.
	Replace map[string]string `json:"replace,omitempty"`
	// Resolver is the name server asked, "ip:port"; "" means the world's,
	// 203.0.113.2:53.
	Resolver string `json:"resolver,omitempty"`
}

// Injection sets a header on requests to a host.
type Injection struct {
	Host   string `json:"host"` // name, "*.suffix", or "*" for every host
	Header string `json:"header"`
	Value  string `json:"value"`
}

// SocketKind is what an inherited socket is for.
type SocketKind string

// The kinds of sockets.
const (
	SocketTCP     SocketKind = "tcp"     // any-port listener, original destination by SO_ORIGINAL_DST
	SocketUDP     SocketKind = "udp"     // any-port datagram socket, original destination by IP_RECVORIGDSTADDR
	SocketCapture SocketKind = "capture" // AF_PACKET on the world's end of the link
	SocketProxy   SocketKind = "proxy"   // open proxy: HTTP and SOCKS5, told apart by their first byte
	SocketDNSUDP  SocketKind = "dns-udp" // open resolver
	SocketDNSTCP  SocketKind = "dns-tcp" // open resolver
)

// Socket is an inherited socket: the FD-th file of those handed over, from 0.
type Socket struct {
	Kind SocketKind `json:"kind"`
	FD   int        `json:"fd"`
}

// Bounds of a Config.
const (
	maxNonces = 1 << 16
	maxHosts  = 1 << 12
)

// ErrConfig is wrapped by every error about a Config.
var ErrConfig = errors.New("witness configuration")

// Validate reports the first thing that is wrong with a configuration.
func (c *Config) Validate() error {
	if c.Role != RoleWorld && c.Role != RoleOpenProxy {
		return fmt.Errorf("%w: role %q is neither %q nor %q", ErrConfig, c.Role, RoleWorld, RoleOpenProxy)
	}
	if key, err := hex.DecodeString(c.NonceKey); err != nil || len(key) < 16 {
		return fmt.Errorf("%w: nonceKey must be at least 16 bytes in hexadecimal", ErrConfig)
	}
	if len(c.Nonces) > maxNonces || len(c.AddrNonces) > maxNonces {
		return fmt.Errorf("%w: more than %d nonces", ErrConfig, maxNonces)
	}
	for _, n := range c.Nonces {
		if !nonce.Valid(n) {
			return fmt.Errorf("%w: %q is no nonce", ErrConfig, n)
		}
	}
	for a, n := range c.AddrNonces {
		if _, err := netip.ParseAddr(a); err != nil || !nonce.Valid(n) {
			return fmt.Errorf("%w: address %q with nonce %q", ErrConfig, a, n)
		}
	}
	return c.validateHosts()
}

func (c *Config) validateHosts() error {
	if len(c.Hosts) > maxHosts || len(c.Resolve) > maxHosts {
		return fmt.Errorf("%w: more than %d hosts", ErrConfig, maxHosts)
	}
	for h, role := range c.Hosts {
		switch role {
		case HostAllowed, HostForge, HostRegistry, HostModel, HostPlatform, HostPlain:
		default:
			return fmt.Errorf("%w: host %q has the unknown role %q", ErrConfig, h, role)
		}
		if h == "" || h != strings.ToLower(h) {
			return fmt.Errorf("%w: host %q is not in lower case", ErrConfig, h)
		}
	}
	for h, list := range c.Resolve {
		for _, a := range list {
			if _, err := netip.ParseAddr(a); err != nil {
				return fmt.Errorf("%w: %q resolves to %q, which is no address", ErrConfig, h, a)
			}
		}
	}
	return nil
}
