package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/urfave/cli/v2"
	"github.com/wallproof/wallproof/attest"
	"github.com/wallproof/wallproof/verify"
)

func gateCommand() *cli.Command {
	return &cli.Command{
		Name:      "gate",
		Usage:     "the CI step before a scorecard is published: exit 0 only when the claim is valid, current and bound to it",
		ArgsUsage: "PACKET",
		Description: "Verifies as `verify` does, and checks that the scorecard was produced under the attested image and policy, within the\n" +
			"attested period. With --binding-out and --sign-key a signed binding of the two is written.\n\n" +
			"Exit code: 0 publish, 3 held, 2 invalid, 1 usage or I/O.\n\n" +
			"Examples:\n   wallproof gate evidence/packet --key wallproof.pub --scorecard scorecard.json --policy policy.yaml\n" +
			"   wallproof gate evidence/packet --key wallproof.pub --scorecard scorecard.json --binding-out binding.json --sign-key ci.key",
		Flags: append(append(trustFlags(), freshnessFlags()...),
			&cli.StringFlag{Name: "scorecard", Usage: "the scorecard about to be published (`FILE`)"},
			&cli.StringFlag{Name: "binding-out", Usage: "write the signed binding here (`FILE`)"},
			&cli.StringFlag{Name: "sign-key", Usage: "private key that signs the binding (`FILE`)"},
			outputFlag("text, json, sarif, junit or markdown")),
		Action: gateAction,
	}
}

func gateAction(c *cli.Context) error {
	signing := firstOf(c.String("sign-key"), privateKeyOf(c))
	if c.String("binding-out") != "" && signing == "" {
		return errors.New("--binding-out needs a private key: add --sign-key FILE")
	}
	in, err := verifyInput(c)
	if err != nil {
		return err
	}
	if err := readInto(c, "scorecard", &in.Scorecard); err != nil {
		return err
	}
	report := verify.Verify(in)
	if err := printReport(c, report); err != nil {
		return err
	}
	if code := report.Verdict.Exit(); code != 0 {
		return &exitError{code: code}
	}
	if in.Scorecard == nil {
		return errors.New("the claim is valid and current, but no scorecard was given to publish under it; name it with --scorecard FILE")
	}
	if out := c.String("binding-out"); out != "" {
		return writeBinding(c, report, in.Scorecard, out, signing)
	}
	return nil
}

// privateKeyOf returns --key when it names a private key: the attester that
// gates its own claim gives one key for both.
func privateKeyOf(c *cli.Context) string {
	path := c.String("key")
	if data, err := readBounded(path, maxKeyFile); err == nil && bytes.Contains(data, []byte("PRIVATE KEY-----")) {
		return path
	}
	return ""
}

func writeBinding(c *cli.Context, r verify.Report, scorecard []byte, out, key string) error {
	signer, err := openSigner(key)
	if err != nil {
		return err
	}
	res, err := attest.SignBinding(c.Context, r, scorecard, signer, time.Now().UTC())
	if err != nil {
		return fmt.Errorf("bind the scorecard: %w", err)
	}
	if err := attest.WriteFile(out, res.Bundle, 0o644); err != nil {
		return err
	}
	fmt.Fprintln(os.Stderr, "wallproof: binding written to "+out)
	return nil
}
