package site

import (
	"fmt"
	"strings"

	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/attest/predicate"
	"github.com/wallproof/wallproof/battery/judge"
)

// The parts that one attestation covers, in the order in which they are shown.
// The anchors are those of the attestation's page.
var parts = []struct{ id, title, anchor string }{
	{"fabric", "Sandbox fabric", "fabric"},
	{"image", "Pinned image digest", "image"},
	{"egress", "Egress default", "policy"},
	{"proxy", "Mediated credentials", "proxy"},
	{"redaction", "Secret redaction", "redaction"},
	{"admission", "Supply-chain admission", "admission"},
	{"isolation", "Isolation battery", "techniques"},
	{"external", "External red team", "red-team"},
	{"threats", "Threat model", "threat-model"},
}

// invariants lists what is asserted. A part that the statement says nothing of
// is listed as not asserted.
func (e *evidence) invariants(self string) []invariant {
	signed := chip{Word: "Signed", Glyph: "signed", Class: "good", Date: on(e.attested())}
	held := chip{Word: "Held", Glyph: "held", Class: "hold", Date: on(e.since())}
	silent := chip{Word: "Not asserted", Glyph: "none", Class: "plain"}
	out := make([]invariant, 0, len(parts))
	for i, p := range parts {
		text, asserted := e.part(p.id)
		c := signed
		switch {
		case e.contradicted(p.id):
			text, c = contradiction+"; see below.", held
		case !asserted:
			c = silent
		}
		out = append(out, invariant{N: i + 1, ID: p.id, Title: p.title, Text: text, Href: self + "#" + p.anchor, Chip: c})
	}
	return out
}

// contradiction stands in the place of what an escape takes away.
const contradiction = "An attack that bears on this got through"

// bearing says which part of the claim a vector's escape contradicts, beside the
// battery itself.
var bearing = map[string]string{
	"TOK": "proxy", "INJ": "proxy",
	"NET": "egress", "LAT": "egress", "IMD": "egress",
	"TEN": "fabric", "SNP": "fabric", "ENV": "fabric",
}

// contradicted tells whether an escape takes a part away.
func (e *evidence) contradicted(part string) bool {
	for _, v := range e.boundary.Battery.Vectors {
		if v.Outcome == string(judge.Escaped) && (part == "isolation" || bearing[v.Vector] == part) {
			return true
		}
	}
	return false
}

// part says what one part asserts; false when it asserts nothing.
func (e *evidence) part(id string) (string, bool) {
	b := e.boundary
	switch id {
	case "fabric":
		d := b.Fabric.Driver
		return fmt.Sprintf("The code ran under %s %s, %s, as measured from inside.", clean(d.Name), clean(d.Version), kernelText(d)), true
	case "image":
		return fmt.Sprintf("One image, %s, named by its digest. Any other image is another subject.", clean(b.Image.Platform)), true
	case "egress":
		if b.Policy.EgressDefault == "deny" {
			return "What the policy does not name is refused, and the refusal is recorded.", true
		}
		return "The policy lets through what it does not name. Only the edges below are refused.", true
	case "proxy":
		if b.Proxy.Placement == outsideSandbox {
			return "A proxy outside the sandbox adds credentials to requests. The code inside never holds one that it could use elsewhere.", true
		}
		return "The proxy does not run outside the sandbox, so nothing is shown as brokered.", false
	case "redaction":
		return redactionText(b.Redaction), true
	case "admission":
		return admissionText(b.Admission)
	case "isolation":
		return fmt.Sprintf("%s, each with its own positive control. %s.", count(e.attacks(), "attack", "attacks"), count(b.Battery.CriticalEscapes, "critical escape", "critical escapes")), true
	case "external":
		if b.RedTeam == nil {
			return "No result was provided.", false
		}
		return fmt.Sprintf("%s: %s.", clean(b.RedTeam.Engagement), count(b.RedTeam.CriticalEscapes, "critical escape", "critical escapes")), true
	case "threats":
		if b.ThreatModel == nil {
			return "No threat model was provided.", false
		}
		return "Scope, trust assumption, asset and boundary, bound to the image digest.", true
	}
	return "", false
}

func redactionText(r predicate.Redaction) string {
	return fmt.Sprintf("%s searched for %s in %s: %s. A planted value was found %d times of %d.",
		count(r.Files, "file was", "files were"), count(r.Secrets, "secret", "secrets"),
		count(int64(len(r.Encodings)), "encoding", "encodings"), count(r.Hits, "hit", "hits"), r.Found, r.Planted)
}

func admissionText(a manifest.Admission) (string, bool) {
	if a.State != manifest.AdmissionAdmitted {
		return "No admission policy was configured for this image.", false
	}
	s := "The image was admitted under a supply-chain policy before anything ran."
	if d := strings.TrimSpace(clean(a.Detail)); d != "" {
		s += " " + d
	}
	return s, true
}
