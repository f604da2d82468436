// Package stacktest holds the tests of signing and verifying against the real
// servers of a Sigstore deployment: Fulcio, a Rekor v2 log, a timestamp
// authority, a certificate log, and an OIDC issuer, all on this machine. They
// run with the build tag "stack":
//
//	go run ./internal/tools/stack
//	go test -tags stack ./attest/stacktest
//
// The first command builds the servers once into a cache; without it the tests
// fail and say so.
package stacktest
