package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/urfave/cli/v2"
	"github.com/wallproof/wallproof/attest"
	"github.com/wallproof/wallproof/internal/term"
	"github.com/wallproof/wallproof/internal/version"
	"github.com/wallproof/wallproof/verify"
	"github.com/wallproof/wallproof/verify/render"
)

func verifyCommand() *cli.Command {
	return &cli.Command{
		Name:      "verify",
		Usage:     "re-verify evidence offline, each check with its reason code",
		ArgsUsage: "PACKET|BUNDLE",
		Description: "Nothing is fetched and no socket is opened. Outcomes are judged again from the observations.\n\n" +
			"Exit code: 0 valid and current, 2 invalid, 3 valid but held, 1 usage or I/O.\n\n" +
			"Examples:\n   wallproof verify evidence/packet --key wallproof.pub\n" +
			"   wallproof verify evidence/packet --key wallproof.pub --policy policy.yaml --require redteam --output sarif\n" +
			"   wallproof verify evidence/packet --key wallproof.pub --sign verifier.key",
		Flags: append(append(trustFlags(), freshnessFlags()...),
			outputFlag("text, json, sarif, junit or markdown"),
			&cli.StringFlag{Name: "sign", Usage: "sign this re-run with a verifier's private key and put it into the packet (`FILE`)"}),
		Action: verifyAction,
	}
}

func verifyAction(c *cli.Context) error {
	in, err := verifyInput(c)
	if err != nil {
		return err
	}
	signKey := c.String("sign")
	in.WithoutRerun = signKey != ""
	report := verify.Verify(in)
	if err := printReport(c, report); err != nil {
		return err
	}
	if signKey != "" {
		if err := signRerun(c, report, signKey); err != nil {
			return err
		}
	}
	if code := report.Verdict.Exit(); code != 0 {
		return &exitError{code: code}
	}
	return nil
}

// printReport prints a report in the form asked for.
func printReport(c *cli.Context, r verify.Report) error {
	form := render.Format(c.String("output"))
	if !slices.Contains(render.Formats(), form) {
		return fmt.Errorf("--output %q: there is no such form; there are: %v", form, render.Formats())
	}
	return render.Report(c.App.Writer, r, form, reportOptions(c.App.Writer, c.Args().First()))
}

func reportOptions(w io.Writer, artifact string) render.Options {
	return render.Options{Color: term.StyleOf(w).Color, Artifact: artifact, Version: version.String()}
}

// signRerun signs what was just verified and puts it beside the attestation.
func signRerun(c *cli.Context, r verify.Report, keyFile string) error {
	dir := c.Args().First()
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return errors.New("--sign puts the re-run into the packet, so name the packet's folder")
	}
	signer, err := openSigner(keyFile)
	if err != nil {
		return err
	}
	res, err := attest.SignVerification(c.Context, r, signer, version.String())
	if err != nil {
		return fmt.Errorf("sign the re-run: %w", err)
	}
	path, err := attest.WriteVerification(dir, res)
	if err != nil {
		return err
	}
	fmt.Fprintln(os.Stderr, "wallproof: signed re-run written to "+path)
	return nil
}
