package proxy

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base32"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wallproof/wallproof/internal/procs/origdst"
	"github.com/wallproof/wallproof/policy/host"
	"github.com/wallproof/wallproof/policy/proxy/certs"
	"github.com/wallproof/wallproof/policy/proxy/dnsx"
	"github.com/wallproof/wallproof/policy/proxy/httpx"
	"github.com/wallproof/wallproof/policy/proxy/redact"
)

// Server enforces one run's policy on any number of listeners.
type Server struct {
	runID       string
	agent       bool // this is an egress agent's
	modelKey    string
	panicSink   func(any)
	forms       redact.Forms
	breaks      Breaks
	limits      Limits
	headLimits  httpx.Limits
	rules       atomic.Pointer[rules]
	live        *redact.Live
	masksMu     sync.Mutex
	masks       *redact.Redactor // every value that was ever in force
	ca          *certs.Authority
	resolver    *dnsx.Resolver
	selective   bool     // see Config.Selective
	waved       sync.Map // by target; see waves
	pins        map[string]netip.AddrPort
	services    map[string]netip.Addr
	clients     []netip.Prefix
	dialer      func(ctx context.Context, network, address string) (net.Conn, error)
	origDst     func(net.Conn) (netip.AddrPort, error)
	now         func() time.Time
	upstreamTLS *tls.Config
	clientTLS   *tls.Config
	h2          *handover
	modelClient *http.Client
	leases      *leases
	heavy       budget
	egress      *egress // nil: connections leave from here
	rec         recorder
	clock       clock
	usage       usage
	relays      relays
	conns       conns
	ctx         context.Context
	cancel      context.CancelFunc

	reloadMu sync.Mutex
	cfg      Config // as it is in force: a reload changes policy and secrets

	mu        sync.Mutex
	listeners map[interface{ Close() error }]struct{}
	stopping  bool
}

// New makes a Server: it reads the policy, makes the run's certificate
// authority, and compiles the redactor. It neither listens nor dials. An error
// means that nothing may run.
func New(cfg Config) (*Server, error) {
	s := &Server{
		runID: cfg.RunID, agent: cfg.Agent, selective: cfg.Selective, modelKey: cfg.ModelKey, panicSink: cfg.OnPanic,
		forms: redactForms(&cfg), breaks: cfg.Breaks, limits: cfg.Limits.withDefaults(), cfg: cfg,
		dialer: cfg.Dial, origDst: cfg.OriginalDst, now: cfg.Now,
		heavy: newBudget(), listeners: map[interface{ Close() error }]struct{}{},
	}
	s.defaults()
	r, err := compileRules(&cfg, 1)
	if err != nil {
		return nil, err
	}
	if err := checkEgress(&cfg, r.policy); err != nil {
		return nil, err
	}
	s.rules.Store(r)
	s.masks, s.live = r.values, redact.NewLive(r.values)
	if s.ca, err = certs.New(cfg.RunID, s.now()); err != nil {
		return nil, err
	}
	if err := s.addressing(&cfg); err != nil {
		return nil, err
	}
	if err := s.prepareTLS(&cfg.Upstream); err != nil {
		return nil, err
	}
	if s.leases, err = newLeases(s, r, cfg.BrokerKeys); err != nil {
		return nil, err
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.startHTTP2()
	go s.keepTime(s.ctx)
	return s, nil
}

func (s *Server) defaults() {
	s.headLimits = httpx.Limits{HeadBytes: s.limits.HeadBytes, Headers: s.limits.Headers}
	s.conns.init()
	s.rec.sink = s.cfg.OnEvent
	if s.dialer == nil {
		s.dialer = (&net.Dialer{KeepAlive: 30 * time.Second}).DialContext
	}
	if s.now == nil {
		s.now = time.Now
	}
	if s.origDst == nil {
		s.origDst = func(c net.Conn) (netip.AddrPort, error) {
			tc, ok := c.(*net.TCPConn)
			if !ok {
				return netip.AddrPort{}, errors.New("not a TCP connection")
			}
			return origdst.TCP(tc)
		}
	}
}

func (s *Server) addressing(cfg *Config) error {
	var err error
	if s.pins, err = parsePins(cfg.Upstream.Resolve); err != nil {
		return err
	}
	var servers []string
	if cfg.Upstream.Resolver != "" {
		if _, err := netip.ParseAddrPort(cfg.Upstream.Resolver); err != nil {
			return fmt.Errorf("resolver %q is not ip:port: %w", cfg.Upstream.Resolver, err)
		}
		servers = []string{cfg.Upstream.Resolver}
	}
	s.resolver = dnsx.NewResolver(servers, s.dialer, s.now)
	if cfg.Egress != nil {
		if s.egress, err = newEgress(s, cfg.Egress); err != nil {
			return err
		}
		s.resolver = dnsx.NewResolverFunc(s.egress.lookup, s.now)
	}
	s.services = map[string]netip.Addr{}
	for name, addr := range cfg.Services {
		h, err := host.Parse(name)
		if err != nil || h.IsAddr() {
			return fmt.Errorf("service %q is not a name", name)
		}
		if s.services[h.Name()], err = netip.ParseAddr(addr); err != nil {
			return fmt.Errorf("service %q: %w", name, err)
		}
	}
	for _, c := range cfg.Clients {
		p, err := netip.ParsePrefix(c)
		if err != nil {
			a, aerr := netip.ParseAddr(c)
			if aerr != nil {
				return fmt.Errorf("client %q is neither an address nor a prefix", c)
			}
			p = netip.PrefixFrom(a, a.BitLen())
		}
		s.clients = append(s.clients, p.Masked())
	}
	return nil
}

func (s *Server) prepareTLS(up *Upstream) error {
	s.upstreamTLS = &tls.Config{MinVersion: tls.VersionTLS12, ClientSessionCache: tls.NewLRUClientSessionCache(256)}
	// They are read now: later the process can open no file.
	pool := x509.NewCertPool()
	if up.RootsPEM == "" || up.SystemRoots {
		var err error
		if pool, err = x509.SystemCertPool(); err != nil {
			return fmt.Errorf("read the system's authorities: %w", err)
		}
	}
	s.upstreamTLS.RootCAs = pool
	if up.RootsPEM != "" {
		if !pool.AppendCertsFromPEM([]byte(up.RootsPEM)) {
			return errors.New("upstream roots hold no certificate in PEM")
		}
	}
	var ticketKey [32]byte
	if _, err := rand.Read(ticketKey[:]); err != nil {
		return fmt.Errorf("draw a session ticket key: %w", err)
	}
	s.clientTLS = &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}}
	s.clientTLS.SetSessionTicketKeys([][32]byte{ticketKey})
	s.modelClient = s.newModelClient()
	return nil
}

