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

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"
)

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
	// ProofCondition: the technique checks whether a wall is there at all, and
	// succeeded when the probe found that it is not. It obtains nothing.
	ProofCondition Proof = "condition"
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
	NeedsIPv6           Requirement = "ipv6"
	NeedsProxy          Requirement = "proxy"           // an explicit proxy address in the sandbox
	NeedsInjection      Requirement = "injection"       // the policy injects a secret for some host
	NeedsBroker         Requirement = "broker"          // the policy brokers git leases
	NeedsTenant         Requirement = "tenant"          // a second tenant sandbox can be started
	NeedsSnapshot       Requirement = "snapshot"        // the driver checkpoints and restores
	NeedsAgent          Requirement = "agent"           // the obedient agent
	NeedsRawSocket      Requirement = "raw-socket"      // raw IP sockets can be opened inside
	NeedsPing           Requirement = "ping"            // ICMP echo requests can be sent from inside
	NeedsNoInternet     Requirement = "no-internet"     // the policy does not allow the open internet
	NeedsAllowedHost    Requirement = "allowed-host"    // the policy allows at least one host
	NeedsResolver       Requirement = "resolver"        // the sandbox has a resolver
	NeedsNoPrivate      Requirement = "no-private"      // the policy opens no private range
	NeedsProcMem        Requirement = "proc-mem"        // the runtime offers /proc/PID/mem
	NeedsImageConfig    Requirement = "image-config"    // the image's configuration and layers are at hand
	NeedsSocks          Requirement = "socks"           // a SOCKS5 proxy address in the sandbox
	NeedsSecondHost     Requirement = "second-host"     // the policy allows another host than the one that the secret is for, and injects nothing there
	NeedsWrite          Requirement = "write"           // the policy allows a request with a body at an allowed host
	NeedsBlockedPath    Requirement = "blocked-path"    // the policy refuses a path at a host that it allows
	NeedsWildcard       Requirement = "wildcard"        // the policy allows names below a domain
	NeedsModel          Requirement = "model"           // the policy has a model's route
	NeedsControlAPI     Requirement = "control-api"     // the fabric's control API has an address that the sandbox could ask
	NeedsNoMetadata     Requirement = "no-metadata"     // the policy opens no metadata service
	NeedsIoUring        Requirement = "io-uring"        // the kernel offers io_uring
	NeedsBlockedHost    Requirement = "blocked-host"    // the policy blocks some host by name
	NeedsRefusedHost    Requirement = "refused-host"    // the policy refuses some host of the internet
	NeedsBlockedPort    Requirement = "blocked-port"    // the policy refuses some port of a host that it allows
	NeedsBlockedMethod  Requirement = "blocked-method"  // the policy refuses some method at a host that it allows
	NeedsBlockedScheme  Requirement = "blocked-scheme"  // the policy refuses plain HTTP to a host that it allows
	NeedsPacketSocket   Requirement = "packet-socket"   // link-layer sockets can be opened inside
	NeedsUserNS         Requirement = "user-namespace"  // a process inside can make a user namespace
	NeedsQueues         Requirement = "message-queues"  // POSIX message queues
	NeedsVsock          Requirement = "vsock"           // vsock sockets can be opened inside
	NeedsKeyring        Requirement = "keyring"         // the kernel's keyrings can be used inside
	NeedsInspection     Requirement = "inspection"      // the policy has a rule at the allowed host that needs sight of its requests
	NeedsRoot           Requirement = "root"            // processes inside run as uid 0
	NeedsSharedKernel   Requirement = "shared-kernel"   // the sandbox has the host's kernel
	NeedsPtrace         Requirement = "ptrace"          // processes can be traced inside
	NeedsProcessVM      Requirement = "process-vm"      // process_vm_readv can be called inside
	NeedsPidfd          Requirement = "pidfd"           // a process's descriptors can be taken over inside (pidfd_getfd)
	NeedsOnLink         Requirement = "on-link"         // a socket can be kept to its own network segment, past all routes
	NeedsPageCache      Requirement = "page-cache"      // the kernel tells which pages of a file are in memory
	NeedsSecurityModule Requirement = "security-module" // the kernel's security modules label processes
	NeedsAuthorities    Requirement = "authorities"     // each tenant's proxy has a certificate authority of its own
)

