package gvisor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/wallproof/wallproof/battery/sandbox"
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
	stateDir, err := filepath.Abs(stateDir)
	if err != nil {
		return nil, fmt.Errorf("gvisor: sweep: %w", err)
	}
	entries, err := os.ReadDir(stateDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("gvisor: sweep: %w", err)
	}
	var removed []string
	var errs []error
	for _, e := range entries {
		if err := ctx.Err(); err != nil {
			return removed, errors.Join(append(errs, err)...)
		}
		if !orphan(stateDir, e, keep) {
			continue
		}
		if err := destroy(runDir(filepath.Join(stateDir, e.Name()))); err != nil {
			errs = append(errs, fmt.Errorf("gvisor: sweep %s: %w", e.Name(), err))
			continue
		}
		removed = append(removed, e.Name())
	}
	return removed, errors.Join(errs...)
}

func orphan(stateDir string, e os.DirEntry, keep func(id string) bool) bool {
	if !e.IsDir() {
		return false
	}
	dir := runDir(filepath.Join(stateDir, e.Name()))
	switch {
	case strings.HasPrefix(e.Name(), newPrefix):
		fi, err := e.Info()
		return err == nil && time.Since(fi.ModTime()) > newAge
	case !strings.HasPrefix(e.Name(), sandbox.IDPrefix):
		return false
	}
	return !dir.readOwner().alive() && (keep == nil || !keep(e.Name()))
}
