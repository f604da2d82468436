package proxy

import (
	"context"
	"io"

	"golang.org/x/sync/semaphore"
)

// Bounds of what one run's requests may have the proxy keep in memory at once,
// beside their buffers: requests for the model, pushes, modules that are hashed
// as a whole. Whoever wants more waits, or is refused where waiting is no way.
const (
	heavyBytes = 512 << 20
	// lightRequest is what one request takes of it as long as it is no larger.
	lightRequest = 1 << 20
)

// budget is a share of memory.
type budget struct{ *semaphore.Weighted }

func newBudget() budget { return budget{semaphore.NewWeighted(heavyBytes)} }

// read reads a body of up to limit bytes within the budget. The caller calls
// release when it needs the bytes no longer.
func (b budget) read(ctx context.Context, src io.Reader, limit int64) (data []byte, release func(), err error) {
	held := int64(min(lightRequest, limit))
	if err := b.Acquire(ctx, held); err != nil {
		return nil, func() {}, err
	}
	release = func() { b.Release(held) }
	if data, err = io.ReadAll(io.LimitReader(src, held)); err != nil || int64(len(data)) < held {
		return data, release, err
	}
	// All of what it may need at once, and none before: two that each held a part
	// would wait for one another.
	b.Release(held)
	held = limit
	if err := b.Acquire(ctx, held); err != nil {
		return nil, func() {}, err
	}
	rest, err := io.ReadAll(io.LimitReader(src, limit+1-int64(len(data))))
	return append(data, rest...), release, err
}
