//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/wallproof/wallproof/battery/image"
	"github.com/wallproof/wallproof/battery/sandbox"
	"github.com/wallproof/wallproof/battery/sandbox/drivers"
	"github.com/wallproof/wallproof/probes/catalog"
)

// bareStarts is how many sandboxes the battery's time is compared with.
const bareStarts = 20

// BenchmarkBattery measures the whole battery, control and attack, beside twenty
// bare starts of the same sandbox in the same run. The figure to read is the
// ratio: seconds depend on the machine.
func BenchmarkBattery(b *testing.B) {
	layout, policy := fixtures(b)
	for b.Loop() {
		start := time.Now()
		if r := wallproof(b, "run", "--image", layout, "--policy", policy, "--out", filepath.Join(b.TempDir(), fmt.Sprint(start.UnixNano()))); r.code != 0 {
			b.Fatalf("run: %s", r)
		}
		battery := time.Since(start)
		bare := bareStartTime(b, layout)
		b.ReportMetric(battery.Seconds(), "battery-s")
		b.ReportMetric(bare.Seconds(), "20-starts-s")
		b.ReportMetric(battery.Seconds()/bare.Seconds(), "battery/20-starts")
	}
}

// BenchmarkTechnique measures what one more network technique costs a run: the
// battery's NET techniques that run in the work sandbox, beside the same run
// without every second of them. A technique is all its variants, in control and
// attack.
func BenchmarkTechnique(b *testing.B) {
	layout, policy := fixtures(b)
	var skip []string
	for i, t := range slices.DeleteFunc(catalog.All(), func(t catalog.Technique) bool { return t.Vector != catalog.NET || t.Stage != catalog.StageWork }) {
		if i%2 == 1 {
			skip = append(skip, "--skip", t.ID)
		}
	}
	run := func(more ...string) time.Duration {
		args := append([]string{"run", "--image", layout, "--policy", policy, "--vector", string(catalog.NET), "--out", b.TempDir()}, more...)
		start := time.Now()
		if r := wallproof(b, args...); r.code != 0 && r.code != 3 {
			b.Fatalf("run: %s", r)
		}
		return time.Since(start)
	}
	const rounds = 3
	var all, half time.Duration
	for b.Loop() {
		for range rounds {
			all += run()
			half += run(skip...)
		}
	}
	b.ReportMetric(float64((all-half).Milliseconds())/float64(b.N*rounds*len(skip)/2), "ms/technique")
	b.ReportMetric(all.Seconds()/float64(b.N*rounds), "NET-s")
}

// bareStartTime starts and stops sandboxes that do nothing, one after the other.
func bareStartTime(b *testing.B, layout string) time.Duration {
	b.Helper()
	ctx := context.Background()
	img, err := image.Resolve(ctx, layout, image.Options{})
	if err != nil {
		b.Fatal(err)
	}
	rootfs := filepath.Join(b.TempDir(), "rootfs")
	if _, err := image.Unpack(ctx, img, rootfs, image.UnpackOptions{Command: []string{filepath.Join(bin(b), "wallproof"), "internal", "unpack"}}); err != nil {
		b.Fatal(err)
	}
	driver, err := drivers.New(drivers.Default, drivers.Options{Runtime: filepath.Join(bin(b), "wallproof-runsc")})
	if err != nil {
		b.Fatal(err)
	}
	start := time.Now()
	for i := range bareStarts {
		sb, err := driver.Start(ctx, sandbox.Spec{ID: fmt.Sprintf("wallproof-bench-%d", i), Rootfs: rootfs, IDBase: image.IDBase,
			Mounts: []sandbox.Mount{{Source: bin(b), Target: "/.wallproof", ReadOnly: true}}, Init: []string{"/.wallproof/wallproof-probe", "hold"}})
		if err != nil {
			b.Fatal(err)
		}
		if err := sb.Stop(ctx); err != nil {
			b.Fatal(err)
		}
	}
	return time.Since(start)
}
