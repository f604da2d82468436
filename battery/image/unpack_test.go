package image

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/klauspost/compress/zstd"
)

// describe lists a folder: path, mode, owner less IDBase, content or target.
func describe(t testing.TB, root string) []string {
	t.Helper()
	var lines []string
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil || rel == "." {
			return err
		}
		fi, err := e.Info()
		if err != nil {
			return err
		}
		st := fi.Sys().(*syscall.Stat_t)
		line := fmt.Sprintf("%s %v %d:%d", rel, fi.Mode(), int64(st.Uid)-IDBase, int64(st.Gid)-IDBase)
		switch {
		case fi.Mode().IsRegular():
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			line += fmt.Sprintf(" %.40q", b)
		case fi.Mode()&fs.ModeSymlink != 0:
			target, err := os.Readlink(path)
			if err != nil {
				return err
			}
			line += " -> " + target
		}
		lines = append(lines, line)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return lines
}

func with(e entry, change func(*tar.Header)) entry {
	change(&e.header)
	return e
}

func TestUnpack(t *testing.T) {
	owned := func(uid, gid int, mode int64) func(*tar.Header) {
		return func(h *tar.Header) { h.Uid, h.Gid, h.Mode = uid, gid, mode }
	}
	tests := []struct {
		name   string
		layers [][]entry
		want   []string
		check  func(*testing.T, *Report)
	}{
		{name: "no layers"},
		{
			name: "owners, modes, kinds",
			layers: [][]entry{{
				with(dir("home/"), owned(0, 0, 0o755)), with(dir("./home/u"), owned(1000, 1001, 0o2750)), with(file("home/u/f", "text"), owned(1000, 1001, 0o600)),
				symlink("abs", "/etc/passwd"), symlink("up", "../../../../etc/shadow"), with(dir("tmp"), owned(0, 0, 0o1777)),
				file("implied/deep/f", ""), hardlink("second", "home/u/f"), hardlink("third", "/home/u/f"), hardlink("linklink", "abs"),
				{tar.Header{Typeflag: tar.TypeFifo, Name: "pipe", Mode: 0o622, Uid: 5}, ""},
			}},
			want: []string{
				"abs Lrwxrwxrwx 0:0 -> /etc/passwd", "home drwxr-xr-x 0:0", "home/u dgrwxr-x--- 1000:1001", `home/u/f -rw------- 1000:1001 "text"`,
				"implied drwxr-xr-x 0:0", "implied/deep drwxr-xr-x 0:0", `implied/deep/f -rw-r--r-- 0:0 ""`, "linklink Lrwxrwxrwx 0:0 -> /etc/passwd",
				"pipe prw--w--w- 5:0", `second -rw------- 1000:1001 "text"`, `third -rw------- 1000:1001 "text"`,
				"tmp dtrwxrwxrwx 0:0", "up Lrwxrwxrwx 0:0 -> ../../../../etc/shadow",
			},
		},
		{
			name: "set-id bits, devices and far ids",
			layers: [][]entry{{
				with(file("su", "x"), owned(0, 0, 0o4755)), with(file("sg", "x"), owned(0, 0, 0o2755)), with(dir("d"), owned(0, 0, 0o4755)),
				{tar.Header{Typeflag: tar.TypeChar, Name: "dev/mem", Devmajor: 1, Devminor: 1, Mode: 0o666}, ""},
				{tar.Header{Typeflag: tar.TypeBlock, Name: "dev/sda", Devmajor: 8, Mode: 0o666}, ""},
				with(file("far", ""), owned(1<<20, 3, 0o644)), with(file("last", ""), owned(65535, 65535, 0o644)),
			}},
			want: []string{"d drwxr-xr-x 0:0", `far -rw-r--r-- 65534:65534 ""`, `last -rw-r--r-- 65535:65535 ""`, `sg -rwxr-xr-x 0:0 "x"`, `su -rwxr-xr-x 0:0 "x"`},
			check: func(t *testing.T, r *Report) {
				if r.SetID != 2 || r.Skipped != 2 || r.Remapped != 1 || len(r.Examples) != 2 || r.Entries != 7 {
					t.Errorf("report %+v", r)
				}
			},
		},
		{
			name: "replacing",
			layers: [][]entry{
				{file("a", "1"), dir("b"), file("b/c", "1"), symlink("l", "/b"), file("e/f", "1"), dir("keep"), file("keep/x", "1")},
				{file("a", "2"), file("b", "now a file"), dir("l"), file("l/n", "2"), symlink("e", "a"), with(dir("keep"), owned(7, 7, 0o700))},
				{file("dup", "first"), file("dup", "second")},
			},
			want: []string{`a -rw-r--r-- 0:0 "2"`, `b -rw-r--r-- 0:0 "now a file"`, `dup -rw-r--r-- 0:0 "second"`, "e Lrwxrwxrwx 0:0 -> a", "keep drwx------ 7:7", `keep/x -rw-r--r-- 0:0 "1"`, "l drwxr-xr-x 0:0", `l/n -rw-r--r-- 0:0 "2"`},
		},
		{
			name: "whiteouts",
			layers: [][]entry{
				{file("gone", ""), file("tree/a/b", ""), file("op/old", ""), file("op/sub/old", ""), file("op2/old", ""), file("back", "old"), file("same/old", "")},
				{
					file(".wh.gone", ""), file(".wh.tree", ""), file(".wh.missing", ""), file("nowhere/.wh.x", ""),
					file("op/new", ""), file("op/sub/new", ""), file("op/.wh..wh..opq", ""), // after what is new
					file("op2/.wh..wh..opq", ""), file("op2/new", ""), // before it
					file(".wh.back", ""), file("back", "new"),
					dir("same"), file("same/new", ""), file(".wh.same", ""),
					file(".wh..wh.plnk", ""),
				},
			},
			want: []string{`back -rw-r--r-- 0:0 "new"`, "op drwxr-xr-x 0:0", `op/new -rw-r--r-- 0:0 ""`, "op/sub drwxr-xr-x 0:0", `op/sub/new -rw-r--r-- 0:0 ""`, "op2 drwxr-xr-x 0:0", `op2/new -rw-r--r-- 0:0 ""`, "same drwxr-xr-x 0:0", `same/new -rw-r--r-- 0:0 ""`},
		},
		{
			name: "links among the folders mean what they mean inside",
			layers: [][]entry{
				{dir("run"), symlink("var/run", "/run"), symlink("top", "/"), symlink("climb", "../../../../../.."), dir("etc")},
				{file("var/run/pid", "1"), file("top/etc/t", "2"), file("climb/etc/c", "3"), file("top/.wh.var", "")},
			},
			want: []string{"climb Lrwxrwxrwx 0:0 -> ../../../../../..", "etc drwxr-xr-x 0:0", `etc/c -rw-r--r-- 0:0 "3"`, `etc/t -rw-r--r-- 0:0 "2"`, "run drwxr-xr-x 0:0", `run/pid -rw-r--r-- 0:0 "1"`, "top Lrwxrwxrwx 0:0 -> /"},
		},
		{
			name:   "names",
			layers: [][]entry{{file("/abs/./x//y", "1"), file("ü\n\x7f", "2"), file("..a", "3"), file("a..", "4"), with(dir("./"), owned(0, 0, 0o751))}},
			want:   []string{`..a -rw-r--r-- 0:0 "3"`, `a.. -rw-r--r-- 0:0 "4"`, "abs drwxr-xr-x 0:0", "abs/x drwxr-xr-x 0:0", `abs/x/y -rw-r--r-- 0:0 "1"`, "ü\n\x7f " + `-rw-r--r-- 0:0 "2"`},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var layers []v1.Layer
			for _, l := range tt.layers {
				layers = append(layers, layerOf(t, l...))
			}
			out := filepath.Join(t.TempDir(), "rootfs")
			report, err := Unpack(t.Context(), resolved(t, imageOf(t, layers...)), out, unpackOptions())
			if err != nil {
				t.Fatal(err)
			}
			if got := describe(t, out); !slices.Equal(got, tt.want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(tt.want, "\n"))
			}
			if tt.check != nil {
				tt.check(t, report)
			}
		})
	}
}

