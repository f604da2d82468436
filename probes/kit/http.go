package kit

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/probes/canary"
	"github.com/wallproof/wallproof/probes/nonce"
)

const (
	maxAnswer      = 1 << 20 // bytes of one response body that are read
	maxProvisional = 4       // 1xx responses that are skipped
)

// NoSNI as Request.SNI sends a ClientHello without a server name.
const NoSNI = "-"

// Request is an HTTP/1.1 request in parts, none of which is checked or
// normalised: what is written is what is sent.
type Request struct {
	Scheme string     // "http" or "https"
	Host   string     // what the way is asked for: a name or address in any spelling
	Port   int        // 0 means the scheme's
	Addr   netip.Addr // Direct only: dialled instead of what Host resolves to
	SNI    string     // "" means Host, NoSNI none
	Target string     // request target, "" means Path, or for Absolute the whole URL
	Method string     // "" means GET
	Path   string     // path and query, "" means "/"
	Hosts  []string   // Host fields, nil means one with Host and any unusual port
	Header []string   // further fields, "Name: value"
	Body   []byte     // sent with its Content-Length when not nil
	Over   *tls.Config
}

// Answer is what came back.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
	Seen   []byte // header fields, body and trailers, to look for proofs and canaries in
}

// Reason is the proxy's reason for a refusal, if it gave one.
func (a *Answer) Reason() string { return a.Header.Get(ReasonHeader) }

func (r *Request) port() int {
	switch {
	case r.Port != 0:
		return r.Port
	case r.Scheme == "https":
		return 443
	}
	return 80
}

// authority is Host with the port where the scheme does not imply it.
func (r *Request) authority() string {
	if r.Port == 0 || r.Scheme == "https" && r.Port == 443 || r.Scheme == "http" && r.Port == 80 {
		return strings.TrimSuffix(JoinHostPort(r.Host, 0), ":0")
	}
	return JoinHostPort(r.Host, r.Port)
}

