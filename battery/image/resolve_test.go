package image

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// anonymous keeps tests from reading the user's Docker configuration.
type anonymous struct{}

func (anonymous) Resolve(authn.Resource) (authn.Authenticator, error) {
	return authn.Anonymous, nil
}

// serveRegistry serves a registry through a handler that may interfere.
func serveRegistry(t *testing.T, wrap func(http.Handler) http.Handler) string {
	t.Helper()
	h := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	if wrap != nil {
		h = wrap(h)
	}
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	return strings.TrimPrefix(srv.URL, "http://")
}

func pushTo(t *testing.T, ref string, what remote.Taggable) {
	t.Helper()
	r, err := name.ParseReference(ref)
	if err != nil {
		t.Fatal(err)
	}
	switch w := what.(type) {
	case v1.ImageIndex:
		err = remote.WriteIndex(r, w)
	case v1.Image:
		err = remote.Write(r, w)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// twoPlatforms is an index with this machine's image, one of another, and an
// attestation manifest as build tools add them.
func twoPlatforms(t *testing.T) (index v1.ImageIndex, mine, other v1.Image) {
	t.Helper()
	mine = imageOf(t, layerOf(t, file("mine", "")))
	otherArch := "s390x"
	other = imageFor(t, "linux", otherArch, layerOf(t, file("other", "")))
	note := imageFor(t, "unknown", "unknown", layerOf(t, file("note", "")))
	add := func(img v1.Image, goos, arch string) mutate.IndexAddendum {
		return mutate.IndexAddendum{Add: img, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: goos, Architecture: arch}}}
	}
	index = mutate.AppendManifests(mutate.IndexMediaType(empty.Index, types.OCIImageIndex),
		add(note, "unknown", "unknown"), add(other, "linux", otherArch), add(mine, "linux", runtime.GOARCH))
	return index, mine, other
}

func TestResolveRegistry(t *testing.T) {
	addr := serveRegistry(t, nil)
	index, mine, other := twoPlatforms(t)
	repo := addr + "/some/repo"
	pushTo(t, repo+":index", index)
	pushTo(t, repo+":mine", mine)
	indexDigest, mineDigest, otherDigest := mustDigest(t, index), mustDigest(t, mine), mustDigest(t, other)
	tests := []struct {
		name, ref string
		opts      Options
		want      Resolved
		wantErr   error
		text      string
	}{
		{name: "manifest", ref: repo + "@" + mineDigest, want: Resolved{Reference: repo + "@" + mineDigest, Digest: mineDigest}},
		{name: "index", ref: repo + "@" + indexDigest, want: Resolved{Reference: repo + "@" + indexDigest, Digest: mineDigest, IndexDigest: indexDigest}},
		{name: "tag beside a digest", ref: repo + ":nothing@" + mineDigest, want: Resolved{Reference: repo + "@" + mineDigest, Digest: mineDigest}},
		{name: "tag", ref: repo + ":index", wantErr: ErrTagNotDigest, text: repo + "@sha256:"},
		{name: "no tag", ref: repo, wantErr: ErrTagNotDigest, text: "--resolve"},
		{name: "tag, resolved", ref: repo + ":index", opts: Options{ResolveTag: true}, want: Resolved{Reference: repo + "@" + indexDigest, Tag: "index", Digest: mineDigest, IndexDigest: indexDigest}},
		{name: "another platform of the index", ref: repo + "@" + indexDigest, opts: Options{Platform: "linux/s390x"}, want: Resolved{Reference: repo + "@" + indexDigest, Digest: otherDigest, IndexDigest: indexDigest, Platform: "linux/s390x"}},
		{name: "a platform that the index lacks", ref: repo + "@" + indexDigest, opts: Options{Platform: "linux/mips"}, wantErr: ErrNoPlatform, text: "linux/s390x"},
		{name: "manifest of another platform", ref: repo + "@" + otherDigest, wantErr: ErrNoPlatform, text: "linux/s390x"},
		{name: "bad platform", ref: repo + "@" + mineDigest, opts: Options{Platform: "x"}, text: "is no platform"},
		{name: "missing digest", ref: repo + "@" + digestOf(nil), wantErr: ErrNotFound},
		{name: "missing repository", ref: addr + "/none@" + digestOf(nil), wantErr: ErrNotFound},
		{name: "missing tag", ref: repo + ":none", opts: Options{ResolveTag: true}, wantErr: ErrNotFound},
		{name: "short digest", ref: repo + "@sha256:abc", text: "neither a registry reference nor a path"},
		{name: "nonsense", ref: "Not A Reference", text: "neither a registry reference nor a path"},
		{name: "plain http to a private address", ref: "10.1.2.3:5000/x@" + mineDigest, wantErr: ErrUnreachable, text: "plain http"},
		{name: "plain http to a local name", ref: "registry.local/x@" + mineDigest, wantErr: ErrUnreachable},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.opts.Keychain = anonymous{}
			if tt.wantErr == ErrUnreachable {
				tt.opts.Transport = noNetwork{}
			}
			got, err := Resolve(t.Context(), tt.ref, tt.opts)
			if tt.wantErr != nil || tt.text != "" {
				if err == nil || (tt.wantErr != nil && !errors.Is(err, tt.wantErr)) || !strings.Contains(err.Error(), tt.text) {
					t.Fatalf("error %v, want %v with %q", err, tt.wantErr, tt.text)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if tt.want.Platform == "" {
				tt.want.Platform = "linux/" + runtime.GOARCH
			}
			tt.want.Source = FromRegistry
			compare(t, got, &tt.want)
		})
	}
}

