package image

import (
	"archive/tar"
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// FuzzExtract gives the unpacker any bytes as two layers, without the
// confinement of the process that it runs in otherwise, and looks whether
// anything outside the folder changed, and whether the limits held inside.
func FuzzExtract(f *testing.F) {
	seeds := [][]entry{
		{file("a/b", "x"), dir("c"), symlink("l", "/a"), hardlink("h", "a/b"), file("l/n", "y")},
		{symlink("out", "../outside"), file("out/x", "y"), file("out/.wh.witness", ""), hardlink("h", "out/witness")},
		{symlink("out", "/../../outside"), file("out/.wh..wh..opq", ""), dir("out")},
		{file("../outside/x", ""), file("/../outside/x", ""), file(".wh...", ""), file("a/.wh..wh..opq", "")},
		{{tar.Header{Typeflag: tar.TypeChar, Name: "dev"}, ""}, {tar.Header{Typeflag: tar.TypeFifo, Name: "p"}, ""}, dir("./"), file("p", "z")},
		{dir(strings.Repeat("d/", 12)), symlink("s", strings.Repeat("d/", 12)), dir("s/" + strings.Repeat("e/", 12))},
	}
	for i, s := range seeds {
		f.Add(tarOf(f, s...), tarOf(f, seeds[(i+1)%len(seeds)]...))
		f.Add(gzipped(f, tarOf(f, s...)), []byte{})
	}
	f.Fuzz(func(t *testing.T, one, two []byte) { extractBoth(t, one, two) })
}

// FuzzExtractEntries is the same with well-formed archives of any entries, one
// a line: a letter for the type, the name, a blank, the link's target or the
// content. A line "-" begins the second layer.
func FuzzExtractEntries(f *testing.F) {
	for _, s := range []string{
		"d a\nf a/b x\ns l /a\nf l/c y\nh h a/b\n-\nf a/.wh.b \nf l/.wh..wh..opq \nd h\nf h/n z",
		"s out ../outside\nf out/x y\nf out/.wh.witness \nh h out/witness\n-\nd out\nf ../outside/x y",
		"s . /\ns a b\ns b a\nf a/x y\nd a/b\np a/p\nc a/dev\n-\ns a/b/c ../../../outside/witness\nf a/b/c x\nh w a/b/c",
		"d d/d/d/d/d/d/d/d\ns s d/d/d/d/d/d/d/d\nd s/e/e/e/e/e/e/e/e\n-\nf s/e/.wh.e \nf .wh.s \nf .wh.d ",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, script string) {
		one, two, _ := strings.Cut(script, "\n-\n")
		extractBoth(t, archiveOf(one), archiveOf(two))
	})
}

// archiveOf leaves out what the tar writer refuses to write.
func archiveOf(script string) []byte {
	types := map[byte]byte{'f': tar.TypeReg, 'd': tar.TypeDir, 's': tar.TypeSymlink, 'h': tar.TypeLink, 'p': tar.TypeFifo, 'c': tar.TypeChar}
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for line := range strings.SplitSeq(script, "\n") {
		if len(line) < 3 {
			continue
		}
		name, rest, _ := strings.Cut(line[2:], " ")
		h := tar.Header{Typeflag: types[line[0]], Name: name, Mode: int64(len(line)) * 07777 % 010000}
		switch h.Typeflag {
		case tar.TypeReg:
			h.Size = int64(len(rest))
		case tar.TypeSymlink, tar.TypeLink:
			h.Linkname = rest
		}
		if w.WriteHeader(&h) == nil && h.Size > 0 {
			io.WriteString(w, rest)
		}
	}
	w.Close()
	return b.Bytes()
}

func extractBoth(t *testing.T, one, two []byte) {
	base := t.TempDir()
	outside := filepath.Join(base, "outside")
	inside := filepath.Join(base, "inside")
	for _, d := range []string{outside, inside} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(outside, "witness"), []byte("untouched"), 0o600); err != nil {
		t.Fatal(err)
	}
	before := state(t, base, outside)
	root, err := unix.Open(inside, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(root)
	limits := Limits{Bytes: 1 << 20, FileBytes: 1 << 18, Entries: 200, Depth: 16}.withDefaults()
	var report Report
	x, err := newExtractor(root, limits, &report)
	if err != nil {
		t.Fatal(err)
	}
	for _, layer := range [][]byte{one, two} {
		if x.layer(bytes.NewReader(layer), "") == nil {
			t.Fatal("a layer without a diff id was taken")
		}
	}
	if after := state(t, base, outside); after != before {
		t.Fatalf("outside changed:\n%s\n%s", before, after)
	}
	checkInside(t, inside, limits)
}

// state describes everything but what is inside.
func state(t *testing.T, base, outside string) string {
	t.Helper()
	names, err := os.ReadDir(base)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, n := range names {
		b.WriteString(n.Name() + " ")
	}
	var st unix.Stat_t
	for _, path := range []string{base, outside, filepath.Join(outside, "witness")} {
		if err := unix.Lstat(path, &st); err != nil {
			t.Fatal(err)
		}
		b.WriteString(strings.Join([]string{path, os.FileMode(st.Mode).String(), string(rune('0' + st.Nlink))}, " "))
		b.Write([]byte{byte(st.Uid), byte(st.Gid)})
	}
	content, err := os.ReadFile(filepath.Join(outside, "witness"))
	if err != nil {
		t.Fatal(err)
	}
	b.Write(content)
	left, err := os.ReadDir(outside)
	if err != nil || len(left) != 1 {
		t.Fatalf("outside has %d entries, %v", len(left), err)
	}
	return b.String()
}

// checkInside holds what was made against the limits.
func checkInside(t *testing.T, inside string, l Limits) {
	t.Helper()
	var bytes, entries int64
	err := filepath.WalkDir(inside, func(path string, e os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(inside, path)
		if err != nil {
			return err
		}
		if strings.Count(rel, "/") > l.Depth {
			t.Errorf("%q is deeper than %d", rel, l.Depth)
		}
		fi, err := e.Info()
		if err != nil {
			return err
		}
		entries++
		switch mode := fi.Mode(); {
		case mode.IsRegular():
			bytes += fi.Size()
			if mode&(os.ModeSetuid|os.ModeSetgid) != 0 || fi.Size() > l.FileBytes {
				t.Errorf("%q is %v with %d bytes", rel, mode, fi.Size())
			}
		case mode&os.ModeDevice != 0:
			t.Errorf("%q is a device", rel)
		}
		return nil
	})
	if err != nil && err != io.EOF {
		t.Fatal(err)
	}
	// Each entry makes itself and at most Depth folders, and links count twice.
	if most := 2 * l.Entries * int64(l.Depth+1); entries > most {
		t.Errorf("%d entries", entries)
	}
	if most := 2 * l.Bytes * l.Entries; bytes > most {
		t.Errorf("%d bytes", bytes)
	}
}
