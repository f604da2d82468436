package oci

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/wallproof/wallproof/attest/predicate"
	"github.com/wallproof/wallproof/verify"
)

// Options of all calls. The zero value uses the credentials that docker and
// podman keep, and the default transport.
type Options struct {
	Keychain  authn.Keychain
	Transport http.RoundTripper
	// Plain allows registries without TLS other than on this machine.
	Plain bool
	// Backoff between attempts; the zero value is the library's.
	Backoff remote.Backoff
	// MaxBytes bounds what Fetch keeps of all bundles together; 0 is 512 MiB.
	MaxBytes int64
	// PassedOver is told of each referrer that Fetch leaves out although it is, or
	// may be, a bundle: anybody who may write to the repository can put it there,
	// and it must not keep the others from being read. May be nil.
	PassedOver func(digest string, why error)
}

func (o Options) names() []name.Option {
	if o.Plain {
		return []name.Option{name.Insecure}
	}
	return nil
}

func (o Options) remote(ctx context.Context) []remote.Option {
	keychain := o.Keychain
	if keychain == nil {
		keychain = authn.DefaultKeychain
	}
	out := []remote.Option{remote.WithContext(ctx), remote.WithAuthFromKeychain(keychain)}
	next := o.Transport
	if next == nil {
		next = remote.DefaultTransport
	}
	next = followed{paged{next}}
	if !o.Plain {
		next = encrypted{next}
	}
	out = append(out, remote.WithTransport(next))
	if o.Backoff.Steps > 0 {
		out = append(out, remote.WithRetryBackoff(o.Backoff))
	}
	return out
}

// encrypted refuses plain http except to this machine. The client would also use
// it, with credentials, for private addresses and for names that end in .local.
type encrypted struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (e encrypted) RoundTrip(req *http.Request) (*http.Response, error) {
	addr, err := netip.ParseAddr(req.URL.Hostname())
	if req.URL.Scheme != "https" && req.URL.Hostname() != "localhost" && (err != nil || !addr.IsLoopback()) {
		return nil, fmt.Errorf("%s: %w", req.URL.Host, ErrClear)
	}
	return e.next.RoundTrip(req)
}

// followed refuses to be sent on without end, which the client would go along with.
type followed struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (f followed) RoundTrip(req *http.Request) (*http.Response, error) {
	n := 0
	for r := req; r.Response != nil && r.Response.Request != nil; r = r.Response.Request {
		if n++; n > maxRedirects {
			return nil, fmt.Errorf("%s: %w", req.URL.Host, ErrRedirects)
		}
	}
	return f.next.RoundTrip(req)
}

// artifact is the manifest of an attached bundle.
type artifact struct {
	SchemaVersion int64             `json:"schemaVersion"`
	MediaType     types.MediaType   `json:"mediaType"`
	ArtifactType  string            `json:"artifactType"`
	Config        v1.Descriptor     `json:"config"`
	Layers        []v1.Descriptor   `json:"layers"`
	Subject       v1.Descriptor     `json:"subject"`
	Annotations   map[string]string `json:"annotations"`
}

// taggable is a manifest as the library wants to put it.
type taggable struct{ raw []byte }

func (t taggable) RawManifest() ([]byte, error)        { return t.raw, nil }
func (t taggable) MediaType() (types.MediaType, error) { return types.OCIManifestSchema1, nil }

