//go:build linux

// Package standalone runs the enforcing proxy as an ordinary HTTP(S) proxy in
// front of any sandbox: it resolves the policy's secrets, writes the run's
// certificate, serves, takes edits of the policy file in as they are saved,
// records what was decided, and stops gracefully, after lingering if the policy
// says so.
package standalone

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/wallproof/wallproof/policy"
	"github.com/wallproof/wallproof/policy/proxy"
	"github.com/wallproof/wallproof/policy/proxy/confine"
	"github.com/wallproof/wallproof/policy/proxy/record"
	"github.com/wallproof/wallproof/policy/proxy/secret"
	"github.com/wallproof/wallproof/policy/proxy/watch"
)

// Listen is one address to serve.
type Listen struct {
	Kind proxy.Kind
	Addr string // "127.0.0.1:3128"
}

// Options say what to run.
type Options struct {
	PolicyFile string            // watched for edits
	Listen     []Listen          // at least one
	CAOut      string            // the certificate is written here; "" does not write it
	EnvOut     string            // variables for the sandbox, one NAME=value a line, mode 0600; "" does not write them
	UpstreamCA string            // file of further trusted authorities, "" for the system's alone
	Resolver   string            // name server "ip:port", "" for the system's
	Resolve    []string          // "NAME:PORT:ADDR", as curl's --resolve
	RunID      string            // "" makes one
	User       string            // who runs it, for the blocked hosts
	LogFile    string            // events are appended to it, "" keeps none
	Operator   string            // path of a Unix socket for operators: status, logs, metrics; "" opens none
	Secrets    *secret.Resolver  // nil means the zero Resolver
	Messages   io.Writer         // one line a change of state, for people; nil drops them
	Ready      func(*Instance)   // called once it serves; nil calls nothing
	Edited     func(error)       // called after each edit of the policy with what came of it; nil calls nothing
	Limits     proxy.Limits      //
	Dial       proxy.Config      // only its Dial, Now and OriginalDst are used, by tests
	Services   map[string]string // addresses of the run's own services
	Confine    *User             // confines the whole process once it serves; nil does not
	Agent      *AgentFiles       // makes this an egress agent: every listener is of KindAgent
}

// User is who the process becomes; the zero one stays who it is.
type User struct{ UID, GID int }

// AgentFiles are what an egress agent proves itself with, and whom it serves: files
// in PEM.
type AgentFiles struct {
	Cert, Key string
	ClientCA  string // who signs the certificates of proxies
}

// tunnel reads the files.
func (a *AgentFiles) tunnel() (*tls.Config, error) {
	var text [3]string
	for i, path := range []string{a.ClientCA, a.Cert, a.Key} {
		b, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("read the agent's files: %w", err)
		}
		text[i] = string(b)
	}
	cfg, err := proxy.MutualTLS(text[0], text[1], text[2])
	if err != nil {
		return nil, fmt.Errorf("the agent's files (%s, %s, %s): %w", a.ClientCA, a.Cert, a.Key, err)
	}
	return cfg, nil
}

// stopTime is how long requests under way may go on after the end.
const stopTime = 10 * time.Second

// Instance is a running stand-alone proxy.
type Instance struct {
	Server   *proxy.Server
	Recorder *record.Recorder
	Addrs    []net.Addr // of Options.Listen, in order
	ModelKey string

	opts    Options
	tunnel  *tls.Config // of an egress agent
	mu      sync.Mutex
	policy  *policy.Policy
	secrets []proxy.Secret
}

// Run serves until ctx ends and everything has stopped. After the end the proxy
// lingers if the policy says so; second ends that, too.
func Run(ctx, second context.Context, o Options) error {
	in := &Instance{opts: o}
	doc, err := os.ReadFile(o.PolicyFile)
	if err != nil {
		return fmt.Errorf("read the policy: %w", err)
	}
	if err := in.prepare(ctx, doc); err != nil {
		return err
	}
	defer in.Recorder.Close()
	failed, err := in.serve()
	if err != nil {
		_ = in.Server.Close()
		return err
	}
	stopOps, err := in.serveOperators()
	if err != nil {
		_ = in.Server.Close()
		return err
	}
	defer stopOps()
	if err := in.confine(); err != nil {
		_ = in.Server.Close()
		return err
	}
	watching, stopWatching := context.WithCancel(second)
	defer stopWatching()
	go func() {
		if err := watch.File(watching, o.PolicyFile, doc, func(b []byte) { in.edit(ctx, b) }); err != nil {
			in.say("edits of the policy are no longer seen: %v", err)
		}
	}()
	in.say("serving on %s; certificate %s", in.addresses(), orNone(o.CAOut))
	if o.Ready != nil {
		o.Ready(in)
	}
	select {
	case <-ctx.Done():
	case err = <-failed:
	}
	if err == nil {
		err = in.linger(second, failed)
	}
	end, cancel := context.WithTimeout(context.Background(), stopTime)
	defer cancel()
	return errors.Join(err, in.Server.Shutdown(end), in.Recorder.Err())
}

