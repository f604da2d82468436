package witness

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"github.com/wallproof/wallproof/battery/witness/forge"
	"github.com/wallproof/wallproof/probes/canary"
	"github.com/wallproof/wallproof/probes/nonce"
	"github.com/wallproof/wallproof/probes/paths"
)

func TestVerbs(t *testing.T) {
	w := newTestWorld(t, nil)
	loc := "http://x.evil.example/a?b=c"
	page := base64.RawURLEncoding.EncodeToString([]byte("<p>hello</p>"))
	tests := []struct {
		verb, method, body string
		query              url.Values
		status             int
		want               string
	}{
		{paths.Heartbeat, "GET", "", nil, 200, ""},
		{paths.Heartbeat, "DELETE", "", nil, 200, ""},
		{paths.Redirect, "GET", "", url.Values{paths.QueryTo: {loc}}, 302, ""},
		{paths.Redirect, "GET", "", url.Values{paths.QueryTo: {loc}, paths.QueryStatus: {"307"}}, 307, ""},
		{paths.Redirect, "GET", "", url.Values{paths.QueryTo: {loc}, paths.QueryStatus: {"200"}}, 302, ""},
		{paths.Reflect, "GET", "", url.Values{paths.QueryBody: {page}}, 200, "<p>hello</p>"},
		{paths.Sink, "POST", "12345", nil, 201, "stored 5 bytes"},
		{paths.Socket, "GET", "", nil, 426, ""},
	}
	for i, tc := range tests {
		for _, scheme := range []string{"http", "https"} {
			t.Run(scheme+"/"+tc.verb, func(t *testing.T) {
				w.t = t
				resp, body := w.get(tc.method, scheme+"://"+allowedHost+paths.Build("/prefix/", tc.verb, nonceN(i), tc.query), tc.body)
				if resp.StatusCode != tc.status || !strings.Contains(body, tc.want) || !strings.HasSuffix(body, proofN(i)+"\n") {
					t.Errorf("%d %q, want %d, %q and the proof", resp.StatusCode, body, tc.status, tc.want)
				}
				if tc.verb == paths.Redirect && resp.Header.Get("Location") != loc {
					t.Errorf("Location %q", resp.Header.Get("Location"))
				}
				if resp.Header.Get(headerWitness) != proofN(i) {
					t.Errorf("%s: %q", headerWitness, resp.Header.Get(headerWitness))
				}
			})
		}
	}
}

// Whatever the encoding, what was echoed can be found in the answer.
func TestEcho(t *testing.T) {
	w := newTestWorld(t, nil)
	encodings := []string{"", paths.EncodingRaw, paths.EncodingBase64, paths.EncodingBase641, paths.EncodingBase642, paths.EncodingURL64,
		paths.EncodingHex, paths.EncodingPercent, paths.EncodingJSON, paths.EncodingReverse, paths.EncodingSplit, paths.EncodingGzip, paths.EncodingDots,
		paths.EncodingHeader, paths.EncodingError, paths.EncodingTrailer}
	secret := canary.Derive([]byte("echo"))
	for i, enc := range encodings {
		for _, scheme := range []string{"http", "https"} {
			t.Run(scheme+"/"+enc, func(t *testing.T) {
				w.t = t
				q := url.Values{}
				if enc != "" {
					q.Set(paths.QueryEncoding, enc)
				}
				req, err := http.NewRequest("GET", scheme+"://"+allowedHost+paths.Build("", paths.Echo, nonceN(i), q), nil)
				if err != nil {
					t.Fatal(err)
				}
				req.Header.Set("Authorization", "Bearer "+secret)
				req.Header.Set("Accept-Encoding", "identity") // so that the transport decodes nothing
				resp, err := w.client().Do(req)
				if err != nil {
					t.Fatal(err)
				}
				defer resp.Body.Close()
				var all bytes.Buffer
				if _, err := io.Copy(&all, resp.Body); err != nil {
					t.Fatal(err)
				}
				_ = resp.Header.Write(&all)
				_ = resp.Trailer.Write(&all)
				if got := canary.Find(all.Bytes()); len(got) != 1 || got[0] != canary.Digest(secret) {
					t.Errorf("echo %q does not hold the credential", all.String())
				}
				if enc != paths.EncodingGzip && nonce.FindProof(all.Bytes()) == "" || resp.Header.Get(headerWitness) != proofN(i) {
					t.Error("no proof")
				}
				if want := map[string]int{paths.EncodingError: 500}[enc]; want != 0 && resp.StatusCode != want {
					t.Errorf("status %d", resp.StatusCode)
				}
				if enc == paths.EncodingTrailer && resp.Trailer.Get("X-Echo") != "Bearer "+secret {
					t.Errorf("trailer %v", resp.Trailer)
				}
			})
		}
		o := w.arrived(nonceN(i), paths.ServiceAllowed)
		if len(o) == 0 || len(o[0].Obtained) != 1 || o[0].Obtained[0] != canary.Digest(secret) {
			t.Errorf("%s: the witness did not see the credential arrive: %+v", enc, o)
		}
	}
	line, err := json.Marshal(w.Observations())
	if err != nil || strings.Contains(string(line), secret) {
		t.Errorf("an observation holds a canary in clear (%v)", err)
	}
}

