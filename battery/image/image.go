// Package image turns an image reference into a pinned, checked, unpacked root
// file system, and builds the demo image.
package image

import (
	"context"
	"errors"
	"net/http"

	"github.com/google/go-containerregistry/pkg/authn"
	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// IDBase is the host user and group id that an unpacked root file system's id
// 0 is stored as; ids up to IDCount-1 follow. It is what sandbox.Spec.IDBase
// wants.
const (
	IDBase  = 100000
	IDCount = 65536
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

// ErrNoPlatform means that an index has no image for the platform asked for.
var ErrNoPlatform = errors.New("index has no image for this platform")

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

// Limits bound what unpacking may produce. Zero fields mean DefaultLimits'.
type Limits struct {
	Bytes     int64 // of all files' content together
	FileBytes int64 // of one file
	Entries   int64 // in all layers together
	Layers    int   //
	PathBytes int   // of one entry's name, and of a link's target
	Depth     int   // path elements in one entry's name
	Ratio     int64 // uncompressed bytes a compressed byte, once RatioFloor bytes came out
}

// UnpackOptions configure Unpack.
type UnpackOptions struct {
	// Command is the argv prefix that runs UnpackMain in a process of its own,
	// usually the running executable and a hidden command name.
	Command []string
	Limits  Limits
}

// Report is what Unpack found.
type Report struct {
	Entries int64    `json:"entries"`
	Bytes   int64    `json:"bytes"`
	Skipped []string `json:"skipped,omitempty"` // the first entries left out and why: device nodes and the like
	SetID   int64    `json:"setId"`             // files whose set-user-id or set-group-id bit was taken off
}

// Unpack writes the image's root file system into the new folder dir, which
// must not exist. Files are owned by IDBase + their id in the image. On an
// error nothing is left.
func Unpack(ctx context.Context, r *Resolved, dir string, o UnpackOptions) (*Report, error) {
	return nil, errors.New("image: not there yet")
}

// UnpackMain is the unpacking process: the command line calls it, and nothing
// else, when it was started with UnpackOptions.Command. It returns the exit
// code.
func UnpackMain(args []string) int { return 2 }

// DemoOptions configure Demo.
type DemoOptions struct {
	// Shell adds /bin/sh, ls, cat, echo and env as links to /bin/wallproof-agent.
	Shell bool
	// Files are added to the image: path to content, mode 0644.
	Files map[string][]byte
	// Env is added to the image's configuration.
	Env []string
	// Labels are added to the image's configuration.
	Labels map[string]string
}

// Demo builds the small reproducible demo image around a static agent binary.
// The same input gives the same digest.
func Demo(agent []byte, o DemoOptions) (v1.Image, error) {
	return nil, errors.New("image: not there yet")
}

// ServeRegistry serves images from an in-process registry on a loopback
// address, each as "<addr>/<name>@<digest>". stop ends it.
func ServeRegistry(ctx context.Context, images map[string]v1.Image) (addr string, stop func() error, err error) {
	return "", nil, errors.New("image: not there yet")
}

// Resolve finds the image that ref names and pins it: a registry reference
// with digest, an OCI layout folder ("path@sha256:…", or a folder with one
// manifest), or an archive as "docker save" or a tar of an OCI layout.
func Resolve(ctx context.Context, ref string, o Options) (*Resolved, error) {
	return nil, errors.New("image: not there yet")
}
