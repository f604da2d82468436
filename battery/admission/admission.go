// Package admission lets an image in, or not, before anything of it runs: by who
// signed it and by what built it.
//
// # What is looked for
//
// In the image's repository, or in one that is named in its place, for the digest
// of the platform manifest and for that of the index through which it was chosen:
//
//   - signatures of cosign: the tag sha256-<hex>.sig, whose layers are "simple
//     signing" payloads with their signature in an annotation; and Sigstore bundles
//     attached as OCI referrers that hold a statement of the type
//     https://sigstore.dev/cosign/sign/v1
//   - provenance: in-toto statements of the types https://slsa.dev/provenance/v0.2
//     and v1, in the tag sha256-<hex>.att or in bundles attached as referrers
//
// Each is verified against the rules' one key, or against the identity that a
// short-lived certificate names, under a trusted root. What it says must be about
// the digest that was asked for, whatever place it was found in: a signature that
// was moved over from another image does not count. What does not verify is passed
// over, and told when nothing else does.
package admission

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/battery/image"
)

// ErrNotAdmitted is wrapped by the refusal of an image.
var ErrNotAdmitted = errors.New("the image is not admitted")

// Bounds on what a registry offers.
const (
	maxCandidates = 128     // signatures and attestations that are looked at
	maxBytes      = 8 << 20 // of one of them
	maxTold       = 6       // reasons in a refusal
)

// Admit looks for what the rules ask and returns what the manifest records. from
// names the repository to look in; "" means the image's own.
func Admit(ctx context.Context, img *image.Resolved, from string, rules *Rules, o image.Options) (*manifest.Admission, error) {
	checker, err := rules.checker()
	if err != nil {
		return nil, err
	}
	digest, err := rules.Digest()
	if err != nil {
		return nil, err
	}
	if from == "" {
		if img.Source != image.FromRegistry {
			return nil, fmt.Errorf("look for the image's signatures: %s is in no registry; name the repository that has them with --admit-from", img.Reference)
		}
		from, _, _ = strings.Cut(img.Reference, "@")
	}
	found, err := collect(ctx, from, img, o)
	if err != nil {
		return nil, fmt.Errorf("look for the image's signatures in %s: %w", from, err)
	}
	signed, built, told := checker.check(found)
	switch {
	case signed == "":
		return nil, refusal(img, "no signature "+checker.by()+" was found", len(found), told)
	case rules.Builder != "" && built == "":
		return nil, refusal(img, fmt.Sprintf("no provenance %s names the builder %.200q", checker.by(), rules.Builder), len(found), told)
	}
	a := &manifest.Admission{State: manifest.AdmissionAdmitted, PolicyDigest: digest, Detail: "signed " + checker.by() + " (" + signed + ")"}
	if built != "" {
		a.Detail += fmt.Sprintf("; built by %.200s (%s)", rules.Builder, built)
	}
	return a, nil
}

func refusal(img *image.Resolved, why string, n int, told []string) error {
	text := why
	if n == 0 {
		text += "; the repository has neither signatures nor attestations of it"
	}
	if len(told) > maxTold {
		told = append(told[:maxTold:maxTold], fmt.Sprintf("and %d more", len(told)-maxTold))
	}
	if len(told) > 0 {
		text += "; looked at: " + strings.Join(told, "; ")
	}
	return fmt.Errorf("%w: %s: %s", ErrNotAdmitted, img.Reference, text)
}