// confine gives up what a serving proxy does not need (D14). Unlike the proxy of a
// run it keeps the host's files, as it reads edits and the secrets that they name.
func (in *Instance) confine() error {
	u := in.opts.Confine
	if u == nil {
		return nil
	}
	if in.opts.EnvOut != "" && u.UID != 0 {
		if err := os.Chown(in.opts.EnvOut, u.UID, u.GID); err != nil {
			return fmt.Errorf("give the sandbox's environment to the proxy's user: %w", err)
		}
	}
	facts, err := confine.Self(u.UID, u.GID)
	if err != nil {
		return fmt.Errorf("confine the proxy: %w", err)
	}
	f, err := os.Open(in.opts.PolicyFile)
	if err != nil {
		return fmt.Errorf("the proxy has given up its capabilities and could not see edits: %w; let it read the policy, or run it as the file's owner", err)
	}
	_ = f.Close()
	locked := "memory is not locked, as its limit (ulimit -l) forbids it"
	if facts.MemoryLocked {
		locked = "memory is locked"
	}
	in.say("confined: system calls are filtered, no capability, no core dump; %s", locked)
	return nil
}

func orNone(s string) string {
	if s == "" {
		return "not written"
	}
	return s
}

func (in *Instance) say(format string, args ...any) {
	if in.opts.Messages != nil {
		fmt.Fprintf(in.opts.Messages, "wallproof proxy: "+format+"\n", args...)
	}
}

func (in *Instance) addresses() string {
	var out []string
	for i, a := range in.Addrs {
		out = append(out, string(in.opts.Listen[i].Kind)+" "+a.String())
	}
	return strings.Join(out, ", ")
}

// prepare reads everything that can be wrong before anything is opened.
func (in *Instance) prepare(ctx context.Context, doc []byte) error {
	o := &in.opts
	if len(o.Listen) == 0 {
		return errors.New("no address to listen on")
	}
	p, err := policy.Parse(o.PolicyFile, doc)
	if err != nil {
		return err
	}
	if err := p.LoadLockfiles(os.ReadFile); err != nil {
		return err
	}
	if o.Agent != nil {
		if in.tunnel, err = o.Agent.tunnel(); err != nil {
			return err
		}
	}
	if in.Recorder, err = in.recorder(); err != nil {
		return err
	}
	cfg, err := in.config(ctx, p)
	if err != nil {
		in.Recorder.SetEnforcement(record.Enforcement{State: record.Failed, Reason: "secrets"})
		return err
	}
	if in.Server, err = proxy.New(cfg); err != nil {
		return err
	}
	state := record.Enforcement{State: record.Enforced}
	if in.Server.NothingToEnforce() {
		state = record.Enforcement{State: record.Nothing, Reason: "the policy restricts, injects, brokers and serves nothing"}
	}
	in.Recorder.SetEnforcement(state)
	return in.writeFiles(p)
}

func (in *Instance) recorder() (*record.Recorder, error) {
	if in.opts.LogFile == "" {
		return record.New(in.opts.User), nil
	}
	return record.Open(in.opts.LogFile, in.opts.User)
}

