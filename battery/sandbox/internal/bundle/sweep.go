package bundle

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

// Sweep calls destroy for each sandbox's folder below stateDir whose owner
// process is gone, and for each that a killed start left unfinished. One of a
// living owner, or one for which keep (which may be nil) says yes, is left
// alone. It returns the names of what was removed, also when it returns an error
// about others.
func Sweep(ctx context.Context, stateDir string, keep func(id string) bool, destroy func(Dir) error) ([]string, error) {
	stateDir, err := filepath.Abs(stateDir)
	if err != nil {
		return nil, fmt.Errorf("sweep: %w", err)
	}
	entries, err := os.ReadDir(stateDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("sweep: %w", err)
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
		if err := destroy(Dir(filepath.Join(stateDir, e.Name()))); err != nil {
			errs = append(errs, fmt.Errorf("sweep %s: %w", e.Name(), err))
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
	switch {
	case strings.HasPrefix(e.Name(), NewPrefix):
		fi, err := e.Info()
		return err == nil && time.Since(fi.ModTime()) > newAge
	case !strings.HasPrefix(e.Name(), sandbox.IDPrefix):
		return false
	}
	return !Dir(filepath.Join(stateDir, e.Name())).readOwner().Alive() && (keep == nil || !keep(e.Name()))
}

// Remove removes a sandbox's mounts, control groups and folder. Its processes
// must be gone.
func (d Dir) Remove() error {
	if err := d.unmount(); err != nil {
		return err
	}
	if err := RemoveCgroups(CgroupRoot, d.ID()); err != nil {
		return err
	}
	if err := os.RemoveAll(string(d)); err != nil {
		return fmt.Errorf("remove run folder: %w", err)
	}
	return nil
}