func TestUnpackTimesAndRoot(t *testing.T) {
	when := time.Date(2001, 2, 3, 4, 5, 6, 0, time.UTC)
	f := with(file("f", "x"), func(h *tar.Header) { h.ModTime = when })
	root := with(dir("./"), func(h *tar.Header) { h.Mode, h.Uid, h.Gid = 0o751, 3, 4 })
	out := filepath.Join(t.TempDir(), "rootfs")
	if _, err := Unpack(t.Context(), resolved(t, imageOf(t, layerOf(t, root, f))), out, unpackOptions()); err != nil {
		t.Fatal(err)
	}
	fi, err := os.Stat(filepath.Join(out, "f"))
	if err != nil || !fi.ModTime().Equal(when) {
		t.Errorf("time %v, %v", fi.ModTime(), err)
	}
	if fi, err = os.Stat(out); err != nil || fi.Mode().Perm() != 0o751 || fi.Sys().(*syscall.Stat_t).Uid != IDBase+3 {
		t.Errorf("root %v, %v", fi.Mode(), err)
	}
}

func TestUnpackCompressions(t *testing.T) {
	plain := tarOf(t, file("f", "x"))
	var z bytes.Buffer
	w, err := zstd.NewWriter(&z)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(plain); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	// The bytes decide, not the media type, which is the same for all.
	for name, b := range map[string][]byte{"none": plain, "gzip": gzipped(t, plain), "zstd": z.Bytes(), "two gzip members": append(gzipped(t, plain[:100]), gzipped(t, plain[100:])...)} {
		t.Run(name, func(t *testing.T) {
			out := filepath.Join(t.TempDir(), "rootfs")
			img := imageOf(t, rawLayer{static.NewLayer(b, types.OCILayer), digestOf(plain)}, layerOf(t, file("g", "y")))
			if _, err := Unpack(t.Context(), resolved(t, img), out, unpackOptions()); err != nil {
				t.Fatal(err)
			}
			if got := describe(t, out); len(got) != 2 {
				t.Errorf("got %q", got)
			}
		})
	}
}

