package battery

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/battery/adapter"
	"github.com/wallproof/wallproof/battery/boundary"
	"github.com/wallproof/wallproof/battery/parts"
	"github.com/wallproof/wallproof/internal/canon"
	"github.com/wallproof/wallproof/internal/procs"
	"github.com/wallproof/wallproof/policy/proxy"
)

// ForeignProxy is somebody else's proxy, attacked in place of Wallproof's own. It
// runs outside the sandboxes, in the router's namespace, behind the same packet
// filter; the sandboxes' way to it is the explicit proxy's port and nothing else:
// there is no redirect, no SOCKS and no resolver.
type ForeignProxy struct {
	Adapter adapter.Adapter
	// Start is an executable that becomes the proxy, in the foreground. It is run
	// as an unprivileged user, whose packets alone the filter lets out, with
	// WALLPROOF_DIR, _PORT, _LISTEN, _UPSTREAM_CA, _RESOLVER, and _SECRET_NAME and
	// _PLACEHOLDER_NAME for each secret of the policy, all of which are canaries.
	Start string
	Files []string // what it is configured by, beside Start: recorded by digest
	Env   []string // more variables for it, NAME=VALUE
	CA    string   // PEM file of the authority that it intercepts TLS with, "" if it does not
	Log   string   // its log. CA and Log may be relative to WALLPROOF_DIR
}

// foreign is a foreign proxy as a phase uses it.
type foreign struct {
	ForeignProxy
	dir      string
	process  *adapter.Process
	version  string // as it says itself
	caDigest string
	texts    map[uint64]string // by event: what the log says of it and is not kept
	unread   int               // lines of its log that say nothing to us
}

// Bounds on a foreign proxy.
const (
	foreignReady = 60 * time.Second // until it answers
	maxCAFile    = 1 << 20
)

// check refuses what cannot work before anything is started.
func (f *ForeignProxy) check() error {
	if f.Log == "" {
		return errors.New("the proxy's log is not named: without it no refusal can be told from a dead network")
	}
	for _, file := range append([]string{f.Start}, f.Files...) {
		info, err := os.Stat(file)
		if err != nil {
			return fmt.Errorf("the proxy's files: %w", err)
		}
		if !info.Mode().IsRegular() || file == f.Start && info.Mode()&0o111 == 0 {
			return fmt.Errorf("the proxy's files: %s is no regular file, or is to be started and not executable", file)
		}
	}
	for _, kv := range f.Env {
		name, _, ok := strings.Cut(kv, "=")
		if !ok || name == "" || strings.HasPrefix(name, "WALLPROOF_") {
			return fmt.Errorf("the proxy's variable %.60q is not NAME=VALUE, or its name is one of ours", kv)
		}
	}
	return nil
}

// startForeign starts the proxy and waits until it answers the sandboxes.
func (p *phase) startForeign(ctx context.Context) error {
	f := &foreign{ForeignProxy: *p.r.opt.Proxy, dir: filepath.Join(p.dir, "proxy"), texts: map[uint64]string{}}
	p.foreign = f
	upstream := filepath.Join(p.dir, "upstream-ca.pem")
	if err := os.WriteFile(upstream, []byte(p.worldCA.CertPEM), 0o644); err != nil {
		return storage("write the upstream authority", err)
	}
	start, err := filepath.Abs(f.Start)
	if err != nil {
		return err
	}
	resolver := netip.MustParseAddrPort(worldResolver).Addr()
	f.process, err = adapter.Start(adapter.Launch{Init: p.r.self("foreign"), Start: start, NetNS: p.stage.RouterNS(), UID: proxyUID,
		Dir: f.dir, Resolver: resolver, Env: p.foreignEnv(upstream, resolver)})
	if err != nil {
		return err
	}
	p.onClose(func(ctx context.Context) error {
		return errors.Join(f.process.Stop(ctx), p.readForeignLog())
	})
	box, _ := p.stage.Box(boxWork)
	if f.version, err = f.await(ctx, box); err != nil {
		return p.masked(err)
	}
	p.enforcement = manifest.EnforcementEnforced
	if p.r.evaluator.NothingToEnforce() {
		p.enforcement = manifest.EnforcementNothing
	}
	p.kinds = []string{string(proxy.KindExplicit)}
	p.caPEM = p.worldCA.CertPEM
	if f.CA == "" {
		return nil
	}
	ca, digest, err := readCA(f.path(f.CA))
	if err != nil {
		return err
	}
	p.caPEM, f.caDigest = ca+p.worldCA.CertPEM, digest
	return nil
}

