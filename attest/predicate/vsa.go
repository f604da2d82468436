package predicate

// VSA is the predicate of TypeVSA, the SLSA Verification Summary v1, as far as
// Wallproof writes and reads it.
type VSA struct {
	Verifier           Verifier         `json:"verifier"`
	TimeVerified       string           `json:"timeVerified"`
	ResourceURI        string           `json:"resourceUri"`
	Policy             VSAResource      `json:"policy"`
	InputAttestations  []VSAResource    `json:"inputAttestations"`
	VerificationResult string           `json:"verificationResult"`
	VerifiedLevels     []string         `json:"verifiedLevels"`
	DependencyLevels   map[string]int64 `json:"dependencyLevels,omitempty"`
	SLSAVersion        string           `json:"slsaVersion,omitempty"`
}

// Verifier names who verified.
type Verifier struct {
	ID      string            `json:"id"`
	Version map[string]string `json:"version,omitempty"`
}

// VSAResource is a resource descriptor.
type VSAResource struct {
	URI    string            `json:"uri,omitempty"`
	Digest map[string]string `json:"digest"`
}

// Values of a VSA.
const (
	ResultPassed = "PASSED"
	ResultFailed = "FAILED"

	// VerifierSelf labels a re-run whose signer is the attester;
	// VerifierIndependent one by somebody else.
	VerifierSelf        = "https://github.com/wallproof/wallproof/verifier#self"
	VerifierIndependent = "https://github.com/wallproof/wallproof/verifier"

	// VerificationPolicy names the rules of package verify.
	VerificationPolicy = "https://github.com/wallproof/wallproof/verification/v1"

	// LevelBoundary is the level of a re-run that passed.
	LevelBoundary = "WALLPROOF_TRUST_BOUNDARY_V1"
	// LevelPartial is that of one that passed but for escapes that are not
	// critical: what they contradict is not claimed, and the rest is.
	LevelPartial = "WALLPROOF_TRUST_BOUNDARY_V1_WITH_ESCAPES"
)
