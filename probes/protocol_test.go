package probes

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/wallproof/wallproof/attest/manifest"
)

var testKey = strings.Repeat("0a", MinKeyBytes)

func written(t *testing.T, key string, list ...manifest.Observation) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := NewWriter(&out, key)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range list {
		if err := w.Write(o); err != nil {
			t.Fatal(err)
		}
	}
	return out.Bytes()
}

func readAll(t *testing.T, in []byte) ([]manifest.Observation, Stats) {
	t.Helper()
	r, err := NewReader(bytes.NewReader(in), testKey)
	if err != nil {
		t.Fatal(err)
	}
	var out []manifest.Observation
	for {
		o, err := r.Next()
		if errors.Is(err, io.EOF) {
			return out, r.Stats()
		}
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, o)
	}
}

func numbered(n int) manifest.Observation {
	return manifest.Observation{Side: manifest.SideProbe, Nonce: fmt.Sprint("n", n), Sign: manifest.SignRefused, Errno: "ECONNREFUSED", Status: 403,
		Obtained: []string{"ab"}, Local: []string{"tcp/1"}, Detail: "detail"}
}

func TestRoundTrip(t *testing.T) {
	list := []manifest.Observation{numbered(1), numbered(2), numbered(3)}
	got, stats := readAll(t, written(t, testKey, list...))
	if len(got) != 3 || stats != (Stats{Accepted: 3}) {
		t.Fatalf("read %d observations, %+v", len(got), stats)
	}
	for i, o := range got {
		if o.Nonce != list[i].Nonce || o.Errno != list[i].Errno || o.Status != 403 || !slices.Equal(o.Obtained, list[i].Obtained) {
			t.Errorf("%d: %+v", i, o)
		}
	}
}

// A line is exactly what the package comment says.
func TestLineFormat(t *testing.T) {
	line := string(written(t, testKey, manifest.Observation{Side: "probe", Nonce: "n"}))
	parts := strings.Split(strings.TrimSuffix(line, "\n"), " ")
	if len(parts) != 4 || parts[0] != "wp1" || parts[1] != "1" {
		t.Fatalf("line %q", line)
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[2])
	if err != nil || string(payload) != `{"side":"probe","nonce":"n","time":""}` {
		t.Errorf("payload %q, %v", payload, err)
	}
	// Computed with another implementation of HMAC-SHA-256.
	if want := "b2802f83ad1eb55a5c76e72bfaccc2b274d3f179a2a4a755a0046c7f953a69b5"; parts[3] != want {
		t.Errorf("MAC %s, want %s", parts[3], want)
	}
}

func TestReaderIgnores(t *testing.T) {
	lines := bytes.SplitAfter(written(t, testKey, numbered(1), numbered(2), numbered(3)), []byte("\n"))
	one, two, three := string(lines[0]), string(lines[1]), string(lines[2])
	foreign := string(written(t, strings.Repeat("0b", MinKeyBytes), numbered(9)))
	for _, tt := range []struct {
		name, in string
		accepted string // the nonces
		stats    Stats
	}{
		{"nothing", "", "", Stats{}},
		{"noise", "hello\n" + one + "\nwp1\n wp1 1 a b\n", "n1", Stats{Accepted: 1, Foreign: 4}},
		{"another key", foreign + one, "n1", Stats{Accepted: 1, Forged: 1}},
		{"repeated", one + one + two, "n1 n2", Stats{Accepted: 2, Repeated: 1}},
		{"backwards", two + one + three, "n2 n3", Stats{Accepted: 2, Repeated: 1, Missing: 1}},
		{"gap", one + three, "n1 n3", Stats{Accepted: 2, Missing: 1}},
		{"renumbered", strings.Replace(two, "wp1 2 ", "wp1 1 ", 1), "", Stats{Forged: 1}},
		{"leading zero", strings.Replace(one, "wp1 1 ", "wp1 01 ", 1), "", Stats{Forged: 1}},
		{"plus sign", strings.Replace(one, "wp1 1 ", "wp1 +1 ", 1), "", Stats{Forged: 1}},
		{"changed payload", strings.Replace(one, "wp1 1 ey", "wp1 1 eX", 1), "", Stats{Forged: 1}},
		{"upper-case MAC", one[:len(one)-65] + strings.ToUpper(one[len(one)-65:]), "", Stats{Forged: 1}},
		{"carriage return", strings.TrimSuffix(one, "\n") + "\r\n", "", Stats{Forged: 1}},
		{"no end of line", one + strings.TrimSuffix(two, "\n"), "n1", Stats{Accepted: 1, Foreign: 1}},
		{"too long", strings.Repeat("x", MaxLine+1) + "\n" + one, "n1", Stats{Accepted: 1, Oversize: 1}},
		{"in the middle of a line", "noise" + one + two, "n2", Stats{Accepted: 1, Foreign: 1, Missing: 1}},
		{"binary", "\x00\xff\n" + one, "n1", Stats{Accepted: 1, Foreign: 1}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, stats := readAll(t, []byte(tt.in))
			var nonces []string
			for _, o := range got {
				nonces = append(nonces, o.Nonce)
			}
			if strings.Join(nonces, " ") != tt.accepted || stats != tt.stats {
				t.Errorf("accepted %v, %+v; want %s, %+v", nonces, stats, tt.accepted, tt.stats)
			}
		})
	}
}

