//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/wallproof/wallproof/battery/image"
	"golang.org/x/sys/unix"
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

// hostileOutcomes are the entries of the sandbox in which the image's program
// runs, and what the packet says of the program.
func hostileOutcomes(t *testing.T, packet string) (run string, outcomes []string, logs []imageLog) {
	t.Helper()
	for i, line := range lines(t, filepath.Join(packet, "manifest.jsonl")) {
		var e struct {
			RunID   string `json:"runId"`
			Outcome string `json:"outcome"`
			Attack  struct{ Sandbox string }
		}
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			run = e.RunID
		}
		if e.Attack.Sandbox == "image" && e.Outcome != "not-applicable" {
			outcomes = append(outcomes, e.Outcome)
		}
	}
	for _, line := range lines(t, filepath.Join(packet, "logs/image.jsonl")) {
		var l imageLog
		if err := json.Unmarshal(line, &l); err != nil {
			t.Fatal(err)
		}
		logs = append(logs, l)
	}
	return run, outcomes, logs
}

type imageLog struct {
	Phase     string
	Program   []string
	Disturbed bool
	Detail    string
}

func lines(t *testing.T, path string) [][]byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Split(bytes.TrimSuffix(data, []byte("\n")), []byte("\n"))
}

// watched is what the host sees of the sandboxes with the image's program: of each
// bound, the most that was in use and what the bound is.
type watched struct {
	mu        sync.Mutex
	most, max map[string]int64 // by sandbox and file
}

// watchSandboxes looks at the control groups of sandboxes for as long as the
// context lives.
func watchSandboxes(ctx context.Context) *watched {
	w := &watched{most: map[string]int64{}, max: map[string]int64{}}
	read := func(path string) (int64, bool) {
		b, err := os.ReadFile(path)
		n, perr := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
		return n, err == nil && perr == nil
	}
	go func() {
		for ; ctx.Err() == nil; time.Sleep(50 * time.Millisecond) {
			for _, pair := range [][2]string{{"memory/%s/memory.usage_in_bytes", "memory/%s/memory.limit_in_bytes"}, {"pids/%s/pids.current", "pids/%s/pids.max"}} {
				dirs, _ := filepath.Glob(filepath.Join("/sys/fs/cgroup", filepath.Dir(filepath.Dir(pair[0])), "wallproof-*-image"))
				for _, d := range dirs {
					used, ok := read(filepath.Join(d, filepath.Base(pair[0])))
					most, ok2 := read(filepath.Join(d, filepath.Base(pair[1])))
					if !ok || !ok2 {
						continue
					}
					key := filepath.Base(d) + " " + filepath.Base(pair[0])
					w.mu.Lock()
					w.most[key], w.max[key] = max(w.most[key], used), most
					w.mu.Unlock()
				}
			}
		}
	}()
	return w
}

// Test9HostileProgram: an image whose program attacks its tester. Each way is
// bounded, none leads to a verdict in the image's favour, and nothing is left.
func Test9HostileProgram(t *testing.T) {
	_, policy := fixtures(t)
	ca := filepath.Join(t.TempDir(), "none.pem")
	if err := os.WriteFile(ca, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for mode := range hostileModes {
		t.Run(mode, func(t *testing.T) {
			img := actorImage(t, ca, v1.Config{Cmd: []string{"/bin/" + actorName, "hostile", mode}})
			out := filepath.Join(t.TempDir(), "out")
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			w := watchSandboxes(ctx)
			free := freeBytes(t, "/var/lib/wallproof")
			r := wallproof(t, "run", "--image", img, "--policy", policy, "--out", out, "--only", "NET-BESIDE", "--only", "IMD-BESIDE", "--only", "LAT-BESIDE", "--only", "NET-TCP")
			if r.code != 3 {
				t.Fatalf("want exit code 3: %s", r)
			}
			run, outcomes, logs := hostileOutcomes(t, filepath.Join(out, "packet"))
			if len(outcomes) < 3 {
				t.Errorf("only %d entries of the image's sandbox: %v", len(outcomes), outcomes)
			}
			for _, o := range outcomes {
				if o != "inconclusive" {
					t.Errorf("outcomes %v, want inconclusive", outcomes)
				}
			}
			if len(logs) != 2 || !logs[0].Disturbed || !logs[1].Disturbed {
				t.Errorf("the packet says of the program: %+v", logs)
			}
			t.Logf("%+v", logs)
			w.mu.Lock()
			defer w.mu.Unlock()
			seen := 0
			for key, most := range w.most {
				if strings.HasPrefix(key, "wallproof-"+run+"-") {
					seen++
					t.Logf("%s: %d of %d", key, most, w.max[key])
					if most > w.max[key] || w.max[key] > 1<<30 {
						t.Errorf("%s: %d of %d", key, most, w.max[key])
					}
				}
			}
			if seen != 4 {
				t.Errorf("saw %d bounds of the run's sandboxes, want memory and processes of both", seen)
			}
			if now := freeBytes(t, "/var/lib/wallproof"); now < free-1<<30 {
				t.Errorf("the disk has %d bytes less", free-now)
			}
			for _, left := range leftovers(t) {
				if strings.Contains(left, run) {
					t.Errorf("left behind: %s", left)
				}
			}
		})
	}
}

func freeBytes(t *testing.T, dir string) int64 {
	t.Helper()
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		t.Fatal(err)
	}
	return int64(s.Bavail) * s.Bsize
}

// Test9HostileImage: an image has no say in what runs: its entry point, health
// check, volumes, user, programs and variables start nothing and stand before
// nothing, so that the battery comes to its verdict all the same and not one
// forged line is read.
func Test9HostileImage(t *testing.T) {
	_, policy := fixtures(t)
	dir := filepath.Join(t.TempDir(), "layout")
	hostileLayout(t, dir, []string{"PATH=/", "LD_PRELOAD=/entry", "GODEBUG=x", "GOMAXPROCS=0", "GOTRACEBACK=crash", "HOME=/.wallproof", "ENV=/entry", "BASH_ENV=/entry", "SSL_CERT_FILE=/entry", "HTTPS_PROXY=http://99.64.9.9:1"})
	// The entry point is a program, and that is run, beside the probe, as the image's
	// user. Nothing else of the image is.
	out := filepath.Join(t.TempDir(), "out")
	r := wallproof(t, "run", "--image", dir, "--policy", policy, "--out", out, "--output", "json", "--program", "/bin/sh", "--program", "/nothing")
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
