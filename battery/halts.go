package battery

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/battery/sandbox"
)

// halts lets an operator halt a run for a review and let it go on: everything in
// the sandboxes stops, nothing new is started in them, and no time of an attempt
// runs. Proxies and witnesses stay, so that a review sees what they say.
type halts struct {
	probe string        // path of wallproof-probe on the host
	now   func() string // of the run

	mu        sync.Mutex
	halted    bool
	changed   chan struct{} // closed when halted changes
	sandboxes []sandbox.Sandbox
	list      []manifest.Halt
}

// maxHalts bounds the halts of one run.
const maxHalts = 1000

func newHalts(probe string, now func() string) *halts {
	return &halts{probe: probe, now: now, changed: make(chan struct{})}
}

// sweepEvery is how often a halted run is halted again: what was on its way to its
// start when the halt came, or is a sandbox that was, is met by the next sweep.
const sweepEvery = 2 * time.Second

// attend carries out what the operator wants until ctx ends. It alone signals, so
// that no sweep comes after the end of its halt.
func (h *halts) attend(ctx context.Context, wants <-chan bool, say func(string)) {
	sweep := time.NewTicker(sweepEvery)
	defer sweep.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-sweep.C:
			if err := h.again(ctx); err != nil && ctx.Err() == nil {
				say(err.Error())
			}
		case want := <-wants:
			if err := h.set(ctx, want); err != nil {
				say(err.Error())
				continue
			}
			if want {
				say("halted for review")
			} else {
				say("resumed")
			}
		}
	}
}

// set halts or resumes. A halt that does not take everywhere is undone.
func (h *halts) set(ctx context.Context, want bool) error {
	h.mu.Lock()
	if want == h.halted || len(h.list) >= maxHalts {
		h.mu.Unlock()
		return nil
	}
	if want {
		h.switchTo(true) // first of all, so that nothing new starts
	}
	all := slices.Clone(h.sandboxes)
	h.mu.Unlock()
	err := h.signal(ctx, all, want)
	h.mu.Lock()
	defer h.mu.Unlock()
	if err != nil && want {
		err = errors.Join(fmt.Errorf("halt the run: %w", err), h.signal(ctx, all, false))
		h.switchTo(false)
		return err
	}
	if !want {
		h.switchTo(false)
	}
	return err
}

// again halts what has started since the halt.
func (h *halts) again(ctx context.Context) error {
	h.mu.Lock()
	halted, all := h.halted, slices.Clone(h.sandboxes)
	h.mu.Unlock()
	if !halted {
		return nil
	}
	return h.signal(ctx, all, true)
}

// switchTo notes the state; the caller holds the lock.
func (h *halts) switchTo(halted bool) {
	h.halted = halted
	close(h.changed)
	h.changed = make(chan struct{})
	h.list = append(h.list, manifest.Halt{Time: h.now(), Halted: halted})
}

// signal stops or continues every process of the sandboxes but their first ones.
func (h *halts) signal(ctx context.Context, all []sandbox.Sandbox, stop bool) error {
	command := "resume"
	if stop {
		command = "halt"
	}
	errs := make([]error, len(all))
	var g sync.WaitGroup
	for i, sb := range all {
		g.Go(func() {
			var stderr limitedBuffer
			exit, err := sb.Exec(ctx, sandbox.Command{Argv: []string{tool(h.probe), command}, Env: []string{"HOME=/"}, WorkDir: "/", User: &root, Stderr: &stderr, Timeout: toolTimeout})
			if errors.Is(err, sandbox.ErrEnded) {
				return
			}
			if err == nil && exit != 0 {
				err = errors.New(strings.TrimSpace(stderr.text()))
			}
			if err != nil {
				errs[i] = fmt.Errorf("%s the sandbox %s: %w", command, sb.ID(), err)
			}
		})
	}
	g.Wait()
	return errors.Join(errs...)
}

// state is whether the run is halted, and what is closed when that changes.
func (h *halts) state() (bool, <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.halted, h.changed
}

// pass waits while the run is halted.
func (h *halts) pass(ctx context.Context) error {
	for {
		halted, changed := h.state()
		if !halted {
			return ctx.Err()
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// exec runs one of our own commands in a sandbox, not in a halted run; halts do not
// count in its timeout.
func (h *halts) exec(ctx context.Context, sb sandbox.Sandbox, c sandbox.Command) (int, error) {
	if err := h.pass(ctx); err != nil {
		return 0, err
	}
	ctx, cancel := h.deadline(ctx, c.Timeout)
	defer cancel()
	c.Timeout = 0
	return sb.Exec(ctx, c)
}

// add takes in a sandbox that has started.
func (h *halts) add(sb sandbox.Sandbox) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.sandboxes = append(h.sandboxes, sb)
}

// remove forgets a sandbox that is about to be stopped.
func (h *halts) remove(sb sandbox.Sandbox) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.sandboxes = slices.DeleteFunc(h.sandboxes, func(s sandbox.Sandbox) bool { return s == sb })
}

// deadline is a context that ends after a time in which halts do not count.
func (h *halts) deadline(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		defer cancel()
		for left := d; left > 0; {
			halted, changed := h.state()
			began := time.Now()
			t := time.NewTimer(left)
			if halted {
				t.Stop()
			}
			select {
			case <-t.C:
				return
			case <-changed:
			case <-ctx.Done():
				t.Stop()
				return
			}
			t.Stop()
			if !halted {
				left -= time.Since(began)
			}
		}
	}()
	return ctx, cancel
}

// over is what the manifest keeps.
func (h *halts) over() []manifest.Halt {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.list)
}
