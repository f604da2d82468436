package services

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"html"
	"maps"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"
)

// Package is a package of the registry.
type Package struct {
	Version     string            `json:"version,omitempty"` // "1.0.0" by default
	Description string            `json:"description,omitempty"`
	Readme      string            `json:"readme,omitempty"`
	Files       map[string]string `json:"files,omitempty"` // of its tarball, below package/
}

// maxPackageName bounds the name of a package asked for.
const maxPackageName = 214 // npm's own bound

// Registry answers as a package registry: npm's protocol (GET /NAME, GET
// /NAME/-/FILE.tgz, PUT /NAME to publish) and PyPI's simple index (GET
// /simple/NAME/, GET /packages/FILE). A name that is not in packages is served
// with no content of its own. Tarballs are the same bytes every time.
func Registry(packages map[string]Package) Service {
	g := registry{packages: packages}
	return func(req Request) (Response, bool) {
		p := strings.Trim(req.Path, "/")
		switch {
		case p == "" || len(p) > 2*maxPackageName || strings.HasPrefix(p, "."):
			return Response{}, false
		case req.Method == http.MethodPut || req.Method == http.MethodPost:
			return object(req, http.StatusCreated, map[string]any{"ok": true, "success": true}), true
		case strings.HasPrefix(p, "simple/"):
			return g.simple(req, strings.TrimPrefix(p, "simple/")), true
		case strings.HasPrefix(p, "packages/"):
			return g.tarball(projectOf(p)), true
		}
		if name, _, ok := strings.Cut(p, "/-/"); ok {
			return g.tarball(name), true
		}
		if strings.Count(p, "/") > 1 || (strings.Contains(p, "/") && !strings.HasPrefix(p, "@")) {
			return Response{}, false
		}
		return g.packument(req, p), true
	}
}

type registry struct{ packages map[string]Package }

func (g registry) get(name string) Package {
	p := g.packages[name]
	if p.Version == "" {
		p.Version = "1.0.0"
	}
	return p
}

// packument is npm's document about a package.
func (g registry) packument(req Request, name string) Response {
	p := g.get(name)
	tgz := Tarball(name, p)
	one, two := sha1.Sum(tgz), sha256.Sum256(tgz)
	file := path.Base(name) + "-" + p.Version + ".tgz"
	version := map[string]any{
		"name": name, "version": p.Version, "description": p.Description,
		"dist": map[string]any{
			"tarball":   "https://" + req.Host + "/" + name + "/-/" + file,
			"shasum":    hex.EncodeToString(one[:]),
			"integrity": "sha256-" + base64.StdEncoding.EncodeToString(two[:]),
		},
	}
	return object(req, http.StatusOK, map[string]any{
		"name": name, "description": p.Description, "readme": p.Readme,
		"dist-tags": map[string]string{"latest": p.Version},
		"versions":  map[string]any{p.Version: version},
	})
}

// simple is PyPI's page for one project (PEP 503).
func (g registry) simple(req Request, name string) Response {
	p := g.get(name)
	sum := sha256.Sum256(Tarball(name, p))
	file := name + "-" + p.Version + ".tar.gz"
	r := text(http.StatusOK, fmt.Sprintf("<!DOCTYPE html>\n<html><body>\n<!-- %s -->\n<a href=\"/packages/%s#sha256=%x\">%s</a>\n</body></html>\n",
		html.EscapeString(p.Description), html.EscapeString(file), sum, html.EscapeString(file)))
	r.Header.Set("Content-Type", "text/html; charset=utf-8")
	return r
}

// projectOf is the project of a file of PyPI's: its name up to the version.
func projectOf(file string) string {
	name := strings.TrimSuffix(path.Base(file), ".tar.gz")
	if i := strings.LastIndex(name, "-"); i > 0 {
		name = name[:i]
	}
	return name
}

func (g registry) tarball(name string) Response {
	return Response{
		Status: http.StatusOK,
		Header: http.Header{"Content-Type": {"application/octet-stream"}},
		Body:   Tarball(name, g.get(name)),
		Closed: true,
	}
}

// Tarball is the archive of a package: package/README.md, package/package.json
// and its files, the same bytes for the same package.
func Tarball(name string, p Package) []byte {
	files := map[string]string{
		"README.md":    p.Readme,
		"package.json": fmt.Sprintf("{\"name\":%q,\"version\":%q}\n", name, p.Version),
	}
	maps.Copy(files, p.Files)
	var buf bytes.Buffer
	zw := gzip.NewWriter(&buf)
	tw := tar.NewWriter(zw)
	for _, f := range slices.Sorted(maps.Keys(files)) {
		h := &tar.Header{Name: "package/" + f, Mode: 0o644, Size: int64(len(files[f])), ModTime: time.Unix(0, 0), Format: tar.FormatPAX}
		if tw.WriteHeader(h) == nil { // writing to memory fails only for a name that no archive can hold
			_, _ = tw.Write([]byte(files[f]))
		}
	}
	_ = tw.Close()
	_ = zw.Close()
	return buf.Bytes()
}
