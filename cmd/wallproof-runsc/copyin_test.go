package main

import (
	"bytes"
	"encoding/binary"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

func frames(parts ...string) []byte {
	var b bytes.Buffer
	for _, p := range parts {
		b.Write(binary.BigEndian.AppendUint32(nil, uint32(len(p))))
		b.WriteString(p)
	}
	return b.Bytes()
}

func TestCopyIn(t *testing.T) {
	dir := t.TempDir()
	me := strconv.Itoa(os.Getuid())
	tests := []struct {
		name, path, mode string
		in               []byte
		want, wantErr    string
	}{
		{name: "new file in new folder", path: "a/b/c", mode: "640", in: frames("hello ", "world", ""), want: "hello world"},
		{name: "empty", path: "e", mode: "600", in: frames(""), want: ""},
		{name: "replaces", path: "old", mode: "600", in: frames("new", ""), want: "new"},
		{name: "link is replaced, not followed", path: "link", mode: "600", in: frames("new", ""), want: "new"},
		{name: "cut off in a frame", path: "x1", mode: "600", in: frames("hello")[:6], wantErr: "cut off"},
		{name: "no last frame", path: "x2", mode: "600", in: frames("hello"), wantErr: "cut off"},
		{name: "frame too big", path: "x3", mode: "600", in: []byte{0xff, 0, 0, 0}, wantErr: "more than"},
		{name: "bad mode", path: "x4", mode: "9", in: frames(""), wantErr: "invalid syntax"},
	}
	if err := os.WriteFile(filepath.Join(dir, "old"), []byte("old"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("old-target", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(dir, tt.path)
			err := copyIn([]string{path, tt.mode, me, strconv.Itoa(os.Getgid())}, bytes.NewReader(tt.in))
			if tt.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), tt.wantErr) {
					t.Fatalf("error %v, want %q", err, tt.wantErr)
				}
				if _, err := os.Lstat(path); err == nil {
					t.Fatal("a file appeared")
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			got, err := os.ReadFile(path)
			if err != nil || string(got) != tt.want {
				t.Fatalf("read %q, %v", got, err)
			}
			fi, _ := os.Lstat(path)
			if want, _ := strconv.ParseUint(tt.mode, 8, 12); fi.Mode() != fs.FileMode(want) {
				t.Fatalf("mode %v", fi.Mode())
			}
		})
	}
	left, err := filepath.Glob(filepath.Join(dir, ".wallproof-copyin-*"))
	if err != nil || len(left) != 0 {
		t.Fatalf("left behind: %v %v", left, err)
	}
	if _, err := os.Lstat(filepath.Join(dir, "old-target")); err == nil {
		t.Fatal("link was followed")
	}
}
