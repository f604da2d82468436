package policy

import (
	"fmt"
	"net/netip"
	"runtime"
	"testing"

	"github.com/wallproof/wallproof/internal/processor"
	"github.com/wallproof/wallproof/policy/host"
)

// largePolicy is an allowlist of n hosts, with the mix of a real one: mostly
// exact names, some wildcards, some ranges, a few blocks.
func largePolicy(n int) *Policy {
	p := &Policy{Mode: ModeAllowlist, OnFailure: FailClosed, Setup: PhasePolicy{Mode: ModePublic}, Verifier: PhasePolicy{Mode: ModePublic}}
	for i := range n {
		e := Entry{Match: MatchExact, Host: fmt.Sprintf("host-%d.zone-%d.example", i, i%997), Ports: httpsOnly, Pos: Pos{i + 1, 1}}
		switch i % 20 {
		case 3:
			e.Match = MatchSubdomains
		case 7:
			e.Match, e.Host = MatchCIDR, ""
			e.Prefix = netip.PrefixFrom(netip.AddrFrom4([4]byte{20 + byte(i>>16&63), byte(i >> 8), byte(i), 0}), 28).Masked()
		case 11:
			e.Match, e.Ports = MatchTree, nil
			p.Block = append(p.Block, e)
			continue
		}
		p.Allow = append(p.Allow, e)
	}
	return p
}

var sizes = []int{10, 1_000, 1_000_000}

func benchmarkHosts(n int) map[string]host.Host {
	names := map[string]string{
		"allowed": fmt.Sprintf("host-%d.zone-%d.example", n/20*20, n/20*20%997),
		"below":   "a.b.host-3.zone-3.example",
		"absent":  "registry.npmjs.org",
		"address": "20.0.7.1",
	}
	if n == 10 {
		names["allowed"] = "host-0.zone-0.example"
	}
	if n == 1_000_000 {
		names["allowed"] = fmt.Sprintf("host-%d.zone-%d.example", 999_980, 999_980%997)
	}
	out := map[string]host.Host{}
	for k, s := range names {
		h, err := host.Parse(s)
		if err != nil {
			panic(err)
		}
		out[k] = h
	}
	return out
}

// measure runs what is measured and reports the thread's processor time, too, which
// other work on the machine changes least.
func measure(b *testing.B, do func(i int)) {
	b.Helper()
	b.ReportAllocs()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	i, began := 0, processor.Time()
	for b.Loop() {
		do(i)
		i++
	}
	b.ReportMetric(float64(processor.Time()-began)/float64(i), "cpu-ns/op")
}

// BenchmarkName measures a decision on a host and port; "map" is what one look-up of the
// whole name in a plain map costs, which knows nothing of parents, ports or reasons.
func BenchmarkName(b *testing.B) {
	for _, n := range sizes {
		e, err := Compile(largePolicy(n))
		if err != nil {
			b.Fatal(err)
		}
		for what, h := range benchmarkHosts(n) {
			b.Run(fmt.Sprintf("entries=%d/%s", n, what), func(b *testing.B) { measure(b, func(int) { e.Name(h, 443) }) })
		}
		// Names spread over the whole table, so that caches do not help.
		hosts, names := make([]host.Host, 4096), map[string]bool{}
		for i := range hosts {
			k := i * n / 4096
			hosts[i], _ = host.Parse(fmt.Sprintf("host-%d.zone-%d.example", k, k%997))
		}
		for k := range n {
			names[fmt.Sprintf("host-%d.zone-%d.example", k, k%997)] = true
		}
		b.Run(fmt.Sprintf("entries=%d/spread", n), func(b *testing.B) { measure(b, func(i int) { e.Name(hosts[i&4095], 443) }) })
		b.Run(fmt.Sprintf("entries=%d/map", n), func(b *testing.B) { measure(b, func(i int) { found = names[hosts[i&4095].Name()] }) })
	}
}

var found bool

func BenchmarkCompile(b *testing.B) {
	for _, n := range sizes {
		p := largePolicy(n)
		b.Run(fmt.Sprintf("entries=%d", n), func(b *testing.B) {
			for b.Loop() {
				if _, err := Compile(p); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// An evaluator keeps under 150 bytes for each entry.
func TestMemoryPerEntry(t *testing.T) {
	const n, most = 200_000, 150
	e, err := Compile(largePolicy(n))
	if err != nil {
		t.Fatal(err)
	}
	with := heap() // the policy itself is garbage by now
	runtime.KeepAlive(e)
	e = nil
	per := (int64(with) - int64(heap())) / n
	if per > most || per < 20 {
		t.Errorf("%d bytes an entry, want at most %d", per, most)
	}
	t.Logf("%d bytes an entry", per)
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func TestDecisionsDoNotAllocate(t *testing.T) {
	e := mustCompile(t, `mode: allowlist
allow: [{host: github.com}, {host: "*.packages.example", methods: [GET]}, {url: "https://a.example/x/y"}, {cidr: 10.0.0.0/8}]
block: [{host: evil.example}, {url: "https://a.example/x/y/Z"}]
secrets: [{name: S, from: {env: S}, inject: [{host: github.com, as: bearer}, {host: github.com, paths: [/api], as: bearer}]}]
`)
	for _, c := range []struct{ host, path string }{
		{"github.com", "/a/b"}, {"a.b.packages.example", "/"}, {"a.example", "/x/y/z?q"}, {"a.example", "/x/y"}, {"10.1.2.3", "/"},
		{"absent.example", "/"}, {"evil.example", "/"}, {"2001:db8::1", "/"},
	} {
		r := Request{Scheme: "https", Host: mustHost(t, c.host), Port: 443, Method: "GET", Path: c.path}
		addr := netip.MustParseAddr("10.1.1.1")
		if n := testing.AllocsPerRun(200, func() {
			e.Name(r.Host, 443)
			e.Address(r.Host, 443, addr)
			e.Request(r)
			e.Injection(r)
		}); n != 0 {
			t.Errorf("%s%s: %v allocations", c.host, c.path, n)
		}
	}
}

func BenchmarkRequest(b *testing.B) {
	for _, n := range sizes {
		p := largePolicy(n)
		p.Allow = append(p.Allow, Entry{Match: MatchExact, Host: "paths.example", Ports: httpsOnly, Paths: []string{"/api/v1", "/api/v2"}, Methods: []string{"GET"}})
		e, err := Compile(p)
		if err != nil {
			b.Fatal(err)
		}
		h, _ := host.Parse("paths.example")
		r := Request{Scheme: "https", Host: h, Port: 443, Method: "GET", Path: "/api/v1/items/42?q=1"}
		b.Run(fmt.Sprintf("entries=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if !e.Request(r).Allowed() {
					b.Fatal("denied")
				}
			}
		})
	}
}

func BenchmarkAddress(b *testing.B) {
	e, err := Compile(largePolicy(1_000))
	if err != nil {
		b.Fatal(err)
	}
	h, _ := host.Parse("host-0.zone-0.example")
	for _, s := range []string{"93.184.216.34", "10.0.0.1", "2606:4700::1111", "64:ff9b::a00:1"} {
		a := netip.MustParseAddr(s)
		b.Run(s, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				e.Address(h, 443, a)
			}
		})
	}
}
