package packet

import (
	"fmt"
	"io/fs"
	"slices"

	"github.com/wallproof/wallproof/attest/predicate"
	"github.com/wallproof/wallproof/internal/canon"
)

// RedactionSchema names the format of redaction.json.
const RedactionSchema = "wallproof.redaction/v1"

// Redaction is redaction.json, canonical JSON: the record of a search for every
// secret and canary of the run in every file of the packet that existed when it
// ended. It holds no secret, only counts.
type Redaction struct {
	Schema    string           `json:"schema"`
	Secrets   int64            `json:"secrets"`   // distinct values searched for
	Encodings []string         `json:"encodings"` // "raw", "base64", "hex", "percent", …
	Scanned   []predicate.File `json:"scanned"`   // sorted by path
	Hits      int64            `json:"hits"`      // must be 0
	Control   RedactionControl `json:"control"`
	Residue   []Residue        `json:"residue,omitempty"` // absent: the machine was not searched
	Kinds     []RedactionKind  `json:"kinds,omitempty"`   // absent: by a version that did not show them
}

// RedactionKind shows, for one kind of thing that a secret could leave in, that
// the search finds a value planted in it in every encoding, and that what a run
// writes of it has none left.
type RedactionKind struct {
	Kind    string `json:"kind"`    // one of the Kind… constants
	Planted int64  `json:"planted"` // one an encoding
	Found   int64  `json:"found"`   // must be as many
	Written bool   `json:"written"` // a run writes such things, masked
	Left    int64  `json:"left"`    // values found after masking; must be 0
}

// The kinds.
const (
	KindPrompt      = "prompt"       // what an agent is asked
	KindCommand     = "command"      // what it runs
	KindToolOutput  = "tool-output"  // what it reads
	KindModelOutput = "model-output" // what a model says
	KindLog         = "log"          // of the proxy
	KindObservation = "observation"  // of either side
	KindCrashDump   = "crash-dump"   // a process's memory; none may be left
	KindExport      = "export"       // the packet as one file
)

// Residue is a search of one kind of place on the machine, after everything of
// the run was torn down, for the same values in the same encodings.
type Residue struct {
	Place  string `json:"place"`  // one of the Residue… constants
	Files  int64  `json:"files"`  // files and devices that were read
	Bytes  int64  `json:"bytes"`  //
	Unread int64  `json:"unread"` // those that could not be read, or lie beyond the search's bounds
	Hits   int64  `json:"hits"`   // must be 0
}

// The places.
const (
	ResidueTemporary = "temporary-folders" // files that were changed during the run
	ResidueCores     = "core-dumps"        //
	ResidueState     = "run-folder"        // the run's own, with its snapshots; empty when all is gone
	ResidueSwap      = "swap"              //
)

// RedactionControl is the search's own positive control: a value planted in a
// copy of the files, in each encoding, must be found each time.
type RedactionControl struct {
	Planted int64 `json:"planted"`
	Found   int64 `json:"found"`
}

// ReadRedaction reads redaction.json strictly. Whether it covers the packet is
// another question: see Covers.
func ReadRedaction(packet fs.FS) (Redaction, []byte, error) {
	data, err := ReadDocument(packet, RedactionFile)
	if err != nil {
		return Redaction{}, nil, err
	}
	var r Redaction
	if err := decodeCanonical(RedactionFile, data, &r); err != nil {
		return Redaction{}, data, err
	}
	if r.Schema != RedactionSchema {
		return Redaction{}, data, &Error{Reason: ReasonDocument, Path: RedactionFile, Detail: fmt.Sprintf("schema %.64q, want %q", r.Schema, RedactionSchema)}
	}
	return r, data, nil
}

// Covers checks that what was scanned is what a run writes, with the content that
// the packet has according to its Index: no file less, and none more.
func (r Redaction) Covers(index []predicate.File) error {
	for _, f := range index {
		if !writtenByRun(f.Path) {
			continue
		}
		i := slices.IndexFunc(r.Scanned, func(s predicate.File) bool { return s.Path == f.Path })
		if i < 0 || r.Scanned[i] != f {
			return &Error{Reason: ReasonDocument, Path: f.Path, Detail: "the redaction proof does not cover this file as it is"}
		}
	}
	for _, s := range r.Scanned {
		if !slices.ContainsFunc(index, func(f predicate.File) bool { return f == s }) {
			return &Error{Reason: ReasonMissing, Path: s.Path, Detail: "the redaction proof covers it, but it is not in the packet"}
		}
	}
	return nil
}

// writtenByRun tells the files that a run writes before redaction.json from
// those that attest adds.
func writtenByRun(p string) bool {
	switch p {
	case RedactionFile, RedTeamFile, ThreatModelMD, ThreatModelJSON, AttestationFile, VerificationFile:
		return false
	}
	return true
}

// decodeCanonical reads a canonical document without unknown members.
func decodeCanonical(name string, data []byte, v any) error {
	if err := canon.Check(data, canon.Limits{Bytes: MaxDocumentBytes}); err != nil {
		return &Error{Reason: ReasonDocument, Path: name, Err: err}
	}
	if err := canon.Unmarshal(data, v); err != nil {
		return &Error{Reason: ReasonDocument, Path: name, Err: err}
	}
	return nil
}
