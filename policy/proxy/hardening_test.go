package proxy

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// withShortTimes makes deadlines short enough to be waited for.
func withShortTimes(cfg *Config) {
	withToken(cfg)
	cfg.Limits.HeadTimeoutMs, cfg.Limits.IdleTimeoutMs, cfg.Limits.DialTimeoutMs = 300, 600, 2000
}

// closesBy waits until the proxy closes c; the connection's own deadline bounds
// the wait.
func closesBy(t *testing.T, name string, c net.Conn) {
	t.Helper()
	_, err := io.Copy(io.Discard, c)
	if ne, ok := err.(net.Error); ok && ne.Timeout() {
		t.Errorf("%s: still open", name)
	}
}

func TestSlowClientsAreClosed(t *testing.T) {
	w, _ := basicWorld(t)
	p := w.proxy(basicPolicy, withShortTimes)
	hello := []byte{22, 3, 1, 2, 0, 1}
	trickle := func(c net.Conn, text string) {
		go func() {
			for i := 0; ; i++ {
				if _, err := c.Write([]byte{text[i%len(text)]}); err != nil {
					return
				}
				if i > len(text)-2 {
					i = len(text) - 2 // the last character over and over
				}
				pauseFor(20 * time.Millisecond)
			}
		}()
	}
	head := p.raw(p.explicit)
	trickle(head, "GET http://plain.example/ HTTP/1.1\r\nX: aa")
	closesBy(t, "trickled head", head)
	clientHello := p.tunnel("plain.example:443")
	trickle(clientHello, string(hello))
	closesBy(t, "trickled ClientHello", clientHello)
	closesBy(t, "silent after CONNECT", p.tunnel("plain.example:443"))
	closesBy(t, "silent at the explicit listener", p.raw(p.explicit))
	closesBy(t, "silent at the SOCKS listener", p.raw(p.sock))
	closesBy(t, "silent transparent", p.redirected(allowedIP+":443"))
	tc, err := p.handshake(p.tunnel("plain.example:443"), "plain.example")
	if err != nil {
		t.Fatal(err)
	}
	closesBy(t, "idle tunnel", tc)
}

// pauseFor waits without a sleep of the whole process's making.
func pauseFor(d time.Duration) { <-time.After(d) }

func TestEndlessBodiesAndHalfClosedConnections(t *testing.T) {
	w := newWorld(t)
	release := make(chan struct{})
	w.host("token.example", otherIP, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		buf := make([]byte, 1024)
		_, _ = r.Body.Read(buf)
		_, _ = io.WriteString(rw, "begun")
		rw.(http.Flusher).Flush()
		select {
		case <-release:
		case <-r.Context().Done():
		}
	}))
	p := w.proxy(basicPolicy, withShortTimes)
	defer close(release)
	c := p.raw(p.explicit)
	_, _ = io.WriteString(c, "POST http://token.example/ HTTP/1.1\r\nHost: token.example\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")
	closesBy(t, "body that never goes on", c)
	c = p.raw(p.explicit)
	_, _ = io.WriteString(c, "GET http://token.example/ HTTP/1.1\r\nHost: token.example\r\n\r\n")
	_ = c.(*net.TCPConn).CloseWrite()
	closesBy(t, "half-closed", c)
}

func TestConnectionLimit(t *testing.T) {
	w, _ := basicWorld(t)
	p := w.proxy(basicPolicy, func(c *Config) { withToken(c); c.Limits.Connections = 3 })
	for range 3 {
		ask(t, p.raw(p.explicit), "GET http://plain.example/ HTTP/1.1\r\nHost: plain.example\r\n\r\n")
	}
	if !turnedAway(p.explicit) {
		t.Error("a fourth connection was served")
	}
	w.denied(ReasonConnections)
}

func TestOnlyKnownClients(t *testing.T) {
	w, _ := basicWorld(t)
	p := w.proxy(basicPolicy, func(c *Config) { withToken(c); c.Clients = []string{"192.0.2.0/24"} })
	if !turnedAway(p.explicit) {
		t.Error("a stranger was served")
	}
	w.denied(ReasonClient)
}