// Attach puts a bundle beside an image, which is named by the digest of its
// platform manifest, and returns the digest of the bundle's own manifest. The
// same bundle attached twice is attached once. On any error the image is as it
// was: what may be left are blobs that nothing refers to.
func Attach(ctx context.Context, image string, bundle []byte, o Options) (string, error) {
	subject, desc, err := o.subject(ctx, image)
	if err != nil {
		return "", err
	}
	opts := o.remote(ctx)
	config := static.NewLayer([]byte("{}"), emptyConfigType)
	layer := static.NewLayer(bundle, BundleType)
	m := artifact{
		SchemaVersion: 2, MediaType: types.OCIManifestSchema1, ArtifactType: BundleType,
		Subject:     v1.Descriptor{MediaType: desc.MediaType, Digest: desc.Digest, Size: desc.Size},
		Annotations: map[string]string{contentAnnotation: contentEnvelope, predicateAnnotation: predicateType(bundle)},
	}
	for _, part := range []struct {
		layer v1.Layer
		typ   types.MediaType
		dest  *v1.Descriptor
	}{{config, emptyConfigType, &m.Config}, {layer, BundleType, nil}} {
		if err := remote.WriteLayer(subject.Context(), part.layer, opts...); err != nil {
			return "", fmt.Errorf("upload to %s: %w", subject.Context(), err)
		}
		d, err := describe(part.layer, part.typ)
		if err != nil {
			return "", err
		}
		if part.dest != nil {
			*part.dest = d
		} else {
			m.Layers = append(m.Layers, d)
		}
	}
	raw, err := json.Marshal(m)
	if err != nil {
		return "", fmt.Errorf("write the manifest: %w", err)
	}
	digest := predicate.Digest(raw)
	put := func() error {
		if err := remote.Put(subject.Context().Digest(digest), taggable{raw}, opts...); err != nil {
			return fmt.Errorf("attach to %s: %w", subject, err)
		}
		return nil
	}
	return digest, o.settle(ctx, subject, digest, put)
}

// Check looks whether an image that something is to be attached to is there and
// is no index.
func Check(ctx context.Context, image string, o Options) error {
	_, _, err := o.subject(ctx, image)
	return err
}

// subject finds the image and refuses a tag and an index.
func (o Options) subject(ctx context.Context, image string) (name.Digest, *v1.Descriptor, error) {
	d, err := name.NewDigest(image, o.names()...)
	if err != nil {
		return name.Digest{}, nil, fmt.Errorf("%w (%.200q)", ErrNotDigest, image)
	}
	desc, err := remote.Head(d, o.remote(ctx)...)
	if err != nil {
		return d, nil, fmt.Errorf("look for %s: %w", d, err)
	}
	if desc.MediaType.IsIndex() {
		return d, nil, fmt.Errorf("%w: %s", ErrNotManifest, d)
	}
	return d, desc, nil
}

func describe(l v1.Layer, typ types.MediaType) (v1.Descriptor, error) {
	digest, err := l.Digest()
	if err != nil {
		return v1.Descriptor{}, err
	}
	size, err := l.Size()
	return v1.Descriptor{MediaType: typ, Digest: digest, Size: size}, err
}

// predicateType is what the bundle says of itself, for whoever lists referrers;
// nothing relies on it.
func predicateType(bundle []byte) string {
	typ, _ := verify.Peek(bundle)
	return typ
}

// settle puts the manifest and looks whether it is listed and stays so. A
// registry with a referrers API keeps the list itself, and one look is enough.
func (o Options) settle(ctx context.Context, subject name.Digest, digest string, put func() error) error {
	if err := put(); err != nil {
		return err
	}
	need := settleChecks
	if !o.fallback(ctx, subject) {
		need = 1
	}
	for round, seen := 0, 0; round < settleRounds; round++ {
		listed, err := o.listed(ctx, subject, digest)
		switch {
		case err != nil:
			return err
		case listed:
			if seen++; seen >= need {
				return nil
			}
		default:
			seen = 0
			if err := put(); err != nil {
				return err
			}
		}
		if err := pause(ctx, round); err != nil {
			return err
		}
	}
	return fmt.Errorf("%w (%s)", ErrNotSettled, subject)
}

// pause waits a little, never as long as another writer in the same round.
func pause(ctx context.Context, round int) error {
	wait := settleDelay/2 + rand.N(settleDelay*time.Duration(1+min(round, 4)))
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// fallback reports whether the registry keeps referrers under a tag.
func (o Options) fallback(ctx context.Context, subject name.Digest) bool {
	tag := subject.Context().Tag(strings.Replace(subject.DigestStr(), ":", "-", 1))
	_, err := remote.Head(tag, o.remote(ctx)...)
	return err == nil
}

func (o Options) listed(ctx context.Context, subject name.Digest, digest string) (bool, error) {
	list, err := o.referrers(ctx, subject)
	if err != nil {
		return false, err
	}
	for _, d := range list {
		if d.Digest.String() == digest {
			return true, nil
		}
	}
	return false, nil
}
