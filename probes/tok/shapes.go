package tok

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/probes"
	"github.com/wallproof/wallproof/probes/keyshape"
	"github.com/wallproof/wallproof/probes/kit"
)

// keyShapes looks for strings in the shape of a real key in the environments of
// all processes, in their command lines, and in the files in which clients keep
// credentials. It says where one stands, never what it is. What stands in a
// secret's place is none, whatever its shape.
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
	if ctx.Err() != nil && len(found) == 0 {
		return manifest.Observation{Sign: manifest.SignTimeout}
	}
	if len(found) > 0 {
		return manifest.Observation{Sign: manifest.SignReached, Detail: strings.Join(found, "; ")}
	}
	return manifest.Observation{Sign: manifest.SignAbsent, Detail: kit.Count(looked, "place read", "places read")}
}
