package packet

import (
	"archive/tar"
	"bytes"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/wallproof/wallproof/attest/predicate"
)

func sample() Memory {
	return Memory{
		ManifestFile: []byte("m"), PolicyFile: []byte("p"), RedactionFile: []byte("r"), ControlFile: []byte("c"), AttackFile: []byte("a"),
		LogsDir + "/proxy.jsonl": []byte("l"), LogsDir + "/box/1.log": []byte("b"), AttestationFile: []byte("s"),
	}
}

func TestMemoryIsAFileSystem(t *testing.T) {
	if err := fstest.TestFS(sample(), ManifestFile, ControlFile, LogsDir+"/box/1.log"); err != nil {
		t.Error(err)
	}
	over := Overlay(sample(), Memory{RedTeamFile: []byte("x"), PolicyFile: []byte("other")})
	if err := fstest.TestFS(over, RedTeamFile, PolicyFile, AttackFile); err != nil {
		t.Error(err)
	}
	if data, err := fs.ReadFile(over, PolicyFile); err != nil || string(data) != "other" {
		t.Errorf("overlay gives %q, %v", data, err)
	}
}

func TestIndexAndCompare(t *testing.T) {
	index, err := Index(sample())
	if err != nil {
		t.Fatal(err)
	}
	if len(index) != 7 || index[0].Path != "logs/box/1.log" {
		t.Errorf("index %v", index)
	}
	for _, c := range []struct {
		name   string
		change func(Memory)
		want   Reason // of Index
	}{
		{"unknown name", func(m Memory) { m["README"] = nil }, ReasonName},
		{"name in another case", func(m Memory) { m["Policy.canonical.json"] = nil }, ReasonName},
		{"two that differ in case", func(m Memory) { m["logs/A.log"], m["logs/a.log"] = nil, nil }, ReasonName},
		{"folders that differ in case", func(m Memory) { m["logs/Box/2.log"] = nil }, ReasonName},
		{"a file and a folder that differ in case", func(m Memory) { m["logs/BOX"] = nil }, ReasonName},
		{"a device of Windows", func(m Memory) { m["logs/NUL.log"] = nil }, ReasonName},
		{"a trailing dot", func(m Memory) { m["logs/a."] = nil }, ReasonName},
		{"letters of another script", func(m Memory) { m["logs/\u0430.log"] = nil }, ReasonName},
		{"composed", func(m Memory) { m["logs/\u00e9.log"] = nil }, ReasonName},
		{"decomposed", func(m Memory) { m["logs/e\u0301.log"] = nil }, ReasonName},
		{"hidden", func(m Memory) { m["logs/.x"] = nil }, ReasonName},
		{"odd characters", func(m Memory) { m["logs/a b"] = nil }, ReasonName},
		{"long name", func(m Memory) { m["logs/"+strings.Repeat("a", MaxPathBytes)] = nil }, ReasonName},
		{"folder", func(m Memory) { m["extra/x"] = nil }, ReasonName},
		{"third observation file", func(m Memory) { m["observations/x.jsonl"] = nil }, ReasonName},
		{"two threat models", func(m Memory) { m[ThreatModelMD], m[ThreatModelJSON] = nil, nil }, ReasonName},
		{"no manifest", func(m Memory) { delete(m, ManifestFile) }, ReasonMissing},
		{"no redaction proof", func(m Memory) { delete(m, RedactionFile) }, ReasonMissing},
		{"no observations", func(m Memory) { delete(m, AttackFile) }, ReasonMissing},
	} {
		m := sample()
		c.change(m)
		if _, err := Index(m); ReasonOf(err) != c.want {
			t.Errorf("%s: %v, want %s", c.name, err, c.want)
		}
	}
	edit := func(fn func([]predicate.File) []predicate.File) []predicate.File {
		return fn(append([]predicate.File(nil), index...))
	}
	for _, c := range []struct {
		name string
		want []predicate.File
		code Reason
	}{
		{"unlisted", index[1:], ReasonUnlisted},
		{"missing", edit(func(l []predicate.File) []predicate.File {
			return append(l, predicate.File{Path: "z", SHA256: strings.Repeat("0", 64)})
		}), ReasonMissing},
		{"size", edit(func(l []predicate.File) []predicate.File { l[2].Size++; return l }), ReasonSize},
		{"digest", edit(func(l []predicate.File) []predicate.File { l[2].SHA256 = strings.Repeat("0", 64); return l }), ReasonDigest},
		{"order", edit(func(l []predicate.File) []predicate.File { l[0], l[1] = l[1], l[0]; return l }), ReasonIndex},
		{"twice", edit(func(l []predicate.File) []predicate.File { return append(l[:1], l...) }), ReasonIndex},
		{"upper case digest", edit(func(l []predicate.File) []predicate.File { l[2].SHA256 = strings.ToUpper(l[2].SHA256); return l }), ReasonIndex},
		{"a bundle", edit(func(l []predicate.File) []predicate.File {
			return append([]predicate.File{{Path: AttestationFile, SHA256: strings.Repeat("0", 64)}}, l...)
		}), ReasonIndex},
	} {
		faults := Compare(index, c.want)
		if len(faults) == 0 || ReasonOf(faults[0]) != c.code {
			t.Errorf("%s: %v, want %s", c.name, faults, c.code)
		}
	}
	if faults := Compare(index, index); len(faults) > 0 {
		t.Errorf("the same: %v", faults)
	}
}

