package index

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"
)

func TestNames(t *testing.T) {
	n := NewNames[int](0)
	want := map[string]uint32{}
	for i := range 5000 {
		name := fmt.Sprintf("h%d.%s", i%2500, strings.Repeat("x.", i%7)+"example")
		id, err := n.Add(name)
		if err != nil {
			t.Fatal(err)
		}
		if old, ok := want[name]; ok && old != id {
			t.Fatalf("%s has the ids %d and %d", name, old, id)
		}
		want[name] = id
		*n.At(id) = int(id) * 3
	}
	n.Freeze()
	if n.Len() != len(want) {
		t.Fatalf("%d names, want %d", n.Len(), len(want))
	}
	for name, id := range want {
		if got, v := n.Find(name); v == nil || got != id || n.Name(id) != name || n.Pattern(id) != "*."+name || *v != int(id)*3 || n.At(id) != v {
			t.Fatalf("Find(%s) = %d, %v; want %d (%s)", name, got, v, id, n.Pattern(id))
		}
	}
	for _, absent := range []string{"", "example", "h1", "h99999.example", "xh1.example"} {
		if id, v := n.Find(absent); v != nil {
			t.Errorf("Find(%q) = %d", absent, id)
		}
	}
	last, count := uint32(0), 0
	for id, v := range n.All() {
		if id <= last || want[n.Name(id)] != id || *v != int(id)*3 {
			t.Fatalf("All gives %s with the id %d after %d", n.Name(id), id, last)
		}
		last = id
		count++
	}
	if count != len(want) {
		t.Errorf("All gives %d names, want %d", count, len(want))
	}
	for depth := range 12 {
		if got, want := n.HasDepth(depth), depth >= 2 && depth <= 8; got != want {
			t.Errorf("HasDepth(%d) = %t", depth, got)
		}
	}
	for _, bad := range []string{"", strings.Repeat("a", 254)} {
		if _, err := n.Add(bad); err == nil {
			t.Errorf("a name of %d bytes was added", len(bad))
		}
	}
}

func TestPrefixesAgreeWithScan(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	p := NewPrefixes()
	var all []netip.Prefix
	add := func(q netip.Prefix) {
		q = q.Masked()
		if id := p.Add(q); int(id) == len(all) {
			all = append(all, q)
		}
	}
	random := func(six bool) netip.Addr {
		var b [16]byte
		for i := range b {
			b[i] = byte(r.IntN(4)) // few values, so that ranges nest
		}
		if six {
			return netip.AddrFrom16(b)
		}
		return netip.AddrFrom4([4]byte(b[:4]))
	}
	for range 300 {
		add(netip.PrefixFrom(random(false), r.IntN(33)))
		add(netip.PrefixFrom(random(true), r.IntN(129)))
	}
	for range 4000 {
		a := random(r.IntN(2) == 0)
		for most := a.BitLen(); most >= 0; most -= 1 + r.IntN(20) {
			best := -1
			for i, q := range all {
				if q.Contains(a) && q.Bits() <= most && (best < 0 || q.Bits() > all[best].Bits()) {
					best = i
				}
			}
			id, length, ok := p.Find(a, most)
			if ok != (best >= 0) || ok && (int(id) != best || length != all[best].Bits()) {
				t.Fatalf("Find(%s, %d) = %d, %d, %t; want %d", a, most, id, length, ok, best)
			}
		}
		if _, _, ok := p.Find(a, -1); ok {
			t.Fatalf("Find(%s, -1) found something", a)
		}
	}
	if p.Len() != len(all) {
		t.Errorf("%d prefixes, want %d", p.Len(), len(all))
	}
}

func TestTexts(t *testing.T) {
	var x Texts
	words := []string{"a", "", "example.org/x", ""}
	for i, w := range words {
		if n, err := x.Add(w); err != nil || int(n) != i {
			t.Fatalf("Add = %d, %v", n, err)
		}
	}
	x.Freeze()
	for i, w := range words {
		if got := x.Get(uint32(i)); got != w {
			t.Errorf("Get(%d) = %q, want %q", i, got, w)
		}
	}
}
