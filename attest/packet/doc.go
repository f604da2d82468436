// Package packet is the layout of an evidence packet and its strict reader. It
// is pure: a packet is an fs.FS, be it a directory, an archive or memory.
//
// # Layout
//
//	manifest.jsonl               the hash-chained record (package manifest)
//	policy.canonical.json        the policy that was enforced, in canonical form
//	observations/control.jsonl   what both sides saw, one canonical JSON object
//	observations/attack.jsonl    (manifest.Observation) a line
//	logs/filter.jsonl            the packet filter before and after, one line a phase
//	logs/proxy.jsonl             the enforcing proxy's decisions, one a line
//	logs/…                       other redacted logs
//	redaction.json               proof that no secret is in the files above
//	redteam.json                 the external red team's result (optional)
//	threat-model.md or .json     the threat model (optional)
//	attestation.sigstore.json    the signed statement over everything above
//	verification.sigstore.json   a verifier's signed re-run
//
// The two bundles are not part of the index that the statement carries; every
// other file is, and a file that is not in the index makes the packet invalid.
//
// # Archive
//
// A single uncompressed tar file with the files at the top level, sorted by
// name, mode 0644, owner 0, time 0, in PAX format; no directories, no links. So
// the same files give the same bytes.
package packet

// Names in a packet.
const (
	ManifestFile     = "manifest.jsonl"
	PolicyFile       = "policy.canonical.json"
	RedactionFile    = "redaction.json"
	RedTeamFile      = "redteam.json"
	ThreatModelMD    = "threat-model.md"
	ThreatModelJSON  = "threat-model.json"
	AttestationFile  = "attestation.sigstore.json"
	VerificationFile = "verification.sigstore.json"
	ObservationsDir  = "observations"
	LogsDir          = "logs"
	ControlFile      = ObservationsDir + "/control.jsonl"
	AttackFile       = ObservationsDir + "/attack.jsonl"
	FilterLogFile    = LogsDir + "/filter.jsonl"
	ProxyLogFile     = LogsDir + "/proxy.jsonl"
)

// Bounds on a packet from outside.
const (
	MaxFiles      = 20_000
	MaxFileBytes  = 4 << 30
	MaxTotalBytes = 8 << 30
	MaxPathBytes  = 512
	// MaxDocumentBytes bounds the files that are read into memory whole.
	MaxDocumentBytes = 32 << 20
	MaxLogBytes      = 256 << 20 // of a log that is read
)

// fixed are the files that may stand at the top level, and whether they must.
var fixed = map[string]bool{
	ManifestFile: true, PolicyFile: true, RedactionFile: true,
	RedTeamFile: false, ThreatModelMD: false, ThreatModelJSON: false,
	AttestationFile: false, VerificationFile: false,
}

// IsBundle reports whether a path is one of the two bundles.
func IsBundle(path string) bool { return path == AttestationFile || path == VerificationFile }
