//go:build linux

package proxy

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"
)

// spliced opens a tunnel to plain.example through p and does TLS inside it.
func spliced(t *testing.T, p *proxyUnderTest) *tls.Conn {
	t.Helper()
	c := p.tunnel("plain.example:443")
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(p.w.caPEM))
	return tls.Client(c, &tls.Config{RootCAs: roots, ServerName: "plain.example"})
}

// echoWorld is a world whose plain.example sends back what it gets, after a
// pause, and ends when its client has.
func echoWorld(t *testing.T, pause time.Duration) *world {
	t.Helper()
	w, _ := basicWorld(t)
	l := w.listen(allowedIP + ":443")
	cfg := &tls.Config{Certificates: []tls.Certificate{w.certificate("plain.example")}}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				tc := tls.Server(c, cfg)
				if tc.Handshake() != nil {
					return
				}
				time.Sleep(pause)
				_, _ = io.Copy(tc, tc)
				_ = tc.CloseWrite()
			}()
		}
	}()
	return w
}

// What passes a relay comes out as it went in, also when one side takes nothing
// for a while, when both send at once, and when a side has ended its half.
func TestRelayPassesEverything(t *testing.T) {
	w := echoWorld(t, 50*time.Millisecond)
	p := w.proxy(basicPolicy, withToken)
	sent := make([]byte, 8<<20)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range sent {
		sent[i] = byte(r.Uint32())
	}
	var wg sync.WaitGroup
	for range 4 {
		c := spliced(t, p)
		wg.Go(func() {
			go func() {
				_, _ = c.Write(sent)
				_ = c.CloseWrite()
			}()
			time.Sleep(100 * time.Millisecond) // meanwhile buffers fill up
			got, err := io.ReadAll(c)
			if err != nil || !bytes.Equal(got, sent) {
				t.Errorf("%d of %d bytes came back as they were sent: %v", len(got), len(sent), err)
			}
			_ = c.Close()
		})
	}
	wg.Wait()
	for range 4 {
		ev := w.event("closed", func(e Event) bool { return e.Type == EventClosed })
		if ev.Up < int64(len(sent)) || ev.Down < int64(len(sent)) {
			t.Errorf("the record has %d bytes up, %d down", ev.Up, ev.Down)
		}
	}
}

// A relayed connection is cut off by a limit of the policy, by its idle deadline,
// and by the end of the proxy; the others go on.
func TestRelayIsCutOff(t *testing.T) {
	w := echoWorld(t, 0)
	p := w.proxy(basicPolicy+"limits: {upload: 100000}\n", withToken)
	c := spliced(t, p)
	_, _ = c.Write(make([]byte, 200_000))
	if n, err := io.Copy(io.Discard, c); n > 100_000 || isTimeout(err) {
		t.Errorf("%d bytes came back of 100,000 that may go up: %v", n, err)
	}
	w.denied(ReasonLimit)

	w = echoWorld(t, 0)
	p = w.proxy(basicPolicy, withShortTimes)
	c = spliced(t, p)
	if err := c.Handshake(); err != nil {
		t.Fatal(err)
	}
	closesBy(t, "idle", c.NetConn())

	p = w.proxy(basicPolicy, withToken)
	c = spliced(t, p)
	if err := c.Handshake(); err != nil {
		t.Fatal(err)
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	closesBy(t, "the proxy has ended", c.NetConn())
}

// A side that is reset ends both, whoever it is and whatever waits.
func TestRelayReset(t *testing.T) {
	w, _ := basicWorld(t)
	l := w.listen(allowedIP + ":443")
	p := w.proxy(basicPolicy, withToken)
	for _, who := range []string{"client", "host"} {
		t.Run(who, func(t *testing.T) {
			c := p.tunnel("plain.example:443")
			go func() {
				_ = tls.Client(c, &tls.Config{ServerName: "plain.example", InsecureSkipVerify: true}).Handshake()
			}()
			far, err := l.Accept()
			if err != nil {
				t.Fatal(err)
			}
			buf := make([]byte, 64<<10)
			if _, err := far.Read(buf); err != nil {
				t.Fatal(err)
			}
			gone, stays := c, far
			if who == "host" {
				gone, stays = far, c
			}
			// It takes nothing, so that bytes wait in the relay.
			go func() { _, _ = stays.Write(make([]byte, 16<<20)) }()
			time.Sleep(100 * time.Millisecond)
			_ = gone.(*net.TCPConn).SetLinger(0)
			_ = gone.Close()
			_ = stays.SetReadDeadline(time.Now().Add(20 * time.Second))
			if _, err := io.Copy(io.Discard, stays); isTimeout(err) {
				t.Errorf("the other side is left open: %v", err)
			}
			_ = stays.Close()
		})
	}
}

func isTimeout(err error) bool {
	ne, ok := err.(net.Error)
	return ok && ne.Timeout()
}

// Many connections come and go at once, and each gets its own bytes: an index that
// is used again is nobody else's.
func TestRelayKeepsConnectionsApart(t *testing.T) {
	w, _ := basicWorld(t)
	w.host("plain.example", allowedIP, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(rw, r.URL.Path) }))
	p := w.proxy(basicPolicy, withToken)
	var wg sync.WaitGroup
	for g := range 16 {
		wg.Go(func() {
			for i := range 12 {
				client := p.client(false)
				path := fmt.Sprintf("/%d/%d", g, i)
				resp, err := client.Get("https://plain.example" + path)
				if err != nil {
					t.Error(err)
					return
				}
				got, err := io.ReadAll(resp.Body)
				_ = resp.Body.Close()
				if err != nil || string(got) != path {
					t.Errorf("%s got %q, %v", path, got, err)
				}
				client.CloseIdleConnections()
			}
		})
	}
	wg.Wait()
}
