package site

import (
	"bytes"
	"crypto"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wallproof/wallproof/attest/packet"
	"github.com/wallproof/wallproof/attest/packettest"
	"github.com/wallproof/wallproof/probes/catalog"
	"github.com/wallproof/wallproof/verify"
)

// counted is a packet that counts how often its content is read to be named.
func counted(t *testing.T, path string, n *atomic.Int64) Packet {
	t.Helper()
	p, err := OpenPacket(path)
	if err != nil {
		t.Fatal(err)
	}
	content := p.content
	p.content = func() (string, error) {
		n.Add(1)
		return content()
	}
	return p
}

// later lets the clock of the file system go on, as it does between two builds.
func later() { time.Sleep(settle) }

// TestUnread: a rebuild does not read what has not changed, and reads whatever a
// change of any kind has touched.
func TestUnread(t *testing.T) {
	dir := t.TempDir()
	if runtime.GOOS == "linux" && !keepsChangeTime(dir) {
		t.Fatalf("%s lies on a file system that is not known to keep the time of change; set TMPDIR to one that does", dir)
	}
	out := filepath.Join(dir, "site")
	p := smallPacket(t, nil, "")
	folder := p.WriteDir(t, dir)
	q := smallPacket(t, p, "registry.example.org/other")
	tar := filepath.Join(dir, "other.tar")
	var archive bytes.Buffer
	if err := errors.Join(packet.WriteArchive(&archive, q.Files), os.WriteFile(tar, archive.Bytes(), 0o644)); err != nil {
		t.Fatal(err)
	}
	var reads atomic.Int64
	in := input(p)
	in.Packets, in.Cache = []Packet{counted(t, folder, &reads), counted(t, tar, &reads)}, filepath.Join(dir, "cache.json")
	later()
	page := filepath.Join(out, build(t, in, out).Attestations[0].Page)
	good := read(t, page)

	step := func(what string, change func() error, reused, unread int, packetRead int64) {
		t.Helper()
		later()
		if err := change(); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		later()
		reads.Store(0)
		if res := build(t, in, out); res.Reused != reused {
			t.Errorf("%s: %d taken over, want %d", what, res.Reused, reused)
		} else if res.Unread != unread && runtime.GOOS == "linux" {
			t.Errorf("%s: %d were not read, want %d", what, res.Unread, unread)
		}
		if n := reads.Load(); n != packetRead && runtime.GOOS == "linux" {
			t.Errorf("%s: packets were read %d times, want %d", what, n, packetRead)
		}
		if read(t, page) != good {
			t.Errorf("%s: the page is not what it was", what)
		}
	}
	nothing := func() error { return nil }
	file := filepath.Join(folder, "policy.canonical.json")
	evil := strings.Replace(good, "0 critical", "7 critical", 1)
	step("unchanged", nothing, 2, 2, 0)
	step("unchanged again", nothing, 2, 2, 0)
	step("the packet was touched", func() error { return os.Chtimes(file, time.Now(), time.Now()) }, 2, 2, 1)
	step("a file of the packet was written anew", func() error { return rewrite(file) }, 2, 2, 1)
	step("unchanged after that", nothing, 2, 2, 0)
	step("the page was edited, and its time set back", func() error { return edit(page, evil) }, 1, 1, 0)
	step("another file was moved to the page's place", func() error { return replaceBy(page, evil) }, 1, 1, 0)
	step("another folder was moved to the page's", func() error {
		// The files in it were made before the build before had ended.
		there, other := filepath.Dir(page), filepath.Join(dir, "other")
		if err := os.CopyFS(other, os.DirFS(there)); err != nil {
			return err
		}
		if err := edit(filepath.Join(other, filepath.Base(page)), evil); err != nil {
			return err
		}
		later()
		build(t, in, out)
		return errors.Join(os.Rename(there, filepath.Join(dir, "away")), os.Rename(other, there))
	}, 1, 1, 0)
	step("the packet offered for download was changed", func() error { return edit(strings.TrimSuffix(page, endPage)+endPacket, evil) }, 1, 1, 0)
	step("unchanged at the end", nothing, 2, 2, 0)
}

// rewrite writes a file's own content once more.
func rewrite(path string) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return os.WriteFile(path, b, 0o644)
}

// edit changes a file in its place and gives it its time of modification back.
func edit(path, content string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	return errors.Join(os.WriteFile(path, []byte(content), 0o644), os.Chtimes(path, info.ModTime(), info.ModTime()))
}

// replaceBy puts another file of the same size and time in a file's place.
func replaceBy(path, content string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	other := path + ".other"
	return errors.Join(os.WriteFile(other, []byte(content), 0o644), os.Chtimes(other, info.ModTime(), info.ModTime()), os.Rename(other, path))
}

func TestRecent(t *testing.T) {
	day := int64(trustKernel)
	for _, c := range []struct {
		read, now int64
		want      bool
	}{{1000, 1000, true}, {1000, 999, false}, {0, 5, false}, {1000, 1000 + day - 1, true}, {1000, 1000 + day, false}, {1000, 0, false}} {
		if got := recent(c.read, c.now); got != c.want {
			t.Errorf("read at %d, now %d: %v", c.read, c.now, got)
		}
	}
	if telling(5e9) || !telling(5e9+1) {
		t.Error("whole seconds count as times of change")
	}
}

