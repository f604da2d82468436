// Package inside is what Wallproof does inside a sandbox besides attacking it:
// make a place for the agent, end or halt what runs there, wait for a service,
// and tell what can be reached. Every function works with nothing of the image.
package inside

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// Bounds on a plan.
const (
	maxPlan  = 1 << 20
	maxItems = 64
)

// Plan is what Prepare makes.
type Plan struct {
	Dirs  []Dir  `json:"dirs,omitempty"`
	Files []File `json:"files,omitempty"`
}

// Dir is a folder that is to be there and belong to a user. Its parents are made
// where they are missing; what is in it stays as it is.
type Dir struct {
	Path string `json:"path"`
	UID  int    `json:"uid"`
	GID  int    `json:"gid"`
}

// File is a file that only its user may read.
type File struct {
	Path    string `json:"path"`
	UID     int    `json:"uid"`
	GID     int    `json:"gid"`
	Content []byte `json:"content"`
}

// Prepare makes the folders and files of a Plan, one JSON document on in. An
// existing file is replaced, and a link at its place is not followed.
func Prepare(in io.Reader) error {
	var p Plan
	if err := readPlan(in, &p); err != nil {
		return err
	}
	if len(p.Dirs)+len(p.Files) > maxItems {
		return fmt.Errorf("a plan of more than %d items", maxItems)
	}
	for _, d := range p.Dirs {
		if err := makeDir(d); err != nil {
			return err
		}
	}
	for _, f := range p.Files {
		if err := makeFile(f); err != nil {
			return err
		}
	}
	return nil
}

// readPlan reads one JSON document.
func readPlan(in io.Reader, into any) error {
	dec := json.NewDecoder(io.LimitReader(in, maxPlan))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		return fmt.Errorf("read the plan: %w", err)
	}
	return nil
}

func makeDir(d Dir) error {
	if err := os.MkdirAll(d.Path, 0o755); err != nil {
		return fmt.Errorf("make a folder: %w", err)
	}
	if err := os.Chown(d.Path, d.UID, d.GID); err != nil {
		return fmt.Errorf("give a folder away: %w", err)
	}
	return nil
}

func makeFile(f File) error {
	dir := filepath.Dir(f.Path)
	if _, err := os.Stat(dir); err != nil {
		if err := makeDir(Dir{dir, f.UID, f.GID}); err != nil {
			return err
		}
	}
	if err := os.Remove(f.Path); err != nil && !os.IsNotExist(err) {
		return fmt.Errorf("replace a file: %w", err)
	}
	w, err := os.OpenFile(f.Path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("make a file: %w", err)
	}
	_, err = w.Write(f.Content)
	if cerr := w.Chown(f.UID, f.GID); err == nil {
		err = cerr
	}
	if cerr := w.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return fmt.Errorf("make the file %s: %w", f.Path, err)
	}
	return nil
}
