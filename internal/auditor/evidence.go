package auditor

import (
	"bytes"
	"crypto"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"
	"github.com/wallproof/wallproof/attest/keyfile"
	"github.com/wallproof/wallproof/attest/keyref"
	"github.com/wallproof/wallproof/attest/packet"
	"github.com/wallproof/wallproof/attest/predicate"
	"github.com/wallproof/wallproof/internal/command"
	"github.com/wallproof/wallproof/internal/files"
	"github.com/wallproof/wallproof/internal/term"
	"github.com/wallproof/wallproof/verify"
)

// TrustFlags say whose signature counts.
func TrustFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "key", Aliases: []string{"k"}, Usage: "public key that signed, PEM (`FILE`)"},
		&cli.StringFlag{Name: "certificate-identity", Usage: "exact `IDENTITY` in the signing certificate"},
		&cli.StringFlag{Name: "certificate-identity-regexp", Usage: "`PATTERN` for the whole identity"},
		&cli.StringFlag{Name: "certificate-oidc-issuer", Usage: "exact `URL` of the identity's issuer"},
		&cli.StringFlag{Name: "certificate-oidc-issuer-regexp", Usage: "`PATTERN` for the whole issuer"},
		&cli.StringFlag{Name: "trusted-root", Usage: "Sigstore trusted root in place of the embedded one (`FILE`)"},
		&cli.BoolFlag{Name: "without-sct", Usage: "the private deployment of --trusted-root has no certificate log"},
		&cli.BoolFlag{Name: "without-log", Usage: "the private deployment of --trusted-root has no transparency log, or --no-tlog was used"},
		&cli.BoolFlag{Name: "without-timestamp", Usage: "the private deployment of --trusted-root has no timestamp authority"},
		&cli.StringFlag{Name: "verifier-key", Usage: "public key that a verifier re-run must have, where it is not the attester's (`FILE`)"},
		&cli.StringFlag{Name: "verifier-identity", Usage: "exact `IDENTITY` that a verifier re-run must have, where it is not the attester's"},
		&cli.StringFlag{Name: "verifier-oidc-issuer", Usage: "exact `URL` of that identity's issuer"},
		&cli.StringSliceFlag{Name: "redteam-key", Usage: "public key that a signed red-team result may have (`FILE`, repeatable)"},
	}
}

// FreshnessFlags say what the evidence is compared with.
func FreshnessFlags() []cli.Flag {
	return []cli.Flag{
		command.PolicyFlag(),
		&cli.StringFlag{Name: "image", Usage: "`DIGEST` that is asked about (sha256:…)"},
		&cli.StringFlag{Name: "live", Usage: "what is deployed now (`FILE`, live.json)"},
		&cli.StringSliceFlag{Name: "require", Usage: "make `THINGS` a condition: " + strings.Join(requirementNames(), ", ") + " (redteam: a result that the red team signed, with its --redteam-key)"},
		&cli.StringFlag{Name: "at", Usage: "answer for a past `TIME` (RFC 3339)"},
		&cli.DurationFlag{Name: "max-age", Usage: "cap on the age of an attestation", Value: verify.DefaultMaxAge},
		&cli.StringFlag{Name: "bundle", Usage: "attestation in place of the packet's own (`FILE`)"},
	}
}

// verificationFlag names a re-run.
func verificationFlag() cli.Flag {
	return &cli.StringFlag{Name: "verification", Usage: "verifier's re-run in place of the packet's own (`FILE`)"}
}

func requirementNames() []string {
	var out []string
	for _, r := range verify.Requirements() {
		out = append(out, string(r))
	}
	return out
}

// question is what a verification is asked about. Besides the input itself it may
// be one row of a manifest, or several attestations of one image.
type question struct {
	verify.Input
	row  []byte
	from *Fetched
}

// ask verifies. Of several attestations the newest of the best verdict counts,
// and the second result says which and why.
func (q question) ask() (verify.Report, string) {
	switch {
	case q.row != nil:
		return verify.VerifyRow(q.row, q.Input), ""
	case q.from == nil:
		return verify.Verify(q.Input), ""
	case len(q.from.Pairs) == 0:
		return verify.Verify(q.Input), "nothing of Wallproof's is attached to " + q.from.Repository + "@" + q.from.Image
	}
	var reports []verify.Report
	v := verify.NewVerifier(q.TrustedRoot, q.TrustedRootDigest, q.Catalogue)
	for _, p := range q.from.Pairs {
		reports = append(reports, p.Verify(v, q.Input))
	}
	n, why := verify.Newest(reports)
	return reports[n], fmt.Sprintf("%d attached to %s@%s; shown is %s: %s", len(reports), q.from.Repository, q.from.Image, command.FirstOf(reports[n].Attestation, "one that was not authenticated"), why)
}

