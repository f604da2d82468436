package record

import (
	"fmt"
	"strings"
	"testing"

	"github.com/wallproof/wallproof/policy/proxy"
)

func TestAggregates(t *testing.T) {
	r := New("me")
	for _, ev := range []proxy.Event{
		{Type: proxy.EventDecision, RunID: "r1", Time: "t1", Host: "a.example", Verdict: proxy.Allow, Route: proxy.RouteTunnel, Scheme: "tls"},
		{Type: proxy.EventClosed, RunID: "r1", Time: "t2", Host: "a.example", Verdict: proxy.Allow, Route: proxy.RouteTunnel, Up: 10, Down: 20},
		{Type: proxy.EventDecision, RunID: "r1", Time: "t3", Host: "b.example", Verdict: proxy.Deny, Route: proxy.RouteRefused, Reason: "default-deny"},
		{Type: proxy.EventDecision, RunID: "r1", Time: "t4", Host: "b.example", Verdict: proxy.Deny, Route: proxy.RouteRefused, Reason: "block-entry", Point: PointAgent},
		{Type: proxy.EventDecision, RunID: "r2", Time: "t5", Host: "b.example", Verdict: proxy.Deny, Route: proxy.RouteRefused, Reason: "port"},
		{Type: proxy.EventDecision, RunID: "r1", Time: "t6", Host: "a.example", Verdict: proxy.Allow, Route: proxy.RouteDirect, Scheme: "dns"},
		{Type: proxy.EventFailure, RunID: "r1", Reason: "internal", Host: "connection"},
	} {
		r.Add(ev)
	}
	b := r.Blocked("r1")
	if len(b) != 1 || b[0].Count != 2 || b[0].FirstSeen != "t3" || b[0].LastSeen != "t4" || b[0].Point != PointBoth || b[0].Reason != "block-entry" || b[0].User != "me" {
		t.Errorf("%+v", b)
	}
	if n := len(r.Blocked("")); n != 2 {
		t.Errorf("%d blocked hosts over all runs", n)
	}
	routes := r.Routes("r1")
	if len(routes) != 2 || routes[0].Route != proxy.RouteTunnel || routes[0].Count != 1 || routes[0].Up != 10 || routes[0].Down != 20 || routes[1].Route != proxy.RouteRefused {
		t.Errorf("%+v", routes)
	}
	var m strings.Builder
	r.SetEnforcement(Enforcement{State: Nothing})
	if err := r.WriteMetrics(&m); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		`wallproof_proxy_received_bytes_total 20`, `wallproof_proxy_blocked_hosts 2`, `wallproof_proxy_failures_total{reason="internal"} 1`,
		`wallproof_proxy_enforcement{state="enforced"} 0`, `wallproof_proxy_enforcement{state="nothing-to-enforce"} 1`,
	} {
		if !strings.Contains(m.String(), line+"\n") {
			t.Errorf("%s is not in\n%s", line, m.String())
		}
	}
}

// A sandbox that invents hosts does not fill the memory of what watches it.
func TestHostsAreBounded(t *testing.T) {
	r := New("")
	for i := range MaxHosts + 50 {
		r.Add(proxy.Event{Type: proxy.EventDecision, RunID: "r", Host: fmt.Sprintf("h%d.example", i), Verdict: proxy.Deny, Route: proxy.RouteRefused})
	}
	b := r.Blocked("")
	if len(b) != MaxHosts+1 || b[0].Host != OtherHosts || b[0].Count != 50 {
		t.Errorf("%d hosts, first %+v", len(b), b[0])
	}
}

// "Nothing was enforced" and "set-up failed" are two states, and neither is the
// state before anything happened to be right.
func TestEnforcementStates(t *testing.T) {
	r := New("")
	if s := r.Enforcement(); s.State != Failed || s.Reason == "" {
		t.Errorf("before the start: %+v", s)
	}
	r.SetEnforcement(Enforcement{State: Nothing, Reason: "open policy"})
	if s := r.Enforcement(); s.State != Nothing {
		t.Errorf("%+v", s)
	}
}
