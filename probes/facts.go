package probes

import (
	"net/netip"

	"github.com/wallproof/wallproof/probes/nonce"
)

// Facts is what an attempt is told about the place it runs in. The battery
// fills it, for each phase and sandbox; nothing in it says which phase it is,
// so that an attempt cannot behave differently in its control. A member that
// does not apply is left empty, and the planner then leaves out the techniques
// that need it.
type Facts struct {
	IPv6     bool     `json:"ipv6"`     // the sandbox has a routed IPv6 address
	Self     Pair     `json:"self"`     // the sandbox's own addresses
	Gateway  Pair     `json:"gateway"`  // the router's addresses on the sandbox's link
	Bridge   Pair     `json:"bridge"`   // the next hop behind the gateway, where in the control a witness answers
	Beside6  string   `json:"beside6"`  // an address of the sandbox's own IPv6 network that is nobody's
	Local6   string   `json:"local6"`   // a link-local one, likewise
	Proxy    Pair     `json:"proxy"`    // explicit HTTP proxy, "address:port"
	SOCKS    Pair     `json:"socks"`    // SOCKS5 proxy, "address:port"
	Resolver Pair     `json:"resolver"` // resolver, "address:port"
	CAFile   string   `json:"caFile"`   // per-run CA inside the sandbox
	Outside  Outside  `json:"outside"`  // the world beyond the wall
	Names    Names    `json:"names"`    // names that resolve to addresses of interest
	Allowed  Target   `json:"allowed"`  // a host that the policy lets through
	Crosses  []Cross  `json:"crosses"`  // secrets, each with an allowed host that it is not for
	Blocked  Blocked  `json:"blocked"`  // things beside it that the policy refuses
	Injected Secret   `json:"injected"` // a secret that the proxy holds for a host
	Other    Secret   `json:"other"`    // a second one, for another host
	Broker   Broker   `json:"broker"`   // brokered git leases
	Tenant   Tenant   `json:"tenant"`   // the second tenant's sandbox
	Model    Model    `json:"model"`    // the model's route
	Platform Platform `json:"platform"` // what runs the sandbox
	Agent    Agent    `json:"agent"`    // what the obedient agent works on
	Local    Local    `json:"local"`    // places inside the sandbox
	Searches []string `json:"searches"` // further folders to search for canaries
	// Strangers are requests that the policy refuses and that may get through:
	// Prefix is the whole path.
	Strangers []Target `json:"strangers"`
	Gaps      []Gap    `json:"gaps"` // what the packet filter's rules in force let through
	// Opened are address ranges that the proxy says it lets through, beyond the policy
	// under test.
	Opened []netip.Prefix `json:"opened,omitempty"`
	// Twin is what a sandbox restored from the same snapshot has drawn of random bytes,
	// as digests by source.
	Twin map[string]string `json:"twin,omitempty"`
	// Pinned is the authority, in PEM, that alone signs the certificates of the world's
	// hosts.
	Pinned string `json:"pinned"`
	// ProxyPages are paths of pages that the proxy says are its own, and ProxyFields
	// the fields by which it says it tells whose request one is.
	ProxyPages  []string `json:"proxyPages,omitempty"`
	ProxyFields []string `json:"proxyFields,omitempty"`
	// Placeholders stand in the places of secrets, whatever shape they have.
	Placeholders []string `json:"placeholders"`
}

// Gap is a destination that a rule of the packet filter lets through.
type Gap struct {
	Proto string       `json:"proto"` // tcp, udp or icmp
	To    netip.Prefix `json:"to"`
	Port  int          `json:"port"`
}

// Pair is one thing in both address families: an address or "address:port",
// with brackets around an IPv6 address that has a port.
type Pair struct {
	V4 string `json:"v4,omitempty"`
	V6 string `json:"v6,omitempty"`
}

// Outside says which of the world's addresses and names are the attacker's.
type Outside struct {
	// Suffix is a domain that the policy does not allow and whose names the
	// world's DNS resolves; an attempt asks for <nonce>.<Suffix>.
	Suffix string `json:"suffix"`
	// V4 and V6 are prefixes of public-looking addresses that no name that the
	// policy allows resolves to; nonce.AddrFor picks an attempt's own.
	V4 netip.Prefix `json:"v4"`
	V6 netip.Prefix `json:"v6"`
}

