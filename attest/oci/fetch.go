package oci

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"github.com/wallproof/wallproof/verify"
)

// Attached is a bundle that was found beside an image. Nothing of it has been
// verified.
type Attached struct {
	Digest        string // of its manifest
	PredicateType string // as the bundle says
	Bundle        []byte
}

// Image is a reference resolved to digests.
type Image struct {
	Digest string // of the platform manifest
	Index  string // of the index that it was chosen from, or ""
}

// Resolve finds the platform manifest that a reference, a tag or a digest,
// stands for now. platform ("linux/amd64") chooses from an index.
func Resolve(ctx context.Context, image, platform string, o Options) (Image, error) {
	ref, err := name.ParseReference(image, o.names()...)
	if err != nil {
		return Image{}, fmt.Errorf("image reference: %w", err)
	}
	want, err := v1.ParsePlatform(platform)
	if err != nil {
		return Image{}, fmt.Errorf("platform: %w", err)
	}
	desc, err := o.get(ctx, ref)
	if err != nil {
		return Image{}, fmt.Errorf("look for %s: %w", ref, err)
	}
	if !desc.MediaType.IsIndex() {
		return Image{Digest: desc.Digest.String()}, nil
	}
	idx, err := desc.ImageIndex()
	if err != nil {
		return Image{}, fmt.Errorf("read the index %s: %w", ref, err)
	}
	m, err := idx.IndexManifest()
	if err != nil {
		return Image{}, fmt.Errorf("read the index %s: %w", ref, err)
	}
	for _, d := range m.Manifests {
		if d.Platform != nil && d.Platform.Satisfies(*want) && !d.MediaType.IsIndex() {
			return Image{Digest: d.Digest.String(), Index: desc.Digest.String()}, nil
		}
	}
	return Image{}, fmt.Errorf("%w: %s, %s", ErrNoPlatform, ref, platform)
}

// get reads a manifest and looks whether its digest is what the registry says. The
// library takes the registry's word for manifests that say of themselves that they are
// of Docker's first schema, which nothing here is.
func (o Options) get(ctx context.Context, ref name.Reference) (*remote.Descriptor, error) {
	desc, err := remote.Get(ref, o.remote(ctx)...)
	if err != nil {
		return nil, err
	}
	h, err := v1.Hasher(desc.Digest.Algorithm)
	if err != nil {
		return nil, err
	}
	h.Write(desc.Manifest)
	if sum := hex.EncodeToString(h.Sum(nil)); sum != desc.Digest.Hex {
		return nil, fmt.Errorf("%w: of %s it is %s:%s", ErrDigest, ref, desc.Digest.Algorithm, sum)
	}
	return desc, nil
}

// Fetch returns the bundles that are attached to an image, which is named by the
// digest of its platform manifest. Referrers of other kinds are passed over.
func Fetch(ctx context.Context, image string, o Options) ([]Attached, error) {
	subject, err := name.NewDigest(image, o.names()...)
	if err != nil {
		return nil, fmt.Errorf("%w (%.200q)", ErrNotDigest, image)
	}
	list, err := o.referrers(ctx, subject)
	if err != nil {
		return nil, err
	}
	left := o.MaxBytes
	if left == 0 {
		left = maxFetchedBytes
	}
	var out []Attached
	for _, d := range list {
		a, ok, err := o.fetch(ctx, subject, d)
		if ok && int64(len(a.Bundle)) > left {
			ok, err = false, ErrTooMuch
		}
		if err != nil && permanent(err) {
			if o.PassedOver != nil {
				o.PassedOver(d.Digest.String(), err)
			}
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("fetch referrer %s of %s: %w", d.Digest, subject, err)
		}
		if ok {
			left -= int64(len(a.Bundle))
			out = append(out, a)
		}
	}
	return out, nil
}

