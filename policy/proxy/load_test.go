//go:build load

package proxy

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// The bar: so many connections at once, so many requests over them.
const (
	loadConnections = 1000
	loadRequests    = 100 // on each connection
	loadTime        = 8 * time.Minute
)

// TestLoad100k: a thousand connections at once and a hundred thousand requests, in
// clear, intercepted with injection and redaction, and passed on, leave no
// goroutine, no descriptor and no memory behind. All connections are open before
// the first request is sent, and stay open until the last is answered.
func TestLoad100k(t *testing.T) {
	w := newWorld(t)
	h := http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(rw, "you sent "+r.Header.Get("Authorization"))
	})
	w.host("token.example", otherIP, h)
	w.host("plain.example", allowedIP, h)
	var mu sync.Mutex
	decisions := map[string]int{}
	p := w.proxy(basicPolicy, func(c *Config) {
		withToken(c)
		c.OnEvent = func(ev Event) {
			mu.Lock()
			defer mu.Unlock()
			if ev.Type == EventDecision {
				decisions[ev.Verdict+" "+ev.Route]++
			}
		}
	})
	kinds := []struct {
		name string
		open func() net.Conn
		host string
		want string
	}{
		{"plain", func() net.Conn { return p.raw(p.explicit) }, "plain.example", "you sent "},
		{"intercepted", func() net.Conn { return p.insideTLS("token.example") }, "token.example", "you sent Bearer " + strings.Repeat("*", len(testValue))},
		{"passed on", func() net.Conn { return p.insideTLS("plain.example") }, "plain.example", "you sent "},
	}
	exchange := func(c net.Conn, br *bufio.Reader, kind int, last bool) bool {
		k := kinds[kind]
		target := "/"
		if k.name == "plain" {
			target = "http://" + k.host + "/"
		}
		text := "GET " + target + " HTTP/1.1\r\nHost: " + k.host + "\r\n"
		if last {
			text += "Connection: close\r\n"
		}
		_ = c.SetDeadline(time.Now().Add(loadTime))
		if _, err := io.WriteString(c, text+"\r\n"); err != nil {
			t.Errorf("%s: %v", k.name, err)
			return false
		}
		resp, err := http.ReadResponse(br, nil)
		if err != nil {
			t.Errorf("%s: %v", k.name, err)
			return false
		}
		b, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != 200 || string(b) != k.want {
			t.Errorf("%s: %d %q %v", k.name, resp.StatusCode, b, err)
			return false
		}
		return true
	}
	for i := range kinds { // warm: pools, caches, connections of the host
		c := kinds[i].open()
		exchange(c, bufio.NewReader(c), i, true)
		_ = c.Close()
	}
	drained := func() { p.conns.wait() }
	drained()
	before := measure(t)
	conns := make([]net.Conn, loadConnections)
	for i := range conns {
		conns[i] = kinds[i%len(kinds)].open()
	}
	for wait := time.Now().Add(time.Minute); p.conns.count() < loadConnections && time.Now().Before(wait); {
		time.Sleep(10 * time.Millisecond) // the last ones are on their way through the kernel
	}
	if n := p.conns.count(); n != loadConnections {
		t.Errorf("%d connections at the proxy, want %d", n, loadConnections)
	}
	var wg sync.WaitGroup
	for i, c := range conns {
		wg.Go(func() {
			br := bufio.NewReaderSize(c, 1024)
			for n := range loadRequests {
				if !exchange(c, br, i%len(kinds), n == loadRequests-1) {
					return
				}
			}
		})
	}
	wg.Wait()
	peak := measure(t)
	for i, c := range conns {
		_ = c.Close()
		conns[i] = nil
	}
	drained()
	after := measure(t)
	deadline := time.Now().Add(time.Minute)
	for after.goroutines > before.goroutines+10 && time.Now().Before(deadline) { // the hosts' own end when they see the close
		time.Sleep(20 * time.Millisecond)
		after = measure(t)
	}
	t.Logf("before %+v, at the end of the load %+v, after %+v", before, peak, after)
	if after.goroutines > before.goroutines+10 {
		t.Errorf("%d goroutines, before %d", after.goroutines, before.goroutines)
	}
	if after.files > before.files+10 {
		t.Errorf("%d open files, before %d", after.files, before.files)
	}
	if after.heap > before.heap+16<<20 {
		t.Errorf("%d MiB of live memory, before %d", after.heap>>20, before.heap>>20)
	}
	mu.Lock()
	defer mu.Unlock()
	third := loadConnections / len(kinds)
	for what, least := range map[string]int{"allow direct": third * loadRequests, "allow intercept": third * loadRequests, "allow tunnel": third} {
		if decisions[what] < least {
			t.Errorf("%s: %d recorded, want at least %d", what, decisions[what], least)
		}
	}
}

// insideTLS opens a tunnel to a host and does TLS in it.
func (p *proxyUnderTest) insideTLS(host string) net.Conn {
	c := p.tunnel(host + ":443")
	_ = c.SetDeadline(time.Now().Add(loadTime))
	tc, err := p.handshake(c, host, "http/1.1")
	if err != nil {
		p.w.t.Fatal(err)
	}
	return tc
}

// footprint is what a leak would raise.
type footprint struct {
	goroutines, files int
	heap              uint64
}

func measure(t *testing.T) footprint {
	runtime.GC()
	runtime.GC() // what pools hold goes with the second
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return footprint{runtime.NumGoroutine(), openFiles(t), m.HeapAlloc}
}
