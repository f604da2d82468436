package battery

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"

	"github.com/wallproof/wallproof/battery/witness"
	"github.com/wallproof/wallproof/internal/procs"
	"github.com/wallproof/wallproof/policy/proxy"
)

// worldResolver is where the world's DNS answers (see docs/architecture.md).
const worldResolver = "203.0.113.2:53"

// worldSocket says what the witness does with a socket of the boundary's.
func worldSocket(name string) (witness.SocketKind, bool) {
	switch {
	case strings.HasPrefix(name, "any-tcp"):
		return witness.SocketTCP, true
	case strings.HasPrefix(name, "any-udp"):
		return witness.SocketUDP, true
	case name == "capture":
		return witness.SocketCapture, true
	}
	return "", false
}

// openSocket says what the open proxy does with a socket of the router's.
func openSocket(name string) (witness.SocketKind, bool) {
	switch name {
	case "proxy", "socks":
		return witness.SocketProxy, true
	case "dns-udp":
		return witness.SocketDNSUDP, true
	case "dns-tcp":
		return witness.SocketDNSTCP, true
	}
	return "", false
}

// enforcingSocket says what the enforcing proxy does with a socket of the
// router's.
func enforcingSocket(name string) (proxy.Kind, bool) {
	switch name {
	case "proxy":
		return proxy.KindExplicit, true
	case "socks":
		return proxy.KindSOCKS, true
	case "dns-udp":
		return proxy.KindDNSUDP, true
	case "dns-tcp":
		return proxy.KindDNSTCP, true
	case "transparent":
		return proxy.KindTransparent, true
	}
	return "", false
}

func closeFiles(files []procs.NamedFile) {
	for _, f := range files {
		f.File.Close()
	}
}

// localAddr is the address that a listening socket is bound to.
func localAddr(f *os.File) (netip.Addr, error) {
	type addressed interface{ Addr() net.Addr }
	var a net.Addr
	if l, err := net.FileListener(f); err == nil {
		defer l.Close()
		a = l.(addressed).Addr()
	} else if c, err := net.FilePacketConn(f); err == nil {
		defer c.Close()
		a = c.LocalAddr()
	} else {
		return netip.Addr{}, fmt.Errorf("read a socket's address: %w", err)
	}
	ap, err := netip.ParseAddrPort(a.String())
	return ap.Addr().Unmap(), err
}

// startProxies puts a proxy and a resolver behind the router's sockets: in the
// control one open proxy for all, in the attack one enforcing proxy a tenant.
func (p *phase) startProxies(ctx context.Context) error {
	if p.attacking() && p.r.opt.Proxy != nil {
		return p.startForeign(ctx)
	}
	files, err := p.stage.Listeners()
	if err != nil {
		return err
	}
	defer closeFiles(files)
	if !p.attacking() {
		return p.startOpenProxy(ctx, files)
	}
	tenant, _ := p.stage.Box(boxTenant)
	var ours, theirs []procs.NamedFile
	for _, f := range files {
		addr, err := localAddr(f.File)
		if err != nil {
			return err
		}
		if addr == tenant.Gateway4 || addr == tenant.Gateway6 {
			theirs = append(theirs, f)
		} else {
			ours = append(ours, f)
		}
	}
	ca, err := p.startProxy(ctx, ours, boxWork, p.canaries.own, p.canaries.modelKey)
	if err != nil {
		return err
	}
	if p.tenantCA, err = p.startProxy(ctx, theirs, boxTenant, p.canaries.tenant, p.canaries.tenantModelKey); err != nil {
		return fmt.Errorf("the second tenant's: %w", err)
	}
	p.caPEM = ca + p.worldCA.CertPEM + p.r.opt.Breaks.authority(p)
	return nil
}

func (p *phase) startOpenProxy(ctx context.Context, files []procs.NamedFile) error {
	l := witness.Launch{Argv: p.r.self("world"), NetNS: p.stage.RouterNS(), UID: witnessUID, GID: witnessUID, Event: p.witnessEvent}
	cfg := p.openConfig()
	for _, f := range files {
		kind, ok := openSocket(f.Name)
		if !ok {
			return fmt.Errorf("the boundary offers a socket %q that the open proxy does not know", f.Name)
		}
		cfg.Sockets = append(cfg.Sockets, witness.Socket{Kind: kind, FD: len(l.Files)})
		l.Files = append(l.Files, f.File)
	}
	l.Config = cfg
	open, err := witness.Start(ctx, l)
	if err != nil {
		return err
	}
	p.open = open
	p.onClose(stopWitness(open))
	p.caPEM, p.tenantCA = p.worldCA.CertPEM, p.worldCA.CertPEM // there is no proxy with one of its own
	return nil
}

// startProxy starts an enforcing proxy for a sandbox with its tenant's secrets,
// all of them canaries, and returns its certificate authority.
func (p *phase) startProxy(ctx context.Context, files []procs.NamedFile, owner string, secrets tenantSecrets, modelKey string) (string, error) {
	document, digest := p.r.opt.Breaks.policy(p)
	listeners, err := proxyListeners(files)
	if err != nil {
		return "", err
	}
	for _, l := range listeners {
		if !slices.Contains(p.kinds, string(l.Kind)) {
			p.kinds = append(p.kinds, string(l.Kind))
		}
	}
	px, err := proxy.Start(ctx, proxy.Launch{Path: p.r.opt.Self[0], Argv: p.r.self("proxy"), NetNS: p.stage.RouterNS(), UID: proxyUID, GID: proxyUID, Listeners: listeners, OnEvent: p.event,
		Config: proxy.Config{
			RunID: p.r.id, Policy: string(document), Secrets: secrets, BrokerKeys: p.canaries.brokerKeys(p.r.policy), ModelKey: modelKey,
			Upstream: proxy.Upstream{RootsPEM: p.worldCA.CertPEM, Resolver: worldResolver}, Selective: p.r.named != nil,
			Breaks: p.r.opt.Breaks.proxy(p, owner),
		}})
	if err != nil {
		return "", err
	}
	p.onClose(px.Stop)
	if px.Ready.PolicyDigest != digest {
		return "", fmt.Errorf("the proxy enforces policy %s and not %s", px.Ready.PolicyDigest, digest)
	}
	p.enforcement = px.Ready.Enforcement
	p.digests[owner] = px.Ready.PolicyDigest
	if owner == boxWork {
		p.lets, p.pushes, p.pages, p.believed = px.Ready.Lets, px.Ready.Pushes, px.Ready.Pages, px.Ready.Believed
		for _, cidr := range px.Ready.Opens {
			if r, err := netip.ParsePrefix(cidr); err == nil {
				p.opens = append(p.opens, r)
			}
		}
	}
	return px.Ready.CAPEM, nil
}

// proxyListeners names what each of the router's sockets speaks.
func proxyListeners(files []procs.NamedFile) ([]proxy.Listener, error) {
	var out []proxy.Listener
	for _, f := range files {
		kind, ok := enforcingSocket(f.Name)
		if !ok {
			return nil, fmt.Errorf("the boundary offers a socket %q that the proxy does not know", f.Name)
		}
		out = append(out, proxy.Listener{Kind: kind, File: f.File})
	}
	return out, nil
}