// CAPEM returns the certificate of the run's authority.
func (s *Server) CAPEM() []byte { return s.ca.PEM() }

// NothingToEnforce says whether the policy restricts, injects, brokers and
// serves nothing beyond what every policy denies.
func (s *Server) NothingToEnforce() bool { return s.rules.Load().ev.NothingToEnforce() }

// PolicyDigest is the hash of the policy in force.
func (s *Server) PolicyDigest() string { return s.rules.Load().ev.Digest() }

// Redact masks every secret and lease of the run in b, in place of the same
// length, and returns how many occurrences it masked.
func (s *Server) Redact(b []byte) int { return s.live.Get().Bytes(b) }

// Serve accepts connections on l until it is closed. kind is any but
// KindDNSUDP. It returns nil after Shutdown or Close.
func (s *Server) Serve(l net.Listener, kind Kind) error {
	handle := map[Kind]func(*conn){
		KindExplicit: s.serveExplicit, KindTransparent: s.serveTransparent,
		KindDNSTCP: s.serveDNSConn, KindSOCKS: s.serveSOCKS, KindAgent: s.serveAgent,
	}[kind]
	if handle == nil || s.agent != (kind == KindAgent) {
		return fmt.Errorf("listener of kind %q cannot be served", kind)
	}
	if !s.listen(l) {
		return nil
	}
	defer s.unlisten(l)
	for {
		c, err := l.Accept()
		if err != nil {
			if s.isStopping() || errors.Is(err, net.ErrClosed) {
				return nil
			}
			var ne net.Error
			if errors.As(err, &ne) && ne.Timeout() || isExhausted(err) {
				s.pause()
				continue
			}
			return fmt.Errorf("accept on the %s listener: %w", kind, err)
		}
		s.accept(c, kind, handle)
	}
}

// acceptPause is the wait after an accept that failed for want of descriptors.
const acceptPause = 10 * time.Millisecond

func (s *Server) pause() {
	t := time.NewTimer(acceptPause)
	defer t.Stop()
	select {
	case <-t.C:
	case <-s.ctx.Done():
	}
}

