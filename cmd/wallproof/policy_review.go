package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/urfave/cli/v2"
	"github.com/wallproof/wallproof/attest/packet"
	"github.com/wallproof/wallproof/internal/command"
	"github.com/wallproof/wallproof/internal/files"
	"github.com/wallproof/wallproof/internal/term"
	"github.com/wallproof/wallproof/policy/importer"
	"github.com/wallproof/wallproof/policy/review"
)

func policyDiffCommand() *cli.Command {
	return &cli.Command{
		Name:      "diff",
		Usage:     "print what a change makes reachable and unreachable",
		ArgsUsage: "BEFORE AFTER",
		Description: "Exit code 0 when the two policies mean the same, 3 when they differ.\n\n" +
			"Example:\n   wallproof policy diff old.yaml new.yaml",
		Flags: []cli.Flag{command.OutputFlag("text or json")},
		Action: func(c *cli.Context) error {
			if c.Args().Len() != 2 {
				return errors.New("diff takes two policies; `wallproof policy diff --help` shows how")
			}
			before, err := command.ReadPolicy(c.Args().Get(0))
			if err != nil {
				return err
			}
			after, err := command.ReadPolicy(c.Args().Get(1))
			if err != nil {
				return err
			}
			changes, err := review.Diff(before, after)
			if err != nil {
				return err
			}
			if c.String("output") == "json" {
				if changes == nil {
					changes = []review.Change{}
				}
				err = command.PrintJSON(c.App.Writer, changes)
			} else {
				style := term.StyleOf(c.App.Writer)
				for _, d := range changes {
					glyph, colour := "~", term.Yellow
					switch d.Kind {
					case "reachable", "injected":
						glyph, colour = "+", term.Red
					case "unreachable", "not-injected":
						glyph, colour = "-", term.Green
					}
					fmt.Fprintf(c.App.Writer, "%s %s (%s) %s\n", style.Paint(colour, glyph+" "+string(d.Kind)), term.Clean(d.Subject), d.Phase, term.Clean(d.Detail))
				}
			}
			if err == nil && len(changes) > 0 {
				return &command.Exit{Code: command.Held}
			}
			return err
		},
	}
}

func policySuggestCommand() *cli.Command {
	return &cli.Command{
		Name:      "suggest",
		Usage:     "turn a log of blocked hosts or routes into entries for review",
		ArgsUsage: "LOG",
		Description: "Nothing is allowed by this: it prints entries for a person to look at.\n\n" +
			"Example:\n   wallproof policy suggest --policy policy.yaml evidence/packet/logs/proxy.jsonl",
		Flags: []cli.Flag{command.PolicyFlag(), command.OutputFlag("text or json")},
		Action: func(c *cli.Context) error {
			if c.Args().Len() != 1 {
				return errors.New("suggest takes one log; `wallproof policy suggest --help` shows how")
			}
			p, err := command.ReadPolicy(c.String("policy"))
			if err != nil {
				return err
			}
			in := os.Stdin
			if path := c.Args().First(); path != "-" {
				if in, err = os.Open(path); err != nil {
					return fmt.Errorf("read the log: %w", err)
				}
				defer in.Close()
			}
			s, err := review.Suggest(p, in)
			if err != nil {
				return err
			}
			if c.String("output") == "json" {
				return command.PrintJSON(c.App.Writer, s)
			}
			_, err = c.App.Writer.Write(s.Format())
			return err
		},
	}
}

func policyImportCommand() *cli.Command {
	return &cli.Command{
		Name:      "import",
		Usage:     "translate a vault document or a task file into a policy",
		ArgsUsage: "vault|task FILE",
		Description: "Prints the policy; notes about what is stricter than before go to standard error. What has no equal is refused.\n\n" +
			"Examples:\n   wallproof policy import vault vault.yaml > policy.yaml\n   wallproof policy import task task.yaml > policy.yaml",
		Action: func(c *cli.Context) error {
			if c.Args().Len() != 2 {
				return errors.New("import takes what to read, vault or task, and a file")
			}
			path := c.Args().Get(1)
			data, err := files.Read(path, packet.MaxDocumentBytes)
			if err != nil {
				return fmt.Errorf("read the document: %w", err)
			}
			var res *importer.Result
			switch kind := c.Args().First(); kind {
			case "vault":
				res, err = importer.Vault(path, data)
			case "task":
				res, err = importer.Task(path, data, nil)
			default:
				return fmt.Errorf("import reads vault and task, not %q", kind)
			}
			if err != nil {
				return err
			}
			for _, n := range res.Notes {
				fmt.Fprintln(os.Stderr, "wallproof: note: "+term.Clean(n))
			}
			_, err = c.App.Writer.Write(res.Document())
			return err
		},
	}
}
