package record

import (
	"fmt"
	"io"
	"sort"
	"strings"

	"github.com/wallproof/wallproof/policy/proxy"
)

// counters are what Prometheus reads. Labels are closed lists, so that a
// sandbox cannot make more series than there are codes.
type counters struct {
	decisions map[[3]string]int64 // verdict, route, reason
	up, down  int64
	redacted  int64
	injected  int64
	leases    map[string]int64
	failures  map[string]int64
	reloads   map[string]int64
}

func newCounters() counters {
	return counters{decisions: map[[3]string]int64{}, leases: map[string]int64{}, failures: map[string]int64{}, reloads: map[string]int64{}}
}

func (c *counters) add(ev proxy.Event) {
	c.up, c.down, c.redacted = c.up+ev.Up, c.down+ev.Down, c.redacted+ev.Redacted
	switch ev.Type {
	case proxy.EventDecision:
		c.decisions[[3]string{ev.Verdict, ev.Route, ev.Reason}]++
		c.injected += int64(len(ev.Injected))
	case proxy.EventLease:
		c.leases[ev.Reason]++
	case proxy.EventFailure:
		c.failures[ev.Reason]++
	case proxy.EventReload:
		reason := ev.Reason
		if reason == "" {
			reason = "applied"
		}
		c.reloads[reason]++
	}
}

// WriteMetrics writes all counters in Prometheus' text format (version 0.0.4).
func (r *Recorder) WriteMetrics(w io.Writer) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var b strings.Builder
	head := func(name, kind, help string) { fmt.Fprintf(&b, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind) }
	head("wallproof_proxy_decisions_total", "counter", "Requests, connections and queries by what was decided.")
	keys := make([][3]string, 0, len(r.counts.decisions))
	for k := range r.counts.decisions {
		keys = append(keys, k)
	}
	sort.Slice(keys, func(i, j int) bool { return strings.Join(keys[i][:], "\x00") < strings.Join(keys[j][:], "\x00") })
	for _, k := range keys {
		fmt.Fprintf(&b, "wallproof_proxy_decisions_total{verdict=%q,route=%q,reason=%q} %d\n", k[0], k[1], k[2], r.counts.decisions[k])
	}
	for _, m := range []struct {
		name, help string
		value      int64
	}{
		{"wallproof_proxy_sent_bytes_total", "Bytes from sandboxes.", r.counts.up},
		{"wallproof_proxy_received_bytes_total", "Bytes to sandboxes.", r.counts.down},
		{"wallproof_proxy_redacted_total", "Occurrences of secrets that were masked.", r.counts.redacted},
		{"wallproof_proxy_injected_total", "Secrets that were injected.", r.counts.injected},
		{"wallproof_proxy_blocked_hosts", "Different hosts that were refused.", int64(len(r.blocked))},
	} {
		kind := "counter"
		if strings.HasSuffix(m.name, "_hosts") {
			kind = "gauge"
		}
		head(m.name, kind, m.help)
		fmt.Fprintf(&b, "%s %d\n", m.name, m.value)
	}
	byReason(&b, head, "wallproof_proxy_leases_total", "Leases by what happened to them.", r.counts.leases)
	byReason(&b, head, "wallproof_proxy_failures_total", "Contained failures of the proxy itself.", r.counts.failures)
	byReason(&b, head, "wallproof_proxy_reloads_total", "Edits of the policy by what became of them.", r.counts.reloads)
	head("wallproof_proxy_enforcement", "gauge", "1 for the state that enforcement is in.")
	for _, s := range []string{Enforced, Nothing, Failed} {
		v := 0
		if r.state.State == s {
			v = 1
		}
		fmt.Fprintf(&b, "wallproof_proxy_enforcement{state=%q} %d\n", s, v)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func byReason(b *strings.Builder, head func(name, kind, help string), name, help string, counts map[string]int64) {
	head(name, "counter", help)
	reasons := make([]string, 0, len(counts))
	for reason := range counts {
		reasons = append(reasons, reason)
	}
	sort.Strings(reasons)
	for _, reason := range reasons {
		fmt.Fprintf(b, "%s{reason=%q} %d\n", name, reason, counts[reason])
	}
}
