package redact

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/iotest"
)

// A long secret that comes in pieces of one byte is searched for with bounded work a
// byte, in every way in which it may come, and is masked as if it came whole.
func TestTinyPiecesOfALongSecret(t *testing.T) {
	rng := rand.New(rand.NewPCG(21, 22))
	random := make([]byte, MaxSecret)
	for i := range random {
		random[i] = "abcdefghijklmnopqrstuvwxyz/+"[rng.IntN(28)]
	}
	long := string(random)
	periodic := strings.Repeat("ab", 128)
	var escaped strings.Builder
	for i := range len(long) {
		fmt.Fprintf(&escaped, "%%%02X", long[i])
	}
	for _, c := range []struct {
		name, secret, text string
		perByte            int64 // bytes that may be searched for each
	}{
		{"whole", long, "x" + long + ".", 8},
		{"escaped", long, escaped.String() + ".", 8},
		{"broken off", long, long[:MaxSecret-1] + ".", 8},
		{"broken off again and again", long, strings.Repeat(long[:4000]+".", 30), 8},
		{"periodic", periodic, strings.Repeat("ab", 1<<10) + ".", 2 * workPerByte},
		{"nearly periodic", periodic + "c", strings.Repeat("ab", 1<<10) + "c.", 2 * workPerByte},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := mustNew(t, c.secret)
			want := []byte(c.text)
			r.Bytes(want)

			rd := r.Reader(iotest.OneByteReader(strings.NewReader(c.text)))
			got, err := io.ReadAll(rd)
			if err != nil || !bytes.Equal(got, want) {
				t.Errorf("read: masked otherwise than as a whole (%v)", err)
			}
			bounded(t, "read", rd.state, len(c.text), c.perByte)

			var out bytes.Buffer
			w := r.Writer(&out)
			for i := range len(c.text) {
				_, _ = w.Write([]byte{c.text[i]})
			}
			_ = w.Close()
			if !bytes.Equal(out.Bytes(), want) {
				t.Error("written: masked otherwise than as a whole")
			}
			bounded(t, "written", w.state, len(c.text), c.perByte)

			for _, every := range []int{1, 2, 1 << 20} { // how many parts a message has
				var p Pieces
				var held, all []byte
				for i := range len(c.text) {
					held = append(held, c.text[i])
					_, hold := p.Mask(r, held, (i+1)%every == 0 || i == len(c.text)-1)
					all = append(all, held[:hold]...)
					held = append(held[:0], held[hold:]...)
				}
				if len(all) != len(c.text) {
					t.Fatalf("messages of %d: %d bytes of %d", every, len(all), len(c.text))
				}
				for i := minTail - 1; i < len(all); i++ {
					if want[i] == Mask && want[i-minTail+1] == Mask && all[i] != Mask {
						t.Fatalf("messages of %d: byte %d is seen", every, i)
					}
				}
				bounded(t, "in messages", p.state, len(c.text), c.perByte)
			}
		})
	}
}

func bounded(t *testing.T, how string, g progress, n int, perByte int64) {
	t.Helper()
	most := perByte * int64(n)
	if perByte > workPerByte {
		most += workAtFirst
	}
	if g.scanned > most {
		t.Errorf("%s: %d bytes were searched for a text of %d, more than %d", how, g.scanned, n, most)
	}
	if g.given != int64(n) {
		t.Errorf("%s: %d bytes counted of %d", how, g.given, n)
	}
}

// Short secrets, which are found by fewer bytes than others, are found at every place of
// texts of every length, alone and with secrets around them.
func TestShortSecretsAtEveryPlace(t *testing.T) {
	for size := MinSecret; size <= gram+maxStride; size++ {
		secret := "QwErTyUiOpAsDfGhJkLzXcVbNm"[:size]
		for _, values := range [][]string{{secret}, {secret, "0123456789abcdefghijklmnopqrstuv", "zyxwvuts"}} {
			r := mustNew(t, values...)
			for before := range 40 {
				for after := range 12 {
					text := strings.Repeat("-", before) + secret + strings.Repeat("-", after)
					got := []byte(text)
					if n := r.Bytes(got); n == 0 || string(got) != strings.Replace(text, secret, Masked(size), 1) {
						t.Fatalf("%q: %q", text, got)
					}
				}
			}
		}
	}
}
