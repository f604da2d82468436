package verify

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/attest/predicate"
)

// Forms of what entry 0 says of the run. No observation shows these facts, so
// that their form is all that can be checked.
var (
	platformForm = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\A[a-z0-9]+/[a-z0-9_]+(/[a-z0-9.]+)?\z`) })
	digestForm   = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`sha256:[0-9A-Fa-f]{64}`) })
	runIDForm    = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\A[A-Za-z0-9._-]{1,128}\z`) })
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
		{"proxy.configDigest", r.Proxy.ConfigDigest}, {"proxy.caDigest", r.Proxy.CADigest}, {"probeDigest", r.ProbeDigest},
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
	case !referenceFits(r.Image):
		return fmt.Sprintf("image.reference %.200q names another digest than the image's and its index's", r.Image.Reference)
	case !platformForm().MatchString(r.Image.Platform):
		return fmt.Sprintf("image.platform %.60q is not os/architecture", r.Image.Platform)
	case !runIDForm().MatchString(r.RunID):
		return fmt.Sprintf("runId %.60q is not a plain name", r.RunID)
	case !onHost(r.Image.Platform, r.Host.Arch):
		return fmt.Sprintf("image.platform %.60q does not run on a host of architecture %.40q", r.Image.Platform, r.Host.Arch)
	case r.Enforcement.State == manifest.EnforcementEnforced && r.Enforcement.Reason != "":
		return "enforcement has a reason why it should not have been in force, and was"
	case len(slices.Compact(slices.Sorted(slices.Values(r.Substitutions)))) != len(r.Substitutions):
		return "a substitution is listed twice"
	}
	if s := r.Series; s != nil && (s.Index < 1 || s.Of < s.Index) {
		return fmt.Sprintf("run %d of a series of %d: there is no such run", s.Index, s.Of)
	}
	return kernelFault(r)
}

// onHost tells whether an image for a platform runs on a machine of an
// architecture: the battery runs no foreign ones.
func onHost(platform, arch string) bool {
	rest, ok := strings.CutPrefix(platform, "linux/")
	machine, _, _ := strings.Cut(rest, "/")
	return ok && machine == arch
}

// referenceFits tells whether a reference that pins a digest pins that of the
// image or of its index.
func referenceFits(i manifest.Image) bool {
	if _, pinned, ok := strings.Cut(i.Reference, "@sha256:"); ok && !digestForm().MatchString("sha256:"+pinned) {
		return false
	}
	for _, d := range digestForm().FindAllString(i.Reference, -1) {
		if d != i.Digest && d != i.IndexDigest {
			return false
		}
	}
	return true
}
