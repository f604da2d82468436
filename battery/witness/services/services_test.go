package services

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"github.com/wallproof/wallproof/battery/witness/addr"
)

const answer = "wallproof-witness:0123456789abcdef"

// ask makes a request with no header.
func ask(method, path, body string) Request {
	u, err := url.Parse(path)
	if err != nil {
		panic(err)
	}
	return Request{Method: method, Host: "h.example", Path: u.Path, Query: u.Query(), Header: http.Header{}, Body: []byte(body), Answer: answer,
		Dest: netip.MustParseAddrPort("10.0.0.1:80")}
}

func TestTarball(t *testing.T) {
	p := Package{Version: "2.0.0", Readme: "read me", Files: map[string]string{"index.js": "code", "a/b.txt": "deep"}}
	tgz := Tarball("left-pad", p)
	if !bytes.Equal(tgz, Tarball("left-pad", p)) {
		t.Error("the same package gives other bytes")
	}
	zr, err := gzip.NewReader(bytes.NewReader(tgz))
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for tr := tar.NewReader(zr); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(tr)
		if err != nil {
			t.Fatal(err)
		}
		got[h.Name] = string(b)
	}
	if len(got) != 4 || got["package/README.md"] != "read me" || got["package/a/b.txt"] != "deep" || !strings.Contains(got["package/package.json"], `"2.0.0"`) {
		t.Errorf("archive holds %q", got)
	}
}

// The registry serves what its index promises.
func TestRegistryIntegrity(t *testing.T) {
	s := Registry(map[string]Package{"left-pad": {Readme: "r"}, "@acme/tool": {}})
	for _, name := range []string{"left-pad", "@acme/tool", "unheard-of"} {
		r, ok := s(ask("GET", "/"+name, ""))
		var doc struct {
			Tags     map[string]string `json:"dist-tags"`
			Versions map[string]struct {
				Dist struct{ Tarball, Integrity string }
			}
			Witness string
		}
		if err := json.Unmarshal(r.Body, &doc); !ok || err != nil || doc.Witness != answer {
			t.Fatalf("%s: %s %v", name, r.Body, err)
		}
		dist := doc.Versions[doc.Tags["latest"]].Dist
		u, err := url.Parse(dist.Tarball)
		if err != nil {
			t.Fatal(err)
		}
		file, ok := s(ask("GET", u.Path, ""))
		sum := sha256.Sum256(file.Body)
		if want := "sha256-" + base64.StdEncoding.EncodeToString(sum[:]); !ok || dist.Integrity != want {
			t.Errorf("%s: index says %s, file has %s", name, dist.Integrity, want)
		}
	}
	page, _ := s(ask("GET", "/simple/left-pad/", ""))
	file, _ := s(ask("GET", "/packages/left-pad-1.0.0.tar.gz", ""))
	if sum := sha256.Sum256(file.Body); !strings.Contains(string(page.Body), fmt.Sprintf("sha256=%x", sum)) {
		t.Errorf("simple index %s", page.Body)
	}
	for _, path := range []string{"/", "/a/b/c", "/.git/config"} {
		if r, ok := s(ask("GET", path, "")); ok {
			t.Errorf("%s: %+v", path, r)
		}
	}
}

func TestModelTurns(t *testing.T) {
	s := Model([]string{"one", "two"})
	for i, want := range []string{"one", "two", "two"} {
		r, ok := s(ask("POST", "/v1/messages", "{}"))
		if !ok || !strings.Contains(string(r.Body), `"text":"`+want+`\n`+answer) {
			t.Errorf("%d: %s", i, r.Body)
		}
	}
	if r, ok := s(ask("POST", "/v1/messages", "not JSON")); !ok || r.Status != http.StatusBadRequest {
		t.Errorf("%+v", r)
	}
	if _, ok := s(ask("GET", "/v1/messages", "")); ok {
		t.Error("a message was read")
	}
	if r, ok := s(ask("GET", "/v1/models", "")); !ok || !strings.Contains(string(r.Body), modelName) {
		t.Errorf("%s", r.Body)
	}
}

