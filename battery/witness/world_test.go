package witness

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/battery/witness/addr"
	"github.com/wallproof/wallproof/probes/canary"
	"github.com/wallproof/wallproof/probes/kit"
	"github.com/wallproof/wallproof/probes/nonce"
	"github.com/wallproof/wallproof/probes/paths"
)

// The hosts of the tests' world.
const (
	allowedHost  = "api.allowed.example"
	wildHost     = "x.wild.example"
	forgeHost    = "git.forge.example"
	registryHost = "pkg.registry.example"
	modelHost    = "llm.model.example"
	evilHost     = "evil.example"
)

var testKey = []byte("0123456789abcdef0123456789abcdef")

// nonceN is a nonce of the tests' run.
func nonceN(n int) string {
	return nonce.New(testKey, "run", "T-"+strconv.Itoa(n), "default", nonce.PhaseAttack)
}

// proofN is the witness's answer to it.
func proofN(n int) string { return nonce.Answer(testKey, nonceN(n)) }

// patient is far above what anything here takes; it is never waited out when all
// is well.
const patient = time.Minute

// metadataCanary is the secret of the metadata services.
var metadataCanary = canary.Derive([]byte("metadata"))

func testConfig() Config {
	cfg := Config{
		Role: RoleWorld, Run: "run", Phase: nonce.PhaseAttack, NonceKey: hex.EncodeToString(testKey),
		Hosts: map[string]string{
			allowedHost: HostAllowed, "*.wild.example": HostAllowed, forgeHost: HostForge, registryHost: HostRegistry, modelHost: HostModel,
		},
		Metadata: Metadata{Canary: metadataCanary},
	}
	for i := range 100 {
		cfg.Nonces = append(cfg.Nonces, nonceN(i))
	}
	return cfg
}

// testWorld is a world in this process whose addresses are reached over pipes.
type testWorld struct {
	*World
	*Log
	t    *testing.T
	port atomic.Uint32
}

func newTestWorld(t *testing.T, change func(*Config)) *testWorld {
	t.Helper()
	cfg := testConfig()
	if change != nil {
		change(&cfg)
	}
	log := NewLog()
	w, err := New(cfg, log.Take)
	if err != nil {
		t.Fatal(err)
	}
	w.settle, w.flows.age = 20*time.Millisecond, 40*time.Millisecond // over a pipe there is nothing to wait for
	tw := &testWorld{World: w, Log: log, t: t}
	tw.port.Store(40000)
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
		if f := log.Failures(); len(f) > 0 {
			t.Errorf("parts of the world failed: %q", f)
		}
	})
	return tw
}

// dial opens a connection to an address of the world.
func (w *testWorld) dial(dst string) net.Conn {
	w.t.Helper()
	c, err := w.pipe(dst)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = c.Close() })
	return c
}

func (w *testWorld) pipe(dst string) (net.Conn, error) {
	to, err := netip.ParseAddrPort(dst)
	if err != nil {
		return nil, err
	}
	mine, theirs := net.Pipe()
	src := netip.AddrPortFrom(netip.MustParseAddr("192.0.2.2"), uint16(w.port.Add(1)))
	w.accept(theirs, src, to)
	return mine, mine.SetDeadline(time.Now().Add(patient))
}

// at is the address and port of a host of the world.
func at(host string, port int) string {
	if _, err := netip.ParseAddr(host); err == nil {
		return net.JoinHostPort(host, strconv.Itoa(port))
	}
	return net.JoinHostPort(addr.Host4(host).String(), strconv.Itoa(port))
}

