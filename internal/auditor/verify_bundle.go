package auditor

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"sync"
	"time"

	"github.com/urfave/cli/v2"
	"github.com/wallproof/wallproof/internal/command"
	"github.com/wallproof/wallproof/internal/files"
	"github.com/wallproof/wallproof/verify"
)

// digestArgument is how an artefact is named by its digest alone.
var digestArgument = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\Asha(256|384|512):[0-9a-fA-F]{64,128}\z`) })

// verifyBundleCommand answers the question of the public conformance suite of
// Sigstore clients, with its arguments. It is not in the help: evidence is
// verified by verify, which asks for more.
func verifyBundleCommand() *cli.Command {
	return &cli.Command{
		Name:        "verify-bundle",
		Hidden:      true,
		Usage:       "verify any Sigstore bundle, as the public conformance suite asks for it",
		ArgsUsage:   "ARTIFACT|DIGEST",
		Description: "Exit code: 0 accepted, 2 refused, 1 usage or I/O.\n\nExample:\n   wallproof verify-bundle --bundle b.json --certificate-identity ID --certificate-oidc-issuer URL a.txt",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "bundle", Usage: "the bundle (`FILE`)"},
			&cli.StringFlag{Name: "key", Usage: "public key, PEM (`FILE`)"},
			&cli.StringFlag{Name: "certificate-identity", Usage: "exact `IDENTITY` in the signing certificate"},
			&cli.StringFlag{Name: "certificate-oidc-issuer", Usage: "exact `URL` of the identity's issuer"},
			&cli.StringFlag{Name: "trusted-root", Usage: "Sigstore trusted root in place of the embedded one (`FILE`)"},
		},
		Action: verifyBundleAction,
	}
}

func verifyBundleAction(c *cli.Context) error {
	if c.Args().Len() != 1 || c.String("bundle") == "" {
		return errors.New("name the bundle with --bundle FILE, and one artefact or its digest")
	}
	in := verify.BundleInput{At: time.Now()}
	var trust verify.Input
	if err := ReadTrust(c, &trust); err != nil {
		return err
	}
	in.Trust, in.TrustedRoot = trust.Trust, trust.TrustedRoot
	var err error
	if in.Bundle, err = files.Read(c.String("bundle"), verify.MaxBundleBytes); err != nil {
		return fmt.Errorf("read the bundle: %w", err)
	}
	artifact := c.Args().First()
	f, err := os.Open(artifact)
	switch {
	case err == nil:
		defer f.Close()
		in.Artifact = f
	case digestArgument().MatchString(artifact):
		in.Digest = artifact
	default:
		return fmt.Errorf("read the artefact: %w", err)
	}
	if err := verify.CheckBundle(in); err != nil {
		return command.Invalid(fmt.Errorf("refused: %w", err))
	}
	_, err = fmt.Fprintln(os.Stderr, "wallproof: accepted")
	return err
}
