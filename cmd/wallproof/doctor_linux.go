package main

import (
	"fmt"

	"github.com/urfave/cli/v2"
	"github.com/wallproof/wallproof/battery"
	"github.com/wallproof/wallproof/internal/command"
	"github.com/wallproof/wallproof/internal/term"
)

func doctorCommand() *cli.Command {
	return &cli.Command{
		Name:  "doctor",
		Usage: "measure what this machine can do, each line with its fix",
		Description: "Builds a boundary, verifies it with real packets, removes it again. Exit code 1 when something that a run needs is\n" +
			"missing.\n\nExample:\n   sudo wallproof doctor",
		Flags: []cli.Flag{driverFlag(), command.OutputFlag("text or json")},
		Action: func(c *cli.Context) error {
			driver, err := openDriver(c.String("driver"))
			if err != nil {
				return err
			}
			checks := battery.Doctor(c.Context, driver)
			if c.String("output") == "json" {
				err = command.PrintJSON(c.App.Writer, checks)
			} else {
				style := term.StyleOf(c.App.Writer)
				for _, k := range checks {
					glyph, colour := "✓", term.Green
					if !k.OK {
						glyph, colour = "✗", term.Red
					}
					fmt.Fprintf(c.App.Writer, "%s %-22s %s\n", style.Paint(colour, glyph), k.Name, term.Clean(k.Detail))
					if !k.OK {
						fmt.Fprintf(c.App.Writer, "  %-22s fix: %s\n", "", k.Fix)
					}
				}
			}
			for _, k := range checks {
				if !k.OK && err == nil {
					return &command.Exit{Code: command.Usage}
				}
			}
			return err
		},
	}
}