// lyingLayer delivers other bytes than its digest says.
type lyingLayer struct {
	v1.Layer
	really []byte
}

func (l lyingLayer) Compressed() (io.ReadCloser, error) {
	return io.NopCloser(bytes.NewReader(l.really)), nil
}

func TestUnpackHostile(t *testing.T) {
	good := layerOf(t, file("f", "x"))
	deep := strings.Repeat("d/", 200) + "f"
	climb := []entry{dir(strings.Repeat("a/", 100)), symlink("s", strings.Repeat("a/", 100)), dir("s/" + strings.Repeat("b/", 100))}
	lying := func(change func([]byte) []byte) v1.Layer {
		b, err := io.ReadAll(must(good.Compressed()))
		if err != nil {
			t.Fatal(err)
		}
		return lyingLayer{good, change(b)}
	}
	bomb := make([]byte, 100<<20)
	tests := []struct {
		name    string
		layer   v1.Layer
		limits  Limits
		wantErr error
		text    string
	}{
		{name: "name with ..", layer: layerOf(t, file("a/../../x", "")), wantErr: ErrHostile, text: `goes up with ".."`},
		{name: "name is ..", layer: layerOf(t, dir("..")), wantErr: ErrHostile},
		{name: "absolute name with ..", layer: layerOf(t, file("/../etc/x", "")), wantErr: ErrHostile},
		{name: "hard link to ..", layer: layerOf(t, hardlink("x", "../../etc/passwd")), wantErr: ErrHostile},
		{name: "hard link to the host's file", layer: layerOf(t, hardlink("x", "/etc/passwd")), text: "no such file"},
		{name: "hard link through an escaping link", layer: layerOf(t, symlink("out", "/../../../etc"), hardlink("x", "out/passwd")), text: "no such file"},
		{name: "hard link to a folder", layer: layerOf(t, dir("d"), hardlink("x", "d")), wantErr: ErrHostile},
		{name: "hard link to itself", layer: layerOf(t, file("x", ""), hardlink("x", "x")), wantErr: ErrHostile},
		{name: "hard link to the root", layer: layerOf(t, hardlink("x", "/")), wantErr: ErrHostile},
		{name: "write through an escaping link", layer: layerOf(t, symlink("out", "/../../../tmp/missing"), file("out/x", "")), text: "file exists"},
		{name: "loop of links", layer: layerOf(t, symlink("a", "b"), symlink("b", "a"), file("a/x", "")), text: "too many levels"},
		{name: "folder is a file", layer: layerOf(t, file("a", ""), file("a/x", "")), text: "not a directory"},
		{name: "whiteout of ..", layer: layerOf(t, file(".wh...", "")), wantErr: ErrHostile},
		{name: "whiteout of .", layer: layerOf(t, file("a/.wh..", "")), wantErr: ErrHostile},
		{name: "whiteout of nothing", layer: layerOf(t, file("a/.wh.", "")), wantErr: ErrHostile},
		{name: "root is a file", layer: layerOf(t, file(".", "")), wantErr: ErrHostile},
		{name: "unknown type", layer: layerOf(t, entry{tar.Header{Typeflag: 'Z', Name: "x"}, ""}), wantErr: ErrHostile},
		{name: "too deep", layer: layerOf(t, file(deep, "")), wantErr: ErrLimit, text: "depth"},
		{name: "too deep by way of a link", layer: layerOf(t, climb...), wantErr: ErrLimit, text: "depth"},
		{name: "name too long", layer: layerOf(t, file(strings.Repeat("x", 5000), "")), wantErr: ErrLimit, text: "bytes of a name"},
		{name: "link too long", layer: layerOf(t, symlink("l", strings.Repeat("x", 5000))), wantErr: ErrLimit, text: "target"},
		{name: "file too big", layer: layerOf(t, file("x", "0123456789")), limits: Limits{FileBytes: 9}, wantErr: ErrLimit, text: "bytes of a file"},
		{name: "too many bytes", layer: layerOf(t, file("x", strings.Repeat("0", 5000))), limits: Limits{Bytes: 4000}, wantErr: ErrLimit, text: "bytes"},
		{name: "too many entries", layer: layerOf(t, file("1", ""), file("2", ""), file("3", "")), limits: Limits{Entries: 2}, wantErr: ErrLimit, text: "entries"},
		{name: "sparse file of a petabyte", layer: sparseLayer(t, 1<<50), wantErr: ErrLimit, text: "bytes of a file"},
		{name: "sparse files beyond the total", layer: sparseLayer(t, 5<<20), limits: Limits{Bytes: 1 << 20}, wantErr: ErrLimit, text: "bytes"},
		{name: "bomb", layer: rawLayer{static.NewLayer(gzipped(t, bomb), types.OCILayer), digestOf(bomb)}, wantErr: ErrLimit, text: "compression ratio"},
		{name: "layer is not a tar", layer: rawLayer{static.NewLayer([]byte(strings.Repeat("x", 2000)), types.OCILayer), digestOf(nil)}, wantErr: ErrInvalid},
		{name: "gzip is cut off", layer: rawLayer{static.NewLayer(gzipped(t, tarOf(t, file("x", "")))[:30], types.OCILayer), digestOf(nil)}, wantErr: ErrInvalid},
		{name: "diff id of something else", layer: rawLayer{good, digestOf([]byte("other"))}, wantErr: ErrMismatch, text: "diff id"},
		{name: "something hidden after the archive's end", layer: rawLayer{static.NewLayer(append(tarOf(t, file("x", "")), "hidden"...), types.OCILayer), digestOf(tarOf(t, file("x", "")))}, wantErr: ErrMismatch},
		{name: "other bytes than the digest", layer: lying(func(b []byte) []byte { b[4] ^= 1; return b }), wantErr: ErrMismatch, text: "the layer"},
		{name: "fewer bytes", layer: lying(func(b []byte) []byte { return b[:len(b)-1] }), wantErr: ErrMismatch, text: "ends after"},
		{name: "more bytes", layer: lying(func(b []byte) []byte { return append(b, 0) }), wantErr: ErrMismatch, text: "more than"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			parent := t.TempDir()
			o := unpackOptions()
			o.Limits = tt.limits
			_, err := Unpack(t.Context(), resolved(t, imageOf(t, good, tt.layer)), filepath.Join(parent, "rootfs"), o)
			if err == nil || (tt.wantErr != nil && !errors.Is(err, tt.wantErr)) || !strings.Contains(err.Error(), tt.text) {
				t.Errorf("error %v, want %v with %q", err, tt.wantErr, tt.text)
			}
			empties(t, parent)
		})
	}
	t.Run("too many layers", func(t *testing.T) {
		parent := t.TempDir()
		o := unpackOptions()
		o.Limits.Layers = 1
		if _, err := Unpack(t.Context(), resolved(t, imageOf(t, good, good)), filepath.Join(parent, "r"), o); !errors.Is(err, ErrLimit) {
			t.Errorf("error %v", err)
		}
		empties(t, parent)
	})
}

