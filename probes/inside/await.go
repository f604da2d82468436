package inside

import (
	"context"
	"fmt"
	"io"
	"net"
	"time"
)

// awaitPause is the wait between two attempts at a service.
const awaitPause = 100 * time.Millisecond

// Await waits until every target answers, as one JSON document on in says them:
// {"targets":["host:port"],"timeoutMs":N}.
func Await(ctx context.Context, in io.Reader) error {
	var p struct {
		Targets   []string `json:"targets"`
		TimeoutMs int64    `json:"timeoutMs"`
	}
	if err := readPlan(in, &p); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Duration(p.TimeoutMs)*time.Millisecond)
	defer cancel()
	for _, t := range p.Targets {
		if err := awaitOne(ctx, t); err != nil {
			return fmt.Errorf("%s does not answer: %w", t, err)
		}
	}
	return nil
}

func awaitOne(ctx context.Context, target string) error {
	var last error
	for {
		c, err := new(net.Dialer).DialContext(ctx, "tcp", target)
		if err == nil {
			return c.Close()
		}
		if ctx.Err() == nil || last == nil {
			last = err
		}
		select {
		case <-ctx.Done():
			return last
		case <-time.After(awaitPause):
		}
	}
}
