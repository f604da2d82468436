package main

import (
	"fmt"

	"github.com/urfave/cli/v2"
	"github.com/wallproof/wallproof/internal/command"
	"github.com/wallproof/wallproof/internal/term"
	"github.com/wallproof/wallproof/policy/review"
)

func policyLintCommand() *cli.Command {
	return &cli.Command{
		Name:      "lint",
		Usage:     "find entries that are dead, shadowed, over-broad or match nothing",
		ArgsUsage: "[FILE]",
		Description: "Exit code 0 when there is nothing to report, 3 when there are findings.\n\n" +
			"Examples:\n   wallproof policy lint policy.yaml\n   wallproof policy lint --policy policy.yaml --output json",
		Flags: []cli.Flag{command.PolicyFlag(), command.OutputFlag("text or json")},
		Action: func(c *cli.Context) error {
			path := command.FirstOf(c.String("policy"), c.Args().First())
			p, err := command.ReadPolicy(path)
			if err != nil {
				return err
			}
			findings, err := review.Lint(p)
			if err != nil {
				return err
			}
			if c.String("output") == "json" {
				if findings == nil {
					findings = []review.Finding{}
				}
				err = command.PrintJSON(c.App.Writer, findings)
			} else {
				for _, f := range findings {
					fmt.Fprintf(c.App.Writer, "%s:%d: %s: %s (%s)\n", path, f.Line, f.Code, term.Clean(f.Message), term.Clean(f.Entry))
				}
			}
			if err == nil && len(findings) > 0 {
				return &command.Exit{Code: command.Held}
			}
			return err
		},
	}
}