// TestInputDigest: whatever a verdict or a page depends on is part of the name
// under which it is kept. Fields are found by reflection, so that a new one
// cannot be forgotten.
func TestInputDigest(t *testing.T) {
	base := func() Input {
		return Input{
			Verify: verify.Input{Trust: verify.Trust{Key: packettest.New(t, packettest.Catalogue(small())).Key.Public()}, VerifierTrust: &verify.Trust{Identity: &verify.Identity{}}},
			Theme:  Theme{FAQ: []QA{{}}, KnownGaps: []Gap{{}}, Documents: []Document{{}}},
		}
	}
	// What is left out, and why that is right.
	elsewhere := map[string]string{
		"Verify.Packet": "the packet's own stamp", "Verify.Bundle": "set by Build", "Verify.Verification": "set by Build", "Verify.At": "the clock is looked at each time",
		"Verify.Live": "set by Build from Live, which cacheKey has", "Verify.Latched": "cacheKey has it",
		"Packets": "each has a stamp", "Primary": "cacheKey has it", "Live": "cacheKey has it", "History": "cacheKey has it", "Clock": "looked at each time", "Cache": "names no input", "Workers": "bounds work only",
		"Theme.LogoFile": "a path; its content counts", "Theme.logo": "follows from the content", "Wasm.Exec": "on no attestation's page",
	}
	one := base()
	want := digestOf(t, one)
	if digestOf(t, one) != want {
		t.Fatal("the same input has two names")
	}
	n := 0
	var walk func(path string, change func(*Input) reflect.Value)
	walk = func(path string, at func(*Input) reflect.Value) {
		if _, known := elsewhere[path]; known {
			return
		}
		v := at(&one)
		if v.Kind() == reflect.Pointer && !v.IsNil() {
			walk(path, func(in *Input) reflect.Value { return at(in).Elem() })
			return
		}
		if v.Kind() == reflect.Slice && v.Len() > 0 && v.Index(0).Kind() == reflect.Struct {
			walk(path, func(in *Input) reflect.Value { return at(in).Index(0) })
			return
		}
		if v.Kind() == reflect.Struct {
			for i := range v.NumField() {
				name := strings.TrimPrefix(path+"."+v.Type().Field(i).Name, ".")
				walk(name, func(in *Input) reflect.Value { return reach(at(in).Field(i)) })
			}
			return
		}
		n++
		in := deepCopy(one)
		perturb(t, path, at(&in))
		if digestOf(t, in) == want {
			t.Errorf("%s is not part of the name", path)
		}
	}
	walk("", func(in *Input) reflect.Value { return reflect.ValueOf(in).Elem() })
	if n < 30 {
		t.Errorf("only %d fields were changed", n)
	}
	in := deepCopy(one)
	in.Cache = "somewhere"
	if digestOf(t, in) == want {
		t.Error("the program is not part of the name")
	}
}

// deepCopy copies what perturb could reach through a pointer or a slice.
func deepCopy(in Input) Input {
	t, i := *in.Verify.VerifierTrust, *in.Verify.VerifierTrust.Identity
	t.Identity = &i
	in.Verify.VerifierTrust = &t
	in.Theme.FAQ, in.Theme.KnownGaps, in.Theme.Documents = []QA{in.Theme.FAQ[0]}, []Gap{in.Theme.KnownGaps[0]}, []Document{in.Theme.Documents[0]}
	return in
}

func digestOf(t *testing.T, in Input) string {
	t.Helper()
	d, err := inputDigest(in)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func perturb(t *testing.T, path string, v reflect.Value) {
	t.Helper()
	other := func() crypto.PublicKey { return packettest.New(t, packettest.Catalogue(small())).Key.Public() }
	switch {
	case v.Type() == reflect.TypeFor[crypto.PublicKey]():
		v.Set(reflect.ValueOf(other()))
	case v.Type() == reflect.TypeFor[[]crypto.PublicKey]():
		v.Set(reflect.ValueOf([]crypto.PublicKey{other()}))
	case v.Type() == reflect.TypeFor[[]catalog.Technique]():
		v.Set(reflect.ValueOf(small()))
	case v.Type() == reflect.TypeFor[*verify.Identity]():
		v.Set(reflect.ValueOf(&verify.Identity{SAN: "somebody"}))
	case v.Kind() == reflect.String:
		v.SetString("other")
	case v.Kind() == reflect.Bool:
		v.SetBool(!v.Bool())
	case v.CanInt():
		v.SetInt(v.Int() + 1)
	case v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Uint8:
		v.SetBytes([]byte("other"))
	case v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.String:
		v.Set(reflect.Append(v, reflect.ValueOf("other").Convert(v.Type().Elem())))
	default:
		t.Fatalf("%s: no way to change a %s", path, v.Type())
	}
}
