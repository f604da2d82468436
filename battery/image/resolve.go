package image

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// Resolve finds the image that ref names and pins it. ref is
//   - a registry reference with digest, "registry/repo@sha256:…"; a tag beside
//     the digest is ignored, and a tag alone is refused with ErrTagNotDigest
//     unless Options.ResolveTag says otherwise;
//   - an OCI layout folder, or an archive (a tar of an OCI layout, or what
//     "docker save" writes), as "path@sha256:…", or as the path alone when it
//     holds one image.
//
// What begins with "/", "./" or "../", or exists as a path, is a path.
//
// The digest may be an index's or a platform manifest's. For an index the
// manifest for Options.Platform is chosen and both digests are recorded.
func Resolve(ctx context.Context, ref string, o Options) (*Resolved, error) {
	want, err := platform(o.Platform)
	if err != nil {
		return nil, err
	}
	path, digest, hasDigest := strings.Cut(ref, "@")
	isPath, err := looksLikePath(path)
	if err != nil {
		return nil, fmt.Errorf("image %s: %w", ref, err)
	}
	var r *Resolved
	if isPath {
		r, err = resolvePath(path, digest, hasDigest, want)
	} else {
		r, err = resolveRemote(ctx, ref, want, o)
	}
	if err != nil {
		return nil, fmt.Errorf("image %s: %w", ref, err)
	}
	if err := r.check(want); err != nil {
		return nil, fmt.Errorf("image %s: %w", ref, err)
	}
	return r, nil
}

func platform(s string) (v1.Platform, error) {
	if s == "" {
		return v1.Platform{OS: "linux", Architecture: runtime.GOARCH}, nil
	}
	p, err := v1.ParsePlatform(s)
	if err != nil || p.OS == "" || p.Architecture == "" {
		return v1.Platform{}, fmt.Errorf("%q is no platform; one is written like linux/amd64", s)
	}
	return *p, nil
}

func looksLikePath(s string) (bool, error) {
	if filepath.IsAbs(s) || s == "." || s == ".." || strings.HasPrefix(s, "./") || strings.HasPrefix(s, "../") {
		return true, nil
	}
	_, err := os.Stat(s)
	switch {
	case err == nil:
		return true, nil
	case errors.Is(err, fs.ErrPermission):
		return false, err
	}
	return false, nil // no path, or a text that cannot be one
}

// check verifies what every source must deliver: a manifest that has the
// digest, a configuration that has the manifest's, and a platform that can be
// run. It fills in Platform and Config.
func (r *Resolved) check(want v1.Platform) error {
	raw, err := r.Image.RawManifest()
	if err != nil {
		return fmt.Errorf("read its manifest: %w", asRegistryError(err))
	}
	if err := matches(raw, r.Digest, "manifest"); err != nil {
		return err
	}
	manifest, err := v1.ParseManifest(bytes.NewReader(raw))
	if err != nil {
		return fmt.Errorf("%w: manifest: %w", ErrInvalid, err)
	}
	switch {
	case manifest.MediaType.IsIndex() || manifest.SchemaVersion != 2:
		return fmt.Errorf("%w: %s is not an image manifest", ErrInvalid, r.Digest)
	case manifest.Config.Size > maxConfig || len(manifest.Layers) > maxLayers:
		return fmt.Errorf("%w: configuration of %d bytes and %d layers, at most %d and %d are taken", ErrInvalid, manifest.Config.Size, len(manifest.Layers), maxConfig, maxLayers)
	}
	rawConfig, err := r.Image.RawConfigFile()
	if err != nil {
		return fmt.Errorf("read its configuration: %w", asRegistryError(err))
	}
	if err := matches(rawConfig, manifest.Config.Digest.String(), "configuration"); err != nil {
		return err
	}
	if r.Config, err = v1.ParseConfigFile(bytes.NewReader(rawConfig)); err != nil {
		return fmt.Errorf("%w: configuration: %w", ErrInvalid, err)
	}
	if n := len(r.Config.RootFS.DiffIDs); n != len(manifest.Layers) {
		return fmt.Errorf("%w: %d layers, but %d diff ids", ErrInvalid, len(manifest.Layers), n)
	}
	return r.checkPlatform(want)
}

// checkPlatform goes by the configuration: the index that led here only claims.
func (r *Resolved) checkPlatform(want v1.Platform) error {
	is := v1.Platform{OS: r.Config.OS, Architecture: r.Config.Architecture, Variant: r.Config.Variant}
	r.Platform = is.String()
	if is.OS != want.OS || is.Architecture != want.Architecture || (want.Variant != "" && is.Variant != want.Variant) {
		return fmt.Errorf("%w: %s is for %s, not for %s", ErrNoPlatform, r.Digest, is.String(), want.String())
	}
	return nil
}

func matches(content []byte, digest, what string) error {
	h, _, err := v1.SHA256(bytes.NewReader(content))
	if err != nil {
		return err
	}
	if h.String() != digest {
		return fmt.Errorf("%w: the %s %s is %s", ErrMismatch, what, digest, h)
	}
	return nil
}

// choose picks an index's manifest for a platform: the first that matches,
// and among those without a wanted variant the first without one.
func choose(m *v1.IndexManifest, want v1.Platform) (v1.Descriptor, error) {
	if len(m.Manifests) > maxIndexEntries {
		return v1.Descriptor{}, fmt.Errorf("%w: index with %d entries, at most %d are taken", ErrInvalid, len(m.Manifests), maxIndexEntries)
	}
	var found []v1.Descriptor
	var has []string
	for _, d := range m.Manifests {
		if d.Platform == nil || !d.MediaType.IsImage() {
			continue
		}
		has = append(has, d.Platform.String())
		if d.Platform.OS == want.OS && d.Platform.Architecture == want.Architecture && (want.Variant == "" || d.Platform.Variant == want.Variant) {
			found = append(found, d)
		}
	}
	for _, d := range found {
		if d.Platform.Variant == "" {
			return d, nil
		}
	}
	if len(found) > 0 {
		return found[0], nil
	}
	return v1.Descriptor{}, fmt.Errorf("%w: the index has %s, not %s", ErrNoPlatform, strings.Join(has, ", "), want.String())
}
