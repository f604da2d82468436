package main

import (
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"strings"
	"sync"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/rogpeppe/go-internal/testscript"
)

// faultyRegistry is a registry in memory whose requests can be made to fail.
type faultyRegistry struct {
	next   http.Handler
	mu     sync.Mutex
	method string
	status int // 0 drops the connection
	left   int
	served int
}

func (f *faultyRegistry) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	f.served++
	fails := f.left > 0 && r.Method == f.method
	if fails {
		f.left--
	}
	status := f.status
	f.mu.Unlock()
	switch {
	case fails && status == 0:
		panic(http.ErrAbortHandler) // drops the connection
	case fails:
		http.Error(w, `{"errors":[{"code":"TOOMANYREQUESTS","message":"not now"}]}`, status)
	default:
		f.next.ServeHTTP(w, r)
	}
}

// registryFails METHOD STATUS N makes the next N requests of a method fail with
// a status, or by a dropped connection for 0.
func registryFails(ts *testscript.TestScript, neg bool, args []string) {
	f, ok := ts.Value(registryKey{}).(*faultyRegistry)
	if neg || len(args) != 3 || !ok {
		ts.Fatalf("usage: registry-fails METHOD STATUS N")
	}
	status, err1 := strconv.Atoi(args[1])
	n, err2 := strconv.Atoi(args[2])
	ts.Check(err1)
	ts.Check(err2)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.method, f.status, f.left = args[0], status, n
}

type registryKey struct{}

// testImage is the image that packets with an image in a registry are about.
func testImage(arch string) (v1.Image, error) {
	return mutate.ConfigFile(empty.Image, &v1.ConfigFile{OS: "linux", Architecture: arch})
}

// startRegistry serves a registry with the test image, and an index of it and
// another one.
func startRegistry(env *testscript.Env) error {
	f := &faultyRegistry{next: registry.New(registry.Logger(log.New(io.Discard, "", 0)), registry.WithReferrersSupport(true))}
	srv := httptest.NewServer(f)
	env.Defer(srv.Close)
	repository := strings.TrimPrefix(srv.URL, "http://") + "/agents/demo"
	image, err := testImage(runtime.GOARCH)
	if err != nil {
		return err
	}
	other, err := testImage("s390x")
	if err != nil {
		return err
	}
	index := mutate.AppendManifests(empty.Index,
		mutate.IndexAddendum{Add: other, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: "s390x"}}},
		mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: runtime.GOARCH}}})
	for tag, write := range map[string]func(name.Tag) error{
		"latest": func(t name.Tag) error { return remote.Write(t, image) },
		"other":  func(t name.Tag) error { return remote.Write(t, other) },
		"multi":  func(t name.Tag) error { return remote.WriteIndex(t, index) },
	} {
		t, err := name.NewTag(repository + ":" + tag)
		if err != nil {
			return err
		}
		if err := write(t); err != nil {
			return err
		}
	}
	env.Values[registryKey{}] = f
	env.Setenv("REPOSITORY", repository)
	for variable, digest := range map[string]func() (v1.Hash, error){"DIGEST": image.Digest, "OTHER": other.Digest, "INDEX": index.Digest} {
		h, err := digest()
		if err != nil {
			return err
		}
		env.Setenv(variable, h.String())
	}
	return nil
}
