package oci_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/wallproof/wallproof/attest/oci"
	"github.com/wallproof/wallproof/attest/predicate"
)

// lie changes an answer before it is sent.
type lie func(w http.ResponseWriter, r *http.Request, code int, header http.Header, body []byte)

// lying is a registry that tells the truth until it is armed.
func lying(t *testing.T, armed *atomic.Bool, lie lie) string {
	t.Helper()
	return start(t, true, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !armed.Load() || r.Method != http.MethodGet {
				next.ServeHTTP(w, r)
				return
			}
			rec := httptest.NewRecorder()
			next.ServeHTTP(rec, r)
			lie(w, r, rec.Code, rec.Header(), rec.Body.Bytes())
		})
	})
}

// send writes an answer as it was, with another body.
func send(w http.ResponseWriter, code int, header http.Header, body []byte) {
	for name, values := range header {
		w.Header()[name] = values
	}
	w.Header().Del("Content-Length")
	w.WriteHeader(code)
	_, _ = w.Write(body)
}

// A registry that answers with something else than what was asked for by digest, or
// with a part of it: nothing of it is taken for a bundle, and that is an error rather
// than an image without evidence.
func TestLyingRegistry(t *testing.T) {
	const real, other = `{"real":1}`, `{"fake":1}`
	swap := func(body []byte) []byte {
		return []byte(strings.ReplaceAll(string(body), predicate.Digest([]byte(real)), predicate.Digest([]byte(other))))
	}
	manifests := func(change func(w http.ResponseWriter, code int, header http.Header, body []byte)) lie {
		return func(w http.ResponseWriter, r *http.Request, code int, header http.Header, body []byte) {
			if strings.Contains(r.URL.Path, "/manifests/") {
				change(w, code, header, body)
				return
			}
			send(w, code, header, body)
		}
	}
	blobs := func(change func(w http.ResponseWriter, code int, header http.Header, body []byte)) lie {
		return func(w http.ResponseWriter, r *http.Request, code int, header http.Header, body []byte) {
			if strings.Contains(r.URL.Path, "/blobs/") {
				change(w, code, header, body)
				return
			}
			send(w, code, header, body)
		}
	}
	for name, lie := range map[string]lie{
		"another manifest": manifests(func(w http.ResponseWriter, code int, header http.Header, body []byte) {
			send(w, code, header, swap(body))
		}),
		"another manifest, with the digest asked for": manifests(func(w http.ResponseWriter, code int, header http.Header, body []byte) {
			header.Set("Docker-Content-Digest", predicate.Digest(body))
			send(w, code, header, swap(body))
		}),
		"another manifest, of a kind whose digest is not looked at": manifests(func(w http.ResponseWriter, code int, header http.Header, body []byte) {
			header.Set("Docker-Content-Digest", predicate.Digest(body))
			header.Set("Content-Type", string(types.DockerManifestSchema1Signed))
			send(w, code, header, swap(body))
		}),
		"a part of the manifest": manifests(func(w http.ResponseWriter, code int, header http.Header, body []byte) {
			send(w, code, header, body[:len(body)/2])
		}),
		"a manifest that breaks off": manifests(func(w http.ResponseWriter, code int, header http.Header, body []byte) {
			w.Header().Set("Content-Type", header.Get("Content-Type"))
			w.Header().Set("Content-Length", fmt.Sprint(len(body)))
			_, _ = w.Write(body[:len(body)/2])
		}),
		"another blob": blobs(func(w http.ResponseWriter, code int, header http.Header, _ []byte) {
			send(w, code, header, []byte(other))
		}),
		"a part of the blob": blobs(func(w http.ResponseWriter, code int, header http.Header, body []byte) {
			send(w, code, header, body[:len(body)/2])
		}),
		"a longer blob": blobs(func(w http.ResponseWriter, code int, header http.Header, body []byte) {
			send(w, code, header, append(body, '\n'))
		}),
		"a blob that breaks off": blobs(func(w http.ResponseWriter, _ int, _ http.Header, body []byte) {
			w.Header().Set("Content-Length", fmt.Sprint(len(body)))
			_, _ = w.Write(body[:len(body)/2])
		}),
		"an empty blob": blobs(func(w http.ResponseWriter, code int, header http.Header, _ []byte) { send(w, code, header, nil) }),
	} {
		t.Run(name, func(t *testing.T) {
			var armed atomic.Bool
			host := lying(t, &armed, lie)
			image, _ := push(t, host+"/agents/demo")
			digest, err := oci.Attach(context.Background(), image, []byte(real), fast)
			if err != nil {
				t.Fatal(err)
			}
			repo, _, _ := strings.Cut(image, "@")
			// The other bundle is really there, so that only digests tell the two apart.
			elsewhere, _ := push(t, repo)
			if _, err := oci.Attach(context.Background(), elsewhere, []byte(other), fast); err != nil {
				t.Fatal(err)
			}
			armed.Store(true)
			if list, err := oci.Fetch(context.Background(), image, fast); err == nil {
				t.Errorf("fetch: %d bundles and no error", len(list))
			}
			if a, _, err := oci.FetchOne(context.Background(), repo+"@"+digest, fast); err == nil {
				t.Errorf("fetch by digest: %s", a.Bundle)
			}
			armed.Store(false)
			if list, err := oci.Fetch(context.Background(), image, fast); err != nil || len(list) != 1 || string(list[0].Bundle) != real {
				t.Errorf("told the truth: %v, %v", list, err)
			}
		})
	}
}

