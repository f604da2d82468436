package bundle

import (
	"math"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestSwapped: each stored id becomes one, and no two the same.
func TestSwapped(t *testing.T) {
	for _, base := range []int{1, IDCount - 1, IDCount, IDCount + 1, 1 << 20, 0x70000000, math.MaxInt32 - 1<<16} {
		m := swapped(base)
		for i, a := range m {
			for _, b := range m[:i] {
				if overlap(a.ContainerID, b.ContainerID, a.Size, b.Size) || overlap(a.HostID, b.HostID, a.Size, b.Size) {
					t.Errorf("base %d: %+v and %+v overlap", base, a, b)
				}
			}
			if a.Size <= 0 || a.ContainerID+a.Size > math.MaxUint32 || a.HostID+a.Size > math.MaxUint32 {
				t.Errorf("base %d: %+v", base, a)
			}
		}
		for stored, want := range map[int]int{base: 0, base + IDCount - 1: IDCount - 1} {
			if got := become(m, stored); got != want {
				t.Errorf("base %d: %d becomes %d, want %d", base, stored, got, want)
			}
		}
		if got := become(m, 0); base >= IDCount && got != base || base < IDCount && got != -1 {
			t.Errorf("base %d: the host's root becomes %d", base, got)
		}
	}
}

func overlap(a, b, sizeA, sizeB int) bool { return a < b+sizeB && b < a+sizeA }

func become(m []syscall.SysProcIDMap, stored int) int {
	for _, e := range m {
		if stored >= e.ContainerID && stored < e.ContainerID+e.Size {
			return stored - e.ContainerID + e.HostID
		}
	}
	return -1
}

// TestMapMount looks at a folder and at a file through a mapping, and writes.
func TestMapMount(t *testing.T) {
	const base = 1 << 20
	ids, err := MapNamespace(base)
	if err != nil {
		t.Fatal(err)
	}
	defer ids.Close()
	src, dst := t.TempDir(), t.TempDir()
	for name, owner := range map[string]int{"theirs": base + 7, "ours": 0} {
		path := filepath.Join(src, name)
		if err := os.WriteFile(path, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(path, owner, owner); err != nil {
			t.Fatal(err)
		}
	}
	folder, file := filepath.Join(dst, "folder"), filepath.Join(dst, "file")
	for target, source := range map[string]string{folder: src, file: filepath.Join(src, "theirs")} {
		if err := MapMount(source, target, ids); err != nil {
			t.Fatal(err)
		}
		defer unmountAll(target)
	}
	if err := os.WriteFile(filepath.Join(folder, "new"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]int{
		filepath.Join(folder, "theirs"): 7, file: 7, filepath.Join(folder, "ours"): base,
		filepath.Join(src, "new"): base, filepath.Join(folder, "new"): 0,
	} {
		fi, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if got := int(fi.Sys().(*syscall.Stat_t).Uid); got != want {
			t.Errorf("%s belongs to %d, want %d", path, got, want)
		}
	}
	if err := MapMount("/proc", filepath.Join(dst, "proc"), ids); err == nil {
		unmountAll(filepath.Join(dst, "proc"))
		t.Error("/proc was mapped")
	}
	if err := MapMount(filepath.Join(src, "missing"), filepath.Join(dst, "missing"), nil); err == nil {
		t.Error("nothing was mounted")
	}
}
