package addr

import (
	"fmt"
	"net/netip"
	"testing"
)

func TestHostAddresses(t *testing.T) {
	seen := map[netip.Addr]string{}
	for i := range 5000 {
		name := fmt.Sprintf("h%d.example", i)
		for _, a := range []netip.Addr{Host4(name), Host6(name)} {
			if c := Classify(a); c != Public {
				t.Fatalf("%s has %s, which is %s", name, a, c)
			}
			if other, ok := seen[a]; ok && a.Is6() {
				t.Fatalf("%s and %s share %s", name, other, a)
			}
			seen[a] = name
		}
		if last := Host4(name).As4()[3]; last == 0 || last == 255 {
			t.Fatalf("%s ends in %d", Host4(name), last)
		}
	}
	if Host4("A.Example.") != Host4("a.example") || Host6("A.Example.") != Host6("a.example") {
		t.Error("letter case or a final dot changes an address")
	}
	if Host4("a.example") == Host4("b.example") {
		t.Error("two names share an address")
	}
}

func TestClassify(t *testing.T) {
	tests := []struct {
		addr string
		want Class
	}{
		{"8.8.8.8", Public}, {"2607:f8b0::1", Public}, {"99.64.1.2", Public}, {"2a0d:5600::1", Public}, {"2000::1", Public},
		{"169.254.169.254", Metadata}, {"fd00:ec2::254", Metadata}, {"100.100.100.200", Metadata}, {"168.63.129.16", Metadata}, {"169.254.170.2", Metadata},
		{"::ffff:169.254.169.254", Metadata}, {"64:ff9b::a9fe:a9fe", Metadata}, {"2002:a9fe:a9fe::1", Metadata},
		{"::a9fe:a9fe", Metadata}, {"2001:0:0:0:0:0:5601:5601", Metadata}, {"fe80::5efe:a9fe:a9fe", Metadata}, {"::ffff:0:a9fe:a9fe", Metadata},
		{"10.0.0.1", Private}, {"172.31.0.1", Private}, {"172.32.0.1", Public}, {"192.168.0.1", Private}, {"fd12::1", Private}, {"fec0::1", Private},
		{"64:ff9b::a00:1", Private}, {"2002:a00:1::", Private},
		{"100.64.0.1", CGNAT}, {"127.0.0.1", Loopback}, {"::1", Loopback}, {"::ffff:127.0.0.1", Loopback},
		{"169.254.1.1", LinkLocal}, {"fe80::1", LinkLocal}, {"fe80::1%eth0", LinkLocal},
		{"224.0.0.1", Multicast}, {"ff02::1", Multicast}, {"255.255.255.255", Broadcast}, {"240.0.0.1", Reserved},
		{"0.0.0.0", Unspecified}, {"::", Unspecified}, {"0.1.2.3", Reserved},
		{"192.0.2.1", Documentation}, {"2001:db8::1", Documentation}, {"3fff::1", Documentation}, {"198.18.0.1", Benchmark},
		{"2002:808:808::1", Public},
	}
	for _, tc := range tests {
		if got := Classify(netip.MustParseAddr(tc.addr)); got != tc.want {
			t.Errorf("%s is %s, want %s", tc.addr, got, tc.want)
		}
	}
	if got := Cloud(netip.MustParseAddr("64:ff9b::a9fe:aa02")); got != "aws-ecs" {
		t.Errorf("cloud %q", got)
	}
	if got := Cloud(netip.MustParseAddr("8.8.8.8")); got != "" {
		t.Errorf("cloud %q", got)
	}
}
