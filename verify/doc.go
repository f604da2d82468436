// Package verify tells whether the evidence of a trust boundary is genuine,
// whether it is what it says, and whether it is still current. It is pure: bytes
// and file systems in, a report out. Nothing here or below, in Wallproof's own
// code, opens a socket, a file of the operating system or a process; a test
// fails on the first import that could.
//
// # Order
//
// Checks run in this order and each yields one or more lines. A check that
// fails stops the ones that would have to use what it did not authenticate:
// those are reported as not-checked with reason "not-authenticated".
//
//	parse         the bundle is a Sigstore bundle v0.3, strictly read
//	signature     over the exact bytes of the DSSE envelope
//	signer        the trusted key, or the identity in the certificate, anchored
//	time          certificate validity, timestamps, what is only asserted
//	transparency  inclusion in a log
//	statement     in-toto v1, predicate type, one subject
//	subject       the image that was asked about
//	packet        every file of the packet against the signed index
//	manifest      form, chain, head, count and Merkle root
//	observations  the files of both sides against the manifest's entries
//	catalogue     the techniques are those that this verifier knows
//	outcomes      judged again from the observations
//	claims        the statement's summary against what the packet gives
//	enforcement   the policy was in force
//	redaction     no secret in the packet, proved by a control
//	admission     supply-chain admission of the image
//	battery       escapes and vectors
//	expiry        the statement's and the verifier's own limit
//	image, policy, fabric  drift against what is deployed now
//	latch         a drift that was seen before
//	rerun         a verifier's signed re-run
//	red-team      the external result
//	threat-model  the document
//	scorecard     its binding to this attestation
//
// # Verdict
//
// invalid when a line fails: forged, broken or not verifiable. held when none
// fails and a line is held: genuine, but a claim must not be shown. Else valid.
package verify