func (in *Instance) config(ctx context.Context, p *policy.Policy) (proxy.Config, error) {
	o := &in.opts
	values := &secret.Values{}
	var err error
	if o.Agent == nil { // an agent holds no secret
		if values, err = in.resolver().Policy(ctx, p); err != nil {
			return proxy.Config{}, err
		}
	}
	canonical, err := p.Canonical()
	if err != nil {
		return proxy.Config{}, err
	}
	if o.RunID == "" {
		o.RunID = proxy.NewRunID()
	}
	in.policy, in.ModelKey = p, proxy.NewModelKey()
	if o.Agent == nil {
		in.secrets = bind(p, values.Secrets, nil)
	}
	cfg := proxy.Config{
		RunID: o.RunID, Policy: string(canonical), Secrets: in.secrets, BrokerKeys: values.BrokerKeys,
		Limits: o.Limits, Services: o.Services, ModelKey: in.ModelKey, OnEvent: in.Recorder.Add,
		Dial: o.Dial.Dial, Now: o.Dial.Now, OriginalDst: o.Dial.OriginalDst,
		Upstream: proxy.Upstream{Resolver: o.Resolver},
	}
	if cfg.Upstream.Resolve, err = Pins(o.Resolve); err != nil {
		return proxy.Config{}, err
	}
	if cfg.Agent = o.Agent != nil; values.Egress != nil {
		cfg.Egress = &proxy.Egress{Address: p.Egress.Address, ServerCAPEM: values.Egress.ServerCA, CertPEM: values.Egress.Cert, KeyPEM: values.Egress.Key}
	}
	if o.UpstreamCA != "" {
		pem, err := os.ReadFile(o.UpstreamCA)
		if err != nil {
			return proxy.Config{}, fmt.Errorf("read the upstream authorities: %w", err)
		}
		cfg.Upstream.RootsPEM, cfg.Upstream.SystemRoots = string(pem), true
	}
	return cfg, nil
}

func (in *Instance) resolver() *secret.Resolver {
	if in.opts.Secrets != nil {
		return in.opts.Secrets
	}
	return &secret.Resolver{}
}

// bind gives each secret its placeholder: the policy's, the one it had, or a new
// one.
func bind(p *policy.Policy, values map[string]string, old []proxy.Secret) []proxy.Secret {
	var out []proxy.Secret
	for i := range p.Secrets {
		s := proxy.Secret{Name: p.Secrets[i].Name, Value: values[p.Secrets[i].Name], Placeholder: p.Secrets[i].Placeholder}
		for _, o := range old {
			if o.Name == s.Name && s.Placeholder == "" {
				s.Placeholder = o.Placeholder
			}
		}
		if s.Placeholder == "" {
			s.Placeholder = proxy.NewPlaceholder()
		}
		out = append(out, s)
	}
	return out
}

// Pins reads "NAME:PORT:ADDR", where an IPv6 address may stand in brackets.
func Pins(list []string) (map[string]string, error) {
	out := map[string]string{}
	for _, s := range list {
		name, rest, ok1 := strings.Cut(s, ":")
		port, addr, ok2 := strings.Cut(rest, ":")
		if !ok1 || !ok2 || name == "" || port == "" || addr == "" {
			return nil, fmt.Errorf("--resolve %q is not NAME:PORT:ADDR", s)
		}
		out[net.JoinHostPort(name, port)] = strings.TrimSuffix(strings.TrimPrefix(addr, "["), "]")
	}
	return out, nil
}

func (in *Instance) writeFiles(p *policy.Policy) error {
	o := &in.opts
	if o.CAOut != "" {
		if err := os.WriteFile(o.CAOut, in.Server.CAPEM(), 0o644); err != nil {
			return fmt.Errorf("write the certificate: %w", err)
		}
	}
	return nil
}

// writeEnv writes what a sandbox's environment needs. It holds placeholders and
// the run's own model key, and nothing that is worth anything outside.
func (in *Instance) writeEnv() error {
	if in.opts.EnvOut == "" {
		return nil
	}
	proxyURL := ""
	for i, l := range in.opts.Listen {
		if l.Kind == proxy.KindExplicit {
			proxyURL = "http://" + in.Addrs[i].String()
			break
		}
	}
	env := proxy.SandboxEnv(in.opts.CAOut, proxyURL)
	env = append(env, proxy.ModelEnv(in.policy, in.ModelKey)...)
	for _, s := range in.secrets {
		env = append(env, s.Name+"="+s.Placeholder)
	}
	if err := os.WriteFile(in.opts.EnvOut, []byte(strings.Join(env, "\n")+"\n"), 0o600); err != nil {
		return fmt.Errorf("write the sandbox's environment: %w", err)
	}
	return nil
}

// serve opens the listeners. What it returns tells of one that failed.
func (in *Instance) serve() (<-chan error, error) {
	failed := make(chan error, len(in.opts.Listen))
	for _, l := range in.opts.Listen {
		if l.Kind == proxy.KindDNSUDP {
			pc, err := net.ListenPacket("udp", l.Addr)
			if err != nil {
				return nil, fmt.Errorf("listen: %w", err)
			}
			in.Addrs = append(in.Addrs, pc.LocalAddr())
			go func() { failed <- in.Server.ServePacket(pc) }()
			continue
		}
		nl, err := net.Listen("tcp", l.Addr)
		if err != nil {
			return nil, fmt.Errorf("listen: %w", err)
		}
		in.Addrs = append(in.Addrs, nl.Addr())
		if in.tunnel != nil {
			nl = tls.NewListener(nl, in.tunnel)
		}
		go func() { failed <- in.Server.Serve(nl, l.Kind) }()
	}
	return failed, in.writeEnv()
}

