package main

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"hash/crc32"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"cloud.google.com/go/kms/apiv1/kmspb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/wallproof/wallproof/attest"
	"github.com/wallproof/wallproof/attest/kms"
	"github.com/wallproof/wallproof/attest/packettest"
	"github.com/wallproof/wallproof/probes/catalog"
	"github.com/wallproof/wallproof/verify"
)

const testKey = "projects/p/locations/l/keyRings/r/cryptoKeys/k"

// service is Google's key service, over its real wire protocol.
type service struct {
	kmspb.UnimplementedKeyManagementServiceServer
	mu       sync.Mutex
	versions []*ecdsa.PrivateKey // version N is at N−1
	disabled map[int]bool
	fail     error // of every signature
	corrupt  bool  // damages public keys
}

func (s *service) rotate(t *testing.T) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.versions = append(s.versions, k)
}

func (s *service) set(fn func(*service)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fn(s)
}

func (s *service) version(n int) *kmspb.CryptoKeyVersion {
	state := kmspb.CryptoKeyVersion_ENABLED
	if s.disabled[n] {
		state = kmspb.CryptoKeyVersion_DISABLED
	}
	return &kmspb.CryptoKeyVersion{
		Name: fmt.Sprintf("%s/cryptoKeyVersions/%d", testKey, n), State: state,
		Algorithm: kmspb.CryptoKeyVersion_EC_SIGN_P256_SHA256, ProtectionLevel: kmspb.ProtectionLevel_HSM,
	}
}

// find returns the number and key of a version's name.
func (s *service) find(name string) (int, *ecdsa.PrivateKey, error) {
	n, err := strconv.Atoi(strings.TrimPrefix(name, testKey+"/cryptoKeyVersions/"))
	if err != nil || n < 1 || n > len(s.versions) {
		return 0, nil, status.Error(codes.NotFound, "no such version")
	}
	return n, s.versions[n-1], nil
}

func (s *service) GetCryptoKey(_ context.Context, r *kmspb.GetCryptoKeyRequest) (*kmspb.CryptoKey, error) {
	if r.Name != testKey {
		return nil, status.Error(codes.NotFound, "no such key")
	}
	return &kmspb.CryptoKey{Name: testKey, Purpose: kmspb.CryptoKey_ASYMMETRIC_SIGN,
		VersionTemplate: &kmspb.CryptoKeyVersionTemplate{Algorithm: kmspb.CryptoKeyVersion_EC_SIGN_P256_SHA256}}, nil
}

func (s *service) GetCryptoKeyVersion(_ context.Context, r *kmspb.GetCryptoKeyVersionRequest) (*kmspb.CryptoKeyVersion, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, _, err := s.find(r.Name)
	if err != nil {
		return nil, err
	}
	return s.version(n), nil
}

func (s *service) ListCryptoKeyVersions(_ context.Context, r *kmspb.ListCryptoKeyVersionsRequest) (*kmspb.ListCryptoKeyVersionsResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := &kmspb.ListCryptoKeyVersionsResponse{}
	for n := range s.versions {
		if v := s.version(n + 1); v.State == kmspb.CryptoKeyVersion_ENABLED && r.Parent == testKey {
			out.CryptoKeyVersions = append(out.CryptoKeyVersions, v)
		}
	}
	return out, nil
}

func checksum(data []byte) *wrapperspb.Int64Value {
	return wrapperspb.Int64(int64(crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli))))
}

func (s *service) GetPublicKey(_ context.Context, r *kmspb.GetPublicKeyRequest) (*kmspb.PublicKey, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, k, err := s.find(r.Name)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalPKIXPublicKey(k.Public())
	if err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	text := string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
	sum := checksum([]byte(text))
	if s.corrupt {
		sum.Value++
	}
	return &kmspb.PublicKey{Pem: text, Algorithm: kmspb.CryptoKeyVersion_EC_SIGN_P256_SHA256, PemCrc32C: sum, Name: r.Name}, nil
}

func (s *service) AsymmetricSign(_ context.Context, r *kmspb.AsymmetricSignRequest) (*kmspb.AsymmetricSignResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, k, err := s.find(r.Name)
	switch {
	case err != nil:
		return nil, err
	case s.fail != nil:
		return nil, s.fail
	case s.disabled[n]:
		return nil, status.Error(codes.FailedPrecondition, "the version is disabled")
	case r.DigestCrc32C == nil || r.DigestCrc32C.Value != checksum(r.Digest.GetSha256()).Value:
		return nil, status.Error(codes.InvalidArgument, "checksum of the digest")
	}
	sig, err := k.Sign(rand.Reader, r.Digest.GetSha256(), crypto.SHA256)
	if err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	return &kmspb.AsymmetricSignResponse{Name: r.Name, Signature: sig, SignatureCrc32C: checksum(sig), VerifiedDigestCrc32C: true}, nil
}

// start serves the key service on this machine and points the helper at it.
func start(t *testing.T) *service {
	t.Helper()
	s := &service{disabled: map[int]bool{}}
	s.rotate(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := grpc.NewServer()
	kmspb.RegisterKeyManagementServiceServer(srv, s)
	done := make(chan error, 1)
	go func() { done <- srv.Serve(l) }()
	t.Cleanup(func() {
		srv.Stop()
		if err := <-done; err != nil && !errors.Is(err, grpc.ErrServerStopped) {
			t.Errorf("key service: %v", err)
		}
	})
	t.Setenv(endpointVariable, l.Addr().String())
	t.Setenv(plaintextVariable, "1")
	return s
}

// helperDir is set once the helper was built.
var helperDir string

// helper is the folder with the helper under its name for Google's service.
var helper = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "wallproof-kms-test-")
	if err != nil {
		return "", err
	}
	helperDir = dir
	out, err := exec.Command("go", "build", "-o", filepath.Join(dir, "sigstore-kms-gcpkms"), ".").CombinedOutput()
	if err != nil {
		return dir, fmt.Errorf("build the helper: %w\n%s", err, out)
	}
	return dir, nil
})

