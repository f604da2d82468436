package attempts

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/probes"
	"github.com/wallproof/wallproof/probes/catalog"
	"github.com/wallproof/wallproof/probes/kit"
	"github.com/wallproof/wallproof/probes/nonce"
	"github.com/wallproof/wallproof/probes/open"
	"golang.org/x/net/dns/dnsmessage"
)

// The tests run in a network namespace of their own that has nothing but a
// loopback, so that no attempt can leave the machine whatever it does.
const inNamespace = "WALLPROOF_TEST_NETNS"

func TestMain(m *testing.M) {
	if kit.IsChild(os.Args[1:]) {
		if err := kit.ChildMain(os.Args[1:], os.Stdout); err != nil {
			os.Exit(1)
		}
		return
	}
	if os.Getenv(inNamespace) != "" {
		if err := loopbackUp(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(m.Run())
	}
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Env = append(os.Environ(), inNamespace+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		os.Exit(exit.ExitCode())
	case err != nil:
		fmt.Fprintln(os.Stderr, "start a network namespace (this needs root):", err)
		os.Exit(1)
	}
}

func loopbackUp() error {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return fmt.Errorf("find the loopback: %w", err)
	}
	if err := netlink.LinkSetUp(lo); err != nil {
		return fmt.Errorf("set the loopback up: %w", err)
	}
	return nil
}

// boundary is a stand-in for what is around a sandbox: an HTTP proxy, a SOCKS
// proxy and a resolver, each in both families.
type boundary struct {
	proxy func(c net.Conn) // serves one connection
	socks func(c net.Conn)
	dns   func(query []byte) []byte // nil for no answer
}

// facts starts a boundary and returns what attempts are told of it.
func (b boundary) facts(t *testing.T) probes.Facts {
	t.Helper()
	listen := func(address string, serve func(net.Conn)) string {
		l, err := net.Listen("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				go func() { defer c.Close(); serve(c) }()
			}
		}()
		return l.Addr().String()
	}
	resolve := func(address string) string {
		pc, err := net.ListenPacket("udp", address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { pc.Close() })
		go func() {
			buf := make([]byte, 4096)
			for {
				n, from, err := pc.ReadFrom(buf)
				if err != nil {
					return
				}
				if answer := b.dns(buf[:n]); answer != nil {
					pc.WriteTo(answer, from)
				}
			}
		}()
		return pc.LocalAddr().String()
	}
	allowed := probes.Pair{V4: "198.51.100.7", V6: "2001:db8:7::7"}
	secret := probes.Secret{Scheme: "https", Host: "api.allowed.example", Port: 443, Header: "Authorization", Value: "Bearer placeholder", Placeholder: "placeholder", Addr: allowed}
	pin := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: selfSigned(t).Certificate[0]})
	return probes.Facts{
		Pinned:  string(pin),
		Beside6: "::1", IPv6: true, Self: probes.Pair{V4: "127.0.0.1", V6: "::1"}, Gateway: probes.Pair{V4: "192.0.2.1", V6: "2001:db8::1"}, Bridge: probes.Pair{V4: "203.0.113.2", V6: "2001:db8:ffff::2"},
		Proxy:    probes.Pair{V4: listen("127.0.0.1:0", b.proxy), V6: listen("[::1]:0", b.proxy)},
		SOCKS:    probes.Pair{V4: listen("127.0.0.1:0", b.socks), V6: listen("[::1]:0", b.socks)},
		Resolver: probes.Pair{V4: resolve("127.0.0.1:0"), V6: resolve("[::1]:0")},
		Outside:  probes.Outside{Suffix: "evil.example", V4: probes.DefaultOutside4, V6: probes.DefaultOutside6},
		Names:    probes.Names{Metadata: "imd.evil.example", Private: "lan.evil.example", Loopback: "lo.evil.example", Rebind: "rebind.evil.example"},
		Allowed:  probes.Target{Scheme: "https", Host: "allowed.example", Port: 443, Method: "GET", Addr: allowed, Write: true},
		Crosses: []probes.Cross{{Target: probes.Target{Scheme: "https", Host: "allowed.example", Port: 443, Method: "GET", Addr: allowed, Write: true},
			Header: "Authorization: Bearer placeholder", Placeholder: "placeholder"}},
		Blocked:  probes.Blocked{Host: "blocked.example", Path: "/private/", Method: "DELETE", Port: 8443, Scheme: "http"},
		Injected: secret,
		Broker: probes.Broker{Repo: "https://git.allowed.example/a/b.git", OtherRepo: "https://git.allowed.example/a/c.git", Ref: "refs/heads/agent/x",
			OtherRef: "refs/heads/main", Placeholder: "placeholder", API: "https://git.allowed.example/api/v3"},
		Tenant: probes.Tenant{ControlAPI: "http://192.0.2.9:8080/api",
			Addr: probes.Pair{V4: "192.0.2.6", V6: "2001:db8:0:1::2"}, Port: 7777, Proxy: probes.Pair{V4: "192.0.2.5:3128", V6: "[2001:db8:0:1::1]:3128"},
			Name: "tenant", ID: "tenant-1", Identity: "tenant", Placeholder: "theirs", Host: "api.allowed.example"},
		Model: probes.Model{URL: "http://model.allowed.example", Placeholder: "placeholder"},
	}
}

