package image

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
)

// Timeouts of the default transport.
const (
	dialTimeout     = 10 * time.Second
	tlsTimeout      = 10 * time.Second
	responseTimeout = 30 * time.Second
)

func resolveRemote(ctx context.Context, ref string, want v1.Platform, o Options) (*Resolved, error) {
	parsed, err := name.ParseReference(ref)
	if err != nil {
		return nil, fmt.Errorf("neither a registry reference nor a path that exists: %w", err)
	}
	r := &Resolved{Source: FromRegistry}
	if tag, ok := parsed.(name.Tag); ok {
		if !o.ResolveTag {
			return nil, fmt.Errorf("%w: a tag can be moved after it was tested. Name it as %s@sha256:…; \"--resolve\" looks up what the tag points to now and records that", ErrTagNotDigest, tag.Context().Name())
		}
		r.Tag = tag.TagStr()
	}
	opts := RemoteOptions(ctx, o)
	desc, err := remote.Get(parsed, opts...)
	if err != nil {
		return nil, asRegistryError(err)
	}
	if r.Tag == "" && desc.Digest.String() != parsed.Identifier() {
		return nil, fmt.Errorf("%w: the registry sent %s", ErrMismatch, desc.Digest)
	}
	r.Reference = parsed.Context().Name() + "@" + desc.Digest.String()
	if !desc.MediaType.IsIndex() {
		r.Digest = desc.Digest.String()
		r.Image, err = desc.Image()
		return r, asRegistryError(err)
	}
	r.IndexDigest = desc.Digest.String()
	index, err := desc.ImageIndex()
	if err != nil {
		return nil, asRegistryError(err)
	}
	return r, r.fromIndex(index, want)
}

// fromIndex sets the image to the index's one for the platform.
func (r *Resolved) fromIndex(index v1.ImageIndex, want v1.Platform) error {
	raw, err := index.RawManifest()
	if err != nil {
		return asRegistryError(err)
	}
	if err := matches(raw, r.IndexDigest, "index"); err != nil {
		return err
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		return fmt.Errorf("%w: index: %w", ErrInvalid, err)
	}
	desc, err := choose(manifest, want)
	if err != nil {
		return err
	}
	r.Digest = desc.Digest.String()
	r.Image, err = index.Image(desc.Digest)
	return asRegistryError(err)
}

// RemoteOptions are how a registry is spoken to: with the credentials that docker
// and podman keep, within timeouts, and in the clear on this machine alone.
func RemoteOptions(ctx context.Context, o Options) []remote.Option {
	keychain := o.Keychain
	if keychain == nil {
		keychain = authn.DefaultKeychain
	}
	next := o.Transport
	if next == nil {
		t := http.DefaultTransport.(*http.Transport).Clone()
		t.DialContext = (&net.Dialer{Timeout: dialTimeout}).DialContext
		t.TLSHandshakeTimeout = tlsTimeout
		t.ResponseHeaderTimeout = responseTimeout
		next = t
	}
	opts := []remote.Option{remote.WithContext(ctx), remote.WithAuthFromKeychain(keychain), remote.WithTransport(onlyLoopbackInClear{next})}
	if o.UserAgent != "" {
		opts = append(opts, remote.WithUserAgent(o.UserAgent))
	}
	return opts
}

// onlyLoopbackInClear refuses plain http except to this machine. The client
// would also use it for private addresses and names that end in .local.
type onlyLoopbackInClear struct{ next http.RoundTripper }

// errClear is permanent, so that the client does not try again.
var errClear = errors.New("plain http is used for this machine's own registries only")

// RoundTrip implements http.RoundTripper.
func (t onlyLoopbackInClear) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.Scheme != "https" && !loopback(req.URL) {
		return nil, fmt.Errorf("%s: %w", req.URL.Host, errClear)
	}
	return t.next.RoundTrip(req)
}

func loopback(u *url.URL) bool {
	host := u.Hostname()
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || (err == nil && addr.IsLoopback())
}

// asRegistryError gives an error of the registry client one of our three
// types, where it is one.
func asRegistryError(err error) error {
	if err == nil {
		return nil
	}
	var status *transport.Error
	if errors.As(err, &status) {
		switch {
		case status.StatusCode == http.StatusUnauthorized || status.StatusCode == http.StatusForbidden:
			return fmt.Errorf("%w: %s; log in with \"docker login\", or check the name: some registries answer so for an image that does not exist", ErrUnauthorized, oneLine(status))
		case status.StatusCode == http.StatusNotFound:
			return fmt.Errorf("%w: %s", ErrNotFound, oneLine(status))
		}
		return fmt.Errorf("registry: %s", oneLine(status))
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) && !timedOut(err) {
		return err
	}
	var netErr net.Error
	var opErr *net.OpError
	var dnsErr *net.DNSError
	if errors.Is(err, errClear) || errors.As(err, &opErr) || errors.As(err, &dnsErr) || errors.As(err, &netErr) {
		return fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	return err
}

// timedOut says whether a deadline was the transport's own.
func timedOut(err error) bool {
	var opErr *net.OpError
	return errors.As(err, &opErr)
}

// oneLine keeps a registry's words, which it chooses, short and printable.
func oneLine(err error) string {
	const most = 300
	s := strings.Join(strings.Fields(err.Error()), " ")
	if len(s) > most {
		s = s[:most] + "…"
	}
	return strings.ToValidUTF8(strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return '?'
		}
		return r
	}, s), "?")
}
