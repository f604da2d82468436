package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	"github.com/urfave/cli/v2"
	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/attest/oci"
	"github.com/wallproof/wallproof/attest/packet"
	"github.com/wallproof/wallproof/internal/auditor"
	"github.com/wallproof/wallproof/internal/term"
	"github.com/wallproof/wallproof/verify"
)

// registryTimeout bounds everything that one command asks of a registry.
const registryTimeout = 3 * time.Minute

func plainFlag() cli.Flag {
	return &cli.BoolFlag{Name: "plain-http", Usage: "talk plain http to the registry, also when it is not on this machine"}
}

func registryPlatformFlag() cli.Flag {
	return &cli.StringFlag{Name: "platform", Usage: "`OS/ARCH` to pick from an index", Value: "linux/" + runtime.GOARCH}
}

// registryFlags say how a registry is asked.
func registryFlags() []cli.Flag { return []cli.Flag{registryPlatformFlag(), plainFlag()} }

func registryOptions(c *cli.Context) oci.Options {
	return oci.Options{Plain: c.Bool("plain-http"), PassedOver: func(digest string, why error) {
		fmt.Fprintf(os.Stderr, "wallproof: passed over %s, which is attached to the image too: %s\n", digest, term.Clean(why.Error()))
	}}
}

// fetchEvidence asks a registry for the attestations of an image, named by tag or
// digest, or for the one attestation that a digest names. Afterwards nothing is
// asked any more.
func fetchEvidence(c *cli.Context, ref string) (auditor.Fetched, error) {
	ctx, cancel := context.WithTimeout(c.Context, registryTimeout)
	defer cancel()
	o := registryOptions(c)
	repository, _, pinned := strings.Cut(ref, "@")
	if pinned {
		one, image, err := oci.FetchOne(ctx, ref, o)
		if err == nil {
			return auditor.Fetched{Repository: repository, Image: image, Pairs: verify.Pairs([][]byte{one.Bundle})}, nil
		}
		if !errors.Is(err, oci.ErrNotBundle) {
			return auditor.Fetched{}, registryError("fetch", ref, err)
		}
	}
	img, err := oci.Resolve(ctx, ref, c.String("platform"), o)
	if err != nil {
		return auditor.Fetched{}, registryError("fetch", ref, err)
	}
	if !pinned {
		repository = withoutTag(ref)
		fmt.Fprintf(os.Stderr, "wallproof: %s is %s now\n", term.Clean(ref), img.Digest)
	}
	list, err := oci.Fetch(ctx, repository+"@"+img.Digest, o)
	if err != nil {
		return auditor.Fetched{}, registryError("fetch", ref, err)
	}
	var bundles [][]byte
	for _, a := range list {
		bundles = append(bundles, a.Bundle)
	}
	return auditor.Fetched{Repository: repository, Image: img.Digest, Pairs: verify.Pairs(bundles)}, nil
}

// withoutTag takes the tag off a reference: what follows the last colon behind
// the last slash.
func withoutTag(ref string) string {
	slash := strings.LastIndexByte(ref, '/')
	if colon := strings.LastIndexByte(ref, ':'); colon > slash {
		return ref[:colon]
	}
	return ref
}

// registryError says what was asked of which registry, and what to do.
func registryError(what, ref string, err error) error {
	hint := ""
	var status *transport.Error
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		hint = fmt.Sprintf("; the registry did not answer within %s: try again", registryTimeout)
	case errors.As(err, &status) && (status.StatusCode == http.StatusUnauthorized || status.StatusCode == http.StatusForbidden):
		hint = "; log in with `docker login`, or check the name"
	case status != nil && (status.StatusCode == http.StatusTooManyRequests || status.StatusCode >= 500):
		hint = "; the registry stayed busy or broken after several attempts: try again later"
	case errors.Is(err, oci.ErrClear):
		hint = "; --plain-http allows it for others"
	}
	return fmt.Errorf("%s %s: %w%s", what, term.Clean(ref), err, hint)
}

