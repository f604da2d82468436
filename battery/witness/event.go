package witness

import (
	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/battery/witness/forge"
)

// Event types.
const (
	EventObservation = "observation" // something arrived, or Count, Bytes or Obtained of something that did have grown
	EventPush        = "push"        // the forge was asked to update a ref
	EventLease       = "lease"       // the forge issued or revoked an installation token
	EventSynced      = "synced"      // answers a sync command: everything that arrived before it has been written
	EventFailure     = "failure"     // a part failed; Detail says which
	EventStopped     = "stopped"     // the last line
)

// Ready is what a witness says once everything is listening.
type Ready struct {
	CAPEM string `json:"caPEM"` // certificate of the world's authority
}

// Event is one line that a witness writes. Members that do not apply are left
// out.
type Event struct {
	Type string `json:"type"`
	// ID numbers observations from 1, and repeats a sync command's ID. A later
	// observation with the same ID replaces the earlier one.
	ID          uint64                `json:"id,omitempty"`
	Observation *manifest.Observation `json:"observation,omitempty"`
	Push        *Push                 `json:"push,omitempty"`
	Lease       *Lease                `json:"lease,omitempty"`
	Detail      string                `json:"detail,omitempty"`
	Dropped     uint64                `json:"dropped,omitempty"` // stopped, synced: observations that exceeded the bounds
}

// What the forge reports; see package forge.
type (
	Push  = forge.Push
	Lease = forge.Lease
)

// Command is a line that a running witness reads.
type Command struct {
	Sync uint64 `json:"sync,omitempty"` // asks for an EventSynced with this ID
}
