package ten

import (
	"context"
	"io/fs"
	"path/filepath"

	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/probes"
	"github.com/wallproof/wallproof/probes/kit"
	"github.com/wallproof/wallproof/probes/plant"
	"golang.org/x/sys/unix"
)

// maxPresence bounds how many files are asked about.
const maxPresence = 64

// presence asks the kernel which files are in the page cache: whether a mapped page is
// in memory, or whether a read that may not wait has an answer. Of a folder that a
// neighbour has too, that tells what the neighbour does. Of the image's files, which
// only sandboxes of the same image have read, it tells that there are such: an
// exposure, which no wall of this sandbox's can take away.
func presence(ctx context.Context, env *probes.Env) manifest.Observation {
	shared := []string{plant.SharedMount, plant.CacheMount, env.Facts.Tenant.Shared, "/mnt/shared", "/data", "/volumes", "/vol"}
	for _, path := range files(ctx, shared) {
		if cached(path) {
			return manifest.Observation{Sign: manifest.SignReached, Detail: "the page cache tells that a file of a shared folder is in use"}
		}
	}
	o := manifest.Observation{Sign: manifest.SignAbsent, Detail: "the page cache tells nothing of the neighbour"}
	known := files(ctx, []string{"/usr/bin", "/usr/lib", "/bin", "/lib"})
	for _, path := range known {
		if cached(path) {
			o.Detail = kit.Exposure + "the page cache tells which files of the image are in memory"
			break
		}
	}
	return o
}

// files are regular files below folders.
func files(ctx context.Context, roots []string) []string {
	var out []string
	for _, root := range roots {
		if root == "" {
			continue
		}
		_ = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if ctx.Err() != nil || len(out) >= maxPresence {
				return fs.SkipAll
			}
			if err == nil && d.Type().IsRegular() {
				out = append(out, path)
			}
			return nil // what cannot be read has no files
		})
	}
	return out
}

// cached reports whether a file's first byte is in memory (mincore(2); preadv2(2), RWF_NOWAIT).
func cached(path string) bool {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	if in, err := kit.Resident(fd, 0); err == nil && in {
		return true
	}
	n, err := unix.Preadv2(fd, [][]byte{make([]byte, 1)}, 0, unix.RWF_NOWAIT)
	return err == nil && n == 1
}