// A tag resolves to the digest of what it stands for, never to what a registry calls it.
func TestResolveBelievesNoHeader(t *testing.T) {
	var armed atomic.Bool
	host := lying(t, &armed, func(w http.ResponseWriter, _ *http.Request, code int, header http.Header, body []byte) {
		header.Set("Docker-Content-Digest", predicate.Digest([]byte("another image")))
		header.Set("Content-Type", string(types.DockerManifestSchema1Signed))
		send(w, code, header, body)
	})
	push(t, host+"/agents/demo")
	armed.Store(true)
	if got, err := oci.Resolve(context.Background(), host+"/agents/demo:latest", "linux/amd64", fast); !errors.Is(err, oci.ErrDigest) {
		t.Errorf("%+v, %v", got, err)
	}
}

// A registry that sends its clients elsewhere, as many do for blobs, is followed to
// what has the right digest, without its credentials, and to no plain text elsewhere.
func TestRedirectingRegistry(t *testing.T) {
	var body atomic.Value
	var asked, credentials atomic.Int32
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		if r.Header.Get("Authorization") != "" {
			credentials.Add(1)
		}
		_, _ = w.Write(body.Load().([]byte))
	}))
	t.Cleanup(other.Close)
	var to atomic.Value
	var armed atomic.Bool
	host := lying(t, &armed, func(w http.ResponseWriter, r *http.Request, code int, header http.Header, body []byte) {
		if strings.Contains(r.URL.Path, "/blobs/") {
			http.Redirect(w, r, to.Load().(string), http.StatusTemporaryRedirect)
			return
		}
		send(w, code, header, body)
	})
	image, _ := push(t, host+"/agents/demo")
	if _, err := oci.Attach(context.Background(), image, []byte(`{"real":1}`), fast); err != nil {
		t.Fatal(err)
	}
	armed.Store(true)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for _, c := range []struct {
		name, to, body string
		ok             bool
	}{
		{"to the blob", other.URL + "/store/1", `{"real":1}`, true},
		{"to another blob", other.URL + "/store/1", `{"fake":1}`, false},
		{"to plain text on another machine", "http://192.0.2.1/store/1", `{"real":1}`, false},
		{"to a file", "file:///etc/hostname", `{"real":1}`, false},
		{"to itself", "", `{"real":1}`, false},
	} {
		body.Store([]byte(c.body))
		to.Store(c.to)
		list, err := oci.Fetch(ctx, image, fast)
		if (err == nil) != c.ok || errors.Is(err, context.DeadlineExceeded) || (c.ok && (len(list) != 1 || string(list[0].Bundle) != `{"real":1}`)) {
			t.Errorf("%s: %d bundles, %v", c.name, len(list), err)
		}
	}
	if asked.Load() == 0 || credentials.Load() > 0 {
		t.Errorf("asked %d times, with credentials %d times", asked.Load(), credentials.Load())
	}
}

// A registry that asks its clients to wait for a day is asked a bounded number of times,
// and not waited for; nothing is attached, and nothing is called absent.
func TestRegistryThatAsksToWait(t *testing.T) {
	var armed atomic.Bool
	var asked atomic.Int32
	host := start(t, true, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if armed.Load() {
				asked.Add(1)
				w.Header().Set("Retry-After", "86400")
				w.WriteHeader(http.StatusTooManyRequests)
				return
			}
			next.ServeHTTP(w, r)
		})
	})
	image, _ := push(t, host+"/agents/demo")
	armed.Store(true)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for name, call := range map[string]func() error{
		"attach":  func() error { _, err := oci.Attach(ctx, image, []byte("{}"), fast); return err },
		"fetch":   func() error { _, err := oci.Fetch(ctx, image, fast); return err },
		"resolve": func() error { _, err := oci.Resolve(ctx, host+"/agents/demo:latest", "linux/amd64", fast); return err },
	} {
		asked.Store(0)
		if err := call(); err == nil || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v", name, err)
		}
		if n := asked.Load(); n == 0 || n > 12 {
			t.Errorf("%s: asked %d times", name, n)
		}
	}
	armed.Store(false)
	if list, err := oci.Fetch(context.Background(), image, fast); err != nil || len(list) != 0 {
		t.Errorf("afterwards %d bundles, %v", len(list), err)
	}
}

