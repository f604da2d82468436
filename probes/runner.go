package probes

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/wallproof/wallproof/attest/manifest"
)

// Runner makes the attempts of a plan.
type Runner struct {
	Attempts map[string]Attempt // by technique id; also HeartbeatID
	Now      func() time.Time   // nil means time.Now

	halts halts
}

// Run makes every attempt of the plan, in parallel within its bound, and writes
// one observation for each. An attempt that panics, does not exist or does not
// end in time still gets its line. The error is the writer's.
func (r *Runner) Run(ctx context.Context, plan *Plan, out *Writer) error {
	parallel := plan.Parallel
	if parallel == 0 {
		parallel = DefaultParallel
	}
	watching, stop := context.WithCancel(ctx)
	defer stop()
	r.halts.tick()
	go r.halts.watch(watching)
	slots := make(chan struct{}, parallel)
	var running sync.WaitGroup
	var failed errorOnce
	for i := range plan.Items {
		item := &plan.Items[i]
		if item.Alone {
			running.Wait()
		}
		slots <- struct{}{}
		running.Add(1)
		go func() {
			defer running.Done()
			defer func() { <-slots }()
			failed.set(out.Write(r.attempt(ctx, &plan.Facts, item)))
		}()
		if item.Alone {
			running.Wait()
		}
	}
	running.Wait()
	return failed.err
}

// halts counts how often the process was stopped and continued, as it is when the
// run is halted for a review: a tick that comes far too late tells it.
type halts struct {
	mu   sync.Mutex
	last time.Time
	n    int
}

const (
	haltTick = time.Second
	// haltGap is longer than a busy machine keeps a tick waiting.
	haltGap = 8 * time.Second
	// maxAgain bounds how often one attempt is made anew.
	maxAgain = 8
)

// tick returns how many halts there have been.
func (h *halts) tick() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	if !h.last.IsZero() && now.Sub(h.last) > haltGap {
		h.n++
	}
	h.last = now
	return h.n
}

func (h *halts) watch(ctx context.Context) {
	t := time.NewTicker(haltTick)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			h.tick()
		}
	}
}

// attempt makes an attempt, and makes it anew when the process was halted
// meanwhile: its time ran on, and whom it talked to may have given up.
func (r *Runner) attempt(ctx context.Context, facts *Facts, item *Item) manifest.Observation {
	for again := 0; ; again++ {
		before := r.halts.tick()
		o := r.one(ctx, facts, item)
		if r.halts.tick() == before || again == maxAgain || ctx.Err() != nil {
			return o
		}
	}
}

// one makes one attempt and waits for it no longer than its timeout and a
// little grace: an attempt that ignores its context is left behind.
func (r *Runner) one(ctx context.Context, facts *Facts, item *Item) manifest.Observation {
	now := r.Now
	if now == nil {
		now = time.Now
	}
	timeout := DefaultTimeout
	if item.TimeoutMs > 0 {
		timeout = time.Duration(item.TimeoutMs) * time.Millisecond
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	start := now()
	result := make(chan manifest.Observation, 1)
	go func() { result <- r.call(ctx, facts, item) }()
	var o manifest.Observation
	select {
	case o = <-result:
	case <-afterDone(ctx, overrun):
		o = manifest.Observation{Sign: manifest.SignTimeout, Detail: "the attempt did not end in time"}
	}
	end := now()
	o.Side = manifest.SideProbe
	o.Nonce = item.Nonce
	o.Time = start.UTC().Format(TimeFormat)
	o.Millis = end.Sub(start).Milliseconds()
	return o
}

// overrun is how long an attempt may take to notice that its time is up.
const overrun = 500 * time.Millisecond

// afterDone returns a channel that is closed the given time after ctx is done.
func afterDone(ctx context.Context, d time.Duration) <-chan struct{} {
	ch := make(chan struct{})
	context.AfterFunc(ctx, func() { time.AfterFunc(d, func() { close(ch) }) })
	return ch
}

func (r *Runner) call(ctx context.Context, facts *Facts, item *Item) (o manifest.Observation) {
	defer func() {
		if p := recover(); p != nil {
			o = manifest.Observation{Sign: manifest.SignError, Detail: fmt.Sprintf("panic: %v", p)}
		}
	}()
	attempt, ok := r.Attempts[item.Technique]
	if !ok {
		return manifest.Observation{Sign: manifest.SignMissing, Detail: "this probe has no such technique"}
	}
	return attempt(ctx, &Env{Facts: facts, Technique: item.Technique, Variant: item.Variant, Nonce: item.Nonce, Args: item.Args})
}

// errorOnce keeps the first error.
type errorOnce struct {
	mu  sync.Mutex
	err error
}

func (e *errorOnce) set(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.err == nil {
		e.err = err
	}
}
