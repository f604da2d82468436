//go:build linux

package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

// store keeps goproxy's certificates, as its documentation advises.
type store struct {
	mu sync.Mutex
	m  map[string]*tls.Certificate
}

// Fetch implements goproxy.CertStorage.
func (s *store) Fetch(host string, gen func() (*tls.Certificate, error)) (*tls.Certificate, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.m[host]; c != nil {
		return c, nil
	}
	c, err := gen()
	if err == nil {
		if s.m == nil {
			s.m = map[string]*tls.Certificate{}
		}
		s.m[host] = c
	}
	return c, err
}

// bench is a folder with an authority, and an origin that runs.
type bench struct {
	dir, self string
	settings
	origin *exec.Cmd
}

func newBench() (*bench, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "wallproof-bench-")
	if err != nil {
		return nil, err
	}
	b := &bench{dir: dir, self: self, settings: settings{CA: filepath.Join(dir, "ca.pem"), Out: filepath.Join(dir, "run.pem")}}
	if err := authority(b.CA); err != nil {
		return nil, err
	}
	for _, p := range []*string{&b.TLS, &b.HTTP, &b.Listen} {
		if *p, err = freeAddr(); err != nil {
			return nil, err
		}
	}
	b.origin, err = b.start("role-origin", b.TLS)
	return b, err
}

func freeAddr() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}

func (b *bench) close() {
	end(b.origin)
	_ = os.RemoveAll(b.dir)
}

func end(c *exec.Cmd) {
	if c != nil && c.Process != nil {
		_ = c.Process.Kill()
		_ = c.Wait()
	}
}

// start starts a role of this program and waits until it listens.
func (b *bench) start(role, addr string) (*exec.Cmd, error) {
	text, err := json.Marshal(b.settings)
	if err != nil {
		return nil, err
	}
	path := filepath.Join(b.dir, role+".json")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		return nil, err
	}
	return wait(exec.Command(b.self, role, path), addr)
}

// wait starts a command and waits until something listens on addr.
func wait(cmd *exec.Cmd, addr string) (*exec.Cmd, error) {
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	for range 1800 {
		if c, err := net.Dial("tcp", addr); err == nil {
			_ = c.Close()
			return cmd, nil
		}
		time.Sleep(50 * time.Millisecond)
	}
	end(cmd)
	return nil, fmt.Errorf("%s does not listen on %s after 90 s", cmd.Path, addr)
}

// contenders are those that can do a kind and are here.
func (b *bench) contenders(kind string) []string {
	out := []string{"ours", "direct", "goproxy"}
	if kind == "splice" || kind == "plain" {
		out = append(out, "smokescreen")
	}
	if _, err := exec.LookPath("squid"); err == nil && (kind == "splice" || kind == "plain") {
		out = append(out, "squid")
	}
	if _, err := exec.LookPath("mitmdump"); err == nil && kind != "plain" {
		out = append(out, "mitmproxy")
	}
	return out
}

// startContender starts a proxy, "" for none, and says which authority it signs
// with.
func (b *bench) startContender(kind, who string) (*exec.Cmd, string, error) {
	b.Intercept = kind == "intercept" || kind == "download"
	host, port, _ := net.SplitHostPort(b.Listen)
	switch who {
	case "direct":
		return nil, b.CA, nil
	case "ours":
		cmd, err := b.start("role-ours", b.Listen)
		if b.Intercept {
			return cmd, b.Out, err
		}
		return cmd, b.CA, err
	case "goproxy":
		cmd, err := b.start("role-goproxy", b.Listen)
		return cmd, b.CA, err
	case "smokescreen":
		cmd, err := b.start("role-smokescreen", b.Listen)
		return cmd, b.CA, err
	case "squid":
		conf := filepath.Join(b.dir, "squid.conf")
		hosts := filepath.Join(b.dir, "hosts")
		_ = os.WriteFile(hosts, []byte("127.0.0.1 "+name+"\n"), 0o644)
		text := fmt.Sprintf("http_port %s:%s\nhttp_access allow all\nhosts_file %s\npid_filename none\ncache deny all\naccess_log none\ncache_log /dev/null\ncache_effective_user proxy\n", host, port, hosts)
		if err := os.WriteFile(conf, []byte(text), 0o644); err != nil {
			return nil, "", err
		}
		_ = os.Chmod(b.dir, 0o755)
		cmd, err := wait(exec.Command("squid", "-N", "-f", conf), b.Listen)
		return cmd, b.CA, err
	case "mitmproxy":
		script := filepath.Join(b.dir, "inject.py")
		text := fmt.Sprintf("def request(flow):\n    flow.request.headers['authorization'] = 'Bearer %s'\ndef server_connect(data):\n    data.server.address = ('%s', %s)\n", value, hostOf(b.TLS), portOf(b.TLS))
		if err := os.WriteFile(script, []byte(text), 0o644); err != nil {
			return nil, "", err
		}
		args := []string{"-q", "--listen-host", host, "-p", port, "--set", "confdir=" + b.dir, "--set", "ssl_verify_upstream_trusted_ca=" + b.CA, "--set", "http2=false", "-s", script}
		if !b.Intercept {
			args = append(args, "--ignore-hosts", ".*")
		}
		if kind == "download" {
			args = append(args, "--set", "stream_large_bodies=1m") // else it keeps the whole body first
		}
		cmd, err := wait(exec.Command("mitmdump", args...), b.Listen)
		if !b.Intercept {
			return cmd, b.CA, err
		}
		return cmd, filepath.Join(b.dir, "mitmproxy-ca-cert.pem"), err
	}
	return nil, "", errors.New("unknown contender")
}