// readQuestion collects everything that a verification depends on. Nothing is
// fetched but what a registry has, where one is named, and that before anything
// is verified.
func (a *commands) readQuestion(c *cli.Context) (question, error) {
	q := question{Input: verify.Input{Image: c.String("image"), MaxAge: c.Duration("max-age")}}
	if c.Args().Len() != 1 {
		return q, errors.New("name one packet (a folder or an archive), one bundle, one row proof, or one image in a registry")
	}
	if err := command.NoEmptyFlags(c); err != nil {
		return q, err
	}
	if q.MaxAge <= 0 {
		return q, fmt.Errorf("--max-age %s: give a time that is longer than none, as 720h", q.MaxAge)
	}
	for _, step := range []func(*cli.Context, *verify.Input) error{ReadTrust, ReadFreshness, ReadRequire, ReadScorecard} {
		if err := step(c, &q.Input); err != nil {
			return q, err
		}
	}
	if q.At.IsZero() {
		q.At = time.Now().UTC()
	}
	err := a.open(c, &q)
	if packet.ReasonOf(err) != "" { // an archive that is none is evidence that does not verify
		q.Packet, err = packet.Broken(err), nil
	}
	if err == nil && q.row != nil && q.Scorecard != nil {
		err = errors.New("a scorecard is published under the whole claim, and a row proof is of one line: give the packet")
	}
	return q, err
}

// open opens a packet's folder or archive, a bundle alone, a row proof, or asks a
// registry.
func (a *commands) open(c *cli.Context, q *question) error {
	arg := c.Args().First()
	if !IsReference(arg) {
		return q.openPath(arg)
	}
	if a.outward == nil {
		return fmt.Errorf("open the evidence: %s is an image in a registry, and this program opens no socket; `wallproof verify %[1]s` asks the registry", term.Clean(arg))
	}
	if q.Bundle != nil || q.Verification != nil {
		return errors.New("--bundle and --verification stand in place of a packet's own; an image in a registry has its own")
	}
	from, err := a.outward.Fetch(c, strings.TrimPrefix(arg, ReferencePrefix))
	if err != nil {
		return err
	}
	q.from = &from
	q.Image = command.FirstOf(q.Image, from.Image)
	return nil
}

// notOpened gives the exit code: an archive that is none is invalid, what cannot be
// read is an error of the machine.
func notOpened(err error) error {
	if packet.ReasonOf(err) != "" {
		return command.Invalid(err)
	}
	return err
}

func (q *question) openPath(path string) error {
	if path == "-" {
		return q.openFile("standard input", os.Stdin)
	}
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("open the evidence: %w; an image in a registry is written HOST/NAME@sha256:…", err)
	}
	if info.IsDir() {
		root, err := os.OpenRoot(path) // no link in a packet leads out of it
		if err != nil {
			return fmt.Errorf("open the packet: %w", err)
		}
		q.Packet = root.FS()
		return nil
	}
	if filepath.Base(path) == packet.ManifestFile {
		return fmt.Errorf("%s is one file of a packet and shows nothing by itself; name the packet's folder, %s", term.Clean(path), term.Clean(filepath.Dir(path)))
	}
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("open the evidence: %w", err)
	}
	defer f.Close()
	return q.openFile(path, f)
}

// openFile tells by its first bytes what a file is. It is read once, from its
// beginning to its end: it may be a pipe.
func (q *question) openFile(path string, f io.Reader) error {
	head, err := io.ReadAll(io.LimitReader(f, tarHead))
	if err != nil {
		return fmt.Errorf("open the evidence: %w", err)
	}
	whole := io.MultiReader(bytes.NewReader(head), f)
	if isTar(head) {
		q.Packet, err = packet.ReadArchive(whole)
		return err
	}
	data, err := files.ReadFrom(whole, path, predicate.MaxRowBytes)
	switch {
	case err != nil:
		return fmt.Errorf("open the evidence: %w", err)
	case isRow(data) && q.Bundle != nil:
		return errors.New("a row proof carries its attestation; --bundle stands in place of a packet's own")
	case isRow(data):
		q.row = data
		// One line is asked about; a re-run is of the whole claim.
		q.WithoutRerun = q.Verification == nil && !slices.Contains(q.Require, verify.RequireVerifier) && !slices.Contains(q.Require, verify.RequireIndependent)
	case q.Bundle != nil:
		return fmt.Errorf("%s is an attestation itself; --bundle stands in place of a packet's own", path)
	default:
		q.Bundle = data
	}
	return nil
}

// isRow tells a row proof from a bundle: it says so itself.
func isRow(data []byte) bool {
	var kind struct {
		Schema string `json:"schema"`
	}
	return json.Unmarshal(data, &kind) == nil && kind.Schema == predicate.RowSchema
}

// tarHead is how much of a file tells a tar archive from a bundle.
const tarHead = 512

func isTar(head []byte) bool {
	return len(head) == tarHead && bytes.Equal(head[257:262], []byte("ustar"))
}