// networkItems are all variants of the work stage that use the network.
func networkItems(timeoutMs int64) []probes.Item {
	var out []probes.Item
	for _, tech := range catalog.All() {
		for _, v := range tech.Variants {
			if v == catalog.VariantDefault || tech.StageOf(v) != catalog.StageWork || edits(tech.ID) {
				continue
			}
			out = append(out, probes.Item{Technique: tech.ID, Variant: v, TimeoutMs: timeoutMs, Nonce: nonce.New([]byte("k"), "run", tech.ID, v, nonce.PhaseAttack)})
		}
	}
	return out
}

// edits names the techniques that change files of the machine that they run on,
// which is the tester's here.
func edits(id string) bool {
	return id == "NET-HOSTS-EDIT" || id == "NET-RESOLVER-EDIT" || id == "NET-ROUTE-EDIT"
}

// beFirst makes the attempts that are the sandbox's first process's.
func beFirst(t *testing.T, plan *probes.Plan) {
	t.Helper()
	first := probes.First{Outside: plan.Facts.Outside}
	for _, item := range plan.Items {
		if item.Variant == catalog.FirstV4 || item.Variant == catalog.FirstV6 {
			first.Items = append(first.Items, item)
		}
	}
	raw, err := json.Marshal(first)
	if err != nil {
		t.Fatal(err)
	}
	made, err := open.Begin(t.Context(), string(raw))
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = made.Tell(ctx) }()
	t.Cleanup(func() { end(); <-ended })
}

// attack makes every network attempt and returns what each saw.
func attack(t *testing.T, b boundary, timeoutMs int64) map[string]manifest.Observation {
	t.Helper()
	key := strings.Repeat("0a", probes.MinKeyBytes)
	plan := &probes.Plan{Key: key, Facts: b.facts(t), Items: networkItems(timeoutMs), Parallel: probes.MaxParallel}
	var out bytes.Buffer
	w, err := probes.NewWriter(&out, key)
	if err != nil {
		t.Fatal(err)
	}
	beFirst(t, plan)
	r := probes.Runner{Attempts: All()}
	if err := r.Run(context.Background(), plan, w); err != nil {
		t.Fatal(err)
	}
	reader, err := probes.NewReader(&out, key)
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]string{}
	for _, item := range plan.Items {
		names[item.Nonce] = item.Technique + "/" + item.Variant
	}
	got := map[string]manifest.Observation{}
	for {
		o, err := reader.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		got[names[o.Nonce]] = o
	}
	if len(got) != len(plan.Items) {
		t.Errorf("%d results of %d attempts", len(got), len(plan.Items))
	}
	return got
}

// needsRaw reports whether a technique works below TCP and UDP, or wants a link besides
// the loopback.
func needsRaw(name string) bool {
	id, _, _ := strings.Cut(name, "/")
	return id == "LAT-ARP" || id == "TEN-ARP" || id == "LAT-RAW" || id == "LAT-TUNNEL" || id == "LAT-PACKET" || id == "NET-ICMP" || name == "LAT-LINKLOCAL/direct-v6"
}

