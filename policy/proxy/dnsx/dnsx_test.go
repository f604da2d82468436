package dnsx

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"
)

// server is a name server with answers of its own making.
func server(t *testing.T, answer func(m *dns.Msg) *dns.Msg) (addr string) {
	t.Helper()
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", pc.LocalAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	h := dns.HandlerFunc(func(w dns.ResponseWriter, m *dns.Msg) {
		if _, tcp := w.RemoteAddr().(*net.TCPAddr); !tcp && m.Question[0].Name == "cut.example." {
			r := new(dns.Msg)
			r.SetReply(m)
			r.Truncated = true
			_ = w.WriteMsg(r)
			return
		}
		_ = w.WriteMsg(answer(m))
	})
	for _, s := range []*dns.Server{{PacketConn: pc, Handler: h}, {Listener: l, Handler: h}} {
		started := make(chan struct{})
		s.NotifyStartedFunc = func() { close(started) }
		go s.ActivateAndServe()
		<-started
		t.Cleanup(func() { _ = s.Shutdown() })
	}
	return pc.LocalAddr().String()
}

func rr(t *testing.T, s string) dns.RR {
	t.Helper()
	r, err := dns.NewRR(s)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func dial(ctx context.Context, network, address string) (net.Conn, error) {
	return (&net.Dialer{}).DialContext(ctx, network, address)
}

func TestLookup(t *testing.T) {
	zone := map[string][]string{
		"a.example.":       {"a.example. 60 IN A 192.0.2.1", "a.example. 30 IN AAAA 2001:db8::1"},
		"chain.example.":   {"chain.example. 60 IN CNAME b.example.", "b.example. 5 IN CNAME c.example.", "c.example. 60 IN A 192.0.2.3"},
		"foreign.example.": {"other.example. 60 IN A 192.0.2.66"},
		"loop.example.":    {"loop.example. 60 IN CNAME loop2.example.", "loop2.example. 60 IN CNAME loop.example."},
		"cut.example.":     {"cut.example. 60 IN A 192.0.2.4"},
		"mapped.example.":  {"mapped.example. 60 IN AAAA ::ffff:10.0.0.1"},
		"empty.example.":   {},
	}
	addr := server(t, func(m *dns.Msg) *dns.Msg {
		r := new(dns.Msg)
		r.SetReply(m)
		lines, ok := zone[m.Question[0].Name]
		if !ok {
			r.Rcode = dns.RcodeNameError
		}
		for _, l := range lines {
			x := rr(t, l)
			if ty := x.Header().Rrtype; ty == m.Question[0].Qtype || ty == dns.TypeCNAME {
				r.Answer = append(r.Answer, x)
			}
		}
		return r
	})
	res := NewResolver([]string{addr}, dial, time.Now)
	for name, want := range map[string]string{
		"a.example": "192.0.2.1 2001:db8::1", "chain.example": "192.0.2.3", "cut.example": "192.0.2.4", "mapped.example": "10.0.0.1",
	} {
		ans, err := res.Lookup(t.Context(), name)
		var got []string
		for _, a := range ans.Addrs {
			got = append(got, a.String())
		}
		if err != nil || strings.Join(got, " ") != want {
			t.Errorf("%s: %v %v", name, got, err)
		}
	}
	if ans, _ := res.Lookup(t.Context(), "chain.example"); ans.TTL > 5*time.Second {
		t.Errorf("the TTL of a chain is its least: %v", ans.TTL)
	}
	for name, want := range map[string]error{"none.example": ErrNoName, "empty.example": ErrNoAddress, "foreign.example": ErrNoAddress, "loop.example": ErrNoAddress} {
		if _, err := res.Lookup(t.Context(), name); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", name, err, want)
		}
	}
	if !res.Recent("a.example", netip.MustParseAddr("192.0.2.1")) || res.Recent("a.example", netip.MustParseAddr("192.0.2.9")) || res.Recent("b.example", netip.MustParseAddr("192.0.2.3")) {
		t.Error("what is remembered is not what was answered")
	}
}

