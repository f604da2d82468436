// Package secret fetches the values that a policy refers to: from the
// operator's environment, a file, HashiCorp Vault or OpenBao, Google Secret
// Manager, AWS Secrets Manager, Azure Key Vault. It runs in the parent, before
// any untrusted code. A value that cannot be had after a bounded number of
// attempts is an error, and then nothing runs.
//
// No value is ever part of an error.
package secret

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/wallproof/wallproof/policy"
	"github.com/wallproof/wallproof/policy/proxy/redact"
)

// Bounds of fetching.
const (
	maxValue       = redact.MaxSecret
	maxAnswer      = 1 << 20
	defaultRetries = 4
	firstPause     = 250 * time.Millisecond
	maxPause       = 4 * time.Second
	requestTimeout = 15 * time.Second
)

// Resolver fetches values. The zero value uses the process's environment and
// files and the default HTTP client.
type Resolver struct {
	Env    func(name string) (string, bool)                 // nil means os.LookupEnv
	File   func(path string) ([]byte, error)                // nil means os.ReadFile
	Client *http.Client                                     // nil means one with a timeout that follows no redirect
	Pause  func(ctx context.Context, d time.Duration) error // between attempts; nil means to wait
	Now    func() time.Time                                 // nil means time.Now
	// Endpoints replace the addresses of cloud services, by kind ("gcp", "aws",
	// "azure", "gcp-metadata", "azure-login"): base URLs without trailing slash.
	Endpoints map[string]string
}

// Values is everything that a policy refers to.
type Values struct {
	Secrets    map[string]string // by the secret's name
	BrokerKeys map[string]string // private keys in PEM by the broker's name
	Egress     *Tunnel           // nil without an egress agent
}

// Tunnel is what the proxy proves itself with to the egress agent, in PEM.
type Tunnel struct{ ServerCA, Cert, Key string }

// ErrMissing: the source is readable and has no such value. It is not tried
// again.
var ErrMissing = errors.New("no such value")

// errFinal marks what another attempt would not change.
type errFinal struct{ error }

func (e errFinal) Unwrap() error { return e.error }

// Policy fetches all values of a policy.
func (r *Resolver) Policy(ctx context.Context, p *policy.Policy) (*Values, error) {
	v := &Values{Secrets: map[string]string{}, BrokerKeys: map[string]string{}}
	var err error
	for i := range p.Secrets {
		s := &p.Secrets[i]
		if v.Secrets[s.Name], err = r.Resolve(ctx, s.From); err != nil {
			return nil, fmt.Errorf("secret %q: %w", s.Name, err)
		}
		if n := len(v.Secrets[s.Name]); n < redact.MinSecret {
			return nil, fmt.Errorf("secret %q has %d bytes; one of fewer than %d cannot be redacted", s.Name, n, redact.MinSecret)
		}
	}
	for i := range p.Broker {
		b := &p.Broker[i]
		if v.BrokerKeys[b.Name], err = r.Resolve(ctx, b.Key); err != nil {
			return nil, fmt.Errorf("key of broker %q: %w", b.Name, err)
		}
	}
	if e := p.Egress; e != nil {
		v.Egress = &Tunnel{}
		for _, part := range []struct {
			name string
			from policy.Source
			to   *string
		}{{"server-ca", e.ServerCA, &v.Egress.ServerCA}, {"client-cert", e.ClientCert, &v.Egress.Cert}, {"client-key", e.ClientKey, &v.Egress.Key}} {
			if *part.to, err = r.Resolve(ctx, part.from); err != nil {
				return nil, fmt.Errorf("%s of the egress agent: %w", part.name, err)
			}
		}
	}
	return v, nil
}

// Resolve fetches one value. Failures that may pass are tried again, a few
// times, with growing pauses.
func (r *Resolver) Resolve(ctx context.Context, src policy.Source) (string, error) {
	fetch, err := r.fetcher(src)
	if err != nil {
		return "", err
	}
	pause := firstPause
	for attempt := 1; ; attempt++ {
		value, err := fetch(ctx)
		if err == nil {
			return value, checkValue(value)
		}
		var final errFinal
		if errors.As(err, &final) || errors.Is(err, ErrMissing) || attempt == defaultRetries {
			return "", fmt.Errorf("%s, attempt %d: %w", src.Kind(), attempt, err)
		}
		if err := r.wait(ctx, pause); err != nil {
			return "", err
		}
		pause = min(2*pause, maxPause)
	}
}

func checkValue(v string) error {
	switch {
	case v == "":
		return errors.New("the value is empty")
	case len(v) > maxValue:
		return fmt.Errorf("the value has more than %d bytes", maxValue)
	}
	return nil
}

func (r *Resolver) fetcher(src policy.Source) (func(context.Context) (string, error), error) {
	switch {
	case src.Env != "":
		return func(context.Context) (string, error) { return r.fromEnv(src.Env) }, nil
	case src.File != "":
		return func(context.Context) (string, error) { return r.fromFile(src.File) }, nil
	case src.Vault != nil:
		return func(ctx context.Context) (string, error) { return r.fromVault(ctx, src.Vault) }, nil
	case src.GCP != "":
		return func(ctx context.Context) (string, error) { return r.fromGCP(ctx, src.GCP) }, nil
	case src.AWS != nil:
		return func(ctx context.Context) (string, error) { return r.fromAWS(ctx, src.AWS) }, nil
	case src.Azure != nil:
		return func(ctx context.Context) (string, error) { return r.fromAzure(ctx, src.Azure) }, nil
	}
	return nil, errors.New("the policy does not say where the value is from; a canonical form never does")
}

func (r *Resolver) env(name string) string {
	v, _ := r.lookup(name)
	return v
}

func (r *Resolver) lookup(name string) (string, bool) {
	if r.Env != nil {
		return r.Env(name)
	}
	return os.LookupEnv(name)
}

func (r *Resolver) read(path string) ([]byte, error) {
	if r.File != nil {
		return r.File(path)
	}
	return os.ReadFile(path)
}

func (r *Resolver) now() time.Time {
	if r.Now != nil {
		return r.Now()
	}
	return time.Now()
}

func (r *Resolver) wait(ctx context.Context, d time.Duration) error {
	if r.Pause != nil {
		return r.Pause(ctx, d)
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (r *Resolver) endpoint(kind, def string) string {
	if e := r.Endpoints[kind]; e != "" {
		return e
	}
	return def
}

func (r *Resolver) fromEnv(name string) (string, error) {
	v, ok := r.lookup(name)
	if !ok {
		return "", fmt.Errorf("%w: variable %s is not set; export it before the run", ErrMissing, name)
	}
	return v, nil
}

func (r *Resolver) fromFile(path string) (string, error) {
	b, err := r.read(path)
	if err != nil {
		return "", errFinal{err}
	}
	if len(b) > maxValue+1 {
		return "", errFinal{fmt.Errorf("%s has more than %d bytes", path, maxValue)}
	}
	return strings.TrimSuffix(strings.TrimSuffix(string(b), "\n"), "\r"), nil
}
