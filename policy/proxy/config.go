package proxy

import (
	"context"
	"net"
	"net/netip"
	"time"

	"github.com/wallproof/wallproof/policy"
	"github.com/wallproof/wallproof/policy/proxy/confine"
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
	RunID    string   `json:"runID"`             // 8 hex characters
	Policy   string   `json:"policy"`            // the policy document (YAML or JSON; the canonical form is JSON)
	Secrets  []Secret `json:"secrets,omitempty"` // one for every secret that the policy names
	Upstream Upstream `json:"upstream"`          //
	Limits   Limits   `json:"limits"`            // zero members mean the default
	// BrokerKeys are the GitHub App private keys (RSA, PEM) by the broker's name.
	BrokerKeys map[string]string `json:"brokerKeys,omitempty"`
	// Egress is the agent that the run's traffic leaves from; nil for the proxy
	// itself.
	Egress *Egress `json:"egress,omitempty"`
	// Agent makes this the egress agent's own Server: it has no secrets, injects
	// nothing, and serves KindAgent.
	Agent bool `json:"agent,omitempty"`
	// ModelKey is the run's own key for the model: the sandbox holds it in the
	// place of the provider's. See NewModelKey.
	ModelKey string `json:"modelKey,omitempty"`
	// Services are the addresses of the run's own services, by name.
	Services map[string]string `json:"services,omitempty"`
	// Phase selects the policy of set-up or verifier; empty is the agent's.
	Phase   policy.Phase `json:"phase,omitempty"`
	Clients []string     `json:"clients,omitempty"` // addresses or prefixes whose connections are accepted; empty means any
	// Selective: the sandbox's hosts file leads the names that the policy is about to
	// the transparent listener's own address, and nothing else comes here.
	Selective bool   `json:"selective,omitempty"`
	Breaks    Breaks `json:"breaks"` // empty struct unless built with the tag "breaks"

	// OnEvent receives every event of a Server made by New, one at a time. Nil
	// drops them. Main sets it.
	OnEvent func(Event) `json:"-"`
	// Dial opens upstream connections to the addresses that were classified;
	// nil means a plain net.Dialer. Tests record here what is dialled.
	Dial func(ctx context.Context, network, address string) (net.Conn, error) `json:"-"`
	// OriginalDst replaces SO_ORIGINAL_DST; nil means the kernel's word.
	OriginalDst func(net.Conn) (netip.AddrPort, error) `json:"-"`
	// OnPanic receives what a contained panic said; nil drops it, as it may hold
	// a request's content.
	OnPanic func(any) `json:"-"`
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
	// SystemRoots trusts the system's authorities beside RootsPEM.
	SystemRoots bool `json:"systemRoots,omitempty"`
	// Resolver is the name server "ip:port" that allowed names are looked up at;
	// empty means the first ones of /etc/resolv.conf.
	Resolver string `json:"resolver,omitempty"`
	// Resolve pins "host:port" (or "host") to "ip" or "ip:port", before any
	// lookup. The address still has to pass the policy's second gate.
	Resolve map[string]string `json:"resolve,omitempty"`
}

// MaxLets bounds Ready.Lets.
const MaxLets = 512

// Let is a request that an entry of the policy in force is about.
type Let struct {
	Scheme string `json:"scheme"`
	Host   string `json:"host"`
	Port   uint16 `json:"port"`
	Method string `json:"method"`
	Path   string `json:"path"`
}

// Push is a ref of a repository, or a pattern of refs, that may be pushed.
type Push struct {
	Repository string `json:"repository"` // "owner/name"
	Ref        string `json:"ref"`        // full, exact or with one trailing "*"
}

// Ready is what the process says once it serves.
type Ready struct {
	CAPEM        string `json:"caPEM"`        // the run's certificate authority
	PolicyDigest string `json:"policyDigest"` // of what is enforced
	Enforcement  string `json:"enforcement"`  // "enforced" or "nothing-to-enforce"
	// Lets are requests that it would let through, by its own account: one for each
	// entry and each injection rule, at most MaxLets.
	Lets []Let `json:"lets,omitempty"`
	// Pushes are the refs, or patterns of refs, that it leases pushes for, by its own
	// account, at most MaxLets.
	Pushes []Push `json:"pushes,omitempty"`
	// Pages are the paths of pages of the proxy's own, and Believed the fields of a
	// request that tell it whose request it is, by its own account. It has none.
	Opens    []string `json:"opens,omitempty"` // special ranges that it dials, unnamed by the policy: none
	Pages    []string `json:"pages,omitempty"`
	Believed []string `json:"believed,omitempty"`
	// Confinement is what the process has given up for good.
	Confinement confine.Facts `json:"confinement"`
}
