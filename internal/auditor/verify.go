package auditor

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/urfave/cli/v2"
	"github.com/wallproof/wallproof/internal/command"
	"github.com/wallproof/wallproof/internal/term"
	"github.com/wallproof/wallproof/internal/version"
	"github.com/wallproof/wallproof/verify"
	"github.com/wallproof/wallproof/verify/render"
)

func (a *commands) verify() *cli.Command {
	return &cli.Command{
		Name:      "verify",
		Usage:     "re-verify evidence offline, each check with its reason code",
		ArgsUsage: a.arguments("PACKET|BUNDLE|ROW|IMAGE"),
		Description: "No socket is opened for a packet (folder or archive), a bundle or a row proof. For an image in a registry what is attached\n" +
			"to it is fetched first, and then verified offline: the newest valid attestation counts. Outcomes are judged again\n" +
			"from the observations. For a row proof a re-run is asked for only under --require verifier.\n\n" +
			"Exit code: 0 valid and current, 2 invalid, 3 valid but held, 1 usage or I/O.\n\n" +
			"Examples:\n   wallproof verify evidence/packet --key wallproof.pub\n" +
			"   wallproof verify evidence/packet --key wallproof.pub --policy policy.yaml --require redteam --output sarif\n" +
			"   wallproof verify registry.example/you/agent@sha256:… --certificate-identity ci@example.org --certificate-oidc-issuer https://accounts.example.org\n" +
			"   wallproof verify row.json --key wallproof.pub\n" +
			"   wallproof verify evidence/packet --key wallproof.pub --sign verifier.key",
		Flags: slices.Concat(TrustFlags(), FreshnessFlags(), []cli.Flag{verificationFlag()}, a.registryFlags(),
			[]cli.Flag{command.OutputFlag("text, json, sarif, junit or markdown"), scorecardFlag(), bindingFlag()},
			a.signingFlags(func(keyServices string) []cli.Flag {
				return []cli.Flag{&cli.StringFlag{Name: "sign", Usage: "sign this re-run and put it into the packet: a verifier's private key (`FILE`), " + keyServices + ", or \"keyless\""}}
			})),
		Action: a.verifyAction,
	}
}

func scorecardFlag() cli.Flag {
	return &cli.StringFlag{Name: "scorecard", Usage: "the scorecard that is published under the claim (`FILE`)"}
}

func bindingFlag() cli.Flag {
	return &cli.StringFlag{Name: "binding", Usage: "signed binding of the scorecard to the attestation (`FILE`)"}
}

func (a *commands) verifyAction(c *cli.Context) error {
	q, err := a.readQuestion(c)
	if err != nil {
		return err
	}
	signKey := c.String("sign")
	q.WithoutRerun = q.WithoutRerun || signKey != ""
	var signer Signing
	if signKey != "" {
		if signer, err = a.rerunSigner(c, signKey, q.TrustedRoot); err != nil {
			return err
		}
	}
	report, why := q.ask()
	if err := printReport(c, report); err != nil {
		return err
	}
	explain(why)
	if signKey != "" {
		if err := signRerun(c, report, signer); err != nil {
			return err
		}
	}
	if code := report.Verdict.Exit(); code != 0 {
		return &command.Exit{Code: code}
	}
	return nil
}

// explain says which of several attestations a report is about.
func explain(why string) {
	if why != "" {
		fmt.Fprintln(os.Stderr, "wallproof: "+term.Clean(why))
	}
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

// rerunSigner opens who signs a re-run, before the report is printed.
func (a *commands) rerunSigner(c *cli.Context, key string, root []byte) (Signing, error) {
	if info, err := os.Stat(c.Args().First()); err != nil || !info.IsDir() {
		return nil, errors.New("--sign puts the re-run into the packet, so name the packet's folder")
	}
	return a.outward.Sign(c, key, root)
}

// signRerun signs what was just verified and puts it beside the attestation.
func signRerun(c *cli.Context, r verify.Report, s Signing) error {
	path, err := s.Rerun(c.Context, r, c.Args().First())
	if err != nil {
		return err
	}
	fmt.Fprintln(os.Stderr, "wallproof: signed re-run written to "+path)
	return nil
}

// ReadScorecard reads the scorecard of a claim with its binding.
func ReadScorecard(c *cli.Context, in *verify.Input) error {
	if c.String("binding") != "" && c.String("scorecard") == "" {
		return errors.New("--binding binds a scorecard; name it with --scorecard FILE")
	}
	return errors.Join(command.ReadInto(c, "scorecard", &in.Scorecard), command.ReadInto(c, "binding", &in.Binding))
}