// noNetwork stands for a network that a test must not use.
type noNetwork struct{}

func (noNetwork) RoundTrip(r *http.Request) (*http.Response, error) {
	return nil, &net.OpError{Op: "dial", Err: fmt.Errorf("no network for %s %s", r.URL.Scheme, r.URL.Host)}
}

// compare compares all but Image and Config, and looks whether those belong to
// the digest.
func compare(t *testing.T, got, want *Resolved) {
	t.Helper()
	flat := func(r *Resolved) string {
		return strings.Join([]string{r.Reference, r.Tag, string(r.Source), r.Digest, r.IndexDigest, r.Platform}, "\n")
	}
	if flat(got) != flat(want) {
		t.Errorf("got\n%s\nwant\n%s", flat(got), flat(want))
	}
	if d := mustDigest(t, got.Image); d != got.Digest {
		t.Errorf("image is %s", d)
	}
	if p := (v1.Platform{OS: got.Config.OS, Architecture: got.Config.Architecture}); p.String() != got.Platform {
		t.Errorf("configuration is for %s", p)
	}
}

func TestResolveRegistryFailures(t *testing.T) {
	img := imageOf(t, layerOf(t, file("f", "x")))
	digest := mustDigest(t, img)
	status := func(code int) func(http.Handler) http.Handler {
		return func(http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/v2/" {
					return
				}
				http.Error(w, "evil\x1b[2J\n"+strings.Repeat("x", 10_000), code)
			})
		}
	}
	tests := []struct {
		name    string
		wrap    func(http.Handler) http.Handler
		wantErr error
	}{
		{"unauthorised", status(http.StatusUnauthorized), ErrUnauthorized},
		{"forbidden", status(http.StatusForbidden), ErrUnauthorized},
		{"not found", status(http.StatusNotFound), ErrNotFound},
		{"broken", status(http.StatusTeapot), nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Resolve(t.Context(), serveRegistry(t, tt.wrap)+"/r@"+digest, Options{Keychain: anonymous{}})
			if err == nil || (tt.wantErr != nil && !errors.Is(err, tt.wantErr)) {
				t.Fatalf("error %v, want %v", err, tt.wantErr)
			}
			if s := err.Error(); strings.ContainsAny(s, "\x1b\n") || len(s) > 1000 {
				t.Errorf("the registry's words go through: %q", s)
			}
			for _, other := range []error{ErrNotFound, ErrUnauthorized, ErrUnreachable} {
				if other != tt.wantErr && errors.Is(err, other) {
					t.Errorf("it is %v too", other)
				}
			}
		})
	}
	t.Run("unreachable", func(t *testing.T) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		l.Close()
		_, err = Resolve(t.Context(), l.Addr().String()+"/r@"+digest, Options{Keychain: anonymous{}})
		if !errors.Is(err, ErrUnreachable) {
			t.Errorf("error %v", err)
		}
	})
	t.Run("cancelled", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := Resolve(ctx, serveRegistry(t, nil)+"/r@"+digest, Options{Keychain: anonymous{}})
		if !errors.Is(err, context.Canceled) || errors.Is(err, ErrUnreachable) {
			t.Errorf("error %v", err)
		}
	})
}

// TestResolveRegistryThatLies changes one byte of what the registry sends.
func TestResolveRegistryThatLies(t *testing.T) {
	index, img, _ := twoPlatforms(t)
	m, err := img.Manifest()
	if err != nil {
		t.Fatal(err)
	}
	for what, part := range map[string]string{"manifest": mustDigest(t, img), "index": mustDigest(t, index), "configuration": m.Config.Digest.String()} {
		t.Run(what, func(t *testing.T) {
			lie := false
			addr := serveRegistry(t, func(next http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if !lie || r.Method != http.MethodGet || !strings.HasSuffix(r.URL.Path, part) {
						next.ServeHTTP(w, r)
						return
					}
					rec := httptest.NewRecorder()
					next.ServeHTTP(rec, r)
					w.Header().Set("Content-Type", rec.Header().Get("Content-Type"))
					w.Write(bytes.Replace(rec.Body.Bytes(), []byte(`{`), []byte(`{ `), 1))
				})
			})
			pushTo(t, addr+"/r:x", index)
			ref := addr + "/r@" + mustDigest(t, index)
			if _, err := Resolve(t.Context(), ref, Options{Keychain: anonymous{}}); err != nil {
				t.Fatal(err)
			}
			lie = true
			if _, err := Resolve(t.Context(), ref, Options{Keychain: anonymous{}}); err == nil {
				t.Error("the changed bytes were taken")
			}
		})
	}
}

func TestLooksLikePath(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	if err := os.Mkdir(filepath.Join(dir, "here"), 0o755); err != nil {
		t.Fatal(err)
	}
	for in, want := range map[string]bool{"/x": true, "./x": true, "../x": true, ".": true, "..": true, "here": true, "not-here": false, "docker.io/x": false, "..x": false, "": false, "a\x00b": false} {
		if got, err := looksLikePath(in); err != nil || got != want {
			t.Errorf("%q: %v, %v", in, got, err)
		}
	}
}
