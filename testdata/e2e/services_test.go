//go:build e2e

package e2e

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// pushed puts a layout's image into a registry in the outside's network and
// returns its reference by digest.
func pushed(t *testing.T, o *outside, dir, repository string) string {
	t.Helper()
	srv := httptest.NewUnstartedServer(registry.New())
	srv.Listener.Close()
	srv.Listener = o.listen(t, "127.0.0.1:0")
	srv.Start()
	t.Cleanup(srv.Close)
	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	img, err := index.Image(manifest.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	ref := srv.Listener.Addr().String() + "/" + repository
	tag, err := name.ParseReference(ref + ":v1")
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(tag, img, remote.WithTransport(o.transport())); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%s@%s", ref, manifest.Manifests[0].Digest)
}

// services: a service answers by its name, at its ports, to the work sandbox and
// the tasks; it reaches nothing itself.
func services(t *testing.T, o *outside, img string) {
	o.reset()
	db := pushed(t, o, actorImage(t, o.ca, v1.Config{Cmd: []string{"actor", "greet", "5432", "the database", "http://93.184.216.34/from-the-service", "93.184.216.34:443"}}), "db")
	web := pushed(t, o, actorImage(t, o.ca, v1.Config{Cmd: []string{"actor", "web", "80", "the web service"}}), "web")
	policy := writeFile(t, "version: 1\nmode: allowlist\nallow: [{host: docs.example}]\nservices:\n"+
		"  - {name: db, image: '"+db+"', ports: [5432]}\n  - {name: web, image: '"+web+"', ports: [80], set: {GREETING: set-by-policy}}\n")
	ask := "actor all tcp db:5432 db:5433 , get http://web/ direct:http://web/ https://docs.example/"
	r := o.exec(t, nil, "--image", img, "--policy", policy, "--task", "one="+ask, "--orchestrator", ask+" , tcp 192.0.2.14:5432 , get direct:http://192.0.2.18/", "--verifier", "actor tcp db:5432", "--", "actor", "all", "tcp", "db:5432", "db:5433", ",", "get", "http://web/", "direct:http://web/", "https://docs.example/")
	ok(t, r)
	has(t, r, "db:5432 connected the database", "db:5433 error", "http://web/ 200 the web service set-by-policy", "direct:http://web/ 200 the web service", "https://docs.example/ 200",
		"[one] db:5432 connected the database", "[one] http://web/ 200")
	lacks(t, r, "[orchestrator] db:5432 connected", "[orchestrator] http://web/ 200", "[orchestrator] direct:http://192.0.2.18/ 200", "[verifier] db:5432 connected", "error connected")
	for line := range strings.Lines(r.stdout) {
		if strings.HasPrefix(line, "[orchestrator] 192.0.2.14") && !strings.Contains(line, "error") {
			t.Errorf("the orchestrator reaches a service by its address: %s", line)
		}
	}
	// What the service said of its own attempts.
	if n := strings.Count(r.stdout, "connected the database\nerror ") + strings.Count(r.stdout, "connected the database\n[one] error "); n != 2 {
		t.Errorf("the service has not said that it reaches nothing: %s", r)
	}
	if len(o.requests("93.184.216.34")) != 0 {
		t.Error("a service has reached the outside")
	}
	bad := writeFile(t, "version: 1\nmode: allowlist\nallow: [{host: docs.example}]\nservices: [{name: db, image: '"+strings.Replace(db, "sha256:", "sha256:0", 1)[:len(db)]+"', ports: [5432]}]\n")
	if r := o.exec(t, nil, "--image", img, "--policy", bad, "--", "actor", "id"); r.code != 1 || r.stdout != "" {
		t.Errorf("a service whose image is not there: %s", r)
	}
}