// OfPolicy reports whether the policy alone tells if a requirement is met. A
// technique that an edge of the policy makes meaningless leaves nothing untested:
// there is no such edge to get through.
func (r Requirement) OfPolicy() bool {
	switch r {
	case NeedsInjection, NeedsBroker, NeedsNoInternet, NeedsAllowedHost, NeedsNoPrivate, NeedsSecondHost, NeedsWrite, NeedsBlockedPath,
		NeedsWildcard, NeedsModel, NeedsNoMetadata, NeedsBlockedPort, NeedsBlockedMethod, NeedsBlockedScheme, NeedsBlockedHost, NeedsRefusedHost, NeedsInspection:
		return true
	}
	return false
}

// Fact names the fact that wallproof-probe measures inside a sandbox (package
// probes/isolation) and that tells whether a requirement is met: it is then
// "yes". It is "" for requirements that something else tells.
func (r Requirement) Fact() string {
	switch r {
	case NeedsRawSocket:
		return "rawSocket"
	case NeedsPing:
		return "ping"
	case NeedsPacketSocket:
		return "packetSocket"
	case NeedsProcMem:
		return "procMem"
	case NeedsIoUring:
		return "ioUring"
	case NeedsUserNS:
		return "userNamespace"
	case NeedsQueues:
		return "messageQueues"
	case NeedsVsock:
		return "vsock"
	case NeedsKeyring:
		return "keyring"
	case NeedsPtrace:
		return "ptrace"
	case NeedsProcessVM:
		return "processVM"
	case NeedsPidfd:
		return "pidfd"
	case NeedsPageCache:
		return "pageCache"
	case NeedsSecurityModule:
		return "securityModule"
	case NeedsOnLink:
		return "onLink"
	}
	return ""
}

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
	// Local: it may be contained. It runs wholly inside the sandbox, or over paths
	// that a policy may allow, and only what it obtains counts: to have run and
	// obtained nothing usable is a result.
	Local  bool   `json:"local"`
	Proof  Proof  `json:"proof"`
	Expect Expect `json:"expect"`
	// Permits names witness services at which the nonce may arrive without that
	// being an escape by itself, because the policy allows them and the
	// technique goes through them on purpose.
	Permits []string `json:"permits,omitempty"`
	// ImageCode: code of the image or an agent with tools runs in the sandbox,
	// so that the probe's word cannot make it blocked; only records from
	// outside the sandbox can.
	ImageCode bool     `json:"imageCode"`
	Variants  []string `json:"variants"` // at least one; "default" where there is only one
	Stage     Stage    `json:"stage"`    // in which sandbox it runs; StageOf tells for a variant
	// Alone: it changes the sandbox's state for others, so nothing runs beside it.
	Alone bool `json:"alone,omitempty"`
	// Precondition: it checks for the conditions of an attack that cannot be
	// attempted harmlessly, and does not make the attack itself.
	Precondition bool `json:"precondition,omitempty"`
}

// Stage says in which sandbox of a phase a technique runs.
type Stage string

// The stages.
const (
	StageWork     Stage = "work"     // the sandbox under test
	StageAgent    Stage = "agent"    // a sandbox of its own, in which wallproof-agent works
	StageImage    Stage = "image"    // a sandbox of its own, in which the image's program runs beside the probe
	StageFresh    Stage = "fresh"    // a new sandbox, started after a prior run held canaries
	StageRestored Stage = "restored" // a sandbox restored from a checkpoint of the prior run's lineage
)

