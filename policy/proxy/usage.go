package proxy

import (
	"errors"
	"sync/atomic"
)

// errLimit ends a connection when a limit of the policy is used up.
var errLimit = errors.New("a limit of the policy is used up")

// usage counts what a run has used, over all its connections.
type usage struct{ requests, up, down atomic.Int64 }

// useRequest counts a request, and refuses it when the policy's number is used up.
func (s *Server) useRequest(r *rules) *refusal {
	if limit := r.policy.Limits.Requests; s.usage.requests.Add(1) > limit && limit > 0 {
		return deny(429, ReasonLimit)
	}
	return nil
}

// useBytes counts bytes of a connection in one direction.
func (c *conn) useBytes(total *atomic.Int64, n int, limit int64) error {
	if !overLimit(total, n, limit) {
		return nil
	}
	c.recordLimit()
	return errLimit
}

// overLimit counts bytes, and says whether the policy's number is used up.
func overLimit(total *atomic.Int64, n int, limit int64) bool {
	return total.Add(int64(n)) > limit && limit > 0
}

// recordLimit records, once for a connection, that a limit was met.
func (c *conn) recordLimit() {
	if c.limited.CompareAndSwap(false, true) {
		o := &origin{s: c.srv, c: c, dst: c.dst.Load()}
		ev := o.event("tcp")
		c.srv.refused(&ev, ReasonLimit)
	}
}

// maxConnections is the configured number or the policy's, whichever is less.
func (s *Server) maxConnections() int {
	n := s.limits.Connections
	if p := s.rules.Load().policy.Limits.Connections; p > 0 && p < int64(n) {
		n = int(p)
	}
	return n
}