func TestCacheAndMemory(t *testing.T) {
	var asked atomic.Int64
	var mu sync.Mutex
	address, now := "192.0.2.1", time.Unix(1000, 0)
	addr := server(t, func(m *dns.Msg) *dns.Msg {
		mu.Lock()
		defer mu.Unlock()
		r := new(dns.Msg)
		r.SetReply(m)
		if m.Question[0].Qtype == dns.TypeA {
			asked.Add(1)
			r.Answer = append(r.Answer, rr(t, "a.example. 60 IN A "+address))
		}
		return r
	})
	clock := func() time.Time { mu.Lock(); defer mu.Unlock(); return now }
	res := NewResolver([]string{addr}, dial, clock)
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if _, err := res.Lookup(t.Context(), "a.example"); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if asked.Load() != 1 {
		t.Errorf("%d queries for one name", asked.Load())
	}
	first := netip.MustParseAddr(address)
	mu.Lock()
	address, now = "192.0.2.2", now.Add(2*time.Minute)
	mu.Unlock()
	ans, err := res.Lookup(t.Context(), "a.example")
	if err != nil || ans.Addrs[0].String() != "192.0.2.2" || !res.Recent("a.example", first) {
		t.Errorf("%v %v, the old address is remembered: %v", ans, err, res.Recent("a.example", first))
	}
	mu.Lock()
	now = now.Add(memory)
	mu.Unlock()
	if res.Recent("a.example", first) {
		t.Error("an address is remembered for ever")
	}
}

func TestFailureIsNotRemembered(t *testing.T) {
	var fail atomic.Bool
	fail.Store(true)
	addr := server(t, func(m *dns.Msg) *dns.Msg {
		r := new(dns.Msg)
		r.SetReply(m)
		if fail.Load() {
			r.Rcode = dns.RcodeServerFailure
			return r
		}
		if m.Question[0].Qtype == dns.TypeA {
			r.Answer = append(r.Answer, rr(t, "a.example. 60 IN A 192.0.2.1"))
		}
		return r
	})
	res := NewResolver([]string{addr}, dial, time.Now)
	if _, err := res.Lookup(t.Context(), "a.example"); err == nil {
		t.Fatal("no error")
	}
	fail.Store(false)
	if _, err := res.Lookup(t.Context(), "a.example"); err != nil {
		t.Error(err)
	}
}

func TestForgedRepliesAreIgnored(t *testing.T) {
	addr := server(t, func(m *dns.Msg) *dns.Msg {
		r := new(dns.Msg)
		r.SetReply(m)
		r.Question[0].Name = "evil.example."
		return r
	})
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := NewResolver([]string{addr}, dial, time.Now).Lookup(ctx, "a.example"); err == nil {
		t.Error("a reply to another question was taken")
	}
}

// FuzzQuery: an answer is a response to the same question and never larger than
// what the client takes; what a sandbox wrote beside its question is not
// copied.
func FuzzQuery(f *testing.F) {
	for _, name := range []string{"a.example.", "A.EXAMPLE.", "."} {
		m := new(dns.Msg)
		m.SetQuestion(name, dns.TypeA)
		m.SetEdns0(4096, true)
		b, _ := m.Pack()
		f.Add(b)
	}
	m := new(dns.Msg)
	m.SetQuestion("a.example.", dns.TypeHTTPS)
	m.Answer = append(m.Answer, &dns.TXT{Hdr: dns.RR_Header{Name: "a.example.", Rrtype: dns.TypeTXT, Class: dns.ClassINET}, Txt: []string{"data"}})
	b, _ := m.Pack()
	f.Add(b)
	var many []netip.Addr
	for i := range 64 {
		many = append(many, netip.AddrFrom4([4]byte{192, 0, 2, byte(i)}), netip.AddrFrom16([16]byte{0x20, 1, 13: byte(i)}))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		q, reply := Parse(in)
		if q == nil {
			check(t, in, reply)
			return
		}
		for _, r := range [][]byte{q.Refuse(), q.Fail(), q.NoName(), q.Answer(many, time.Minute, true), q.Answer(nil, 0, true)} {
			if len(r) == 0 || len(r) > udpSize {
				t.Fatalf("an answer of %d bytes", len(r))
			}
			check(t, in, r)
		}
	})
}

func check(t *testing.T, in, reply []byte) {
	t.Helper()
	if reply == nil {
		return
	}
	m := new(dns.Msg)
	if err := m.Unpack(reply); err != nil || !m.Response || m.Id != uint16(in[0])<<8|uint16(in[1]) {
		t.Fatalf("%v %v", m, err)
	}
	if len(m.Ns)+len(m.Extra) != 0 {
		t.Fatalf("copied: %v", m)
	}
}