// accept takes a connection in, or turns it away.
func (s *Server) accept(nc net.Conn, kind Kind, handle func(*conn)) {
	c := &conn{Conn: nc, srv: s, kind: kind, client: nc.RemoteAddr().String()}
	c.ctx, c.cancel = context.WithCancel(s.ctx)
	c.touch()
	o := &origin{s: s, c: c}
	if !s.isClient(nc) {
		ev := o.event("tcp")
		s.refused(&ev, ReasonClient)
		reset(nc)
		_ = c.Close()
		return
	}
	if !s.conns.add(c, s.maxConnections()) {
		ev := o.event("tcp")
		s.refused(&ev, ReasonConnections)
		reset(nc)
		_ = c.Close()
		return
	}
	if s.isStopping() {
		_ = c.Close()
		s.conns.remove(c)
		return
	}
	go s.run(c, handle)
}

// run serves one connection. A panic ends this connection and no other.
func (s *Server) run(c *conn, handle func(*conn)) {
	defer s.conns.remove(c)
	defer c.Close()
	defer s.contain(c)
	if c.kind == KindTransparent {
		orig, err := s.origDst(c.Conn)
		if err != nil || !s.redirected(c, orig) {
			o := &origin{s: s, c: c}
			o.refuseTCP(nil, ReasonNoOriginal)
			return
		}
		c.orig = netip.AddrPortFrom(orig.Addr().Unmap(), orig.Port())
	}
	handle(c)
}

// redirected: a connection to the listener itself has no destination of its
// own, and following it would be a loop.
func (s *Server) redirected(c *conn, orig netip.AddrPort) bool {
	local, err := netip.ParseAddrPort(c.LocalAddr().String())
	return err != nil || local.Port() != orig.Port() || local.Addr().Unmap() != orig.Addr().Unmap()
}

// contain keeps a failure of the proxy's own code to the connection that met
// it. What the panic says may hold a request's content: it is not recorded.
func (s *Server) contain(c *conn) {
	if p := recover(); p != nil {
		s.failure(ReasonInternal, "connection")
		s.onPanic(p)
	}
}

// onPanic is where tests learn of contained panics.
func (s *Server) onPanic(p any) {
	if s.panicSink != nil {
		s.panicSink(p)
	}
}

func (s *Server) isClient(c net.Conn) bool {
	if len(s.clients) == 0 {
		return true
	}
	ap, err := netip.ParseAddrPort(c.RemoteAddr().String())
	if err != nil {
		return false
	}
	return s.isClientAddr(ap.Addr())
}

func (s *Server) isClientAddr(a netip.Addr) bool {
	for _, p := range s.clients {
		if p.Contains(a.Unmap().WithZone("")) {
			return true
		}
	}
	return len(s.clients) == 0
}

func (s *Server) listen(l interface{ Close() error }) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopping {
		_ = l.Close()
		return false
	}
	s.listeners[l] = struct{}{}
	return true
}

func (s *Server) unlisten(l interface{ Close() error }) {
	s.mu.Lock()
	delete(s.listeners, l)
	s.mu.Unlock()
	_ = l.Close()
}

func (s *Server) isStopping() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stopping
}

// Shutdown stops accepting, waits for connections until ctx ends, closes what
// is left, and revokes the leases. The error says which leases were not.
func (s *Server) Shutdown(ctx context.Context) error {
	s.mu.Lock()
	again := s.stopping
	s.stopping = true
	for l := range s.listeners {
		_ = l.Close()
	}
	s.mu.Unlock()
	if again {
		return nil
	}
	done := make(chan struct{})
	go func() { s.conns.wait(); close(done) }()
	select {
	case <-done:
	case <-ctx.Done():
	}
	s.cancel()
	s.modelClient.CloseIdleConnections()
	s.conns.each(func(c *conn) { _ = c.Close() })
	<-done
	s.relays.close()
	return s.leases.revokeAll()
}

// Close is Shutdown without waiting.
func (s *Server) Close() error {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return s.Shutdown(ctx)
}

// placeholderBytes gives 32 characters of base32.
const placeholderBytes = 20

// NewPlaceholder returns what a sandbox holds in the place of a secret:
// "wpplaceholder" and 32 characters of [a-z2-7] from the system's random source.
func NewPlaceholder() string { return "wpplaceholder" + randomText() }

// NewModelKey returns a run's own key for the model: "wpmodel" and 32 characters
// of [a-z2-7].
func NewModelKey() string { return "wpmodel" + randomText() }

// NewRunID returns 8 hex characters.
func NewRunID() string {
	var b [4]byte
	_, _ = rand.Read(b[:]) // never fails (crypto/rand)
	return hex.EncodeToString(b[:])
}

func randomText() string {
	var b [placeholderBytes]byte
	_, _ = rand.Read(b[:]) // never fails (crypto/rand)
	return strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(b[:]))
}