// An index says which manifest is for which platform, and what it says counts: its
// entry's digest, whoever's manifest that is, so that its evidence is looked for, and no
// other's. An entry that is an index again is nobody's platform manifest.
func TestIndexThatPointsElsewhere(t *testing.T) {
	host := start(t, true, nil)
	_, mine := push(t, host+"/agents/multi")
	image, foreign := push(t, host+"/agents/multi")
	ctx := context.Background()
	if _, err := oci.Attach(ctx, image, []byte(`{"of":"the other image"}`), fast); err != nil {
		t.Fatal(err)
	}
	amd, arm := &v1.Platform{OS: "linux", Architecture: "amd64"}, &v1.Platform{OS: "linux", Architecture: "arm64"}
	put := func(tag string, list ...mutate.IndexAddendum) string {
		t.Helper()
		ref, err := name.NewTag(host + "/agents/multi:" + tag)
		if err != nil {
			t.Fatal(err)
		}
		if err := remote.WriteIndex(ref, mutate.AppendManifests(empty.Index, list...)); err != nil {
			t.Fatal(err)
		}
		return ref.String()
	}
	digest := func(i v1.Image) string {
		t.Helper()
		d, err := i.Digest()
		if err != nil {
			t.Fatal(err)
		}
		return d.String()
	}
	entry := func(i mutate.Appendable, p *v1.Platform) mutate.IndexAddendum {
		return mutate.IndexAddendum{Add: i, Descriptor: v1.Descriptor{Platform: p}}
	}
	for tag, c := range map[string]struct {
		list []mutate.IndexAddendum
		want string
		n    int
	}{
		"right":  {[]mutate.IndexAddendum{entry(mine, amd), entry(foreign, arm)}, digest(mine), 0},
		"wrong":  {[]mutate.IndexAddendum{entry(foreign, amd), entry(mine, arm)}, digest(foreign), 1},
		"nested": {[]mutate.IndexAddendum{entry(mutate.AppendManifests(empty.Index, entry(mine, amd)), amd)}, "", 0},
		"nested-before": {[]mutate.IndexAddendum{entry(mutate.AppendManifests(empty.Index, entry(foreign, amd)), amd), entry(mine, amd)},
			digest(mine), 0},
	} {
		got, err := oci.Resolve(ctx, put(tag, c.list...), "linux/amd64", fast)
		if c.want == "" {
			if !errors.Is(err, oci.ErrNoPlatform) {
				t.Errorf("%s: %+v, %v", tag, got, err)
			}
			continue
		}
		if err != nil || got.Digest != c.want || got.Index == "" {
			t.Errorf("%s: %+v, %v, want %s", tag, got, err, c.want)
			continue
		}
		if list, err := oci.Fetch(ctx, host+"/agents/multi@"+got.Digest, fast); err != nil || len(list) != c.n {
			t.Errorf("%s: %d bundles, %v", tag, len(list), err)
		}
	}
}

// A list of referrers that has those of another image, or that differs from them in
// case or in a name beside the digest: what is about something else is nobody's.
func TestReferrersOfAnotherSubject(t *testing.T) {
	var armed atomic.Bool
	var list atomic.Value
	host := lying(t, &armed, func(w http.ResponseWriter, r *http.Request, code int, header http.Header, body []byte) {
		if strings.Contains(r.URL.Path, "/referrers/") {
			body = list.Load().([]byte)
		}
		send(w, code, header, body)
	})
	image, _ := push(t, host+"/agents/demo")
	other, _ := push(t, host+"/agents/demo")
	ctx := context.Background()
	digest, err := oci.Attach(ctx, other, []byte(`{"of":"the other image"}`), fast)
	if err != nil {
		t.Fatal(err)
	}
	list.Store(fmt.Appendf(nil, `{"schemaVersion":2,"mediaType":"application/vnd.oci.image.index.v1+json","manifests":[{"mediaType":"application/vnd.oci.image.manifest.v1+json","artifactType":"%s","digest":"%s","size":700}]}`, oci.BundleType, digest))
	armed.Store(true)
	if got, err := oci.Fetch(ctx, image, fast); err != nil || len(got) != 0 {
		t.Errorf("%d bundles of another image, %v", len(got), err)
	}
	if got, err := oci.Fetch(ctx, other, fast); err != nil || len(got) != 1 {
		t.Errorf("its own: %d bundles, %v", len(got), err)
	}
	repo, _, _ := strings.Cut(image, "@")
	if _, subject, err := oci.FetchOne(ctx, repo+"@"+digest, fast); err != nil || !strings.HasSuffix(other, subject) {
		t.Errorf("by its own digest it is about %s, %v", subject, err)
	}
}
