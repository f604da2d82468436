package battery

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/wallproof/wallproof/battery/boundary"
	"github.com/wallproof/wallproof/battery/sandbox/drivers"
)

// GC removes what runs left whose process was killed: sandboxes, mounts,
// namespaces, links and folders. What belongs to a living run stays. It returns
// what it removed, one line each.
func GC(ctx context.Context) ([]string, error) {
	var removed []string
	note := func(kind string, names []string) {
		for _, n := range names {
			removed = append(removed, kind+" "+n)
		}
	}
	boxes, err1 := drivers.Sweep(ctx, "", func(id string) bool { return boundary.Alive(runOf(id)) })
	note("sandbox", boxes)
	spaces, err2 := boundary.Sweep(ctx, boundary.Alive)
	note("namespace", spaces)
	folders, err3 := sweepFolders(StateRoot)
	note("folder", folders)
	sockets, err4 := sweepSockets()
	note("socket", sockets)
	return removed, errors.Join(err1, err2, err3, err4)
}

// OperatorSocket is where the operator of a run of exec reaches it. It lies
// beside the runs' own folders and is mounted into no sandbox.
func OperatorSocket(run string) string { return filepath.Join(drivers.DefaultStateDir, run+".sock") }

// sweepSockets removes the operators' sockets of runs that are not alive.
func sweepSockets() ([]string, error) {
	paths, err := filepath.Glob(OperatorSocket("????????"))
	if err != nil {
		return nil, fmt.Errorf("look for sockets of dead runs: %w", err)
	}
	var removed []string
	for _, path := range paths {
		if boundary.Alive(strings.TrimSuffix(filepath.Base(path), ".sock")) {
			continue
		}
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return removed, fmt.Errorf("remove the socket of a dead run: %w", err)
		}
		removed = append(removed, path)
	}
	return removed, nil
}

// runOf takes the run out of a name "wallproof-RUN-…".
func runOf(name string) string {
	parts := strings.SplitN(name, "-", 3)
	if len(parts) < 2 {
		return ""
	}
	return parts[1]
}

// sweepFolders removes the folders of runs that are not alive.
func sweepFolders(root string) ([]string, error) {
	entries, err := os.ReadDir(root)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look for folders of dead runs: %w", err)
	}
	var removed []string
	for _, e := range entries {
		if boundary.Alive(e.Name()) {
			continue
		}
		path := filepath.Join(root, e.Name())
		if err := os.RemoveAll(path); err != nil {
			return removed, fmt.Errorf("remove the folder of a dead run: %w", err)
		}
		removed = append(removed, path)
	}
	return removed, nil
}
