package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/urfave/cli/v2"
	"github.com/wallproof/wallproof/attest"
	"github.com/wallproof/wallproof/attest/keyfile"
	"github.com/wallproof/wallproof/internal/command"
	"github.com/wallproof/wallproof/internal/files"
	"github.com/wallproof/wallproof/internal/term"
)

func attestCommand() *cli.Command {
	return &cli.Command{
		Name:      "attest",
		Usage:     "sign a packet: in-toto statement, DSSE envelope, Sigstore bundle",
		ArgsUsage: "PACKET",
		Description: "The packet is verified strictly before it is signed, and the bundle is written into it. With a key, nobody hears of\n" +
			"the signature unless services are named with --signing-config or --public-good. An encrypted key's password comes\n" +
			"from WALLPROOF_KEY_PASSWORD or COSIGN_PASSWORD. Without a key, --attach puts what is signed already beside its image.\n\n" +
			"Exit code: 0 signed (and attached), 2 the packet does not verify, 1 usage or I/O; what was signed stays in the packet.\n\n" +
			"Examples:\n   wallproof attest --generate-key wallproof\n   wallproof attest evidence/packet --key wallproof.key --threat-model threat-model.md\n" +
			"   wallproof attest evidence/packet --key wallproof.key --redteam redteam.json --expires 720h\n" +
			"   wallproof attest evidence/packet --key gcpkms://projects/P/locations/L/keyRings/R/cryptoKeys/K/cryptoKeyVersions/1\n" +
			"   wallproof attest --key awskms:///alias/wallproof --export-key wallproof.pub\n" +
			"   wallproof attest evidence/packet --keyless --signing-config signing.json --trusted-root root.json\n" +
			"   wallproof attest evidence/packet --keyless --public-good --attach registry.example/you/agent\n" +
			"   wallproof attest evidence/packet --attach registry.example/you/agent@sha256:…",
		Flags: append(append([]cli.Flag{
			&cli.StringFlag{Name: "key", Aliases: []string{"k"}, Usage: "private key to sign with: cosign key file or PEM (`FILE`), or " + keyServices},
			&cli.BoolFlag{Name: "keyless", Usage: "sign as an OIDC identity, with a certificate in place of a key"},
		}, serviceFlags()...),
			&cli.StringFlag{Name: "trusted-root", Usage: "the deployment's trusted root: the signature is verified against it before anything is written (`FILE`)"},
			&cli.StringFlag{Name: "generate-key", Usage: "make a key pair, `NAME`.key and NAME.pub, and do nothing else"},
			&cli.StringFlag{Name: "export-key", Usage: "write the public half of --key (`FILE`), and do nothing else"},
			&cli.StringFlag{Name: "threat-model", Usage: "threat model to bind (`FILE`, Markdown with front matter)"},
			&cli.StringFlag{Name: "redteam", Usage: "external red-team result (`FILE`, JSON, SARIF or a signed envelope)"},
			&cli.DurationFlag{Name: "expires", Usage: "validity from the end of the run", Value: attest.DefaultValidity},
			&cli.BoolFlag{Name: "replace", Usage: "replace an attestation that is there"},
			&cli.StringFlag{Name: "attach", Usage: "attach it to the attested image in a registry (`REF`: HOST/NAME, or with the image's digest)"},
			plainFlag(),
			command.OutputFlag("text or json")),
		Action: attestAction,
	}
}

func attestAction(c *cli.Context) error {
	if name := c.String("generate-key"); name != "" {
		return generateKey(c.App.Writer, name)
	}
	if path := c.String("export-key"); path != "" {
		return exportKey(c, path)
	}
	if err := command.NoEmptyFlags(c); err != nil {
		return err
	}
	if c.Args().Len() != 1 {
		return errors.New("name the packet's folder; `wallproof attest --help` shows how")
	}
	dir := c.Args().First()
	if c.String("attach") != "" && c.String("key") == "" && !c.Bool("keyless") {
		return attachPacket(c, dir)
	}
	o, err := attestOptions(c)
	if err != nil {
		return err
	}
	if err := checkAttach(c, dir); err != nil { // before anything is signed
		return err
	}
	res, err := attest.Attest(c.Context, dir, o)
	if errors.Is(err, attest.ErrPacketInvalid) {
		return &command.Exit{Code: command.Bad, Err: err}
	}
	if err != nil {
		return err
	}
	if err := printSigned(c, res); err != nil || c.String("attach") == "" {
		return err
	}
	return attachPacket(c, dir)
}

func attestOptions(c *cli.Context) (attest.Options, error) {
	o := attest.Options{Validity: c.Duration("expires"), Replace: c.Bool("replace")}
	key := c.String("key")
	if c.Bool("keyless") {
		if key != "" {
			return o, errors.New("give either --key or --keyless, not both")
		}
		key = keylessWord
	}
	var root []byte
	err := errors.Join(command.ReadInto(c, "threat-model", &o.ThreatModel), command.ReadInto(c, "redteam", &o.RedTeam), command.ReadInto(c, "trusted-root", &root))
	if err != nil {
		return o, err
	}
	s, err := openSigning(c, key, root)
	o.Signer, o.Services = s.Signer, s.services
	return o, err
}

// signedReport is what attest and the signed re-run print as JSON.
type signedReport struct {
	Attestation string   `json:"attestation"`
	Bundle      string   `json:"bundle"`
	Algorithm   string   `json:"algorithm"`
	Key         string   `json:"key,omitempty"`
	Identity    string   `json:"identity,omitempty"`
	Issuer      string   `json:"issuer,omitempty"`
	SignedAt    string   `json:"signedAt"`
	Timestamps  []string `json:"timestamps,omitempty"`
	Logs        []string `json:"logs,omitempty"`
}

// printSigned prints algorithm, key with its version, signer, times, log entries
// and digest.
func printSigned(c *cli.Context, res attest.Result) error {
	record, err := attest.ReadRecord(res.Bundle)
	if err != nil {
		return err
	}
	r := signedReport{res.Digest, res.Path, res.Algorithm, res.Key, record.Identity, record.Issuer,
		res.SignedAt.UTC().Format(time.RFC3339), record.Timestamps, record.Logs}
	if c.String("output") == "json" {
		return command.PrintJSON(c.App.Writer, r)
	}
	for _, f := range [][2]string{{"attestation", r.Attestation}, {"bundle", r.Bundle}, {"algorithm", r.Algorithm}, {"key", r.Key}, {"signer", r.Identity}, {"issuer", r.Issuer},
		{"signed at", r.SignedAt}, {"timestamp", strings.Join(r.Timestamps, ", ")}, {"log", strings.Join(r.Logs, ", ")}} {
		if f[1] == "" {
			continue
		}
		if _, err := fmt.Fprintf(c.App.Writer, "  %-12s %s\n", f[0], term.Clean(f[1])); err != nil {
			return err
		}
	}
	return nil
}

// generateKey writes a new key pair and never over an old one.
func generateKey(w io.Writer, name string) error {
	private, public, err := keyfile.GenerateKeyPair(keyfile.Password(os.LookupEnv))
	if err != nil {
		return err
	}
	if err := files.WriteNew(name+".key", private, 0o600); errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("write the key pair: %w; a key is never written over: choose another name", err)
	} else if err != nil {
		return fmt.Errorf("write the key pair: %w", err)
	}
	if err := files.WriteNew(name+".pub", public, 0o644); err != nil {
		return fmt.Errorf("write the key pair: %w", errors.Join(err, os.Remove(name+".key")))
	}
	_, err = fmt.Fprintf(w, "wrote %[1]s.key\nwrote %[1]s.pub\n", name)
	return err
}
