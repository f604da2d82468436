package manifest

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/wallproof/wallproof/internal/canon"
)

// sample writes a manifest with n technique entries.
func sample(t testing.TB, n int) ([]byte, Summary) {
	t.Helper()
	var b bytes.Buffer
	w := NewWriter(&b)
	if err := w.WriteRun(Run{RunID: "0123abcd", Started: "2026-11-01T12:00:00.000Z"}); err != nil {
		t.Fatal(err)
	}
	for i := range n {
		e := Technique{Technique: fmt.Sprintf("NET-%d", i), Vector: "NET", Variant: "default", Outcome: "blocked"}
		if err := w.WriteTechnique(e); err != nil {
			t.Fatal(err)
		}
	}
	s, err := w.Close(strings.Repeat("ab", 32), "2026-11-01T12:01:00.000Z")
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes(), s
}

func linesOf(data []byte) []string {
	return strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
}

func join(lines []string) string { return strings.Join(lines, "\n") + "\n" }

func TestWriteAndRead(t *testing.T) {
	data, s := sample(t, 5)
	m, err := Read(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	if m.Summary != s || s.Count != 7 || len(m.Techniques) != 5 || m.Terminal.Totals["NET"]["blocked"] != 5 {
		t.Errorf("read %+v, wrote %+v", m.Summary, s)
	}
	list := linesOf(data)
	head := sha256.Sum256([]byte(list[6]))
	if s.Head != hex.EncodeToString(head[:]) {
		t.Errorf("head %s is not the hash of the terminal line", s.Head)
	}
	if m.Terminal.Head != m.Terminal.Prev || m.Run.Prev != Genesis || m.Run.Schema != Schema {
		t.Error("terminal head, genesis or schema is not as specified")
	}
	var leaves []Hash
	for _, l := range list {
		leaves = append(leaves, LeafHash([]byte(l)))
	}
	if got := subtree(leaves).String(); got != s.MerkleRoot {
		t.Errorf("root %s, want %s", s.MerkleRoot, got)
	}
}

// Each way to tamper has its own reason.
func TestReaderNamesWhatWasDone(t *testing.T) {
	data, _ := sample(t, 5)
	whole := linesOf(data)
	edit := func(fn func([]string) []string) string { return join(fn(slices.Clone(whole))) }
	foreign := func(seq int, prev string) string {
		line, err := canon.Marshal(Technique{Seq: int64(seq), Prev: prev, Type: TypeTechnique, Technique: "X"})
		if err != nil {
			t.Fatal(err)
		}
		return string(line)
	}
	hash := func(line string) string {
		sum := sha256.Sum256([]byte(line))
		return hex.EncodeToString(sum[:])
	}
	for _, c := range []struct {
		name string
		in   string
		want Reason
		line int64
	}{
		{"nothing", "", ReasonEmpty, 0},
		{"one line feed", "\n", Reason(canon.ReasonSyntax), 0},
		{"B22: terminal entry gone", edit(func(l []string) []string { return l[:6] }), ReasonIncomplete, 6},
		{"B22: half of it, every link intact", edit(func(l []string) []string { return l[:3] }), ReasonIncomplete, 3},
		{"last line feed gone", strings.TrimSuffix(string(data), "\n"), ReasonCutLine, 6},
		{"cut in a line", string(data[:len(data)-40]), ReasonCutLine, 6},
		{"first line gone", edit(func(l []string) []string { return l[1:] }), ReasonMissing, 0},
		{"line taken out", edit(func(l []string) []string { return slices.Delete(l, 3, 4) }), ReasonMissing, 3},
		{"neighbours swapped", edit(func(l []string) []string { l[2], l[3] = l[3], l[2]; return l }), ReasonReordered, 2},
		{"moved to the end", edit(func(l []string) []string { x := l[1]; return append(slices.Delete(l, 1, 2), x) }), ReasonReordered, 1},
		{"doubled in place", edit(func(l []string) []string { return slices.Insert(l, 3, l[2]) }), ReasonDuplicate, 3},
		{"doubled further down", edit(func(l []string) []string { return slices.Insert(l, 5, l[1]) }), ReasonDuplicate, 5},
		{"inserted", edit(func(l []string) []string { return slices.Insert(l, 3, foreign(3, hash(l[2]))) }), ReasonInserted, 4},
		{"inserted with another number", edit(func(l []string) []string { return slices.Insert(l, 3, foreign(1, hash(l[0]))) }), ReasonInserted, 3},
		{"replaced", edit(func(l []string) []string { l[3] = foreign(3, hash(l[2])); return l }), ReasonChain, 4},
		{"changed", edit(func(l []string) []string { l[3] = strings.Replace(l[3], "blocked", "escaped", 1); return l }), ReasonChain, 4},
		{"prev changed", edit(func(l []string) []string { l[3] = strings.Replace(l[3], hash(whole[2]), hash("x"), 1); return l }), ReasonChain, 3},
		{"behind the terminal entry", edit(func(l []string) []string { return append(l, foreign(7, hash(l[6]))) }), ReasonAfterTerminal, 7},
		{"terminal entry doubled", edit(func(l []string) []string { return append(l, l[6]) }), ReasonAfterTerminal, 7},
		{"schema", edit(func(l []string) []string {
			l[0] = strings.Replace(l[0], `"schema":"`+Schema, `"schema":"wallproof.manifest/v2`, 1)
			return l
		}), ReasonSchema, 0},
		{"genesis", edit(func(l []string) []string { l[0] = strings.Replace(l[0], Genesis, "genesis:x", 1); return l }), ReasonGenesis, 0},
		{"type", edit(func(l []string) []string {
			l[1] = strings.Replace(l[1], `"type":"technique"`, `"type":"other"`, 1)
			return l
		}), ReasonType, 1},
		{"run in the middle", edit(func(l []string) []string {
			l[1] = strings.Replace(l[1], `"type":"technique"`, `"type":"run"`, 1)
			return l
		}), ReasonType, 1},
		{"head", edit(func(l []string) []string { l[6] = strings.Replace(l[6], `"head":"`, `"head":"0`, 1); return l }), ReasonTerminalHead, 6},
		{"count", edit(func(l []string) []string { l[6] = strings.Replace(l[6], `"count":7`, `"count":8`, 1); return l }), ReasonTerminalCount, 6},
		{"totals", edit(func(l []string) []string { l[6] = strings.Replace(l[6], `"blocked":5`, `"blocked":6`, 1); return l }), ReasonTotals, 6},
		{"unknown member", edit(func(l []string) []string { l[0] = strings.Replace(l[0], `"type"`, `"tuna":1,"type"`, 1); return l }), Reason(canon.ReasonUnknownMember), 0},
		{"case-folded member", edit(func(l []string) []string { l[0] = strings.Replace(l[0], `{`, `{"RunId":"x",`, 1); return l }), Reason(canon.ReasonCaseFolded), 0},
		{"member twice", edit(func(l []string) []string { l[0] = strings.Replace(l[0], `"seq":0`, `"seq":0,"seq":0`, 1); return l }), Reason(canon.ReasonDuplicate), 0},
		{"member gone", edit(func(l []string) []string { l[0] = strings.Replace(l[0], `"probeDigest":"",`, ``, 1); return l }), Reason(canon.ReasonMissingMember), 0},
		{"empty member written out", edit(func(l []string) []string {
			l[1] = strings.Replace(l[1], `"outcome"`, `"notApplicable":"","outcome"`, 1)
			return l
		}), Reason(canon.ReasonMissingMember), 1},
		{"white space", edit(func(l []string) []string { l[2] = strings.Replace(l[2], `,`, `, `, 1); return l }), Reason(canon.ReasonNotCanonical), 2},
		{"carriage return", edit(func(l []string) []string { l[2] += "\r"; return l }), Reason(canon.ReasonNotCanonical), 2},
		{"fraction", edit(func(l []string) []string { l[0] = strings.Replace(l[0], `"seq":0`, `"seq":0.0`, 1); return l }), Reason(canon.ReasonNotInteger), 0},
		{"deep", edit(func(l []string) []string {
			l[0] = `{"a":` + strings.Repeat("[", 20) + strings.Repeat("]", 20) + `}`
			return l
		}), Reason(canon.ReasonDepth), 0},
		{"an array", edit(func(l []string) []string { l[0] = `[]`; return l }), Reason(canon.ReasonMissingMember), 0},
		{"line beyond the limit", edit(func(l []string) []string { l[1] = strings.Repeat("x", MaxLineBytes+1); return l }), ReasonTooLarge, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Read(strings.NewReader(c.in))
			var e *Error
			if !errors.As(err, &e) || e.Reason != c.want || e.Line != c.line {
				t.Errorf("got %v, want %s at line %d", err, c.want, c.line)
			}
		})
	}
}