func TestPanicEndsOneConnection(t *testing.T) {
	w, _ := basicWorld(t)
	var once sync.Once
	caught := make(chan any, 1)
	p := w.proxy(basicPolicy, func(c *Config) {
		withToken(c)
		c.OnPanic = func(p any) { caught <- p }
		dial := c.Dial
		c.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
			if network == "tcp" {
				once.Do(func() { panic("seeded") })
			}
			return dial(ctx, network, addr)
		}
	})
	c := p.raw(p.explicit)
	_, _ = io.WriteString(c, "GET http://plain.example/ HTTP/1.1\r\nHost: plain.example\r\n\r\n")
	closesBy(t, "panicked", c)
	if got := <-caught; got != "seeded" {
		t.Errorf("panic %v", got)
	}
	if status, _, _ := p.get(p.client(false), "http://plain.example/"); status != 200 {
		t.Errorf("the next connection: %d", status)
	}
	ev := w.event("failure", func(e Event) bool { return e.Type == EventFailure })
	if strings.Contains(fmt.Sprint(ev), "seeded") {
		t.Error("what the panic said was recorded")
	}
}

// TestPipelinedRequests: requests that follow each other without a wait are
// answered in order, and a refused one does not let its body be read as the
// next.
func TestPipelinedRequests(t *testing.T) {
	w, s := basicWorld(t)
	p := w.proxy(basicPolicy, withToken)
	c := p.raw(p.explicit)
	_, _ = io.WriteString(c, "GET http://plain.example/1 HTTP/1.1\r\nHost: plain.example\r\n\r\n"+
		"GET http://plain.example/2 HTTP/1.1\r\nHost: plain.example\r\n\r\n"+
		"POST http://evil.example/ HTTP/1.1\r\nHost: evil.example\r\nContent-Length: 60\r\n\r\n"+
		"GET http://token.example/smuggled HTTP/1.1\r\nHost: token.example\r\n\r\n")
	br := bufio.NewReader(c)
	for _, want := range []string{"/1", "/2"} {
		resp, err := http.ReadResponse(br, nil)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		if !strings.Contains(string(body), " "+want+"\n") {
			t.Errorf("%s: %s", want, body)
		}
	}
	resp, err := http.ReadResponse(br, nil)
	if err != nil || resp.StatusCode != 403 || !resp.Close {
		t.Errorf("%v %v", resp, err)
	}
	_, _ = io.Copy(io.Discard, c)
	if s.count() != 0 {
		t.Error("a body was read as a request")
	}
}

func TestExpectContinue(t *testing.T) {
	w, s := basicWorld(t)
	p := w.proxy(basicPolicy, withToken)
	c := p.raw(p.explicit)
	_, _ = io.WriteString(c, "POST http://token.example/ HTTP/1.1\r\nHost: token.example\r\nContent-Length: 5\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n")
	br := bufio.NewReader(c)
	if line, err := br.ReadString('\n'); err != nil || line != "HTTP/1.1 100 Continue\r\n" {
		t.Fatalf("%q %v", line, err)
	}
	_, _ = br.ReadString('\n')
	_, _ = io.WriteString(c, "hello")
	resp, err := http.ReadResponse(br, nil)
	if err != nil || resp.StatusCode != 200 {
		t.Fatalf("%v %v", resp, err)
	}
	if s.last(t).Header.Get("Expect") != "" || s.lastBody() != "hello" {
		t.Error("the expectation went on, or the body did not")
	}
	// For a denied host the body is never asked for.
	status, _ := p.send("POST http://evil.example/ HTTP/1.1\r\nHost: evil.example\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n")
	if status != 403 {
		t.Errorf("denied: %d", status)
	}
}

func openFiles(t *testing.T) int {
	t.Helper()
	files, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(files)
}

