package main

import (
	"fmt"

	"github.com/urfave/cli/v2"
	"github.com/wallproof/wallproof/battery"
	"github.com/wallproof/wallproof/internal/command"
)

func gcCommand() *cli.Command {
	return &cli.Command{
		Name:  "gc",
		Usage: "remove what a killed run left behind: sandboxes, namespaces, links, mounts, folders",
		Description: "Only what begins with the name wallproof and belongs to no living run is touched. Needs root.\n\n" +
			"Example:\n   wallproof gc",
		Flags: []cli.Flag{command.OutputFlag("text or json")},
		Action: func(c *cli.Context) error {
			if err := needRoot("gc"); err != nil {
				return err
			}
			removed, err := battery.GC(c.Context)
			if c.String("output") == "json" {
				if removed == nil {
					removed = []string{}
				}
				if perr := command.PrintJSON(c.App.Writer, map[string]any{"removed": removed}); perr != nil {
					return perr
				}
				return err
			}
			for _, line := range removed {
				fmt.Fprintln(c.App.Writer, "removed "+line)
			}
			if err == nil && len(removed) == 0 {
				fmt.Fprintln(c.App.Writer, "nothing to remove")
			}
			return err
		},
	}
}
