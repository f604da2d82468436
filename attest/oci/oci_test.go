package oci_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/attest/oci"
	"github.com/wallproof/wallproof/attest/packet"
	"github.com/wallproof/wallproof/attest/packettest"
	"github.com/wallproof/wallproof/attest/predicate"
	"github.com/wallproof/wallproof/probes/catalog"
	"github.com/wallproof/wallproof/verify"
)

var fast = oci.Options{Backoff: remote.Backoff{Duration: time.Millisecond, Factor: 2, Steps: 4}}

// start serves a registry; wrap may stand before it.
func start(t *testing.T, referrers bool, wrap func(http.Handler) http.Handler) string {
	t.Helper()
	h := registry.New(registry.Logger(log.New(io.Discard, "", 0)), registry.WithReferrersSupport(referrers))
	if wrap != nil {
		h = wrap(h)
	}
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	return strings.TrimPrefix(srv.URL, "http://")
}

// push puts a random image into a repository and returns it by digest.
func push(t *testing.T, repo string) (string, v1.Image) {
	t.Helper()
	img, err := random.Image(256, 1)
	if err != nil {
		t.Fatal(err)
	}
	tag, err := name.NewTag(repo + ":latest")
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(tag, img); err != nil {
		t.Fatal(err)
	}
	digest, err := img.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return repo + "@" + digest.String(), img
}

func signed(t *testing.T, options ...packettest.Option) *packettest.Packet {
	t.Helper()
	var few []catalog.Technique
	for _, c := range catalog.All() {
		if len(few) == 0 || few[len(few)-1].Vector != c.Vector {
			c.Variants = c.Variants[:1]
			few = append(few, c)
		}
	}
	return packettest.New(t, append([]packettest.Option{packettest.Catalogue(few)}, options...)...)
}

// A round trip through registries with and without the referrers API (E14):
// what comes back verifies offline.
func TestE14AttachAndFetch(t *testing.T) {
	for _, referrers := range []bool{true, false} {
		host := start(t, referrers, nil)
		image, _ := push(t, host+"/agents/demo")
		_, digest, _ := strings.Cut(image, "@")
		p := signed(t, packettest.Image(manifest.Image{Reference: image, Digest: digest, Platform: "linux/amd64"}), packettest.RedTeamTarget(digest))
		ctx := context.Background()
		var attached []string
		for _, b := range []string{packet.AttestationFile, packet.VerificationFile, packet.AttestationFile} {
			d, err := oci.Attach(ctx, image, p.Files[b], fast)
			if err != nil {
				t.Fatalf("referrers API %v: %v", referrers, err)
			}
			attached = append(attached, d)
		}
		if attached[0] != attached[2] {
			t.Errorf("the same bundle is attached twice: %v", attached)
		}
		list, err := oci.Fetch(ctx, image, fast)
		if err != nil || len(list) != 2 {
			t.Fatalf("referrers API %v: %d bundles, %v", referrers, len(list), err)
		}
		var bundles [][]byte
		for _, a := range list {
			bundles = append(bundles, a.Bundle)
		}
		pairs := verify.Pairs(bundles)
		if len(pairs) != 1 {
			t.Fatalf("%d attestations", len(pairs))
		}
		in := p.Input()
		in.Packet, in.Image = nil, digest
		if r := pairs[0].Verify(verify.NewVerifier(nil, "", in.Catalogue), in); r.Verdict != verify.Valid || !bytes.Equal(pairs[0].Attestation, p.Files[packet.AttestationFile]) {
			t.Errorf("%s: %v", r.Verdict, r.Failed())
		}
		if !referrers {
			fallbackIndex(t, image, 2)
		}
	}
}

// fallbackIndex checks the fallback tag's own form (E14).
func fallbackIndex(t *testing.T, image string, n int) {
	t.Helper()
	repo, digest, _ := strings.Cut(image, "@")
	tag, err := name.NewTag(repo + ":" + strings.Replace(digest, ":", "-", 1))
	if err != nil {
		t.Fatal(err)
	}
	idx, err := remote.Index(tag)
	if err != nil {
		t.Fatal(err)
	}
	m, err := idx.IndexManifest()
	if err != nil || len(m.Manifests) != n {
		t.Fatalf("%d entries, %v", len(m.Manifests), err)
	}
	for _, d := range m.Manifests {
		if d.ArtifactType != oci.BundleType || d.Annotations["dev.sigstore.bundle.predicateType"] == "" {
			t.Errorf("entry %+v", d)
		}
	}
}

