package policy

import (
	"net/netip"
	"time"

	"github.com/wallproof/wallproof/policy/host"
)

// Version is the version of the language that this package reads.
const Version = 1

// EvaluatorVersion is raised whenever the same entries come to mean something
// else. It is part of the hash.
const EvaluatorVersion = 1

// Mode decides what happens to what no entry matches.
type Mode string

// The modes.
const (
	ModePublic    Mode = "public"     // everything public is reachable
	ModeNoNetwork Mode = "no-network" // nothing but the model and the run's own services
	ModeDenylist  Mode = "denylist"   // everything public but what is blocked
	ModeAllowlist Mode = "allowlist"  // only what is allowed
)

// Modes lists the modes in the order in which documents show them.
var Modes = []Mode{ModePublic, ModeNoNetwork, ModeDenylist, ModeAllowlist}

// DefaultAllows reports whether the mode lets through what no entry matches.
func (m Mode) DefaultAllows() bool { return m == ModePublic || m == ModeDenylist }

// OnFailure says what a run does when enforcement cannot be set up.
type OnFailure string

// The two ways to fail. Warn exists for imported vaults whose default is allow;
// such a run records that enforcement failed and supports no claim.
const (
	FailClosed OnFailure = "close"
	FailWarn   OnFailure = "warn"
)

// Policy is one document. It is made by Parse, ParseCanonical or an importer;
// hosts, addresses and paths in it are normalised.
type Policy struct {
	Source      string // the name given to Parse, for messages
	Name        string // for people; not part of the hash
	Mode        Mode
	OnFailure   OnFailure
	Packs       []PackRef // starter packs, expanded by Entries
	Allow       []Entry
	Block       []Entry
	Secrets     []Secret
	Broker      []Broker
	Model       *Model // nil: no model
	Environment Environment
	Services    []Service
	Setup       PhasePolicy // before the agent, as root; default: public
	Verifier    PhasePolicy // after the agent, as root; default: public
	Limits      Limits
	Lingering   Lingering
	Egress      *EgressAgent // nil: traffic leaves from the proxy itself
}

// Pos is where something stands in its document. Zero means nowhere.
type Pos struct {
	Line   int `json:"line,omitempty"`
	Column int `json:"column,omitempty"`
}

// Match says which hosts an entry is about.
type Match uint8

// The matches, most specific first for the same name.
const (
	MatchExact      Match = iota // this host
	MatchTree                    // this host and every subdomain (block entries)
	MatchSubdomains              // every subdomain, any depth, not the host itself ("*.")
	MatchCIDR                    // every address in Prefix
)

// Entry is one allow or block entry.
type Entry struct {
	Match   Match
	Host    string       // normalised name, without "*."; "" for MatchCIDR
	Prefix  netip.Prefix // for MatchCIDR, masked
	Ports   []PortRange  // sorted, merged; nil means every port
	Methods []string     // upper case, sorted; nil means every method
	Paths   []string     // cleaned prefixes, sorted; nil means every path
	Pin     *Pin         // allow only: artefacts must be among these
	Pack    string       // name of the pack that the entry comes from, or ""
	Pos     Pos
}

// PortRange is an inclusive range of ports.
type PortRange struct{ From, To uint16 }

// Contains reports whether port lies in the range.
func (r PortRange) Contains(port uint16) bool { return r.From <= port && port <= r.To }

// PackRef names a starter pack, optionally pinned.
type PackRef struct {
	Name string
	Pin  *Pin
	Pos  Pos
}

// Pin limits what may be downloaded over an entry to known artefacts. The
// enforcing proxy hashes the body before it hands on the end of it.
type Pin struct {
	// Digests are "sha256:<hex>", "sha384:<hex>", "sha512:<hex>" of the file, or
	// "h1:<base64>" of a Go module's zip (golang.org/x/mod/sumdb/dirhash).
	Digests []string
	// Lockfile is a file whose digests are added by LoadLockfiles, or "".
	Lockfile string
	// Artefacts are endings of paths that are held to the pin; nil means that
	// every response is.
	Artefacts []string
	Pos       Pos
	loaded    bool
}

// Secret is a named secret: where its value comes from, and where it goes.
type Secret struct {
	Name        string
	From        Source // zero in a policy read back from its canonical form
	Placeholder string // what the sandbox holds in its place; "" means one made for the run
	Inject      []Rule
	Pos         Pos
}

// Source refers to a value kept elsewhere. Exactly one member is set. It is no
// part of the hash.
type Source struct {
	Env   string       // environment variable of the operator
	File  string       // path; one trailing newline is not part of the value
	Vault *VaultSource // HashiCorp Vault or OpenBao, key/value engine
	GCP   string       // "projects/P/secrets/S/versions/V"
	AWS   *AWSSource   // Secrets Manager
	Azure *AzureSource // Key Vault
	Pos   Pos
}

// Kind returns the name of the member that is set, as the language spells it,
// or "".
func (s Source) Kind() string {
	switch {
	case s.Env != "":
		return "env"
	case s.File != "":
		return "file"
	case s.Vault != nil:
		return "vault"
	case s.GCP != "":
		return "gcp"
	case s.AWS != nil:
		return "aws"
	case s.Azure != nil:
		return "azure"
	}
	return ""
}

