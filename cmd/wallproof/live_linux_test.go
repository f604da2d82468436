package main

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/wallproof/wallproof/attest/predicate"
	"github.com/wallproof/wallproof/battery"
	"github.com/wallproof/wallproof/battery/sandbox/gvisor"
	"github.com/wallproof/wallproof/internal/command"
)

// The driver is asked where it runs; what it says is what a run on the same
// machine records.
func TestLiveAsksTheDriver(t *testing.T) {
	if os.Getenv(gvisor.RuntimeEnv) == "" {
		runtime, err := filepath.Abs("../../bin/wallproof-runsc")
		if err != nil {
			t.Fatal(err)
		}
		t.Setenv(gvisor.RuntimeEnv, runtime)
	}
	out := filepath.Join(t.TempDir(), "live.json")
	if code := command.Run(context.Background(), newApp(), []string{"wallproof", "live", "--driver", "gvisor", "--out", out}); code != 0 {
		t.Fatalf("exit code %d", code)
	}
	data, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	live, err := predicate.ParseLive(data)
	if err != nil {
		t.Fatal(err)
	}
	d, err := openDriver("gvisor")
	if err != nil {
		t.Fatal(err)
	}
	desc, err := d.Describe(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	f := live.Fabric
	if f == nil || f.Driver != "gvisor" || f.Version != desc.Version || f.ConfigDigest != desc.ConfigDigest || f.Kernel != battery.KernelRelease() {
		t.Errorf("%+v, the driver says %+v", f, desc)
	}
	if code := command.Run(context.Background(), newApp(), []string{"wallproof", "live", "--driver", "nothing", "--out", out}); code != command.Usage {
		t.Errorf("an unknown driver: exit code %d", code)
	}
}