func TestMain(m *testing.M) {
	code := m.Run()
	if helperDir != "" {
		os.RemoveAll(helperDir)
	}
	os.Exit(code)
}

func openKey(t *testing.T, ref string) (attest.Signer, error) {
	t.Helper()
	dir, err := helper()
	if err != nil {
		t.Fatal(err)
	}
	return kms.Open(context.Background(), ref, dir)
}

func few() []catalog.Technique {
	var out []catalog.Technique
	for _, c := range catalog.All() {
		if len(out) == 0 || out[len(out)-1].Vector != c.Vector {
			c.Variants = c.Variants[:1]
			out = append(out, c)
		}
	}
	return out
}

// E12: both spellings of a version are accepted, and the version is pinned in
// the record; without one, the newest enabled one is.
func TestE12References(t *testing.T) {
	s := start(t)
	s.rotate(t)
	s.rotate(t)
	s.set(func(s *service) { s.disabled[3] = true })
	for ref, want := range map[string]string{
		"gcpkms://" + testKey + "/cryptoKeyVersions/1": "/cryptoKeyVersions/1#sha256:",
		"gcpkms://" + testKey + "/versions/1":          "/cryptoKeyVersions/1#sha256:",
		"gcpkms://" + testKey:                          "/cryptoKeyVersions/2#sha256:",
	} {
		k, err := openKey(t, ref)
		if err != nil {
			t.Errorf("%s: %v", ref, err)
			continue
		}
		if !strings.HasPrefix(k.KeyName(), "gcpkms://"+testKey+want) {
			t.Errorf("%s is recorded as %s", ref, k.KeyName())
		}
	}
	for ref, want := range map[string]error{
		"gcpkms://" + testKey + "/cryptoKeyVersions/9": kms.ErrService,
		"gcpkms://projects/p":                          kms.ErrService,
		"nosuchkms://key":                              kms.ErrNoHelper,
		"key.pem":                                      kms.ErrReference,
	} {
		if _, err := openKey(t, ref); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", ref, err, want)
		}
	}
}

// E13: a signature still verifies after the key was rotated, and the new
// version signs the next.
func TestE13Rotation(t *testing.T) {
	s := start(t)
	ctx := context.Background()
	p := packettest.New(t, packettest.Unsigned(), packettest.Catalogue(few()))
	o := attest.Options{Catalogue: few(), Clock: func() time.Time { return packettest.Now }}
	sign := func() (attest.Result, attest.Signer) {
		k, err := openKey(t, "gcpkms://"+testKey)
		if err != nil {
			t.Fatal(err)
		}
		o.Signer = k
		r, err := attest.Sign(ctx, p.Files, o)
		if err != nil {
			t.Fatal(err)
		}
		return r, k
	}
	check := func(r attest.Result, k attest.Signer) {
		t.Helper()
		in := verify.Input{Packet: p.Files, Bundle: r.Bundle, Trust: verify.Trust{Key: k.GetPublicKey()}, At: packettest.Now, Catalogue: few(), WithoutRerun: true}
		report := verify.Verify(in)
		if report.Verdict != verify.Valid || report.Signer.Key != k.KeyName() {
			t.Errorf("%s, key %s: %v", report.Verdict, report.Signer.Key, report.Failed())
		}
	}
	old, oldKey := sign()
	check(old, oldKey)
	s.rotate(t)
	s.set(func(s *service) { s.disabled[1] = true })
	check(old, oldKey)
	next, nextKey := sign()
	check(next, nextKey)
	if oldKey.KeyName() == nextKey.KeyName() {
		t.Errorf("both are recorded as %s", oldKey.KeyName())
	}
}

// A service that refuses, breaks or lies gives an error and no signature.
func TestServiceFaults(t *testing.T) {
	s := start(t)
	k, err := openKey(t, "gcpkms://"+testKey)
	if err != nil {
		t.Fatal(err)
	}
	sign := func(ctx context.Context) error {
		_, err := attest.SignStatement(ctx, []byte("{}"), k)
		return err
	}
	if err := sign(context.Background()); err != nil {
		t.Fatal(err)
	}
	for _, code := range []codes.Code{codes.PermissionDenied, codes.FailedPrecondition, codes.InvalidArgument} {
		s.set(func(s *service) { s.fail = status.Error(code, "not today") })
		if err := sign(context.Background()); !errors.Is(err, kms.ErrService) || !strings.Contains(err.Error(), "not today") {
			t.Errorf("%s: %v", code, err)
		}
	}
	s.set(func(s *service) { s.fail = nil; s.versions[0] = mustKey(t) })
	if err := sign(context.Background()); !errors.Is(err, kms.ErrService) {
		t.Errorf("signed by another key than a moment ago: %v", err)
	}
	s.set(func(s *service) { s.corrupt = true })
	if out, err := describeGCP(context.Background(), "gcpkms://"+testKey); err == nil {
		t.Errorf("a damaged public key: %+v", out)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := sign(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

func mustKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// Without TLS and credentials only this machine is talked to.
func TestPlaintextStaysHere(t *testing.T) {
	t.Setenv(plaintextVariable, "1")
	for endpoint, want := range map[string]int{"127.0.0.1:1": 3, "[::1]:1": 3, "kms.example.org:443": 1, "192.0.2.1:443": 1, "": 0} {
		t.Setenv(endpointVariable, endpoint)
		if got := len(clientOptions()); got != want {
			t.Errorf("%q: %d options, want %d", endpoint, got, want)
		}
	}
}
