package verify

// Code is a stable reason code. Codes are never renamed or reused.
type Code string

// Reason documents one code for docs/formats/reasons.md.
type Reason struct {
	Code    Code
	Check   string // name of the check that yields it
	Status  Status
	Meaning string
	Next    string // what to do, empty for passes
}

// Codes of checks on the bundle.
const (
	CodeNotAuthenticated Code = "not-authenticated"
	CodeBundleOK         Code = "bundle-read"
	CodeBundleMissing    Code = "attestation-missing"
	CodeBundleTooLarge   Code = "bundle-too-large"
	CodeBundleMalformed  Code = "bundle-malformed"
	CodeBundleVersion    Code = "bundle-version"
	CodeBundleContent    Code = "bundle-content"

	CodeSignatureOK      Code = "signature-verified"
	CodeSignatureInvalid Code = "signature-invalid"
	CodeSignatureCount   Code = "signature-count"
	CodePayloadType      Code = "payload-type"
	CodeTrustMissing     Code = "trust-missing"
	CodeTrustAlgorithm   Code = "trust-algorithm"
	CodeTrustedRoot      Code = "trusted-root-malformed"

	CodeSignerKey           Code = "signer-key"
	CodeSignerIdentity      Code = "signer-identity"
	CodeSignerNotKey        Code = "signer-not-a-key"
	CodeSignerNotIdentity   Code = "signer-not-an-identity"
	CodeIdentityMismatch    Code = "identity-mismatch"
	CodeIdentityPattern     Code = "identity-pattern-malformed"
	CodeCertificateChain    Code = "certificate-chain"
	CodeCertificateSCT      Code = "certificate-not-logged"
	CodeTimeTimestamp       Code = "time-timestamp"
	CodeTimeLog             Code = "time-log"
	CodeTimeAsserted        Code = "time-asserted"
	CodeTimeMissing         Code = "time-missing"
	CodeTimeTimestampBad    Code = "timestamp-invalid"
	CodeTimeCertificate     Code = "time-outside-certificate"
	CodeTransparencyOK      Code = "log-inclusion"
	CodeTransparencyNone    Code = "log-none"
	CodeTransparencyMissing Code = "log-missing"
	CodeTransparencyBad     Code = "log-invalid"
	CodeBundleRefused       Code = "bundle-refused"
)

// Codes of checks on the statement.
const (
	CodeStatementOK        Code = "statement-read"
	CodeStatementMalformed Code = "statement-malformed"
	CodeStatementType      Code = "statement-type"
	CodePredicateType      Code = "predicate-type"
	CodePredicateMalformed Code = "predicate-malformed"
	CodeStatementUnknown   Code = "statement-unknown-members"
	CodeSubjectCount       Code = "subject-count"
	CodeSubjectOK          Code = "subject-match"
	CodeSubjectUnasked     Code = "subject-not-asked"
	CodeSubjectMismatch    Code = "subject-mismatch"
	CodeSubjectIsIndex     Code = "subject-asked-index"
	CodeSubjectMalformed   Code = "subject-asked-malformed"
	CodeSubjectImage       Code = "subject-image-differs"
)

// Codes of checks on the packet.
const (
	CodePacketOK         Code = "packet-match"
	CodePacketNotGiven   Code = "packet-not-given"
	CodePacketIncomplete Code = "packet-incomplete"
	CodePacketUnreadable Code = "packet-unreadable"
	// The other codes of this check are those of packet.Reason.

	CodeManifestOK      Code = "manifest-chain"
	CodeManifestRebuilt Code = "manifest-rebuilt"
	CodeManifestCount   Code = "manifest-count-differs"
	CodeManifestRoot    Code = "manifest-root-differs"
	CodeManifestRun     Code = "manifest-run-malformed"
	CodeRunFact         Code = "run-fact-missing"
	CodeManifestRowOK   Code = "manifest-row-included"
	CodeManifestRow     Code = "manifest-row-not-included"
	// The other codes of this check are those of manifest.Reason and
	// canon.Reason.

	CodeObservationsOK        Code = "observations-match"
	CodeObservationsDiffer    Code = "observations-differ"
	CodeObservationsMalformed Code = "observations-malformed"
	CodeObservationsStray     Code = "observations-stray"
	CodeObservationsTime      Code = "observations-time"
	CodeNonceKey              Code = "nonce-key-malformed"
	CodeNonce                 Code = "nonce-differs"
	CodeHeartbeat             Code = "heartbeat-differs"
	CodeHeartbeatOrder        Code = "heartbeat-order"
	CodeSandbox               Code = "sandbox-differs"
	CodeFilterLog             Code = "filter-log-differs"
	CodeProxyLog              Code = "proxy-log-differs"
	CodeRunLength             Code = "run-too-long"

	CodeCatalogueOK        Code = "catalogue-known"
	CodeCatalogueUnknown   Code = "catalogue-unknown"
	CodeCatalogueTechnique Code = "catalogue-technique"
	CodeTechniqueMissing   Code = "technique-missing"
	CodeTechniqueOrder     Code = "technique-order"

	CodeOutcomesOK     Code = "outcomes-judged"
	CodeOutcomesDiffer Code = "outcome-differs"
	CodeOutcomesDouble Code = "outcome-double"
	CodeNotApplicable  Code = "not-applicable-contradicted"

	CodeClaimsOK     Code = "claims-derived"
	CodeClaimsDiffer Code = "claims-differ"
)