// TestLoad: many connections and requests leave nothing behind.
func TestLoad(t *testing.T) {
	const connections, rounds = 200, 20
	w := newWorld(t)
	w.host("token.example", otherIP, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(rw, "ok") }))
	p := w.proxy(basicPolicy, func(c *Config) { withToken(c); c.OnEvent = nil })
	warm := p.client(false)
	p.get(warm, "http://token.example/")
	warm.CloseIdleConnections()
	drained := func() { p.conns.wait() }
	drained()
	runtime.GC()
	goroutines, files := runtime.NumGoroutine(), openFiles(t)
	var wg sync.WaitGroup
	for range connections {
		wg.Go(func() {
			tr := &http.Transport{Proxy: p.client(false).Transport.(*http.Transport).Proxy}
			c := &http.Client{Transport: tr, Timeout: 60 * time.Second}
			defer tr.CloseIdleConnections()
			for range rounds {
				resp, err := c.Get("http://token.example/")
				if err != nil {
					t.Error(err)
					return
				}
				_, _ = io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			}
		})
	}
	wg.Wait()
	drained()
	// The hosts' own goroutines end when they see the close.
	deadline := time.Now().Add(20 * time.Second)
	for runtime.NumGoroutine() > goroutines+10 && time.Now().Before(deadline) {
		runtime.Gosched()
	}
	if n := runtime.NumGoroutine(); n > goroutines+10 {
		t.Errorf("%d goroutines, before %d", n, goroutines)
	}
	if n := openFiles(t); n > files+10 {
		t.Errorf("%d open files, before %d", n, files)
	}
}

func TestShutdownIsGraceful(t *testing.T) {
	w := newWorld(t)
	begun, release := make(chan struct{}), make(chan struct{})
	w.host("token.example", otherIP, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		close(begun)
		<-release
		_, _ = io.WriteString(rw, "done")
	}))
	p := w.proxy(basicPolicy, withToken)
	got := make(chan string, 1)
	go func() {
		req, _ := http.NewRequest("GET", "https://token.example/", nil)
		req.Close = true
		resp, err := p.client(false).Do(req)
		if err != nil {
			got <- err.Error()
			return
		}
		b, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		got <- string(b)
	}()
	<-begun
	stopped := make(chan error, 1)
	go func() { stopped <- p.Shutdown(t.Context()) }()
	close(release)
	if text := <-got; text != "done" {
		t.Errorf("the request under way got %q", text)
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	if _, err := net.Dial("tcp", p.explicit); err == nil {
		t.Error("still listening")
	}
}

func TestB15ReloadBeginsToIntercept(t *testing.T) {
	w, s := newWorld(t), &seen{}
	w.host("plain.example", allowedIP, s.handler(echo()))
	doc := "version: 1\nname: test\nmode: allowlist\nallow: [{host: plain.example}]\n"
	p := w.proxy(doc, nil)
	c := p.client(false)
	p.get(c, "https://plain.example/")
	if s.last(t).Header.Get("Authorization") != "" {
		t.Fatal("injected without a rule")
	}
	edit := doc + "secrets:\n  - {name: TOKEN, from: {env: T}, inject: [{host: plain.example, as: bearer}]}\n"
	if err := p.Reload(Update{Policy: &edit}); err == nil {
		t.Error("an edit that needs a secret was accepted without it")
	}
	if err := p.Reload(Update{Policy: &edit, Secrets: []Secret{{Name: "TOKEN", Value: testValue}}}); err != nil {
		t.Fatal(err)
	}
	_, _, body := p.get(c, "https://plain.example/")
	if s.last(t).Header.Get("Authorization") != "Bearer "+testValue {
		t.Error("a connection that was passed on lives on without injection")
	}
	if strings.Contains(body, testValue) {
		t.Error("not masked")
	}
	none := doc
	if err := p.Reload(Update{Policy: &none, Secrets: []Secret{}}); err != nil {
		t.Fatal(err)
	}
	if b := []byte(testValue); p.Redact(b) != 1 {
		t.Error("a value that was in force is not masked any more")
	}
}

func TestReloadThatNeedsAnotherRoutingIsRefused(t *testing.T) {
	w, _ := basicWorld(t)
	doc := "version: 1\nname: test\nmode: denylist\nblock: [{host: evil.example, exact: true}]\n"
	p := w.proxy(doc, nil)
	if status, reason, _ := p.get(p.client(false), "http://evil.example/"); status != 403 {
		t.Fatalf("%d %s", status, reason)
	}
	wider := "version: 1\nname: test\nmode: denylist\nblock: [{host: evil.example}]\n"
	if err := p.Reload(Update{Policy: &wider}); err == nil || !strings.Contains(err.Error(), "routing") {
		t.Errorf("%v", err)
	}
	w.event("reload", func(e Event) bool { return e.Type == EventReload && e.Reason == ReasonReloadRouting })
}
