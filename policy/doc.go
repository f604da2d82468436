// Package policy is Wallproof's policy language and its one evaluator: the
// code that reads a policy, explains it, draws it, hashes it and enforces it is
// the same code. It is pure: no network, no file, no process, no clock.
//
// # Language
//
// A policy is one YAML or JSON document. docs/formats/policy.md describes every
// key; docs/formats/policy.schema.json is the same for editors. Reading is
// strict: a key that is unknown or given twice, a value of another type, an
// alias, a second document are refused with line and column (see Error).
//
// # Decisions
//
// An Evaluator answers in the order in which a proxy learns things:
//
//  1. Name: may this host be reached at this port at all? Asked before any
//     lookup, so that no name leaves for a host that is denied.
//  2. Address: may the address that a lookup gave be dialled for that host? The
//     address that was classified is the one to dial.
//  3. Request: may this method and path be asked of it?
//
// The more specific entry wins: an exact host before a wildcard, a wildcard
// with more labels before one with fewer, a longer address prefix before a
// shorter, then a longer path before a shorter. At equal specificity block
// wins. What no entry matches is decided by the mode.
//
// Ports and methods are conditions, not specificity: an entry says nothing of a
// request whose port or method it does not list.
//
// # Canonical form and hash
//
// Canonical returns the policy in the same language, as canonical JSON (RFC
// 8785, package internal/canon): every default spelled out, names and addresses
// normalised, packs expanded, entries with several paths split, lists sorted and
// deduplicated, redundant entries kept. Left out are the policy's name, comments,
// and where secrets come from. Digest is "sha256:" and the SHA-256 of these bytes
// in lower-case hex. The member "evaluator" holds EvaluatorVersion, so a change
// of what the same entries mean changes every hash.
package policy
