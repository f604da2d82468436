package tok

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/probes"
	"github.com/wallproof/wallproof/probes/keyshape"
	"github.com/wallproof/wallproof/probes/kit"
	"golang.org/x/sys/unix"
)

// keyShapes looks for strings in the shape of a real key in the environments of
// all processes, in their command lines and memory, in the files in which clients
// keep credentials, and in every file that the image has not brought. It says where
// one stands, never what it is. What stands in a secret's place is none, whatever its
// shape.
func keyShapes(ctx context.Context, env *probes.Env) manifest.Observation {
	var found []string
	looked := 0
	look := func(where string, text []byte) {
		looked++
		for _, mark := range append([]string{env.Facts.Broker.Placeholder, env.Facts.Model.Placeholder}, env.Facts.Placeholders...) {
			if mark != "" {
				text = []byte(strings.ReplaceAll(string(text), mark, " "))
			}
		}
		if name := keyshape.Find(text); name != "" {
			found = append(found, where+" holds "+name)
		}
	}
	for _, kv := range os.Environ() {
		name, value, _ := strings.Cut(kv, "=")
		look("$"+name, []byte(value))
	}
	for _, dir := range append(kit.Processes(), "/proc/self") {
		for _, file := range []string{"/environ", "/cmdline"} {
			if b, err := kit.ReadHead(dir+file, 1<<20); err == nil {
				for _, part := range strings.Split(string(b), "\x00") {
					look(dir+file, []byte(part))
				}
			}
		}
	}
	names := append(append(append(append([]string{}, netrcFiles...), historyFiles...), toolFiles...), gitConfig...)
	for _, home := range homes(env) {
		for _, name := range names {
			if b, err := kit.ReadHead(filepath.Join(home, name), 1<<20); err == nil {
				look(filepath.Join(home, name), b)
			}
		}
	}
	more, places := elsewhere(ctx, env)
	found, looked = append(found, more...), looked+places
	if ctx.Err() != nil && len(found) == 0 {
		return manifest.Observation{Sign: manifest.SignTimeout}
	}
	if len(found) > 0 {
		return manifest.Observation{Sign: manifest.SignReached, Detail: strings.Join(found, "; ")}
	}
	return manifest.Observation{Sign: manifest.SignAbsent, Detail: kit.Count(looked, "place read", "places read")}
}

// elsewhere looks in memory and in every file. What the image has brought is the
// image's: its programs' test data has such strings.
func elsewhere(ctx context.Context, env *probes.Env) (found []string, looked int) {
	s := kit.NewSearch(ctx, env)
	marks := slices.DeleteFunc(append([]string{env.Facts.Broker.Placeholder, env.Facts.Model.Placeholder}, env.Facts.Placeholders...), func(m string) bool { return m == "" })
	for place, keys := range s.Shapes() {
		if !strings.HasPrefix(place, "/proc/") && ofImage(place, env.Facts.Local.Since) {
			continue
		}
		for _, k := range keys {
			if !slices.ContainsFunc(marks, func(m string) bool { return strings.Contains(k.Text, m) || strings.Contains(m, k.Text) }) {
				found = append(found, place+" holds "+k.Form)
				break
			}
		}
	}
	slices.Sort(found)
	return found, s.Read()
}

// ofImage reports whether a file is one that the image has brought: it lies in the root
// and no mount, and is as it was before the sandbox was made.
func ofImage(path string, since int64) bool {
	for _, m := range kit.Mounts() {
		if m.Point != "/" && (path == m.Point || strings.HasPrefix(path, m.Point+"/")) {
			return false
		}
	}
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return true
	}
	return time.Unix(st.Ctim.Unix()).UnixMilli() < since
}
