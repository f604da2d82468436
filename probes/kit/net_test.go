package kit

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/probes"
	"github.com/wallproof/wallproof/probes/canary"
	"github.com/wallproof/wallproof/probes/nonce"
)

var (
	testNonce = nonce.New([]byte("k"), "run", "x", "", "")
	testProof = nonce.Proof([]byte("k"), testNonce)
)

func testEnv(variant string) *probes.Env {
	return &probes.Env{Facts: &probes.Facts{}, Technique: "X", Variant: variant, Nonce: testNonce}
}

// within is a context for a test.
func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// serve answers TCP connections and returns where.
func serve(t *testing.T, handle func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
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
			go func() { defer c.Close(); c.SetDeadline(time.Now().Add(20 * time.Second)); handle(c) }()
		}
	}()
	return l.Addr().String()
}

func hostPort(t *testing.T, address string) (string, int) {
	t.Helper()
	host, p, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(p)
	if err != nil {
		t.Fatal(err)
	}
	return host, port
}

// A refused connection's source port is known as well: it is what ties the
// packet filter's record to the attempt.
func TestPortOfARefusedConnection(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	try := Begin(testEnv("direct-v4"))
	defer try.End()
	_, err = try.Dial(within(t), "tcp", address)
	o := try.Fail(err)
	if o.Sign != manifest.SignRefused || o.Errno != "ECONNREFUSED" || len(o.Local) != 1 || !strings.HasPrefix(o.Local[0], "tcp/") || o.Local[0] == "tcp/0" {
		t.Errorf("%+v", o)
	}
}

func TestPortOfAConnection(t *testing.T) {
	seen := make(chan string, 1)
	address := serve(t, func(c net.Conn) { seen <- c.RemoteAddr().String() })
	try := Begin(testEnv("direct-v4"))
	defer try.End()
	if _, err := try.Dial(within(t), "tcp", address); err != nil {
		t.Fatal(err)
	}
	_, port := hostPort(t, <-seen)
	if o := try.Done(manifest.Observation{}); !slices.Equal(o.Local, []string{fmt.Sprint("tcp/", port)}) {
		t.Errorf("local %v, seen %d", o.Local, port)
	}
}

func TestRequestBytes(t *testing.T) {
	r := &Request{Scheme: "http", Host: "a.example", Port: 8080, Path: "/x?y", Header: []string{"X: 1"}, Body: []byte("body"), Method: "POST"}
	if got, want := string(r.Bytes(Direct, "me")), "POST /x?y HTTP/1.1\r\nHost: a.example:8080\r\nUser-Agent: me\r\nAccept: */*\r\nX: 1\r\nContent-Length: 4\r\n\r\nbody"; got != want {
		t.Errorf("got %q", got)
	}
	r = &Request{Scheme: "http", Host: "2001:db8::1", Hosts: []string{"one", "two"}}
	if got, want := string(r.Bytes(Absolute, "me")), "GET http://[2001:db8::1]/ HTTP/1.1\r\nHost: one\r\nHost: two\r\nUser-Agent: me\r\nAccept: */*\r\n\r\n"; got != want {
		t.Errorf("got %q", got)
	}
}

