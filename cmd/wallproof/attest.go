package main

import (
	"crypto"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/urfave/cli/v2"
	"github.com/wallproof/wallproof/attest"
	"github.com/wallproof/wallproof/internal/term"
)

func signKeyFlag(usage string) *cli.StringFlag {
	return &cli.StringFlag{Name: "key", Aliases: []string{"k"}, Usage: usage}
}

func attestCommand() *cli.Command {
	return &cli.Command{
		Name:      "attest",
		Usage:     "sign a packet: in-toto statement, DSSE envelope, Sigstore bundle",
		ArgsUsage: "PACKET",
		Description: "The packet is verified strictly before it is signed, and the bundle is written into it.\n" +
			"An encrypted key's password comes from WALLPROOF_KEY_PASSWORD or COSIGN_PASSWORD.\n\n" +
			"Examples:\n   wallproof attest --generate-key wallproof\n   wallproof attest evidence/packet --key wallproof.key --threat-model threat-model.md\n" +
			"   wallproof attest evidence/packet --key wallproof.key --redteam redteam.json --expires 720h",
		Flags: []cli.Flag{
			signKeyFlag("private key to sign with, cosign key file or PEM (`FILE`)"),
			&cli.StringFlag{Name: "generate-key", Usage: "make a key pair, `NAME`.key and NAME.pub, and do nothing else"},
			&cli.StringFlag{Name: "threat-model", Usage: "threat model to bind (`FILE`, Markdown with front matter)"},
			&cli.StringFlag{Name: "redteam", Usage: "external red-team result (`FILE`, JSON, SARIF or a signed envelope)"},
			&cli.DurationFlag{Name: "expires", Usage: "validity from the end of the run", Value: attest.DefaultValidity},
			&cli.BoolFlag{Name: "replace", Usage: "replace an attestation that is there"},
			outputFlag("text or json"),
		},
		Action: attestAction,
	}
}

func attestAction(c *cli.Context) error {
	if name := c.String("generate-key"); name != "" {
		return generateKey(c.App.Writer, name)
	}
	if c.Args().Len() != 1 {
		return errors.New("name the packet's folder; `wallproof attest --help` shows how")
	}
	signer, err := openSigner(c.String("key"))
	if err != nil {
		return err
	}
	o := attest.Options{Signer: signer, Validity: c.Duration("expires"), Replace: c.Bool("replace")}
	if err := errors.Join(readInto(c, "threat-model", &o.ThreatModel), readInto(c, "redteam", &o.RedTeam)); err != nil {
		return err
	}
	res, err := attest.Attest(c.Context, c.Args().First(), o)
	if errors.Is(err, attest.ErrPacketInvalid) {
		return &exitError{code: exitInvalid, err: err}
	}
	if err != nil {
		return err
	}
	return printSigned(c, res)
}

// signedReport is what attest and the signed re-run print as JSON.
type signedReport struct {
	Attestation string `json:"attestation"`
	Bundle      string `json:"bundle"`
	Algorithm   string `json:"algorithm"`
	Key         string `json:"key"`
	SignedAt    string `json:"signedAt"`
}

func printSigned(c *cli.Context, res attest.Result) error {
	if c.String("output") == "json" {
		return printJSON(c.App.Writer, signedReport{res.Digest, res.Path, res.Algorithm, res.Key, res.SignedAt.UTC().Format(time.RFC3339)})
	}
	_, err := fmt.Fprintf(c.App.Writer, "  attestation  %s\n  bundle       %s\n  algorithm    %s\n  key          %s\n",
		res.Digest, res.Path, res.Algorithm, term.Clean(res.Key))
	return err
}

// openSigner opens the private key that --key names.
func openSigner(path string) (attest.Signer, error) {
	if path == "" {
		return nil, errors.New("no key given; name one with --key FILE, or make one with `wallproof attest --generate-key NAME`")
	}
	data, err := readBounded(path, maxKeyFile)
	if err != nil {
		return nil, fmt.Errorf("read the private key: %w", err)
	}
	var key crypto.Signer
	if key, err = attest.ParsePrivateKey(data, attest.Password(os.LookupEnv)); err != nil {
		return nil, fmt.Errorf("read the private key %s: %w", path, err)
	}
	return attest.NewKeySigner(key)
}

// generateKey writes a new key pair and never over an old one.
func generateKey(w io.Writer, name string) error {
	private, public, err := attest.GenerateKeyPair(attest.Password(os.LookupEnv))
	if err != nil {
		return err
	}
	for _, f := range []struct {
		path string
		data []byte
		mode os.FileMode
	}{{name + ".key", private, 0o600}, {name + ".pub", public, 0o644}} {
		file, err := os.OpenFile(f.path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, f.mode)
		if err != nil {
			return fmt.Errorf("write the key pair: %w", err)
		}
		_, err = file.Write(f.data)
		if err = errors.Join(err, file.Close()); err != nil {
			return fmt.Errorf("write the key pair: %w", err)
		}
		fmt.Fprintln(w, "wrote "+f.path)
	}
	return nil
}
