//go:build stack

package main

import (
	"bytes"
	"context"
	"crypto"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/wallproof/wallproof/attest"
	"github.com/wallproof/wallproof/attest/keyfile"
	"github.com/wallproof/wallproof/attest/kms"
	"github.com/wallproof/wallproof/attest/packettest"
	"github.com/wallproof/wallproof/attest/stacktest"
	"github.com/wallproof/wallproof/verify"
)

const baoToken = "wallproof-test-root"

// bao is a real OpenBao server in its development mode: everything in memory, on
// this machine alone.
type bao struct {
	t    *testing.T
	addr string
}

// startBao starts the server, or returns nil where it was not built.
func startBao(t *testing.T) *bao {
	t.Helper()
	binary := stacktest.Optional(t, "bao")
	if binary == "" {
		return nil
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at := l.Addr().String()
	l.Close()
	var log bytes.Buffer
	cmd := exec.Command(binary, "server", "-dev", "-dev-no-store-token", "-dev-listen-address="+at, "-dev-root-token-id="+baoToken)
	cmd.Env, cmd.Stdout, cmd.Stderr = []string{"HOME=" + t.TempDir(), "PATH=/usr/bin:/bin"}, &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	b := &bao{t, "http://" + at}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) { // a poll with a deadline
		resp, err := http.Get(b.addr + "/v1/sys/health")
		if err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return b
			}
		}
		if time.Now().After(deadline) {
			t.Fatalf("the server does not answer: %v\n%s", err, log.String())
		}
	}
}

// do asks the server as root and returns the answer's data.
func (b *bao) do(method, path string, body any) map[string]any {
	b.t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		b.t.Fatal(err)
	}
	req, err := http.NewRequest(method, b.addr+"/v1/"+path, bytes.NewReader(text))
	if err != nil {
		b.t.Fatal(err)
	}
	req.Header.Set("X-Vault-Token", baoToken)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		b.t.Fatal(err)
	}
	defer resp.Body.Close()
	var out struct {
		Data   map[string]any `json:"data"`
		Auth   map[string]any `json:"auth"`
		Errors []string       `json:"errors"`
	}
	if resp.StatusCode != http.StatusNoContent {
		if err := json.NewDecoder(resp.Body).Decode(&out); err != nil {
			b.t.Fatalf("%s: %v", path, err)
		}
	}
	if resp.StatusCode >= 300 {
		b.t.Fatalf("%s %s: %s %v", method, path, resp.Status, out.Errors)
	}
	if out.Auth != nil {
		return out.Auth
	}
	return out.Data
}

// public is a version of a key, as the server itself has it.
func (b *bao) public(key, version string) crypto.PublicKey {
	b.t.Helper()
	keys, _ := b.do("GET", "transit/keys/"+key, nil)["keys"].(map[string]any)
	one, _ := keys[version].(map[string]any)
	text, _ := one["public_key"].(string)
	k, err := keyfile.ParsePublicKey([]byte(text))
	if err != nil {
		b.t.Fatalf("version %s of %s: %v", version, key, err)
	}
	return k
}

// The transit engine of a real server signs; what it signed verifies offline after
// a rotation too, and the version is recorded. A policy that grants signing alone is
// not enough to rotate, and a revoked token signs nothing.
func TestOpenBao(t *testing.T) {
	b := startBao(t)
	if b == nil {
		t.Log("not run: OpenBao is not built; run: make stack ALL=1")
		return
	}
	b.do("POST", "sys/mounts/transit", map[string]string{"type": "transit"})
	const policy = `path "transit/keys/wallproof" { capabilities = ["read"] } path "transit/sign/wallproof/*" { capabilities = ["update"] }`
	b.do("PUT", "sys/policies/acl/signer", map[string]string{"policy": policy})
	token, _ := b.do("POST", "auth/token/create", map[string]any{"policies": []string{"signer"}, "ttl": "10m"})["client_token"].(string)
	t.Setenv("VAULT_ADDR", b.addr)
	t.Setenv("VAULT_TOKEN", token)
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	for _, kind := range []string{"ecdsa-p256", "rsa-2048"} {
		b.do("POST", "transit/keys/wallproof", map[string]any{"type": kind})
		b.signs(ctx, kind)
		b.do("POST", "transit/keys/wallproof/config", map[string]any{"deletion_allowed": true})
		b.do("DELETE", "transit/keys/wallproof", nil)
	}
	b.do("POST", "transit/keys/wallproof", map[string]any{"type": "ecdsa-p256"})
	k, err := openNamed(t, "hashivault://wallproof")
	if err != nil {
		t.Fatal(err)
	}
	b.do("POST", "auth/token/revoke", map[string]string{"token": token})
	if _, err := attest.SignStatement(ctx, []byte("{}"), k); !errors.Is(err, kms.ErrService) {
		t.Errorf("signed with a revoked token: %v", err)
	}
	if _, err := openNamed(t, "hashivault://wallproof"); !errors.Is(err, kms.ErrService) {
		t.Errorf("opened with a revoked token: %v", err)
	}
}

// signs signs a packet under both names of the service, and again after a rotation.
func (b *bao) signs(ctx context.Context, kind string) {
	t := b.t
	t.Helper()
	p := packettest.New(t, packettest.Unsigned(), packettest.Catalogue(few()))
	check := func(r attest.Result, version, scheme string) {
		t.Helper()
		in := verify.Input{Packet: p.Files, Bundle: r.Bundle, Trust: verify.Trust{Key: b.public("wallproof", version)}, At: packettest.Now, Catalogue: few(), WithoutRerun: true}
		report := verify.Verify(in)
		if want := scheme + "://wallproof?version=" + version + "#sha256:"; report.Verdict != verify.Valid || !strings.HasPrefix(report.Signer.Key, want) {
			t.Errorf("%s: %s, key %s, want %s: %v", kind, report.Verdict, report.Signer.Key, want, report.Failed())
		}
	}
	sign := func(scheme string) attest.Result {
		t.Helper()
		k, err := openNamed(t, scheme+"://wallproof")
		if err != nil {
			t.Fatalf("%s: %v", kind, err)
		}
		r, err := attest.Sign(ctx, p.Files, attest.Options{Signer: k, Catalogue: few(), Clock: func() time.Time { return packettest.Now }})
		if err != nil {
			t.Fatalf("%s: %v", kind, err)
		}
		return r
	}
	old := sign("hashivault")
	check(old, "1", "hashivault")
	check(sign("openbao"), "1", "openbao")
	b.do("POST", "transit/keys/wallproof/rotate", nil)
	check(old, "1", "hashivault")
	check(sign("hashivault"), "2", "hashivault")
}
