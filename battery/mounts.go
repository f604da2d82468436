package battery

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/wallproof/wallproof/battery/sandbox"
	"github.com/wallproof/wallproof/policy/proxy"
)

// trustMounts writes the authorities that the sandbox trusts and mounts them at
// their own place and over the trust stores that the image has. The image itself
// is not changed.
func trustMounts(state, rootfs, ca string) ([]sandbox.Mount, error) {
	dir := filepath.Join(state, "trust")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, storage("create the folder of trusted authorities", err)
	}
	file := filepath.Join(dir, "ca.pem")
	if err := os.WriteFile(file, []byte(ca), 0o644); err != nil {
		return nil, storage("write the trusted authorities", err)
	}
	mounts := []sandbox.Mount{{Source: dir, Target: trustMount, ReadOnly: true}}
	root, err := os.OpenRoot(rootfs)
	if err != nil {
		return nil, fmt.Errorf("open the root file system: %w", err)
	}
	defer root.Close()
	for _, store := range proxy.TrustStores {
		if info, err := root.Lstat(store[1:]); err == nil && info.Mode().IsRegular() {
			mounts = append(mounts, sandbox.Mount{Source: file, Target: store, ReadOnly: true})
		}
	}
	return mounts, nil
}

// toolsFolder puts our own binaries where every sandbox finds them, read-only.
func toolsFolder(state string, binaries ...string) (sandbox.Mount, error) {
	dir := filepath.Join(state, "tools")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return sandbox.Mount{}, storage("create the folder of tools", err)
	}
	for _, b := range binaries {
		if err := copyFile(b, filepath.Join(dir, filepath.Base(b))); err != nil {
			return sandbox.Mount{}, err
		}
	}
	return sandbox.Mount{Source: dir, Target: toolsMount, ReadOnly: true}, nil
}

func copyFile(from, to string) error {
	if _, err := os.Stat(to); err == nil {
		return nil
	}
	in, err := os.Open(from)
	if err != nil {
		return fmt.Errorf("read a tool: %w", err)
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755)
	if err != nil {
		return storage("copy a tool", err)
	}
	_, err = io.Copy(out, in)
	if err = errors.Join(err, out.Close()); err != nil {
		return storage("copy a tool", err)
	}
	return nil
}