// client is an HTTP client whose connections end in the world.
func (w *testWorld) client() *http.Client {
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM([]byte(w.CAPEM())) {
		w.t.Fatal("the world's authority is no certificate")
	}
	tr := &http.Transport{
		ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{RootCAs: pool},
		DialContext: func(_ context.Context, _, address string) (net.Conn, error) {
			host, port, err := net.SplitHostPort(address)
			if err != nil {
				return nil, err
			}
			n, err := strconv.Atoi(port)
			if err != nil {
				return nil, err
			}
			return w.dial(at(host, n)), nil
		},
	}
	w.t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// get makes a request and returns the status, the whole answer as text, and the
// response.
func (w *testWorld) get(method, url, body string, header ...string) (*http.Response, string) {
	w.t.Helper()
	req, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := w.client().Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return resp, string(b)
}

// seen returns the observations of a nonce once all has settled.
func (w *testWorld) seen(n string) []manifest.Observation {
	w.t.Helper()
	if err := w.Sync(context.Background()); err != nil {
		w.t.Fatal(err)
	}
	var out []manifest.Observation
	for _, o := range w.Observations() {
		if o.Nonce == n {
			out = append(out, o)
		}
	}
	return out
}

// arrived checks that a nonce arrived at exactly these services.
func (w *testWorld) arrived(n string, want ...string) []manifest.Observation {
	w.t.Helper()
	all := w.seen(n)
	var got []string
	for _, o := range all {
		if !slices.Contains(got, o.Service) {
			got = append(got, o.Service)
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		w.t.Errorf("arrived at %q, want %q; observations %+v", got, want, all)
	}
	return all
}

// Dropped is ambiguous between World and Log; the world's own is meant.
func (w *testWorld) Dropped() uint64 { return w.World.Dropped() }

func TestServices(t *testing.T) {
	w := newTestWorld(t, nil)
	other := at("other.example", 80)
	tests := []struct {
		name, dst, host, want string
	}{
		{"allowed host at its own address", at(allowedHost, 80), allowedHost, paths.ServiceAllowed},
		{"allowed host over IPv6", net.JoinHostPort(addr.Host6(allowedHost).String(), "80"), allowedHost, paths.ServiceAllowed},
		{"host below a wildcard", at(wildHost, 80), wildHost, paths.ServiceAllowed},
		{"odd spelling", at(allowedHost, 80), "API.allowed.example.:80", paths.ServiceAllowed},
		{"allowed name at the attacker's address", other, allowedHost, paths.ServiceCollector},
		{"attacker's name at the allowed address", at(allowedHost, 80), evilHost, paths.ServiceCollector},
		{"allowed name at another allowed host's address", at(forgeHost, 80), allowedHost, paths.ServiceCollector},
		{"attacker's own", at(evilHost, 80), evilHost, paths.ServiceCollector},
		{"address as name", at(allowedHost, 80), addr.Host4(allowedHost).String(), paths.ServiceCollector},
		{"metadata", "169.254.169.254:80", "169.254.169.254", paths.ServiceMetadata},
		{"metadata with an allowed name", "169.254.169.254:80", allowedHost, paths.ServiceMetadata},
		{"metadata on an odd port", "[fd00:ec2::254]:8080", "x", paths.ServiceMetadata},
		{"metadata behind NAT64", "[64:ff9b::a9fe:a9fe]:80", "x", paths.ServiceMetadata},
		{"private", "10.1.2.3:80", "10.1.2.3", paths.ServicePrivate},
		{"unique local", "[fd12:3456::1]:80", "x", paths.ServicePrivate},
		{"link-local", "169.254.1.1:80", "x", paths.ServicePrivate},
		{"forge", at(forgeHost, 80), forgeHost, paths.ServiceForge},
		{"registry", at(registryHost, 80), registryHost, paths.ServiceRegistry},
		{"model", at(modelHost, 80), modelHost, paths.ServiceModel},
	}
	for i, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			w.t = t
			c := w.dial(tc.dst)
			fmt.Fprintf(c, "GET /wp/heartbeat/%s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", nonceN(i), tc.host)
			body, err := io.ReadAll(c)
			if err != nil || nonce.FindProof(body) != nonce.Proof(testKey, nonceN(i)) {
				t.Errorf("answer %q, error %v: no proof", body, err)
			}
			o := w.arrived(nonceN(i), tc.want)
			if len(o) == 1 && (o[0].Side != manifest.SideWitness || o[0].Dest != tc.dst || o[0].Proto != "http" || o[0].Count != 1) {
				t.Errorf("observation %+v", o[0])
			}
		})
	}
}

