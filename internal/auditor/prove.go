package auditor

import (
	"errors"
	"fmt"

	"github.com/urfave/cli/v2"
	"github.com/wallproof/wallproof/internal/command"
	"github.com/wallproof/wallproof/internal/files"
	"github.com/wallproof/wallproof/verify"
)

func (a *commands) prove() *cli.Command {
	return &cli.Command{
		Name:      "prove",
		Usage:     "take one row out of a packet, with the proof that it is one of the signed ones",
		ArgsUsage: "PACKET",
		Description: "Whoever is shown the row verifies it with `wallproof verify ROW`, without the rest of the packet.\n\n" +
			"Exit code: 0 written, 2 the manifest has no such row or cannot be read, 1 usage or I/O.\n\n" +
			"Examples:\n   wallproof prove evidence/packet --row IMD-AWS-V1/direct-v4 --out row.json\n   wallproof verify row.json --key wallproof.pub",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "row", Usage: "`ID` of the row: TECHNIQUE/variant, or the number of a line from 0"},
			&cli.StringFlag{Name: "out", Usage: "write it here (`FILE`, default: standard output)"},
		},
		Action: proveAction,
	}
}

func proveAction(c *cli.Context) error {
	if c.Args().Len() != 1 || c.String("row") == "" {
		return fmt.Errorf("name one packet and the row: %s prove PACKET --row TECHNIQUE/variant", c.App.Name)
	}
	if err := command.NoEmptyFlags(c); err != nil {
		return err
	}
	var q question
	if err := q.openPath(c.Args().First()); err != nil {
		return notOpened(err)
	}
	if q.Packet == nil {
		return errors.New(c.Args().First() + " is not a packet; a row is taken out of a packet's folder or archive")
	}
	row, err := verify.Prove(q.Packet, c.String("row"))
	if err != nil {
		return command.Invalid(err)
	}
	if out := c.String("out"); out != "" {
		return files.Write(out, row, 0o644)
	}
	_, err = c.App.Writer.Write(row)
	return err
}
