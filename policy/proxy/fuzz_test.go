package proxy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"github.com/wallproof/wallproof/policy/host"
)

// FuzzAuthority: what is accepted as the target of a CONNECT or as a Host is one
// host and one port, and written normally it is read as the same.
func FuzzAuthority(f *testing.F) {
	for _, s := range []string{
		"a.example:443", "A.EXAMPLE.:443", "[::1]:443", "[::ffff:10.0.0.1]:80", "1.2.3.4:1", "0x7f.1:80", "a:443:443",
		"[a.example]:443", "a.example:0443", "a@b:443", "a#b:443", "bücher.example:443", "[fe80::1%25eth0]:443", ":443", "a:", "[]:1",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, err := parseAuthority(s, 0)
		if err != nil {
			return
		}
		if got.host.IsZero() || got.port == 0 {
			t.Fatalf("%q: %+v", s, got)
		}
		if strings.ContainsAny(s, "@#/\\%\x00 \t\r\n") {
			t.Fatalf("%q was accepted", s)
		}
		for _, scheme := range []string{"http", "https"} {
			again, err := parseAuthority(got.authority(scheme), defaultPort(scheme))
			if err != nil || again != got {
				t.Fatalf("%q: %+v, written %q, read %+v %v", s, got, got.authority(scheme), again, err)
			}
		}
		if again, err := parseAuthority(got.String(), 0); err != nil || again != got {
			t.Fatalf("%q: %q is read as %+v %v", s, got.String(), again, err)
		}
	})
}

// FuzzSOCKS: what is accepted names one host that a policy can judge, and a
// refusal leaves none.
func FuzzSOCKS(f *testing.F) {
	f.Add([]byte("\x05\x01\x00\x03\x0dplain.example\x01\xbb"))
	f.Add([]byte("\x05\x01\x00\x01\x7f\x00\x00\x01\x00\x50"))
	f.Add([]byte("\x05\x01\x00\x04\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\xff\xff\x0a\x00\x00\x01\x00\x50"))
	f.Add([]byte("\x05\x01\x00\x03\x1devil.example\x00.plain.example\x00\x01\xbb"))
	f.Fuzz(func(t *testing.T, in []byte) {
		_, got, _, err := readSOCKS(bytes.NewReader(in), Breaks{})
		if err != nil {
			if got != (target{}) {
				t.Fatal("a refusal leaves a target")
			}
			return
		}
		if again, err := parseAuthority(got.String(), 0); err != nil || again != got {
			t.Fatalf("% x: %q is read as %+v %v", in, got.String(), again, err)
		}
	})
}

func FuzzDotSegments(f *testing.F) {
	for _, s := range []string{"/a/../b", "/a/%2e%2e/b", "/./a/.", "/..", "/a/..%2fb", "/a//../b", "*", "/%2e", "/a/.b/..c"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if !strings.HasPrefix(s, "/") {
			return
		}
		got := removeDotSegments(s)
		if !strings.HasPrefix(got, "/") {
			t.Fatalf("%q became %q", s, got)
		}
		if again := removeDotSegments(got); again != got {
			t.Fatalf("%q: %q, then %q", s, got, again)
		}
		for _, seg := range strings.Split(got, "/") {
			if dots := strings.ReplaceAll(strings.ToLower(seg), "%2e", "."); dots == "." || dots == ".." {
				t.Fatalf("%q: %q holds a dot segment", s, got)
			}
		}
	})
}

