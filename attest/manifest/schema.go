package manifest

// Schema names the format of a manifest. An unknown one is refused.
const Schema = "wallproof.manifest/v1"

// Entry types, the value of every line's member "type".
const (
	TypeRun       = "run"
	TypeTechnique = "technique"
	TypeTerminal  = "terminal"
)

// Run is entry 0: what ran, where, under which policy, measured and not
// assumed.
type Run struct {
	Seq           int64       `json:"seq"`
	Prev          string      `json:"prev"`
	Type          string      `json:"type"`
	Schema        string      `json:"schema"`
	RunID         string      `json:"runId"`
	Image         Image       `json:"image"`
	PolicyDigest  string      `json:"policyDigest"` // "sha256:…" over policy.canonical.json
	Driver        Driver      `json:"driver"`
	Proxy         Proxy       `json:"proxy"`
	ProbeDigest   string      `json:"probeDigest"`
	CatalogDigest string      `json:"catalogDigest"`
	Tool          Tool        `json:"tool"`
	Host          Host        `json:"host"`
	Enforcement   Enforcement `json:"enforcement"`
	Admission     *Admission  `json:"admission,omitempty"` // absent: no admission policy was configured
	Selection     *Selection  `json:"selection,omitempty"` // absent: the whole catalogue was run
	Series        *Series     `json:"series,omitempty"`    // absent: a run by itself
	Sandboxes     []Wired     `json:"sandboxes,omitempty"` // what each sandbox of the attack was wired with
	Substitutions []string    `json:"substitutions"`       // what stood in for the real thing during the test
	Started       string      `json:"started"`             // RFC 3339, UTC, milliseconds
}

// Image is the image under test. Digest is always the platform manifest that
// ran; IndexDigest is the index it was chosen from, or "".
type Image struct {
	Reference   string `json:"reference"`
	Digest      string `json:"digest"`
	IndexDigest string `json:"indexDigest,omitempty"`
	Platform    string `json:"platform"`
}

// Driver is the sandbox fabric. Isolation holds facts measured inside.
type Driver struct {
	Name         string            `json:"name"`
	Version      string            `json:"version"`
	ConfigDigest string            `json:"configDigest"`
	Isolation    map[string]string `json:"isolation"`
}

// Proxy is the enforcing proxy. Placement says where it runs relative to the
// agent: "outside-sandbox" where no sandbox shares its namespaces.
type Proxy struct {
	Name         string `json:"name,omitempty"`     // whose it is: "squid", "mitmproxy"; absent: Wallproof's own
	Version      string `json:"version"`            // of a foreign one as it says itself
	ConfigDigest string `json:"configDigest"`       // "sha256:…"
	CADigest     string `json:"caDigest,omitempty"` // "sha256:…" over the certificate of a foreign one's authority; absent: none, or one made for the run
	Placement    string `json:"placement"`
}

// Tool is the build of Wallproof that recorded the run.
type Tool struct {
	Version string `json:"version"`
	Commit  string `json:"commit,omitempty"`
}

// Host holds the facts of the host that matter to a reader of the evidence.
type Host struct {
	Kernel string `json:"kernel"`
	Arch   string `json:"arch"`
}

// Enforcement states. Only EnforcementEnforced supports a claim.
const (
	EnforcementEnforced = "enforced"
	EnforcementNothing  = "nothing-to-enforce"
	EnforcementFailed   = "failed"
)

// Enforcement says whether the policy was in force, and why if not.
type Enforcement struct {
	State  string `json:"state"`
	Reason string `json:"reason,omitempty"`
}

// Admission states.
const (
	AdmissionAdmitted      = "admitted"
	AdmissionNotConfigured = "not-configured"
)

// Admission says under which supply-chain policy the image was let in. An image
// that is not admitted does not run, so there is no third state.
type Admission struct {
	State        string `json:"state"`
	PolicyDigest string `json:"policyDigest,omitempty"`
	Detail       string `json:"detail,omitempty"` // e.g. the key or identity that vouched for it
}

