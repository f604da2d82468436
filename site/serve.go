package site

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path"
	"strings"
	"time"
)

// Handler serves a built site the way a static host with the shipped header
// files does: the same headers, index.html for folders, 404.html for the rest.
// It looks the folder up anew for each request, so a rebuild that swaps it is
// seen at once.
func Handler(dir string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, h := range headers {
			w.Header().Set(h.name, h.value)
		}
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "only GET and HEAD", http.StatusMethodNotAllowed)
			return
		}
		root, err := os.OpenRoot(dir)
		if err != nil {
			http.Error(w, "there is no site in this folder", http.StatusInternalServerError)
			return
		}
		defer root.Close()
		serveFile(w, r, root.FS())
	})
}

func serveFile(w http.ResponseWriter, r *http.Request, files fs.FS) {
	name, ok := publicName(r.URL.Path)
	if ok {
		if info, err := fs.Stat(files, name); err == nil && info.IsDir() {
			if !strings.HasSuffix(r.URL.Path, "/") {
				http.Redirect(w, r, path.Base(r.URL.Path)+"/", http.StatusMovedPermanently)
				return
			}
			name = path.Join(name, "index.html")
		}
	}
	b, err := fs.ReadFile(files, name)
	if !ok || err != nil {
		missing(w, r, files)
		return
	}
	if strings.HasPrefix(name, "assets/") {
		w.Header().Set(lasting.name, lasting.value)
	} else {
		w.Header().Set("Cache-Control", "no-cache")
	}
	respond(w, r, http.StatusOK, contentType(name), b)
}

// publicName is the file that an address names. Files for the host itself are
// not served.
func publicName(address string) (string, bool) {
	name := strings.TrimPrefix(path.Clean("/"+address), "/")
	if name == "" {
		name = "."
	}
	base := path.Base(name)
	hidden := name != "." && (strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_"))
	return name, fs.ValidPath(name) && !hidden
}

func missing(w http.ResponseWriter, r *http.Request, files fs.FS) {
	b, err := fs.ReadFile(files, "404.html")
	if err != nil {
		b = []byte("not found\n")
	}
	respond(w, r, http.StatusNotFound, "text/html; charset=utf-8", b)
}

func respond(w http.ResponseWriter, r *http.Request, code int, kind string, b []byte) {
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Content-Length", fmt.Sprint(len(b)))
	w.WriteHeader(code)
	if r.Method == http.MethodGet {
		w.Write(b) //nolint:errcheck // the reader went away
	}
}

// kinds are content types by the end of a name; the machine's own table is not
// asked, so that every machine serves the same.
var kinds = map[string]string{
	".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8",
	".svg": "image/svg+xml", ".png": "image/png", ".jpg": "image/jpeg", ".webp": "image/webp",
	".json": "application/json", ".jsonld": "application/ld+json", ".xml": "application/atom+xml; charset=utf-8",
	".txt": "text/plain; charset=utf-8", ".tar": "application/x-tar",
}

func contentType(name string) string {
	if k := kinds[path.Ext(name)]; k != "" {
		return k
	}
	return "application/octet-stream"
}

// Serve serves a built site on an address until the context ends. ready is
// called once with the address that is listened on.
func Serve(ctx context.Context, dir, address string, ready func(net.Addr)) error {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("site: serve: %w", err)
	}
	s := &http.Server{Handler: Handler(dir), ReadHeaderTimeout: 10 * time.Second, MaxHeaderBytes: 64 << 10}
	stop := context.AfterFunc(ctx, func() { s.Close() }) //nolint:errcheck // Serve reports the end
	defer stop()
	if ready != nil {
		ready(l.Addr())
	}
	if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("site: serve: %w", err)
	}
	return nil
}
