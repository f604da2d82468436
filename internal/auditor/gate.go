package auditor

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/urfave/cli/v2"
	"github.com/wallproof/wallproof/attest/keyfile"
	"github.com/wallproof/wallproof/internal/command"
	"github.com/wallproof/wallproof/internal/files"
	"github.com/wallproof/wallproof/verify"
)

func (a *commands) gate() *cli.Command {
	return &cli.Command{
		Name:      "gate",
		Usage:     "the CI step before a scorecard is published: exit 0 only when the claim is valid, current and bound to it",
		ArgsUsage: a.arguments("PACKET|BUNDLE|IMAGE"),
		Description: "Verifies as `verify` does, and checks that the scorecard was produced under the attested image and policy, within the\n" +
			"attested period. With --binding-out and --sign-key a signed binding of the two is written. In GitHub Actions what fails\n" +
			"or holds stands as annotations beside the run and in its summary.\n\n" +
			"Exit code: 0 publish, 3 held, 2 invalid, 1 usage or I/O.\n\n" +
			"Examples:\n   wallproof gate evidence/packet --key wallproof.pub --scorecard scorecard.json --policy policy.yaml\n" +
			"   wallproof gate evidence/packet --key wallproof.pub --scorecard scorecard.json --binding-out binding.json --sign-key ci.key\n" +
			"   wallproof gate evidence/packet --key wallproof.pub --scorecard scorecard.json --annotations gitlab --annotations-out gl-code-quality-report.json",
		Flags: slices.Concat(TrustFlags(), FreshnessFlags(), []cli.Flag{verificationFlag()}, a.registryFlags(), annotationFlags(),
			[]cli.Flag{scorecardFlag(), bindingFlag(), command.OutputFlag("text, json, sarif, junit or markdown")},
			a.signingFlags(func(keyServices string) []cli.Flag {
				return []cli.Flag{
					&cli.StringFlag{Name: "binding-out", Usage: "write the signed binding here (`FILE`)"},
					&cli.StringFlag{Name: "sign-key", Usage: "who signs the binding: a private key (`FILE`), " + keyServices + ", or \"keyless\""},
				}
			})),
		Action: a.gateAction,
	}
}

func (a *commands) gateAction(c *cli.Context) error {
	signing := c.String("sign-key")
	if c.String("binding-out") != "" && signing == "" { // a key from a pipe is read once where nothing is signed
		if signing = privateKeyOf(c); signing == "" {
			return errors.New("--binding-out needs a private key: add --sign-key FILE")
		}
	}
	q, err := a.readQuestion(c)
	if err != nil {
		return err
	}
	if q.row != nil {
		return errors.New(c.Args().First() + " is a proof of one row; a gate is of the whole claim: give the packet, the bundle or the image")
	}
	report, why := q.ask()
	if err := printReport(c, report); err != nil {
		return err
	}
	explain(why)
	if err := annotate(c, report); err != nil {
		return err
	}
	if code := report.Verdict.Exit(); code != 0 {
		return &command.Exit{Code: code}
	}
	if q.Scorecard == nil {
		return errors.New("the claim is valid and current, but no scorecard was given to publish under it; name it with --scorecard FILE")
	}
	if out := c.String("binding-out"); out != "" {
		return a.writeBinding(c, report, q.Input, out, signing)
	}
	return nil
}

// privateKeyOf returns --key when it names a private key: the attester that
// gates its own claim gives one key for both.
func privateKeyOf(c *cli.Context) string {
	path := c.String("key")
	if data, err := files.Read(path, keyfile.MaxBytes); err == nil && bytes.Contains(data, []byte("PRIVATE KEY-----")) {
		return path
	}
	return ""
}

// writeBinding signs that the scorecard was bound at the moment that was asked
// about: what was valid then is not said of another time.
func (a *commands) writeBinding(c *cli.Context, r verify.Report, in verify.Input, out, key string) error {
	signer, err := a.outward.Sign(c, key, in.TrustedRoot)
	if err != nil {
		return err
	}
	bundle, err := signer.Binding(c.Context, r, in.Scorecard, in.At.UTC())
	if err != nil {
		return fmt.Errorf("bind the scorecard: %w", err)
	}
	if err := files.Write(out, bundle, 0o644); err != nil {
		return err
	}
	fmt.Fprintln(os.Stderr, "wallproof: binding written to "+out)
	return nil
}