// permanent tells what is wrong with a referrer itself (too large, or of a blob
// that was never there) from what a registry failed to do: a referrer that cannot
// be had now must not be taken for one that is not there.
func permanent(err error) bool {
	var status *transport.Error
	if errors.As(err, &status) {
		return status.StatusCode == http.StatusNotFound
	}
	return errors.Is(err, ErrTooLarge) || errors.Is(err, ErrTooMuch)
}

func (o Options) referrers(ctx context.Context, subject name.Digest) ([]v1.Descriptor, error) {
	idx, err := remote.Referrers(subject, o.remote(ctx)...)
	if err != nil {
		return nil, fmt.Errorf("list referrers of %s: %w", subject, err)
	}
	m, err := idx.IndexManifest()
	if err != nil {
		return nil, fmt.Errorf("list referrers of %s: %w", subject, err)
	}
	if len(m.Manifests) > maxReferrers {
		return nil, fmt.Errorf("%w: %d of %s", ErrTooMany, len(m.Manifests), subject)
	}
	return m.Manifests, nil
}

// fetch reads one referrer. A list's artifactType is not relied on: registries
// leave it out.
func (o Options) fetch(ctx context.Context, subject name.Digest, d v1.Descriptor) (Attached, bool, error) {
	if d.Size > maxManifestBytes {
		return Attached{}, false, ErrTooLarge
	}
	desc, err := o.get(ctx, subject.Context().Digest(d.Digest.String()))
	if err != nil {
		return Attached{}, false, err
	}
	var m artifact
	if err := json.Unmarshal(desc.Manifest, &m); err != nil || m.ArtifactType != BundleType || len(m.Layers) != 1 || m.Layers[0].MediaType != BundleType {
		return Attached{}, false, nil
	}
	if m.Subject.Digest.String() != subject.DigestStr() {
		return Attached{}, false, nil // listed here, but about something else
	}
	bundle, err := o.blob(ctx, subject, m.Layers[0])
	if err != nil {
		return Attached{}, false, err
	}
	a := Attached{Digest: d.Digest.String(), Bundle: bundle}
	a.PredicateType, _ = verify.Peek(bundle)
	return a, true, nil
}

// FetchOne returns the bundle whose own manifest a reference names by digest, and
// the digest of the image that it says it is about. A reference to anything else
// is ErrNotBundle.
func FetchOne(ctx context.Context, reference string, o Options) (Attached, string, error) {
	ref, err := name.NewDigest(reference, o.names()...)
	if err != nil {
		return Attached{}, "", fmt.Errorf("%w (%.200q)", ErrNotDigest, reference)
	}
	desc, err := o.get(ctx, ref)
	if err != nil {
		return Attached{}, "", fmt.Errorf("look for %s: %w", ref, err)
	}
	var m artifact
	if json.Unmarshal(desc.Manifest, &m) != nil || m.ArtifactType != BundleType {
		return Attached{}, "", fmt.Errorf("%w: %s", ErrNotBundle, ref)
	}
	subject := ref.Context().Digest(m.Subject.Digest.String())
	a, ok, err := o.fetch(ctx, subject, v1.Descriptor{Digest: desc.Digest, Size: desc.Size})
	if err == nil && !ok {
		err = ErrNotBundle
	}
	if err != nil {
		return Attached{}, "", fmt.Errorf("fetch %s: %w", ref, err)
	}
	return a, subject.DigestStr(), nil
}

func (o Options) blob(ctx context.Context, subject name.Digest, d v1.Descriptor) ([]byte, error) {
	if d.Size > verify.MaxBundleBytes {
		return nil, ErrTooLarge
	}
	layer, err := remote.Layer(subject.Context().Digest(d.Digest.String()), o.remote(ctx)...)
	if err != nil {
		return nil, err
	}
	rc, err := layer.Compressed()
	if err != nil {
		return nil, err
	}
	defer rc.Close()
	data, err := io.ReadAll(io.LimitReader(rc, verify.MaxBundleBytes+1))
	if err != nil {
		return nil, err
	}
	if len(data) > verify.MaxBundleBytes {
		return nil, ErrTooLarge
	}
	return data, nil
}
