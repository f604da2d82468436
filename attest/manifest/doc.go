// Package manifest is the hash-chained record of a battery run: its schema, its
// one writer and its strict reader. It is pure: readers and writers are passed
// in.
//
// # Format
//
// A manifest is a file of lines, each one JSON object in the canonical form of
// internal/canon (RFC 8785, integers only), UTF-8, each ended by one LF. Line 0
// is a Run, then one Technique a technique variant, then one Terminal, which is
// the last. Members:
//
//	seq   the line's number, from 0
//	prev  SHA-256 of the line before, without its LF, in lower-case hex;
//	      of line 0: the constant Genesis
//	type  "run", "technique" or "terminal"
//
// The terminal entry holds count, the number of all lines, and head, which
// equals its own prev. Outside, in the signed statement, stand
//
//	head        SHA-256 of the terminal line, without LF, in lower-case hex
//	count       the number of lines
//	merkleRoot  the RFC 6962 tree head over all lines, each without LF
//
// A file that was cut short has no terminal entry, or a last line without LF,
// and is refused as incomplete. A line that was removed, moved, inserted,
// doubled or changed breaks seq or prev, and each has its own reason. A chain
// that was computed anew has another head than the statement.
//
// Times are RFC 3339, UTC, with exactly three digits of milliseconds and "Z".
package manifest

import (
	"time"
)

// Genesis is prev of line 0. It names the schema, so that a chain of one format
// never continues one of another.
const Genesis = "genesis:" + Schema

// FileName is the manifest's name in a packet.
const FileName = "manifest.jsonl"

// TimeFormat is how every time in evidence is written, in UTC.
const TimeFormat = "2006-01-02T15:04:05.000Z"

// FormatTime writes t in TimeFormat.
func FormatTime(t time.Time) string { return t.UTC().Format(TimeFormat) }

// ParseTime reads a time in TimeFormat and refuses every other spelling.
func ParseTime(s string) (time.Time, error) { return time.Parse(TimeFormat, s) }

// Bounds on a manifest that comes from outside.
const (
	MaxLineBytes = 4 << 20
	MaxLineDepth = 16
	MaxLines     = 4 << 20
	// MaxReadBytes bounds what Read keeps in memory; a Reader has no such limit.
	MaxReadBytes = 512 << 20
)
