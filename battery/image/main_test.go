package image

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// childArg makes the test binary the unpacking process.
const childArg = "unpack-child"

func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == childArg {
		os.Exit(UnpackMain(os.Args[2:]))
	}
	os.Exit(m.Run())
}

func unpackOptions() UnpackOptions {
	return UnpackOptions{Command: []string{"/proc/self/exe", childArg}}
}

// file is a regular file's entry.
func file(name, content string) entry {
	return entry{tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644}, content}
}

func dir(name string) entry {
	return entry{tar.Header{Typeflag: tar.TypeDir, Name: name, Mode: 0o755}, ""}
}

func symlink(name, target string) entry {
	return entry{tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: target}, ""}
}

func hardlink(name, target string) entry {
	return entry{tar.Header{Typeflag: tar.TypeLink, Name: name, Linkname: target}, ""}
}

type entry struct {
	header  tar.Header
	content string
}

func tarOf(t testing.TB, entries ...entry) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, e := range entries {
		h := e.header
		if h.Size == 0 {
			h.Size = int64(len(e.content))
		}
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, e.content); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func gzipped(t testing.TB, b []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := w.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func digestOf(b []byte) string {
	sum := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// rawLayer is a layer of exactly these bytes with exactly this diff id.
type rawLayer struct {
	v1.Layer
	diffID string
}

func (l rawLayer) DiffID() (v1.Hash, error) { return v1.NewHash(l.diffID) }

// layerOf is a gzip layer of entries.
func layerOf(t testing.TB, entries ...entry) v1.Layer {
	t.Helper()
	plain := tarOf(t, entries...)
	return rawLayer{static.NewLayer(gzipped(t, plain), types.OCILayer), digestOf(plain)}
}

// imageOf is an image for this machine.
func imageOf(t testing.TB, layers ...v1.Layer) v1.Image {
	t.Helper()
	return imageFor(t, "linux", runtime.GOARCH, layers...)
}

func imageFor(t testing.TB, goos, arch string, layers ...v1.Layer) v1.Image {
	t.Helper()
	img, err := mutate.AppendLayers(mutate.MediaType(empty.Image, types.OCIManifestSchema1), layers...)
	if err != nil {
		t.Fatal(err)
	}
	c, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	c = c.DeepCopy()
	c.OS, c.Architecture = goos, arch
	c.RootFS.DiffIDs = nil
	for _, l := range layers {
		d, err := partial.Descriptor(l)
		if err != nil || d == nil {
			t.Fatal(err)
		}
		id, err := l.DiffID()
		if err != nil {
			t.Fatal(err)
		}
		c.RootFS.DiffIDs = append(c.RootFS.DiffIDs, id)
	}
	if img, err = mutate.ConfigFile(img, c); err != nil {
		t.Fatal(err)
	}
	return img
}

func mustDigest(t testing.TB, i interface{ Digest() (v1.Hash, error) }) string {
	t.Helper()
	h, err := i.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return h.String()
}

// resolved is an image as Resolve would return it.
func resolved(t testing.TB, img v1.Image) *Resolved {
	t.Helper()
	c, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	return &Resolved{Digest: mustDigest(t, img), Image: img, Config: c}
}

// empties fails when a folder has anything in it.
func empties(t testing.TB, dir string) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	hidden, err := filepath.Glob(filepath.Join(dir, ".*"))
	if err != nil {
		t.Fatal(err)
	}
	if len(names)+len(hidden) != 0 {
		t.Errorf("left behind: %q %q", names, hidden)
	}
}
