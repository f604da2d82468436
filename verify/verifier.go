package verify

import (
	"fmt"
	"sync"
	"time"

	"github.com/sigstore/sigstore-go/pkg/root"

	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/attest/predicate"
	"github.com/wallproof/wallproof/probes/catalog"
	"github.com/wallproof/wallproof/verify/trustroot"
)

// Verifier keeps what many verifications have in common: the trusted root, which
// is read when the first signature needs it and then never again, and the
// catalogue with its digest. It may be used by several goroutines at a time.
type Verifier struct {
	root  func() (*root.TrustedRoot, error)
	info  TrustedRoot // without its age
	given bool        // the root was given, not the embedded one
	known func() *known
	// vectors are those of the catalogue, in its order. They are all that a bundle
	// alone needs of it.
	vectors func() []string

	policies policies
}

// known is a catalogue and what is looked up in it.
type known struct {
	list   []catalog.Technique
	by     map[string]catalog.Technique // by id
	digest string
	err    error
}

// NewVerifier prepares verifications against one trusted root and one catalogue.
// trustedRoot, its digest and catalogue mean what they mean in an Input. A
// trusted root that cannot be read is told by each report.
func NewVerifier(trustedRoot []byte, trustedRootDigest string, catalogue []catalog.Technique) *Verifier {
	v := &Verifier{given: trustedRoot != nil, known: ownCatalogue, vectors: ownVectors}
	if catalogue != nil {
		v.known = sync.OnceValue(func() *known { return know(catalogue) })
		v.vectors = func() []string { return vectors(catalogue) }
	}
	if !v.given {
		v.root = embeddedRoot
		v.info = TrustedRoot{Source: "embedded", Date: trustroot.PublicGoodDate.Format(time.DateOnly), Digest: "sha256:" + trustroot.PublicGoodDigest}
		return v
	}
	v.info = TrustedRoot{Source: "given", Digest: predicate.Digest(trustedRoot)}
	v.root = sync.OnceValues(func() (*root.TrustedRoot, error) {
		if trustedRootDigest != "" {
			if err := trustroot.Check(trustedRoot, trustedRootDigest); err != nil {
				return nil, err
			}
		}
		return trustroot.Parse(trustedRoot)
	})
	return v
}

// The embedded root and the verifier's own catalogue are read once a process.
var (
	embeddedRoot = sync.OnceValues(func() (*root.TrustedRoot, error) {
		data, err := trustroot.PublicGood()
		if err != nil {
			return nil, err
		}
		return trustroot.Parse(data)
	})
	ownCatalogue = sync.OnceValue(func() *known { return know(catalog.All()) })
)

func ownVectors() []string {
	var out []string
	for _, v := range catalog.Vectors() {
		out = append(out, string(v))
	}
	return out
}

func know(list []catalog.Technique) *known {
	k := &known{list: list, by: make(map[string]catalog.Technique, len(list))}
	for _, t := range list {
		k.by[t.ID] = t
	}
	k.digest, k.err = CatalogueDigest(list)
	return k
}

// Verify verifies as the function of that name does, with the verifier's own
// trusted root and catalogue: those of in are not looked at.
func (s *Verifier) Verify(in Input) Report {
	v := &verification{in: in, shared: s}
	v.report.Times.Checked = manifest.FormatTime(in.At)
	v.run()
	v.report.Checks = inOrder(v.list)
	v.report.Verdict = v.report.verdict()
	v.report.clean()
	if v.evidence != nil {
		v.report.Evidence = v.evidence
	}
	return v.report
}

// describe says which trusted root is used, and how old it is at a moment.
func (s *Verifier) describe(at time.Time) *TrustedRoot {
	info := s.info
	if !s.given {
		info.Age = fmt.Sprintf("%dd", max(0, int(at.Sub(trustroot.PublicGoodDate).Hours()/24)))
	}
	return &info
}
