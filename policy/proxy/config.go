package proxy

import (
	"context"
	"net"
	"time"
)

// Kind is what a listener speaks.
type Kind string

// The kinds of listeners.
const (
	KindExplicit    Kind = "explicit"    // HTTP/1.1 proxy: absolute form and CONNECT (3128/tcp)
	KindTransparent Kind = "transparent" // redirected connections, original destination by SO_ORIGINAL_DST
	KindDNSUDP      Kind = "dns-udp"     // name server over UDP
	KindDNSTCP      Kind = "dns-tcp"     // name server over TCP
	KindSOCKS       Kind = "socks"       // SOCKS5 (1080/tcp)
)

// Config is everything one proxy is told. It crosses the process border as one
// line of JSON on standard input, so secrets are in no argument list, no
// environment and on no disk.
type Config struct {
	RunID     string     `json:"runID"`               // 8 hex characters
	Policy    string     `json:"policy"`              // the policy document (YAML or JSON; the canonical form is JSON)
	Secrets   []Secret   `json:"secrets,omitempty"`   // one for every secret that the policy names
	Upstream  Upstream   `json:"upstream"`            //
	Listeners []Listener `json:"listeners,omitempty"` // for Main; New ignores it
	Limits    Limits     `json:"limits"`              // zero members mean the default
	Broker    *Broker    `json:"broker,omitempty"`    // nil without token broker
	Clients   []string   `json:"clients,omitempty"`   // addresses or prefixes whose connections are accepted; empty means any
	Breaks    Breaks     `json:"breaks"`              // empty struct unless built with the tag "breaks"

	// OnEvent receives every event of a Server made by New, one at a time. Nil
	// drops them. Main sets it.
	OnEvent func(Event) `json:"-"`
	// Dial opens upstream connections to the addresses that were classified;
	// nil means a plain net.Dialer. Tests record here what is dialled.
	Dial func(ctx context.Context, network, address string) (net.Conn, error) `json:"-"`
	// OriginalDst replaces SO_ORIGINAL_DST; nil means the kernel's word.
	OriginalDst func(net.Conn) (net.Addr, error) `json:"-"`
	// Now is the clock; nil means time.Now.
	Now func() time.Time `json:"-"`
}

// Secret is a resolved secret. Value is at least redact.MinSecret bytes, as a
// shorter one cannot be redacted without harm.
type Secret struct {
	Name        string `json:"name"`
	Value       string `json:"value"`
	Placeholder string `json:"placeholder,omitempty"` // what the sandbox holds in its place; see NewPlaceholder
}

// Upstream says how the world outside is reached.
type Upstream struct {
	RootsPEM string `json:"rootsPEM,omitempty"` // trusted upstream authorities; empty means the system's
	// Resolver is the name server "ip:port" that allowed names are looked up at;
	// empty means the first ones of /etc/resolv.conf.
	Resolver string `json:"resolver,omitempty"`
	// Resolve pins "host:port" (or "host") to "ip" or "ip:port", before any
	// lookup. The address still has to pass the policy's second gate.
	Resolve map[string]string `json:"resolve,omitempty"`
}

// Listener is an inherited socket: the FD-th file of those handed over, from 0.
type Listener struct {
	Kind Kind `json:"kind"`
	FD   int  `json:"fd"`
}

// Broker configures GitHub-App-style leases. The policy says which hosts and
// repositories are brokered; this says with which key.
type Broker struct {
	AppID         string `json:"appID"`
	PrivateKeyPEM string `json:"privateKeyPEM"` // RSA, PKCS #1 or PKCS #8
}

// Ready is the first line that Main writes.
type Ready struct {
	Type  string `json:"type"`  // "ready"
	CAPEM string `json:"caPEM"` // the run's certificate authority
	// PolicyHash is policy.Hash of what is enforced.
	PolicyHash string `json:"policyHash"`
	// Enforcement is "enforced" or "nothing-to-enforce".
	Enforcement string `json:"enforcement"`
}
