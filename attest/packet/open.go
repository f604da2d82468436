package packet

import (
	"fmt"
	"io/fs"
)

// Open opens a regular file of a packet. What else stands there under its name,
// a link, a pipe or a device, is refused without being opened: opening a pipe
// waits for a writer that may never come. A file that is not there gives
// fs.ErrNotExist.
func Open(packet fs.FS, name string) (fs.File, error) {
	// Lstat and Stat of a file system that has neither open the file, but only
	// one of a host's folder holds pipes, and that has both.
	info, err := fs.Lstat(packet, name)
	if err != nil {
		return nil, err
	}
	if err := regular(name, info); err != nil {
		return nil, err
	}
	f, err := packet.Open(name)
	if err != nil {
		return nil, err
	}
	if info, err = f.Stat(); err == nil {
		err = regular(name, info)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func regular(name string, info fs.FileInfo) error {
	if info.Mode().IsRegular() {
		return nil
	}
	return &Error{Reason: ReasonNotFile, Path: name, Detail: fmt.Sprintf("only regular files belong into a packet, this is %s", info.Mode().Type())}
}

// Broken is a packet that could not be opened: whatever is asked of it fails with the
// reason.
func Broken(why error) fs.FS { return broken{why} }

type broken struct{ why error }

func (b broken) Open(string) (fs.File, error) { return nil, b.why }
