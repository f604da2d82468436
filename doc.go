// Package wallproof is the root of the module; the programs are below cmd. See
// docs/architecture.md for what lives where.
package wallproof