// The quick look agrees with the reader on whole files and notices every damage
// to the chain.
func TestChain(t *testing.T) {
	data, s := sample(t, 6)
	head, n, err := Chain(bytes.NewReader(data))
	if err != nil || head != s.Head || n != s.Count {
		t.Errorf("head %s, %d lines, %v; want %+v", head, n, err, s)
	}
	for i := 0; i < len(data)-1; i++ {
		changed := bytes.Clone(data)
		changed[i] ^= 1
		if head, _, err := Chain(bytes.NewReader(changed)); err == nil && head == s.Head {
			t.Fatalf("byte %d was changed and nothing is noticed", i)
		}
	}
	list := linesOf(data)
	for name, in := range map[string]string{
		"nothing": "", "cut": string(data[:len(data)-1]), "dropped": join(slices.Delete(slices.Clone(list), 2, 3)),
		"doubled": join(slices.Insert(slices.Clone(list), 2, list[1])), "long": strings.Repeat("x", MaxLineBytes+readBuffer) + "\n",
	} {
		if _, _, err := Chain(strings.NewReader(in)); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	long := strings.Replace(list[0], `"runId":"`, `"runId":"`+strings.Repeat("y", readBuffer), 1)
	if _, n, err := Chain(strings.NewReader(long + "\n")); err != nil || n != 1 {
		t.Errorf("a line longer than the buffer: %d, %v", n, err)
	}
}

func TestReadIsBounded(t *testing.T) {
	data, _ := sample(t, 5)
	if _, err := read(bytes.NewReader(data), len(data)); err != nil {
		t.Error(err)
	}
	if _, err := read(bytes.NewReader(data), len(data)/2); ReasonOf(err) != ReasonTooLarge {
		t.Errorf("half the room: %v", err)
	}
}

// A reader that cannot seek still refuses, if less precisely.
func TestReaderWithoutSeek(t *testing.T) {
	data, _ := sample(t, 3)
	l := linesOf(data)
	l[1], l[2] = l[2], l[1]
	if _, err := Read(io.MultiReader(strings.NewReader(join(l)))); ReasonOf(err) != ReasonMissing {
		t.Errorf("swapped: %v", err)
	}
}

func TestReaderStaysFailed(t *testing.T) {
	r := NewReader(strings.NewReader("{}\n{}\n"))
	_, first := r.Next()
	if _, again := r.Next(); again != first || first == nil {
		t.Errorf("first %v, then %v", first, again)
	}
	if r.Summary() != (Summary{}) {
		t.Error("a failed reader gives a summary")
	}
}

// failing is a disk that is full after some bytes.
type failing struct {
	bytes.Buffer
	room, syncs int
}

func (f *failing) Write(p []byte) (int, error) {
	if f.room -= len(p); f.room < 0 {
		return 0, errors.New("no space left on device")
	}
	return f.Buffer.Write(p)
}

func (f *failing) Sync() error { f.syncs++; return nil }

func TestWriterFlushesAndStopsAtTheFirstError(t *testing.T) {
	f := &failing{room: 1 << 20}
	w := NewWriter(f)
	if err := w.WriteTechnique(Technique{}); !errors.Is(err, ErrNoRun) {
		t.Errorf("technique first: %v", err)
	}
	if err := w.WriteRun(Run{}); err != nil {
		t.Fatal(err)
	}
	if err := w.WriteRun(Run{}); !errors.Is(err, ErrRun) {
		t.Errorf("run twice: %v", err)
	}
	if f.syncs != 1 {
		t.Errorf("%d syncs after one entry", f.syncs)
	}
	f.room = 10
	if err := w.WriteTechnique(Technique{Technique: "A"}); err == nil {
		t.Fatal("a full disk goes unnoticed")
	}
	f.room = 1 << 20
	if err := w.WriteTechnique(Technique{Technique: "B"}); err == nil {
		t.Error("an entry follows one that was lost")
	}
	if _, err := Read(bytes.NewReader(f.Bytes())); ReasonOf(err) != ReasonIncomplete {
		t.Errorf("what is left is %v, want incomplete", err)
	}
	g := &failing{room: 1 << 20}
	w = NewWriter(g)
	if err := w.WriteRun(Run{RunID: "a\xff"}); canon.ReasonOf(err) != canon.ReasonUTF8 {
		t.Errorf("invalid UTF-8: %v", err)
	}
	if err := w.WriteRun(Run{}); err != nil {
		t.Errorf("an entry that could not be written must not count: %v", err)
	}
	if _, err := w.Close("", ""); err != nil {
		t.Fatal(err)
	}
	if err := w.WriteTechnique(Technique{}); !errors.Is(err, ErrClosed) {
		t.Errorf("after the end: %v", err)
	}
}

func FuzzRead(f *testing.F) {
	data, _ := sample(f, 3)
	f.Add(data)
	f.Add(data[:len(data)-1])
	l := linesOf(data)
	f.Add([]byte(join(slices.Concat(l[:2], l[1:]))))
	f.Add([]byte(join([]string{l[0], l[2], l[1], l[3], l[4]})))
	f.Add([]byte("{}\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := Read(bytes.NewReader(data))
		if (m == nil) == (err == nil) {
			t.Fatalf("manifest %v with error %v", m, err)
		}
		if err != nil {
			if ReasonOf(err) == "" {
				t.Fatalf("a refusal without a reason: %v", err)
			}
			return
		}
		// What is accepted is exactly what the writer writes.
		var b bytes.Buffer
		w := NewWriter(&b)
		if err := w.WriteRun(m.Run); err != nil {
			t.Fatal(err)
		}
		for _, e := range m.Techniques {
			if err := w.WriteTechnique(e); err != nil {
				t.Fatal(err)
			}
		}
		s, err := w.Close(m.Terminal.NonceKey, m.Terminal.Ended)
		if err != nil || s != m.Summary || !bytes.Equal(b.Bytes(), data) {
			t.Fatalf("written again it differs: %v", err)
		}
	})
}