// Selection is what the operator asked for in place of the whole catalogue. What
// it leaves out has no entry, so that no vector that it touches is conclusive.
type Selection struct {
	Vectors []string `json:"vectors,omitempty"` // only these
	Only    []string `json:"only,omitempty"`    // only these techniques
	Skip    []string `json:"skip,omitempty"`    // not these techniques
}

// Series is the place of a run among repeated ones, so that one of several
// cannot pass for the only one.
type Series struct {
	ID    string `json:"id"`    // the same for every run of the series
	Index int64  `json:"index"` // from 1
	Of    int64  `json:"of"`
}

// Routings that a sandbox of the attack is wired with.
const (
	RoutingCatchAll  = "catch-all" // every connection leads to the proxy
	RoutingSelective = "selective" // the hosts file leads what the policy names to the proxy
	RoutingNone      = "none"      // it has no network
)

// Wired is a sandbox of the attack and what it was wired with when it started.
type Wired struct {
	Sandbox      string `json:"sandbox"`      // as in Phase
	PolicyDigest string `json:"policyDigest"` // that its proxy said it enforces
	Routing      string `json:"routing"`
}

// Edit is a change of the policy's file during the run. The run's own policy stayed
// in force, but it is no longer the one that a reader of the file would think: a run
// with an edit cannot be attested.
type Edit struct {
	Time         string `json:"time"`
	PolicyDigest string `json:"policyDigest,omitempty"` // of what the file then held; absent: it held no policy
}

// Halt is a halt of everything in the sandboxes for a review, or its end.
type Halt struct {
	Time   string `json:"time"`
	Halted bool   `json:"halted"`
}

// Technique is one technique variant: what both sides saw in the control and
// in the attack run, and what the judge made of it.
type Technique struct {
	Seq           int64     `json:"seq"`
	Prev          string    `json:"prev"`
	Type          string    `json:"type"`
	Technique     string    `json:"technique"`
	Vector        string    `json:"vector"`
	Variant       string    `json:"variant"`
	Severity      string    `json:"severity"`
	NotApplicable string    `json:"notApplicable,omitempty"` // a reason of the closed list, else ""
	Fact          string    `json:"fact,omitempty"`          // the measured fact behind NotApplicable
	Control       Phase     `json:"control"`
	Attack        Phase     `json:"attack"`
	Outcome       string    `json:"outcome"`
	Reason        string    `json:"reason"` // the judge's reason code
	Findings      []Finding `json:"findings,omitempty"`
}

// Phase is what was seen of one technique variant in one phase.
type Phase struct {
	Nonce        string        `json:"nonce"`
	Sandbox      string        `json:"sandbox"`      // which sandbox of the phase it ran in
	Heartbeat    Heartbeat     `json:"heartbeat"`    // of that sandbox
	FilterIntact bool          `json:"filterIntact"` // rules digest and generation equal before and after
	Observations []Observation `json:"observations"` // lines of observations/<phase>.jsonl with this nonce, in order
}

// Heartbeat tells whether an allowed path worked, seen by both sides, before,
// between and after the techniques of a sandbox.
type Heartbeat struct {
	Before  bool `json:"before"`
	Between bool `json:"between"`
	After   bool `json:"after"`
	// Refused: the policy leaves no path to exercise, so that what lived is the
	// refusal of a connection outwards, told to the probe and recorded outside.
	Refused bool `json:"refused,omitempty"`
}

// Alive reports whether the allowed path worked throughout.
func (h Heartbeat) Alive() bool { return h.Before && h.Between && h.After }

// Sides of an observation.
const (
	SideProbe   = "probe"   // inside the sandbox, an authenticated line of wallproof-probe or wallproof-agent
	SideWitness = "witness" // outside, a service or the packet capture of the world
	SideProxy   = "proxy"   // the enforcing proxy's decision
	SideFilter  = "filter"  // the packet filter's record of a rejected packet
	SideRunner  = "runner"  // the battery itself: what the others could not say (crash, missing result)
)

