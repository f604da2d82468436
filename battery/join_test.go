package battery

import (
	"net/netip"
	"testing"
	"time"

	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/battery/boundary"
	"github.com/wallproof/wallproof/battery/judge"
	"github.com/wallproof/wallproof/policy/proxy"
	"github.com/wallproof/wallproof/probes/nonce"
)

var (
	testKey = []byte("0123456789abcdef0123456789abcdef")
	testAt  = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	testBox = netip.MustParseAddr("192.0.2.2")
)

func testNonce(technique string) string {
	return nonce.New(testKey, "r", technique, "default", nonce.PhaseAttack)
}

// testJoiner knows three attempts: A used source port 4000, B 4001, and C has an
// address of its own.
func testJoiner() *joiner {
	a, b, c := testNonce("A"), testNonce("B"), testNonce("C")
	j := newJoiner([]attempt{
		{nonce: a, sandbox: "work", addrs: []netip.Addr{testBox}},
		{nonce: b, sandbox: "work", addrs: []netip.Addr{testBox}},
		{nonce: c, sandbox: "work", addrs: []netip.Addr{testBox}, own: []netip.Addr{netip.MustParseAddr("10.9.8.7")}},
	})
	j.learnPorts(manifest.Observation{Nonce: a, Time: testAt.Format(timeFormat), Millis: 10, Local: []string{"tcp/4000", "tcp/4009", "bogus", "icmp/1"}})
	j.learnPorts(manifest.Observation{Nonce: b, Time: testAt.Format(timeFormat), Millis: 10, Local: []string{"udp/4001", "tcp/4009"}})
	j.learnPorts(manifest.Observation{Nonce: b, Time: testAt.Add(time.Second).Format(timeFormat), Millis: 10, Local: []string{"tcp/4010"}})
	j.learnPorts(manifest.Observation{Nonce: a, Time: testAt.Format(timeFormat), Millis: 10, Local: []string{"tcp/4010"}})
	return j
}

func TestJoinFilter(t *testing.T) {
	a, b, c := testNonce("A"), testNonce("B"), testNonce("C")
	denial := func(proto, src, dst, payload string, after time.Duration) boundary.Denial {
		return boundary.Denial{Time: testAt.Add(after), Rule: "reject", Proto: proto, Src: netip.MustParseAddrPort(src), Dst: netip.MustParseAddrPort(dst), Payload: []byte(payload)}
	}
	tests := []struct {
		name   string
		denial boundary.Denial
		want   string
	}{
		{"by source port", denial("tcp", "192.0.2.2:4000", "1.2.3.4:22", "", 0), a},
		{"by source port, other protocol", denial("udp", "192.0.2.2:4000", "1.2.3.4:22", "", 0), ""},
		{"by source port, other sandbox", denial("tcp", "192.0.2.6:4000", "1.2.3.4:22", "", 0), ""},
		{"by source port, long after", denial("tcp", "192.0.2.2:4000", "1.2.3.4:22", "", time.Minute), ""},
		{"by source port that two used", denial("tcp", "192.0.2.2:4009", "1.2.3.4:22", "", 0), ""},
		{"by source port that came round again", denial("tcp", "192.0.2.2:4010", "1.2.3.4:22", "", time.Second), b},
		{"by source port before it came round", denial("tcp", "192.0.2.2:4010", "1.2.3.4:22", "", -200*time.Millisecond), a},
		{"by source port between two times", denial("tcp", "192.0.2.2:4010", "1.2.3.4:22", "", 500*time.Millisecond), ""},
		{"udp by source port", denial("udp", "192.0.2.2:4001", "1.2.3.4:53", "", 0), b},
		{"by nonce in the payload", denial("udp", "192.0.2.2:9", "1.2.3.4:53", "x"+" "+b+" ", 0), b},
		{"payload before port", denial("tcp", "192.0.2.2:4000", "1.2.3.4:22", b, 0), b},
		{"unknown nonce in the payload", denial("udp", "192.0.2.2:9", "1.2.3.4:53", testNonce("Z"), 0), ""},
		{"by own destination", denial("icmp", "192.0.2.2:0", "10.9.8.7:0", "", 0), c},
		{"by own destination, mapped", denial("tcp", "192.0.2.2:1", "[::ffff:10.9.8.7]:80", "", 0), c},
		{"nobody's", denial("tcp", "192.0.2.2:5", "1.2.3.4:22", "", 0), ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := testJoiner().fromFilter([]boundary.Denial{tt.denial, tt.denial})
			if tt.want == "" {
				if len(got) != 0 {
					t.Fatalf("tied to %s, want nobody", got[0].Nonce)
				}
				return
			}
			if len(got) != 1 || got[0].Nonce != tt.want || got[0].Count != 2 || got[0].Verdict != judge.VerdictDeny {
				t.Errorf("got %+v, want one observation of two packets for %s", got, tt.want)
			}
		})
	}
}

func TestJoinProxy(t *testing.T) {
	a, b := testNonce("A"), testNonce("B")
	event := func(id uint64, typ, verdict, host, client string, redacted int64) proxy.Event {
		return proxy.Event{Type: typ, ID: id, Time: testAt.Format(timeFormat), Verdict: verdict, Reason: "x", Host: host, Client: client, Redacted: redacted}
	}
	got := testJoiner().fromProxy([]proxy.Event{
		event(1, proxy.EventDecision, proxy.Deny, b+".evil.example", "192.0.2.2:1", 0),
		event(2, proxy.EventDecision, proxy.Allow, "api.example", "192.0.2.2:4000", 0),
		// The end of a request is told long after the attempt when the machine is busy.
		{Type: proxy.EventClosed, ID: 2, Time: testAt.Add(time.Minute).Format(timeFormat), Redacted: 3},
		event(3, proxy.EventDecision, proxy.Allow, "api.example", "192.0.2.2:9999", 0),
		event(4, proxy.EventLease, proxy.Deny, b, "", 0),
		{Type: proxy.EventDecision, ID: 5, Time: testAt.Format(timeFormat), Verdict: proxy.Deny, Reason: proxy.ReasonUpstreamClosed, Client: "192.0.2.2:4000"},
		event(9, proxy.EventClosed, "", "", "", 3), // of a decision that nobody saw
	})
	want := []struct {
		nonce, verdict string
		count          int64
	}{{b, judge.VerdictDeny, 1}, {a, "allow", 1}, {a, judge.VerdictRedact, 3}, {a, verdictFailed, 1}}
	if len(got) != len(want) {
		t.Fatalf("got %+v, want %d observations", got, len(want))
	}
	for i, w := range want {
		if got[i].Nonce != w.nonce || got[i].Verdict != w.verdict || got[i].Count != w.count {
			t.Errorf("%d: got %+v, want %+v", i, got[i], w)
		}
	}
}

// Two attempts whose own addresses collide: the address says nothing of either.
func TestJoinSharedAddress(t *testing.T) {
	shared := []netip.Addr{netip.MustParseAddr("10.1.1.1")}
	j := newJoiner([]attempt{{nonce: testNonce("A"), own: shared}, {nonce: testNonce("B"), own: shared}})
	d := boundary.Denial{Time: testAt, Proto: "tcp", Src: netip.MustParseAddrPort("192.0.2.2:1"), Dst: netip.MustParseAddrPort("10.1.1.1:80")}
	if got := j.fromFilter([]boundary.Denial{d}); len(got) != 0 {
		t.Errorf("a shared address was tied to %+v", got)
	}
}
