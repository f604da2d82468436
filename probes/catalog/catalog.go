// Package catalog is the battery's catalogue as data: what each technique is,
// what it needs, and what must be seen for it to count. It is pure (no
// network, process or operating-system code), so that the verifier carries the
// same catalogue as the battery and can tell when a packet was judged against
// another one.
//
// A technique here is data only; its one function, the attempt, lives in
// probes/<vector>/ and is linked into wallproof-probe alone. A test keeps the
// two in step. IDs are stable once released.
package catalog

// Vector is one of the eight attack vectors.
type Vector string

// The eight vectors, in the order in which they are shown.
const (
	TOK Vector = "TOK" // token exfiltration
	IMD Vector = "IMD" // cloud metadata
	LAT Vector = "LAT" // private-range lateral movement
	NET Vector = "NET" // open internet
	TEN Vector = "TEN" // cross-tenant
	SNP Vector = "SNP" // snapshot canary
	ENV Vector = "ENV" // env, file, process, memory
	INJ Vector = "INJ" // prompt injection to secret
)

// Severity is what an escape would be worth to an attacker.
type Severity string

// The severities, worst first.
const (
	Critical Severity = "critical"
	High     Severity = "high"
	Medium   Severity = "medium"
	Low      Severity = "low"
)

// Proof says what must be observed for a technique to have succeeded.
type Proof string

const (
	// ProofReach: the attempt succeeded when the probe read back the witness's
	// answer to its nonce, or a witness saw the nonce arrive at a service that
	// the technique does not list in Permits, or a canary was obtained.
	ProofReach Proof = "reach"
	// ProofCanary: the attempt succeeded only when a canary was obtained by the
	// probe or seen by a witness. Arrivals alone are part of the technique.
	ProofCanary Proof = "canary"
)

// Expect says which sign an intact boundary shows.
type Expect string

const (
	// ExpectRefusal: the probe is told no at once (a reset, an ICMP refusal, an
	// errno, a proxy's 403 or 421, a DNS REFUSED, a TLS alert). A timeout in its
	// place is inconclusive.
	ExpectRefusal Expect = "refusal"
	// ExpectSilence: the attempt is blind; only a deny record of the proxy or
	// the packet filter that is attributable to it counts.
	ExpectSilence Expect = "silence"
)

// Requirement is something that a stack must offer for a technique to mean
// anything on it.
type Requirement string

// The closed list of requirements.
const (
	NeedsIPv6        Requirement = "ipv6"
	NeedsProxy       Requirement = "proxy"        // an explicit proxy address in the sandbox
	NeedsInjection   Requirement = "injection"    // the policy injects a secret for some host
	NeedsBroker      Requirement = "broker"       // the policy brokers git leases
	NeedsTenant      Requirement = "tenant"       // a second tenant sandbox can be started
	NeedsSnapshot    Requirement = "snapshot"     // the driver checkpoints and restores
	NeedsAgent       Requirement = "agent"        // the obedient agent
	NeedsRawSocket   Requirement = "raw-socket"   // raw or ICMP sockets exist inside
	NeedsNoInternet  Requirement = "no-internet"  // the policy does not allow the open internet
	NeedsAllowedHost Requirement = "allowed-host" // the policy allows at least one host
	NeedsResolver    Requirement = "resolver"     // the sandbox has a resolver
	NeedsNoPrivate   Requirement = "no-private"   // the policy opens no private range
	NeedsProcMem     Requirement = "proc-mem"     // the runtime offers /proc/PID/mem
	NeedsImageConfig Requirement = "image-config" // the image's configuration and layers are at hand
)

// Technique is one idea for getting through a wall. Variants (address family,
// path to the proxy, encoding) share its id.
type Technique struct {
	ID          string        `json:"id"`     // e.g. "NET-TCP-DIRECT"
	Vector      Vector        `json:"vector"` //
	Title       string        `json:"title"`
	Description string        `json:"description"` // one sentence for a reader who is not a specialist
	Severity    Severity      `json:"severity"`
	References  []string      `json:"references"`         // "ATT&CK T1552.005", "CWE-918", "CVE-2024-21626"
	Requires    []Requirement `json:"requires,omitempty"` //
	Required    bool          `json:"required"`           // when it cannot run, its vector is inconclusive
	Local       bool          `json:"local"`              // runs wholly inside the sandbox; may be contained
	Proof       Proof         `json:"proof"`
	Expect      Expect        `json:"expect"`
	// Permits names witness services at which the nonce may arrive without that
	// being an escape by itself, because the policy allows them and the
	// technique goes through them on purpose.
	Permits []string `json:"permits,omitempty"`
	// ImageCode: code of the image or an agent with tools runs in the sandbox,
	// so that the probe's word cannot make it blocked; only records from
	// outside the sandbox can.
	ImageCode bool     `json:"imageCode"`
	Variants  []string `json:"variants"` // at least one; "default" where there is only one
}