// A boundary that refuses is reported as one that refuses, by every attempt, and
// tied to its source port where there is one.
func TestRefusalsAreRefusals(t *testing.T) {
	got := attack(t, boundary{
		proxy: func(c net.Conn) {
			answer(c, "HTTP/1.1 403 Forbidden\r\nX-Wallproof-Reason: default-deny\r\nContent-Length: 0\r\n\r\n")
		},
		socks: func(c net.Conn) { greet(c); c.Write([]byte{5, 2, 0, 1, 0, 0, 0, 0, 0, 0}) },
		dns:   func(q []byte) []byte { return respond(q, dnsmessage.RCodeRefused) },
	}, 20000)
	for name, o := range got {
		if needsRaw(name) {
			if o.Sign != manifest.SignRefused && o.Sign != manifest.SignSent && o.Sign != manifest.SignMissing {
				t.Errorf("%s: %s (%s)", name, o.Sign, o.Detail)
			}
			continue
		}
		if o.Sign != manifest.SignRefused {
			t.Errorf("%s: %s (%s %s)", name, o.Sign, o.Errno, o.Detail)
		}
		if len(o.Local) == 0 {
			t.Errorf("%s: no source port", name)
		}
	}
}

// A page with status 200 is no reachability, whoever answers (case B21).
func TestBlockPagesAreNotReached(t *testing.T) {
	certificate := selfSigned(t)
	page := "<html>This site is blocked by policy.</html>"
	ok := fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: %d\r\n\r\n%s", len(page), page)
	got := attack(t, boundary{
		proxy: func(c net.Conn) {
			br := bufio.NewReader(c)
			req, err := http.ReadRequest(br)
			if err != nil {
				io.WriteString(c, "HTTP/1.1 400 Bad Request\r\nX-Wallproof-Reason: bad-request\r\nContent-Length: 0\r\n\r\n")
				return
			}
			if req.Method != http.MethodConnect {
				io.WriteString(c, ok)
				return
			}
			io.WriteString(c, "HTTP/1.1 200 Connection established\r\n\r\n")
			blockPage(&peeked{Conn: c, r: br}, certificate, ok)
		},
		socks: func(c net.Conn) {
			greet(c)
			c.Write([]byte{5, 0, 0, 1, 0, 0, 0, 0, 0, 0})
			blockPage(&peeked{Conn: c, r: bufio.NewReader(c)}, certificate, ok)
		},
		dns: func(q []byte) []byte { return respond(q, dnsmessage.RCodeSuccess) },
	}, 20000)
	for name, o := range got {
		if o.Sign == manifest.SignReached || o.Proof != "" || len(o.Obtained) > 0 {
			t.Errorf("%s: %s, proof %q", name, o.Sign, o.Proof)
		}
	}
}

// The blocked path is asked for at the allowed host in other spellings of its name, too.
func TestBlockedPathAtOtherSpellingsOfTheHost(t *testing.T) {
	certificate := selfSigned(t)
	var mu sync.Mutex
	asked := map[string]bool{}
	b := boundary{
		proxy: func(c net.Conn) {
			c.SetDeadline(time.Now().Add(10 * time.Second))
			br := bufio.NewReader(c)
			outer, err := http.ReadRequest(br)
			if err != nil {
				return
			}
			io.WriteString(c, "HTTP/1.1 200 Connection established\r\n\r\n")
			tc := tls.Server(&peeked{Conn: c, r: br}, &tls.Config{Certificates: []tls.Certificate{certificate}})
			inner, err := http.ReadRequest(bufio.NewReader(tc))
			if err != nil {
				return
			}
			mu.Lock()
			top, _, _ := strings.Cut(strings.TrimPrefix(inner.URL.Path, "/"), "/")
			asked[outer.Host+" "+inner.Host+" /"+top] = true
			mu.Unlock()
			io.WriteString(tc, "HTTP/1.1 403 Forbidden\r\nX-Wallproof-Reason: path\r\nContent-Length: 0\r\n\r\n")
		},
		socks: func(net.Conn) {}, dns: func([]byte) []byte { return nil },
	}
	f := b.facts(t)
	o := All()["NET-PATH"](t.Context(), &probes.Env{Facts: &f, Technique: "NET-PATH", Variant: catalog.ConnectV4, Nonce: nonce.New([]byte("k"), "run", "NET-PATH", catalog.ConnectV4, "")})
	if o.Sign != manifest.SignRefused {
		t.Errorf("%+v", o)
	}
	mu.Lock()
	defer mu.Unlock()
	for _, want := range []string{"allowed.example:443 allowed.example /private", "ALLOWED.EXAMPLE:443 ALLOWED.EXAMPLE /private", "allowed.example.:443 allowed.example. /private"} {
		if !asked[want] {
			t.Errorf("%q was not asked for; asked: %v", want, slices.Sorted(maps.Keys(asked)))
		}
	}
}

