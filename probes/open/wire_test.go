package open

import (
	"bytes"
	"encoding/binary"
	"net"
	"net/netip"
	"testing"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// One TLS record becomes several, which together hold the same bytes.
func TestRecords(t *testing.T) {
	body := bytes.Repeat([]byte{0xab}, 100)
	in := append([]byte{22, 3, 1, 0, 100}, body...)
	out := records(in)
	var joined []byte
	count := 0
	for len(out) > 0 {
		n := int(binary.BigEndian.Uint16(out[3:]))
		if !bytes.Equal(out[:3], in[:3]) || n == 0 || n > 16 {
			t.Fatalf("record % x", out[:5])
		}
		joined = append(joined, out[5:5+n]...)
		out = out[5+n:]
		count++
	}
	if !bytes.Equal(joined, body) || count != 7 {
		t.Errorf("%d records of %d bytes", count, len(joined))
	}
}

func TestSplitter(t *testing.T) {
	a, b := net.Pipe()
	defer a.Close()
	var sizes []int
	done := make(chan []byte)
	go func() {
		var all []byte
		buf := make([]byte, 64)
		for {
			n, err := b.Read(buf)
			if err != nil {
				done <- all
				return
			}
			sizes = append(sizes, n)
			all = append(all, buf[:n]...)
		}
	}()
	s := &splitter{Conn: a, left: 9}
	for _, part := range []string{"0123456789", "the rest in one piece"} {
		if n, err := s.Write([]byte(part)); err != nil || n != len(part) {
			t.Fatal(n, err)
		}
	}
	a.Close()
	if all := <-done; string(all) != "0123456789the rest in one piece" || sizes[0] != 3 || sizes[2] != 3 || sizes[len(sizes)-1] != 21 {
		t.Errorf("%q in pieces of %v", all, sizes)
	}
}

// A library that speaks rtnetlink reads the message as it was meant.
func TestRouteMessage(t *testing.T) {
	for _, tt := range []struct{ to, via string }{{"99.64.1.2", "192.0.2.1"}, {"2a0d:5600::5", "2001:db8::1"}} {
		to, via := netip.MustParseAddr(tt.to), netip.MustParseAddr(tt.via)
		raw := routeMessage(to, via)
		if int(binary.NativeEndian.Uint32(raw)) != len(raw) || binary.NativeEndian.Uint16(raw[4:]) != unix.RTM_NEWROUTE {
			t.Errorf("head % x", raw[:16])
		}
		m := nl.DeserializeRtMsg(raw[unix.NLMSG_HDRLEN:])
		if int(m.Dst_len) != to.BitLen() || m.Table != unix.RT_TABLE_MAIN || m.Type != unix.RTN_UNICAST {
			t.Errorf("%+v", m)
		}
		attrs, err := nl.ParseRouteAttr(raw[unix.NLMSG_HDRLEN+m.Len():])
		if err != nil || len(attrs) != 2 {
			t.Fatalf("%d attributes, %v", len(attrs), err)
		}
		for i, want := range []struct {
			kind uint16
			addr netip.Addr
		}{{unix.RTA_DST, to}, {unix.RTA_GATEWAY, via}} {
			got, _ := netip.AddrFromSlice(attrs[i].Value)
			if attrs[i].Attr.Type != want.kind || got != want.addr {
				t.Errorf("attribute %d: %d %s", i, attrs[i].Attr.Type, got)
			}
		}
	}
}

func TestRawAddr(t *testing.T) {
	if got := rawAddr(netip.MustParseAddr("192.0.2.1"), 80); len(got) != 16 || !bytes.Equal(got[2:8], []byte{0, 80, 192, 0, 2, 1}) {
		t.Errorf("% x", got)
	}
	if got := rawAddr(netip.MustParseAddr("2001:db8::1"), 80); len(got) != 28 || got[8] != 0x20 || got[23] != 1 {
		t.Errorf("% x", got)
	}
}