// serveOperators opens the operators' socket, which only its owner can reach.
func (in *Instance) serveOperators() (stop func(), err error) {
	path := in.opts.Operator
	if path == "" {
		return func() {}, nil
	}
	if fi, err := os.Lstat(path); err == nil && fi.Mode()&os.ModeSocket != 0 {
		_ = os.Remove(path) // left by one that was killed
	}
	l, err := ListenPrivate(path)
	if err != nil {
		return nil, fmt.Errorf("open the operators' socket: %w", err)
	}
	srv := &http.Server{Handler: in.Recorder.Handler(), ReadHeaderTimeout: stopTime, ErrorLog: log.New(io.Discard, "", 0)}
	go func() { _ = srv.Serve(l) }()
	return func() { _ = srv.Close() }, nil
}

// edit takes an edit of the policy in: as a whole, or not at all.
func (in *Instance) edit(ctx context.Context, doc []byte) {
	err := in.apply(ctx, doc)
	if err != nil {
		in.say("the edit is not in force, the policy before it is: %v", err)
	} else {
		in.say("the edited policy is in force: %s", in.Server.PolicyDigest())
	}
	if in.opts.Edited != nil {
		in.opts.Edited(err)
	}
}

func (in *Instance) apply(ctx context.Context, doc []byte) error {
	in.mu.Lock()
	defer in.mu.Unlock()
	p, err := policy.Parse(in.opts.PolicyFile, doc)
	if err != nil {
		return err
	}
	if err := p.LoadLockfiles(os.ReadFile); err != nil {
		return err
	}
	values, err := in.newValues(ctx, p)
	if err != nil {
		return err
	}
	canonical, err := p.Canonical()
	if err != nil {
		return err
	}
	text, secrets := string(canonical), []proxy.Secret(nil)
	if in.opts.Agent == nil {
		secrets = bind(p, values, in.secrets)
	}
	if err := in.Server.Reload(proxy.Update{Policy: &text, Secrets: secrets}); err != nil {
		return err
	}
	in.policy, in.secrets = p, secrets
	return in.writeEnv()
}

// newValues fetches only what the edit adds or refers to elsewhere: an edit of
// a host must not wait for a vault.
func (in *Instance) newValues(ctx context.Context, p *policy.Policy) (map[string]string, error) {
	values := map[string]string{}
	if in.opts.Agent != nil {
		return values, nil
	}
	for i := range p.Secrets {
		s := &p.Secrets[i]
		if old := in.known(s); old != "" {
			values[s.Name] = old
			continue
		}
		v, err := in.resolver().Resolve(ctx, s.From)
		if err != nil {
			return nil, fmt.Errorf("secret %q: %w", s.Name, err)
		}
		values[s.Name] = v
	}
	return values, nil
}

func (in *Instance) known(s *policy.Secret) string {
	for i := range in.policy.Secrets {
		o := &in.policy.Secrets[i]
		if o.Name != s.Name || !sameSource(o.From, s.From) {
			continue
		}
		for _, v := range in.secrets {
			if v.Name == s.Name {
				return v.Value
			}
		}
	}
	return ""
}

// linger keeps the proxy, the operators' socket and the credentials after the end
// of the run, as long as the policy says.
func (in *Instance) linger(second context.Context, failed <-chan error) error {
	in.mu.Lock()
	l := in.policy.Lingering
	in.mu.Unlock()
	if l.For <= 0 {
		return nil
	}
	longest := min(l.For, policy.MaxLingering)
	until := time.Now().Add(longest)
	in.Recorder.SetLingering(record.Lingering{Until: until, State: record.Awake})
	in.say("lingering for at most %s", longest)
	done := make(chan struct{})
	go func() {
		in.Server.Linger(second, longest, l.Idle, func(idle bool) {
			state := record.Awake
			if idle {
				state = record.Idle
			}
			in.Recorder.SetLingering(record.Lingering{Until: until, State: state})
			in.say("lingering: %s", state)
		})
		close(done)
	}()
	select {
	case <-done:
		return nil
	case err := <-failed:
		return err
	}
}