func hostOf(addr string) string { h, _, _ := net.SplitHostPort(addr); return h }
func portOf(addr string) string { _, p, _ := net.SplitHostPort(addr); return p }

// measure measures one contender. The memory is in KiB.
func (b *bench) measure(kind, who string, length time.Duration, conns int) (result, int64, error) {
	cmd, ca, err := b.startContender(kind, who)
	if err != nil {
		return result{}, 0, err
	}
	defer end(cmd)
	roots := x509.NewCertPool()
	text, err := os.ReadFile(ca)
	if err != nil {
		return result{}, 0, err
	}
	roots.AppendCertsFromPEM(text)
	request := "GET / HTTP/1.1\r\nHost: " + name + ":" + portOf(b.TLS) + "\r\nUser-Agent: bench\r\n\r\n"
	target := name + ":" + portOf(b.TLS)
	through := b.Listen
	if who == "direct" {
		target, through = b.TLS, ""
	}
	open := func() (net.Conn, error) { return dialThrough(through, target, roots) }
	switch kind {
	case "plain":
		host := name
		if who == "squid" || who == "smokescreen" {
			host = name + ":" + portOf(b.HTTP) // they look the name up, and keep the port
		}
		request = "GET http://" + host + "/ HTTP/1.1\r\nHost: " + host + "\r\nUser-Agent: bench\r\n\r\n"
		open = func() (net.Conn, error) { return net.Dial("tcp", b.Listen) }
		if who == "direct" {
			open = func() (net.Conn, error) { return net.Dial("tcp", b.HTTP) }
			request = strings.Replace(request, "http://"+host, "", 1)
		}
	case "download":
		request, conns = strings.Replace(request, "GET /", "GET /large", 1), 2
	}
	if _, err := load(open, request, length/5+time.Millisecond, min(conns, 4), false); err != nil { // warm
		return result{}, 0, err
	}
	before := processorTime(cmd)
	r, err := load(open, request, length, conns, kind == "download")
	if r.count > 0 {
		r.cpu = (processorTime(cmd) - before) / time.Duration(r.count)
	}
	return r, memory(cmd), err
}

// processorTime is what a process has used of the processors, in steps of 10 ms.
func processorTime(cmd *exec.Cmd) time.Duration {
	if cmd == nil {
		return 0
	}
	b, err := os.ReadFile("/proc/" + strconv.Itoa(cmd.Process.Pid) + "/stat")
	if err != nil {
		return 0
	}
	// utime and stime are fields 14 and 15; the name, field 2, may hold spaces.
	f := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
	var ticks int64
	for _, s := range f[11:13] {
		n, _ := strconv.ParseInt(s, 10, 64)
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

// memory is the resident size of a process in KiB.
func memory(cmd *exec.Cmd) int64 {
	if cmd == nil {
		return 0
	}
	b, err := os.ReadFile("/proc/" + strconv.Itoa(cmd.Process.Pid) + "/status")
	if err != nil {
		return 0
	}
	for _, line := range strings.Split(string(b), "\n") {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			n, _ := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			return n
		}
	}
	return 0
}