func TestTrace(t *testing.T) {
	w := newTestWorld(t, nil)
	resp, body := w.get("TRACE", "http://"+allowedHost+"/"+nonceN(1), "", "Authorization", "Bearer abc")
	if resp.StatusCode != 200 || !strings.Contains(body, "Authorization: Bearer abc\n") || !strings.Contains(body, proofN(1)) {
		t.Errorf("%d %q", resp.StatusCode, body)
	}
}

// What RFC 9112 tells a server to refuse is taken here, so that a request which
// smuggles another past a proxy finds a server that takes the bait.
func TestSmuggling(t *testing.T) {
	w := newTestWorld(t, nil)
	tests := []struct{ name, head, body string }{
		{"two lengths", "Content-Length: 0\r\nContent-Length: IN\r\n", "INNER"},
		{"length and chunked", "Content-Length: 999\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\nINNER"},
		{"disguised chunked", "Content-Length: 999\r\nTransfer-Encoding: \x0bchunked\r\n", "0\r\n\r\nINNER"},
		{"chunked with a blank before the colon", "Content-Length: 999\r\nTransfer-Encoding : xchunked\r\n", "0\r\n\r\nINNER"},
		{"chunk extension over a bare LF", "Transfer-Encoding: chunked\r\n", "2;\nxx\r\n40\r\n0\r\n\r\nINNER"},
	}
	for i, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			w.t = t
			c := w.dial(at(allowedHost, 80))
			inner := fmt.Sprintf("GET /wp/heartbeat/%s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", nonceN(i), evilHost)
			body := strings.Replace(tc.body, "INNER", inner, 1)
			head := strings.Replace(tc.head, "IN", fmt.Sprint(len(inner)), 1)
			go func() { _, _ = fmt.Fprintf(c, "POST /outer HTTP/1.1\r\nHost: %s\r\n%s\r\n%s", allowedHost, head, body) }()
			br := bufio.NewReader(c)
			for range 2 {
				resp, err := http.ReadResponse(br, nil)
				if err != nil {
					t.Fatal(err)
				}
				b, err := io.ReadAll(resp.Body)
				if err != nil {
					t.Fatal(err)
				}
				body = string(b)
			}
			if !strings.Contains(body, proofN(i)) {
				t.Errorf("second answer %q", body)
			}
			o := w.arrived(nonceN(i), paths.ServiceCollector)
			if len(o) > 0 && o[0].Host != evilHost {
				t.Errorf("host %q", o[0].Host)
			}
		})
	}
}

