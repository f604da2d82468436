package image

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// store is content by digest: a layout folder or an archive.
type store interface {
	// index is the raw index.json: what the store holds.
	index() ([]byte, error)
	// open opens a blob; the error for one that is not there is fs.ErrNotExist.
	open(h v1.Hash) (io.ReadCloser, int64, error)
}

func resolvePath(path, digest string, hasDigest bool, want v1.Platform) (*Resolved, error) {
	fi, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: nothing at %s", ErrNotFound, path)
	}
	if err != nil {
		return nil, err
	}
	r := &Resolved{Source: FromLayout}
	var s store = folder(path)
	if !fi.IsDir() {
		r.Source = FromArchive
		if s, err = openArchive(path); err != nil {
			return nil, err
		}
	}
	top, err := findTop(s, digest, hasDigest)
	if err != nil {
		return nil, err
	}
	r.Reference = path + "@" + top.Digest.String()
	if top.MediaType.IsIndex() {
		r.IndexDigest = top.Digest.String()
		m, err := readIndex(s, top.Digest)
		if err != nil {
			return nil, err
		}
		if top, err = choose(m, want); err != nil {
			return nil, err
		}
	}
	r.Digest = top.Digest.String()
	r.Image, err = storeImage(s, top.Digest)
	return r, err
}

// findTop finds the descriptor that the digest names, in the store's index or
// one index below it; without a digest there must be one only.
func findTop(s store, digest string, hasDigest bool) (v1.Descriptor, error) {
	raw, err := s.index()
	if err != nil {
		return v1.Descriptor{}, err
	}
	m, err := parseIndex(raw)
	if err != nil {
		return v1.Descriptor{}, err
	}
	if !hasDigest {
		if len(m.Manifests) == 1 {
			return m.Manifests[0], nil
		}
		var has []string
		for _, d := range m.Manifests {
			has = append(has, "@"+d.Digest.String())
		}
		return v1.Descriptor{}, fmt.Errorf("%w: it holds %d images; append one of: %s", ErrNotFound, len(has), strings.Join(has, ", "))
	}
	h, err := v1.NewHash(digest)
	if err != nil || h.Algorithm != "sha256" {
		return v1.Descriptor{}, fmt.Errorf("%q is no digest; one is written like sha256:… with 64 hexadecimal digits", digest)
	}
	for _, d := range m.Manifests {
		if d.Digest == h {
			return d, nil
		}
	}
	for _, d := range m.Manifests {
		if !d.MediaType.IsIndex() {
			continue
		}
		below, err := readIndex(s, d.Digest)
		if err != nil {
			return v1.Descriptor{}, err
		}
		for _, d := range below.Manifests {
			if d.Digest == h {
				return d, nil
			}
		}
	}
	return v1.Descriptor{}, fmt.Errorf("%w: it does not hold %s", ErrNotFound, h)
}

func parseIndex(raw []byte) (*v1.IndexManifest, error) {
	m, err := v1.ParseIndexManifest(bytes.NewReader(raw))
	if err != nil {
		return nil, fmt.Errorf("%w: index: %w", ErrInvalid, err)
	}
	if len(m.Manifests) > maxIndexEntries {
		return nil, fmt.Errorf("%w: index with %d entries, at most %d are taken", ErrInvalid, len(m.Manifests), maxIndexEntries)
	}
	return m, nil
}

func readIndex(s store, h v1.Hash) (*v1.IndexManifest, error) {
	raw, err := readBlob(s, h, maxManifest)
	if err != nil {
		return nil, err
	}
	return parseIndex(raw)
}

// readBlob reads a whole blob and compares it with its digest.
func readBlob(s store, h v1.Hash, most int64) ([]byte, error) {
	rc, size, err := s.open(h)
	if err != nil {
		return nil, missing(h, err)
	}
	defer rc.Close()
	if size > most {
		return nil, fmt.Errorf("%w: %s has %d bytes, at most %d are taken", ErrInvalid, h, size, most)
	}
	raw, err := io.ReadAll(io.LimitReader(rc, most+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", h, err)
	}
	return raw, matches(raw, h.String(), "content")
}

func missing(h v1.Hash, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: %s is missing", ErrInvalid, h)
	}
	return err
}