// attachTarget is the reference to attach a packet's bundles to. What was given
// names a repository, with or without the digest of the image that the packet is
// about.
func attachTarget(dir, given string) (string, error) {
	digest, index, err := packetImage(dir)
	if err != nil {
		return "", err
	}
	ref := strings.TrimPrefix(given, auditor.ReferencePrefix)
	repository, pinned, ok := strings.Cut(ref, "@")
	switch {
	case !ok && withoutTag(ref) != ref:
		return "", fmt.Errorf("attach to %s: %w; or give the repository alone, %s", term.Clean(ref), oci.ErrNotDigest, withoutTag(ref))
	case ok && pinned == index && index != "":
		return "", fmt.Errorf("attach to %s: that is the index; attested is its platform manifest %s: give the repository alone, or that", term.Clean(ref), digest)
	case ok && pinned != digest:
		return "", fmt.Errorf("attach to %s: the packet is about another image, %s", term.Clean(ref), digest)
	}
	return repository + "@" + digest, nil
}

// packetImage reads from a packet's entry 0 which image it is about.
func packetImage(dir string) (digest, index string, err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return "", "", fmt.Errorf("open the packet: %w", err)
	}
	defer root.Close()
	run, err := readRun(root.FS())
	return run.Image.Digest, run.Image.IndexDigest, err
}

// readRun reads a packet's entry 0.
func readRun(p fs.FS) (manifest.Run, error) {
	f, err := packet.Open(p, packet.ManifestFile)
	if err != nil {
		return manifest.Run{}, fmt.Errorf("read the packet's manifest: %w", err)
	}
	defer f.Close()
	line, err := manifest.NewReader(f).Next()
	if err != nil {
		return manifest.Run{}, fmt.Errorf("read the packet's manifest: %w", err)
	}
	entry, err := line.Decode()
	if err != nil {
		return manifest.Run{}, fmt.Errorf("read the packet's manifest: %w", err)
	}
	run, ok := entry.(*manifest.Run)
	if !ok {
		return manifest.Run{}, errors.New("read the packet's manifest: its first line does not describe a run")
	}
	return *run, nil
}

// checkAttach looks whether the image is there, before anything is signed.
func checkAttach(c *cli.Context, dir string) error {
	given := c.String("attach")
	if given == "" {
		return nil
	}
	target, err := attachTarget(dir, given)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(c.Context, registryTimeout)
	defer cancel()
	if err := oci.Check(ctx, target, registryOptions(c)); err != nil {
		return registryError("nothing was signed: attach to", target, err)
	}
	return nil
}

// attachPacket attaches a packet's attestation, and its re-run where there is
// one. What was signed stays in the packet whatever the registry does, and
// attaching again is safe.
func attachPacket(c *cli.Context, dir string) error {
	target, err := attachTarget(dir, c.String("attach"))
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("open the packet: %w", err)
	}
	defer root.Close()
	ctx, cancel := context.WithTimeout(c.Context, registryTimeout)
	defer cancel()
	for _, name := range []string{packet.AttestationFile, packet.VerificationFile} {
		bundle, err := packet.ReadDocument(root.FS(), name)
		if errors.Is(err, fs.ErrNotExist) && name == packet.VerificationFile {
			return nil
		}
		if errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%s is not attested, so there is nothing to attach: sign it with --key or --keyless", dir)
		}
		if err != nil {
			return fmt.Errorf("read %s: %w", name, err)
		}
		digest, err := oci.Attach(ctx, target, bundle, registryOptions(c))
		if err != nil {
			err = registryError("attach to", target, err)
			return fmt.Errorf("%w\n  nothing is lost: the signed bundle is in the packet; attach it again with `wallproof attest %s --attach %s`", err, dir, c.String("attach"))
		}
		fmt.Fprintf(os.Stderr, "wallproof: %s attached to %s as %s\n", name, term.Clean(target), digest)
	}
	return nil
}
