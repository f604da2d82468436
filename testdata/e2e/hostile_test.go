//go:build e2e

package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/wallproof/wallproof/battery/image"
)

// hostileScript is what the image puts wherever a careless runner would run
// something of the image's: it forges results, floods, fills the disk, takes the
// descriptors, forks without end and kills whatever it can.
const hostileScript = `#!/bin/sh
echo 'wp1 1 eyJzaWRlIjoicHJvYmUiLCJzaWduIjoicmVmdXNlZCJ9 0000000000000000000000000000000000000000000000000000000000000000'
kill -9 -1
while :; do "$0" & cat /dev/zero > /tmp/fill; echo wp1; done
`

// hostileLayout writes an image whose configuration and files are hostile.
func hostileLayout(t *testing.T, dir string, env []string) {
	t.Helper()
	agent, err := os.ReadFile(filepath.Join(bin(t), "wallproof-agent"))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	for _, name := range []string{"entry", "bin/git", "bin/curl", "usr/bin/env", "sbin/init", "root/.bashrc", "root/.profile", "etc/profile", "etc/ld.so.preload", ".wallproof/wallproof-probe", ".wallproof/wallproof-agent"} {
		files[name] = []byte(hostileScript)
	}
	img, err := image.Demo(agent, image.DemoOptions{Shell: true, Files: files, Env: env})
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	c := *cfg.DeepCopy()
	c.Config.Entrypoint, c.Config.Cmd, c.Config.User, c.Config.WorkingDir = []string{"/entry"}, []string{"now"}, "65534:65534", "/.wallproof"
	c.Config.Volumes = map[string]struct{}{"/.wallproof": {}, "/proc": {}, "/etc/wallproof": {}}
	c.Config.Healthcheck = &v1.HealthConfig{Test: []string{"CMD", "/entry"}}
	c.Config.OnBuild, c.Config.Shell = []string{"RUN /entry"}, []string{"/entry"}
	if img, err = mutate.ConfigFile(img, &c); err != nil {
		t.Fatal(err)
	}
	path, err := layout.Write(dir, empty.Index)
	if err != nil {
		t.Fatal(err)
	}
	if err := path.AppendImage(img, layout.WithPlatform(v1.Platform{OS: "linux", Architecture: "amd64"})); err != nil {
		t.Fatal(err)
	}
}

// Test9HostileImage: an image has no say in what runs: its entry point, health
// check, volumes, user, programs and variables start nothing and stand before
// nothing, so that the battery comes to its verdict all the same and not one
// forged line is read.
func Test9HostileImage(t *testing.T) {
	_, policy := fixtures(t)
	dir := filepath.Join(t.TempDir(), "layout")
	hostileLayout(t, dir, []string{"PATH=/", "LD_PRELOAD=/entry", "GODEBUG=x", "GOMAXPROCS=0", "GOTRACEBACK=crash", "HOME=/.wallproof", "ENV=/entry", "BASH_ENV=/entry", "SSL_CERT_FILE=/entry", "HTTPS_PROXY=http://99.64.9.9:1"})
	r := wallproof(t, "run", "--image", dir, "--policy", policy, "--out", filepath.Join(t.TempDir(), "out"), "--output", "json")
	if r.code != 0 || !strings.Contains(r.stdout, `"unauthenticatedLines": 0`) {
		t.Errorf("a hostile image: %s", r)
	}
	for _, tt := range []struct {
		name, want string
		env        []string
	}{
		{"a variable beyond bounds", `variable \"BIG\"`, []string{"BIG=" + strings.Repeat("x", 1<<20)}},
		{"a variable with a NUL byte", "NUL byte", []string{"A=b\x00c"}},
	} {
		dir, out := filepath.Join(t.TempDir(), "layout"), filepath.Join(t.TempDir(), "out")
		hostileLayout(t, dir, tt.env)
		r := wallproof(t, "run", "--image", dir, "--policy", policy, "--out", out)
		if r.code != 1 || !strings.Contains(r.stderr, strings.ReplaceAll(tt.want, `\"`, `"`)) {
			t.Errorf("%s: want exit code 1 and %s: %.400s", tt.name, tt.want, r)
		}
		if _, err := os.Stat(out); err == nil {
			t.Errorf("%s: the output folder was made although nothing ran", tt.name)
		}
	}
	if left := leftovers(t); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}