// Default prefixes for Outside. They are ordinary public addresses on purpose:
// the documentation ranges are refused as such, which would hide a policy that
// lets public addresses through. No packet to them ever leaves the phase's own
// namespaces.
var (
	DefaultOutside4 = nonce.Outside4
	DefaultOutside6 = nonce.Outside6
)

// Names are domains of which every name below resolves, in the world's DNS, to
// the addresses named here. They lie below a domain that the policy allows where
// it allows one (Target.Wildcard), so that only the second gate, the address, can
// refuse; else below Outside.Suffix. An attempt asks for <nonce>.<domain>.
type Names struct {
	Metadata string `json:"metadata"` // 169.254.169.254 and fd00:ec2::254
	Private  string `json:"private"`  // 10.20.30.40 and fd12:3456:789a::40
	Loopback string `json:"loopback"` // 127.0.0.1 and ::1
	Rebind   string `json:"rebind"`   // first an address of Outside, at every later question 169.254.169.254
	Mixed    string `json:"mixed"`    // an address of Outside and 169.254.169.254 in one answer
}

// Target is a host that the policy allows, with one request to it that the
// policy allows too.
type Target struct {
	Scheme string `json:"scheme"` // "https" or "http"
	Host   string `json:"host"`   // a name, without port
	Port   int    `json:"port"`
	Method string `json:"method"` // a method that is allowed, e.g. "GET"
	Prefix string `json:"prefix"` // path prefix under which paths.Build's paths are allowed, "" for all
	Addr   Pair   `json:"addr"`   // what the world's DNS says its addresses are
	Write  bool   `json:"write"`  // POST and PUT are allowed

	// Wildcard is a domain below which every name is allowed, "" if none.
	Wildcard string `json:"wildcard,omitempty"`
}

// Cross is an allowed host, and what stands for a secret that is not for it.
type Cross struct {
	Target
	Header      string `json:"header"` // the whole field that carries it, e.g. "Authorization: Bearer <placeholder>"
	Placeholder string `json:"placeholder"`
}

// Blocked is what the policy refuses close to what it allows.
type Blocked struct {
	Host   string `json:"host"`   // a host that it names as blocked, "" if none
	Addr   Pair   `json:"addr"`   // its addresses in the world's DNS
	Path   string `json:"path"`   // a path at Target's host that it refuses, "" if none, e.g. "/private/"
	Method string `json:"method"` // a method at Target's host that it refuses, "" if none
	// Paths are all that it refuses at Target's host by entries of their own.
	Paths  []string `json:"paths,omitempty"`
	Port   int      `json:"port"`   // a port of Target's host that it refuses
	Scheme string   `json:"scheme"` // a scheme of Target's host that it refuses, "" if none
}

// Secret is a secret that lives at the proxy. In the control there is no swap:
// Placeholder is then the canary itself.
type Secret struct {
	Scheme      string `json:"scheme"`
	Host        string `json:"host"`
	Port        int    `json:"port"`
	Prefix      string `json:"prefix"`      // path prefix for which it is injected
	Header      string `json:"header"`      // header field that carries it, e.g. "Authorization"
	Value       string `json:"value"`       // that field's value as the sandbox sends it, e.g. "Bearer <placeholder>"
	Placeholder string `json:"placeholder"` // what stands in the sandbox in the secret's place
	Env         string `json:"env"`         // variable that holds the placeholder, e.g. "GITHUB_TOKEN"
	Addr        Pair   `json:"addr"`
}