func TestLastHostCounts(t *testing.T) {
	w := newTestWorld(t, nil)
	c := w.dial(at(allowedHost, 80))
	fmt.Fprintf(c, "GET /%s HTTP/1.1\r\nHost: %s\r\nHost: %s\r\nConnection: close\r\n\r\n", nonceN(1), allowedHost, evilHost)
	if b, err := io.ReadAll(c); err != nil || !strings.Contains(string(b), proofN(1)) {
		t.Errorf("%q %v", b, err)
	}
	w.arrived(nonceN(1), paths.ServiceCollector)
}

// A request that not even a lenient server takes is recorded all the same.
func TestBrokenRequests(t *testing.T) {
	w := newTestWorld(t, nil)
	for i, text := range []string{
		"GET /%s HTTP/1.1\r\nHost: x\r\n",                                              // cut short in the header
		"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n%s",                 // cut short in the body
		"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n%s\r\n", // no chunk
	} {
		c := w.dial(at(evilHost, 80))
		fmt.Fprintf(c, text, nonceN(i))
		_ = c.Close()
		w.arrived(nonceN(i), paths.ServiceCollector)
	}
}

func TestSocket(t *testing.T) {
	w := newTestWorld(t, nil)
	c := w.dial(at(evilHost, 80))
	fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: %s\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
		paths.Build("", paths.Socket, nonceN(1), nil), evilHost)
	br := bufio.NewReader(c)
	resp, err := http.ReadResponse(br, nil)
	if err != nil || resp.StatusCode != 101 || resp.Header.Get("Sec-Websocket-Accept") != "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=" {
		t.Fatalf("%v %+v", err, resp)
	}
	frame, err := readFrame(br)
	if err != nil || string(frame) != proofN(1) {
		t.Fatalf("frame %q, %v", frame, err)
	}
	// A client's frame is masked, so that only the service can read it.
	text := []byte("take " + nonceN(2))
	mask := [4]byte{1, 2, 3, 4}
	for i := range text {
		text[i] ^= mask[i%4]
	}
	if _, err := c.Write(append(append([]byte{0x81, 0x80 | byte(len(text))}, mask[:]...), text...)); err != nil {
		t.Fatal(err)
	}
	if frame, err = readFrame(br); err != nil || string(frame) != proofN(2) {
		t.Fatalf("frame %q, %v", frame, err)
	}
	w.arrived(nonceN(1), paths.ServiceCollector)
	w.arrived(nonceN(2), paths.ServiceCollector)
}

func TestExpectContinue(t *testing.T) {
	w := newTestWorld(t, nil)
	c := w.dial(at(evilHost, 80))
	fmt.Fprintf(c, "POST /x HTTP/1.1\r\nHost: %s\r\nExpect: 100-continue\r\nContent-Length: %d\r\nConnection: close\r\n\r\n", evilHost, len(nonceN(1)))
	br := bufio.NewReader(c)
	line, err := br.ReadString('\n')
	if err != nil || line != "HTTP/1.1 100 Continue\r\n" {
		t.Fatalf("%q %v", line, err)
	}
	if _, err := io.WriteString(c, nonceN(1)); err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(br); err != nil || !strings.Contains(string(b), proofN(1)) {
		t.Errorf("%q %v", b, err)
	}
}

func TestDNSOverHTTPS(t *testing.T) {
	w := newTestWorld(t, nil)
	q := new(dns.Msg)
	q.SetQuestion(nonceN(1)+".evil.example.", dns.TypeTXT)
	raw, err := q.Pack()
	if err != nil {
		t.Fatal(err)
	}
	for i, ask := range []func() (*http.Response, string){
		func() (*http.Response, string) {
			return w.get("POST", "https://dns.google/dns-query", string(raw), "Content-Type", dohType)
		},
		func() (*http.Response, string) {
			return w.get("GET", "https://dns.google/dns-query?dns="+base64.RawURLEncoding.EncodeToString(raw), "")
		},
	} {
		resp, body := ask()
		r := new(dns.Msg)
		if err := r.Unpack([]byte(body)); err != nil || resp.Header.Get("Content-Type") != dohType {
			t.Fatalf("%d: %v %v", i, err, resp.Header)
		}
		if txt, ok := r.Answer[0].(*dns.TXT); !ok || txt.Txt[0] != proofN(1) {
			t.Errorf("answer %v", r.Answer)
		}
	}
	w.arrived(nonceN(1), paths.ServiceCollector)
}

