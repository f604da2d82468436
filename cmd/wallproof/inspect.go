package main

import (
	"errors"

	"github.com/urfave/cli/v2"
	"github.com/wallproof/wallproof/verify/show"
)

func inspectCommand() *cli.Command {
	return &cli.Command{
		Name:      "inspect",
		Usage:     "print a packet, bundle, statement or row proof readably, without verifying it",
		ArgsUsage: "PACKET|BUNDLE|STATEMENT|ROW|IMAGE",
		Description: "Shows what is in a file, not whether it is true; `wallproof verify` tells that.\n\n" +
			"Examples:\n   wallproof inspect evidence/packet\n   wallproof inspect evidence/packet/attestation.sigstore.json\n" +
			"   wallproof inspect registry.example/you/agent@sha256:…",
		Flags:  []cli.Flag{registryPlatformFlag(), plainFlag()},
		Action: inspectAction,
	}
}

func inspectAction(c *cli.Context) error {
	if c.Args().Len() != 1 {
		return errors.New("name one packet, bundle, statement, row proof or image; `wallproof inspect --help` shows how")
	}
	var q question
	if err := q.open(c, c.Args().First()); err != nil {
		return err
	}
	switch {
	case q.Packet != nil:
		return show.Packet(c.App.Writer, q.Packet)
	case q.from != nil:
		return inspectImage(c, q.from)
	case q.row != nil:
		return invalid(show.File(c.App.Writer, q.row))
	}
	return invalid(show.File(c.App.Writer, q.Bundle))
}

func inspectImage(c *cli.Context, from *fetched) error {
	if len(from.pairs) == 0 {
		return invalid(errors.New("nothing of Wallproof's is attached to " + from.repository + "@" + from.image.Digest))
	}
	for _, p := range from.pairs {
		for _, bundle := range append([][]byte{p.Attestation}, p.Verifications...) {
			if err := show.File(c.App.Writer, bundle); err != nil {
				return invalid(err)
			}
		}
	}
	return nil
}

// invalid gives an error about what was read the exit code 2.
func invalid(err error) error {
	if err == nil {
		return nil
	}
	return &exitError{code: exitInvalid, err: err}
}
