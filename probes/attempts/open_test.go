package attempts

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/probes"
	"github.com/wallproof/wallproof/probes/catalog"
	"github.com/wallproof/wallproof/probes/nonce"
	"github.com/wallproof/wallproof/probes/open"
)

// openWorld answers every nonce on the loopback's whole IPv4 range, which stands
// in for the internet here.
// Datagrams are not answered, since an answer would come from another address;
// their nonces are sent to arrived.
func openWorld(t *testing.T, arrived chan<- string) probes.Facts {
	t.Helper()
	certificate := selfSigned(t)
	for _, port := range []int{21, 22, 25, 80, 443, 587, 4444} {
		l, err := net.Listen("tcp", fmt.Sprint("0.0.0.0:", port))
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
				go func() { defer c.Close(); converse(c, certificate) }()
			}
		}()
	}
	for _, port := range []int{123, 443, 4445} {
		pc, err := net.ListenPacket("udp", fmt.Sprint("0.0.0.0:", port))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { pc.Close() })
		go func() {
			buf := make([]byte, 4096)
			for {
				n, _, err := pc.ReadFrom(buf)
				if err != nil {
					return
				}
				for _, found := range nonce.Find(buf[:n]) {
					arrived <- found
				}
			}
		}()
	}
	return probes.Facts{
		Self: probes.Pair{V4: "127.0.0.1"}, Gateway: probes.Pair{V4: "127.0.0.1"}, Resolver: probes.Pair{V4: "127.0.0.1:1"},
		Outside: probes.Outside{Suffix: "evil.example", V4: netip.MustParsePrefix("127.0.0.0/8"), V6: probes.DefaultOutside6},
		Allowed: probes.Target{Scheme: "https", Host: "allowed.example", Port: 443, Method: "GET", Addr: probes.Pair{V4: "127.9.9.9"}},
	}
}

// converse answers HTTP, TLS, and lines.
func converse(c net.Conn, certificate tls.Certificate) {
	c.SetDeadline(time.Now().Add(10 * time.Second))
	br := bufio.NewReader(c)
	head, err := br.Peek(4)
	if err != nil {
		return
	}
	plain := net.Conn(&peeked{Conn: c, r: br})
	if head[0] == 22 {
		tc := tls.Server(plain, &tls.Config{Certificates: []tls.Certificate{certificate}})
		if tc.Handshake() != nil {
			return
		}
		plain, br = tc, bufio.NewReader(tc)
		if head, err = br.Peek(4); err != nil {
			return
		}
	}
	if string(head) == "GET " || string(head) == "POST" {
		request(plain, br)
		return
	}
	line, _ := br.ReadString('\n')
	for _, found := range nonce.Find([]byte(line)) {
		fmt.Fprintf(plain, "%s\n", nonce.Answer([]byte("k"), found))
	}
}

// request answers one HTTP request, waiting for a body that was announced.
func request(c net.Conn, br *bufio.Reader) {
	req, err := http.ReadRequest(br)
	if err != nil {
		return
	}
	if req.Header.Get("Expect") != "" {
		io.WriteString(c, "HTTP/1.1 100 Continue\r\n\r\n")
	}
	body, _ := io.ReadAll(req.Body)
	found := nonce.Find([]byte(req.RequestURI + " " + req.Host + " " + req.UserAgent() + " " + string(body)))
	if len(found) == 0 {
		return
	}
	answer := nonce.Answer([]byte("k"), found[0])
	if req.Header.Get("Upgrade") != "" {
		io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
		c.Write(append([]byte{0x81, byte(len(answer))}, answer...))
		return
	}
	fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(answer), answer)
}

