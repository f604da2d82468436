package packettest

import (
	"crypto"
	"time"

	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/attest/packet"
	"github.com/wallproof/wallproof/attest/predicate"
	"github.com/wallproof/wallproof/battery/parts"
	"github.com/wallproof/wallproof/probes/catalog"
)

// Digests of a packet made by New with no options. The image does not exist.
const (
	Reference   = "registry.example.org/agents/demo"
	ImageDigest = "sha256:1111111111111111111111111111111111111111111111111111111111111111"
	IndexDigest = "sha256:2222222222222222222222222222222222222222222222222222222222222222"
	OtherDigest = "sha256:3333333333333333333333333333333333333333333333333333333333333333"
	RunID       = "0123abcd"
	Kernel      = "6.18.0"
)

// Started is when the run of a packet begins, and Now the moment at which
// Input asks, one day later.
var (
	Started = time.Date(2026, time.November, 1, 12, 0, 0, 0, time.UTC)
	Now     = Started.Add(24 * time.Hour)
)

// PublicPolicy is a policy that has nothing to enforce.
const PublicPolicy = `{"evaluator":1,"mode":"public","on-failure":"close","phases":{"setup":{"mode":"public"},"verifier":{"mode":"public"}},"version":1}`

// FilterLog is logs/filter.jsonl of a run in which the packet filter stayed as it
// was.
const FilterLog = `{"after":{"digest":"` + OtherDigest + `","generation":2},"before":{"digest":"` + OtherDigest + `","generation":2},"checks":["the packet filter in the kernel is the one that was meant"],"phase":"control"}
{"after":{"digest":"` + ImageDigest + `","generation":2},"before":{"digest":"` + ImageDigest + `","generation":2},"checks":["tcp from box work is refused and recorded"],"phase":"attack"}
`

// Policy is the default policy.canonical.json: an allowlist that has everything
// that any technique of the catalogue requires of a policy.
const Policy = `{"allow":[{"host":"*.packages.example.org","methods":["GET","HEAD"],"ports":[443]},{"host":"api.example.org","ports":[443]},` +
	`{"host":"docs.example.org","methods":["GET","POST"],"paths":["/public"],"ports":[443]},{"host":"git.example.org","ports":[443]},` +
	`{"host":"github.com","ports":[443]},{"host":"search.example.org","ports":[443]}],"block":[{"host":"evil.example.org"}],` +
	`"broker":[{"api":"https://git.example.org/api/v3","app":"4711","host":"git.example.org","installation":1,"lease":"600s","name":"forge","port":443,` +
	`"repositories":[{"name":"acme/app","push":["refs/heads/agent/*"]}]}],"evaluator":1,"mode":"allowlist",` +
	`"model":{"allow":["gpt-x"],"api":"openai","cleartext":false,"hosted-search":"refuse","secret":"PROVIDER","url":"https://model.example.org/v1"},"on-failure":"close",` +
	`"phases":{"setup":{"mode":"public"},"verifier":{"mode":"public"}},` +
	`"secrets":[{"inject":[{"cleartext":false,"host":"api.example.org","paths":["/"],"ports":[443],"replace-only":false,"set":[{"as":"bearer","secret":"API_TOKEN"}]}],"name":"API_TOKEN"},` +
	`{"name":"PROVIDER"},` +
	`{"inject":[{"cleartext":false,"host":"search.example.org","paths":["/"],"ports":[443],"replace-only":false,"set":[{"as":"header","header":"X-Api-Key","secret":"SEARCH_KEY"}]}],"name":"SEARCH_KEY"}],` +
	`"version":1}`

// Isolation are the facts of a sandbox that has everything that any technique of
// the catalogue requires of a stack.
func Isolation() map[string]string {
	out := map[string]string{}
	for _, name := range parts.Facts() {
		out[name] = "yes"
	}
	out["uid"], out["seccomp"] = "0", "runtime"
	out[parts.FactKernel], out[parts.FactKernelVersion] = parts.KernelOwn, "Linux version 4.19.0-gvisor"
	return out
}

