// Package predicate holds what Wallproof signs: in-toto statements (v1) with
// three predicate types, and the small documents that are compared with them
// (scorecard, live state, row proof). It is pure.
//
// A statement has exactly one subject, the platform manifest digest of the
// image. Its bytes are signed as Marshal wrote them and are never marshalled
// again: a verifier reads them, and keeps what it does not know.
//
//	TypeBoundary  the trust boundary: what was attacked, under which policy,
//	              with which result; the index of the packet's files
//	TypeVSA       a SLSA Verification Summary (v1): a verifier's re-run
//	TypeBinding   the binding of a scorecard to a trust-boundary statement
package predicate

// Types of in-toto documents.
const (
	StatementType = "https://in-toto.io/Statement/v1"
	PayloadType   = "application/vnd.in-toto+json"

	TypeBoundary = "https://github.com/wallproof/wallproof/trust-boundary/v1"
	TypeVSA      = "https://slsa.dev/verification_summary/v1"
	TypeBinding  = "https://github.com/wallproof/wallproof/scorecard-binding/v1"
)

// Bounds on a statement from outside.
const (
	MaxStatementBytes = 32 << 20
	MaxStatementDepth = 32
	MaxFiles          = 20_000
)