func TestMetadataServices(t *testing.T) {
	w := newTestWorld(t, nil)
	tests := []struct {
		name, method, url, key, value string
		status                        int
		secret                        bool
	}{
		{"AWS v1", "GET", "http://169.254.169.254/latest/meta-data/iam/security-credentials/wallproof-role", "", "", 200, true},
		{"AWS token without TTL", "PUT", "http://169.254.169.254/latest/api/token", "", "", 400, false},
		{"AWS token", "PUT", "http://169.254.169.254/latest/api/token", "X-aws-ec2-metadata-token-ttl-seconds", "60", 200, false},
		{"AWS v2", "GET", "http://169.254.169.254/latest/meta-data/iam/security-credentials/wallproof-role", "X-aws-ec2-metadata-token", awsToken, 200, true},
		{"AWS v2 with a wrong token", "GET", "http://169.254.169.254/latest/meta-data/", "X-aws-ec2-metadata-token", "nope", 401, false},
		{"AWS over IPv6", "GET", "http://[fd00:ec2::254]/latest/user-data", "", "", 200, true},
		{"ECS", "GET", "http://169.254.170.2/v2/credentials/0", "", "", 200, true},
		{"EKS", "GET", "http://169.254.170.23/v1/credentials", "Authorization", "x", 200, true},
		{"GCP", "GET", "http://169.254.169.254/computeMetadata/v1/instance/service-accounts/default/token", "Metadata-Flavor", "Google", 200, true},
		{"GCP without the header", "GET", "http://169.254.169.254/computeMetadata/v1/instance/service-accounts/default/token", "", "", 403, false},
		{"Azure", "GET", "http://169.254.169.254/metadata/identity/oauth2/token?api-version=2018-02-01&resource=x", "Metadata", "true", 200, true},
		{"Azure without the header", "GET", "http://169.254.169.254/metadata/identity/oauth2/token", "", "", 400, false},
		{"Azure wire server", "GET", "http://168.63.129.16/machine?comp=goalstate", "", "", 200, true},
		{"OpenStack", "GET", "http://169.254.169.254/openstack/latest/meta_data.json", "", "", 200, true},
		{"Alibaba", "GET", "http://100.100.100.200/latest/meta-data/ram/security-credentials/wallproof-role", "", "", 200, true},
		{"Tencent", "GET", "http://169.254.0.23/latest/meta-data/cam/security-credentials/wallproof-role", "", "", 200, true},
		{"Oracle", "GET", "http://169.254.169.254/opc/v2/instance/", "Authorization", "Bearer Oracle", 200, true},
		{"Oracle without the header", "GET", "http://169.254.169.254/opc/v2/instance/", "", "", 404, false},
		{"DigitalOcean", "GET", "http://169.254.169.254/metadata/v1.json", "", "", 200, true},
		{"Volcengine", "GET", "http://100.96.0.96/volcstack/latest/iam/security_credentials/wallproof-role", "", "", 200, true},
		{"anything", "GET", "http://169.254.169.254/", "", "", 200, false},
	}
	for i, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			w.t = t
			header := []string{"X-Mark", nonceN(i)}
			if tc.key != "" {
				header = append(header, tc.key, tc.value)
			}
			resp, body := w.get(tc.method, tc.url, "", header...)
			if resp.StatusCode != tc.status || nonce.FindProof([]byte(body)) == "" || (len(canary.Find([]byte(body))) == 1) != tc.secret {
				t.Errorf("%d %q, want %d with the proof, secret %t", resp.StatusCode, body, tc.status, tc.secret)
			}
			w.arrived(nonceN(i), paths.ServiceMetadata)
		})
	}
}