// masked takes canaries out of an error that quotes the proxy's output.
func (p *phase) masked(err error) error {
	red, rerr := p.r.redactor()
	if rerr != nil {
		return rerr
	}
	text, _ := red.String(err.Error())
	return errors.New(text)
}

// path is where a file of the proxy's is.
func (f *foreign) path(name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(f.dir, name)
}

func (p *phase) foreignEnv(upstream string, resolver netip.Addr) []string {
	var listen []string
	for _, b := range p.stage.Boxes() {
		for _, a := range validAddrs(b.Gateway4, b.Gateway6) {
			listen = append(listen, netip.AddrPortFrom(a, boundary.PortProxy).String())
		}
	}
	env := append([]string{}, p.foreign.Env...)
	env = append(env, fmt.Sprintf("WALLPROOF_PORT=%d", boundary.PortProxy), "WALLPROOF_LISTEN="+strings.Join(listen, " "),
		"WALLPROOF_UPSTREAM_CA="+upstream, "WALLPROOF_RESOLVER="+resolver.String())
	for _, s := range p.canaries.own {
		env = append(env, "WALLPROOF_SECRET_"+s.Name+"="+s.Value, "WALLPROOF_PLACEHOLDER_"+s.Name+"="+s.Placeholder)
	}
	return env
}

// await says to the proxy, from a sandbox's side, what is no request, until it
// answers, and returns what it says that it is.
func (f *foreign) await(ctx context.Context, box boundary.Box) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, foreignReady)
	defer cancel()
	to := netip.AddrPortFrom(box.Gateway4, boundary.PortProxy)
	var last error
	for {
		var head []byte
		last = procs.DoIn(box.NetNSPath, func() (err error) {
			head, err = askHead(to)
			return err
		})
		if last == nil {
			return serverOf(head), nil
		}
		select {
		case <-f.process.Done():
			return "", f.process.Ended()
		case <-ctx.Done():
			return "", fmt.Errorf("the proxy does not answer at %s within %s (%w); it must listen on port $WALLPROOF_PORT; the last of its output: %s", to, foreignReady, last, f.process.Output())
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// askHead sends what is no request, which no rule of the proxy's is about, and
// reads the beginning of the answer.
func askHead(to netip.AddrPort) ([]byte, error) {
	c, err := net.DialTimeout("tcp", to.String(), time.Second)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(5 * time.Second))
	if _, err := io.WriteString(c, "WALLPROOF ASKS WHO-IS-THERE\r\n\r\n"); err != nil {
		return nil, err
	}
	head, err := io.ReadAll(io.LimitReader(c, 4<<10))
	if len(head) == 0 {
		return nil, errors.Join(errors.New("it closes without an answer"), err)
	}
	return head, nil
}

// unknownVersion is the version of a proxy that does not say what it is.
const unknownVersion = "not told"

// serverOf is the Server header of an answer: what the proxy says that it is.
func serverOf(head []byte) string {
	head, _, _ = bytes.Cut(head, []byte("\r\n\r\n"))
	for line := range strings.SplitSeq(string(head), "\r\n") {
		name, value, ok := strings.Cut(line, ":")
		if value = strings.TrimSpace(value); !ok || !strings.EqualFold(name, "Server") || value == "" || len(value) > 128 {
			continue
		}
		for _, c := range []byte(value) {
			if c < ' ' || c > '~' {
				return unknownVersion
			}
		}
		return value
	}
	return unknownVersion
}

// readCA reads the authority's certificates and names them by the digest of the
// first.
func readCA(path string) (text, digest string, err error) {
	file, err := os.Open(path)
	if err != nil {
		return "", "", fmt.Errorf("the proxy's authority: %w", err)
	}
	defer file.Close()
	raw, err := io.ReadAll(io.LimitReader(file, maxCAFile))
	if err != nil {
		return "", "", fmt.Errorf("the proxy's authority: %w", err)
	}
	var out bytes.Buffer
	for block, rest := pem.Decode(raw); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue // a file that holds the key, too, is not handed to anybody as it is
		}
		if _, err := x509.ParseCertificate(block.Bytes); err != nil {
			return "", "", fmt.Errorf("the proxy's authority %s: %w", path, err)
		}
		if digest == "" {
			sum := sha256.Sum256(block.Bytes)
			digest = "sha256:" + hex.EncodeToString(sum[:])
		}
		_ = pem.Encode(&out, &pem.Block{Type: block.Type, Bytes: block.Bytes})
	}
	if digest == "" {
		return "", "", fmt.Errorf("the proxy's authority %s holds no certificate in PEM", path)
	}
	return out.String(), digest, nil
}