// folder is an OCI layout folder.
type folder string

func (f folder) index() ([]byte, error) {
	if _, err := os.Stat(filepath.Join(string(f), "oci-layout")); err != nil {
		return nil, fmt.Errorf("%w: %s is a folder, but no OCI layout: %w", ErrInvalid, string(f), err)
	}
	file, err := os.Open(filepath.Join(string(f), "index.json"))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	defer file.Close()
	return readBounded(file, maxManifest)
}

func (f folder) open(h v1.Hash) (io.ReadCloser, int64, error) {
	file, err := os.Open(filepath.Join(string(f), "blobs", h.Algorithm, h.Hex))
	if err != nil {
		return nil, 0, err
	}
	fi, err := file.Stat()
	if err == nil && !fi.Mode().IsRegular() {
		err = fmt.Errorf("%w: %s is not a regular file", ErrInvalid, file.Name())
	}
	if err != nil {
		file.Close()
		return nil, 0, err
	}
	return file, fi.Size(), nil
}

func readBounded(r io.Reader, most int64) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(r, most+1))
	if err != nil {
		return nil, err
	}
	if int64(len(b)) > most {
		return nil, fmt.Errorf("%w: index or manifest of more than %d bytes", ErrInvalid, most)
	}
	return b, nil
}

// stored is an image in a store; the client library derives the rest of a
// v1.Image from it.
type stored struct {
	store    store
	manifest []byte
	config   []byte
	layers   map[v1.Hash]v1.Descriptor
	media    types.MediaType
}

func storeImage(s store, h v1.Hash) (v1.Image, error) {
	raw, err := readBlob(s, h, maxManifest)
	if err != nil {
		return nil, err
	}
	m, err := v1.ParseManifest(bytes.NewReader(raw))
	if err != nil {
		return nil, fmt.Errorf("%w: manifest: %w", ErrInvalid, err)
	}
	img := &stored{store: s, manifest: raw, media: m.MediaType, layers: map[v1.Hash]v1.Descriptor{}}
	if img.media == "" {
		img.media = types.OCIManifestSchema1
	}
	for _, l := range m.Layers {
		img.layers[l.Digest] = l
	}
	if img.config, err = readBlob(s, m.Config.Digest, maxConfig); err != nil {
		return nil, err
	}
	return partial.CompressedToImage(img)
}

// RawConfigFile implements partial.CompressedImageCore.
func (i *stored) RawConfigFile() ([]byte, error) { return i.config, nil }

// MediaType implements partial.CompressedImageCore.
func (i *stored) MediaType() (types.MediaType, error) { return i.media, nil }

// RawManifest implements partial.CompressedImageCore.
func (i *stored) RawManifest() ([]byte, error) { return i.manifest, nil }

// LayerByDigest implements partial.CompressedImageCore.
func (i *stored) LayerByDigest(h v1.Hash) (partial.CompressedLayer, error) {
	d, ok := i.layers[h]
	if !ok {
		return nil, fmt.Errorf("%w: no layer %s", ErrInvalid, h)
	}
	return &storedLayer{store: i.store, desc: d}, nil
}

type storedLayer struct {
	store store
	desc  v1.Descriptor
}

// Digest implements partial.CompressedLayer.
func (l *storedLayer) Digest() (v1.Hash, error) { return l.desc.Digest, nil }

// Size implements partial.CompressedLayer.
func (l *storedLayer) Size() (int64, error) { return l.desc.Size, nil }

// MediaType implements partial.CompressedLayer.
func (l *storedLayer) MediaType() (types.MediaType, error) { return l.desc.MediaType, nil }

// Compressed implements partial.CompressedLayer. The content is not compared
// with the digest here; unpacking does that.
func (l *storedLayer) Compressed() (io.ReadCloser, error) {
	rc, _, err := l.store.open(l.desc.Digest)
	if err != nil {
		return nil, missing(l.desc.Digest, err)
	}
	return rc, nil
}

// marshal is for structures of ours that cannot fail to encode.
func marshal(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}