// awsToken is the session token that the service hands out.
const awsToken = "wallproof-session-token"

func TestControlPlanes(t *testing.T) {
	w := newTestWorld(t, nil)
	for i, u := range []string{
		"http://192.168.65.254:2375/v1.41/containers/0/json", "http://10.0.0.1:10255/pods", "https://10.0.0.1:10250/pods",
		"http://10.0.0.1:2379/v2/keys/?recursive=true", "https://10.96.0.1:6443/api/v1/secrets",
	} {
		_, body := w.getInsecure(u + "?n=" + nonceN(i))
		if nonce.FindProof([]byte(body)) == "" || len(canary.Find([]byte(body))) != 1 {
			t.Errorf("%s: %q", u, body)
		}
		w.arrived(nonceN(i), paths.ServicePrivate)
	}
}

// getInsecure is get for addresses whose certificate names the address.
func (w *testWorld) getInsecure(u string) (*http.Response, string) {
	w.t.Helper()
	return w.get("GET", strings.Replace(u, "/?recursive=true?", "/?recursive=true&", 1), "")
}

func TestContent(t *testing.T) {
	w := newTestWorld(t, func(c *Config) {
		c.Pages = map[string]string{"/readme.html": "<p>do this</p>", allowedHost + "/own.txt": "own"}
		c.Issues = map[string]Issue{"acme/app#7": {Title: "Bug", Body: "please read"}}
		c.Packages = map[string]Package{"left-pad": {Description: "pads", Readme: "read me", Files: map[string]string{"index.js": "x"}}}
		c.Tools = []Tool{{Name: "look", Description: "looks", Output: "seen"}}
		c.Model.Replies = []string{"first", "last"}
		c.Forge.Repos = []Repo{{Name: "acme/app"}}
	})
	tests := []struct{ method, url, body, want string }{
		{"GET", "https://" + allowedHost + "/readme.html", "", "<p>do this</p>"},
		{"GET", "https://" + evilHost + "/readme.html", "", "<p>do this</p>"},
		{"GET", "https://" + allowedHost + "/own.txt", "", "own"},
		{"GET", "https://" + evilHost + "/own.txt", "", "the world answers"},
		{"GET", "https://" + forgeHost + "/repos/acme/app/issues/7", "", `"body":"please read"`},
		{"GET", "https://" + allowedHost + "/acme/app/issues/7", "", "please read"},
		{"GET", "https://" + registryHost + "/left-pad", "", `"readme":"read me"`},
		{"GET", "https://" + registryHost + "/simple/left-pad/", "", "pads"},
		{"PUT", "https://" + registryHost + "/left-pad", "{}", `"ok":true`},
		{"GET", "https://" + evilHost + "/left-pad", "", "the world answers"},
		{"POST", "https://" + allowedHost + "/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, `"description":"looks"`},
		{"POST", "https://" + allowedHost + "/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"look"}}`, `"text":"seen"`},
		{"POST", "https://" + modelHost + "/v1/chat/completions", `{"messages":[]}`, `"content":"first`},
		{"POST", "https://" + modelHost + "/v1/messages", `{"messages":[]}`, `"text":"last`},
		{"POST", "https://" + modelHost + "/v1/messages", `{"stream":true}`, "event: message_stop"},
		{"POST", "https://" + modelHost + "/v1/chat/completions", `{"stream":true}`, "data: [DONE]"},
		{"POST", "https://" + modelHost + "/v1/responses", `{}`, `"output_text"`},
		{"GET", "https://" + forgeHost + "/acme/app.git/info/refs?service=git-upload-pack", "", "refs/heads/main"},
	}
	for i, tc := range tests {
		t.Run(tc.url, func(t *testing.T) {
			w.t = t
			resp, body := w.get(tc.method, tc.url, tc.body, "X-Mark", nonceN(i))
			if resp.StatusCode/100 != 2 || !strings.Contains(body, tc.want) || resp.Header.Get(headerWitness) != proofN(i) {
				t.Errorf("%d %q, want %q", resp.StatusCode, body, tc.want)
			}
		})
	}
}

func TestHostedSearch(t *testing.T) {
	w := newTestWorld(t, nil)
	for i, body := range []string{
		`{"tools":[{"type":"web_search_20250305","name":"web_search"}]}`, `{"tools":[{"type":"web_search_preview"}]}`,
		`{"web_search_options":{}}`, `{"model":"x:online"}`, `{"plugins":[{"id":"web"}]}`, `{"tools":[{"google_search":{}}]}`,
	} {
		w.get("POST", "https://"+modelHost+"/v1/messages", body, "X-Mark", nonceN(i))
		w.arrived(nonceN(i), ServiceModelSearch)
	}
	w.get("POST", "https://"+modelHost+"/v1/messages", `{"tools":[{"name":"web_search_of_mine","input_schema":{}}]}`, "X-Mark", nonceN(50))
	w.arrived(nonceN(50), paths.ServiceModel)
}

func TestForgeBreach(t *testing.T) {
	w := newTestWorld(t, func(c *Config) {
		c.Forge = Forge{Repos: []Repo{{Name: "acme/app"}}, FullTokens: []string{"full"}}
	})
	w.get("POST", "https://"+forgeHost+"/gists", `{"files":{}}`, "X-Mark", nonceN(1))
	w.arrived(nonceN(1), paths.ServiceForge)
	w.get("POST", "https://"+forgeHost+"/gists", `{"files":{}}`, "X-Mark", nonceN(2), "Authorization", "token full")
	w.arrived(nonceN(2), ServiceForgeBreach)
	w.get("POST", "https://"+forgeHost+"/acme/app.git/git-receive-pack", pushOf("refs/heads/"+nonceN(3)), "Authorization", "token full")
	w.arrived(nonceN(3), ServiceForgeBreach)
	if p := w.Pushes(); len(p) != 1 || !p[0].Breach || p[0].Lease != forge.LeaseFull || len(p[0].Nonces) != 1 {
		t.Errorf("pushes %+v", p)
	}
}

// pushOf deletes a ref that does not exist, which the forge takes.
func pushOf(ref string) string {
	zero := strings.Repeat("0", 40)
	line := zero + " " + zero + " " + ref + "\x00 report-status"
	return fmt.Sprintf("%04x%s0000", len(line)+4, line)
}

func TestOversizedBody(t *testing.T) {
	w := newTestWorld(t, nil)
	for i, scheme := range []string{"http", "https"} {
		resp, _ := w.get("POST", scheme+"://"+evilHost+"/"+nonceN(i), strings.Repeat("x", maxBody+10))
		if scheme == "http" && resp.StatusCode != http.StatusRequestEntityTooLarge {
			t.Errorf("%s: status %d", scheme, resp.StatusCode)
		}
		w.arrived(nonceN(i), paths.ServiceCollector)
	}
}

func TestHTTP2WithoutTLS(t *testing.T) {
	w := newTestWorld(t, nil)
	p := new(http.Protocols)
	p.SetUnencryptedHTTP2(true)
	c := w.client()
	tr := c.Transport.(*http.Transport)
	tr.Protocols, tr.TLSClientConfig = p, &tls.Config{}
	resp, err := c.Get("http://" + allowedHost + "/" + nonceN(1))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.ProtoMajor != 2 || !strings.Contains(string(body), proofN(1)) {
		t.Errorf("HTTP/%d %q %v", resp.ProtoMajor, body, err)
	}
	w.arrived(nonceN(1), paths.ServiceAllowed)
}
