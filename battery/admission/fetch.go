package admission

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	"github.com/sigstore/sigstore-go/pkg/bundle"
	"github.com/wallproof/wallproof/battery/image"
)

// Media types.
const (
	simpleSigningType = "application/vnd.dev.cosign.simplesigning.v1+json"
	envelopeType      = "application/vnd.dsse.envelope.v1+json"
	bundlePrefix      = "application/vnd.dev.sigstore.bundle"
)

// fetcher reads one repository.
type fetcher struct {
	repo name.Repository
	opts []remote.Option
	out  []candidate
}

// collect finds everything in a repository that may be a signature or an
// attestation of an image.
func collect(ctx context.Context, from string, img *image.Resolved, o image.Options) ([]candidate, error) {
	repo, err := name.NewRepository(from)
	if err != nil {
		return nil, fmt.Errorf("%.200q is no repository: %w", from, err)
	}
	f := &fetcher{repo: repo, opts: image.RemoteOptions(ctx, o)}
	for _, digest := range []string{img.Digest, img.IndexDigest} {
		if digest == "" {
			continue
		}
		for _, suffix := range []string{".sig", ".att"} {
			if err := f.tag(digest, suffix); err != nil {
				return nil, err
			}
		}
		if err := f.referrers(digest); err != nil {
			return nil, err
		}
	}
	return f.out, nil
}

func (f *fetcher) add(c candidate) error {
	if len(f.out) >= maxCandidates {
		return fmt.Errorf("more than %d signatures and attestations", maxCandidates)
	}
	f.out = append(f.out, c)
	return nil
}

// tag reads the layers of what cosign tags sha256-<hex>.sig or .att.
func (f *fetcher) tag(digest, suffix string) error {
	tag := strings.Replace(digest, ":", "-", 1) + suffix
	desc, err := remote.Get(f.repo.Tag(tag), f.opts...)
	if absent(err) {
		return nil
	}
	if err != nil {
		return err
	}
	var m v1.Manifest
	if err := json.Unmarshal(desc.Manifest, &m); err != nil {
		return f.add(candidate{where: tag, broken: fmt.Errorf("read the manifest: %w", err)})
	}
	for i, l := range m.Layers {
		where := fmt.Sprintf("%s, layer %d", tag, i)
		if l.MediaType != simpleSigningType && l.MediaType != envelopeType {
			continue
		}
		c := candidate{where: where, about: digest, simple: l.MediaType == simpleSigningType}
		data, err := f.blob(l)
		if err != nil && !errors.Is(err, errTooLarge) {
			return err
		}
		if err == nil {
			c.bundle, c.payload, err = legacy(data, l.Annotations, c.simple)
		}
		c.broken = err
		if err := f.add(c); err != nil {
			return err
		}
	}
	return nil
}

// referrers reads the bundles attached to a digest.
func (f *fetcher) referrers(digest string) error {
	idx, err := remote.Referrers(f.repo.Digest(digest), f.opts...)
	if absent(err) {
		return nil
	}
	if err != nil {
		return err
	}
	list, err := idx.IndexManifest()
	if err != nil {
		return err
	}
	for _, d := range list.Manifests {
		desc, err := remote.Get(f.repo.Digest(d.Digest.String()), f.opts...)
		if err != nil {
			return err
		}
		var m v1.Manifest
		if json.Unmarshal(desc.Manifest, &m) != nil {
			continue
		}
		for _, l := range m.Layers {
			if !strings.HasPrefix(string(l.MediaType), bundlePrefix) {
				continue
			}
			c := candidate{where: "referrer " + d.Digest.String(), about: digest}
			data, err := f.blob(l)
			if err != nil && !errors.Is(err, errTooLarge) {
				return err
			}
			if err == nil {
				c.bundle, c.payload, err = attached(data)
			}
			c.broken = err
			if err := f.add(c); err != nil {
				return err
			}
		}
	}
	return nil
}

// attached reads a Sigstore bundle with a statement.
func attached(data []byte) (*bundle.Bundle, []byte, error) {
	b := &bundle.Bundle{}
	if err := b.UnmarshalJSON(data); err != nil {
		return nil, nil, fmt.Errorf("read the bundle: %w", err)
	}
	e := b.GetDsseEnvelope()
	if e == nil {
		return nil, nil, errors.New("the bundle holds no statement")
	}
	if e.GetPayloadType() != statementType || len(e.GetSignatures()) != 1 {
		return nil, nil, fmt.Errorf("a payload of the type %.80q with %d signatures; a statement with one is wanted", e.GetPayloadType(), len(e.GetSignatures()))
	}
	return b, e.GetPayload(), nil
}

func (f *fetcher) blob(d v1.Descriptor) ([]byte, error) {
	if d.Size > maxBytes {
		return nil, errTooLarge
	}
	layer, err := remote.Layer(f.repo.Digest(d.Digest.String()), f.opts...)
	if err != nil {
		return nil, err
	}
	rc, err := layer.Compressed() // checked against its digest as it is read
	if err != nil {
		return nil, err
	}
	defer rc.Close()
	data, err := io.ReadAll(io.LimitReader(rc, maxBytes+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxBytes {
		return nil, errTooLarge
	}
	return data, nil
}

// absent tells whether a registry has no such thing.
func absent(err error) bool {
	var status *transport.Error
	return errors.As(err, &status) && status.StatusCode == http.StatusNotFound
}
