//go:build browser

package sitetest

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/pprof"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/attest/packet"
	"github.com/wallproof/wallproof/attest/packettest"
	"github.com/wallproof/wallproof/probes/catalog"
	"github.com/wallproof/wallproof/site"
	"github.com/wallproof/wallproof/verify"
	"golang.org/x/sync/errgroup"
)

// scaleChild makes the test program build a site instead of testing, so that its
// time and memory are those of a build and nothing else.
const scaleChild = "WALLPROOF_SCALE_CHILD"

func TestMain(m *testing.M) {
	if dir := os.Getenv(scaleChild); dir != "" {
		if err := buildScale(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// scaleCatalogue has one technique a vector: the scale is in the number of
// attestations.
func scaleCatalogue() []catalog.Technique {
	var out []catalog.Technique
	seen := map[catalog.Vector]bool{}
	for _, k := range catalog.All() {
		if seen[k.Vector] {
			continue
		}
		seen[k.Vector] = true
		k.Variants, k.Requires, k.Required = k.Variants[:1], nil, true
		out = append(out, k)
	}
	return out
}

type scaleFigures struct {
	Seconds float64 `json:"seconds"`
	CPU     float64 `json:"cpu"` // seconds of all threads
	RSS     int64   `json:"rss"` // bytes
	Files   int     `json:"files"`
	Bytes   int64   `json:"bytes"`
	Reused  int     `json:"reused"`
	Held    int     `json:"held"`
}

// buildScale builds dir/site from the packets in dir/packets.
func buildScale(dir string) error {
	der, err := os.ReadFile(filepath.Join(dir, "key.der"))
	if err != nil {
		return err
	}
	key, err := x509.ParsePKIXPublicKey(der)
	if err != nil {
		return err
	}
	if profile := os.Getenv("WALLPROOF_SCALE_PROFILE"); profile != "" {
		w, err := os.Create(profile)
		if err != nil {
			return err
		}
		defer w.Close()
		if err := pprof.StartCPUProfile(w); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	start := time.Now()
	in := site.Input{
		Verify: verify.Input{Trust: verify.Trust{Key: key}, Catalogue: scaleCatalogue()}, Clock: func() time.Time { return now.Truncate(24 * time.Hour) },
		Cache: filepath.Join(dir, "cache.json"),
	}
	paths, err := filepath.Glob(filepath.Join(dir, "packets", "*.tar"))
	if err != nil {
		return err
	}
	for _, p := range paths {
		q, err := site.OpenPacket(p)
		if err != nil {
			return err
		}
		in.Packets = append(in.Packets, q)
	}
	res, err := site.Build(context.Background(), in, filepath.Join(dir, "site"))
	if err != nil {
		return err
	}
	f := scaleFigures{Seconds: time.Since(start).Seconds(), Files: res.Files, Bytes: res.Bytes, Reused: res.Reused}
	for _, a := range res.Attestations {
		if a.State != site.StateCurrent {
			f.Held++
		}
	}
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return err
	}
	if f.RSS, err = peakMemory(); err != nil {
		return err
	}
	f.CPU = time.Duration(u.Utime.Nano() + u.Stime.Nano()).Seconds()
	return json.NewEncoder(os.Stdout).Encode(f)
}

// peakMemory is the most that this process has held. (The figure of getrusage
// would include the parent's, from before exec.)
func peakMemory() (int64, error) {
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	m := regexp.MustCompile(`VmHWM:\s+(\d+) kB`).FindSubmatch(b)
	if m == nil {
		return 0, errors.New("no VmHWM in /proc/self/status")
	}
	n, err := strconv.ParseInt(string(m[1]), 10, 64)
	return n << 10, err
}

func runScale(t *testing.T, dir string) scaleFigures {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), scaleChild+"="+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var f scaleFigures
	if err := json.Unmarshal(out, &f); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return f
}

// TestScale prints what a site of ten thousand attestations costs, anew and
// after one change, beside Hugo's time for as many pages where it is installed.
// WALLPROOF_SCALE sets another number.
func TestScale(t *testing.T) {
	n := 10_000
	if s := os.Getenv("WALLPROOF_SCALE"); s != "" {
		var err error
		if n, err = strconv.Atoi(s); err != nil {
			t.Fatal(err)
		}
	}
	dir := t.TempDir()
	if keep := os.Getenv("WALLPROOF_SCALE_KEEP"); keep != "" {
		dir = keep
	}
	f := newFixtures(t, dir)
	der, err := x509.MarshalPKIXPublicKey(f.key.Public())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "key.der"), der, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "packets"), 0o755); err != nil {
		t.Fatal(err)
	}
	var g errgroup.Group
	g.SetLimit(2)
	for i := range n {
		g.Go(func() error { return writePacket(t, f, filepath.Join(dir, "packets"), i) })
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	fresh := runScale(t, dir)
	if fresh.Held != 0 || fresh.Reused != 0 {
		t.Fatalf("a fresh build: %+v", fresh)
	}
	again := runScale(t, dir)
	if again.Reused != n {
		t.Errorf("nothing changed and %d of %d were taken over", again.Reused, n)
	}
	if err := writePacket(t, f, filepath.Join(dir, "packets"), n); err != nil {
		t.Fatal(err)
	}
	changed := runScale(t, dir)
	if changed.Reused != n {
		t.Errorf("one was added and %d of %d were taken over", changed.Reused, n)
	}
	t.Logf("%d attestations, %d files, %d MB", n, fresh.Files, fresh.Bytes>>20)
	for _, l := range []struct {
		what string
		f    scaleFigures
	}{{"fresh", fresh}, {"as it was", again}, {"one new", changed}} {
		t.Logf("%-10s %6.1f s, %6.1f s of processor, %4d MB memory", l.what, l.f.Seconds, l.f.CPU, l.f.RSS>>20)
	}
	if fresh.RSS > 300<<20 {
		t.Errorf("a build needs %d MB", fresh.RSS>>20)
	}
	hugo(t, n)
}

func writePacket(t *testing.T, f *fixtures, dir string, i int) error {
	digest := fmt.Sprintf("sha256:%064x", i+1)
	p := f.packet(packettest.Catalogue(scaleCatalogue()), packettest.RedTeamTarget(digest),
		packettest.Image(manifest.Image{Reference: fmt.Sprintf("registry.example.org/agents/image-%05d", i), Digest: digest, Platform: "linux/amd64"}))
	var b bytes.Buffer
	if err := packet.WriteArchive(&b, p.Files); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, fmt.Sprintf("%05d.tar", i)), b.Bytes(), 0o644)
}
