package battery

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"

	"github.com/wallproof/wallproof/battery/boundary"
	"github.com/wallproof/wallproof/battery/sandbox"
	"golang.org/x/sys/unix"
)

// Check is one line of the doctor's: what this machine can do.
type Check struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail"`
	Fix    string `json:"fix,omitempty"` // what to do when it is not OK
}

// minFree is the free space below which an unpacked image may not fit.
const minFree = 2 << 30

// Doctor measures what a run needs. It builds a boundary of its own, verifies it
// with real packets, and removes it.
func Doctor(ctx context.Context, driver sandbox.Driver) []Check {
	checks := []Check{
		{Name: "system", OK: runtime.GOOS == "linux", Detail: runtime.GOOS + "/" + runtime.GOARCH + ", kernel " + KernelRelease(), Fix: "the boundary needs Linux"},
		{Name: "root", OK: os.Geteuid() == 0, Detail: fmt.Sprintf("effective user %d", os.Geteuid()), Fix: "run as root: sudo wallproof doctor"},
		freeSpace(),
	}
	desc, err := driver.Describe(ctx)
	if err != nil {
		checks = append(checks, Check{Name: "sandbox driver", Detail: err.Error(), Fix: "build all binaries with `make build`, or set the runtime's path"})
	} else {
		checks = append(checks, Check{Name: "sandbox driver", OK: true, Detail: desc.Name + " " + desc.Version + factList(desc.Facts)})
	}
	if os.Geteuid() == 0 {
		checks = append(checks, boundaryChecks(ctx)...)
		checks = append(checks, leftovers())
	}
	return checks
}

func factList(facts map[string]string) string {
	var out []string
	for _, k := range []string{"kernel", "platform", "cgroups"} {
		if v := facts[k]; v != "" {
			out = append(out, k+" "+v)
		}
	}
	if len(out) == 0 {
		return ""
	}
	return " (" + strings.Join(out, ", ") + ")"
}

// KernelRelease is the running kernel's release, as uname says.
func KernelRelease() string {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return "unknown"
	}
	return unix.ByteSliceToString(u.Release[:])
}

func freeSpace() Check {
	c := Check{Name: "free space", Fix: "free some space below " + StateRoot + ", where images are unpacked"}
	dir := "/var/lib"
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		c.Detail = err.Error()
		return c
	}
	free := s.Bavail * uint64(s.Bsize)
	c.OK, c.Detail = free >= minFree, fmt.Sprintf("%.1f GiB below %s", float64(free)/(1<<30), dir)
	return c
}

// boundaryChecks builds both kinds of boundary for real.
func boundaryChecks(ctx context.Context) []Check {
	var out []Check
	for _, mode := range []boundary.Mode{boundary.Enforced, boundary.Open} {
		out = append(out, boundaryCheck(ctx, mode)...)
	}
	return out
}

func boundaryCheck(ctx context.Context, mode boundary.Mode) (out []Check) {
	c := Check{Name: "boundary, " + string(mode), Fix: "the kernel needs network namespaces, veth and nf_tables with nat, redirect, reject and log"}
	raw := make([]byte, 4)
	if _, err := rand.Read(raw); err != nil {
		c.Detail = err.Error()
		return []Check{c}
	}
	run := hex.EncodeToString(raw)
	release, err := boundary.Claim(run)
	if err != nil {
		c.Detail = err.Error()
		return []Check{c}
	}
	defer release()
	stage, err := boundary.Build(ctx, boundary.Config{Run: run, Phase: "a", Boxes: []string{boxWork}, Mode: mode, Uplink: boundary.World, ProxyUID: proxyUID})
	if err != nil {
		c.Detail = err.Error()
		return []Check{c}
	}
	go discard(stage.Denials())
	v, err := stage.VerifyInPlace(ctx)
	v6, why := stage.IPv6()
	err = errors.Join(err, stage.Close())
	if err != nil {
		c.Detail = err.Error()
		return []Check{c}
	}
	c.OK, c.Detail = true, fmt.Sprintf("built and verified in place, %d live checks", len(v.Checks))
	out = append(out, c)
	if mode == boundary.Enforced {
		six := Check{Name: "IPv6", OK: v6, Detail: "in both phases", Fix: "enable IPv6 in the kernel, or IPv6 techniques are not applicable"}
		if !v6 {
			six.Detail = why
		}
		out = append(out, six)
	}
	return out
}

// leftovers looks for what a killed run left.
func leftovers() Check {
	c := Check{Name: "leftovers", OK: true, Detail: "none", Fix: "remove them with `wallproof gc`"}
	entries, err := os.ReadDir("/run/netns")
	if err != nil {
		return c
	}
	n := 0
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "wallproof-") && !boundary.Alive(runOf(e.Name())) {
			n++
		}
	}
	if n > 0 {
		c.OK, c.Detail = false, fmt.Sprintf("%d namespaces of dead runs", n)
	}
	return c
}
