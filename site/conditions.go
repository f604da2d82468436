package site

import "github.com/wallproof/wallproof/verify"

// withdrawals are what takes a claim off the page, each with the check of the
// verifier that looks for it.
var withdrawals = []struct{ check, title, text string }{
	{verify.CheckBattery, "A critical escape, or a vector without a conclusive result", "In the battery, judged again by the verifier."},
	{verify.CheckRedTeam, "A critical escape of the external red team", "Or a result over another image."},
	{verify.CheckImage, "Image drift", "Another image digest is deployed than the one attested."},
	{verify.CheckPolicy, "Policy drift", "Another egress policy is in force than the one attested."},
	{verify.CheckFabric, "Fabric drift", "Another driver, runtime, kernel or isolation configuration than measured."},
	{verify.CheckLatch, "A drift that was seen before", "It holds this attestation for good, even when it was undone."},
	{verify.CheckRerun, "A missing or failed re-run of the verifier", "Then the claim is stale, not signed."},
	{verify.CheckEnforcement, "Enforcement that failed or had nothing to do", "Then there was no boundary to test."},
	{verify.CheckExpiry, "Expiry", ""},
}

// conditions says for each of them what the verifier found.
func (e *evidence) conditions() []condition {
	out := make([]condition, 0, len(withdrawals))
	for _, w := range withdrawals {
		c := condition{Title: w.title, Text: w.text, Word: "Not checked", Glyph: "open"}
		if w.check == verify.CheckExpiry {
			c.Text = "On " + at(e.expires).Text + "."
		}
		for _, k := range e.checks {
			if k.name != w.check || c.Glyph == "held" { // one that is the case stays so
				continue
			}
			switch {
			case k.code == string(verify.CodeEscape): // below critical: it takes away what it contradicts, and no more
				c.Word, c.Glyph = "Not the case", "signed"
			case k.code == string(verify.CodeRedTeamNone):
				c.Word, c.Glyph = "Not provided", "none"
			case k.status == string(verify.Pass):
				c.Word, c.Glyph = "Not the case", "signed"
			case k.status == string(verify.NotChecked) && c.Glyph == "signed": // compared with something else
			case k.status == string(verify.NotChecked):
				c.Word, c.Glyph = "Not compared", "open"
			default:
				c.Word, c.Glyph = "The case", "held"
			}
		}
		out = append(out, c)
	}
	return out
}