// ThreatModel is the default threat model.
const ThreatModel = `---
scope: one sandbox that runs code written by a language model
trust-assumption: the operator of the machine is honest
primary-asset: write credentials of source repositories
boundary: the sandbox's kernel interface and its network namespace
---
# Threat model

Untrusted code runs in a sandbox and reaches the outside through one proxy.
`

// Option changes what New makes.
type Option func(*config)

type config struct {
	edits []manifest.Edit
	halts []manifest.Halt

	catalogue     []catalog.Technique
	escape        map[string]bool
	silent        map[string]bool // techniques whose control stays silent
	skip          map[string]bool // techniques left out of the manifest
	permitted     bool
	run           manifest.Run
	policy        []byte
	threatModel   []byte
	redTeam       []byte
	redTeamTarget string
	redTeamEscape int64
	validity      time.Duration
	attested      time.Time
	rerun         rerun
	key           crypto.Signer
	verifier      crypto.Signer
	unsigned      bool
	entries       func([]manifest.Technique)
	planned       func([]manifest.Technique)
	observe       func(string, []manifest.Observation) []manifest.Observation
	redaction     func(*packet.Redaction)
	files         func(packet.Memory)
	statement     func([]byte) []byte
}

type rerun int

const (
	rerunPassed rerun = iota
	rerunMissing
	rerunFailed
)

// Escape makes techniques escape, every variant of them.
func Escape(ids ...string) Option {
	return func(c *config) { add(c.escape, ids) }
}

// ControlSilent makes techniques inconclusive, since their control proves
// nothing.
func ControlSilent(ids ...string) Option {
	return func(c *config) { add(c.silent, ids) }
}

// Skip leaves techniques out of the run, which entry 0 says.
func Skip(ids ...string) Option {
	return func(c *config) {
		add(c.skip, ids)
		c.run.Selection = &manifest.Selection{Skip: ids}
	}
}

// NotApplicable makes every variant that requires IPv6 not applicable.
func NotApplicable() Option { return Fact(parts.FactIPv6, "no IPv6 address inside") }

// Fact sets a fact of the sandbox's isolation. What then does not apply is
// recorded so.
func Fact(name, value string) Option {
	return func(c *config) { c.run.Driver.Isolation[name] = value }
}

// Permitted makes the attempts of techniques that go through permitted services
// arrive there.
func Permitted() Option { return func(c *config) { c.permitted = true } }

// Image sets the image under test.
func Image(i manifest.Image) Option { return func(c *config) { c.run.Image = i } }

// Run changes entry 0 before it is written.
func Run(fn func(*manifest.Run)) Option { return func(c *config) { fn(&c.run) } }

// WithPolicy sets policy.canonical.json.
func WithPolicy(canonical []byte) Option { return func(c *config) { c.policy = canonical } }

// Enforcement sets the enforcement's state.
func Enforcement(state, reason string) Option {
	return func(c *config) { c.run.Enforcement = manifest.Enforcement{State: state, Reason: reason} }
}

// Around sets what happened around the run: edits of the policy's file, halts.
func Around(edits []manifest.Edit, halts []manifest.Halt) Option {
	return func(c *config) { c.edits, c.halts = edits, halts }
}

// WithThreatModel sets the threat model; nil leaves it out.
func WithThreatModel(data []byte) Option { return func(c *config) { c.threatModel = data } }

// WithoutRedTeam leaves the red-team result out.
func WithoutRedTeam() Option { return func(c *config) { c.redTeamTarget = "" } }

// WithRedTeam puts a red-team result in as it is.
func WithRedTeam(data []byte) Option { return func(c *config) { c.redTeam = data } }

// RedTeamTarget makes the red team have attacked another image.
func RedTeamTarget(digest string) Option { return func(c *config) { c.redTeamTarget = digest } }

// RedTeamEscapes makes the red team report critical escapes.
func RedTeamEscapes(n int64) Option { return func(c *config) { c.redTeamEscape = n } }

// Validity sets how long the attestation is valid.
func Validity(d time.Duration) Option { return func(c *config) { c.validity = d } }

// StartedAt sets the beginning of the run; it is attested an hour later.
func StartedAt(t time.Time) Option {
	return func(c *config) {
		c.run.Started = manifest.FormatTime(t)
		c.attested = t.Add(time.Hour)
	}
}