func TestReaderStopsAtItsBound(t *testing.T) {
	flood := io.MultiReader(bytes.NewReader(written(t, testKey, numbered(1))), endless('x'))
	for name, in := range map[string]io.Reader{"one endless line": flood, "endless lines": strings.NewReader(strings.Repeat(strings.Repeat("x", 8<<10)+"\n", MaxOutput>>12))} {
		r, err := NewReader(in, testKey)
		if err != nil {
			t.Fatal(err)
		}
		for err == nil {
			_, err = r.Next()
		}
		if !errors.Is(err, io.EOF) || !r.Stats().Cut {
			t.Errorf("%s: %v, %+v", name, err, r.Stats())
		}
	}
}

type endless byte

func (e endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(e)
	}
	return len(p), nil
}

func TestReaderReportsItsInputsError(t *testing.T) {
	r, err := NewReader(io.MultiReader(strings.NewReader("x\n"), failing{}), testKey)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Next(); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("got %v", err)
	}
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, io.ErrClosedPipe }

func TestBounds(t *testing.T) {
	o := numbered(1)
	o.Detail = strings.Repeat("é\x00", 1000)
	o.Obtained = slices.Repeat([]string{"x"}, 2*MaxObtained)
	o.Local = slices.Repeat([]string{strings.Repeat("y", 1000)}, 2*MaxLocal)
	got, _ := readAll(t, written(t, testKey, o))
	if len(got) != 1 {
		t.Fatalf("read %d observations", len(got))
	}
	if d := got[0].Detail; len(d) > MaxDetail || strings.Trim(d, "?") != "" {
		t.Errorf("detail of %d bytes: %q", len(d), d)
	}
	if len(got[0].Obtained) != MaxObtained || len(got[0].Local) != MaxLocal || len(got[0].Local[0]) != MaxDetail {
		t.Errorf("%d obtained, %d local", len(got[0].Obtained), len(got[0].Local))
	}
	w, err := NewWriter(io.Discard, testKey)
	if err != nil {
		t.Fatal(err)
	}
	for err == nil {
		err = w.Write(numbered(1))
	}
	if w.written > MaxOutput {
		t.Errorf("wrote %d bytes, the bound is %d", w.written, MaxOutput)
	}
}

func TestKeys(t *testing.T) {
	for _, key := range []string{"", "zz", strings.Repeat("0a", MinKeyBytes-1), strings.Repeat("0", 2*MinKeyBytes+1)} {
		if _, err := NewWriter(io.Discard, key); err == nil {
			t.Errorf("NewWriter took the key %q", key)
		}
		if _, err := NewReader(strings.NewReader(""), key); err == nil {
			t.Errorf("NewReader took the key %q", key)
		}
	}
}

// Whatever image code prints before, between and after: the authentic lines are
// read as they were written, and nothing else is.
func FuzzReader(f *testing.F) {
	f.Add([]byte("noise\n"), []byte("\n"), []byte("wp1 1 a b"))
	f.Add([]byte("\xff\n"), written2(strings.Repeat("0b", MinKeyBytes)), []byte("wp1 99 e30 00\n"))
	f.Add([]byte{}, []byte{'\n'}, []byte{})
	f.Fuzz(func(t *testing.T, before, between, after []byte) {
		lines := bytes.SplitAfter(written(t, testKey, numbered(1), numbered(2)), []byte("\n"))
		var in bytes.Buffer
		for _, part := range [][]byte{before, []byte("\n"), lines[0], between, []byte("\n"), lines[1], after} {
			in.Write(part)
		}
		got, stats := readAll(t, in.Bytes())
		if len(got) != 2 || got[0].Nonce != "n1" || got[1].Nonce != "n2" || stats.Accepted != 2 {
			t.Fatalf("read %+v, %+v", got, stats)
		}
		if alone, _ := readAll(t, slices.Concat(before, []byte("\n"), between, []byte("\n"), after)); len(alone) != 0 {
			t.Fatalf("%d observations came from noise", len(alone))
		}
	})
}

func written2(key string) []byte {
	var out bytes.Buffer
	w, err := NewWriter(&out, key)
	if err != nil {
		panic(err)
	}
	if err := w.Write(numbered(1)); err != nil {
		panic(err)
	}
	return out.Bytes()
}
