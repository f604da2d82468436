package main

import (
	"fmt"
	"io"

	"github.com/urfave/cli/v2"
	"github.com/wallproof/wallproof/internal/command"
	"github.com/wallproof/wallproof/internal/term"
	"github.com/wallproof/wallproof/policy"
)

func policyCommand() *cli.Command {
	return &cli.Command{
		Name:  "policy",
		Usage: "hash, explain, check, compare and import egress policies",
		Subcommands: []*cli.Command{
			policyHashCommand(),
			policyExplainCommand(),
			policyLintCommand(),
			policyDiffCommand(),
			policySuggestCommand(),
			policyImportCommand(),
		},
	}
}

func policyHashCommand() *cli.Command {
	return &cli.Command{
		Name:      "hash",
		Usage:     "print the SHA-256 of a policy's canonical form",
		ArgsUsage: "[FILE]",
		Description: "The hash changes with anything that changes what is reachable or injected, and with nothing else: not with\n" +
			"comments, order, spelling, file format, the policy's name or where its secrets come from.\n\n" +
			"Examples:\n   wallproof policy hash --policy policy.yaml\n   wallproof policy hash --canonical policy.yaml | jq .",
		Flags: []cli.Flag{command.PolicyFlag(), command.OutputFlag("text or json"),
			&cli.BoolFlag{Name: "canonical", Usage: "print the canonical form itself"}},
		Action: func(c *cli.Context) error {
			p, err := command.ReadPolicy(command.FirstOf(c.String("policy"), c.Args().First()))
			if err != nil {
				return err
			}
			canonical, err := p.Canonical()
			if err != nil {
				return err
			}
			digest, err := p.Digest()
			switch {
			case err != nil:
				return err
			case c.Bool("canonical"):
				_, err = fmt.Fprintf(c.App.Writer, "%s\n", canonical)
			case c.String("output") == "json":
				err = command.PrintJSON(c.App.Writer, map[string]string{"digest": digest})
			default:
				_, err = fmt.Fprintln(c.App.Writer, digest)
			}
			return err
		},
	}
}

func policyExplainCommand() *cli.Command {
	return &cli.Command{
		Name:      "explain",
		Usage:     "print what a policy decides for a URL, and why",
		ArgsUsage: "URL",
		Description: "The answer comes from the code that enforces the policy. A text that is no URL is denied, with the reason.\n" +
			"Exit code 0 whatever the decision: read it from the output.\n\n" +
			"Examples:\n   wallproof policy explain --policy policy.yaml https://github.com/org/repo\n" +
			"   wallproof policy explain --policy policy.yaml --output json http://169.254.169.254/",
		Flags: []cli.Flag{command.PolicyFlag(), command.OutputFlag("text or json")},
		Action: func(c *cli.Context) error {
			if c.Args().Len() != 1 {
				return fmt.Errorf("explain takes one URL; `wallproof policy explain --help` shows how")
			}
			p, err := command.ReadPolicy(c.String("policy"))
			if err != nil {
				return err
			}
			e, err := policy.Compile(p)
			if err != nil {
				return err
			}
			x := e.Explain(c.Args().First())
			if c.String("output") == "json" {
				return command.PrintJSON(c.App.Writer, x)
			}
			return explainText(c.App.Writer, x)
		},
	}
}

func explainText(w io.Writer, x policy.Explanation) error {
	style := term.StyleOf(w)
	glyph, colour := "✗", term.Red
	if x.Allowed() {
		glyph, colour = "✓", term.Green
	}
	fmt.Fprintf(w, "%s  %s %s\n", style.Paint(colour, glyph+" "+x.Verdict.String()), x.Method, term.Clean(x.URL))
	fmt.Fprintf(w, "   %s\n   reason: %s", term.Clean(x.Summary), x.Reason)
	if x.Entry != "" {
		fmt.Fprintf(w, ", by entry %q", term.Clean(x.Entry))
		if x.Line > 0 {
			fmt.Fprintf(w, " on line %d", x.Line)
		}
	}
	fmt.Fprintln(w)
	for _, s := range x.Secrets {
		fmt.Fprintf(w, "   injects: %s\n", term.Clean(s))
	}
	for _, n := range x.Notes {
		fmt.Fprintf(w, "   note: %s\n", term.Clean(n))
	}
	return nil
}
