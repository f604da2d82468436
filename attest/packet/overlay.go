package packet

import (
	"io/fs"
	"slices"
	"strings"
)

// Overlay returns base with files of extra, at the top level, added or put in
// place of those of base.
func Overlay(base fs.FS, extra Memory) fs.FS { return overlay{base, extra} }

type overlay struct {
	base  fs.FS
	extra Memory
}

func (o overlay) Open(name string) (fs.File, error) {
	if _, ok := o.extra[name]; ok {
		return o.extra.Open(name)
	}
	if name == "." {
		list, err := o.ReadDir(name)
		return &memDir{info: memInfo{name, 0, true}, entries: list}, err
	}
	return o.base.Open(name)
}

// ReadDir lists both, sorted by name.
func (o overlay) ReadDir(name string) ([]fs.DirEntry, error) {
	list, err := fs.ReadDir(o.base, name)
	if err != nil || name != "." {
		return list, err
	}
	more, err := o.extra.ReadDir(".")
	if err != nil {
		return nil, err
	}
	list = slices.DeleteFunc(list, func(e fs.DirEntry) bool { _, ok := o.extra[e.Name()]; return ok })
	list = append(list, more...)
	slices.SortFunc(list, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return list, nil
}

// Lstat describes a file without following a link, and without opening it.
func (o overlay) Lstat(name string) (fs.FileInfo, error) { return o.stat(name, fs.Lstat) }

// Stat describes a file without opening it.
func (o overlay) Stat(name string) (fs.FileInfo, error) { return o.stat(name, fs.Stat) }

func (o overlay) stat(name string, of func(fs.FS, string) (fs.FileInfo, error)) (fs.FileInfo, error) {
	if _, ok := o.extra[name]; ok {
		return of(o.extra, name)
	}
	return of(o.base, name)
}

// ReadLink returns the target of a link of base; extra has none.
func (o overlay) ReadLink(name string) (string, error) {
	if _, ok := o.extra[name]; ok {
		return "", &fs.PathError{Op: "readlink", Path: name, Err: fs.ErrInvalid}
	}
	return fs.ReadLink(o.base, name)
}