// E15: concurrent attaches through the fallback tag all survive.
func TestE15ConcurrentAttaches(t *testing.T) {
	host := start(t, false, nil)
	image, _ := push(t, host+"/agents/demo")
	const writers = 4
	var wg sync.WaitGroup
	digests := make([]string, writers)
	errs := make([]error, writers)
	for i := range writers {
		bundle := []byte(`{"n":` + string(rune('0'+i)) + `}`)
		wg.Go(func() { digests[i], errs[i] = oci.Attach(context.Background(), image, bundle, fast) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	list, err := oci.Fetch(context.Background(), image, fast)
	if err != nil {
		t.Fatal(err)
	}
	have := map[string]bool{}
	for _, a := range list {
		have[a.Digest] = true
	}
	for i, d := range digests {
		if !have[d] {
			t.Errorf("bundle %d was lost", i)
		}
	}
}

// A registry that is busy, broken or drops connections for a while is asked
// again; one that stays so, or refuses, gives an error and nothing is attached.
func TestFaultyRegistry(t *testing.T) {
	for _, c := range []struct {
		name    string
		status  int // 0 drops the connection
		failing int32
		ok      bool
	}{
		{"busy at first", http.StatusTooManyRequests, 2, true},
		{"broken at first", http.StatusInternalServerError, 2, true},
		{"drops connections at first", 0, 2, true},
		{"stays broken", http.StatusInternalServerError, 1 << 20, false},
		{"refuses", http.StatusForbidden, 1 << 20, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			var armed atomic.Bool
			var left atomic.Int32
			host := start(t, false, func(next http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if armed.Load() && r.Method == http.MethodPut && left.Add(-1) >= 0 {
						if c.status == 0 {
							panic(http.ErrAbortHandler)
						}
						w.WriteHeader(c.status)
						return
					}
					next.ServeHTTP(w, r)
				})
			})
			image, _ := push(t, host+"/agents/demo")
			left.Store(c.failing)
			armed.Store(true)
			_, err := oci.Attach(context.Background(), image, []byte("{}"), fast)
			if (err == nil) != c.ok {
				t.Errorf("attach: %v, want success %v", err, c.ok)
			}
			armed.Store(false)
			list, err := oci.Fetch(context.Background(), image, fast)
			if err != nil || (len(list) == 1) != c.ok {
				t.Errorf("afterwards %d bundles, %v", len(list), err)
			}
		})
	}
}

// E16: an index and its platform manifests are told apart by name.
func TestE16IndexAndPlatform(t *testing.T) {
	host := start(t, true, nil)
	_, amd := push(t, host+"/agents/amd")
	_, arm := push(t, host+"/agents/arm")
	idx := mutate.AppendManifests(empty.Index,
		mutate.IndexAddendum{Add: amd, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: "amd64"}}},
		mutate.IndexAddendum{Add: arm, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: "arm64"}}})
	tag, err := name.NewTag(host + "/agents/multi:latest")
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.WriteIndex(tag, idx); err != nil {
		t.Fatal(err)
	}
	indexDigest, err := idx.Digest()
	if err != nil {
		t.Fatal(err)
	}
	armDigest, err := arm.Digest()
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	got, err := oci.Resolve(ctx, tag.String(), "linux/arm64", fast)
	if err != nil || got != (oci.Image{Digest: armDigest.String(), Index: indexDigest.String()}) {
		t.Errorf("resolved to %+v, %v", got, err)
	}
	if got, err = oci.Resolve(ctx, host+"/agents/amd:latest", "linux/amd64", fast); err != nil || got.Index != "" {
		t.Errorf("a single manifest: %+v, %v", got, err)
	}
	if _, err := oci.Resolve(ctx, tag.String(), "linux/s390x", fast); !errors.Is(err, oci.ErrNoPlatform) {
		t.Errorf("another platform: %v", err)
	}
	if _, err := oci.Attach(ctx, tag.Context().Digest(indexDigest.String()).String(), []byte("{}"), fast); !errors.Is(err, oci.ErrNotManifest) {
		t.Errorf("attach to an index: %v", err)
	}
	for _, ref := range []string{tag.String(), "not a reference", ""} {
		if _, err := oci.Attach(ctx, ref, []byte("{}"), fast); !errors.Is(err, oci.ErrNotDigest) {
			t.Errorf("attach to %q: %v", ref, err)
		}
		if _, err := oci.Fetch(ctx, ref, fast); !errors.Is(err, oci.ErrNotDigest) {
			t.Errorf("fetch from %q: %v", ref, err)
		}
	}
	missing := host + "/agents/amd@" + predicate.Digest([]byte("nothing"))
	if _, err := oci.Attach(ctx, missing, []byte("{}"), fast); err == nil {
		t.Error("attached to an image that is not there")
	}
	if list, err := oci.Fetch(ctx, missing, fast); err != nil || len(list) != 0 {
		t.Errorf("an image without referrers: %v, %v", list, err)
	}
}

