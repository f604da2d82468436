// Package stacktest starts the real servers of a Sigstore deployment for tests:
// Fulcio, a Rekor v2 log, a timestamp authority, a certificate log, and an OIDC
// issuer, all on this machine. Its own tests sign and verify against them, as a
// library and by the command line. All of it needs the build tag "stack":
//
//	make stack
//	go test -tags stack ./attest/stacktest
//
// The first command builds the servers once into a cache; without it the tests
// fail and say so.
package stacktest
