// Package oci attaches bundles to images in an OCI registry and finds them
// again. It only moves bytes: what is fetched is verified elsewhere, offline.
//
// # Form
//
// A bundle is an OCI 1.1 artefact manifest whose subject is the image's platform
// manifest, in the form that Sigstore's tools write and read:
//
//	artifactType  application/vnd.dev.sigstore.bundle.v0.3+json
//	config        the empty one, application/vnd.oci.empty.v1+json
//	layers        one, the bundle, of the artifactType's media type
//	annotations   dev.sigstore.bundle.content: dsse-envelope
//	              dev.sigstore.bundle.predicateType: the statement's
//
// A registry that has no referrers API is given the fallback tag, sha256-<hex>,
// an index of all referrers. That tag is read, changed and written back without
// a lock, so two writers can lose one entry; Attach therefore looks again, and
// adds its entry anew, until it has stayed.
package oci

import (
	"errors"
	"time"
)

// Media types and annotations.
const (
	BundleType          = "application/vnd.dev.sigstore.bundle.v0.3+json"
	emptyConfigType     = "application/vnd.oci.empty.v1+json"
	contentAnnotation   = "dev.sigstore.bundle.content"
	predicateAnnotation = "dev.sigstore.bundle.predicateType"
	contentEnvelope     = "dsse-envelope"
)

// Bounds.
const (
	maxReferrers     = 256
	maxManifestBytes = 4 << 20
	maxFetchedBytes  = 512 << 20 // of all bundles of an image together
	maxRedirects     = 10
	settleChecks     = 4                      // how often an entry must still be there
	settleDelay      = 150 * time.Millisecond // between two looks, more each time
	settleRounds     = 24
)

// Errors of this package.
var (
	ErrNotDigest   = errors.New("name the image by its digest, NAME@sha256:…: a tag can be moved between two looks")
	ErrNotSettled  = errors.New("another writer keeps removing the entry from the fallback tag; attach again")
	ErrTooMany     = errors.New("the image has more referrers than the limit")
	ErrTooLarge    = errors.New("a referrer is larger than the limit")
	ErrTooMuch     = errors.New("the image's referrers together are larger than the limit")
	ErrNotBundle   = errors.New("the digest is not of an attached bundle")
	ErrDigest      = errors.New("the registry answered with a manifest of another digest")
	ErrRedirects   = errors.New("the registry sends its clients on without end")
	ErrClear       = errors.New("plain http is used for this machine's own registries only")
	ErrNoPlatform  = errors.New("the index has no manifest for this platform")
	ErrNotManifest = errors.New("the digest is of an index; attach to and ask about its platform manifest")
)
