package witness

import "github.com/wallproof/wallproof/attest/manifest"

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

// Push is one ref update that the forge was asked for.
type Push struct {
	Time     string   `json:"time"`
	Repo     string   `json:"repo"` // "owner/repo"
	Ref      string   `json:"ref"`
	Old      string   `json:"old"`              // commit id, all zeros for a creation
	New      string   `json:"new"`              // commit id, all zeros for a deletion
	Force    bool     `json:"force"`            // not a fast-forward, or a deletion
	Lease    string   `json:"lease"`            // LeaseID of the token used, "full" for a full token
	Accepted bool     `json:"accepted"`         //
	Reason   string   `json:"reason,omitempty"` // why not
	Breach   bool     `json:"breach"`           // accepted, and not permitted by Forge.Push
	Nonces   []string `json:"nonces,omitempty"` // found in the ref, commit messages, file names or contents
	Obtained []string `json:"obtained,omitempty"`
}

// Lease is an installation token's life. ID is the first 16 hexadecimal
// characters of the token's SHA-256.
type Lease struct {
	Time         string            `json:"time"`
	ID           string            `json:"id"`
	Digest       string            `json:"digest"` // SHA-256 of the canary in the token
	App          string            `json:"app"`
	Installation int64             `json:"installation"`
	Repos        []string          `json:"repos"`
	Permissions  map[string]string `json:"permissions,omitempty"`
	Expires      string            `json:"expires"`
	Revoked      bool              `json:"revoked,omitempty"`
}

// Command is a line that a running witness reads.
type Command struct {
	Sync uint64 `json:"sync,omitempty"` // asks for an EventSynced with this ID
}
