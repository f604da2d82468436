package verify

import (
	"crypto"
	"io/fs"
	"time"

	"github.com/wallproof/wallproof/probes/catalog"
)

// Input is everything that a verification depends on.
type Input struct {
	// Packet is the evidence packet: a directory's fs.FS, or packet.Memory. Nil
	// verifies a bundle alone; what needs the packet is then not-checked.
	Packet fs.FS
	// Bundle is the attestation. Nil means the packet's own.
	Bundle []byte
	// Verification is the verifier's re-run. Nil means the packet's own.
	Verification []byte

	// Trust says whose signature counts.
	Trust Trust
	// VerifierTrust says whose re-run counts. Nil means Trust.
	VerifierTrust *Trust
	// RedTeamKeys are the keys that a signed red-team result may have.
	RedTeamKeys []crypto.PublicKey
	// TrustedRoot is a Sigstore trusted root in JSON. Nil means the embedded
	// one, where one is needed at all.
	TrustedRoot []byte
	// TrustedRootDigest is the SHA-256 (hex) that TrustedRoot must have, for
	// callers that keep it in a place that others write to. Empty means any.
	TrustedRootDigest string

	// Image is the digest that is asked about. Empty means whatever the
	// statement's subject is.
	Image string
	// PolicyDigest is the digest of the policy that is in force now. Empty means
	// that it is not compared.
	PolicyDigest string
	// Live is a live.json, or nil.
	Live []byte
	// Latched are drifts of this attestation that were seen before, by whoever
	// keeps a history: they hold it for good.
	Latched []Latch

	// Scorecard and Binding are a scorecard and the signed binding of it; nil
	// where there is none.
	Scorecard []byte
	Binding   []byte

	// Require turns what is optional into a condition.
	Require []Requirement
	// WithoutRerun leaves out the check for a verifier's re-run: for the
	// verifier that is about to sign one.
	WithoutRerun bool

	// At is the moment that is asked about. It must be set.
	At time.Time
	// MaxAge caps the validity of an attestation, from the end of its run. Zero
	// means DefaultMaxAge.
	MaxAge time.Duration
	// Catalogue is what outcomes are judged against. Nil means the one that this
	// verifier carries.
	Catalogue []catalog.Technique
}

// Bounds on time.
const (
	DefaultMaxAge = 90 * 24 * time.Hour
	// ClockSkew is how far in the future a time may lie before it counts as
	// such.
	ClockSkew = 5 * time.Minute
)

// Trust is a key, or an identity in a certificate. Exactly one must be set.
type Trust struct {
	Key      crypto.PublicKey
	Identity *Identity
}

// Identity is an exact identity and issuer, as a Fulcio certificate carries
// them. A pattern is always anchored at both ends.
type Identity struct {
	SAN           string // exact subject alternative name
	SANPattern    string // regular expression for the whole of it, instead of SAN
	Issuer        string // exact OIDC issuer
	IssuerPattern string // regular expression for the whole of it, instead of Issuer
	// WithoutSCT, WithoutLog and WithoutTimestamp accept a private deployment
	// that has no certificate log, no transparency log, no timestamp authority.
	WithoutSCT, WithoutLog, WithoutTimestamp bool
}

// Requirement turns something optional into a condition.
type Requirement string

// The requirements.
const (
	RequireRedTeam     Requirement = "redteam"              // a result for this image, without critical escapes
	RequireThreatModel Requirement = "threat-model"         //
	RequireVerifier    Requirement = "verifier"             // a re-run, which is held without anyway
	RequireIndependent Requirement = "independent-verifier" // a re-run by another signer than the attester
	RequireAdmission   Requirement = "admission"            //
	RequireTimestamp   Requirement = "timestamp"            // a trusted time of signing
	RequireLog         Requirement = "transparency"         // inclusion in a transparency log
	RequirePacket      Requirement = "packet"               // the packet itself, not the bundle alone
	RequireScorecard   Requirement = "scorecard"            // a scorecard and its signed binding
)

// Requirements lists all requirements.
func Requirements() []Requirement {
	return []Requirement{RequireRedTeam, RequireThreatModel, RequireVerifier, RequireIndependent, RequireAdmission,
		RequireTimestamp, RequireLog, RequirePacket, RequireScorecard}
}

// Latch is a drift that was seen before; see package site/history.
type Latch struct {
	Code  Code
	Since string // RFC 3339
}
