package image

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// maxArchiveEntries bounds how many files an archive may have; each image has
// a few a layer.
const maxArchiveEntries = 1 << 16

// archive is a tar file, read in place: either of an OCI layout, or of what
// "docker save" writes.
//
// The latter names its parts by path and has no manifest in the sense of OCI.
// One is made for it: an OCI manifest of the configuration as it is and of the
// layers as they are in the archive, so that the same archive content has the
// same digest everywhere. It is not the digest that a registry would give the
// image, whose layers are compressed there.
type archive struct {
	path  string
	files map[string]section
	extra map[v1.Hash][]byte  // what was made: the manifest
	blobs map[v1.Hash]section // by digest, for "docker save"
	top   []byte              // index.json
}

// section is where a file's content lies in the archive.
type section struct{ offset, size int64 }

func openArchive(path string) (store, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	a := &archive{path: path, files: map[string]section{}, extra: map[v1.Hash][]byte{}, blobs: map[v1.Hash]section{}}
	links, err := a.scan(f)
	if err != nil {
		return nil, fmt.Errorf("%w: read the archive: %w", ErrInvalid, err)
	}
	if _, ok := a.files["oci-layout"]; ok {
		a.top, err = a.readFile("index.json", maxManifest)
		return a, err
	}
	for from, to := range links {
		if s, ok := a.files[to]; ok {
			a.files[from] = s
		}
	}
	return a, a.fromDockerSave()
}

// scan notes where every file lies. It returns the links, which "docker save"
// used for layers that occur twice.
func (a *archive) scan(f *os.File) (map[string]string, error) {
	var magic [2]byte
	if _, err := f.ReadAt(magic[:], 0); err == nil && magic == [2]byte{0x1f, 0x8b} {
		return nil, errors.New("it is compressed: run gunzip on it first")
	}
	links := map[string]string{}
	for r, n := tar.NewReader(f), 0; ; n++ {
		h, err := r.Next()
		if err == io.EOF {
			return links, nil
		}
		if err != nil {
			return nil, err
		}
		if n >= maxArchiveEntries {
			return nil, fmt.Errorf("more than %d files", maxArchiveEntries)
		}
		name := path.Clean(h.Name)
		switch h.Typeflag {
		case tar.TypeReg:
			at, err := f.Seek(0, io.SeekCurrent)
			if err != nil {
				return nil, err
			}
			if _, twice := a.files[name]; twice {
				return nil, fmt.Errorf("%q occurs twice", name)
			}
			a.files[name] = section{at, h.Size}
		case tar.TypeSymlink:
			links[name] = path.Join(path.Dir(name), h.Linkname)
		case tar.TypeLink:
			links[name] = path.Clean(h.Linkname)
		}
	}
}

func (a *archive) openSection(s section) (io.ReadCloser, error) {
	f, err := os.Open(a.path)
	if err != nil {
		return nil, err
	}
	return struct {
		io.Reader
		io.Closer
	}{io.NewSectionReader(f, s.offset, s.size), f}, nil
}

func (a *archive) readFile(name string, most int64) ([]byte, error) {
	s, ok := a.files[path.Clean(name)]
	if !ok {
		return nil, fmt.Errorf("%w: the archive has no %s", ErrInvalid, name)
	}
	rc, err := a.openSection(s)
	if err != nil {
		return nil, err
	}
	defer rc.Close()
	return readBounded(rc, most)
}

func (a *archive) index() ([]byte, error) { return a.top, nil }

func (a *archive) open(h v1.Hash) (io.ReadCloser, int64, error) {
	if b, ok := a.extra[h]; ok {
		return io.NopCloser(bytes.NewReader(b)), int64(len(b)), nil
	}
	s, ok := a.blobs[h]
	if !ok {
		s, ok = a.files[path.Join("blobs", h.Algorithm, h.Hex)]
	}
	if !ok {
		return nil, 0, fs.ErrNotExist
	}
	rc, err := a.openSection(s)
	return rc, s.size, err
}

// fromDockerSave makes the manifest and index.
func (a *archive) fromDockerSave() error {
	raw, err := a.readFile("manifest.json", maxManifest)
	if err != nil {
		return fmt.Errorf("neither an OCI layout nor written by \"docker save\": %w", err)
	}
	var list []struct {
		Config   string
		RepoTags []string
		Layers   []string
	}
	if err := json.Unmarshal(raw, &list); err != nil {
		return fmt.Errorf("%w: manifest.json: %w", ErrInvalid, err)
	}
	if len(list) > maxIndexEntries {
		return fmt.Errorf("%w: %d images, at most %d are taken", ErrInvalid, len(list), maxIndexEntries)
	}
	top := v1.IndexManifest{SchemaVersion: 2, MediaType: types.OCIImageIndex, Manifests: []v1.Descriptor{}}
	for _, img := range list {
		desc, err := a.makeManifest(img.Config, img.Layers)
		if err != nil {
			return fmt.Errorf("image %s: %w", strings.Join(img.RepoTags, " "), err)
		}
		top.Manifests = append(top.Manifests, desc)
	}
	a.top = marshal(top)
	return nil
}

func (a *archive) makeManifest(config string, layers []string) (v1.Descriptor, error) {
	if len(layers) > maxLayers {
		return v1.Descriptor{}, fmt.Errorf("%w: %d layers, at most %d are taken", ErrInvalid, len(layers), maxLayers)
	}
	m := v1.Manifest{SchemaVersion: 2, MediaType: types.OCIManifestSchema1, Layers: []v1.Descriptor{}}
	var err error
	if m.Config, err = a.describe(config, types.OCIConfigJSON); err != nil {
		return v1.Descriptor{}, err
	}
	for _, l := range layers {
		d, err := a.describe(l, types.OCIUncompressedLayer)
		if err != nil {
			return v1.Descriptor{}, err
		}
		m.Layers = append(m.Layers, d)
	}
	raw := marshal(m)
	sum := sha256.Sum256(raw)
	h := v1.Hash{Algorithm: "sha256", Hex: hex.EncodeToString(sum[:])}
	a.extra[h] = raw
	return v1.Descriptor{MediaType: m.MediaType, Digest: h, Size: int64(len(raw))}, nil
}

// describe hashes a file of the archive and remembers it by its digest.
func (a *archive) describe(name string, media types.MediaType) (v1.Descriptor, error) {
	s, ok := a.files[path.Clean(name)]
	if !ok {
		return v1.Descriptor{}, fmt.Errorf("%w: the archive has no %q", ErrInvalid, name)
	}
	rc, err := a.openSection(s)
	if err != nil {
		return v1.Descriptor{}, err
	}
	defer rc.Close()
	h, n, err := v1.SHA256(rc)
	if err != nil {
		return v1.Descriptor{}, fmt.Errorf("read %q: %w", name, err)
	}
	a.blobs[h] = s
	return v1.Descriptor{MediaType: media, Digest: h, Size: n}, nil
}
