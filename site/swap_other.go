//go:build !linux

package site

import (
	"errors"
	"os"
)

// swap replaces one folder by another, in two steps.
func swap(dir, out string) error { return aside(dir, out) }

// exchange is not to be had in one step here.
func exchange(string, string) error { return errors.ErrUnsupported }

// lockFolder never gets a lock here, so that nothing is exchanged in its place.
func lockFolder(string) (*os.File, bool) { return nil, false }

// create writes a file that must not be there yet.
func create(_ folder, path string, content []byte) (fileID, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644) //nolint:gosec // a web server reads it
	if err != nil {
		return fileID{}, err
	}
	_, err = f.Write(content)
	return fileID{}, errors.Join(err, f.Close())
}
