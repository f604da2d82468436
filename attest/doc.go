// Package attest signs evidence: the trust-boundary statement over a packet, a
// verifier's re-run, and the binding of a scorecard. What is signed was verified
// strictly before, by the same code that verifies it afterwards (package
// verify). The result is always a Sigstore bundle v0.3.
//
// Files are written under a temporary name, flushed and renamed, so that a full
// disk or a kill leaves the old file or the new one, never half of one.
//
// # Key files
//
// Private keys are read in the forms that cosign writes, "ENCRYPTED SIGSTORE
// PRIVATE KEY" and "ENCRYPTED COSIGN PRIVATE KEY" (PKCS #8 in the box of
// go-securesystemslib/encrypted), and as plain PKCS #8 or SEC 1 PEM.
// GenerateKeyPair writes the first. Public keys are PKIX PEM.
package attest