// WithoutRerun leaves out the verifier's re-run.
func WithoutRerun() Option { return func(c *config) { c.rerun = rerunMissing } }

// FailedRerun makes the verifier's re-run one that failed.
func FailedRerun() Option { return func(c *config) { c.rerun = rerunFailed } }

// Unsigned makes a packet as a run leaves it: without bundles, threat model and
// red-team result.
func Unsigned() Option { return func(c *config) { c.unsigned = true } }

// Key sets the attester's key.
func Key(k crypto.Signer) Option { return func(c *config) { c.key = k } }

// VerifierKey sets the key of the re-run; by default the attester signs it.
func VerifierKey(k crypto.Signer) Option { return func(c *config) { c.verifier = k } }

// Entries changes the techniques' entries after they were judged, before they
// are written.
func Entries(fn func([]manifest.Technique)) Option { return func(c *config) { c.entries = fn } }

// Planned changes the techniques' entries before they are judged.
func Planned(fn func([]manifest.Technique)) Option { return func(c *config) { c.planned = fn } }

// Observations changes what both sides saw in a phase (nonce.PhaseControl or
// nonce.PhaseAttack). Entries, heartbeats and outcomes follow from what fn
// returns.
func Observations(fn func(phase string, all []manifest.Observation) []manifest.Observation) Option {
	return func(c *config) { c.observe = fn }
}

// Redaction changes the redaction proof before it is written.
func Redaction(fn func(*packet.Redaction)) Option { return func(c *config) { c.redaction = fn } }

// Files changes the packet's files before the statement over them is made.
func Files(fn func(packet.Memory)) Option { return func(c *config) { c.files = fn } }

// Statement changes the statement's bytes before they are signed.
func Statement(fn func([]byte) []byte) Option { return func(c *config) { c.statement = fn } }

// Catalogue replaces the catalogue, for a smaller packet; verify with the same.
func Catalogue(list []catalog.Technique) Option { return func(c *config) { c.catalogue = list } }

func add(set map[string]bool, ids []string) {
	for _, id := range ids {
		set[id] = true
	}
}

func newConfig() *config {
	return &config{
		catalogue: catalog.All(),
		escape:    map[string]bool{}, silent: map[string]bool{}, skip: map[string]bool{},
		policy:      []byte(Policy),
		threatModel: []byte(ThreatModel), redTeamTarget: ImageDigest,
		attested: Started.Add(time.Hour),
		run: manifest.Run{
			RunID: RunID,
			Image: manifest.Image{Reference: Reference, Digest: ImageDigest, IndexDigest: IndexDigest, Platform: "linux/amd64"},
			Driver: manifest.Driver{
				Name: "gvisor", Version: "20260905.0", ConfigDigest: OtherDigest,
				Isolation: Isolation(),
			},
			Proxy:         manifest.Proxy{Version: "0.1.0", ConfigDigest: OtherDigest, Placement: "outside-sandbox"},
			ProbeDigest:   OtherDigest,
			Tool:          manifest.Tool{Version: "0.1.0"},
			Host:          manifest.Host{Kernel: Kernel, Arch: "amd64"},
			Enforcement:   manifest.Enforcement{State: manifest.EnforcementEnforced},
			Substitutions: parts.Substitutions(),
			Started:       manifest.FormatTime(Started),
		},
	}
}

// Signing makes the statement name another algorithm and key than those that
// sign it, for a statement that a test signs anew by other means.
func Signing(algorithm, key string) Option {
	return func(c *config) {
		c.statement = func(statement []byte) []byte {
			out, err := replaceSigning(statement, predicate.Signing{Algorithm: algorithm, Key: key})
			if err != nil {
				panic("packettest: " + err.Error())
			}
			return out
		}
	}
}

func replaceSigning(statement []byte, s predicate.Signing) ([]byte, error) {
	st, _, err := predicate.ParseStatement(statement)
	if err != nil {
		return nil, err
	}
	var b predicate.Boundary
	if _, err := st.Decode(&b); err != nil {
		return nil, err
	}
	b.Signing = s
	return predicate.Marshal(st.Subject[0], st.PredicateType, b)
}
