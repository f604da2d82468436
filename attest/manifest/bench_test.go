package manifest

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"io"
	"testing"

	"github.com/wallproof/wallproof/internal/canon"
)

// bulk is a manifest of about 8 MB with lines of a usual length.
func bulk(b *testing.B) []byte {
	b.Helper()
	var out bytes.Buffer
	w := NewWriter(&out)
	if err := w.WriteRun(Run{}); err != nil {
		b.Fatal(err)
	}
	o := Observation{Side: SideProbe, Nonce: "wabcdefghijklmnopqrstuvwx", Time: "2026-11-01T12:00:00.000Z", Sign: SignRefused, Errno: "ECONNREFUSED", Detail: "connect to 198.51.100.7 port 443"}
	p := Phase{Nonce: o.Nonce, Sandbox: "work", FilterIntact: true, Observations: []Observation{o, o, o}}
	for out.Len() < 8<<20 {
		if err := w.WriteTechnique(Technique{Technique: "NET-TCP", Vector: "NET", Variant: "direct-v4", Outcome: "blocked", Control: p, Attack: p}); err != nil {
			b.Fatal(err)
		}
	}
	if _, err := w.Close("", ""); err != nil {
		b.Fatal(err)
	}
	return out.Bytes()
}

// BenchmarkSHA256 is what the others are measured against.
func BenchmarkSHA256(b *testing.B) {
	data := bulk(b)
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		sha256.Sum256(data)
	}
}

// BenchmarkChain is the hash chain alone.
func BenchmarkChain(b *testing.B) {
	data := bulk(b)
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		if _, _, err := Chain(bytes.NewReader(data)); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkReader is the strict reader with chain and Merkle root.
func BenchmarkReader(b *testing.B) {
	data := bulk(b)
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		r := NewReader(bytes.NewReader(data))
		for {
			if _, err := r.Next(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				b.Fatal(err)
			}
		}
	}
}

// BenchmarkRead also decodes every entry.
func BenchmarkRead(b *testing.B) {
	data := bulk(b)
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		if _, err := Read(bytes.NewReader(data)); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkWriter encodes, hashes and appends.
func BenchmarkWriter(b *testing.B) {
	line, err := canon.Marshal(Technique{Technique: "NET-TCP"})
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(line)))
	w := NewWriter(io.Discard)
	if err := w.WriteRun(Run{}); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if err := w.WriteTechnique(Technique{Technique: "NET-TCP"}); err != nil {
			b.Fatal(err)
		}
	}
}
