package attest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/sigstore/rekor-tiles/v2/pkg/client"
	"github.com/sigstore/rekor-tiles/v2/pkg/client/write"
	"github.com/sigstore/sigstore-go/pkg/root"
	"github.com/sigstore/sigstore-go/pkg/sign"

	"github.com/wallproof/wallproof/internal/canon"
	"github.com/wallproof/wallproof/verify/trustroot"
)

// Bounds on what a service may take.
const (
	serviceTimeout = 30 * time.Second
	serviceRetries = 3
	// MaxSigningConfigBytes bounds a signing config.
	MaxSigningConfigBytes = 1 << 20
)

// Services are the Sigstore services that take part in a signature. The zero
// value is none: a bare key signature that nobody else hears of.
type Services struct {
	Fulcio     string     // certificate authority, for keyless signatures
	Rekor      []RekorLog // transparency logs
	Timestamps []string   // full URLs of timestamp authorities
	// TrustedRoot is the deployment's trusted root in JSON. When it is given, the
	// bundle is verified against it before anything is written.
	TrustedRoot []byte
	// Transport replaces the default HTTP transport.
	Transport http.RoundTripper
}

// RekorLog is one transparency log.
type RekorLog struct {
	URL     string
	Version uint32 // major version of its interface, 1 or 2
}

// Errors of signing with services.
var (
	ErrSigningConfig = errors.New("not a usable signing config")
	ErrService       = errors.New("a signing service failed; nothing was written")
	ErrLogAlgorithm  = errors.New("a Rekor v2 log takes no pure Ed25519 signatures; use an ECDSA key, or sign without a log")
	ErrLogNeedsTime  = errors.New("a Rekor v2 log gives no time of its own, so a keyless signature needs a timestamp authority too")
)

// ParseSigningConfig reads a Sigstore signing config (v0.2, JSON) and selects
// the services that are valid at a moment. withLog false leaves transparency
// logs out.
func ParseSigningConfig(data []byte, at time.Time, withLog bool) (Services, error) {
	fail := func(err error) (Services, error) { return Services{}, fmt.Errorf("%w: %w", ErrSigningConfig, err) }
	if err := canon.CheckJSON(data, canon.Limits{Bytes: MaxSigningConfigBytes, Depth: 16}); err != nil {
		return fail(err)
	}
	sc, err := root.NewSigningConfigFromJSON(data)
	if err != nil {
		return fail(err)
	}
	var s Services
	if list := sc.FulcioCertificateAuthorityURLs(); len(list) > 0 {
		f, err := root.SelectService(list, sign.FulcioAPIVersions, at)
		if err != nil {
			return fail(err)
		}
		s.Fulcio = f.URL
	}
	if list := sc.TimestampAuthorityURLs(); len(list) > 0 {
		chosen, err := root.SelectServices(list, sc.TimestampAuthorityURLsConfig(), sign.TimestampAuthorityAPIVersions, at)
		if err != nil {
			return fail(err)
		}
		for _, c := range chosen {
			s.Timestamps = append(s.Timestamps, c.URL)
		}
	}
	if list := sc.RekorLogURLs(); withLog && len(list) > 0 {
		chosen, err := root.SelectServices(list, sc.RekorLogURLsConfig(), sign.RekorAPIVersions, at)
		if err != nil {
			return fail(err)
		}
		for _, c := range chosen {
			s.Rekor = append(s.Rekor, RekorLog{c.URL, c.MajorAPIVersion})
		}
	}
	return s, s.check()
}

// check refuses addresses that are not http or https.
func (s Services) check() error {
	list := append([]string{}, s.Timestamps...)
	if s.Fulcio != "" {
		list = append(list, s.Fulcio)
	}
	for _, r := range s.Rekor {
		if r.Version != 1 && r.Version != 2 {
			return fmt.Errorf("%w: Rekor interface version %d", ErrSigningConfig, r.Version)
		}
		list = append(list, r.URL)
	}
	for _, raw := range list {
		u, err := url.Parse(raw)
		if err != nil || (u.Scheme != "https" && u.Scheme != "http") || u.Host == "" {
			return fmt.Errorf("%w: %.200q is not an http or https address", ErrSigningConfig, raw)
		}
	}
	return nil
}

// options turns the services into what sigstore-go asks for. token is the
// identity token of a keyless signature, or "".
func (s Services) options(ctx context.Context, k sign.Keypair, token string) (sign.BundleOptions, error) {
	o := sign.BundleOptions{Context: ctx}
	if err := s.check(); err != nil {
		return o, err
	}
	transport := retrying{next: s.Transport}
	if transport.next == nil {
		transport.next = http.DefaultTransport
	}
	if token != "" {
		if s.Fulcio == "" {
			return o, fmt.Errorf("%w: a keyless signature needs a certificate authority", ErrSigningConfig)
		}
		o.CertificateProvider = sign.NewFulcio(&sign.FulcioOptions{BaseURL: s.Fulcio, Timeout: serviceTimeout, Transport: transport})
		o.CertificateProviderOptions = &sign.CertificateProviderOptions{IDToken: token}
	}
	for _, u := range s.Timestamps {
		o.TimestampAuthorities = append(o.TimestampAuthorities, sign.NewTimestampAuthority(&sign.TimestampAuthorityOptions{URL: u, Timeout: serviceTimeout, Transport: transport}))
	}
	for _, r := range s.Rekor {
		if r.Version == 2 && k.GetKeyAlgorithm() == "ED25519" {
			return o, ErrLogAlgorithm
		}
		if r.Version == 2 && token != "" && len(s.Timestamps) == 0 {
			return o, ErrLogNeedsTime
		}
		log := &sign.RekorOptions{BaseURL: r.URL, Version: r.Version, Timeout: serviceTimeout, Retries: serviceRetries}
		if r.Version == 2 {
			c, err := write.NewWriter(r.URL, client.WithTimeout(serviceTimeout))
			if err != nil {
				return o, fmt.Errorf("transparency log %s: %w", r.URL, err)
			}
			log.ClientV2 = retryingLog{c}
		}
		o.TransparencyLogs = append(o.TransparencyLogs, sign.NewRekor(log))
	}
	if s.TrustedRoot != nil {
		tr, err := trustroot.Parse(s.TrustedRoot)
		if err != nil {
			return o, err
		}
		o.TrustedRoot, err = withKey(tr, k, token)
		if err != nil {
			return o, err
		}
	}
	return o, nil
}

// any reports whether any service takes part.
func (s Services) any() bool { return s.Fulcio != "" || len(s.Rekor)+len(s.Timestamps) > 0 }
