package main

import (
	"context"
	"io"
	"os"

	"github.com/wallproof/wallproof/probes"
	"github.com/wallproof/wallproof/probes/attempts"
	"github.com/wallproof/wallproof/probes/beside"
	"golang.org/x/sys/unix"
)

// run makes the attempts of a plan and writes one authenticated line for each.
func run(ctx context.Context, in io.Reader, out io.Writer) error {
	// The plan's key is in this process's memory. Without dumpability no process
	// of the same user can read it there.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return err
	}
	plan, err := probes.ReadPlan(in)
	if err != nil {
		return err
	}
	if f, ok := in.(*os.File); ok {
		f.Close()
	}
	w, err := probes.NewWriter(out, plan.Key)
	if err != nil {
		return err
	}
	plan.Key = ""
	r := probes.Runner{Attempts: attempts.All()}
	if plan.Program != nil {
		return beside.Run(ctx, plan, &r, w)
	}
	return r.Run(ctx, plan, w)
}