// Bytes returns the request as it is sent on a connection of the given way.
func (r *Request) Bytes(way Way, agent string) []byte {
	path := r.Path
	if path == "" {
		path = "/"
	}
	target := r.Target
	if target == "" {
		target = path
		if way == Absolute {
			target = r.Scheme + "://" + r.authority() + path
		}
	}
	method := r.Method
	if method == "" {
		method = http.MethodGet
	}
	hosts := r.Hosts
	if hosts == nil {
		hosts = []string{r.authority()}
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\n", method, target)
	for _, h := range hosts {
		fmt.Fprintf(&b, "Host: %s\r\n", h)
	}
	fmt.Fprintf(&b, "User-Agent: %s\r\nAccept: */*\r\n", agent)
	for _, h := range r.Header {
		b.WriteString(h + "\r\n")
	}
	if r.Body != nil {
		b.WriteString("Content-Length: " + strconv.Itoa(len(r.Body)) + "\r\n")
	}
	b.WriteString("\r\n")
	b.Write(r.Body)
	return b.Bytes()
}

// HTTP makes a request by a way, over a connection of its own, and reads the
// answer.
func (t *Try) HTTP(ctx context.Context, way Way, v6 bool, r *Request) (*Answer, error) {
	c, err := t.Stream(ctx, way, v6, r)
	if err != nil {
		return nil, err
	}
	if _, err := c.Write(r.Bytes(way, t.Env.Nonce)); err != nil {
		return nil, err
	}
	return ReadAnswer(bufio.NewReader(c), r.Method)
}

// Stream opens the connection that a request goes over, with TLS where its
// scheme asks for it.
func (t *Try) Stream(ctx context.Context, way Way, v6 bool, r *Request) (net.Conn, error) {
	host := r.Host
	if way == Direct && r.Addr.IsValid() {
		host = r.Addr.String()
	}
	c, err := t.Open(ctx, way, v6, host, r.port())
	if err != nil {
		return nil, err
	}
	if r.Scheme != "https" || way == Absolute {
		return c, nil
	}
	return StartTLS(ctx, c, r)
}

// StartTLS does the client's side of a handshake. Certificates are not checked:
// an attacker would not, and what proves an answer is the witness's proof.
func StartTLS(ctx context.Context, c net.Conn, r *Request) (net.Conn, error) {
	cfg := r.Over
	if cfg == nil {
		cfg = &tls.Config{NextProtos: []string{"http/1.1"}}
	}
	cfg = cfg.Clone()
	cfg.InsecureSkipVerify = true
	cfg.CurvePreferences = []tls.CurveID{tls.X25519} // a hello of one segment, and cheap: there is nothing to protect
	switch r.SNI {
	case "":
		cfg.ServerName = strings.Trim(r.Host, "[]")
	case NoSNI:
		cfg.ServerName = ""
	default:
		cfg.ServerName = r.SNI
	}
	tc := tls.Client(c, cfg)
	if err := tc.HandshakeContext(ctx); err != nil {
		return nil, err
	}
	return tc, nil
}

// ReadAnswer reads one final response.
func ReadAnswer(br *bufio.Reader, method string) (*Answer, error) {
	if method == "" {
		method = http.MethodGet
	}
	for range maxProvisional {
		resp, err := http.ReadResponse(br, &http.Request{Method: method})
		if err != nil {
			return nil, err
		}
		if resp.StatusCode/100 == 1 && resp.StatusCode != http.StatusSwitchingProtocols {
			continue
		}
		return readBody(resp)
	}
	return nil, &Unexpected{What: "http", Status: 100, Detail: "only provisional responses"}
}

func readBody(resp *http.Response) (*Answer, error) {
	a := &Answer{Status: resp.StatusCode, Header: resp.Header}
	var err error
	if resp.StatusCode != http.StatusSwitchingProtocols {
		// What came before an error counts: a peer that breaks off has still said it.
		a.Body, err = io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	}
	a.Seen = seen(resp, a.Body)
	if err != nil && len(a.Body) == 0 {
		return nil, fmt.Errorf("read the answer: %w", err)
	}
	return a, nil
}

func writeFields(b *bytes.Buffer, h http.Header) {
	names := make([]string, 0, len(h))
	for name := range h {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		for _, v := range h[name] {
			b.WriteString(name + ": " + v + "\n")
		}
	}
}

// Observe turns an answer into an observation: reached when it holds the
// witness's proof, refused when it is a proxy's no, else answered.
func Observe(a *Answer) manifest.Observation {
	o := manifest.Observation{
		Status:   int64(a.Status),
		Bytes:    int64(len(a.Body)),
		Proof:    nonce.FindProof(a.Seen),
		Obtained: canary.Find(a.Seen),
	}
	switch {
	case o.Proof != "" || len(o.Obtained) > 0:
		o.Sign = manifest.SignReached
	case a.Reason() != "" && gatewayFailed(a.Status):
		o.Sign, o.Detail = manifest.SignError, "the gateway failed: "+a.Reason()
	case a.Reason() != "" || RefusesStatus(a.Status):
		o.Sign, o.Detail = manifest.SignRefused, a.Reason()
	default:
		o.Sign = manifest.SignAnswered
	}
	return o
}

// CanaryOnly says of an exchange with a place that may be reached that nothing
// but a canary counts: having reached it without one is having found nothing.
func CanaryOnly(o manifest.Observation) manifest.Observation {
	if len(o.Obtained) == 0 && o.Sign == manifest.SignReached {
		o.Sign = manifest.SignAbsent
	}
	return o
}

// NewAnswer makes an Answer of a response whose body has been read.
func NewAnswer(resp *http.Response, body []byte) *Answer {
	a := &Answer{Status: resp.StatusCode, Header: resp.Header, Body: body}
	a.Seen = seen(resp, body)
	return a
}

// seen is everything of a response that a proof or canary may stand in.
func seen(resp *http.Response, body []byte) []byte {
	var b bytes.Buffer
	writeFields(&b, resp.Header)
	b.WriteString("\n")
	b.Write(body)
	b.WriteString("\n")
	writeFields(&b, resp.Trailer)
	return b.Bytes()
}
