// Package forge is a git forge of the world: repositories over git's smart HTTP
// protocol (fetch and push), GitHub App installation tokens, and the part of
// GitHub's REST API that can be written to. It keeps everything in memory.
//
// A forge as found in the field knows tokens and their scopes, and nothing of a
// policy. So this one refuses what the token used does not cover, and records,
// but accepts, what only a broker would refuse; Push.Breach tells the two apart.
//
// # Tokens
//
// An installation token is "ghs_" and a canary (probes/canary), so that a leak
// of one is seen by whoever looks for canaries. Its LeaseID is the first 16
// hexadecimal characters of its SHA-256.
package forge

import "time"

// Config configures a forge.
type Config struct {
	Repos []Repo `json:"repos,omitempty"`
	// Push lists the writes that a permitted use makes; an accepted write outside
	// them is a breach. Empty means that every one is.
	Push []PushRule `json:"push,omitempty"`
	// Apps are the GitHub Apps that may ask for installation tokens.
	Apps []App `json:"apps,omitempty"`
	// FullTokens are accepted for every repository and never expire: what a
	// platform without a broker would hand out.
	FullTokens []string `json:"fullTokens,omitempty"`
	// TokenSeconds is how long an installation token lasts; 0 means an hour, as
	// GitHub's do.
	TokenSeconds int64 `json:"tokenSeconds,omitempty"`
	// ReadSeconds is how long a token that cannot write is said to last; 0 means as
	// long as others. The forge takes it all the same, as forges do whose own tokens
	// outlive the lease of a policy, and tells when one comes back after its time.
	ReadSeconds int64 `json:"readSeconds,omitempty"`
}

// Repo is a repository that exists from the start, with one commit on its
// default branch "main".
type Repo struct {
	Name    string            `json:"name"`              // "owner/repo"
	Private bool              `json:"private,omitempty"` // wants a token for reading, too
	Files   map[string]string `json:"files,omitempty"`   // path to content
	Message string            `json:"message,omitempty"` // of the commit
	// Branches beside main, each at the same commit.
	Branches []string `json:"branches,omitempty"`
}

// PushRule permits pushes to refs of one repository.
type PushRule struct {
	Repo  string `json:"repo"`  // "owner/repo"
	Refs  string `json:"refs"`  // pattern, "*" is any run of characters, e.g. "refs/heads/agent/*"
	Force bool   `json:"force"` // also forced updates and deletions
}

// App is a GitHub App with one installation.
type App struct {
	ID           string   `json:"id"`
	Installation int64    `json:"installation"`
	PublicKeyPEM string   `json:"publicKeyPEM"` // RSA, PKIX or PKCS #1
	Repos        []string `json:"repos"`        // "owner/repo" that the installation covers
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
	Breach   bool     `json:"breach"`           // accepted, and not permitted by Config.Push
	Nonces   []string `json:"nonces,omitempty"` // found in the ref, commit messages, file names or contents
	Obtained []string `json:"obtained,omitempty"`
}

// Lease is an installation token's life.
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

// LeaseFull stands for a full token in Push.Lease.
const LeaseFull = "full"

// TimeFormat is how every time in the evidence is written.
const TimeFormat = "2006-01-02T15:04:05.000Z"

// Bounds.
const (
	MaxPackBytes     = 32 << 20  // of one push, compressed
	maxUnpacked      = 128 << 20 // all objects of one push
	maxObjects       = 50_000    // of one push
	maxCommands      = 64        // ref updates of one push
	maxRepos         = 64        // forks included
	maxTokens        = 4096      // alive at once
	maxRepoObjects   = 200_000   // after which a repository takes no more pushes
	maxWants         = 256       // of one fetch
	maxHaves         = 4096      // of one round of a fetch
	defaultTokenLife = time.Hour // as GitHub's
	maxScanned       = 16 << 20  // bytes of pushed content looked at for nonces and canaries
)
