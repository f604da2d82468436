package main

import (
	"context"
	"sync"
	"time"

	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/battery"
	"github.com/wallproof/wallproof/internal/command"
	"github.com/wallproof/wallproof/internal/files"
	"github.com/wallproof/wallproof/policy"
	"github.com/wallproof/wallproof/policy/proxy/watch"
)

// maxEdits bounds the edits that a run's manifest lists.
const maxEdits = 100

// edits watches the policy's file while a battery runs. The run stays under the
// policy that it began with; any other one in the file makes it a run that cannot
// be attested.
type edits struct {
	path   string
	digest string // of the run's policy

	mu   sync.Mutex
	last string // digest of what the file held last, "" for no policy
	list []manifest.Edit
	lost bool // the file could not be watched
}

// watchEdits watches until stop is called. Without a file, as where the policy came
// by standard input or is built in, there is nothing to edit.
func watchEdits(ctx context.Context, path string, opt *battery.Options) (stop func(), err error) {
	if path == "" || path == "-" {
		return func() {}, nil
	}
	e := &edits{path: path}
	if e.digest, err = opt.Policy.Digest(); err != nil {
		return nil, err
	}
	e.last = e.digest
	e.look() // an edit between its reading and now
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		first, _ := files.Read(path, policy.MaxBytes)
		if err := watch.File(ctx, path, first, func([]byte) { e.look() }); err != nil {
			e.mu.Lock()
			e.lost = true
			e.mu.Unlock()
		}
	}()
	opt.Edits = e.all
	return func() { cancel(); <-done }, nil
}

// look compares what the file holds now with what it held before.
func (e *edits) look() {
	e.mu.Lock()
	defer e.mu.Unlock()
	digest := ""
	if p, err := command.ReadPolicy(e.path); err == nil {
		if d, err := p.Digest(); err == nil {
			digest = d
		}
	}
	if digest == e.last || len(e.list) >= maxEdits {
		return
	}
	e.last = digest
	e.list = append(e.list, manifest.Edit{Time: manifest.FormatTime(time.Now()), PolicyDigest: digest})
}

// all is every edit of the run. A file that nobody could watch, and that is what it
// was, counts as one too: what it held meanwhile is not known.
func (e *edits) all() []manifest.Edit {
	e.look()
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.lost && len(e.list) == 0 {
		e.list = append(e.list, manifest.Edit{Time: manifest.FormatTime(time.Now())})
	}
	return e.list
}

// operateRun opens the socket by which `halt` and `resume` reach a run.
func operateRun(ctx context.Context) func(run string) (<-chan bool, func(), error) {
	return func(run string) (<-chan bool, func(), error) {
		o, err := newOperations(ctx, run, nil)
		if err != nil {
			return nil, nil, err
		}
		return o.halt, o.close, nil
	}
}
