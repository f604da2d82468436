package shell

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// seen is what a test server was asked.
type seen struct {
	mu   sync.Mutex
	list []string
}

func (s *seen) handler(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	s.mu.Lock()
	s.list = append(s.list, fmt.Sprintf("%s %s %s ua=%s x=%s auth=%s body=%s", r.Method, r.Host, r.RequestURI, r.UserAgent(), r.Header.Get("X-Test"), r.Header.Get("Authorization"), body))
	s.mu.Unlock()
	switch r.URL.Path {
	case "/redirect":
		http.Redirect(w, r, "/there", http.StatusFound)
	case "/missing":
		http.NotFound(w, r)
	default:
		fmt.Fprintf(w, "you asked for %s\n", r.URL.Path)
	}
}

func (s *seen) last() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.list) == 0 {
		return ""
	}
	return s.list[len(s.list)-1]
}

func TestCurl(t *testing.T) {
	var s seen
	server := httptest.NewServer(http.HandlerFunc(s.handler))
	defer server.Close()
	host := strings.TrimPrefix(server.URL, "http://")
	for _, tt := range []struct{ script, out, seen string }{
		{"curl -s $U/a", "you asked for /a\n", "GET " + host + " /a ua=agent x= auth= body="},
		{"curl -s $H/a", "you asked for /a\n", "GET " + host + " /a ua=agent x= auth= body="},
		{"curl -sX PUT -H 'X-Test: 1' -d 'q' $U/a", "you asked for /a\n", "PUT " + host + " /a ua=agent x=1 auth= body=q"},
		{"echo -n file > f; curl -s -d @f -d more $U/a", "you asked for /a\n", "POST " + host + " /a ua=agent x= auth= body=file&more"},
		{"echo -n in | curl -s --data-binary @- $U/a", "you asked for /a\n", "POST " + host + " /a ua=agent x= auth= body=in"},
		{"curl -s -F 'f=v' $U/a", "you asked for /a\n", "POST " + host + " /a ua=agent x= auth= body=v"},
		{"echo -n up > f; curl -s -T f $U/a", "you asked for /a\n", "PUT " + host + " /a ua=agent x= auth= body=up"},
		{"curl -s -u me:pw $U/a", "you asked for /a\n", "GET " + host + " /a ua=agent x= auth=Basic bWU6cHc= body="},
		{"curl -s -H 'Host: other.example' $U/a", "you asked for /a\n", "GET other.example /a ua=agent x= auth= body="},
		{"curl -sL $U/redirect", "you asked for /there\n", "GET " + host + " /there ua=agent x= auth= body="},
		{"curl -s -o f $U/a; cat f", "you asked for /a\n", "GET " + host + " /a ua=agent x= auth= body="},
		{"wget -qO- $U/a", "you asked for /a\n", "GET " + host + " /a ua=agent x= auth= body="},
		{"wget $U/dir/name; cat name", "you asked for /dir/name\n", "GET " + host + " /dir/name ua=agent x= auth= body="},
		{"curl -sf $U/missing || echo failed", "failed\n", "GET " + host + " /missing ua=agent x= auth= body="},
		{"markdown 'text ![a](" + server.URL + "/i.png?d=1 \"title\") more'", "[image, 200, 21 bytes]\n", "GET " + host + " /i.png?d=1 ua=agent x= auth= body="},
	} {
		sh := &Shell{Net: &Net{Agent: "agent"}, Env: []string{"U=" + server.URL, "H=" + host}}
		out, errOut, _ := runScript(t, sh, tt.script)
		if out != tt.out || s.last() != tt.seen {
			t.Errorf("%q printed %q and asked %q; want %q and %q (%s)", tt.script, out, s.last(), tt.out, tt.seen, errOut)
		}
	}
	out, _, _ := runScript(t, &Shell{Env: []string{"U=" + server.URL}}, "curl -sI $U/a")
	if !strings.HasPrefix(out, "HTTP/1.1 200 OK\r\n") {
		t.Errorf("curl -I printed %q", out)
	}
}

