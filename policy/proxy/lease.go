package proxy

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/wallproof/wallproof/policy"
	"github.com/wallproof/wallproof/policy/proxy/broker"
	"github.com/wallproof/wallproof/policy/proxy/redact"
)

// Bounds of leases.
const (
	defaultLease  = 10 * time.Minute
	mintTimeout   = 20 * time.Second
	revokeTimeout = 10 * time.Second
	maxLeases     = 10000            // in one run
	leaseMargin   = 15 * time.Second // before its end a lease is not handed out any more
)

// lease is one minted token. It belongs to one run, repository and access.
type lease struct {
	id      string // for the record: tells nothing of the token
	app     *broker.App
	token   string
	expires time.Time
	over    bool // revoked, or known to have ended
}

type leaseKey struct {
	broker, repository string
	write              bool
}

// leases mints, keeps, and revokes the leases of a run.
type leases struct {
	s    *Server
	mint sync.Mutex // one at a time

	mu     sync.Mutex
	apps   map[string]*broker.App
	active map[leaseKey]*lease
	all    []*lease
	masks  *redact.Redactor
	closed bool
}

func newLeases(s *Server, r *rules, keys map[string]string) (*leases, error) {
	l := &leases{s: s, active: map[leaseKey]*lease{}}
	return l, l.rebind(r, keys)
}

