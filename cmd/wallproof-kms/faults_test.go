package main

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wallproof/wallproof/attest"
	"github.com/wallproof/wallproof/attest/kms"
	"github.com/wallproof/wallproof/attest/packettest"
	"github.com/wallproof/wallproof/verify"
)

// keyring is what the servers of the tests hold: versions of one key, and what
// goes wrong with requests for signatures.
type keyring struct {
	mu       sync.Mutex
	versions []*ecdsa.PrivateKey
	status   int    // of answers to requests for a signature, 0 for the right one; −1 drops the connection
	wait     string // Retry-After of those answers
	asked    int
}

func newKeyring(t *testing.T) *keyring { return &keyring{versions: []*ecdsa.PrivateKey{mustKey(t)}} }

func (k *keyring) rotate(t *testing.T) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.versions = append(k.versions, mustKey(t))
}

func (k *keyring) fail(status int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.status, k.asked = status, 0
}

// refuses answers a request for a signature with the fault that is set.
func (k *keyring) refuses(w http.ResponseWriter, body string) bool {
	k.asked++
	switch {
	case k.status < 0:
		k.mu.Unlock()
		defer k.mu.Lock()
		panic(http.ErrAbortHandler)
	case k.status > 0:
		if k.wait != "" {
			w.Header().Set("Retry-After", k.wait)
		}
		w.WriteHeader(k.status)
		_, _ = w.Write([]byte(body))
		return true
	}
	return false
}

func answerJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v)
}

// named is the helper's folder, with the helper under the name of a scheme.
func named(t *testing.T, scheme string) string {
	t.Helper()
	dir, err := helper()
	if err != nil {
		t.Fatal(err)
	}
	err = os.Link(filepath.Join(dir, "sigstore-kms-gcpkms"), filepath.Join(dir, "sigstore-kms-"+scheme))
	if err != nil && !errors.Is(err, os.ErrExist) {
		t.Fatal(err)
	}
	return dir
}

func openNamed(t *testing.T, ref string) (attest.Signer, error) {
	t.Helper()
	scheme, _, _ := strings.Cut(ref, "://")
	return kms.Open(context.Background(), ref, named(t, scheme))
}

// testKeyService signs with a key in a service: the version is recorded, a
// signature outlives a rotation, and a service that refuses, is busy or drops
// connections gives an error after a bounded number of attempts, and no signature.
func testKeyService(t *testing.T, ring *keyring, ref, first, second string) {
	t.Helper()
	scheme, _, _ := strings.Cut(ref, "://")
	dir := named(t, scheme)
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	open := func() attest.Signer {
		t.Helper()
		k, err := kms.Open(ctx, ref, dir)
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	p := packettest.New(t, packettest.Unsigned(), packettest.Catalogue(few()))
	sign := func(k attest.Signer) attest.Result {
		t.Helper()
		r, err := attest.Sign(ctx, p.Files, attest.Options{Signer: k, Catalogue: few(), Clock: func() time.Time { return packettest.Now }})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	check := func(r attest.Result, key crypto.PublicKey, name string) {
		t.Helper()
		in := verify.Input{Packet: p.Files, Bundle: r.Bundle, Trust: verify.Trust{Key: key}, At: packettest.Now, Catalogue: few(), WithoutRerun: true}
		report := verify.Verify(in)
		if report.Verdict != verify.Valid || !strings.HasPrefix(report.Signer.Key, name+"#sha256:") {
			t.Errorf("%s, key %s, want %s: %v", report.Verdict, report.Signer.Key, name, report.Failed())
		}
	}
	old := sign(open())
	check(old, ring.versions[0].Public(), first)
	ring.rotate(t)
	check(old, ring.versions[0].Public(), first)
	k := open()
	check(sign(k), ring.versions[1].Public(), second)
	for _, status := range []int{http.StatusForbidden, http.StatusUnauthorized, http.StatusTooManyRequests, http.StatusInternalServerError, -1} {
		ring.fail(status)
		if _, err := attest.SignStatement(ctx, []byte("{}"), k); !errors.Is(err, kms.ErrService) {
			t.Errorf("status %d: %v", status, err)
		}
		if ring.asked == 0 || ring.asked > 12 {
			t.Errorf("status %d: asked %d times", status, ring.asked)
		}
	}
	// A service that asks to wait for a day is not waited for.
	for _, wait := range []string{"86400", "9223372036854775807", time.Now().Add(24 * time.Hour).UTC().Format(http.TimeFormat)} {
		ring.fail(http.StatusTooManyRequests)
		ring.wait = wait
		soon, cancel := context.WithTimeout(ctx, 5*time.Second)
		if _, err := attest.SignStatement(soon, []byte("{}"), k); !errors.Is(err, kms.ErrService) || strings.Contains(err.Error(), "killed") {
			t.Errorf("Retry-After %s: %v", wait, err)
		}
		cancel()
		if ring.asked == 0 || ring.asked > 12 {
			t.Errorf("Retry-After %s: asked %d times", wait, ring.asked)
		}
	}
	ring.wait = ""
	ring.fail(0)
	// A service that signs with another key than it has told is not believed.
	ring.mu.Lock()
	ring.versions[1] = mustKey(t)
	ring.mu.Unlock()
	if _, err := attest.SignStatement(ctx, []byte("{}"), k); !errors.Is(err, kms.ErrService) {
		t.Errorf("another key's signature: %v", err)
	}
	if _, err := kms.Open(ctx, strings.Replace(ref, "/wallproof", "/nosuch", 1), dir); !errors.Is(err, kms.ErrService) {
		t.Errorf("a key that is not there: %v", err)
	}
}
