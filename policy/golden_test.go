package policy

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write golden files")

// golden compares with a file, or writes it.
func golden(t *testing.T, path string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v (run with -update to write it)", err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs (run with -update to write it)\ngot:\n%s\nwant:\n%s", path, got, want)
	}
}

// examples returns the example policies, parsed, with their lockfiles loaded.
func examples(t *testing.T) map[string]*Policy {
	t.Helper()
	files, err := filepath.Glob("testdata/policies/*")
	if err != nil || len(files) < 8 {
		t.Fatalf("%d example policies, %v", len(files), err)
	}
	out := map[string]*Policy{}
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		p, err := Parse(filepath.Base(f), data)
		if err != nil {
			t.Fatal(err)
		}
		if err := p.LoadLockfiles(func(name string) ([]byte, error) {
			return os.ReadFile(filepath.Join("testdata/lockfiles", name))
		}); err != nil {
			t.Fatal(err)
		}
		out[filepath.Base(f)] = p
	}
	return out
}

// The canonical forms and hashes of the examples are known; a change of one
// changes every policy's hash in the field, so it must be meant.
func TestCanonicalGolden(t *testing.T) {
	for name, p := range examples(t) {
		data, err := p.Canonical()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		digest, err := p.Digest()
		if err != nil {
			t.Fatal(err)
		}
		golden(t, "testdata/canonical/"+name+".json", data)
		golden(t, "testdata/canonical/"+name+".sha256", []byte(digest+"\n"))

		back, err := ParseCanonical(data)
		if err != nil {
			t.Errorf("%s: the canonical form does not read back: %v", name, err)
			continue
		}
		if again, err := back.Digest(); err != nil || again != digest {
			t.Errorf("%s: read back, the hash is %s, %v; want %s", name, again, err, digest)
		}
		if e, err := Compile(p); err != nil || e.Digest() != digest {
			t.Errorf("%s: the evaluator's hash differs: %v", name, err)
		}
	}
}

// What Format writes is the same policy, and writing it again the same text.
func TestFormatReadsBack(t *testing.T) {
	for name, p := range examples(t) {
		text := p.Format()
		golden(t, "testdata/formatted/"+strings.TrimSuffix(strings.TrimSuffix(name, ".json"), ".yaml")+".yaml", text)
		back, err := Parse(name+" formatted.yaml", text)
		if err != nil {
			t.Errorf("%s: %v\n%s", name, err, text)
			continue
		}
		if err := back.LoadLockfiles(func(name string) ([]byte, error) {
			return os.ReadFile(filepath.Join("testdata/lockfiles", name))
		}); err != nil {
			t.Fatal(err)
		}
		a, err1 := p.Digest()
		b, err2 := back.Digest()
		if err := errors.Join(err1, err2); err != nil || a != b {
			t.Errorf("%s: formatted, the hash is %s, not %s (%v)\n%s", name, b, a, err, text)
		}
		if again := back.Format(); !bytes.Equal(again, text) {
			t.Errorf("%s: formatted twice it differs:\n%s\n%s", name, text, again)
		}
	}
}