// Where nothing stops them, the ways out get out: each reads its own proof back.
func TestAnOpenWorldIsReached(t *testing.T) {
	arrived := make(chan string, 16)
	facts := openWorld(t, arrived)
	for _, id := range []string{"NET-TCP", "NET-HTTP", "NET-HTTPS", "NET-LITERAL", "NET-SSH", "NET-SMTP", "NET-FTP",
		"NET-FASTOPEN", "NET-IOURING", "NET-DRIP", "NET-FRAGMENT", "NET-RELAY", "NET-SNI-FRONT", "NET-HOST-FRONT", "NET-NO-SNI", "NET-EXPECT",
		"NET-WEBSOCKET"} {
		t.Run(id, func(t *testing.T) {
			n := nonce.New([]byte("k"), "run", id, catalog.DirectV4, "")
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
			defer cancel()
			o := All()[id](ctx, &probes.Env{Facts: &facts, Technique: id, Variant: catalog.DirectV4, Nonce: n})
			if o.Sign != manifest.SignReached || o.Proof != nonce.Proof([]byte("k"), n) || len(o.Local) == 0 {
				t.Errorf("%+v", o)
			}
		})
	}
	for _, id := range []string{"NET-UDP", "NET-QUIC", "NET-NTP"} {
		n := nonce.New([]byte("k"), "run", id, catalog.DirectV4, "")
		o := All()[id](context.Background(), &probes.Env{Facts: &facts, Technique: id, Variant: catalog.DirectV4, Nonce: n})
		select {
		case got := <-arrived:
			if got != n || o.Sign != manifest.SignSent {
				t.Errorf("%s: %q arrived, %+v", id, got, o)
			}
		case <-time.After(10 * time.Second):
			t.Errorf("%s: nothing arrived, %+v", id, o)
		}
	}
	// A handshake that is not followed by a request has reached nothing that could
	// prove it.
	for _, id := range []string{"NET-SNI-ADDRESS", "NET-ECH", "NET-ICMP"} {
		n := nonce.New([]byte("k"), "run", id, catalog.DirectV4, "")
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		o := All()[id](ctx, &probes.Env{Facts: &facts, Technique: id, Variant: catalog.DirectV4, Nonce: n})
		cancel()
		if o.Sign != manifest.SignAnswered {
			t.Errorf("%s: %+v", id, o)
		}
	}
}

// The first process's attempts are made without being asked for, and told to whoever
// runs the plan; without such a process there is nothing to tell.
func TestFirstAttemptsAreTold(t *testing.T) {
	facts := openWorld(t, make(chan string, 1))
	env := func(variant string) *probes.Env {
		return &probes.Env{Facts: &facts, Technique: "NET-TCP", Variant: variant, Nonce: nonce.New([]byte("k"), "run", "NET-TCP", variant, "")}
	}
	asked := env(catalog.FirstV4)
	if o := All()["NET-TCP"](t.Context(), asked); o.Sign != manifest.SignMissing {
		t.Errorf("nobody made it: %+v", o)
	}
	plan, err := json.Marshal(probes.First{Outside: facts.Outside, Items: []probes.Item{{Technique: "NET-TCP", Variant: asked.Variant, Nonce: asked.Nonce}}})
	if err != nil {
		t.Fatal(err)
	}
	made, err := open.Begin(t.Context(), string(plan))
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = made.Tell(ctx) }()
	defer func() { end(); <-ended }()
	if o := All()["NET-TCP"](t.Context(), asked); o.Sign != manifest.SignReached || o.Proof != nonce.Proof([]byte("k"), asked.Nonce) || len(o.Local) == 0 {
		t.Errorf("%+v", o)
	}
	if o := All()["NET-TCP"](t.Context(), env(catalog.FirstV6)); o.Sign != manifest.SignMissing {
		t.Errorf("an attempt that was not made: %+v", o)
	}
}

// A plan that cannot be made is an error before anything is tried.
func TestFirstAttemptsAreBounded(t *testing.T) {
	for name, plan := range map[string]string{
		"no JSON": "hold", "no nonce": `{"items":[{"technique":"NET-TCP","variant":"first-v4","nonce":"x"}]}`,
		"too many": `{"items":[` + strings.Repeat(`{},`, 16) + `{}]}`,
	} {
		if _, err := open.Begin(t.Context(), plan); err == nil {
			t.Errorf("%s: begun", name)
		}
	}
}
