package main

import (
	"errors"
	"fmt"

	"github.com/urfave/cli/v2"
	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/battery/admission"
	"github.com/wallproof/wallproof/battery/image"
	"github.com/wallproof/wallproof/internal/auditor"
	"github.com/wallproof/wallproof/internal/command"
	"github.com/wallproof/wallproof/internal/files"
	"github.com/wallproof/wallproof/verify/trustroot"
)

// admissionFlags say who must have signed the image and what must have built it,
// before anything of it runs.
func admissionFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "admit-key", Usage: "let the image in only if it is signed with cosign by this public key (PEM `FILE`)"},
		&cli.StringFlag{Name: "admit-identity", Usage: "let it in only if signed by this `IDENTITY` of a certificate (an e-mail address, a workflow's URI), exactly"},
		&cli.StringFlag{Name: "admit-issuer", Usage: "`URL` of who must have vouched for --admit-identity, exactly"},
		&cli.StringFlag{Name: "admit-builder", Usage: "besides, let it in only with SLSA provenance by the same signer that names the builder `ID`, exactly"},
		&cli.StringFlag{Name: "admit-from", Usage: "`REPOSITORY` with the signatures (default: the image's own)"},
		&cli.StringFlag{Name: "admit-trusted-root", Usage: "Sigstore trusted root for --admit-identity in place of the embedded one (`FILE`)"},
		&cli.BoolFlag{Name: "admit-without-sct", Usage: "the private deployment of --admit-trusted-root has no certificate log"},
	}
}

// admit decides about an image before anything is started. nil means that no
// rules were given.
func admit(c *cli.Context, img *image.Resolved, rules *admission.Rules, o image.Options) (*manifest.Admission, error) {
	if rules == nil {
		return nil, nil
	}
	a, err := admission.Admit(c.Context, img, c.String("admit-from"), rules, o)
	if errors.Is(err, admission.ErrNotAdmitted) {
		return nil, &command.Exit{Code: command.Bad, Err: err}
	}
	return a, err
}

func admissionRules(c *cli.Context) (*admission.Rules, error) {
	set := false
	for _, f := range admissionFlags() {
		set = set || c.IsSet(f.Names()[0])
	}
	if !set {
		return nil, nil
	}
	r := &admission.Rules{Identity: c.String("admit-identity"), Issuer: c.String("admit-issuer"), Builder: c.String("admit-builder"), WithoutSCT: c.Bool("admit-without-sct")}
	if path := c.String("admit-key"); path != "" {
		key, err := auditor.ReadKey(path)
		if err != nil {
			return nil, fmt.Errorf("--admit-key: %w", err)
		}
		r.Key = key
	}
	if path := c.String("admit-trusted-root"); path != "" {
		data, err := files.Read(path, trustroot.MaxBytes)
		if err == nil {
			_, err = trustroot.Parse(data)
		}
		if err != nil {
			return nil, fmt.Errorf("--admit-trusted-root: %w", err)
		}
		r.TrustedRoot = data
	}
	return r, r.Check()
}
