package image

import (
	"archive/tar"
	"fmt"
	"path"
	"runtime"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Hiding is an image of two layers, of which the lower one holds a file and the upper
// one removes it: what the search for hidden secrets is tried on.
func Hiding(file, content string) (*Resolved, error) {
	name := strings.TrimPrefix(path.Clean("/"+file), "/")
	if name == "" {
		return nil, fmt.Errorf("%q is no file name", file)
	}
	lower := map[string]tar.Header{}
	body := map[string][]byte{}
	add := func(name string, h tar.Header, text []byte) {
		h.Name, h.Size, body[name] = name, int64(len(text)), text
		lower[name] = h
	}
	add(name, tar.Header{Typeflag: tar.TypeReg, Mode: 0o600}, []byte(content))
	addParents(lower, add)
	gone := path.Join(path.Dir(name), whiteoutPrefix+path.Base(name))
	upper := map[string]tar.Header{gone: {Name: gone, Typeflag: tar.TypeReg, Mode: 0o600}}
	img := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	for _, entries := range []map[string]tar.Header{lower, upper} {
		b, err := writeTar(entries, body)
		if err != nil {
			return nil, err
		}
		if img, err = mutate.AppendLayers(img, static.NewLayer(b, types.OCIUncompressedLayer)); err != nil {
			return nil, err
		}
	}
	return pin(img)
}

// pin pins an image that is in memory.
func pin(img v1.Image) (*Resolved, error) {
	digest, err := img.Digest()
	if err != nil {
		return nil, err
	}
	config, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	return &Resolved{Reference: "wallproof/hiding@" + digest.String(), Digest: digest.String(), Platform: "linux/" + runtime.GOARCH, Image: img, Config: config}, nil
}
