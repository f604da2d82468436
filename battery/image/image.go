// Package image turns an image reference into a pinned, checked, unpacked root
// file system, and builds the demo image.
//
// An image is hostile until its bytes have been checked, and its layers are
// hostile even then. So every manifest and configuration is compared with the
// digest that named it before it is parsed, and layers are unpacked by a
// process of their own in namespaces of its own (see Unpack), which checks both
// the digest of the compressed and the diff id of the uncompressed bytes while
// they pass, and which holds every size, count and depth to a limit.
package image

import (
	"errors"
	"net/http"

	"github.com/google/go-containerregistry/pkg/authn"
	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// IDBase is the host user and group id that an unpacked root file system's id
// 0 is stored as; ids up to IDCount-1 follow. It is what sandbox.Spec.IDBase
// wants. It lies above the ranges that distributions and systemd hand out
// (subordinate ids begin at 100000, container ranges end at 0x6fffffff), so
// that no user or container of the host shares an id with a sandbox.
const (
	IDBase  = 0x7000_0000
	IDCount = 1 << 16
)

// ErrTagNotDigest means that a reference names a tag and not a digest. Errors
// that wrap it say how to pin.
var ErrTagNotDigest = errors.New("image is named by tag, not by digest")

// ErrNotFound means that the registry, layout or archive answered and has no
// such image.
var ErrNotFound = errors.New("image not found")

// ErrUnauthorized means that the registry refused the credentials, or their
// absence.
var ErrUnauthorized = errors.New("registry refuses access")

// ErrUnreachable means that the registry could not be reached.
var ErrUnreachable = errors.New("registry cannot be reached")

// ErrNoPlatform means that there is no image for the platform asked for.
var ErrNoPlatform = errors.New("no image for this platform")

// ErrMismatch means that bytes do not have the digest that names them: of a
// manifest, a configuration, a layer, or a layer's uncompressed content.
var ErrMismatch = errors.New("content does not match its digest")

// ErrInvalid means that an image is not well formed.
var ErrInvalid = errors.New("invalid image")

// Source says where an image came from.
type Source string

// The sources.
const (
	FromRegistry Source = "registry"
	FromLayout   Source = "oci-layout"
	FromArchive  Source = "archive"
)

// Options configure Resolve. The zero value is usable.
type Options struct {
	ResolveTag bool              // accept a tag; its digest is recorded and only the digest is used from then on
	Platform   string            // "linux/arm64"; "" means linux and this machine's architecture
	Keychain   authn.Keychain    // nil means the user's Docker configuration
	Transport  http.RoundTripper // nil means the default with bounded timeouts
	UserAgent  string            //
}

// Resolved is an image pinned by digest.
type Resolved struct {
	Reference   string         // as pinned: "registry/repo@sha256:…", or the path with "@sha256:…"
	Tag         string         // the tag that was resolved, "" if the reference had a digest
	Source      Source         //
	Digest      string         // "sha256:…" of the platform manifest
	IndexDigest string         // "sha256:…" of the index it came from, "" if there was none
	Platform    string         // "linux/amd64" or "linux/arm64/v8", as the image says
	Image       v1.Image       // lazily read; layers are checked when they are unpacked
	Config      *v1.ConfigFile //
}

// Bounds of what is read into memory.
const (
	maxManifest     = 4 << 20 // bytes of a manifest or an index
	maxConfig       = 8 << 20 // bytes of a configuration
	maxIndexEntries = 1 << 10
	maxLayers       = 512 // in a manifest; Limits.Layers is what may be unpacked
)