func must(rc io.ReadCloser, err error) io.Reader {
	if err != nil {
		panic(err)
	}
	return rc
}

// sparseLayer has one file with a hole of that size, as GNU tar's format 1.0
// in PAX has it: the map is at the beginning of the content.
func sparseLayer(t *testing.T, size int64) v1.Layer {
	t.Helper()
	content := make([]byte, 512)
	copy(content, fmt.Sprintf("1\n%d\n0\n", size))
	plain := paxEntry(t, "GNUSparseFile.0/x", content, map[string]string{
		"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.name": "x", "GNU.sparse.realsize": fmt.Sprint(size),
	})
	h, err := tar.NewReader(bytes.NewReader(plain)).Next()
	if err != nil || h.Size != size {
		t.Fatalf("the archive is not what it should be: %+v, %v", h, err)
	}
	return rawLayer{static.NewLayer(gzipped(t, plain), types.OCILayer), digestOf(plain)}
}

// paxEntry writes an archive that the tar writer refuses to write, by writing
// records under another prefix of the same length and changing them.
func paxEntry(t *testing.T, name string, content []byte, records map[string]string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	pax := map[string]string{}
	for k, v := range records {
		pax[strings.Replace(k, "GNU.sparse.", "GNU_sparse.", 1)] = v
	}
	err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: int64(len(content)), PAXRecords: pax, Format: tar.FormatPAX})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(content); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return bytes.ReplaceAll(b.Bytes(), []byte("GNU_sparse."), []byte("GNU.sparse."))
}