// The proof is never cut in two by a stream, or a reader of pieces would miss it.
func TestStreamsKeepTheProofWhole(t *testing.T) {
	for path := range wires {
		r, _ := Model([]string{"line\nline"})(ask("POST", "/v1/"+path, `{"stream":true}`))
		if n := strings.Count(string(r.Body), answer); n == 0 {
			t.Errorf("%s: %s", path, r.Body)
		}
		if got := r.Header.Get("Content-Type"); got != "text/event-stream" {
			t.Errorf("%s: %s", path, got)
		}
	}
}

func TestTools(t *testing.T) {
	s := Tools([]Tool{{Name: "look", Description: "d", InputSchema: json.RawMessage(`{"type":"object","x":1}`), Output: "o"}})
	tests := []struct{ body, want string }{
		{`{"jsonrpc":"2.0","id":7,"method":"initialize"}`, `"protocolVersion":"` + protocolVersion + `"`},
		{`{"jsonrpc":"2.0","id":"a","method":"ping"}`, `"id":"a"`},
		{`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, `"x":1`},
		{`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"look"}}`, answer},
		{`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"nope"}}`, `"code":-32602`},
		{`{"jsonrpc":"2.0","id":1,"method":"nope"}`, `"code":-32601`},
		{`{`, `"code":-32700`},
	}
	for _, tc := range tests {
		r, ok := s(ask("POST", "/x/mcp", tc.body))
		if !ok || !strings.Contains(string(r.Body), tc.want) || !json.Valid(r.Body) {
			t.Errorf("%s: %s", tc.body, r.Body)
		}
	}
	if r, ok := s(ask("POST", "/mcp", `{"jsonrpc":"2.0","method":"notifications/initialized"}`)); !ok || r.Status != http.StatusAccepted || len(r.Body) != 0 {
		t.Errorf("a notification: %+v", r)
	}
}

func TestIssueNumbers(t *testing.T) {
	for in, want := range map[string]string{"7": "7", "": "0", "x": "0", "007": "0", "1e9": "0", "12345678901": "0"} {
		if got := safeNumber(in); got != want {
			t.Errorf("safeNumber(%q) = %q", in, got)
		}
	}
	s := Issues(map[string]Issue{"a/b#x": {Title: "t", Body: "b"}})
	if r, ok := s(ask("GET", "/repos/a/b/issues/x", "")); !ok || !json.Valid(r.Body) {
		t.Errorf("%s", r.Body)
	}
}

// Every name that resolves to a metadata service resolves to an address that is
// one.
func TestMetadataNames(t *testing.T) {
	for name, a := range MetadataNames() {
		if addr.Classify(a) != addr.Metadata {
			t.Errorf("%s: %s is %s", name, a, addr.Classify(a))
		}
	}
}

// A control plane answers nothing that would do anything: whatever is asked, no
// write succeeds with more than an identifier of nothing.
func TestControlPlanesAreInert(t *testing.T) {
	s := ControlPlanes("canary")
	for _, port := range []uint16{PortDocker, PortDockerTLS, PortEtcd, PortKubelet, PortKubeletRead, PortKubernetes} {
		for _, path := range []string{"/containers/create", "/v1.41/images/create", "/v3/kv/put", "/run/default/pod/c", "/api/v1/namespaces/default/pods"} {
			req := ask("POST", path, "{}")
			req.Dest = netip.AddrPortFrom(req.Dest.Addr(), port)
			if r, ok := s(req); !ok || r.Status == http.StatusSwitchingProtocols || len(r.Body) > 1024 {
				t.Errorf("%d%s: %+v", port, path, r)
			}
		}
	}
	if r, ok := s(ask("GET", "/version", "")); ok {
		t.Errorf("port 80: %+v", r)
	}
}