// Signs, a closed list: how an attempt ended as the probe saw it.
const (
	SignRefused  = "refused"  // an explicit no: reset, ICMP refusal, EACCES/EPERM, proxy 403/421, DNS REFUSED, TLS alert
	SignClosed   = "closed"   // the peer closed without an answer
	SignAbsent   = "absent"   // looked everywhere it meant to and found nothing (local techniques)
	SignTimeout  = "timeout"  // nothing came back in time
	SignMissing  = "missing"  // a tool or facility that the attempt needs does not exist
	SignReached  = "reached"  // the target answered, or a canary was found
	SignAnswered = "answered" // something answered, but not with the witness's proof (a block page is no reachability)
	SignSent     = "sent"     // a blind attempt left; no answer is expected
	SignError    = "error"    // anything else; Detail says what
	SignCrashed  = "crashed"  // the runner's: no authenticated result arrived
)

// Observation is one thing seen by one side. Members that do not apply are
// left out. No observation holds a secret or a canary in clear.
type Observation struct {
	Side     string   `json:"side"`
	Nonce    string   `json:"nonce"`
	Time     string   `json:"time"`
	Sandbox  string   `json:"sandbox,omitempty"`
	Sign     string   `json:"sign,omitempty"`     // probe, runner
	Errno    string   `json:"errno,omitempty"`    // symbolic, e.g. "ECONNREFUSED"
	Status   int64    `json:"status,omitempty"`   // HTTP status or DNS rcode
	Bytes    int64    `json:"bytes,omitempty"`    // received by the probe, or by the witness
	Millis   int64    `json:"millis,omitempty"`   // how long the attempt took
	Proof    string   `json:"proof,omitempty"`    // the witness's answer to the nonce as the probe read it
	Obtained []string `json:"obtained,omitempty"` // SHA-256 (hex) of canaries that the probe found or the witness received
	Local    []string `json:"local,omitempty"`    // the attempt's own source ports, "tcp/40123"
	Detail   string   `json:"detail,omitempty"`   // at most 256 printable characters
	Service  string   `json:"service,omitempty"`  // witness: which service saw it
	Proto    string   `json:"proto,omitempty"`    // "tcp", "udp", "icmp", "dns", "http", "tls", "git", …
	Source   string   `json:"source,omitempty"`   // address:port
	Dest     string   `json:"dest,omitempty"`     // address:port
	Host     string   `json:"host,omitempty"`     // name asked for: Host, SNI or query name
	Verdict  string   `json:"verdict,omitempty"`  // proxy, filter: "allow" or "deny"
	Rule     string   `json:"rule,omitempty"`     // reason code of the proxy or name of the filter's rule
	Count    int64    `json:"count,omitempty"`    // packets or requests of this kind
}

// Finding kinds.
const (
	FindingExposure  = "exposure"            // a fact that would help an escape
	FindingPermitted = "permitted-by-policy" // the nonce arrived over an edge that the policy itself allows
)

// Finding is something a reader should know besides the outcome.
type Finding struct {
	Kind   string `json:"kind"`
	Detail string `json:"detail"`
}

// Terminal is the last entry. Head equals its own Prev.
type Terminal struct {
	Seq      int64                       `json:"seq"`
	Prev     string                      `json:"prev"`
	Type     string                      `json:"type"`
	Totals   map[string]map[string]int64 `json:"totals"`   // vector → outcome → technique variants
	Count    int64                       `json:"count"`    // all lines, entry 0 and this one included
	NonceKey string                      `json:"nonceKey"` // hex; secret during the run, so that anyone can recompute nonces and proofs after it
	Ended    string                      `json:"ended"`
	Edits    []Edit                      `json:"edits,omitempty"` // of the policy's file during the run
	Halts    []Halt                      `json:"halts,omitempty"` // for a review, in order
	Head     string                      `json:"head"`
}
