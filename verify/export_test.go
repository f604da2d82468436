package verify

import (
	"io/fs"

	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/battery/judge"
	"github.com/wallproof/wallproof/probes/catalog"
)

// ForgeDerived reads a packet as Inspect does, but takes what is recorded for
// true and goes on after faults: what somebody with the trusted key who wants to
// sign a false packet would do. It is nil where the packet cannot be read at all.
func ForgeDerived(p fs.FS, catalogue []catalog.Technique) *Derived {
	i := inspection{packet: p, known: know(catalogue)}
	i.run(nil)
	d := i.derived
	if d.Manifest == nil || d.Redaction == nil || d.Files == nil {
		return nil
	}
	d.Judged = append([]manifest.Technique(nil), d.Manifest.Techniques...)
	d.Vectors = judge.Vectors(catalogue, d.Judged)
	return &d
}