// ReadKey reads a public key in PEM. Of a private key it takes the public half.
func ReadKey(path string) (crypto.PublicKey, error) {
	if keyref.Is(path) {
		return nil, fmt.Errorf("verifying opens no socket, so it cannot ask %s: export the public key once with `wallproof attest --key %[1]s --export-key FILE`, and give that", term.Clean(path))
	}
	data, err := files.Read(path, keyfile.MaxBytes)
	if err != nil {
		return nil, fmt.Errorf("read the public key: %w", err)
	}
	if bytes.Contains(data, []byte("PRIVATE KEY-----")) {
		key, err := keyfile.ParsePrivateKey(data, keyfile.Password(os.LookupEnv))
		if err != nil {
			return nil, fmt.Errorf("read the key %s: %w", path, err)
		}
		return key.Public(), nil
	}
	key, err := keyfile.ParsePublicKey(data)
	if err != nil {
		return nil, fmt.Errorf("read the public key %s: %w", path, err)
	}
	return key, nil
}

func ReadTrust(c *cli.Context, in *verify.Input) error {
	identity := verify.Identity{SAN: c.String("certificate-identity"), SANPattern: c.String("certificate-identity-regexp"),
		Issuer: c.String("certificate-oidc-issuer"), IssuerPattern: c.String("certificate-oidc-issuer-regexp")}
	switch {
	case c.String("key") != "" && identity != (verify.Identity{}):
		return errors.New("give either --key or --certificate-identity, not both")
	case c.String("key") != "":
		key, err := ReadKey(c.String("key"))
		if err != nil {
			return err
		}
		in.Trust.Key = key
	case identity != (verify.Identity{}):
		if (identity.SAN == "" && identity.SANPattern == "") || (identity.Issuer == "" && identity.IssuerPattern == "") {
			return errors.New("an identity needs its issuer too: give --certificate-identity and --certificate-oidc-issuer")
		}
		for _, name := range []string{"certificate-identity-regexp", "certificate-oidc-issuer-regexp"} {
			if _, err := regexp.Compile(c.String(name)); err != nil {
				return fmt.Errorf("read --%s: %w", name, err)
			}
		}
		in.Trust.Identity = &identity
		identity.WithoutSCT, identity.WithoutLog, identity.WithoutTimestamp = c.Bool("without-sct"), c.Bool("without-log"), c.Bool("without-timestamp")
		if (identity.WithoutSCT || identity.WithoutLog || identity.WithoutTimestamp) && c.String("trusted-root") == "" {
			return errors.New("--without-… describe a private deployment: give its --trusted-root FILE too")
		}
	default:
		return errors.New("say whose signature counts: --key PUB, or --certificate-identity ID with --certificate-oidc-issuer URL")
	}
	if err := readVerifierTrust(c, in); err != nil {
		return err
	}
	for _, path := range c.StringSlice("redteam-key") {
		key, err := ReadKey(path)
		if err != nil {
			return err
		}
		in.RedTeamKeys = append(in.RedTeamKeys, key)
	}
	return command.ReadInto(c, "trusted-root", &in.TrustedRoot)
}

// readVerifierTrust reads whose re-run counts, where it is not the attester's.
func readVerifierTrust(c *cli.Context, in *verify.Input) error {
	path, san, issuer := c.String("verifier-key"), c.String("verifier-identity"), c.String("verifier-oidc-issuer")
	switch {
	case path != "" && san+issuer != "":
		return errors.New("give either --verifier-key or --verifier-identity, not both")
	case (san == "") != (issuer == ""):
		return errors.New("an identity needs its issuer too: give --verifier-identity and --verifier-oidc-issuer")
	case san != "":
		in.VerifierTrust = &verify.Trust{Identity: &verify.Identity{SAN: san, Issuer: issuer,
			WithoutSCT: c.Bool("without-sct"), WithoutLog: c.Bool("without-log"), WithoutTimestamp: c.Bool("without-timestamp")}}
	case path != "":
		key, err := ReadKey(path)
		if err != nil {
			return err
		}
		in.VerifierTrust = &verify.Trust{Key: key}
	}
	return nil
}

func ReadFreshness(c *cli.Context, in *verify.Input) error {
	if c.String("policy") != "" {
		p, err := command.ReadPolicy(c.String("policy"))
		if err != nil {
			return err
		}
		if in.PolicyDigest, err = p.Digest(); err != nil {
			return err
		}
	}
	if at := c.String("at"); at != "" {
		t, err := time.Parse(time.RFC3339, at)
		if err != nil {
			return fmt.Errorf("read --at: %w; write it as 2026-01-31T12:00:00Z", err)
		}
		in.At = t.UTC()
	}
	return errors.Join(command.ReadInto(c, "live", &in.Live), command.ReadInto(c, "bundle", &in.Bundle), command.ReadInto(c, "verification", &in.Verification))
}

func ReadRequire(c *cli.Context, in *verify.Input) error {
	for _, list := range c.StringSlice("require") {
		for _, name := range strings.Split(list, ",") {
			r := verify.Requirement(strings.TrimSpace(name))
			if !slices.Contains(verify.Requirements(), r) {
				return fmt.Errorf("--require %q: there is no such requirement; there are: %s", name, strings.Join(requirementNames(), ", "))
			}
			in.Require = append(in.Require, r)
		}
	}
	return nil
}
