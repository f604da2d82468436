package verify

import (
	"fmt"
	"regexp"
	"slices"

	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/attest/predicate"
)

// Forms of what entry 0 says of the run. No observation shows these facts, so
// that their form is all that can be checked.
var (
	platformForm = regexp.MustCompile(`\A[a-z0-9]+/[a-z0-9_]+(/[a-z0-9.]+)?\z`)
	runIDForm    = regexp.MustCompile(`\A[A-Za-z0-9._-]{1,128}\z`)
)

// runFault says what is wrong with entry 0, or "".
func runFault(r manifest.Run) string {
	for _, d := range []struct{ name, digest string }{
		{"image.digest", r.Image.Digest}, {"policyDigest", r.PolicyDigest}, {"catalogDigest", r.CatalogDigest},
	} {
		if err := predicate.CheckDigest(d.digest); err != nil {
			return d.name + ": " + err.Error()
		}
	}
	for _, d := range []struct{ name, digest string }{
		{"image.indexDigest", r.Image.IndexDigest}, {"driver.configDigest", r.Driver.ConfigDigest},
		{"proxy.configDigest", r.Proxy.ConfigDigest}, {"probeDigest", r.ProbeDigest},
	} {
		if d.digest == "" {
			continue
		}
		if err := predicate.CheckDigest(d.digest); err != nil {
			return d.name + ": " + err.Error()
		}
	}
	switch {
	case r.Image.Digest == r.Image.IndexDigest:
		return "image.indexDigest is the platform manifest's"
	case !platformForm.MatchString(r.Image.Platform):
		return fmt.Sprintf("image.platform %.60q is not os/architecture", r.Image.Platform)
	case !runIDForm.MatchString(r.RunID):
		return fmt.Sprintf("runId %.60q is not a plain name", r.RunID)
	case r.Image.Reference == "" || r.Driver.Name == "":
		return "image.reference or driver.name is empty"
	case len(slices.Compact(slices.Sorted(slices.Values(r.Substitutions)))) != len(r.Substitutions):
		return "a substitution is listed twice"
	}
	return ""
}