// rebind makes the Apps of a policy's brokers. Leases that were minted stay
// good for the same broker, repository and access.
func (l *leases) rebind(r *rules, keys map[string]string) error {
	apps := map[string]*broker.App{}
	for i := range r.policy.Broker {
		if l.s.agent {
			break // it mints nothing
		}
		b := &r.policy.Broker[i]
		text, ok := keys[b.Name]
		if !ok {
			return fmt.Errorf("broker %q has no key", b.Name)
		}
		key, err := broker.ParseKey([]byte(text))
		if err != nil {
			return fmt.Errorf("broker %q: %w", b.Name, err)
		}
		if u, err := url.Parse(b.API); err != nil || u.Host == "" {
			return fmt.Errorf("broker %q: %q is no base URL", b.Name, b.API)
		}
		apps[b.Name] = &broker.App{
			ID: b.App, Installation: b.Installation, API: b.API, Key: key,
			Client: l.client(), Now: l.s.now,
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.apps = apps
	return nil
}

// client talks to the forge's interface: no proxy, no redirect, the run's
// trusted authorities, and the pins of Upstream.Resolve.
func (l *leases) client() *http.Client {
	tr := &http.Transport{
		DialContext:         l.dial,
		TLSClientConfig:     &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: l.s.upstreamTLS.RootCAs},
		TLSHandshakeTimeout: mintTimeout,
		ForceAttemptHTTP2:   true,
		MaxIdleConns:        2,
		IdleConnTimeout:     time.Minute,
	}
	return &http.Client{
		Transport:     tr,
		Timeout:       mintTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// dial reaches the forge's interface, whose name the operator's policy gives
// and the sandbox cannot influence.
func (l *leases) dial(ctx context.Context, network, address string) (net.Conn, error) {
	t, err := parseAuthority(address, 0)
	if err != nil {
		return nil, err
	}
	if a, ok := l.s.pinned(t); ok {
		return l.s.dialer(ctx, network, a.String())
	}
	if t.host.IsAddr() {
		return l.s.dialer(ctx, network, t.String())
	}
	ans, err := l.s.resolver.Lookup(ctx, t.host.Name())
	if err != nil {
		return nil, err
	}
	for _, a := range ans.Addrs {
		var c net.Conn
		if c, err = l.s.dialer(ctx, network, net.JoinHostPort(a.String(), fmt.Sprint(t.port))); err == nil {
			return c, nil
		}
	}
	return nil, err
}

// get returns a lease that is good for a while, minting one if need be.
func (l *leases) get(ctx context.Context, b *policy.Broker, repository string, write bool) (*lease, *refusal) {
	key := leaseKey{b.Name, repository, write}
	l.mint.Lock()
	defer l.mint.Unlock()
	l.mu.Lock()
	le, app, n := l.active[key], l.apps[b.Name], len(l.all)
	closed := l.closed
	l.mu.Unlock()
	switch {
	case le != nil && (l.good(le) || l.s.breaks.skip(leaseExpiry)):
		return le, nil
	case app == nil, closed, n >= maxLeases:
		return nil, deny(502, ReasonLeaseMint)
	}
	ctx, cancel := context.WithTimeout(ctx, mintTimeout)
	defer cancel()
	token, err := app.Mint(ctx, repository, write)
	if token.Value != "" {
		l.mask(token.Value) // before anybody can echo it
	}
	if errors.Is(err, broker.ErrTooWide) {
		_ = app.Revoke(ctx, token.Value)
	}
	if err != nil {
		l.s.leaseEvent("", ReasonLeaseMint)
		return nil, &refusal{status: 502, reason: ReasonLeaseMint, err: err}
	}
	return l.keep(key, app, token, b.Lease), nil
}

// good says whether a lease can still be used, with a margin for the request.
func (l *leases) good(le *lease) bool {
	return !le.over && l.s.now().Add(leaseMargin).Before(le.expires)
}

// keep records a new lease. Its life is the policy's, or the forge's if that
// is shorter.
func (l *leases) keep(key leaseKey, app *broker.App, token broker.Token, life time.Duration) *lease {
	if life <= 0 {
		life = defaultLease
	}
	le := &lease{id: leaseID(), app: app, token: token.Value, expires: l.s.now().Add(life)}
	if token.Expires.Before(le.expires) {
		le.expires = token.Expires
	}
	l.mu.Lock()
	l.active[key] = le
	l.all = append(l.all, le)
	l.mu.Unlock()
	l.s.leaseEvent(le.id, "minted")
	if !l.s.breaks.skip(leaseExpiry) {
		time.AfterFunc(le.expires.Sub(l.s.now()), func() { l.expire(le) })
	}
	return le
}

func leaseID() string {
	var b [6]byte
	_, _ = rand.Read(b[:]) // never fails (crypto/rand)
	return "lease-" + hex.EncodeToString(b[:])
}

// expire revokes a lease whose time is over: the forge's own expiry may be an
// hour later.
func (l *leases) expire(le *lease) {
	if err := l.revoke(le); err != nil {
		l.s.leaseEvent(le.id, "revoke-failed")
	}
}

func (l *leases) revoke(le *lease) error {
	l.mu.Lock()
	over := le.over
	le.over = true
	l.mu.Unlock()
	if over {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), revokeTimeout)
	defer cancel()
	if err := le.app.Revoke(ctx, le.token); err != nil {
		return err
	}
	l.s.leaseEvent(le.id, "revoked")
	return nil
}

// revokeAll ends every lease of the run.
func (l *leases) revokeAll() error {
	l.mu.Lock()
	l.closed = true
	all := l.all
	l.mu.Unlock()
	errs := make([]error, len(all))
	var wg sync.WaitGroup
	slots := make(chan struct{}, 8)
	for i, le := range all {
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			if err := l.revoke(le); err != nil {
				errs[i] = fmt.Errorf("%s: %w", le.id, err)
				l.s.leaseEvent(le.id, "revoke-failed")
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// mask adds a token to what is redacted, for the rest of the run: an ended one
// must not be seen either.
func (l *leases) mask(token string) {
	one, err := redact.NewForms(l.s.forms, []byte(token))
	if err != nil {
		return // shorter than any token is; readToken has refused what is empty
	}
	l.mu.Lock()
	l.masks = l.masks.With(one)
	masks := l.masks
	l.mu.Unlock()
	l.s.setMasks(nil, masks)
}

func (l *leases) redactor() *redact.Redactor {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.masks
}

func (s *Server) leaseEvent(id, reason string) {
	ev := Event{Type: EventLease, Time: s.now().UTC().Format(eventTime), RunID: s.runID, Reason: reason}
	if id != "" {
		ev.Leases = []string{id}
	}
	s.send(&ev)
}