func TestObserve(t *testing.T) {
	secret := canary.Derive([]byte("s"))
	for _, tt := range []struct {
		name, response, sign string
		proof, obtained      bool
	}{
		{"proof", "HTTP/1.1 200 OK\r\nContent-Length: 34\r\n\r\n" + nonce.AnswerPrefix + testProof, manifest.SignReached, true, false},
		{"proof in a header", "HTTP/1.1 500 Oh\r\nX: " + nonce.AnswerPrefix + testProof + "\r\nContent-Length: 0\r\n\r\n", manifest.SignReached, true, false},
		{"B21: block page", "HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\nblocked", manifest.SignAnswered, false, false},
		{"canary", "HTTP/1.1 200 OK\r\nContent-Length: 40\r\n\r\n" + secret, manifest.SignReached, false, true},
		{"canary in a trailer", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X\r\n\r\n1\r\na\r\n0\r\nX: " + secret + "\r\n\r\n", manifest.SignReached, false, true},
		{"403", "HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n", manifest.SignRefused, false, false},
		{"421 with a reason", "HTTP/1.1 421 Misdirected\r\nX-Wallproof-Reason: host-mismatch\r\nContent-Length: 0\r\n\r\n", manifest.SignRefused, false, false},
		{"400 with a reason", "HTTP/1.1 400 Bad\r\nX-Wallproof-Reason: bad-host\r\nContent-Length: 0\r\n\r\n", manifest.SignRefused, false, false},
		{"400 without", "HTTP/1.1 400 Bad\r\nContent-Length: 0\r\n\r\n", manifest.SignAnswered, false, false},
		{"502 with a reason", "HTTP/1.1 502 Bad\r\nX-Wallproof-Reason: upstream-closed\r\nContent-Length: 0\r\n\r\n", manifest.SignError, false, false},
		{"403 with the proof", "HTTP/1.1 403 Forbidden\r\nContent-Length: 34\r\n\r\n" + nonce.AnswerPrefix + testProof, manifest.SignReached, true, false},
		{"after 100", "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 403 No\r\nContent-Length: 0\r\n\r\n", manifest.SignRefused, false, false},
		{"cut short", "HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n" + nonce.AnswerPrefix + testProof, manifest.SignReached, true, false},
	} {
		a, err := ReadAnswer(bufio.NewReader(strings.NewReader(tt.response)), "GET")
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		o := Observe(a)
		if o.Sign != tt.sign || (o.Proof == testProof) != tt.proof || (len(o.Obtained) > 0) != tt.obtained {
			t.Errorf("%s: %+v", tt.name, o)
		}
	}
	for _, bad := range []string{"", "nonsense\r\n\r\n", strings.Repeat("HTTP/1.1 100 Continue\r\n\r\n", 9)} {
		if _, err := ReadAnswer(bufio.NewReader(strings.NewReader(bad)), "GET"); err == nil {
			t.Errorf("%q was read as an answer", bad)
		}
	}
}

// Tunnels by CONNECT and SOCKS, and what their refusals become.
func TestTunnels(t *testing.T) {
	asked := make(chan string, 8)
	proxy := serve(t, func(c net.Conn) {
		req, err := http.ReadRequest(bufio.NewReader(c))
		if err != nil {
			return
		}
		asked <- req.RequestURI
		switch {
		case strings.HasPrefix(req.RequestURI, "ok"):
			io.WriteString(c, "HTTP/1.1 200 Connection established\r\n\r\nhello")
		case strings.HasPrefix(req.RequestURI, "broken"):
			io.WriteString(c, "HTTP/1.1 502 Bad Gateway\r\nX-Wallproof-Reason: upstream-closed\r\n\r\n")
		default:
			io.WriteString(c, "HTTP/1.1 403 Forbidden\r\nX-Wallproof-Reason: default-deny\r\n\r\n")
		}
	})
	socks := serve(t, func(c net.Conn) {
		io.ReadFull(c, make([]byte, 3))
		c.Write([]byte{5, 0})
		head := make([]byte, 5)
		io.ReadFull(c, head)
		reply := byte(2)
		if head[3] == 3 {
			name := make([]byte, int(head[4])+2)
			io.ReadFull(c, name)
			asked <- string(name[:head[4]])
			if strings.HasPrefix(string(name), "ok") {
				reply = 0
			}
		} else {
			io.ReadFull(c, make([]byte, 5))
			reply = 1
		}
		c.Write([]byte{5, reply, 0, 1, 0, 0, 0, 0, 0, 0})
		if reply == 0 {
			io.WriteString(c, "hello")
		}
	})
	env := testEnv("connect-v4")
	env.Facts.Proxy.V4, env.Facts.SOCKS.V4 = proxy, socks
	for _, tt := range []struct {
		way        Way
		host, sign string
	}{
		{Connect, "ok.example", ""}, {Connect, "no.example", manifest.SignRefused}, {Connect, "broken.example", manifest.SignError},
		{Socks, "ok.example", ""}, {Socks, "no\x00.ok.example", manifest.SignRefused}, {Socks, "192.0.2.1", manifest.SignError},
	} {
		try := Begin(env)
		c, err := try.Open(within(t), tt.way, false, tt.host, 443)
		if tt.sign == "" {
			if err != nil {
				t.Errorf("%s %s: %v", tt.way, tt.host, err)
			} else if b := make([]byte, 5); true {
				if io.ReadFull(c, b); string(b) != "hello" {
					t.Errorf("%s %s: read %q", tt.way, tt.host, b)
				}
			}
		} else if o := try.Fail(err); o.Sign != tt.sign || len(o.Local) != 1 {
			t.Errorf("%s %s: %+v", tt.way, tt.host, o)
		}
		try.End()
	}
	close(asked)
	var all []string
	for a := range asked {
		all = append(all, a)
	}
	if got, want := strings.Join(all, " "), "ok.example:443 no.example:443 broken.example:443 ok.example no\x00.ok.example"; got != want {
		t.Errorf("asked %q, want %q", got, want)
	}
}

func TestLineNeedsTheProof(t *testing.T) {
	for name, tt := range map[string]struct{ say, sign string }{
		"proof":   {nonce.AnswerPrefix + testProof + "\n", manifest.SignReached},
		"banner":  {"220 hello\r\n", manifest.SignAnswered},
		"silence": {"", manifest.SignClosed},
	} {
		address := serve(t, func(c net.Conn) {
			if line, _ := bufio.NewReader(c).ReadString('\n'); strings.Contains(line, testNonce) {
				io.WriteString(c, tt.say)
			}
		})
		host, port := hostPort(t, address)
		if o := Line(within(t), testEnv("direct-v4"), host, port, Probe(testEnv(""))); o.Sign != tt.sign || (o.Proof == testProof) != (tt.sign == manifest.SignReached) {
			t.Errorf("%s: %+v", name, o)
		}
	}
}

func TestDatagram(t *testing.T) {
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		buf := make([]byte, 1024)
		for {
			n, from, err := pc.ReadFrom(buf)
			if err != nil {
				return
			}
			if found := nonce.Find(buf[:n]); len(found) == 1 {
				pc.WriteTo([]byte(nonce.Answer([]byte("k"), found[0])), from)
			}
		}
	}()
	env := testEnv("direct-v4")
	if o := Datagram(within(t), env, pc.LocalAddr().String(), Probe(env)); o.Sign != manifest.SignReached || o.Proof != testProof || !strings.HasPrefix(o.Local[0], "udp/") {
		t.Errorf("answered: %+v", o)
	}
	if o := Datagram(within(t), env, pc.LocalAddr().String(), []byte("nothing of ours")); o.Sign != manifest.SignSent {
		t.Errorf("unanswered: %+v", o)
	}
	address := pc.LocalAddr().String()
	pc.Close()
	if o := Datagram(within(t), env, address, Probe(env)); o.Sign != manifest.SignRefused || o.Errno != "ECONNREFUSED" {
		t.Errorf("port unreachable: %+v", o)
	}
}

