package boundary

import (
	"bytes"
	"encoding/hex"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/florianl/go-nflog/v2"
)

func packetBytes(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

const (
	ip6Head = "60000000 0010 11 40 20010db8000000000000000000000002 fd000ec2000000000000000000000254"
	udpHead = "a001 01bb 0010 0000"
	text    = "6e6f6e6365212121" // nonce!!!
)

var packets = []struct {
	name, hex    string
	proto        string
	src, dst     string
	length       int
	payload, err string
}{
	{"udp 4", "45000024 00000000 40110000 c0000202 08080808 " + udpHead + text, "udp", "192.0.2.2:40961", "8.8.8.8:443", 36, "nonce!!!", ""},
	{"udp 4 with options", "46000028 00000000 40110000 c0000202 08080808 01010101" + udpHead + text, "udp", "192.0.2.2:40961", "8.8.8.8:443", 40, "nonce!!!", ""},
	{"second fragment", "45000024 00000001 40110000 c0000202 08080808 " + udpHead + text, "udp", "192.0.2.2:0", "8.8.8.8:0", 36, "\xa0\x01\x01\xbb\x00\x10\x00\x00nonce!!!", ""},
	{"udp 6", ip6Head + udpHead + text, "udp", "[2001:db8::2]:40961", "[fd00:ec2::254]:443", 56, "nonce!!!", ""},
	{"icmp 4", "45000024 00000000 40010000 c0000202 08080808 0800000000010001" + text, "icmp", "192.0.2.2:0", "8.8.8.8:0", 36, "nonce!!!", ""},
	{"hop-by-hop, then icmpv6", strings.Replace(ip6Head, " 11 ", " 00 ", 1) + "3a00050200000000 8000000000010001" + text, "icmpv6", "[2001:db8::2]:0", "[fd00:ec2::254]:0", 56, "nonce!!!", ""},
	{"fragment header of a first fragment", strings.Replace(ip6Head, " 11 ", " 2c ", 1) + "1100000100000001" + udpHead + text, "udp", "[2001:db8::2]:40961", "[fd00:ec2::254]:443", 56, "nonce!!!", ""},
	{"fragment header of a later fragment", strings.Replace(ip6Head, " 11 ", " 2c ", 1) + "1100000900000001" + text, "udp", "[2001:db8::2]:0", "[fd00:ec2::254]:0", 56, "nonce!!!", ""},
	{"gre", "45000024 00000000 402f0000 c0000202 08080808 " + text, "47", "192.0.2.2:0", "8.8.8.8:0", 36, "nonce!!!", ""},
	{"tcp offset beyond the end", "45000028 00000000 40060000 c0000202 08080808 a001005000000000000000 00f0020000 00000000", "tcp", "192.0.2.2:0", "8.8.8.8:0", 40, "\xa0\x01\x00P\x00\x00\x00\x00\x00\x00\x00\x00\xf0\x02\x00\x00\x00\x00\x00\x00", ""},
	{"extension beyond the end", strings.Replace(ip6Head, " 11 ", " 00 ", 1) + "3aff", "0", "[2001:db8::2]:0", "[fd00:ec2::254]:0", 56, "\x3a\xff", ""},
	{"empty", "", "", "", "", 0, "", "not IP"},
	{"arp", "0001080006040001", "", "", "", 0, "", "not IP"},
	{"cut short 4", "450000", "", "", "", 0, "", "not IP"},
	{"header length 4", "43000024 00000000 40110000 c0000202 08080808", "", "", "", 0, "", "not IP"},
	{"cut short 6", "60000000 0010", "", "", "", 0, "", "not IP"},
}

func TestParsePacket(t *testing.T) {
	for _, tt := range packets {
		p, err := parsePacket(packetBytes(t, tt.hex))
		if (err != nil) != (tt.err != "") {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		if err != nil {
			continue
		}
		if protoName(p.proto) != tt.proto || p.src.String() != tt.src || p.dst.String() != tt.dst || p.length != tt.length || string(p.payload) != tt.payload {
			t.Errorf("%s: %s %s %s %d %q", tt.name, protoName(p.proto), p.src, p.dst, p.length, p.payload)
		}
	}
}

func FuzzParsePacket(f *testing.F) {
	for _, tt := range packets {
		f.Add(packetBytes(f, tt.hex))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := parsePacket(b)
		if err != nil {
			if p.src.IsValid() || p.dst.IsValid() || p.payload != nil {
				t.Fatalf("refused, but with a value: %+v", p)
			}
			return
		}
		if !bytes.HasSuffix(b, p.payload) || len(p.payload) >= len(b) {
			t.Fatal("the payload is not the packet's end")
		}
		if p.src.Addr().BitLen() != p.dst.Addr().BitLen() || (p.src.Addr().Is4() != (b[0]>>4 == 4)) {
			t.Fatalf("families are mixed: %+v", p)
		}
		// What is cut off behind what was read changes nothing but the payload.
		if cut, err := parsePacket(b[:len(b)-len(p.payload)]); err == nil && (cut.src.Addr() != p.src.Addr() || cut.dst.Addr() != p.dst.Addr()) {
			t.Fatalf("addresses depend on the payload: %+v, %+v", p, cut)
		}
	})
}

// record is one as the kernel gives it.
func record(seq uint32, prefix string, packet []byte) nflog.Attribute {
	return nflog.Attribute{Seq: &seq, Prefix: &prefix, Payload: &packet}
}

func TestReaderCountsWhatItCannotDeliver(t *testing.T) {
	r := &reader{out: make(chan Denial, 2)}
	good := packetBytes(t, packets[0].hex)
	for _, a := range []nflog.Attribute{
		record(10, "deny a\x00", good),
		record(11, "deny a", []byte{1}),
		record(14, "deny a", good), // 12 and 13 are missing
		record(15, "deny a", good), // the channel is full
		record(16, "nospace", good),
		{},
	} {
		if r.take(a) != 0 {
			t.Fatal("the reader stops")
		}
	}
	if want := (DenialStats{Delivered: 2, Overflow: 1, Lost: 2, Malformed: 3}); r.stats != want {
		t.Errorf("%+v, want %+v", r.stats, want)
	}
	d := <-r.out
	if d.Rule != "deny" || d.Box != "a" || d.Dst != netip.MustParseAddrPort("8.8.8.8:443") || time.Since(d.Time) > time.Minute {
		t.Errorf("%+v", d)
	}
}

func TestReaderSequenceWraps(t *testing.T) {
	r := &reader{out: make(chan Denial, 8)}
	good := packetBytes(t, packets[0].hex)
	for _, seq := range []uint32{1<<32 - 1, 0, 2} {
		r.take(record(seq, "deny a", good))
	}
	if r.stats.Lost != 1 {
		t.Errorf("%d lost, not 1", r.stats.Lost)
	}
}
