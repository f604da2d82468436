package open

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/probes"
	"github.com/wallproof/wallproof/probes/kit"
	"github.com/wallproof/wallproof/probes/nonce"
)

// A wall that is put up when the sandbox runs already is not there for whoever is
// quick. The first attempts are made by the sandbox's first process, before it does
// anything else, and are told later to the process that runs the plan, which reports
// them as its own.

const (
	// firstWay is what the variants of first attempts begin with.
	firstWay = "first-"
	// firstSocket is where the first process tells what came of its attempts.
	firstSocket = "@wallproof-first"
	// firstAgain is how long attempts are repeated while the sandbox's network is not
	// up, and firstPause is between two. firstTime bounds waiting for what comes of them.
	firstAgain = 2 * time.Second
	firstPause = 2 * time.Millisecond
	firstTime  = firstAgain + kit.Patience + 2*time.Second
	// firstWait bounds how long whoever asks waits for the first process to listen.
	firstWait = 4 * time.Second
	// maxFirst bounds how many there may be, and maxTold what is told of them.
	maxFirst = 16
	maxTold  = 1 << 16
)

// First are the attempts under way.
type First struct {
	done chan struct{}
	told map[string]manifest.Observation // by nonce, once done
}

// Begin makes the attempts of a plan (probes.First as JSON), side by side, and does
// not wait for them.
func Begin(ctx context.Context, plan string) (*First, error) {
	var p probes.First
	if err := json.Unmarshal([]byte(plan), &p); err != nil {
		return nil, fmt.Errorf("read the first attempts: %w", err)
	}
	if len(p.Items) > maxFirst {
		return nil, fmt.Errorf("read the first attempts: %d, at most %d", len(p.Items), maxFirst)
	}
	for _, item := range p.Items {
		if !nonce.Valid(item.Nonce) {
			return nil, fmt.Errorf("read the first attempts: not a nonce: %q", item.Nonce)
		}
	}
	f := &First{done: make(chan struct{}), told: map[string]manifest.Observation{}}
	facts := &probes.Facts{Outside: p.Outside}
	var making sync.WaitGroup
	var mu sync.Mutex
	for _, item := range p.Items {
		making.Go(func() {
			o := atOnce(ctx, &probes.Env{Facts: facts, Technique: item.Technique, Variant: item.Variant, Nonce: item.Nonce})
			mu.Lock()
			defer mu.Unlock()
			f.told[item.Nonce] = o
		})
	}
	go func() { making.Wait(); close(f.done) }()
	return f, nil
}

// atOnce connects, and again for as long as there is no network at all yet: that is
// neither a refusal nor a way out.
func atOnce(ctx context.Context, env *probes.Env) manifest.Observation {
	for end := time.Now().Add(firstAgain); ; time.Sleep(firstPause) {
		o := kit.Line(ctx, env, host(env), oddTCP, kit.Probe(env))
		if o.Errno != "ENETUNREACH" && o.Errno != "EADDRNOTAVAIL" || time.Now().After(end) || ctx.Err() != nil {
			return o
		}
	}
}

// Tell answers whoever asks what came of the attempts, until ctx ends.
func (f *First) Tell(ctx context.Context) error {
	l, err := net.Listen("unix", firstSocket)
	if err != nil {
		return fmt.Errorf("tell of the first attempts: %w", err)
	}
	defer l.Close()
	stop := context.AfterFunc(ctx, func() { l.Close() })
	defer stop()
	select {
	case <-f.done:
	case <-ctx.Done():
		return nil
	}
	for {
		c, err := l.Accept()
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("tell of the first attempts: %w", err)
		}
		_ = c.SetDeadline(time.Now().Add(firstTime))
		_ = json.NewEncoder(c).Encode(f.told) // who has gone is not told
		c.Close()
	}
}

// told is what the first process says came of an attempt.
func told(ctx context.Context, env *probes.Env) manifest.Observation {
	all, err := askFirst(ctx)
	if errors.Is(err, syscall.ECONNREFUSED) {
		return kit.Missing("the sandbox's first process made no attempts")
	}
	if err != nil {
		return manifest.Observation{Sign: manifest.SignError, Detail: err.Error()}
	}
	o, ok := all[env.Nonce]
	if !ok {
		return kit.Missing("the sandbox's first process did not make this attempt")
	}
	return o
}

func askFirst(ctx context.Context) (map[string]manifest.Observation, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, "unix", firstSocket)
	for end := time.Now().Add(firstWait); errors.Is(err, syscall.ECONNREFUSED) && time.Now().Before(end) && ctx.Err() == nil; {
		time.Sleep(firstPause)
		c, err = d.DialContext(ctx, "unix", firstSocket)
	}
	if err != nil {
		return nil, fmt.Errorf("ask the first process: %w", err)
	}
	defer c.Close()
	kit.Shorten(c, ctx, firstTime)
	raw, err := io.ReadAll(io.LimitReader(c, maxTold))
	if err != nil {
		return nil, fmt.Errorf("ask the first process: %w", err)
	}
	var all map[string]manifest.Observation
	if err := json.Unmarshal(raw, &all); err != nil {
		return nil, fmt.Errorf("ask the first process: %w", err)
	}
	return all, nil
}
