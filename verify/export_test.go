package verify

import (
	"io/fs"

	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/attest/packet"
	"github.com/wallproof/wallproof/attest/predicate"
	"github.com/wallproof/wallproof/battery/judge"
	"github.com/wallproof/wallproof/probes/catalog"
)

// ForgeBoundary is the predicate that somebody with the trusted key would sign
// over a false packet: the index of its files as they are, everything else
// derived from them as far as they can be read, what is recorded taken for true,
// and the rest as it was in an earlier predicate. ok is false where the files
// cannot be listed.
func ForgeBoundary(p fs.FS, list []catalog.Technique, old predicate.Boundary) (b predicate.Boundary, ok bool) {
	i := inspection{packet: p, known: know(list), policies: &policies{}}
	d := &i.derived
	d.catalogue = list
	var err error
	if d.Files, err = packet.Index(p); err != nil {
		return b, false
	}
	b = old
	b.Files = d.Files
	f, err := packet.Open(p, packet.ManifestFile)
	if err != nil {
		return b, true
	}
	defer f.Close()
	if d.Manifest, err = manifest.Read(f); err != nil {
		return b, true
	}
	i.policy()
	i.observations()
	i.threatModel()
	i.redTeam()
	proof, data, err := packet.ReadRedaction(p)
	d.Redaction, d.redactionDigest = &proof, digestOf(data)
	d.Judged = append([]manifest.Technique(nil), d.Manifest.Techniques...)
	d.Vectors = judge.Vectors(list, d.Judged)
	b = d.Boundary()
	if err != nil {
		b.Redaction = old.Redaction
	}
	if b.Policy.Digest == "" {
		b.Policy = old.Policy
	}
	b.Attested, b.Expires, b.Signing = old.Attested, old.Expires, old.Signing
	return b, true
}
