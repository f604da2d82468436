package proxy

import (
	"strconv"
	"sync"
)

// recorder numbers events and hands them on one at a time.
type recorder struct {
	mu   sync.Mutex
	next uint64
	sink func(Event)
}

const eventTime = "2006-01-02T15:04:05.000Z"

// event begins the record of a decision.
func (o *origin) event(scheme string) Event {
	ev := Event{
		Type: EventDecision, Time: o.s.now().UTC().Format(eventTime), RunID: o.s.runID,
		Client: o.c.client, Listener: o.c.kind, Scheme: scheme,
	}
	if o.c.orig.IsValid() {
		ev.Original = o.c.orig.String()
	}
	if o.dst != nil {
		setTarget(&ev, *o.dst)
	}
	return ev
}

func setTarget(ev *Event, t target) {
	ev.Host, ev.Port = t.host.String(), int(t.port)
}

// quoteHost is what is recorded of a host that is none.
func quoteHost(raw string) string {
	if len(raw) > MaxRawHost {
		raw = raw[:MaxRawHost]
	}
	return strconv.QuoteToASCII(raw)
}

// send hands an event on.
func (s *Server) send(ev *Event) {
	s.rec.mu.Lock()
	defer s.rec.mu.Unlock()
	if ev.ID == 0 {
		s.rec.next++
		ev.ID = s.rec.next
	}
	if s.rec.sink != nil {
		s.rec.sink(*ev)
	}
}

func (s *Server) refused(ev *Event, reason string) {
	ev.Verdict, ev.Reason, ev.Route = Deny, reason, RouteRefused
	if s.agent {
		ev.Point = PointAgent
	}
	s.send(ev)
}

// allowed records what was carried out. Its route follows from the scheme
// unless it is set.
func (s *Server) allowed(ev *Event) {
	ev.Verdict = Allow
	if ev.Route == "" {
		ev.Route = RouteDirect
		if ev.Scheme == "https" {
			ev.Route = RouteIntercept
		}
	}
	s.send(ev)
}

// answered records a response, which may be a refusal of the proxy's own.
func (s *Server) answered(ev *Event, resp *response) {
	if resp.refused != "" {
		s.refused(ev, resp.refused)
		return
	}
	s.allowed(ev)
}

// failure records that a part of the proxy failed and was contained.
func (s *Server) failure(reason, what string) {
	s.send(&Event{
		Type: EventFailure, Time: s.now().UTC().Format(eventTime), RunID: s.runID,
		Reason: reason, Host: what,
	})
}

// closed records the end of a tunnel.
func (s *Server) closed(ev Event, up, down int64) {
	ev.Type, ev.Up, ev.Down = EventClosed, up, down
	s.send(&ev)
}