// Broker is the brokered git edge. URLs are https and hold no credential.
type Broker struct {
	Repo      string `json:"repo"`      // repository that leases are for
	OtherRepo string `json:"otherRepo"` // repository at the same forge that they are not for
	Ref       string `json:"ref"`       // a ref that the lease may push, e.g. "refs/heads/agent/work"
	OtherRef  string `json:"otherRef"`  // one that it may not, e.g. "refs/heads/main"
	// LetRefs are refs, or patterns with one trailing "*", that the proxy says it lets be
	// pushed and that the lease may not: none, where the wall is the one that was meant.
	LetRefs []string `json:"letRefs,omitempty"`
	// LetRepos are further repositories that the proxy says it lets be pushed to and that
	// no lease of the policy is for: none, likewise.
	LetRepos    []string `json:"letRepos,omitempty"`
	Placeholder string   `json:"placeholder"` // what the sandbox uses for the token; the canary in the control
	API         string   `json:"api"`         // base URL of the forge's HTTP API
}

// Tenant is the neighbour: a second sandbox that belongs to somebody else.
type Tenant struct {
	Addr        Pair   `json:"addr"`
	Port        int    `json:"port"`        // TCP and UDP port on which it answers
	Proxy       Pair   `json:"proxy"`       // its explicit proxy, "address:port"
	SOCKS       Pair   `json:"socks"`       // its SOCKS5 proxy, "address:port"
	Name        string `json:"name"`        // host name
	ID          string `json:"id"`          // sandbox id
	Identity    string `json:"identity"`    // what it says it is to the proxy
	Placeholder string `json:"placeholder"` // placeholder of its own secret; its canary in the control
	Host        string `json:"host"`        // host for which its secret is injected
	Shared      string `json:"shared"`      // folder that the control shares with it
	Socket      string `json:"socket"`      // abstract socket name that it listens on, without the NUL
	CA          string `json:"ca"`          // authority of its proxy, in PEM
	ControlAPI  string `json:"controlApi"`  // base URL of the sandboxes' control API, "" if none is known
}

// Model is the model's route.
type Model struct {
	URL         string `json:"url"`         // base URL
	Placeholder string `json:"placeholder"` // the proxy key that stands in for the provider's
	Name        string `json:"name"`        // a model that the policy allows
	Host        string `json:"host"`        // the provider's host, "" where the policy lets anybody ask it
	Addr        Pair   `json:"addr"`        // its addresses in the world's DNS
}

// Platform is what runs the sandbox: its control API, and the cache whose tags mean
// that something has been built. URLs have no final slash.
type Platform struct {
	API       string `json:"api"`
	APIAddr   Pair   `json:"apiAddr"`
	Cache     string `json:"cache"`
	CacheAddr Pair   `json:"cacheAddr"`
}

// Agent is what the obedient agent works on.
type Agent struct {
	Workspace string `json:"workspace"` // folder of the checked-out repository
	SecretEnv string `json:"secretEnv"` // variable with the credential (a canary in the control, else a placeholder)
	SecretIn  string `json:"secretIn"`  // workspace file with the credential, likewise

	// With a model, that decides what is run, and not the obedient agent. It is
	// asked at Facts.Model.URL with Facts.Model.Placeholder as its key.
	Model string `json:"model,omitempty"` // its id, "" for none
	API   string `json:"api,omitempty"`   // "openai" or "anthropic"
	Mark  string `json:"mark,omitempty"`  // stands in every request of a conversation
}

// Local names places inside the sandbox.
type Local struct {
	ProbeMount string `json:"probeMount"` // mount that holds the probe itself, never searched
	Shared     string `json:"shared"`     // where the control mounts what must not be shared
	HostMount  string `json:"hostMount"`  // where the control mounts a host folder
	HostKernel bool   `json:"hostKernel"` // the kernel inside is the host's
	Image      string `json:"image"`      // the image's configuration, as its registry hands it out
	// Layers is what of interest was found in the image's layers, upper layers not
	// hiding anything; AtRest what was found in the files of the checkpoint.
	Layers string `json:"layers,omitempty"`
	AtRest string `json:"atRest,omitempty"`
	// Since is when the sandbox's files were made at the earliest, in milliseconds of
	// Unix time: what is older came with the image.
	Since int64 `json:"since,omitempty"`
	// HostNamespaces are the host's own, as the links of /proc/self/ns name them.
	HostNamespaces map[string]string `json:"hostNamespaces,omitempty"`
}
