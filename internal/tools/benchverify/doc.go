// Package benchverify measures verification and prints a table with ratios:
//
//	go test -tags bench -run TestTable -v ./internal/tools/benchverify
//
// Everything is measured in one run on one machine, and what it is compared with
// stands beside it: SHA-256 for the manifest, the same binary's bare start and
// the cosign command (where internal/tools/stack -all has built it) for a whole
// process. Numbers of a busy machine mean little; ratios a bit more.
package benchverify