// The proxy and the authorities are those of the environment, and a proxy's
// refusal of a tunnel is told as such.
func TestProxyAndAuthorities(t *testing.T) {
	var s seen
	secure := httptest.NewTLSServer(http.HandlerFunc(s.handler))
	defer secure.Close()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw}), 0o644); err != nil {
		t.Fatal(err)
	}
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Host == "blocked.example:443":
			w.Header().Set("X-Wallproof-Reason", "default-deny")
			w.WriteHeader(http.StatusForbidden)
		case r.Method == http.MethodConnect:
			relay(w, strings.TrimPrefix(secure.URL, "https://"))
		default:
			s.handler(w, r)
		}
	}))
	defer proxy.Close()
	env := []string{"http_proxy=" + proxy.URL, "https_proxy=" + proxy.URL, "SSL_CERT_FILE=" + ca}
	out, errOut, status := runScript(t, &Shell{Env: env}, "curl -s https://example.com/a")
	if status != 0 || out != "you asked for /a\n" {
		t.Errorf("through the proxy: %d %q %q", status, out, errOut)
	}
	if runScript(t, &Shell{Env: env}, "curl -s http://plain.example/a"); !strings.HasPrefix(s.last(), "GET plain.example http://plain.example/a ") {
		t.Errorf("in absolute form: %q", s.last())
	}
	var last error
	sh := &Shell{Env: env, Net: &Net{Done: func(_ *http.Response, _ []byte, err error) { last = err }}}
	_, errOut, _ = runScript(t, sh, "curl https://blocked.example/")
	var refused *ProxyRefusal
	if !errors.As(last, &refused) || refused.Status != 403 || refused.Header.Get("X-Wallproof-Reason") != "default-deny" || !strings.Contains(errOut, "(56)") {
		t.Errorf("refused: %v, %q", last, errOut)
	}
	env[2] = "SSL_CERT_FILE=" + filepath.Join(t.TempDir(), "none")
	if _, errOut, status := runScript(t, &Shell{Env: env}, "curl https://example.com/"); status == 0 || !strings.Contains(errOut, "authorities") {
		t.Errorf("without authorities: %d %q", status, errOut)
	}
}

// relay answers CONNECT and copies to an address, whatever was asked for.
func relay(w http.ResponseWriter, address string) {
	there, err := net.Dial("tcp", address)
	if err != nil {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	here, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		there.Close()
		return
	}
	io.WriteString(here, "HTTP/1.1 200 OK\r\n\r\n")
	go func() { io.Copy(there, here); there.Close() }()
	io.Copy(here, there)
	here.Close()
}

func TestNoProxy(t *testing.T) {
	var s seen
	server := httptest.NewServer(http.HandlerFunc(s.handler))
	defer server.Close()
	env := []string{"http_proxy=http://127.0.0.1:1", "U=" + server.URL}
	if out, _, _ := runScript(t, &Shell{Env: env}, "curl -s --noproxy '*' $U/a"); out != "you asked for /a\n" {
		t.Errorf("printed %q", out)
	}
}

func TestLookups(t *testing.T) {
	var dialled, asked []string
	n := &Net{
		Lookup: func(_ context.Context, name string) ([]netip.Addr, error) {
			asked = append(asked, name)
			if name == "none.example" {
				return nil, errors.New("refused")
			}
			return []netip.Addr{netip.MustParseAddr("192.0.2.7")}, nil
		},
		Dial: func(_ context.Context, _, address string) (net.Conn, error) {
			dialled = append(dialled, address)
			return nil, errors.New("no way")
		},
	}
	out, _, status := runScript(t, &Shell{Net: n}, "nslookup a.example; dig +short b.example @1.1.1.1; curl -s http://c.example/ ; curl -s http://none.example/")
	if out != "Name:\ta.example\nAddress: 192.0.2.7\nName:\tb.example\nAddress: 192.0.2.7\n" || status != 1 {
		t.Errorf("%d, %q", status, out)
	}
	if strings.Join(asked, " ") != "a.example b.example c.example none.example" || strings.Join(dialled, " ") != "192.0.2.7:80" {
		t.Errorf("asked %q, dialled %q", asked, dialled)
	}
	_, errOut, _ := runScript(t, &Shell{Net: n}, "curl http://none.example/")
	if !strings.Contains(errOut, "(6)") {
		t.Errorf("%q", errOut)
	}
}