// readForeignLog takes in the proxy's log, once it has ended.
func (p *phase) readForeignLog() error {
	f := p.foreign
	file, err := os.Open(f.path(f.Log))
	if err != nil {
		return fmt.Errorf("the proxy's log: %w; name the file that it writes", err)
	}
	defer file.Close()
	log, err := f.Adapter.Read(file)
	if err != nil {
		return fmt.Errorf("the proxy's log %s: %w", f.path(f.Log), err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, r := range log.Records {
		e := foreignEvent(p.r.id, uint64(i)+1, r)
		f.texts[e.ID] = r.URL
		p.events = append(p.events, e)
	}
	if f.unread = log.Unread; f.unread > 0 {
		p.step("%d lines of the proxy's log say nothing that can be read (%s)", log.Unread, log.First)
	}
	if log.Cut {
		p.step("the proxy's log is longer than is read: what came later is tied to no attempt")
	}
	return nil
}

// foreignEvent is a line of a foreign log in the form of our own proxy's.
func foreignEvent(run string, id uint64, r adapter.Record) proxy.Event {
	e := proxy.Event{Type: proxy.EventDecision, ID: id, Time: r.Time.UTC().Format(timeFormat), RunID: run, Listener: proxy.KindExplicit,
		Scheme: r.Scheme, Method: r.Method, Host: r.Host, Port: r.Port, Dialled: r.Dialled, Status: r.Status, Verdict: proxy.Allow, Reason: r.Reason}
	if r.Client.IsValid() {
		e.Client = r.Client.String()
	}
	switch r.Verdict {
	case adapter.Denied:
		e.Verdict, e.Route = proxy.Deny, proxy.RouteRefused
	case adapter.Failed:
		e.Verdict, e.Reason, e.Route = proxy.Deny, proxy.ReasonDialFailed, proxy.RouteRefused
	}
	return e
}

// text is what a foreign log says of an event and is not kept.
func (f *foreign) text(id uint64) string {
	if f == nil {
		return ""
	}
	return f.texts[id]
}

// proxyRecord is what entry 0 says of the proxy.
func (r *run) proxyRecord() (manifest.Proxy, error) {
	f := r.attack.foreign
	if f == nil {
		return manifest.Proxy{Version: r.opt.Tool.Version, ConfigDigest: r.attack.proxyConfigDigest(), Placement: placementOutside}, nil
	}
	digests := map[string]string{}
	for _, file := range append([]string{f.Start}, f.Files...) {
		d, err := fileDigest(file)
		if err != nil {
			return manifest.Proxy{}, err
		}
		digests[filepath.Base(file)] += d
	}
	b, err := canon.Marshal(map[string]any{"policy": r.policyDigest, "files": digests, "environment": strings.Join(f.Env, "\n"), "listeners": r.attack.kinds})
	if err != nil {
		return manifest.Proxy{}, fmt.Errorf("name the proxy's configuration: %w", err)
	}
	sum := sha256.Sum256(b)
	return manifest.Proxy{Name: f.Adapter.Name, Version: f.version, ConfigDigest: "sha256:" + hex.EncodeToString(sum[:]), CADigest: f.caDigest, Placement: placementOutside}, nil
}

// placementOutside: it runs in the router's namespace, which no sandbox is in.
const placementOutside = "outside-sandbox"

// foreignFacts are the facts of a stack that offers a proxy and nothing else.
func (r *run) foreignFacts() map[string]string {
	if r.opt.Proxy == nil {
		return nil
	}
	return map[string]string{
		parts.FactResolver:    "the stack gives sandboxes no resolver: its proxy resolves names",
		parts.FactSOCKS:       "the stack's proxy offers no SOCKS",
		parts.FactAuthorities: "the stack has one proxy for all sandboxes",
	}
}