// Variants. A network variant is a way to the target and an address family,
// "direct-v4"; the family is that of the target and of every hop on the way.
const (
	VariantDefault  = "default"
	VariantFresh    = "fresh"
	VariantRestored = "restored"

	DirectV4   = "direct-v4"   // a socket to the target itself
	DirectV6   = "direct-v6"   //
	AbsoluteV4 = "absolute-v4" // through the proxy, absolute-form request target
	AbsoluteV6 = "absolute-v6" //
	ConnectV4  = "connect-v4"  // through the proxy, CONNECT
	ConnectV6  = "connect-v6"  //
	SocksV4    = "socks-v4"    // through the proxy, SOCKS5
	SocksV6    = "socks-v6"    //
	FirstV4    = "first-v4"    // a socket to the target itself, by the sandbox's first process before it does anything else
	FirstV6    = "first-v6"    //
)

// StageOf returns the stage of one variant: the snapshot techniques run once in
// a fresh sandbox and once in a restored one.
func (t Technique) StageOf(variant string) Stage {
	switch variant {
	case VariantFresh:
		return StageFresh
	case VariantRestored:
		return StageRestored
	}
	return t.Stage
}

// RequiresOf returns everything that one variant requires: the technique's own
// requirements and those of the variant's family and path.
func (t Technique) RequiresOf(variant string) []Requirement {
	out := slices.Clone(t.Requires)
	add := func(r Requirement) {
		if !slices.Contains(out, r) {
			out = append(out, r)
		}
	}
	if strings.HasSuffix(variant, "-v6") {
		add(NeedsIPv6)
	}
	switch {
	case strings.HasPrefix(variant, "absolute-"), strings.HasPrefix(variant, "connect-"):
		add(NeedsProxy)
	case strings.HasPrefix(variant, "socks-"):
		add(NeedsSocks)
	case variant == VariantRestored:
		add(NeedsSnapshot)
	}
	return out
}

// Vectors returns the eight vectors in the order in which they are shown.
func Vectors() []Vector { return []Vector{TOK, IMD, LAT, NET, TEN, SNP, ENV, INJ} }

// VectorTitle returns a vector's name for a reader.
func VectorTitle(v Vector) string {
	switch v {
	case TOK:
		return "Token exfiltration"
	case IMD:
		return "Cloud metadata"
	case LAT:
		return "Private-range lateral movement"
	case NET:
		return "Open internet"
	case TEN:
		return "Cross-tenant"
	case SNP:
		return "Snapshot canary"
	case ENV:
		return "Env, file, process, memory"
	case INJ:
		return "Prompt injection to secret"
	}
	return string(v)
}

// VectorSeverity returns a vector's catalogue severity.
func VectorSeverity(v Vector) Severity {
	switch v {
	case LAT, SNP:
		return High
	case ENV:
		return Medium
	}
	return Critical
}

// All returns the whole catalogue, vector by vector, in the order in which it is
// shown. The caller owns the result.
func All() []Technique {
	var out []Technique
	for _, list := range [][]Technique{tok(), imd(), lat(), net(), ten(), snp(), env(), inj()} {
		out = append(out, list...)
	}
	return out
}

// Lookup returns the technique with an id.
func Lookup(id string) (Technique, bool) {
	for _, t := range All() {
		if t.ID == id {
			return t, true
		}
	}
	return Technique{}, false
}

// Digest names the catalogue: "sha256:" and the SHA-256 of its canonical JSON
// (RFC 8785) as an array of techniques.
func Digest() string {
	sum := sha256.Sum256(canonical(All()))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// canonical is RFC 8785 for what a catalogue can hold: ASCII member names,
// strings, booleans and arrays, no numbers. Going through a map sorts members.
func canonical(list []Technique) []byte {
	raw, err := json.Marshal(list)
	if err != nil {
		panic("catalog: " + err.Error())
	}
	var generic any
	if err := json.Unmarshal(raw, &generic); err != nil {
		panic("catalog: " + err.Error())
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(generic); err != nil {
		panic("catalog: " + err.Error())
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n"))
}
