package predicate

import "github.com/wallproof/wallproof/attest/manifest"

// Boundary is the predicate of TypeBoundary. Everything but Signing, Attested
// and Expires is derived from the packet, and a verifier derives it again.
type Boundary struct {
	RunID         string               `json:"runId"`
	Image         manifest.Image       `json:"image"`
	Policy        Policy               `json:"policy"`
	Fabric        Fabric               `json:"fabric"`
	Proxy         manifest.Proxy       `json:"proxy"`
	Enforcement   manifest.Enforcement `json:"enforcement"`
	Admission     manifest.Admission   `json:"admission"`
	Redaction     Redaction            `json:"redaction"`
	Battery       Battery              `json:"battery"`
	ThreatModel   *ThreatModel         `json:"threatModel,omitempty"`
	RedTeam       *RedTeam             `json:"redTeam,omitempty"`
	Collected     string               `json:"collected"` // end of the run
	Attested      string               `json:"attested"`  // when it was signed, as the signer says
	Expires       string               `json:"expires"`
	Tool          manifest.Tool        `json:"tool"`
	Signing       Signing              `json:"signing"`
	Substitutions []string             `json:"substitutions"`
	Limits        []string             `json:"limits"` // what the statement does not assert
	Files         []File               `json:"files"`  // of the packet, by path, without the two bundles
}

// Policy is the egress policy that was enforced.
type Policy struct {
	Digest        string `json:"digest"`        // of policy.canonical.json
	EgressDefault string `json:"egressDefault"` // "deny" or "allow", from policy.canonical.json
}

// Fabric is the sandbox that was attacked, as measured.
type Fabric struct {
	Driver manifest.Driver `json:"driver"`
	Host   manifest.Host   `json:"host"`
}

// Redaction is the proof that no secret is in the packet.
type Redaction struct {
	Digest    string   `json:"digest"` // of redaction.json
	Secrets   int64    `json:"secrets"`
	Encodings []string `json:"encodings"`
	Files     int64    `json:"files"`
	Hits      int64    `json:"hits"`
	Planted   int64    `json:"planted"` // positive control
	Found     int64    `json:"found"`
}

// Battery is the result, as the judge computes it from the observations.
type Battery struct {
	Head            string                      `json:"head"`
	Count           int64                       `json:"count"`
	MerkleRoot      string                      `json:"merkleRoot"`
	CatalogDigest   string                      `json:"catalogDigest"`
	Totals          map[string]map[string]int64 `json:"totals"`
	Vectors         []Vector                    `json:"vectors"` // in the catalogue's order
	CriticalEscapes int64                       `json:"criticalEscapes"`
	Permitted       []PermittedArrival          `json:"permitted"` // over edges that the policy itself allows
}

// Vector is the outcome of one attack vector.
type Vector struct {
	Vector          string `json:"vector"`
	Outcome         string `json:"outcome"`
	Severity        string `json:"severity"`                  // of the catalogue
	EscapedSeverity string `json:"escapedSeverity,omitempty"` // worst that escaped
}

// PermittedArrival is a finding of kind "permitted-by-policy".
type PermittedArrival struct {
	Technique string `json:"technique"`
	Variant   string `json:"variant"`
	Detail    string `json:"detail"`
}

// ThreatModel is the threat model's digest and its front matter.
type ThreatModel struct {
	File            string `json:"file"`
	Digest          string `json:"digest"`
	Scope           string `json:"scope"`
	TrustAssumption string `json:"trustAssumption"`
	PrimaryAsset    string `json:"primaryAsset"`
	Boundary        string `json:"boundary"`
}

// Attestors of a red-team result.
const (
	RedTeamOperator = "asserted-by-operator" // unsigned
	RedTeamSigned   = "signed-by-red-team"   // a DSSE envelope of the red team's own key
)

// RedTeam is the external red team's result.
type RedTeam struct {
	Digest          string `json:"digest"` // of redteam.json
	Attestor        string `json:"attestor"`
	Engagement      string `json:"engagement"`
	Target          string `json:"target"` // image digest
	CriticalEscapes int64  `json:"criticalEscapes"`
	LastRun         string `json:"lastRun"`
	ResultDigest    string `json:"resultDigest"` // of the red team's own report
}

// Signing is the key as the signer names it: for the reader, since what counts
// is the key that the verifier trusts.
type Signing struct {
	Algorithm string `json:"algorithm"`
	Key       string `json:"key,omitempty"` // fingerprint, or URI of a key service with version, "#" and fingerprint; empty for keyless
}

// File is one file of the packet.
type File struct {
	Path   string `json:"path"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"` // lower-case hex
}

// DefaultLimits is what no trust-boundary statement asserts.
func DefaultLimits() []string {
	return []string{
		"a dishonest operator of the machine or cluster that ran the battery",
		"bugs in the sandbox runtime, the proxy or the language runtime that no technique of the catalogue touches",
		"side channels beyond those that the catalogue names",
		"hosts that the policy does not name, where routing is selective",
		"any image, policy or fabric other than those whose digests it carries",
	}
}
