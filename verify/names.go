package verify

// Names of the checks, stable and in this order.
const (
	CheckParse        = "parse"
	CheckSignature    = "signature"
	CheckSigner       = "signer"
	CheckTime         = "time"
	CheckTransparency = "transparency"
	CheckStatement    = "statement"
	CheckSubject      = "subject"
	CheckPacket       = "packet"
	CheckManifest     = "manifest"
	CheckObservations = "observations"
	CheckCatalogue    = "catalogue"
	CheckOutcomes     = "outcomes"
	CheckClaims       = "claims"
	CheckEnforcement  = "enforcement"
	CheckRedaction    = "redaction"
	CheckAdmission    = "admission"
	CheckBattery      = "battery"
	CheckExpiry       = "expiry"
	CheckImage        = "image"
	CheckPolicy       = "policy"
	CheckFabric       = "fabric"
	CheckLatch        = "latch"
	CheckRerun        = "rerun"
	CheckRedTeam      = "red-team"
	CheckThreatModel  = "threat-model"
	CheckScorecard    = "scorecard"
)

// Order lists the names of all checks in the order of a report.
func Order() []string {
	return []string{CheckParse, CheckSignature, CheckSigner, CheckTime, CheckTransparency, CheckStatement, CheckSubject,
		CheckPacket, CheckManifest, CheckObservations, CheckCatalogue, CheckOutcomes, CheckClaims, CheckEnforcement,
		CheckRedaction, CheckAdmission, CheckBattery, CheckExpiry, CheckImage, CheckPolicy, CheckFabric, CheckLatch,
		CheckRerun, CheckRedTeam, CheckThreatModel, CheckScorecard}
}
