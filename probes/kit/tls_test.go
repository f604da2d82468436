package kit

import (
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/probes/nonce"
	"golang.org/x/net/http2/hpack"
)

func TestTLSRefusals(t *testing.T) {
	alert := serve(t, func(c net.Conn) {
		io.ReadFull(c, make([]byte, 5))
		c.Write([]byte{21, 3, 3, 0, 2, 2, 49}) // fatal, access_denied
		io.Copy(io.Discard, c)
	})
	host, port := hostPort(t, alert)
	o := Web(within(t), testEnv("direct-v4"), &Request{Scheme: "https", Host: host, Port: port, SNI: "a.example"})
	if o.Sign != manifest.SignRefused || !strings.Contains(o.Detail, "access denied") {
		t.Errorf("handshake: %+v", o)
	}
	hello, err := ClientHello("192.0.2.1", testNonce)
	if err != nil {
		t.Fatal(err)
	}
	c, err := net.Dial("tcp", alert)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if o := Greet(c, hello); o.Sign != manifest.SignRefused {
		t.Errorf("greeting: %+v", o)
	}
}

// The hello names what no TLS library would send, and carries the nonce.
func TestClientHello(t *testing.T) {
	server := httptest.NewUnstartedServer(nil)
	names, protos := make(chan string, 1), make(chan []string, 1)
	server.TLS = &tls.Config{GetConfigForClient: func(h *tls.ClientHelloInfo) (*tls.Config, error) {
		names <- h.ServerName
		protos <- h.SupportedProtos
		return nil, nil
	}}
	server.StartTLS()
	defer server.Close()
	hello, err := ClientHello("192.0.2.1", testNonce, "http/1.1")
	if err != nil {
		t.Fatal(err)
	}
	c, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	o := Greet(c, hello)
	if name, list := <-names, <-protos; name != "192.0.2.1" || list[0] != testNonce || o.Sign != manifest.SignAnswered {
		t.Errorf("name %q, protocols %q, %+v", name, list, o)
	}
	if _, err := ClientHello("x"); err == nil {
		t.Error("made a hello with a name that is too short")
	}
}

func TestEncryptedHello(t *testing.T) {
	server := httptest.NewUnstartedServer(nil)
	names := make(chan string, 1)
	server.TLS = &tls.Config{GetConfigForClient: func(h *tls.ClientHelloInfo) (*tls.Config, error) { names <- h.ServerName; return nil, nil }}
	server.StartTLS()
	defer server.Close()
	c, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	o := EncryptedHello(within(t), c, "public.example", "secret.example")
	if name := <-names; name != "public.example" || o.Sign != manifest.SignAnswered {
		t.Errorf("outer name %q, %+v", name, o)
	}
}

func TestH2(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodConnect {
			w.WriteHeader(http.StatusOK)
			w.(http.Flusher).Flush()
			b := make([]byte, 512)
			n, _ := r.Body.Read(b)
			if strings.Contains(string(b[:n]), testNonce) {
				io.WriteString(w, nonce.AnswerPrefix+testProof+"\n")
				w.(http.Flusher).Flush()
				<-r.Context().Done()
			}
			return
		}
		if r.Host == "denied.example" {
			w.Header().Set(ReasonHeader, "host-mismatch")
			w.WriteHeader(http.StatusMisdirectedRequest)
			return
		}
		io.WriteString(w, r.Host+r.URL.Path+" "+nonce.AnswerPrefix+testProof)
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	ask := func(inner []byte, fields ...hpack.HeaderField) manifest.Observation {
		c, err := tls.Dial("tcp", server.Listener.Addr().String(), &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		c.SetDeadline(time.Now().Add(20 * time.Second))
		a, err := H2(within(t), c, inner, fields...)
		if err != nil {
			return Sign(err)
		}
		return Observe(a)
	}
	get := func(authority string) []hpack.HeaderField {
		return []hpack.HeaderField{{Name: ":method", Value: "GET"}, {Name: ":scheme", Value: "https"}, {Name: ":authority", Value: authority}, {Name: ":path", Value: "/p"}}
	}
	if o := ask(nil, get("a.example")...); o.Sign != manifest.SignReached || o.Proof != testProof {
		t.Errorf("get: %+v", o)
	}
	if o := ask(nil, get("denied.example")...); o.Sign != manifest.SignRefused || o.Status != 421 {
		t.Errorf("denied: %+v", o)
	}
	connect := []hpack.HeaderField{{Name: ":method", Value: "CONNECT"}, {Name: ":authority", Value: "a.example:80"}}
	if o := ask([]byte("GET / "+testNonce), connect...); o.Sign != manifest.SignReached || o.Proof != testProof {
		t.Errorf("connect: %+v", o)
	}
	if o := ask(nil, hpack.HeaderField{Name: "no-method", Value: "x"}); o.Sign != manifest.SignRefused {
		t.Errorf("malformed: %+v", o)
	}
	one := serve(t, func(c net.Conn) {
		io.ReadFull(c, make([]byte, 24))
		io.WriteString(c, "HTTP/1.1 505 No\r\nX-Wallproof-Reason: bad-http-version\r\nContent-Length: 0\r\n\r\n")
		io.Copy(io.Discard, c)
	})
	c, err := net.Dial("tcp", one)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(20 * time.Second))
	if a, err := H2(within(t), c, nil, get("a.example")...); err != nil || Observe(a).Sign != manifest.SignRefused {
		t.Errorf("answered in HTTP/1: %v, %v", a, err)
	}
}
