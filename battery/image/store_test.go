package image

import (
	"archive/tar"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// writeLayout writes a layout folder with images and indexes.
func writeLayout(t *testing.T, what ...any) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "layout")
	p, err := layout.Write(dir, empty.Index)
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range what {
		switch w := w.(type) {
		case v1.Image:
			err = p.AppendImage(w)
		case v1.ImageIndex:
			err = p.AppendIndex(w)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// tarFolder makes an archive of a folder.
func tarFolder(t *testing.T, dir string) string {
	t.Helper()
	var entries []entry
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		entries = append(entries, file("./"+rel, string(b)))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return writeFile(t, tarOf(t, entries...))
}

func writeFile(t *testing.T, b []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "image.tar")
	if err := os.WriteFile(path, b, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestResolveLayout(t *testing.T) {
	index, mine, other := twoPlatforms(t)
	single := imageOf(t, layerOf(t, file("single", "")))
	indexDigest, mineDigest, otherDigest, singleDigest := mustDigest(t, index), mustDigest(t, mine), mustDigest(t, other), mustDigest(t, single)
	one, two := writeLayout(t, index), writeLayout(t, index, single)
	for source, convert := range map[Source]func(*testing.T, string) string{
		FromLayout: func(_ *testing.T, dir string) string { return dir }, FromArchive: tarFolder,
	} {
		one, two := convert(t, one), convert(t, two)
		tests := []struct {
			name, ref string
			platform  string
			want      Resolved
			wantErr   error
			text      string
		}{
			{name: "the only one", ref: one, want: Resolved{Reference: one + "@" + indexDigest, Digest: mineDigest, IndexDigest: indexDigest}},
			{name: "index", ref: two + "@" + indexDigest, want: Resolved{Reference: two + "@" + indexDigest, Digest: mineDigest, IndexDigest: indexDigest}},
			{name: "manifest", ref: two + "@" + singleDigest, want: Resolved{Reference: two + "@" + singleDigest, Digest: singleDigest}},
			{name: "manifest in the index", ref: two + "@" + mineDigest, want: Resolved{Reference: two + "@" + mineDigest, Digest: mineDigest}},
			{name: "one of two", ref: two, wantErr: ErrNotFound, text: "@" + singleDigest},
			{name: "missing", ref: two + "@" + digestOf(nil), wantErr: ErrNotFound},
			{name: "other platform", ref: two + "@" + otherDigest, wantErr: ErrNoPlatform},
			{name: "other platform asked for", ref: one, platform: "linux/s390x", want: Resolved{Reference: one + "@" + indexDigest, Digest: otherDigest, IndexDigest: indexDigest, Platform: "linux/s390x"}},
			{name: "bad digest", ref: one + "@sha256:x", text: "is no digest"},
			{name: "other algorithm", ref: one + "@sha512:" + strings.Repeat("a", 128), text: "is no digest"},
		}
		for _, tt := range tests {
			t.Run(string(source)+"/"+tt.name, func(t *testing.T) {
				got, err := Resolve(t.Context(), tt.ref, Options{Platform: tt.platform})
				if tt.wantErr != nil || tt.text != "" {
					if err == nil || (tt.wantErr != nil && !errors.Is(err, tt.wantErr)) || !strings.Contains(err.Error(), tt.text) {
						t.Fatalf("error %v, want %v with %q", err, tt.wantErr, tt.text)
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				if tt.want.Platform == "" {
					tt.want.Platform = "linux/" + runtime.GOARCH
				}
				tt.want.Source = source
				compare(t, got, &tt.want)
				unpackAndFind(t, got)
			})
		}
	}
}

// unpackAndFind unpacks an image, which has one file.
func unpackAndFind(t *testing.T, r *Resolved) {
	t.Helper()
	out := filepath.Join(t.TempDir(), "rootfs")
	if _, err := Unpack(t.Context(), r, out, unpackOptions()); err != nil {
		t.Fatal(err)
	}
	if got := describe(t, out); len(got) != 1 {
		t.Errorf("unpacked %q", got)
	}
}

func TestResolveBrokenLayout(t *testing.T) {
	img := imageOf(t, layerOf(t, file("f", "x")))
	m, err := img.Manifest()
	if err != nil {
		t.Fatal(err)
	}
	blob := func(dir string, h v1.Hash) string { return filepath.Join(dir, "blobs", h.Algorithm, h.Hex) }
	digest, err := img.Digest()
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		damage  func(dir string) error
		wantErr error
	}{
		"no layout file":      {func(dir string) error { return os.Remove(filepath.Join(dir, "oci-layout")) }, ErrInvalid},
		"no index":            {func(dir string) error { return os.Remove(filepath.Join(dir, "index.json")) }, ErrInvalid},
		"index is no JSON":    {func(dir string) error { return os.WriteFile(filepath.Join(dir, "index.json"), []byte("x"), 0o644) }, ErrInvalid},
		"index is huge":       {func(dir string) error { return os.Truncate(filepath.Join(dir, "index.json"), maxManifest+1) }, ErrInvalid},
		"manifest is missing": {func(dir string) error { return os.Remove(blob(dir, digest)) }, ErrInvalid},
		"manifest is changed": {func(dir string) error { return appendTo(blob(dir, digest), " ") }, ErrMismatch},
		"manifest is huge":    {func(dir string) error { return os.Truncate(blob(dir, digest), maxManifest+1) }, ErrInvalid},
		"manifest is a folder": {func(dir string) error {
			return errors.Join(os.Remove(blob(dir, digest)), os.Mkdir(blob(dir, digest), 0o755))
		}, ErrInvalid},
		"config is changed": {func(dir string) error { return appendTo(blob(dir, m.Config.Digest), " ") }, ErrMismatch},
		"config is missing": {func(dir string) error { return os.Remove(blob(dir, m.Config.Digest)) }, ErrInvalid},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			dir := writeLayout(t, img)
			if err := tt.damage(dir); err != nil {
				t.Fatal(err)
			}
			if _, err := Resolve(t.Context(), dir, Options{}); !errors.Is(err, tt.wantErr) {
				t.Errorf("error %v, want %v", err, tt.wantErr)
			}
		})
	}
	t.Run("layer is changed", func(t *testing.T) {
		dir := writeLayout(t, img)
		path := blob(dir, m.Layers[0].Digest)
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		b[len(b)/2] ^= 1
		if err := os.WriteFile(path, b, 0o644); err != nil {
			t.Fatal(err)
		}
		r, err := Resolve(t.Context(), dir, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Unpack(t.Context(), r, filepath.Join(t.TempDir(), "r"), unpackOptions()); !errors.Is(err, ErrMismatch) {
			t.Errorf("error %v", err)
		}
	})
	t.Run("layer is missing", func(t *testing.T) {
		dir := writeLayout(t, img)
		if err := os.Remove(blob(dir, m.Layers[0].Digest)); err != nil {
			t.Fatal(err)
		}
		r, err := Resolve(t.Context(), dir, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Unpack(t.Context(), r, filepath.Join(t.TempDir(), "r"), unpackOptions()); !errors.Is(err, ErrInvalid) {
			t.Errorf("error %v", err)
		}
	})
	if _, err := Resolve(t.Context(), filepath.Join(t.TempDir(), "missing"), Options{}); !errors.Is(err, ErrNotFound) {
		t.Errorf("missing path: %v", err)
	}
}

func appendTo(path, text string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

func TestResolveDockerSave(t *testing.T) {
	img := imageOf(t, layerOf(t, file("f", "x")))
	tag, err := name.NewTag("example.com/app:1")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "save.tar")
	if err := tarball.WriteToFile(path, tag, img); err != nil {
		t.Fatal(err)
	}
	first, err := Resolve(t.Context(), path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	compare(t, first, &Resolved{Reference: path + "@" + first.Digest, Source: FromArchive, Digest: first.Digest, Platform: "linux/" + runtime.GOARCH})
	unpackAndFind(t, first)
	again, err := Resolve(t.Context(), first.Reference, Options{})
	if err != nil || again.Digest != first.Digest {
		t.Errorf("resolved by its digest: %v", err)
	}
}

// TestResolveDockerSaveOld is the older form: layers in folders of their own,
// not compressed, and one that occurs twice as a link.
func TestResolveDockerSaveOld(t *testing.T) {
	layer := string(tarOf(t, file("f", "x")))
	id := digestOf([]byte(layer))
	config := `{"architecture":"` + runtime.GOARCH + `","os":"linux","rootfs":{"type":"layers","diff_ids":["` + id + `","` + id + `"]}}`
	manifest := func(layers string) entry {
		return file("manifest.json", `[{"Config":"c.json","RepoTags":null,"Layers":[`+layers+`]}]`)
	}
	good := []entry{manifest(`"a/layer.tar","b/layer.tar"`), file("c.json", config), file("a/layer.tar", layer), symlink("b/layer.tar", "../a/layer.tar")}
	r, err := Resolve(t.Context(), writeFile(t, tarOf(t, good...)), Options{})
	if err != nil {
		t.Fatal(err)
	}
	unpackAndFind(t, r)
	m, err := r.Image.Manifest()
	if err != nil || !slices.Equal([]string{m.Layers[0].Digest.String(), m.Layers[1].Digest.String()}, []string{id, id}) {
		t.Errorf("layers %+v, %v", m, err)
	}
	for name, tt := range map[string]struct {
		entries []entry
		text    string
	}{
		"layer is missing":         {[]entry{manifest(`"x/layer.tar"`), good[1]}, "has no"},
		"layer leads out":          {[]entry{manifest(`"b/layer.tar","b/layer.tar"`), good[1], symlink("b/layer.tar", "../../../etc/passwd")}, "has no"},
		"link to itself":           {[]entry{manifest(`"b/layer.tar","b/layer.tar"`), good[1], symlink("b/layer.tar", "layer.tar")}, "has no"},
		"other number of layers":   {[]entry{manifest(`"a/layer.tar"`), good[1], good[2]}, "diff ids"},
		"no manifest":              {[]entry{file("x", "y")}, "docker save"},
		"manifest is no JSON":      {[]entry{file("manifest.json", "x")}, "manifest.json"},
		"no images":                {[]entry{file("manifest.json", "[]")}, "0 images"},
		"a file twice":             {append([]entry{file("c.json", "x")}, good...), "twice"},
		"configuration is no JSON": {[]entry{manifest(""), file("c.json", "x")}, "configuration"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Resolve(t.Context(), writeFile(t, tarOf(t, tt.entries...)), Options{})
			if err == nil || !strings.Contains(err.Error(), tt.text) {
				t.Errorf("error %v, want %q", err, tt.text)
			}
		})
	}
	if _, err := Resolve(t.Context(), writeFile(t, gzipped(t, tarOf(t, good...))), Options{}); err == nil || !strings.Contains(err.Error(), "gunzip") {
		t.Errorf("compressed archive: %v", err)
	}
	if _, err := Resolve(t.Context(), writeFile(t, []byte("not an archive, but long enough to be looked at"+strings.Repeat(".", 600))), Options{}); !errors.Is(err, ErrInvalid) {
		t.Errorf("no archive: %v", err)
	}
	many := make([]entry, 0, maxArchiveEntries+1)
	for range maxArchiveEntries + 1 {
		many = append(many, entry{tar.Header{Typeflag: tar.TypeDir, Name: "d/"}, ""})
	}
	if _, err := Resolve(t.Context(), writeFile(t, tarOf(t, many...)), Options{}); err == nil || !strings.Contains(err.Error(), "more than") {
		t.Errorf("many entries: %v", err)
	}
}
