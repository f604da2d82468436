package verify

import (
	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/attest/predicate"
	"github.com/wallproof/wallproof/battery/judge"
)

// digestOf is predicate.Digest.
func digestOf(data []byte) string { return predicate.Digest(data) }

// Boundary is the predicate that follows from the packet. Attested, Expires and
// Signing are left for the signer to fill in.
func (d *Derived) Boundary() predicate.Boundary {
	run := d.Manifest.Run
	b := predicate.Boundary{
		RunID:         run.RunID,
		Image:         run.Image,
		Policy:        d.Policy,
		Fabric:        predicate.Fabric{Driver: run.Driver, Host: run.Host},
		Proxy:         run.Proxy,
		Enforcement:   run.Enforcement,
		Admission:     manifest.Admission{State: manifest.AdmissionNotConfigured},
		Redaction:     d.redaction(),
		Battery:       d.battery(),
		ThreatModel:   d.ThreatModel,
		Collected:     d.Manifest.Terminal.Ended,
		Tool:          run.Tool,
		Substitutions: append([]string{}, run.Substitutions...),
		Limits:        predicate.DefaultLimits(),
		Files:         d.Files,
	}
	if run.Admission != nil {
		b.Admission = *run.Admission
	}
	if d.RedTeam != nil {
		r := d.RedTeam.RedTeam
		b.RedTeam = &r
	}
	return b
}

// Subject is the statement's one subject.
func (d *Derived) Subject() predicate.Subject {
	return predicate.SubjectOf(d.Manifest.Run.Image.Reference, d.Manifest.Run.Image.Digest)
}

func (d *Derived) redaction() predicate.Redaction {
	r := d.Redaction
	return predicate.Redaction{
		Digest: d.redactionDigest, Secrets: r.Secrets, Encodings: append([]string{}, r.Encodings...), Files: int64(len(r.Scanned)),
		Hits: r.Hits, Planted: r.Control.Planted, Found: r.Control.Found,
	}
}

func (d *Derived) battery() predicate.Battery {
	m := d.Manifest
	b := predicate.Battery{
		Head: m.Summary.Head, Count: m.Summary.Count, MerkleRoot: m.Summary.MerkleRoot,
		CatalogDigest: m.Run.CatalogDigest, Totals: m.Terminal.Totals,
		Vectors:         []predicate.Vector{},
		CriticalEscapes: judge.CriticalEscapes(d.catalogue, d.Judged) + d.unclaimed,
		Permitted:       []predicate.PermittedArrival{},
	}
	for _, v := range d.Vectors {
		b.Vectors = append(b.Vectors, predicate.Vector{
			Vector: string(v.Vector), Outcome: string(v.Outcome), Severity: string(v.Severity), EscapedSeverity: string(v.Escaped),
		})
	}
	for _, e := range d.Judged {
		for _, f := range e.Findings {
			if f.Kind == manifest.FindingPermitted {
				b.Permitted = append(b.Permitted, predicate.PermittedArrival{Technique: e.Technique, Variant: e.Variant, Detail: f.Detail})
			}
		}
	}
	return b
}
