package verify_test

import (
	"bytes"
	"io/fs"
	"testing"

	"github.com/wallproof/wallproof/attest/packet"
	"github.com/wallproof/wallproof/attest/packettest"
	"github.com/wallproof/wallproof/verify"
)

// exchanging is a packet of which one file is another from its nth opening on, as
// where somebody writes to the folder while it is verified.
type exchanging struct {
	files packet.Memory
	name  string
	after int
	other []byte
	opens int
}

func (e *exchanging) Open(name string) (fs.File, error) {
	if name != e.name {
		return e.files.Open(name)
	}
	if e.opens++; e.opens <= e.after {
		return e.files.Open(name)
	}
	return packet.Memory{name: e.other}.Open(name)
}

// A file that is exchanged between two readings is noticed, whichever it is and
// whichever reading it is, also by one that is as well-formed.
func TestExchangedWhileRead(t *testing.T) {
	p := packettest.New(t)
	if r := verify.Verify(p.Input()); r.Verdict != verify.Valid && r.Verdict != verify.VerdictHeld {
		t.Fatalf("as it is: %s", r.Verdict)
	}
	again := 0
	for name, data := range p.Files {
		lines := bytes.SplitAfter(data, []byte("\n"))
		others := [][]byte{bytes.Join(lines[1:], nil)}
		if !packet.IsBundle(name) { // white space after a bundle is nothing
			others = append(others, append(bytes.Clone(data), ' '))
		}
		if n := len(lines); n > 2 {
			others = append(others, append(bytes.Clone(data), lines[n-2]...))
		}
		for _, other := range others {
			for after := 1; ; after++ {
				in := p.Input()
				e := &exchanging{files: p.Files, name: name, after: after, other: other}
				in.Packet = e
				r := verify.Verify(in)
				if e.opens <= after {
					break
				}
				again++
				if r.Verdict != verify.Invalid {
					t.Errorf("%s is another from reading %d on (%d bytes for %d): %s", name, after+1, len(other), len(data), r.Verdict)
				}
			}
		}
	}
	if again == 0 {
		t.Error("no file is read twice: this test shows nothing")
	}
	t.Logf("%d exchanges", again)
}