func TestUnpackProcess(t *testing.T) {
	img := resolved(t, imageOf(t, layerOf(t, file("f", "x"))))
	t.Run("folder exists", func(t *testing.T) {
		dir := t.TempDir()
		if _, err := Unpack(t.Context(), img, dir, unpackOptions()); err == nil || !strings.Contains(err.Error(), "exists already") {
			t.Errorf("error %v", err)
		}
	})
	for name, command := range map[string][]string{"none": nil, "missing": {"/missing"}, "another program": {"/bin/true"}, "one that fails": {"/bin/false"}} {
		t.Run("command: "+name, func(t *testing.T) {
			parent := t.TempDir()
			if _, err := Unpack(t.Context(), img, filepath.Join(parent, "r"), UnpackOptions{Command: command}); err == nil {
				t.Error("no error")
			}
			empties(t, parent)
		})
	}
	t.Run("a program that only root may execute", func(t *testing.T) {
		self, err := os.ReadFile("/proc/self/exe")
		if err != nil {
			t.Fatal(err)
		}
		private := filepath.Join(t.TempDir(), "private")
		if err := os.WriteFile(private, self, 0o700); err != nil {
			t.Fatal(err)
		}
		if _, err := Unpack(t.Context(), img, filepath.Join(t.TempDir(), "r"), UnpackOptions{Command: []string{private, childArg}}); err != nil {
			t.Error(err)
		}
	})
	t.Run("cancelled", func(t *testing.T) {
		parent := t.TempDir()
		ctx, cancel := context.WithCancel(t.Context())
		// The layer ends the context while it is being read.
		slow := lyingLayer{layerOf(t, file("f", "x")), nil}
		l := cancelling{slow, cancel}
		if _, err := Unpack(ctx, resolved(t, imageOf(t, l)), filepath.Join(parent, "r"), unpackOptions()); !errors.Is(err, context.Canceled) {
			t.Errorf("error %v", err)
		}
		empties(t, parent)
	})
}

// cancelling is a layer whose reading cancels.
type cancelling struct {
	v1.Layer
	cancel func()
}

func (c cancelling) Compressed() (io.ReadCloser, error) {
	c.cancel()
	return io.NopCloser(bytes.NewReader(nil)), context.Canceled
}

