package witness

import (
	"slices"
	"sync"

	"github.com/wallproof/wallproof/attest/manifest"
)

// Bounds of a Log. They lie above a witness's own.
const (
	maxKept     = 1 << 18
	maxFailures = 16
)

// Log is what a witness has reported: its events put together. It is safe for
// concurrent use.
type Log struct {
	mu       sync.Mutex
	observed []manifest.Observation // by Event.ID, from 1
	pushes   []Push
	leases   []Lease
	dropped  uint64
	failures []string
}

// NewLog returns an empty one.
func NewLog() *Log { return &Log{} }

// Take takes an event in. It can be given to New as it is.
func (l *Log) Take(e Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch e.Type {
	case EventObservation:
		l.observe(e)
	case EventPush:
		if e.Push != nil && len(l.pushes) < maxKept {
			l.pushes = append(l.pushes, *e.Push)
		}
	case EventLease:
		l.lease(e.Lease)
	case EventSynced, EventStopped:
		l.dropped = max(l.dropped, e.Dropped)
	case EventFailure:
		if len(l.failures) < maxFailures {
			l.failures = append(l.failures, e.Detail)
		}
	}
}

func (l *Log) observe(e Event) {
	switch i := e.ID; {
	case e.Observation == nil || i == 0 || i > uint64(len(l.observed))+1 || i > maxKept:
		l.dropped++
	case i <= uint64(len(l.observed)):
		l.observed[i-1] = *e.Observation
	default:
		l.observed = append(l.observed, *e.Observation)
	}
}

func (l *Log) lease(v *Lease) {
	if v == nil {
		return
	}
	if i := slices.IndexFunc(l.leases, func(have Lease) bool { return have.ID == v.ID }); i >= 0 {
		l.leases[i] = *v
	} else if len(l.leases) < maxKept {
		l.leases = append(l.leases, *v)
	}
}

// Observations returns what has been seen so far, in order of arrival. One with
// an empty nonce is a canary that arrived without any.
func (l *Log) Observations() []manifest.Observation {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.observed)
}

// Pushes returns the ref updates that the forge was asked for so far.
func (l *Log) Pushes() []Push {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.pushes)
}

// Leases returns the installation tokens that the forge issued so far, revoked
// ones marked.
func (l *Log) Leases() []Lease {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.leases)
}

// Dropped is how many arrivals exceeded the witness's bounds, as of the last
// Sync or Stop. With any, absence of an observation proves nothing.
func (l *Log) Dropped() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.dropped
}

// Failures are reports of parts of the witness that failed, the first few.
func (l *Log) Failures() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.failures)
}
