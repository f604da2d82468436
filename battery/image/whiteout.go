package image

import (
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
)

// Whiteouts, as the OCI image specification's layer document has them: an
// entry .wh.NAME removes NAME of the layers below, .wh..wh..opq in a folder
// everything that the layers below have in it. Neither touches what its own
// layer has, in whichever order they come.
const (
	whiteoutPrefix = ".wh."
	opaqueRest     = ".wh..opq"
	// specialRest begins the names that aufs kept for itself.
	specialRest = ".wh."
)

func (x *extractor) whiteout(dir []string, rest string) error {
	switch {
	case rest == opaqueRest:
		return x.tree.removeLower(dir, "")
	case strings.HasPrefix(rest, specialRest):
		x.report.Skipped++
		return nil
	case rest == "" || rest == "." || rest == "..":
		return fmt.Errorf("%w: a whiteout of %q", ErrHostile, rest)
	}
	return x.tree.removeLower(dir, rest)
}

// removeLower removes what the layers below have at dir/name, or, when name is
// "", in dir. That nothing is there is not an error.
func (t *tree) removeLower(dir []string, name string) error {
	fd, err := t.open(dir)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) {
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if name == "" {
		_, err := t.removeLowerChildren(fd)
		return err
	}
	ino, err := inode(fd)
	if err != nil {
		return err
	}
	_, err = t.removeLowerAt(fd, ino, name)
	return err
}

// removeLowerAt says whether something stays.
func (t *tree) removeLowerAt(dir int, dirIno uint64, name string) (stays bool, err error) {
	own := t.mine[place{dirIno, name}]
	child, err := openFolder(dir, name)
	switch {
	case errors.Is(err, unix.ENOENT):
		return false, nil
	case notFolder(err):
		if own {
			return true, nil
		}
		t.hidden.lose(dir, name)
		return false, ignoreMissing(unix.Unlinkat(dir, name, 0))
	case err != nil:
		return false, err
	}
	defer unix.Close(child)
	left, err := t.removeLowerChildren(child)
	if err != nil || left || own {
		return true, err
	}
	return false, ignoreMissing(unix.Unlinkat(dir, name, unix.AT_REMOVEDIR))
}

func (t *tree) removeLowerChildren(dir int) (stay bool, err error) {
	ino, err := inode(dir)
	if err != nil {
		return true, err
	}
	names, err := list(dir)
	if err != nil {
		return true, err
	}
	for _, name := range names {
		stays, err := t.removeLowerAt(dir, ino, name)
		if err != nil {
			return true, err
		}
		stay = stay || stays
	}
	return stay, nil
}

func ignoreMissing(err error) error {
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	return err
}
