// Package record keeps what a proxy reports: an append-only file of its events,
// the blocked hosts and the egress routes that follow from them, counters for
// Prometheus, and a read-only interface for operators. It runs in the parent,
// outside the sandbox, which can read none of it.
//
// # File
//
// One JSON object a line: a proxy.Event. The file is made with mode 0600 and
// only ever appended to. A last line without its end, as a crash leaves it, is
// ignored by Read.
//
// # What is counted
//
// Names and numbers only. A host that could not be parsed counts under its
// quoted form; beyond MaxHosts different hosts the rest count as OtherHosts.
package record

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sort"
	"sync"
	"time"

	"github.com/wallproof/wallproof/policy/proxy"
)

// Bounds of the aggregates.
const (
	MaxHosts   = 10000
	OtherHosts = "(others)"
)

// The points at which a request can be refused.
const (
	PointProxy = "proxy"
	PointAgent = "egress-agent" // the far end of a local egress tunnel
	PointBoth  = "both"
)

// BlockedHost is a host that was refused.
type BlockedHost struct {
	User      string `json:"user,omitempty"` // who started the run
	Run       string `json:"run"`
	Host      string `json:"host"`
	Count     int64  `json:"count"`
	FirstSeen string `json:"firstSeen"`
	LastSeen  string `json:"lastSeen"`
	Point     string `json:"point"`  // which enforcement point refused
	Reason    string `json:"reason"` // of the last refusal
}

// Route is a host that was reached, or not, and how.
type Route struct {
	Run       string `json:"run"`
	Host      string `json:"host"`
	Route     string `json:"route"` // tunnel, intercept, direct, refused
	Count     int64  `json:"count"`
	Up        int64  `json:"up"`
	Down      int64  `json:"down"`
	FirstSeen string `json:"firstSeen"`
	LastSeen  string `json:"lastSeen"`
}

// Enforcement is whether the policy is in force.
type Enforcement struct {
	State  string `json:"state"` // "enforced", "nothing-to-enforce" or "failed"
	Reason string `json:"reason,omitempty"`
}

// Enforcement states.
const (
	Enforced = "enforced"
	Nothing  = "nothing-to-enforce"
	Failed   = "failed"
)

// Recorder takes a proxy's events. It is safe for concurrent use.
type Recorder struct {
	user string

	mu      sync.Mutex
	out     *bufio.Writer
	file    *os.File
	err     error
	blocked map[key]*BlockedHost
	routes  map[key]*Route
	hosts   map[string]bool
	counts  counters
	state   Enforcement
	linger  *Lingering
}

// Lingering is the state of a proxy that was kept after its run.
type Lingering struct {
	State string    `json:"state"` // Awake or Idle
	Until time.Time `json:"until"` // when it ends, and the credentials with it
}

// States of lingering.
const (
	Awake = "awake"
	Idle  = "idle" // nothing talks to it; a connection wakes it
)

type key struct{ run, host, kind string }

// New keeps aggregates only; user is who started the run.
func New(user string) *Recorder {
	return &Recorder{
		user: user, blocked: map[key]*BlockedHost{}, routes: map[key]*Route{}, hosts: map[string]bool{},
		counts: newCounters(), state: Enforcement{State: Failed, Reason: "not started"},
	}
}

// Open is New with a file that events are appended to.
func Open(path, user string) (*Recorder, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the record: %w", err)
	}
	r := New(user)
	r.file, r.out = f, bufio.NewWriter(f)
	return r, nil
}

// SetEnforcement says whether the policy is in force.
func (r *Recorder) SetEnforcement(e Enforcement) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.state = e
}

// SetLingering says that the run is over and the proxy stays.
func (r *Recorder) SetLingering(l Lingering) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.linger = &l
}

// Lingering is the state that was set last, nil before the end of the run.
func (r *Recorder) Lingering() *Lingering {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.linger
}

// Add takes one event. An event that could not be written is reported by Err
// and Close.
func (r *Recorder) Add(ev proxy.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.write(ev)
	r.aggregate(ev)
}