// inspected is a layer that looks at the process that unpacks it, between two
// reads.
type inspected struct {
	v1.Layer
	body    []byte
	inspect func()
}

func (i *inspected) Compressed() (io.ReadCloser, error) {
	return io.NopCloser(io.MultiReader(bytes.NewReader(i.body[:len(i.body)/2]), readerFunc(func() { i.inspect() }), bytes.NewReader(i.body[len(i.body)/2:]))), nil
}

// readerFunc is an empty reader that does something first.
type readerFunc func()

func (f readerFunc) Read([]byte) (int, error) {
	f()
	return 0, io.EOF
}

// TestUnpackConfinement looks at the unpacking process from outside while it
// is reading a layer.
func TestUnpackConfinement(t *testing.T) {
	plain := tarOf(t, file("big", strings.Repeat("0123456789abcdef", 4<<20/16)), file("after", ""))
	l := &inspected{Layer: rawLayer{static.NewLayer(plain, types.OCIUncompressedLayer), digestOf(plain)}, body: plain}
	l.inspect = func() {
		pid := child(t)
		status := ""
		for deadline := time.Now().Add(time.Minute); !strings.Contains(status, "CapEff:\t000000000000001b"); {
			b, err := os.ReadFile(filepath.Join("/proc", pid, "status"))
			if err != nil || time.Now().After(deadline) {
				t.Errorf("the unpacking process was not confined: %v\n%s", err, status)
				return
			}
			status = string(b)
		}
		for _, want := range []string{"NoNewPrivs:\t1", "CapInh:\t0000000000000000", "CapPrm:\t000000000000001b", "CapAmb:\t0000000000000000", fmt.Sprintf("Uid:\t%d\t%[1]d\t%[1]d\t%[1]d", IDBase), fmt.Sprintf("Gid:\t%d\t%[1]d\t%[1]d\t%[1]d", IDBase), "Groups:\t \n"} {
			if !strings.Contains(status, want) {
				t.Errorf("no %q in\n%s", want, status)
			}
		}
		for _, ns := range []string{"user", "mnt", "pid", "net", "ipc", "uts"} {
			theirs, err1 := os.Readlink(filepath.Join("/proc", pid, "ns", ns))
			ours, err2 := os.Readlink(filepath.Join("/proc/self/ns", ns))
			if err1 != nil || err2 != nil || theirs == ours {
				t.Errorf("%s namespace is ours: %v %v", ns, err1, err2)
			}
		}
		mounts, err := os.ReadFile(filepath.Join("/proc", pid, "mountinfo"))
		if err != nil || strings.Count(string(mounts), "\n") != 1 || !strings.Contains(string(mounts), "nosuid,nodev,noexec") {
			t.Errorf("mounts: %s, %v", mounts, err)
		}
		fds, err := os.ReadDir(filepath.Join("/proc", pid, "fd"))
		if err != nil {
			t.Error(err)
		}
		for _, fd := range fds {
			target, err := os.Readlink(filepath.Join("/proc", pid, "fd", fd.Name()))
			if err == nil && strings.HasPrefix(target, "/") && target != "/" && target != "/big" {
				t.Errorf("descriptor %s is %s", fd.Name(), target)
			}
		}
		if env, err := os.ReadFile(filepath.Join("/proc", pid, "environ")); err != nil || string(env) != "GODEBUG=containermaxprocs=0\x00" {
			t.Errorf("environment %q, %v", env, err)
		}
	}
	out := filepath.Join(t.TempDir(), "rootfs")
	if _, err := Unpack(t.Context(), resolved(t, imageOf(t, l)), out, unpackOptions()); err != nil {
		t.Fatal(err)
	}
}

// child is the one process that this one has started.
func child(t *testing.T) string {
	t.Helper()
	files, err := filepath.Glob("/proc/self/task/*/children")
	if err != nil {
		t.Fatal(err)
	}
	var pids []string
	for _, f := range files {
		if b, err := os.ReadFile(f); err == nil {
			pids = append(pids, strings.Fields(string(b))...)
		}
	}
	if len(pids) != 1 {
		t.Fatalf("children: %q", pids)
	}
	return pids[0]
}
