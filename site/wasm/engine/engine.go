// Package engine is the browser's verifier without the browser: packet and
// options in, report out, all in bytes. It is the same package verify that the
// command line uses; nothing is decided here.
package engine

import (
	"bytes"
	"crypto"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/wallproof/wallproof/attest/packet"
	"github.com/wallproof/wallproof/verify"
)

// Options is what the page asks, as JSON. Exactly one of Key and Identity must
// be given.
type Options struct {
	Key         string   `json:"key"`         // PEM public key
	Verifier    string   `json:"verifier"`    // PEM public key of the re-run, where it is another
	Identity    string   `json:"identity"`    // exact subject alternative name
	Issuer      string   `json:"issuer"`      // exact OIDC issuer
	TrustedRoot string   `json:"trustedRoot"` // JSON; "" means the embedded one
	At          string   `json:"at"`          // RFC 3339
	Image       string   `json:"image"`       // digest that is asked about, or ""
	Policy      string   `json:"policy"`      // digest of the policy in force, or ""
	Require     []string `json:"require"`
}

// Answer is what the page gets: a report, or why there is none.
type Answer struct {
	Report *verify.Report `json:"report,omitempty"`
	Error  string         `json:"error,omitempty"`
}

// Unpack reads a packet's archive into its files.
func Unpack(archive []byte) (packet.Memory, error) {
	return packet.ParseArchive(archive)
}

// Verify answers for a packet's files.
func Verify(files packet.Memory, options []byte) []byte {
	var o Options
	a := Answer{}
	in, err := o.input(files, options)
	if err == nil {
		r := verify.Verify(in)
		a.Report = &r
	} else {
		a.Error = err.Error()
	}
	b, err := json.Marshal(a)
	if err != nil {
		return []byte(`{"error":"the report cannot be written as JSON"}`)
	}
	return b
}

func (o *Options) input(files fs.FS, options []byte) (verify.Input, error) {
	dec := json.NewDecoder(bytes.NewReader(options))
	dec.DisallowUnknownFields()
	if err := dec.Decode(o); err != nil {
		return verify.Input{}, fmt.Errorf("read the options: %w", err)
	}
	in := verify.Input{Packet: files, Image: o.Image, PolicyDigest: o.Policy}
	var err error
	if in.At, err = time.Parse(time.RFC3339, o.At); err != nil {
		return in, fmt.Errorf("read the moment that is asked about: %w", err)
	}
	for _, r := range o.Require {
		in.Require = append(in.Require, verify.Requirement(r))
	}
	if o.TrustedRoot != "" {
		in.TrustedRoot = []byte(o.TrustedRoot)
	}
	if o.Verifier != "" {
		key, err := publicKey(o.Verifier)
		if err != nil {
			return in, err
		}
		in.VerifierTrust = &verify.Trust{Key: key}
	}
	in.Trust, err = o.trust()
	return in, err
}

func (o *Options) trust() (verify.Trust, error) {
	switch {
	case o.Key != "" && o.Identity != "":
		return verify.Trust{}, errors.New("give a public key or an identity, not both")
	case o.Key != "":
		key, err := publicKey(o.Key)
		return verify.Trust{Key: key}, err
	case o.Identity != "" && o.Issuer != "":
		return verify.Trust{Identity: &verify.Identity{SAN: o.Identity, Issuer: o.Issuer}}, nil
	}
	return verify.Trust{}, errors.New("give the public key that you trust, or the identity with its issuer")
}

func publicKey(text string) (crypto.PublicKey, error) {
	block, rest := pem.Decode([]byte(text))
	if block == nil || block.Type != "PUBLIC KEY" || strings.TrimSpace(string(rest)) != "" {
		return nil, errors.New("the public key must be one PEM block of type PUBLIC KEY")
	}
	key, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("read the public key: %w", err)
	}
	return key, nil
}
