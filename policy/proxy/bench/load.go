//go:build linux

package main

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sort"
	"sync"
	"time"
)

// kinds of what is measured.
var kinds = []string{"splice", "intercept", "plain", "download"}

// result is what a client measured.
type result struct {
	rate     float64 // requests a second; MB a second for downloads
	p50, p99 time.Duration
	count    int           // requests
	cpu      time.Duration // of the contender, a request
}

// patience is how long an answer may take after the time is over: a contender that
// hangs gets no row, and the others theirs.
const patience = 30 * time.Second

// load sends requests over keep-alive connections for a while.
func load(open func() (net.Conn, error), request string, length time.Duration, conns int, bytes bool) (result, error) {
	var mu sync.Mutex
	var all []time.Duration
	var total int64
	var wg sync.WaitGroup
	errs := make(chan error, conns)
	var opened []net.Conn // before the clock starts: handshakes are not what is measured
	for range conns {
		c, err := open()
		if err != nil {
			return result{}, err
		}
		_ = c.SetDeadline(time.Now().Add(length + patience))
		opened = append(opened, c)
	}
	begin := time.Now()
	stop := begin.Add(length)
	for _, c := range opened {
		wg.Go(func() {
			defer c.Close()
			var mine []time.Duration
			var got int64
			br := bufio.NewReaderSize(c, 64<<10)
			for time.Now().Before(stop) {
				t := time.Now()
				n, err := exchange(c, br, request)
				if err != nil {
					errs <- err
					return
				}
				got += n
				mine = append(mine, time.Since(t))
			}
			mu.Lock()
			all, total = append(all, mine...), total+got
			mu.Unlock()
		})
	}
	wg.Wait()
	took := time.Since(begin).Seconds()
	select {
	case err := <-errs:
		return result{}, err
	default:
	}
	if len(all) == 0 {
		return result{}, errors.New("nothing was answered")
	}
	sort.Slice(all, func(i, j int) bool { return all[i] < all[j] })
	r := result{count: len(all), rate: float64(len(all)) / took, p50: all[len(all)/2], p99: all[len(all)*99/100]}
	if bytes {
		r.rate = float64(total) / 1e6 / took
	}
	return r, nil
}

func exchange(c net.Conn, br *bufio.Reader, request string) (int64, error) {
	if _, err := io.WriteString(c, request); err != nil {
		return 0, err
	}
	resp, err := http.ReadResponse(br, nil)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != 200 {
		return 0, fmt.Errorf("status %d", resp.StatusCode)
	}
	return io.Copy(io.Discard, resp.Body)
}

// dialThrough opens a tunnel through an HTTP proxy and does TLS inside; without
// a proxy it goes to the target itself.
func dialThrough(proxy, target string, roots *x509.CertPool) (net.Conn, error) {
	if proxy == "" {
		c, err := net.Dial("tcp", target)
		if err != nil {
			return nil, err
		}
		return handshake(c, roots)
	}
	c, err := net.Dial("tcp", proxy)
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(c, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", target, target)
	resp, err := http.ReadResponse(bufio.NewReader(c), &http.Request{Method: "CONNECT"})
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != 200 {
		return nil, fmt.Errorf("CONNECT: status %d", resp.StatusCode)
	}
	return handshake(c, roots)
}

func handshake(c net.Conn, roots *x509.CertPool) (net.Conn, error) {
	tc := tls.Client(c, &tls.Config{RootCAs: roots, ServerName: name})
	return tc, tc.Handshake()
}