func TestLinksAreRefused(t *testing.T) {
	dir := t.TempDir()
	for name, data := range sample() {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Index(os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc/hostname", filepath.Join(dir, LogsDir, "link")); err != nil {
		t.Fatal(err)
	}
	if _, err := Index(os.DirFS(dir)); ReasonOf(err) != ReasonNotFile {
		t.Errorf("a link: %v", err)
	}
}

func TestArchive(t *testing.T) {
	var b bytes.Buffer
	if err := WriteArchive(&b, sample()); err != nil {
		t.Fatal(err)
	}
	got, err := ReadArchive(bytes.NewReader(b.Bytes()))
	if err != nil || !maps.EqualFunc(got, sample(), bytes.Equal) {
		t.Fatalf("read back %v, %v", got, err)
	}
	header := func(name string, typ byte) *tar.Header {
		return &tar.Header{Typeflag: typ, Name: name, Size: 1, Mode: 0o644, ModTime: time.Unix(0, 0)}
	}
	for _, c := range []struct {
		name    string
		entries []*tar.Header
		want    Reason
	}{
		{"parent folder", []*tar.Header{header("../x", tar.TypeReg)}, ReasonName},
		{"absolute", []*tar.Header{header("/etc/passwd", tar.TypeReg)}, ReasonName},
		{"unknown name", []*tar.Header{header("x", tar.TypeReg)}, ReasonName},
		{"twice", []*tar.Header{header(PolicyFile, tar.TypeReg), header(PolicyFile, tar.TypeReg)}, ReasonArchive},
		{"unsorted", []*tar.Header{header(PolicyFile, tar.TypeReg), header(ManifestFile, tar.TypeReg)}, ReasonArchive},
		{"link", []*tar.Header{{Typeflag: tar.TypeSymlink, Name: PolicyFile, Linkname: "/etc/passwd"}}, ReasonNotFile},
		{"folder", []*tar.Header{{Typeflag: tar.TypeDir, Name: LogsDir + "/"}}, ReasonNotFile},
		{"device", []*tar.Header{{Typeflag: tar.TypeChar, Name: PolicyFile}}, ReasonNotFile},
	} {
		var b bytes.Buffer
		tw := tar.NewWriter(&b)
		for _, h := range c.entries {
			if err := tw.WriteHeader(h); err != nil {
				t.Fatal(err)
			}
			if h.Size > 0 {
				if _, err := tw.Write([]byte("x")); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := tw.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadArchive(&b); ReasonOf(err) != c.want {
			t.Errorf("%s: %v, want %s", c.name, err, c.want)
		}
	}
	if _, err := ReadArchive(strings.NewReader(strings.Repeat("junk", 300))); ReasonOf(err) != ReasonArchive {
		t.Errorf("junk: %v", err)
	}
	whole := b.Bytes()
	for _, cut := range []int{0, 1, 511, 512, 700, 7 * 1024, len(whole) - 1024, len(whole) - 1} {
		if _, err := ReadArchive(bytes.NewReader(whole[:cut])); ReasonOf(err) != ReasonArchive && ReasonOf(err) != ReasonMissing {
			t.Errorf("cut to %d bytes: %v", cut, err)
		}
	}
	for at := 0; at < len(whole); at += 61 {
		changed := bytes.Clone(whole)
		changed[at] ^= 1
		if m, err := ReadArchive(bytes.NewReader(changed)); err == nil && maps.EqualFunc(m, sample(), bytes.Equal) {
			t.Errorf("byte %d changed and nothing is noticed", at)
		}
	}
	if _, err := ReadArchive(bytes.NewReader(append(bytes.Clone(whole), 0))); ReasonOf(err) != ReasonArchive {
		t.Errorf("a byte more: %v", err)
	}
}

func TestReadPolicy(t *testing.T) {
	for in, want := range map[string]string{
		`{"mode":"allowlist"}`: EgressDeny, `{"mode":"no-network","x":1}`: EgressDeny, `{"mode":"denylist"}`: EgressAllow, `{"mode":"public"}`: EgressAllow,
		`{"mode":"open"}`: "", `{}`: "", `{"mode": "public"}`: "", `{"Mode":"public"}`: "", `[]`: "",
	} {
		p, err := ReadPolicy([]byte(in))
		if (err == nil) != (want != "") || p.EgressDefault != want {
			t.Errorf("%s: %+v, %v", in, p, err)
		}
		if closed, err := Closed([]byte(in)); (err == nil) != (want != "") || closed != strings.Contains(in, `"no-network"`) {
			t.Errorf("%s: closed %v, %v", in, closed, err)
		}
	}
	if _, err := ReadDocument(Memory{"x": make([]byte, MaxDocumentBytes+1)}, "x"); ReasonOf(err) != ReasonLimit {
		t.Errorf("a large document: %v", err)
	}
	if _, err := ReadDocument(Memory{}, "x"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an absent document: %v", err)
	}
}