// TestNothingDeniedIsEverDialled sends random requests over every way in, with
// names and addresses of every kind, and checks each address that was dialled
// and each name that was asked against the policy itself.
func TestNothingDeniedIsEverDialled(t *testing.T) {
	const doc = `version: 1
name: test
mode: allowlist
allow:
  - host: plain.example
    ports: [80, 443]
  - host: "*.wild.example"
  - host: token.example
    ports: [80, 443]
    methods: [GET]
  - cidr: 10.1.0.0/16
    ports: [443]
block:
  - host: bad.wild.example
  - cidr: 10.1.2.0/24
secrets:
  - name: TOKEN
    from: {env: TOKEN}
    inject: [{host: token.example, as: bearer}]
`
	w := newWorld(t)
	names := []string{
		"plain.example", "PLAIN.example.", "token.example", "a.wild.example", "bad.wild.example", "x.bad.wild.example", "wild.example",
		"evil.example", "plain.example.evil.example", "notplain.example", "localhost", "metadata.google.internal",
		"10.1.0.5", "10.1.2.5", "10.2.0.1", "169.254.169.254", "127.0.0.1", "2130706433", "0x7f000001", "[::1]", "[::ffff:10.1.0.5]", "93.184.216.34", "plain.example:80:443",
	}
	addrs := []string{"93.184.216.34", "10.1.0.5", "10.1.2.5", "10.2.0.1", "169.254.169.254", "127.0.0.1", "fd00:ec2::254", "2606:2800:220:1::1", "::ffff:169.254.169.254"}
	rng := rand.New(rand.NewPCG(9, 10))
	var mu sync.Mutex
	var bad []string
	p := w.proxy(doc, func(c *Config) {
		withToken(c)
		c.Limits.HeadTimeoutMs = 2000
		c.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			if network == "udp" {
				return w.dial(ctx, network, address)
			}
			mu.Lock()
			defer mu.Unlock()
			bad = append(bad, address)
			return nil, errors.New("nobody there")
		}
	})
	for _, n := range []string{"plain.example", "token.example", "a.wild.example", "bad.wild.example", "evil.example", "wild.example"} {
		var as []string
		for range 1 + rng.IntN(3) {
			as = append(as, addrs[rng.IntN(len(addrs))])
		}
		w.name(n, as...)
	}
	pick := func() string { return names[rng.IntN(len(names))] }
	for range 400 {
		outer, inner := pick(), pick()
		port := []string{"80", "443", "22", "8080"}[rng.IntN(4)]
		switch rng.IntN(5) {
		case 0:
			p.send(fmt.Sprintf("GET http://%s:%s/ HTTP/1.1\r\nHost: %s:%s\r\nConnection: close\r\n\r\n", outer, port, outer, port))
		case 1:
			p.send(fmt.Sprintf("GET http://%s/ HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", outer, inner))
		case 2:
			c := p.raw(p.explicit)
			if status, _ := ask(t, c, fmt.Sprintf("CONNECT %s:%s HTTP/1.1\r\nHost: %s:%s\r\n\r\n", outer, port, outer, port)); status == 200 {
				if tc, err := p.handshake(c, strings.Trim(inner, "[]"), "http/1.1"); err == nil {
					ask(t, tc, fmt.Sprintf("GET / HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", inner))
				}
			}
		case 3:
			if a, err := netip.ParseAddr(addrs[rng.IntN(len(addrs))]); err == nil {
				c := p.redirected(netip.AddrPortFrom(a, 443).String())
				if tc, err := p.handshake(c, strings.Trim(outer, "[]"), "http/1.1"); err == nil {
					ask(t, tc, fmt.Sprintf("GET / HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", inner))
				}
			}
		case 4:
			c := p.raw(p.sock)
			fmt.Fprintf(c, "\x05\x01\x00\x05\x01\x00\x03%c%s\x01\xbb", len(outer), outer)
			_, _ = p.handshake(c, strings.Trim(inner, "[]"))
		}
	}
	ev := p.rules.Load().ev
	for _, name := range w.questions() {
		h, err := host.Parse(name)
		if err != nil || !ev.Name(h, 0).Allowed() {
			t.Errorf("%s was looked up", name)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if len(bad) == 0 {
		t.Error("nothing was dialled at all")
	}
	for _, address := range bad {
		ap := netip.MustParseAddrPort(address)
		allowed := ev.Name(host.FromAddr(ap.Addr()), ap.Port()).Allowed()
		for _, n := range []string{"plain.example", "token.example", "a.wild.example"} {
			h, _ := host.Parse(n)
			for _, a := range w.addresses(n) {
				allowed = allowed || a.Unmap() == ap.Addr() && ev.Name(h, ap.Port()).Allowed() && ev.Address(h, ap.Port(), a).Allowed()
			}
		}
		if !allowed {
			t.Errorf("%s was dialled", address)
		}
	}
}
