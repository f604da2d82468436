package site

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/wallproof/wallproof/attest/packet"
	"github.com/wallproof/wallproof/attest/packettest"
)

// inPlace is a site of two packets that was built with a cache, and its input.
func inPlace(t *testing.T, dir string) (in Input, out string, first *packettest.Packet) {
	t.Helper()
	first = smallPacket(t, nil, "registry.example.org/a")
	in = input(first)
	in.Packets, in.Cache = nil, filepath.Join(dir, "cache.json")
	out = filepath.Join(dir, "site")
	in.Packets = append(in.Packets, archived(t, dir, first), archived(t, dir, smallPacket(t, first, "registry.example.org/bb")))
	later()
	build(t, in, out)
	later()
	return in, out, first
}

// archived writes a packet's archive and opens it.
func archived(t *testing.T, dir string, p *packettest.Packet) Packet {
	t.Helper()
	var b bytes.Buffer
	f, err := os.CreateTemp(dir, "packet-*.tar")
	if err == nil {
		err = errors.Join(packet.WriteArchive(&b, p.Files), os.WriteFile(f.Name(), b.Bytes(), 0o644), f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	o, err := OpenPacket(f.Name())
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// TestInPlace: what did not change is the same file afterwards; what is new, has
// changed or does not belong there is as if all had been built anew.
func TestInPlace(t *testing.T) {
	dir := t.TempDir()
	in, out, first := inPlace(t, dir)
	res := build(t, in, out)
	page := filepath.Join(out, res.Attestations[0].Page)
	before, err := os.Stat(page)
	if err != nil {
		t.Fatal(err)
	}
	evil := []string{filepath.Join(filepath.Dir(page), "evil.html"), filepath.Join(out, attestationFolder, "evil.html"), filepath.Join(out, attestationFolder, "zz", "evil.html"), filepath.Join(out, "evil.html")}
	for _, path := range evil {
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte("0 critical escapes"), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(page, filepath.Join(filepath.Dir(page), "link.html")); err != nil {
		t.Fatal(err)
	}
	in.Packets = append(in.Packets, archived(t, dir, smallPacket(t, first, "registry.example.org/ccc")))
	in.Packets[1].Live = []byte(`{"generated":"2026-11-02T12:00:00Z","policy":"` + packettest.OtherDigest + `","schema":"wallproof.live/v1"}`)
	res = build(t, in, out)
	if res.Reused != 1 || len(res.Attestations) != 3 {
		t.Fatalf("%+v", res)
	}
	after, err := os.Stat(page)
	if err != nil || !os.SameFile(before, after) {
		t.Errorf("the page that did not change is another file: %v", err)
	}
	for _, path := range evil {
		if exists(path) {
			t.Errorf("%s is still there", path)
		}
	}
	plain := in
	plain.Cache, plain.History = "", []byte(read(t, out, historyFile))
	again := filepath.Join(dir, "again")
	build(t, plain, again)
	if d := differing(treeDigests(t, out), treeDigests(t, again)); len(d) > 0 {
		t.Errorf("differs from a build without cache in %v", d)
	}
	if left := leftovers(dir, "site"); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// TestInPlaceUndone: a step that fails takes back those before it.
func TestInPlaceUndone(t *testing.T) {
	dir := t.TempDir()
	_, out, _ := inPlace(t, dir)
	before := treeDigests(t, out)
	staged := func() *tree {
		t.Helper()
		tr, err := newTree(out)
		if err != nil {
			t.Fatal(err)
		}
		if tr.keepInPlace(); tr.keep == nil {
			t.Fatal("nothing can stay in its place on this file system")
		}
		kept := false
		for name := range before {
			if stem, ok := strings.CutSuffix(name, endPage); ok && strings.HasPrefix(name, attestationFolder) && !kept {
				kept = true
				tr.keep.stay(stem, []string{endPage}) // its other files go
			} else if ok && strings.HasPrefix(name, attestationFolder) {
				if err := tr.put(name, []byte("another page")); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := errors.Join(tr.put("attestations/00/0000.html", []byte("new")), tr.put("index.html", []byte("new"))); err != nil {
			t.Fatal(err)
		}
		return tr
	}
	same := func(what string, tr *tree, err error) {
		t.Helper()
		if err == nil {
			t.Fatalf("%s: no error", what)
		}
		if err := tr.discard(); err != nil {
			t.Error(err)
		}
		if d := differing(before, treeDigests(t, out)); len(d) > 0 {
			t.Errorf("%s: changed %v", what, d)
		}
	}

	tr := staged()
	if err := os.Mkdir(filepath.Join(tr.base, movingFile), 0o755); err != nil {
		t.Fatal(err)
	}
	same("the last steps cannot be made", tr, tr.commit())

	tr = staged()
	away := filepath.Join(dir, "away")
	if err := errors.Join(os.Rename(out, away), os.CopyFS(out, os.DirFS(away))); err != nil {
		t.Fatal(err)
	}
	err := tr.commit()
	if !errors.Is(err, errReplaced) {
		t.Errorf("another site is there now: %v", err)
	}
	same("another site is there now", tr, err)

	tr = staged()
	if err := errors.Join(tr.commit(), tr.discard()); err != nil {
		t.Fatal(err)
	}
	now := treeDigests(t, out)
	if len(differing(before, now)) == 0 || read(t, out, "index.html") != "new" || read(t, out, "attestations/00/0000.html") != "new" {
		t.Error("without a fault nothing changes")
	}
}

// TestPutBack: attestations that a killed build had moved out come back, unless the
// site is being built.
func TestPutBack(t *testing.T) {
	dir := t.TempDir()
	in, out, _ := inPlace(t, dir)
	before := treeDigests(t, out)
	killed := filepath.Join(dir, ".site.building-1")
	if err := errors.Join(os.MkdirAll(filepath.Join(killed, "site"), 0o755), os.WriteFile(filepath.Join(killed, movingFile), nil, 0o600),
		os.Rename(filepath.Join(out, attestationFolder), filepath.Join(killed, "site", attestationFolder))); err != nil {
		t.Fatal(err)
	}
	lock, ok := lockFolder(out)
	if !ok {
		t.Fatal("no lock")
	}
	if err := putBack(dir, "site", out); err != nil || exists(filepath.Join(out, attestationFolder)) {
		t.Errorf("of a site that is being built: %v", err)
	}
	lock.Close()
	if res := build(t, in, out); res.Reused != 2 {
		t.Errorf("%d taken over", res.Reused)
	}
	if d := slices.DeleteFunc(differing(before, treeDigests(t, out)), func(name string) bool { return !strings.HasPrefix(name, attestationFolder) }); len(d) > 0 {
		t.Errorf("differ: %v", d)
	}
}

// TestTwoBuilds: who finds the site being built leaves nothing in its place, and is
// none the worse for it.
func TestTwoBuilds(t *testing.T) {
	dir := t.TempDir()
	in, out, _ := inPlace(t, dir)
	lock, ok := lockFolder(out)
	if !ok {
		t.Fatal("no lock")
	}
	defer lock.Close()
	before := treeDigests(t, out)
	if res := build(t, in, out); res.Reused != 2 {
		t.Errorf("%d taken over", res.Reused)
	}
	if d := differing(before, treeDigests(t, out)); len(d) > 0 {
		t.Errorf("differ: %v", d)
	}
}