func TestWebSocketAndFollow(t *testing.T) {
	address := serve(t, func(c net.Conn) {
		req, err := http.ReadRequest(bufio.NewReader(c))
		if err != nil {
			return
		}
		switch {
		case req.Header.Get("Upgrade") == "websocket":
			io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n")
			c.Write(append([]byte{0x81, 34}, nonce.AnswerPrefix+testProof...))
		case req.URL.Path == "/go":
			io.WriteString(c, "HTTP/1.1 302 Found\r\nLocation: /there\r\nContent-Length: 0\r\n\r\n")
		default:
			io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 34\r\n\r\n"+nonce.AnswerPrefix+testProof)
		}
	})
	host, port := hostPort(t, address)
	r := func(path string) *Request { return &Request{Scheme: "http", Host: host, Port: port, Path: path} }
	if o := WebSocket(within(t), testEnv("direct-v4"), r("/ws")); o.Sign != manifest.SignReached || o.Proof != testProof {
		t.Errorf("socket: %+v", o)
	}
	if o := Follow(within(t), testEnv("direct-v4"), r("/go"), r("/there")); o.Sign != manifest.SignReached || o.Proof != testProof {
		t.Errorf("followed: %+v", o)
	}
	if o := Follow(within(t), testEnv("direct-v4"), r("/no"), r("/there")); o.Sign != manifest.SignAnswered || o.Proof != "" {
		t.Errorf("nothing to follow: %+v", o)
	}
}