// VaultSource is a field of a key/value secret.
type VaultSource struct {
	Address   string // "https://vault.example:8200"; "" means VAULT_ADDR
	Namespace string
	Mount     string // default "secret"
	Path      string
	Field     string
	Version   int64 // of the secret (engine version 2); 0 means the latest
	Engine    int64 // 1 or 2; default 2
}

// AWSSource is a secret, or one member of a JSON secret, in Secrets Manager.
type AWSSource struct{ ID, Region, Field, Version string }

// AzureSource is a secret in a Key Vault.
type AzureSource struct{ Vault, Secret, Version string }

// Rule injects secrets into requests to a host. For a request the most specific
// matching rule decides, alone.
type Rule struct {
	Match Match  // MatchExact or MatchSubdomains
	Host  string // normalised
	Ports []PortRange
	Path  string // cleaned prefix; "/" means every path
	// ReplaceOnly: the value goes only where the request has the placeholder.
	// Otherwise it is set whether or not the client sent something there.
	ReplaceOnly bool
	Cleartext   bool // also over http://; off unless asked for
	Set         []Setting
	Pos         Pos
}

// Kind is how a secret enters a request.
type Kind string

// The kinds of injection.
const (
	InjectBearer Kind = "bearer" // Authorization: Bearer <value>
	InjectBasic  Kind = "basic"  // Authorization: Basic base64(<username>:<value>)
	InjectHeader Kind = "header" // <header>: <prefix><value>
	InjectQuery  Kind = "query"  // ?<param>=<value>
)

// Setting is one thing that a rule sets.
type Setting struct {
	Secret   string // name of the secret
	As       Kind
	Header   string // canonical MIME form; "Authorization" for bearer and basic, "" for query
	Username string // basic
	Prefix   string // header: put before the value
	Param    string // query
}

// Broker mints short, repository-scoped leases for a git host. The sandbox
// never holds one.
type Broker struct {
	Name         string
	Host         string // of the git repositories
	Port         uint16 // 443 unless given
	API          string // base URL of the forge's REST interface, no trailing slash
	App          string // GitHub App id or client id
	Installation int64
	Key          Source // the App's private key
	Lease        time.Duration
	Repositories []Repository
	Pos          Pos
}

// Repository is one that a broker serves.
type Repository struct {
	Name string   // "owner/name", lower case, without ".git"
	Push []string // full refs, exact or with one trailing "*"; empty means fetch only
	Pos  Pos
}

// Model is the model endpoint that a sandbox reaches by the proxy under the
// fixed name ModelHost, with a key of the run's own.
type Model struct {
	API          string   // wire format of the provider: "openai" or "anthropic"
	URL          string   // normalised base URL of the provider, https unless Cleartext
	Secret       string   // name of the secret that holds the provider's key, or ""
	Allow        []string // models by id or "vendor/*"; never empty
	HostedSearch string   // SearchRefuse, SearchStrip or SearchAllow
	SelfSearch   []string // models that may search by themselves, an override by name
	Host         host.Host
	Port         uint16
	Pos          Pos
}

// ModelHost is the one name under which the model answers inside a sandbox.
const ModelHost = "model.wallproof.internal"

// What happens to a request that asks for the provider's hosted search.
const (
	SearchRefuse = "refuse" // the request fails; the default where the default is deny
	SearchStrip  = "strip"  // the tool is taken out
	SearchAllow  = "allow"  // the default where the default is allow
)

// Environment says what may enter the sandbox.
type Environment struct {
	Set   []Variable // values written in the policy, sorted by name
	Pass  []string   // variables of the operator that enter
	Ask   []string   // asked for by a task; they enter only when named on the command line
	Login *Login     // subscription login of one agent, or nil
}

// Variable is an environment variable.
type Variable struct {
	Name, Value string
	Pos         Pos
}

// Login lets one agent's subscription login into the sandbox, as a file.
type Login struct {
	Agent string // the only agent that gets it
	Path  string // absolute, inside the sandbox
	From  Source
	Pos   Pos
}

// Service is started with the run on its private network and reachable by
// its name and in no other way.
type Service struct {
	Name  string
	Image string // pinned by digest
	Ports []uint16
	Set   []Variable
	Pos   Pos
}

// Phase names a part of a run.
type Phase string

// The phases, in order. The document's own mode and entries are the agent's.
const (
	PhaseSetup    Phase = "setup"
	PhaseAgent    Phase = "agent"
	PhaseVerifier Phase = "verifier"
)

// PhasePolicy is the network policy of set-up or verifier. Secrets, broker,
// model and services belong to the agent phase alone.
type PhasePolicy struct {
	Mode  Mode
	Packs []PackRef
	Allow []Entry
	Block []Entry
	Pos   Pos
}

// Limits bound a run. Zero means the default of what enforces it.
type Limits struct {
	Duration    time.Duration // wall time of the agent phase
	Connections int64         // open at once
	Requests    int64         // in the whole run
	Upload      int64         // bytes out of the sandbox in the whole run
	Download    int64         // bytes into it
	Memory      int64         // bytes
	Processes   int64
	Disk        int64 // bytes
}

// Lingering keeps a proxy after its run, and its credentials with it.
type Lingering struct {
	For  time.Duration // at most MaxLingering; 0 means not at all
	Idle time.Duration // it sleeps after so long without a request
}

// EgressAgent is the far end of a tunnel through which a run's traffic leaves.
// The agent enforces the same policy a second time.
type EgressAgent struct {
	Address    string // "host:port"
	ServerCA   Source
	ClientCert Source
	ClientKey  Source
	Pos        Pos
}
