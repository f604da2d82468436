package auditor

import (
	"errors"

	"github.com/urfave/cli/v2"
	"github.com/wallproof/wallproof/internal/command"
	"github.com/wallproof/wallproof/verify/show"
)

func (a *commands) inspect() *cli.Command {
	return &cli.Command{
		Name:      "inspect",
		Usage:     "print a packet, bundle, statement or row proof readably, without verifying it",
		ArgsUsage: a.arguments("PACKET|BUNDLE|STATEMENT|ROW|IMAGE"),
		Description: "Shows what is in a file, not whether it is true; `wallproof verify` tells that.\n\n" +
			"Examples:\n   wallproof inspect evidence/packet\n   wallproof inspect evidence/packet/attestation.sigstore.json\n" +
			"   wallproof inspect registry.example/you/agent@sha256:…",
		Flags:  a.registryFlags(),
		Action: a.inspectAction,
	}
}

func (a *commands) inspectAction(c *cli.Context) error {
	if c.Args().Len() != 1 {
		return errors.New("name one packet, bundle, statement, row proof or image; `wallproof inspect --help` shows how")
	}
	var q question
	if err := command.NoEmptyFlags(c); err != nil {
		return err
	}
	if err := a.open(c, &q); err != nil {
		return notOpened(err)
	}
	switch {
	case q.Packet != nil:
		return show.Packet(c.App.Writer, q.Packet)
	case q.from != nil:
		return inspectImage(c, q.from)
	case q.row != nil:
		return command.Invalid(show.File(c.App.Writer, q.row))
	}
	return command.Invalid(show.File(c.App.Writer, q.Bundle))
}

func inspectImage(c *cli.Context, from *Fetched) error {
	if len(from.Pairs) == 0 {
		return command.Invalid(errors.New("nothing of Wallproof's is attached to " + from.Repository + "@" + from.Image))
	}
	for _, p := range from.Pairs {
		for _, bundle := range append([][]byte{p.Attestation}, p.Verifications...) {
			if err := show.File(c.App.Writer, bundle); err != nil {
				return command.Invalid(err)
			}
		}
	}
	return nil
}