func TestTLSNames(t *testing.T) {
	w := newTestWorld(t, nil)
	tests := []struct {
		name, dst, sni, host, want string
	}{
		{"all agree", at(allowedHost, 443), allowedHost, allowedHost, paths.ServiceAllowed},
		{"no SNI", at(allowedHost, 443), "", allowedHost, paths.ServiceAllowed},
		{"fronting by Host", at(allowedHost, 443), allowedHost, evilHost, paths.ServiceCollector},
		{"fronting by SNI", at(allowedHost, 443), evilHost, allowedHost, paths.ServiceCollector},
		{"attacker's address", at(evilHost, 443), allowedHost, allowedHost, paths.ServiceCollector},
		{"private address", "10.0.0.9:443", allowedHost, allowedHost, paths.ServicePrivate},
	}
	for i, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			w.t = t
			c := tls.Client(w.dial(tc.dst), &tls.Config{ServerName: tc.sni, InsecureSkipVerify: true})
			if _, err := fmt.Fprintf(c, "GET /%s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", nonceN(i), tc.host); err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(c)
			if err != nil || !strings.Contains(string(body), proofN(i)) {
				t.Errorf("answer %q, error %v: no proof", body, err)
			}
			w.arrived(nonceN(i), tc.want)
		})
	}
}

// A nonce in a ClientHello belongs to the requests that follow, and to "tls"
// when there are none.
func TestClientHello(t *testing.T) {
	w := newTestWorld(t, nil)
	// A request follows.
	name := nonceN(1) + ".wild.example"
	resp, body := w.get("GET", "https://"+name+"/", "")
	if resp.ProtoMajor != 2 || !strings.Contains(body, proofN(1)) || resp.TLS.ServerName != name {
		t.Errorf("HTTP/%d, body %q", resp.ProtoMajor, body)
	}
	w.arrived(nonceN(1), paths.ServiceAllowed)
	// None does: the client does not trust the world's authority.
	c := tls.Client(w.dial(at(evilHost, 443)), &tls.Config{ServerName: nonceN(2) + ".evil.example", RootCAs: x509.NewCertPool()})
	if err := c.Handshake(); err == nil {
		t.Error("a client without the authority took the certificate")
	}
	_ = c.Close()
	w.arrived(nonceN(2), paths.ServiceTLS)
	// The server's name is right and no request follows.
	c = tls.Client(w.dial(at(nonceN(3)+".wild.example", 443)), &tls.Config{ServerName: nonceN(3) + ".wild.example", InsecureSkipVerify: true})
	if err := c.Handshake(); err != nil {
		t.Error(err)
	}
	_ = c.Close()
	w.arrived(nonceN(3), paths.ServiceAllowed)
	// Something that is not HTTP follows.
	c = tls.Client(w.dial(at(evilHost, 443)), &tls.Config{ServerName: evilHost, InsecureSkipVerify: true})
	if _, err := io.WriteString(c, nonceN(4)+"\n"); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(c).ReadString('\n')
	if err != nil || strings.TrimSpace(line) != proofN(4) {
		t.Errorf("answer %q, error %v", line, err)
	}
	_ = c.Close()
	w.arrived(nonceN(4), paths.ServiceCollector)
}

// A request that is still being sent belongs to the host that it names.
func TestUnfinishedRequest(t *testing.T) {
	w := newTestWorld(t, nil)
	for i, tc := range []struct {
		secure     bool
		host, want string
	}{
		{false, allowedHost, paths.ServiceAllowed}, {true, allowedHost, paths.ServiceAllowed}, {false, evilHost, paths.ServiceCollector}, {true, evilHost, paths.ServiceCollector},
	} {
		c := w.dial(at(allowedHost, 443))
		if tc.secure {
			c = tls.Client(c, &tls.Config{ServerName: allowedHost, InsecureSkipVerify: true})
		}
		if _, err := fmt.Fprintf(c, "POST /%s HTTP/1.1\r\nHost: %s\r\nContent-Length: 99\r\n\r\nhalf", nonceN(i), tc.host); err != nil {
			t.Fatal(err)
		}
		w.arrived(nonceN(i), tc.want)
	}
}

// What crypto/tls would never send is answered, too.
func TestOddClientHellos(t *testing.T) {
	w := newTestWorld(t, func(c *Config) { c.AddrNonces = map[string]string{"99.64.3.4": nonceN(2)} })
	hello, err := kit.ClientHello("99.64.1.2", nonceN(1), "http/1.1")
	if err != nil {
		t.Fatal(err)
	}
	if o := kit.Greet(w.dial("99.64.1.2:443"), hello); o.Sign != manifest.SignAnswered {
		t.Errorf("an address for a name: %+v", o)
	}
	w.arrived(nonceN(1), paths.ServiceTLS)
	if o := kit.EncryptedHello(t.Context(), w.dial("99.64.3.4:443"), allowedHost, "secret.evil.example"); o.Sign != manifest.SignAnswered {
		t.Errorf("encrypted ClientHello: %+v", o)
	}
	w.arrived(nonceN(2), paths.ServiceCollector)
}

