package proxy

// Event types.
const (
	EventDecision = "decision" // a request, connection or query was allowed or denied
	EventClosed   = "closed"   // a tunnel whose decision was reported ended; carries its bytes
	EventLease    = "lease"    // a lease was minted, used up, or revoked
	EventReload   = "reload"   // the policy was exchanged, or was not: Reason says why
	EventFailure  = "failure"  // a part failed (a listener, a contained panic); Reason says which
	EventStopped  = "stopped"  // the last line: leases are revoked, connections closed
)

// Verdicts.
const (
	Allow = "allow"
	Deny  = "deny"
)

// Routes: how the bytes of an allowed connection travel.
const (
	RouteTunnel    = "tunnel"    // TLS passed on untouched
	RouteIntercept = "intercept" // TLS terminated by the proxy
	RouteDirect    = "direct"    // plain HTTP or a DNS answer
	RouteRefused   = "refused"
)

// Event is one line of the proxy's record. It never holds a path, query,
// header, body or secret value: names and counts only.
type Event struct {
	Type     string   `json:"type"`
	ID       uint64   `json:"id"`                 // counts from 1; a closed event repeats its decision's
	Time     string   `json:"time"`               // of the decision: RFC 3339, UTC, milliseconds
	RunID    string   `json:"run,omitempty"`      //
	Client   string   `json:"client,omitempty"`   // the sandbox's address and port
	Listener Kind     `json:"listener,omitempty"` //
	Scheme   string   `json:"scheme,omitempty"`   // http, https, tls, tcp, dns, socks, udp
	Method   string   `json:"method,omitempty"`   // of an HTTP request whose method is a registered one, or the DNS type
	Host     string   `json:"host,omitempty"`     // normalised; if it could not be parsed, quoted and cut to MaxRawHost
	Port     int      `json:"port,omitempty"`     //
	Original string   `json:"original,omitempty"` // transparent: the destination that the sandbox dialled
	Dialled  string   `json:"dialled,omitempty"`  // address and port that the proxy dialled
	Verdict  string   `json:"verdict,omitempty"`  // Allow or Deny
	Reason   string   `json:"reason,omitempty"`   // a reason code
	Entry    string   `json:"entry,omitempty"`    // the policy's entry that decided, as explain prints it
	Route    string   `json:"route,omitempty"`    //
	Point    string   `json:"point,omitempty"`    // "egress-agent" when the far end of an egress tunnel refused
	Status   int      `json:"status,omitempty"`   // HTTP status that the sandbox got
	Injected []string `json:"injected,omitempty"` // names of secrets that were injected
	Leases   []string `json:"leases,omitempty"`   // ids of leases that were injected
	Redacted int64    `json:"redacted,omitempty"` // occurrences masked on the way back
	Up       int64    `json:"up,omitempty"`       // body or tunnel bytes from the sandbox
	Down     int64    `json:"down,omitempty"`     // body or tunnel bytes to the sandbox
}

// MaxRawHost is the most bytes of an unparsable host that an event quotes.
const MaxRawHost = 128
