package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/urfave/cli/v2"
	"github.com/wallproof/wallproof/attest/oci"
	"github.com/wallproof/wallproof/attest/predicate"
	"github.com/wallproof/wallproof/internal/auditor"
	"github.com/wallproof/wallproof/internal/command"
	"github.com/wallproof/wallproof/internal/files"
	"github.com/wallproof/wallproof/internal/term"
)

func liveCommand() *cli.Command {
	return &cli.Command{
		Name:  "live",
		Usage: "write live.json: what is deployed now, from the registry, the policy file and the driver",
		Description: "verify, gate and site compare it with what was attested (--live): image drift, policy drift and fabric drift hold the\n" +
			"claim. What is not named is not compared. Run it where the sandboxes run, for the driver is asked there.\n\n" +
			"Exit code: 0 written, 1 usage or I/O, and then nothing is written.\n\n" +
			"Examples:\n   wallproof live --image registry.example/you/agent:stable --policy policy.yaml --driver gvisor --out live.json\n" +
			"   wallproof gate evidence/packet --key wallproof.pub --live live.json --scorecard scorecard.json",
		Flags: append([]cli.Flag{
			&cli.StringFlag{Name: "image", Aliases: []string{"i"}, Usage: "the image in use, `REF` by tag or digest: the registry says what it is now"},
			command.PolicyFlag(),
			&cli.StringFlag{Name: "out", Usage: "write it here (`FILE`, default: standard output)"},
			registryPlatformFlag(), plainFlag(),
		}, fabricFlags()...),
		Action: liveAction,
	}
}

func liveAction(c *cli.Context) error {
	if c.Args().Present() {
		return fmt.Errorf("live takes no argument (%q); name what is in use with --image, --policy and --driver", c.Args().First())
	}
	live := predicate.Live{Schema: predicate.LiveSchema, Generated: time.Now().UTC().Format(time.RFC3339)}
	var err error
	if ref := c.String("image"); ref != "" {
		if live.Image, err = deployedImage(c, strings.TrimPrefix(ref, auditor.ReferencePrefix)); err != nil {
			return err
		}
	}
	if path := c.String("policy"); path != "" {
		p, err := command.ReadPolicy(path)
		if err != nil {
			return err
		}
		if live.Policy, err = p.Digest(); err != nil {
			return err
		}
	}
	if live.Fabric, err = deployedFabric(c); err != nil {
		return err
	}
	if live.Image == "" && live.Policy == "" && live.Fabric == nil {
		return errors.New("nothing to compare: name what is in use with --image, --policy and --driver")
	}
	data, err := json.MarshalIndent(live, "", "  ")
	if err != nil {
		return fmt.Errorf("write live.json: %w", err)
	}
	data = append(data, '\n')
	if out := c.String("out"); out != "" {
		return files.Write(out, data, 0o644)
	}
	_, err = c.App.Writer.Write(data)
	return err
}

// deployedImage asks the registry which platform manifest a reference stands for
// now.
func deployedImage(c *cli.Context, ref string) (string, error) {
	ctx, cancel := context.WithTimeout(c.Context, registryTimeout)
	defer cancel()
	img, err := oci.Resolve(ctx, ref, c.String("platform"), registryOptions(c))
	if err != nil {
		return "", registryError("look for", ref, err)
	}
	if img.Index != "" {
		fmt.Fprintf(os.Stderr, "wallproof: %s is an index, %s; its manifest for %s is %s\n", term.Clean(ref), img.Index, c.String("platform"), img.Digest)
	}
	return img.Digest, nil
}