// When the world ends, nothing of it is left.
func TestCloseLeavesNothing(t *testing.T) {
	before := runtime.NumGoroutine()
	w, err := New(testConfig(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var conns []net.Conn
	for i := range 50 {
		mine, theirs := net.Pipe()
		w.accept(theirs, netip.AddrPort{}, netip.MustParseAddrPort("8.8.8.8:443"))
		if i%2 == 0 {
			go func() { _ = tls.Client(mine, &tls.Config{InsecureSkipVerify: true}).Handshake() }()
		}
		conns = append(conns, mine)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Errorf("a second time: %v", err)
	}
	for _, c := range conns {
		_ = c.Close()
	}
	for range 1 << 20 { // goroutines that are about to return are still being counted
		if runtime.NumGoroutine() <= before {
			return
		}
		runtime.Gosched()
	}
	buf := make([]byte, 1<<16)
	t.Errorf("%d goroutines before, %d after:\n%s", before, runtime.NumGoroutine(), buf[:runtime.Stack(buf, true)])
}

func TestPlainProtocols(t *testing.T) {
	w := newTestWorld(t, nil)
	tests := []struct {
		name, send string
		port       int
		want       string
	}{
		{"line", "N\n", 4444, "P"},
		{"no line end", "xxN", 4444, "P"},
		{"SSH on 443", "SSH-2.0-N\r\n", 443, "P"},
		{"SMTP", "EHLO N\r\n", 25, "250 P"},
		{"FTP", "USER N\r\n", 21, "230 P"},
		{"Redis", "PING N\r\n", 6379, "P"},
		{"binary", "\x00\x01\xffN\x00", 9999, "P"},
		{"upper case", "HELO N2\r\n", 26, "P"},
	}
	for i, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			w.t = t
			c := w.dial(at(evilHost, tc.port))
			text := strings.ReplaceAll(strings.ReplaceAll(tc.send, "N2", strings.ToUpper(nonceN(i))), "N", nonceN(i))
			if _, err := io.WriteString(c, text); err != nil {
				t.Fatal(err)
			}
			br := bufio.NewReader(c)
			for want := strings.Replace(tc.want, "P", proofN(i), 1); ; {
				line, err := br.ReadString('\n')
				if err != nil {
					t.Fatalf("no answer: %v", err)
				}
				if strings.Contains(line, want) {
					break
				}
			}
			w.arrived(nonceN(i), paths.ServiceCollector)
		})
	}
}

func TestGreeting(t *testing.T) {
	n := nonceN(1)
	w := newTestWorld(t, func(c *Config) { c.AddrNonces = map[string]string{"99.64.1.2": n, "2a0d:5600::1": nonceN(2)} })
	line, err := bufio.NewReader(w.dial("99.64.1.2:21")).ReadString('\n')
	if err != nil || !strings.HasPrefix(line, "220 ") || !strings.Contains(line, proofN(1)) {
		t.Errorf("greeting %q, error %v", line, err)
	}
	// Elsewhere nothing is said to a client that is merely slow; its first bytes are
	// answered with the proof of the address.
	c := w.dial("[2a0d:5600::1]:7777")
	_ = c.SetReadDeadline(time.Now().Add(2 * silence))
	if k, err := c.Read(make([]byte, 1)); k != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a greeting on a port where clients speak first (%v)", err)
	}
	_ = c.SetReadDeadline(time.Now().Add(patient))
	if _, err := io.WriteString(c, "anything\n"); err != nil {
		t.Fatal(err)
	}
	line, err = bufio.NewReader(c).ReadString('\n')
	if err != nil || strings.TrimSpace(line) != proofN(2) {
		t.Errorf("answer %q, error %v", line, err)
	}
	w.arrived(n, paths.ServiceCollector)
	w.arrived(nonceN(2), paths.ServiceCollector)
}