// Silence is no refusal (case B20).
func TestSilenceIsNoRefusal(t *testing.T) {
	hang := func(c net.Conn) { io.Copy(io.Discard, c) }
	got := attack(t, boundary{proxy: hang, socks: hang, dns: func([]byte) []byte { return nil }}, 1500)
	for name, o := range got {
		if strings.Contains(name, "/direct-") || strings.Contains(name, "/first-") {
			continue // they don't go through what is silent
		}
		if o.Sign != manifest.SignTimeout {
			t.Errorf("%s: %s (%s)", name, o.Sign, o.Detail)
		}
	}
}

// The heartbeat is alive only when the witness's proof came back.
func TestHeartbeat(t *testing.T) {
	n := nonce.New([]byte("k"), "r", "HB", "before", "")
	proof := nonce.Proof([]byte("k"), n)
	for name, tt := range map[string]struct{ body, sign string }{
		"proof":      {nonce.AnswerPrefix + proof, manifest.SignReached},
		"block page": {"blocked", manifest.SignAnswered},
	} {
		b := boundary{
			proxy: func(c net.Conn) {
				answer(c, fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(tt.body), tt.body))
			},
			socks: func(net.Conn) {}, dns: func([]byte) []byte { return nil },
		}
		f := b.facts(t)
		f.Allowed.Scheme, f.Allowed.Port = "http", 80
		o := heartbeat(context.Background(), &probes.Env{Facts: &f, Nonce: n})
		if o.Sign != tt.sign || (o.Proof == proof) != (tt.sign == manifest.SignReached) {
			t.Errorf("%s: %+v", name, o)
		}
	}
	o := heartbeat(context.Background(), &probes.Env{Facts: &probes.Facts{}, Nonce: n})
	if o.Sign != manifest.SignMissing {
		t.Errorf("without an allowed host: %+v", o)
	}
}

// answer reads the head of a request and answers it.
func answer(c net.Conn, response string) {
	c.SetDeadline(time.Now().Add(10 * time.Second))
	br := bufio.NewReader(c)
	for {
		line, err := br.ReadString('\n')
		if err != nil || strings.TrimSpace(line) == "" {
			break
		}
	}
	io.WriteString(c, response)
	c.(*net.TCPConn).CloseWrite()
	io.Copy(io.Discard, br)
}

// blockPage answers whatever is asked in TLS or in clear.
func blockPage(c *peeked, certificate tls.Certificate, page string) {
	c.SetDeadline(time.Now().Add(10 * time.Second))
	head, err := c.r.Peek(1)
	if err != nil {
		return
	}
	if head[0] != 22 {
		io.WriteString(c, page)
		return
	}
	tc := tls.Server(c, &tls.Config{Certificates: []tls.Certificate{certificate}})
	if tc.Handshake() == nil {
		tc.Read(make([]byte, 4096))
		io.WriteString(tc, page)
		tc.CloseWrite()
	}
	io.Copy(io.Discard, c)
}

// peeked is a connection of which some bytes were read ahead.
type peeked struct {
	net.Conn
	r *bufio.Reader
}

func (p *peeked) Read(b []byte) (int, error) { return p.r.Read(b) }

// greet does the first half of SOCKS5 and reads the request.
func greet(c net.Conn) {
	c.SetDeadline(time.Now().Add(10 * time.Second))
	io.ReadFull(c, make([]byte, 3))
	c.Write([]byte{5, 0})
	c.Read(make([]byte, 512))
}

// respond answers a query with a code and no records.
func respond(query []byte, code dnsmessage.RCode) []byte {
	var m dnsmessage.Message
	if m.Unpack(query) != nil {
		return nil
	}
	m.Header.Response, m.Header.RCode = true, code
	out, err := m.Pack()
	if err != nil {
		return nil
	}
	return out
}

func selfSigned(t *testing.T) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{"*"}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}