// Referrers that are no bundles, too large, or of blobs that were never there,
// which anybody may put who may write to the repository, keep nothing from being
// read; each that could have been a bundle is told.
func TestJunkReferrers(t *testing.T) {
	for _, referrers := range []bool{true, false} {
		host := start(t, referrers, nil)
		image, img := push(t, host+"/agents/demo")
		ref, err := name.NewDigest(image)
		if err != nil {
			t.Fatal(err)
		}
		size, err := img.Size()
		if err != nil {
			t.Fatal(err)
		}
		digest, err := img.Digest()
		if err != nil {
			t.Fatal(err)
		}
		junk := func(artifactType, layers string) {
			t.Helper()
			raw := `{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json","artifactType":"` + artifactType +
				`","config":{"mediaType":"application/vnd.oci.empty.v1+json","digest":"sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a","size":2},"layers":[` + layers +
				`],"subject":{"mediaType":"application/vnd.oci.image.manifest.v1+json","digest":"` + digest.String() + `","size":` + strconv.FormatInt(size, 10) + `}}`
			if err := remote.Put(ref.Context().Digest(predicate.Digest([]byte(raw))), rawManifest(raw)); err != nil {
				t.Fatal(err)
			}
		}
		layer := func(size string) string {
			return `{"mediaType":"` + oci.BundleType + `","digest":"` + predicate.Digest([]byte(size)) + `","size":` + size + `}`
		}
		junk("application/spdx+json", "")
		junk(oci.BundleType, "")
		junk(oci.BundleType, layer("1"))
		if _, err := oci.Attach(context.Background(), image, []byte(`{"good":1}`), fast); err != nil {
			t.Fatal(err)
		}
		junk(oci.BundleType, layer("1099511627776"))
		o := fast
		var told []string
		o.PassedOver = func(_ string, why error) { told = append(told, why.Error()) }
		list, err := oci.Fetch(context.Background(), image, o)
		if err != nil || len(list) != 1 || string(list[0].Bundle) != `{"good":1}` {
			t.Errorf("referrers API %v: %d bundles, %v", referrers, len(list), err)
		}
		if len(told) != 2 {
			t.Errorf("referrers API %v: told of %q", referrers, told)
		}
	}
}

// Referrers that are each small enough may be too much together: what does not fit is
// told, and what fits is read.
func TestReferrersTogether(t *testing.T) {
	image, _ := push(t, start(t, true, nil)+"/agents/demo")
	for i := range 4 {
		if _, err := oci.Attach(context.Background(), image, fmt.Appendf(nil, `{"n":%d,"x":"%0100d"}`, i, i), fast); err != nil {
			t.Fatal(err)
		}
	}
	o := fast
	told := 0
	o.MaxBytes = 250
	o.PassedOver = func(_ string, why error) {
		if !errors.Is(why, oci.ErrTooMuch) {
			t.Error(why)
		}
		told++
	}
	list, err := oci.Fetch(context.Background(), image, o)
	if err != nil || len(list) != 2 || told != 2 {
		t.Errorf("%d bundles, told of %d, %v", len(list), told, err)
	}
}

type rawManifest string

func (m rawManifest) RawManifest() ([]byte, error)        { return []byte(m), nil }
func (m rawManifest) MediaType() (types.MediaType, error) { return types.OCIManifestSchema1, nil }

// pages serves a registry's lists of referrers one entry a page.
func pages(next http.Handler, link func(page int) string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.Contains(r.URL.Path, "/referrers/") {
			next.ServeHTTP(w, r)
			return
		}
		rec := httptest.NewRecorder()
		next.ServeHTTP(rec, r)
		var idx v1.IndexManifest
		if err := json.Unmarshal(rec.Body.Bytes(), &idx); err != nil {
			w.WriteHeader(rec.Code)
			return
		}
		page, _ := strconv.Atoi(r.URL.Query().Get("page"))
		all := idx.Manifests
		idx.Manifests = all[min(page, len(all)):min(page+1, len(all))]
		w.Header().Set("Content-Type", string(types.OCIImageIndex))
		if page+1 < len(all) {
			w.Header().Set("Link", fmt.Sprintf(`<%s>; rel="next"`, link(page+1)))
		}
		_ = json.NewEncoder(w).Encode(idx)
	})
}

// A registry that lists referrers in pages is read to its last page; a page
// elsewhere, or without end, is not followed.
func TestReferrersInPages(t *testing.T) {
	for _, c := range []struct {
		name string
		link func(page int) string
		ok   bool
	}{
		{"relative", func(n int) string { return fmt.Sprintf("?page=%d", n) }, true},
		{"another host", func(n int) string { return fmt.Sprintf("http://127.0.0.1:1/v2/x/referrers/y?page=%d", n) }, false},
		{"in a circle", func(int) string { return "?page=1" }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			var paging atomic.Bool
			host := start(t, true, func(next http.Handler) http.Handler {
				paged := pages(next, c.link)
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if paging.Load() {
						paged.ServeHTTP(w, r)
						return
					}
					next.ServeHTTP(w, r)
				})
			})
			image, _ := push(t, host+"/agents/demo")
			for i := range 3 {
				if _, err := oci.Attach(context.Background(), image, fmt.Appendf(nil, `{"n":%d}`, i), fast); err != nil {
					t.Fatal(err)
				}
			}
			paging.Store(true)
			list, err := oci.Fetch(context.Background(), image, fast)
			if (err == nil) != c.ok || (c.ok && len(list) != 3) {
				t.Errorf("%d bundles, %v", len(list), err)
			}
		})
	}
}