// Codes of checks on what is claimed.
const (
	CodeEnforced         Code = "enforced"
	CodeEnforcedNothing  Code = "enforcement-nothing"
	CodeEnforcedFailed   Code = "enforcement-failed"
	CodeEnforcementState Code = "enforcement-state"
	CodeEnforcementOther Code = "enforcement-differs"
	CodePolicyEdited     Code = "policy-edited"
	CodeWiring           Code = "wiring-differs"

	CodeRedactionOK       Code = "redaction-proved"
	CodeRedactionHits     Code = "redaction-hits"
	CodeRedactionUnproven Code = "redaction-unproven"
	CodeRedactionCoverage Code = "redaction-coverage"
	CodeRedactionForm     Code = "redaction-malformed"

	CodeAdmissionOK      Code = "admission-admitted"
	CodeAdmissionNone    Code = "admission-not-configured"
	CodeAdmissionMissing Code = "admission-missing"
	CodeAdmissionState   Code = "admission-state"

	CodeBatteryOK         Code = "battery-no-escape"
	CodeCriticalEscape    Code = "critical-escape"
	CodeEscapeUnclaimed   Code = "escape-unclaimed"
	CodeEscape            Code = "escape"
	CodeVectorOpen        Code = "vector-inconclusive"
	CodeVectorNotTested   Code = "vector-not-tested"
	CodeBatteryNotChecked Code = "battery-as-attested"
)

// Codes of freshness.
const (
	CodeCurrent     Code = "current"
	CodeExpired     Code = "expired"
	CodeExpiredCap  Code = "expired-verifier-cap"
	CodeNotYet      Code = "not-yet-valid"
	CodeTimesOrder  Code = "times-out-of-order"
	CodeTimeBadForm Code = "times-malformed"

	CodeLiveMalformed  Code = "live-malformed"
	CodeImageSame      Code = "image-same"
	CodeImageDrift     Code = "image-drift"
	CodeImageUnknown   Code = "image-not-compared"
	CodeImageOutdated  Code = "image-live-outdated"
	CodePolicySame     Code = "policy-same"
	CodePolicyDrift    Code = "policy-drift"
	CodePolicyUnknown  Code = "policy-not-compared"
	CodePolicyOutdated Code = "policy-live-outdated"
	CodePolicyForm     Code = "policy-malformed"
	// CodePolicyEvaluator holds: the digest binds the policy, its meaning is not known.
	CodePolicyEvaluator Code = "policy-evaluator-unknown"
	CodeFabricSame      Code = "fabric-same"
	CodeFabricDrift     Code = "fabric-drift"
	CodeFabricUnknown   Code = "fabric-not-compared"
	CodeFabricOutdated  Code = "fabric-live-outdated"
	CodeNotLatched      Code = "drift-not-seen"
	CodeLatched         Code = "drift-latched"
	CodeLatchUnknown    Code = "drift-history-not-given"

	CodeRerunOK          Code = "rerun-passed"
	CodeRerunSelf        Code = "rerun-passed-self"
	CodeRerunSkipped     Code = "rerun-this-is-it"
	CodeRerunUnasked     Code = "rerun-not-asked"
	CodeRerunMissing     Code = "rerun-missing"
	CodeRerunInvalid     Code = "rerun-invalid"
	CodeRerunOther       Code = "rerun-other-attestation"
	CodeRerunFailed      Code = "rerun-failed"
	CodeRerunStale       Code = "rerun-stale"
	CodeRerunFuture      Code = "rerun-in-future"
	CodeRerunLabel       Code = "rerun-label"
	CodeRerunIndependent Code = "rerun-not-independent"
	CodeRerunLevel       Code = "rerun-level"
	CodeRerunPartial     Code = "rerun-passed-in-part"
)

// Codes of documents that come with the claim.
const (
	CodeRedTeamOK         Code = "red-team-no-escape"
	CodeRedTeamAsserted   Code = "red-team-asserted"
	CodeRedTeamNone       Code = "red-team-not-provided"
	CodeRedTeamMissing    Code = "red-team-missing"
	CodeRedTeamTarget     Code = "red-team-other-target"
	CodeRedTeamEscapes    Code = "red-team-critical-escape"
	CodeRedTeamMalformed  Code = "red-team-malformed"
	CodeRedTeamSignature  Code = "red-team-signature-invalid"
	CodeRedTeamUnverified Code = "red-team-signature-not-checked"
	CodeRedTeamTime       Code = "red-team-time"
	CodeRedTeamKey        Code = "red-team-key-not-given"
	// CodeRedTeamOnlyAsserted holds where an external result is required.
	CodeRedTeamOnlyAsserted Code = "red-team-only-asserted"

	CodeThreatModelOK        Code = "threat-model-bound"
	CodeThreatModelNone      Code = "threat-model-not-provided"
	CodeThreatModelMissing   Code = "threat-model-missing"
	CodeThreatModelMalformed Code = "threat-model-malformed"

	CodeScorecardOK        Code = "scorecard-bound"
	CodeScorecardMatches   Code = "scorecard-matches"
	CodeScorecardNone      Code = "scorecard-not-given"
	CodeScorecardMissing   Code = "scorecard-missing"
	CodeScorecardMalformed Code = "scorecard-malformed"
	CodeScorecardImage     Code = "scorecard-image-differs"
	CodeScorecardPolicy    Code = "scorecard-policy-differs"
	CodeScorecardTime      Code = "scorecard-outside-period"
	CodeBindingMissing     Code = "binding-missing"
	CodeBindingInvalid     Code = "binding-invalid"
	CodeBindingOther       Code = "binding-other"
	CodeBindingTime        Code = "binding-time"
)