func (r *Recorder) write(ev proxy.Event) {
	if r.out == nil || r.err != nil {
		return
	}
	b, err := json.Marshal(ev)
	if err == nil {
		_, err = r.out.Write(append(b, '\n'))
	}
	if err == nil {
		err = r.out.Flush()
	}
	if err != nil {
		r.err = fmt.Errorf("write the record: %w", err)
	}
}

// Err is the first failure to write.
func (r *Recorder) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// Close closes the file.
func (r *Recorder) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.file == nil {
		return r.err
	}
	err := errors.Join(r.err, r.out.Flush(), r.file.Sync(), r.file.Close())
	r.file, r.out = nil, nil
	return err
}

func (r *Recorder) aggregate(ev proxy.Event) {
	r.counts.add(ev)
	if ev.Host == "" || ev.Type != proxy.EventDecision && ev.Type != proxy.EventClosed {
		return
	}
	host := ev.Host
	if !r.hosts[host] {
		if len(r.hosts) >= MaxHosts {
			host = OtherHosts
		} else {
			r.hosts[host] = true
		}
	}
	if ev.Verdict == proxy.Deny {
		r.block(ev, host)
	}
	r.route(ev, host)
}

func (r *Recorder) block(ev proxy.Event, host string) {
	k := key{ev.RunID, host, ""}
	b := r.blocked[k]
	if b == nil {
		b = &BlockedHost{User: r.user, Run: ev.RunID, Host: host, FirstSeen: ev.Time}
		r.blocked[k] = b
	}
	point := ev.Point
	if point == "" {
		point = PointProxy
	}
	if b.Point != "" && b.Point != point {
		point = PointBoth
	}
	b.Count++
	b.LastSeen, b.Reason, b.Point = ev.Time, ev.Reason, point
}

func (r *Recorder) route(ev proxy.Event, host string) {
	if ev.Scheme == "dns" && ev.Verdict == proxy.Allow {
		return // a look-up is no traffic
	}
	k := key{ev.RunID, host, ev.Route}
	t := r.routes[k]
	if t == nil {
		t = &Route{Run: ev.RunID, Host: host, Route: ev.Route, FirstSeen: ev.Time}
		r.routes[k] = t
	}
	if ev.Type == proxy.EventDecision {
		t.Count++
	}
	t.Up, t.Down, t.LastSeen = t.Up+ev.Up, t.Down+ev.Down, ev.Time
}

// Blocked returns the blocked hosts of a run, "" for all, most refused first.
func (r *Recorder) Blocked(run string) []BlockedHost {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := []BlockedHost{}
	for _, b := range r.blocked {
		if run == "" || b.Run == run {
			out = append(out, *b)
		}
	}
	sort.Slice(out, func(i, j int) bool {
		return out[i].Count > out[j].Count || out[i].Count == out[j].Count && out[i].Host < out[j].Host
	})
	return out
}

// Routes returns the egress routes of a run, "" for all, by host.
func (r *Recorder) Routes(run string) []Route {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := []Route{}
	for _, t := range r.routes {
		if run == "" || t.Run == run {
			out = append(out, *t)
		}
	}
	sort.Slice(out, func(i, j int) bool {
		return out[i].Host < out[j].Host || out[i].Host == out[j].Host && out[i].Route < out[j].Route
	})
	return out
}

// Enforcement is the state that was set last.
func (r *Recorder) Enforcement() Enforcement {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.state
}

// Read aggregates a file of events. user is for the blocked hosts.
func Read(src io.Reader, user string) (*Recorder, error) {
	r := New(user)
	br := bufio.NewReaderSize(src, 64<<10)
	for n := 1; ; n++ {
		line, err := br.ReadSlice('\n')
		if err == io.EOF {
			return r, nil // what is left is a line that was cut short
		}
		if err != nil {
			return nil, fmt.Errorf("read the record, line %d: %w", n, err)
		}
		var ev proxy.Event
		if err := json.Unmarshal(line, &ev); err != nil {
			return nil, fmt.Errorf("read the record, line %d: %w", n, err)
		}
		r.aggregate(ev)
	}
}
