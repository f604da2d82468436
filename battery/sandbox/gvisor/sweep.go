package gvisor

import (
	"context"
	"fmt"

	"github.com/wallproof/wallproof/battery/sandbox/internal/bundle"
)

// Sweep ends the sandboxes below stateDir ("" for DefaultStateDir) whose owner
// process is gone, and removes what they left: processes, mounts, control
// groups and run folders. A sandbox of a living owner, or one for which keep
// (which may be nil) says yes, is left alone. It returns the ids it removed,
// also when it returns an error about others.
func Sweep(ctx context.Context, stateDir string, keep func(id string) bool) ([]string, error) {
	if stateDir == "" {
		stateDir = DefaultStateDir
	}
	removed, err := bundle.Sweep(ctx, stateDir, keep, destroy)
	if err != nil {
		err = fmt.Errorf("gvisor: %w", err)
	}
	return removed, err
}
