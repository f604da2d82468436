package battery

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"testing"
	"time"

	"github.com/wallproof/wallproof/battery/sandbox"
)

// haltable is a sandbox that takes nothing but halts.
type haltable struct {
	name  string
	err   error
	exit  int
	asked []string
}

func (h *haltable) ID() string { return h.name }
func (h *haltable) Exec(_ context.Context, c sandbox.Command) (int, error) {
	h.asked = append(h.asked, c.Argv[1])
	return h.exit, h.err
}
func (h *haltable) CopyIn(context.Context, string, fs.FileMode, io.Reader) error { return nil }
func (h *haltable) Stop(context.Context) error                                   { return nil }

// D23: a halt reaches every sandbox that lives or none, nothing starts meanwhile, and
// the time of what was begun stands still.
func TestD23Halts(t *testing.T) {
	h := newHalts("/x/wallproof-probe", func() string { return "now" })
	one, two, ended := &haltable{name: "one"}, &haltable{name: "two"}, &haltable{name: "ended", err: sandbox.ErrEnded}
	for _, s := range []*haltable{one, two, ended} {
		h.add(s)
	}
	ctx, cancel := h.deadline(t.Context(), time.Hour)
	defer cancel()
	if err := h.set(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	passed := make(chan error, 1)
	go func() { passed <- h.pass(t.Context()) }()
	short, stop := h.deadline(t.Context(), time.Nanosecond) // begun while halted: its time stands still
	defer stop()
	select {
	case <-passed:
		t.Error("something starts in a halted run")
	case <-short.Done():
		t.Error("time runs in a halted run")
	case <-time.After(50 * time.Millisecond):
	}
	// One that was on its way to its start when the halt came is met by the next sweep.
	late := &haltable{name: "late"}
	h.add(late)
	if err := h.again(t.Context()); err != nil || len(late.asked) != 1 || late.asked[0] != "halt" {
		t.Errorf("%v, %v", late.asked, err)
	}
	if err := h.set(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	if err := h.again(t.Context()); err != nil || len(late.asked) != 2 || late.asked[1] != "resume" {
		t.Errorf("after the end of the halt: %v, %v", late.asked, err)
	}
	h.remove(late)
	if exit, err := h.exec(t.Context(), two, sandbox.Command{Argv: []string{"", "tool"}, Timeout: time.Minute}); exit != 0 || err != nil || two.asked[len(two.asked)-1] != "tool" {
		t.Errorf("%d, %v, %v", exit, err, two.asked)
	}
	if err := <-passed; err != nil {
		t.Error(err)
	}
	<-short.Done()
	if ctx.Err() != nil {
		t.Error("a time that is not over has ended")
	}
	if len(one.asked) != 3 || one.asked[0] != "halt" || one.asked[1] != "halt" || one.asked[2] != "resume" {
		t.Errorf("%v", one.asked)
	}
	if got := h.over(); len(got) != 2 || !got[0].Halted || got[1].Halted {
		t.Errorf("%+v", got)
	}
	// One that cannot be halted: the others go on.
	two.err = errors.New("no")
	if err := h.set(t.Context(), true); err == nil {
		t.Error("a halt that did not take everywhere is no error")
	}
	if halted, _ := h.state(); halted || one.asked[len(one.asked)-1] != "resume" {
		t.Errorf("halted %v, %v", halted, one.asked)
	}
	h.remove(two)
	if err := h.set(t.Context(), true); err != nil {
		t.Error(err)
	}
	gone, cut := context.WithCancel(t.Context())
	cut()
	if h.pass(gone) == nil {
		t.Error("a run that ended passes")
	}
}
