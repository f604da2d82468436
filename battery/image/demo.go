package image

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"runtime"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// DemoOptions configure Demo.
type DemoOptions struct {
	// Shell adds /bin/sh, ls, cat, echo and env as links to /bin/wallproof-agent.
	Shell bool
	// Files are added to the image: path to content, mode 0644.
	Files map[string][]byte
	// Env is added to the image's configuration.
	Env []string
	// Labels are added to the image's configuration.
	Labels map[string]string
}

// agentPath is where the agent lies in the demo image.
const agentPath = "bin/wallproof-agent"

// DemoUser is the demo image's ordinary user and group.
const DemoUser = 1000

// demoEpoch is the time of everything in the demo image.
var demoEpoch = time.Unix(0, 0).UTC()

// demoFiles are the demo image's fixed files.
var demoFiles = map[string]string{
	"etc/passwd":          "root:x:0:0:root:/root:/bin/sh\nagent:x:1000:1000:agent:/home/agent:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n",
	"etc/group":           "root:x:0:\nagent:x:1000:\nnobody:x:65534:\n",
	"etc/os-release":      "ID=wallproof-demo\nNAME=\"Wallproof demo\"\nVERSION_ID=1\n",
	"workspace/README.md": "# Workspace\n\nThe demo agent works here.\n",
}

// Demo builds the small demo image around a static agent binary. It is
// reproducible: the same input gives the same digest, whatever compiled this
// package, since the layer is sorted, dated 1970 and not compressed.
func Demo(agent []byte, o DemoOptions) (v1.Image, error) {
	if len(agent) == 0 {
		return nil, errors.New("demo image: no agent binary")
	}
	layer, err := demoLayer(agent, o)
	if err != nil {
		return nil, fmt.Errorf("demo image: %w", err)
	}
	img := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	img, err = mutate.Append(img, mutate.Addendum{
		Layer:   layer,
		History: v1.History{Created: v1.Time{Time: demoEpoch}, CreatedBy: "wallproof demo"},
	})
	if err != nil {
		return nil, fmt.Errorf("demo image: %w", err)
	}
	config, err := img.ConfigFile()
	if err != nil {
		return nil, fmt.Errorf("demo image: %w", err)
	}
	config = config.DeepCopy()
	config.Created = v1.Time{Time: demoEpoch}
	config.OS, config.Architecture = "linux", runtime.GOARCH
	config.Config = v1.Config{
		Env:        append([]string{"PATH=/bin", "HOME=/home/agent"}, o.Env...),
		Cmd:        []string{"/" + agentPath},
		User:       fmt.Sprintf("%d:%d", DemoUser, DemoUser),
		WorkingDir: "/workspace",
		Labels:     o.Labels,
	}
	if img, err = mutate.ConfigFile(img, config); err != nil {
		return nil, fmt.Errorf("demo image: %w", err)
	}
	return img, nil
}

// demoLayer writes the image's one layer.
func demoLayer(agent []byte, o DemoOptions) (v1.Layer, error) {
	entries := map[string]tar.Header{}
	content := map[string][]byte{}
	add := func(name string, h tar.Header, body []byte) {
		h.Name, h.Size, content[name] = name, int64(len(body)), body
		entries[name] = h
	}
	for name, text := range demoFiles {
		add(name, tar.Header{Typeflag: tar.TypeReg, Mode: 0o644}, []byte(text))
	}
	for name, body := range o.Files {
		clean := strings.TrimPrefix(path.Clean("/"+name), "/")
		if clean == "" {
			return nil, fmt.Errorf("%q is no file name", name)
		}
		add(clean, tar.Header{Typeflag: tar.TypeReg, Mode: 0o644}, body)
	}
	add(agentPath, tar.Header{Typeflag: tar.TypeReg, Mode: 0o755}, agent)
	if o.Shell {
		for _, name := range []string{"sh", "ls", "cat", "echo", "env"} {
			add("bin/"+name, tar.Header{Typeflag: tar.TypeSymlink, Mode: 0o777, Linkname: path.Base(agentPath)}, nil)
		}
	}
	for name, mode := range map[string]int64{"tmp": 0o1777, "root": 0o700, "home/agent": 0o755, "workspace": 0o755} {
		add(name, tar.Header{Typeflag: tar.TypeDir, Mode: mode}, nil)
	}
	addParents(entries, add)
	b, err := writeTar(entries, content)
	if err != nil {
		return nil, err
	}
	return static.NewLayer(b, types.OCIUncompressedLayer), nil
}

func addParents(entries map[string]tar.Header, add func(string, tar.Header, []byte)) {
	for _, name := range slices.Collect(maps.Keys(entries)) {
		for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
			if _, ok := entries[dir]; !ok {
				add(dir, tar.Header{Typeflag: tar.TypeDir, Mode: 0o755}, nil)
			}
		}
	}
}

// writeTar writes the entries in the order of their names, which puts folders
// before what is in them. What lies in the agent's folders belongs to it.
func writeTar(entries map[string]tar.Header, content map[string][]byte) ([]byte, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		h := entries[name]
		h.ModTime, h.Format = demoEpoch, tar.FormatPAX
		if name == "workspace" || strings.HasPrefix(name, "workspace/") || strings.HasPrefix(name, "home/agent") {
			h.Uid, h.Gid = DemoUser, DemoUser
		}
		if h.Typeflag == tar.TypeDir {
			h.Name += "/"
		}
		if !fs.ValidPath(name) {
			return nil, fmt.Errorf("%q is no file name", name)
		}
		if err := w.WriteHeader(&h); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if _, err := w.Write(content[name]); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}
