// Package site renders the trust-boundary pages: static files that state what a
// boundary withstood, and that withdraw the statement the moment it is no
// longer current.
//
// Build runs the verifier itself and renders its verdict. What does not verify
// is not rendered at all; what verifies but is held is replaced by a notice with
// the reason code and its date. Withdrawal is by absence: the served HTML of a
// held claim does not contain it, so nothing depends on a script to hide it.
//
// Layout of the output:
//
//	index.html                  the trust boundary of the primary attestation
//	procurement/index.html      the procurement room
//	attestations/NN/ID.html     one page an attestation, with ID.status.json,
//	                            ID.badge.json, ID.badge.svg, ID.jsonld,
//	                            ID.sigstore.json and the packet, ID.tar
//	fleet/index.html            every attestation, paged
//	verify/index.html           the verifier, running in the reader's browser
//	history/index.html          every change of state
//	404.html
//	status.json badge.json badge.svg boundary.jsonld feed.xml history.json live.json
//	_headers .htaccess …        response headers for common static hosts
//
// The same input, history and clock give the same bytes.
package site

import (
	"time"

	"github.com/wallproof/wallproof/verify"
)

// Input is everything that a build depends on. Nothing else is read, but for the
// history.json of an earlier build in the output folder.
type Input struct {
	// Packets are the evidence packets. Their order matters in one way: the image
	// of the first is the one that index.html is about, unless Primary says
	// otherwise. Of that image the newest run counts, whatever its state: an older
	// claim never stands in for a newer result.
	Packets []Packet
	// Primary is the name of the image that index.html is about (a reference
	// without tag and digest), or "" for that of the first packet.
	Primary string
	// Verify is what every packet is verified with: trust, requirements, policy in
	// force, limits. Packet, Bundle, Verification, At, Live and Latched are set by
	// Build.
	Verify verify.Input
	// Live is the content of live.json, what is deployed at this moment, or nil.
	// It is compared with the attestations over the primary image, and published,
	// so that the page compares too. For other images see Packet.Live.
	Live []byte
	// History is the content of an earlier history.json. Nil reads the one in
	// the output folder, if there is one.
	History []byte
	// Theme gives name, colours and texts of the publisher. The zero value is
	// Wallproof's own.
	Theme Theme
	// Clock tells the moment of the build; nil means the system's clock.
	Clock func() time.Time
	// BaseURL is where the site will live, "https://trust.example.org/" or so. It
	// is used in the feed, in the badge's address and by 404.html, which is
	// served at any depth. Empty means the root of an unnamed host.
	BaseURL string
	// Wasm is the verifier built for the browser. Without it the verify page
	// explains how to verify on the command line.
	Wasm Wasm
	// Cache is a file that remembers the packets of the build before, so that those
	// that did not change are taken over. "" means none. It holds no evidence and
	// belongs outside the output folder.
	Cache string
	// Workers bounds how many packets are verified at once; 0 means one a core.
	Workers int
}

// Wasm is the verifier for js/wasm with the loader of the same Go release.
type Wasm struct {
	Module []byte // the module, plain or compressed by gzip
	Exec   []byte // wasm_exec.js of the Go release that built it
}

// Result says what was built.
type Result struct {
	Primary      *Summary  `json:"primary"`           // what index.html is about
	Attestations []Summary `json:"attestations"`      // primary first, then newest first
	Next         string    `json:"next,omitempty"`    // when the first claim that is shown ends, RFC 3339: rebuild the site then; "" where none is shown
	Removed      []string  `json:"removed,omitempty"` // digests of the attestations that the site had before, and that are not in Packets
	Files        int       `json:"files"`             // in the output folder
	Bytes        int64     `json:"bytes"`             // their total size
	Reused       int       `json:"reused"`            // attestations whose pages were taken over unchanged from the build before
	Unread       int       `json:"unread"`            // of those, how many were taken for unchanged without being read
}

// Summary is what the site says of one packet.
type Summary struct {
	Packet  string   `json:"packet"`                // Packet.Name
	Digest  string   `json:"attestation,omitempty"` // the attestation's digest, "sha256:…", or "" where it cannot be told
	Subject string   `json:"subject,omitempty"`     // the image's platform manifest digest, or "" where it is not authenticated
	State   State    `json:"state"`                 //
	Codes   []string `json:"codes,omitempty"`       // reason codes of what holds or invalidates it, sorted
	Page    string   `json:"page,omitempty"`        // path of its page below the output folder, or "" where none is rendered
}
