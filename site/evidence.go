package site

import (
	"strings"
	"time"

	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/attest/predicate"
	"github.com/wallproof/wallproof/policy"
	"github.com/wallproof/wallproof/probes/catalog"
)

// evidence is one attestation that verified, with everything that a page says
// of it.
type evidence struct {
	id          string // short form of digest, part of addresses
	digest      string // of the signed statement, "sha256:…"
	subject     string // platform manifest digest
	boundary    predicate.Boundary
	techniques  []manifest.Technique
	edges       []policy.Edge
	checks      []check
	signer      string
	fingerprint string // of the signer's public key, "sha256:…"
	signedAt    time.Time
	signedHow   string // what the signing time rests on
	algorithm   string
	logged      string // log index, or "" when it is in no log
	rerun       *rerun
	bundle      string // digest of the bundle's file
	scorecard   *predicate.Scorecard
	collected   time.Time
	expires     time.Time // the earlier of the statement's and the verifier's limit
	state       State
	reasons     []holding
	catalog     map[string]catalog.Technique
}

// check is one line of the verifier.
type check struct{ name, status, code, message, evidence string }

// rerun is the verifier's signed re-run.
type rerun struct {
	by          string
	at          time.Time
	independent bool
}

// holding is one reason why a claim is not shown.
type holding struct {
	code    string
	message string
	since   time.Time
	latched bool
}

// idLen is how many hex digits of an attestation's digest name its page.
const idLen = 16

func pageID(digest string) string {
	h := strings.TrimPrefix(digest, "sha256:")
	if len(h) > idLen {
		h = h[:idLen]
	}
	return h
}

// imageName is a reference without tag and digest: what people call the image.
func imageName(ref string) string {
	ref, _, _ = strings.Cut(ref, "@")
	if i := strings.LastIndexByte(ref, ':'); i > strings.LastIndexByte(ref, '/') {
		ref = ref[:i]
	}
	if ref == "" {
		return "unnamed image"
	}
	return plain(ref)
}

func (e *evidence) name() string { return imageName(e.boundary.Image.Reference) }

// attested is the day that chips carry.
func (e *evidence) attested() time.Time {
	if !e.signedAt.IsZero() {
		return e.signedAt
	}
	return e.collected
}

// parseTime reads a time of the evidence; what cannot be read is no time.
func parseTime(s string) time.Time {
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return time.Time{}
	}
	return t
}
