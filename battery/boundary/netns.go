package boundary

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/wallproof/wallproof/internal/procs"
)

// namespace is a named network namespace with handles into it.
type namespace struct {
	name string
	fd   netns.NsHandle
	nl   *netlink.Handle
	dir  *os.File // the folder of names as it was before this one was made, nil if unknown
}

func (n *namespace) path() string { return netnsDir + n.name }

// newNamespace makes a named namespace. The name keeps it alive without any
// process in it, so that the rules inside survive whoever set them.
func newNamespace(name string) (*namespace, error) {
	ns := &namespace{name: name, fd: netns.None()}
	ns.dir, _ = os.OpenFile(netnsDir, unix.O_PATH|unix.O_DIRECTORY, 0) // not there on a fresh machine: then nothing can hide it
	// The thread that makes a namespace is inside it afterwards, so it is one that
	// is thrown away.
	err := procs.DoIn("", func() error {
		var err error
		ns.fd, err = netns.NewNamed(name)
		return err
	})
	if errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("make network namespace %s: it is already there; is another run using this id?", name)
	}
	if err == nil {
		ns.nl, err = netlink.NewHandleAt(ns.fd, unix.NETLINK_ROUTE)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("make network namespace %s (this needs root): %w", name, err), ns.remove())
	}
	return ns, nil
}

// close lets go of the handles; the namespace stays.
func (n *namespace) close() {
	if n.nl != nil {
		n.nl.Close()
		n.nl = nil
	}
	if n.fd.IsOpen() {
		_ = n.fd.Close()
	}
}

// remove deletes the namespace's links, then its name. The links go first
// because the namespace itself lives on while a process is inside.
func (n *namespace) remove() error {
	var errs []error
	if n.nl != nil {
		errs = append(errs, deleteLinks(n.nl))
	}
	n.close()
	err := deleteName(n.name)
	if errors.Is(err, unix.EBUSY) && n.dir != nil {
		err = n.deleteHidden()
	}
	if n.dir != nil {
		_ = n.dir.Close()
		n.dir = nil
	}
	return errors.Join(append(errs, err)...)
}

// deleteHidden removes a name over whose folder somebody has mounted the folder
// itself since, as the first `ip netns add` on a machine does: the mount is then
// to be found only from below.
func (n *namespace) deleteHidden() error {
	below := fmt.Sprintf("/proc/self/fd/%d/%s", n.dir.Fd(), n.name)
	if err := unix.Unmount(below, unix.MNT_DETACH); err != nil {
		return fmt.Errorf("unmount %s, which a mount over %s hides: %w", n.name, netnsDir, err)
	}
	return deleteName(n.name)
}

// deleteLinks deletes every veth; its other end goes with it.
func deleteLinks(nl *netlink.Handle) error {
	links, err := nl.LinkList()
	if err != nil {
		return fmt.Errorf("list links: %w", err)
	}
	var errs []error
	for _, l := range links {
		if l.Type() != "veth" {
			continue
		}
		if err := nl.LinkDel(l); err != nil && !errors.Is(err, unix.ENODEV) && !errors.Is(err, unix.EINVAL) {
			errs = append(errs, fmt.Errorf("delete link %s: %w", l.Attrs().Name, err))
		}
	}
	return errors.Join(errs...)
}

// deleteName removes the name of a namespace, whether or not it is mounted.
func deleteName(name string) error {
	path := filepath.Join(netnsDir, name)
	err := unix.Unmount(path, unix.MNT_DETACH)
	if err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("unmount %s: %w", path, err)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove network namespace: %w", err)
	}
	return nil
}
