package forge

import (
	"bytes"
	"compress/zlib"
	"crypto/sha1"
	"encoding/binary"
	"errors"
	"fmt"
	"testing"
	"time"
)

// pack builds a pack of raw entries: header bytes and content to deflate.
func pack(t testing.TB, count uint32, entries ...[2][]byte) []byte {
	t.Helper()
	var b bytes.Buffer
	b.WriteString("PACK")
	_ = binary.Write(&b, binary.BigEndian, []uint32{2, count})
	for _, e := range entries {
		b.Write(e[0])
		zw := zlib.NewWriter(&b)
		_, _ = zw.Write(e[1])
		if err := zw.Close(); err != nil {
			t.Fatal(err)
		}
	}
	sum := sha1.Sum(b.Bytes())
	b.Write(sum[:])
	return b.Bytes()
}

// entry is the header of a pack's entry: type and inflated size.
func entry(kind byte, size uint64) []byte {
	first := kind<<4 | byte(size&15)
	size >>= 4
	if size == 0 {
		return []byte{first}
	}
	return binary.AppendUvarint([]byte{first | 0x80}, size)
}

func TestPackBounds(t *testing.T) {
	const blob, ofsDelta, refDelta = 3, 6, 7
	delta := append(binary.AppendUvarint(binary.AppendUvarint(nil, 4), maxUnpacked+1), 0x90, 4)
	ref := append(entry(refDelta, uint64(len(delta))), make([]byte, 20)...)
	tests := []struct {
		name string
		pack []byte
		want error
	}{
		{"count", pack(t, maxObjects+1), errObjects},
		{"declared size", pack(t, 1, [2][]byte{entry(blob, maxUnpacked+1), []byte("x")}), errTooLarge},
		{"delta that makes too much", pack(t, 1, [2][]byte{ref, delta}), errTooLarge},
		{"delta with a broken head", pack(t, 1, [2][]byte{append(entry(refDelta, 3), make([]byte, 20)...), {0x80, 0x80, 0x80}}), errTooLarge},
		{"fine", pack(t, 1, [2][]byte{entry(blob, 5), []byte("hello")}), nil},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			if err := measure(tc.pack); !errors.Is(err, tc.want) {
				t.Errorf("got %v, want %v", err, tc.want)
			}
		})
	}
	for _, bad := range [][]byte{nil, []byte("PACK"), pack(t, 2, [2][]byte{entry(blob, 5), []byte("hello")}), pack(t, 1, [2][]byte{entry(ofsDelta, 3), []byte("abc")})} {
		if err := measure(bad); err == nil {
			t.Errorf("a broken pack %q passed", bad)
		}
	}
}

func FuzzPush(f *testing.F) {
	line := func(s string) string { return fmt.Sprintf("%04x%s", len(s)+4, s) }
	zero := "0000000000000000000000000000000000000000"
	f.Add([]byte(line(zero+" "+zero+" refs/heads/x\x00report-status side-band-64k") + "0000"))
	f.Add(append([]byte(line(zero+" 1111111111111111111111111111111111111111 refs/heads/x\x00 report-status")+"0000"), pack(f, 1, [2][]byte{entry(3, 5), []byte("hello")})...))
	f.Add([]byte("0000"))
	f.Add([]byte("fffe"))
	f.Fuzz(func(t *testing.T, body []byte) {
		q, err := parsePush(body)
		if err != nil {
			if len(q.commands) != 0 || q.pack != nil {
				t.Fatal("a refused request left a value")
			}
			return
		}
		if len(q.commands) > maxCommands {
			t.Fatalf("%d commands", len(q.commands))
		}
		r, err := newRepo(Repo{Name: "a/b"}, time.Unix(0, 0))
		if err != nil {
			t.Fatal(err)
		}
		before := len(r.store.ObjectStorage.Objects)
		if _, err := unpack(r, q); err != nil && len(r.store.ObjectStorage.Objects) != before {
			t.Fatal("a refused pack left objects in the repository")
		}
	})
}

func FuzzFetch(f *testing.F) {
	line := func(s string) string { return fmt.Sprintf("%04x%s", len(s)+4, s) }
	one := "1111111111111111111111111111111111111111"
	f.Add([]byte(line("want "+one+" multi_ack_detailed\n") + "0000" + line("have "+one+"\n") + line("done\n")))
	f.Add([]byte(line("want "+one+"\n") + line("deepen 1") + "0000"))
	f.Fuzz(func(t *testing.T, body []byte) {
		q, err := parseFetch(body)
		if err == nil && (len(q.wants) == 0 || len(q.wants) > maxWants || len(q.haves) > maxHaves || q.depth < 0) {
			t.Fatalf("accepted %+v", q)
		}
		if err != nil && (q.wants != nil || q.haves != nil) {
			t.Fatal("a refused request left a value")
		}
	})
}
