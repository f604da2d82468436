// Package keyref has the form of references to keys in key services,
// SCHEME://…, and what a helper says of a key. Program and helpers read them
// alike; the helpers are in package kms and in cmd/wallproof-kms and
// cmd/wallproof-pkcs11.
package keyref

import (
	"encoding/json"
	"io"
	"regexp"
	"strings"
	"sync"
)

// Is reports whether s names a key in a key service rather than a file.
func Is(s string) bool { return form().MatchString(Normalize(s)) }

var (
	form       = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\A[a-z][a-z0-9]+://\S*\z`) })
	gcpVersion = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`\A(gcpkms://projects/[^/]+/locations/[^/]+/keyRings/[^/]+/cryptoKeys/[^/]+)/(?:versions|cryptoKeyVersions)/([^/]+)\z`)
	})
)

// PKCS11 is the scheme of keys in a token. A PKCS #11 URI (RFC 7512) has no "//"
// behind it; the plugin protocol's references have.
const PKCS11 = "pkcs11"

// Normalize writes the one spelling of a reference. Google's version may be
// called "versions" or "cryptoKeyVersions", and a PKCS #11 URI has no "//".
func Normalize(ref string) string {
	if rest, ok := strings.CutPrefix(ref, PKCS11+":"); ok && !strings.HasPrefix(rest, "//") {
		return PKCS11 + "://" + rest
	}
	if m := gcpVersion().FindStringSubmatch(ref); m != nil {
		return m[1] + "/cryptoKeyVersions/" + m[2]
	}
	return ref
}

// Split takes a reference apart, in its one spelling: the scheme, and what names
// the key there. ok is false where s is no reference.
func Split(s string) (scheme, key string, ok bool) {
	s = Normalize(s)
	if !form().MatchString(s) {
		return "", "", false
	}
	return strings.Cut(s, "://")
}

// Description is what a key service says of a key.
type Description struct {
	URI        string `json:"uri"`                  // with its version
	Record     string `json:"record,omitempty"`     // what goes into evidence, where that is not the URI
	Version    string `json:"version,omitempty"`    // where the URI cannot carry it
	Protection string `json:"protection,omitempty"` // "HSM", "SOFTWARE", …
	State      string `json:"state,omitempty"`
}

// Write writes a description as a helper answers with it.
func (d Description) Write(w io.Writer) error { return json.NewEncoder(w).Encode(d) }
