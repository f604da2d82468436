package proxy

import (
	"net"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/wallproof/wallproof/policy"
	"github.com/wallproof/wallproof/policy/proxy/dnsx"
)

const dnsPolicy = `version: 1
name: test
mode: allowlist
allow:
  - host: plain.example
  - host: inside.example
  - host: mixed.example
  - host: six.example
  - host: gone.example
  - cidr: 10.1.0.0/16
`

func query(t *testing.T, p *proxyUnderTest, name string, qtype uint16) *dns.Msg {
	t.Helper()
	m := new(dns.Msg)
	m.SetQuestion(dns.Fqdn(name), qtype)
	r, _, err := (&dns.Client{Timeout: 10 * time.Second}).Exchange(m, p.nameServer)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return r
}

func TestDNSUnderThePolicy(t *testing.T) {
	w := newWorld(t)
	w.name("plain.example", allowedIP)
	w.name("inside.example", "192.168.1.1", "169.254.169.254")
	w.name("mixed.example", "10.2.0.1", "10.1.0.1", allowedIP)
	w.name("six.example", "2606:2800:220:1::1", "fd00:ec2::254", "::ffff:10.0.0.1")
	w.name("evil.example", evilIP)
	p := w.proxy(dnsPolicy, nil)
	for _, tc := range []struct {
		name  string
		qtype uint16
		rcode int
		want  string
	}{
		{"plain.example", dns.TypeA, dns.RcodeSuccess, allowedIP},
		{"PLAIN.example", dns.TypeA, dns.RcodeSuccess, allowedIP},
		{"plain.example", dns.TypeAAAA, dns.RcodeSuccess, ""},
		{"inside.example", dns.TypeA, dns.RcodeRefused, ""},
		{"mixed.example", dns.TypeA, dns.RcodeSuccess, "10.1.0.1 " + allowedIP},
		{"six.example", dns.TypeAAAA, dns.RcodeSuccess, "2606:2800:220:1::1"},
		{"gone.example", dns.TypeA, dns.RcodeNameError, ""},
		{"evil.example", dns.TypeA, dns.RcodeRefused, ""},
		{"data.evil.example", dns.TypeAAAA, dns.RcodeRefused, ""},
		{"plain.example", dns.TypeTXT, dns.RcodeRefused, ""},
		{"plain.example", dns.TypeANY, dns.RcodeRefused, ""},
		{"plain.example", dns.TypeNULL, dns.RcodeRefused, ""},
		{"plain.example", dns.TypeCNAME, dns.RcodeSuccess, ""},
		{"metadata.google.internal", dns.TypeA, dns.RcodeRefused, ""},
		{"localhost", dns.TypeA, dns.RcodeRefused, ""},
	} {
		r := query(t, p, tc.name, tc.qtype)
		var got []string
		for _, rr := range r.Answer {
			switch rr := rr.(type) {
			case *dns.A:
				got = append(got, rr.A.String())
			case *dns.AAAA:
				got = append(got, rr.AAAA.String())
			default:
				t.Errorf("%s: %v", tc.name, rr)
			}
		}
		if r.Rcode != tc.rcode || strings.Join(got, " ") != tc.want {
			t.Errorf("%s %s: %s %v, want %s %q", tc.name, dns.TypeToString[tc.qtype], dns.RcodeToString[r.Rcode], got, dns.RcodeToString[tc.rcode], tc.want)
		}
	}
	for _, asked := range w.questions() {
		if strings.Contains(asked, "evil") || strings.Contains(asked, "metadata") || strings.Contains(asked, "localhost") {
			t.Errorf("%s was looked up", asked)
		}
		if asked != strings.ToLower(asked) {
			t.Errorf("%s: the spelling of a query carries data", asked)
		}
	}
}

func TestDNSServiceBindingsWithoutECH(t *testing.T) {
	w := newWorld(t)
	w.name("plain.example", allowedIP)
	p := w.proxy(dnsPolicy, nil)
	r := query(t, p, "plain.example", dns.TypeHTTPS)
	if len(r.Answer) != 1 || strings.Contains(r.Answer[0].String(), "ech") || strings.Contains(r.Answer[0].String(), "hint") || strings.Contains(r.Answer[0].String(), "h3") || !strings.Contains(r.Answer[0].String(), "h2") {
		t.Errorf("%v", r.Answer)
	}
}

// A name whose address is given is asked about nowhere, whatever is asked about it: the
// model's, a service's, and one that the operator resolved.
func TestGivenNamesAreAskedAboutNowhere(t *testing.T) {
	w := newWorld(t)
	for _, name := range []string{policy.ModelHost, "db", "given.example", "plain.example"} {
		w.name(name, allowedIP)
	}
	p := w.proxy(`version: 1
name: test
mode: allowlist
allow:
  - host: plain.example
  - host: given.example
secrets:
  - name: MODEL
    from: {env: MODEL}
model:
  api: openai
  url: https://provider.example/v1
  secret: MODEL
  allow: [gpt-5]
services:
  - name: db
    image: "registry.example/db@sha256:`+strings.Repeat("a", 64)+`"
    ports: [80]
`, func(c *Config) {
		c.ModelKey = NewModelKey()
		c.Secrets = []Secret{{Name: "MODEL", Value: "sk-model-value-0123456789"}}
		c.Services = map[string]string{"db": "172.31.0.5"}
		c.Upstream.Resolve = map[string]string{"given.example:443": allowedIP}
	})
	for _, name := range []string{policy.ModelHost, "db", "given.example"} {
		for _, qtype := range []uint16{dns.TypeHTTPS, dns.TypeSVCB, dns.TypeA, dns.TypeAAAA, dns.TypeCNAME, dns.TypeTXT, dns.TypeANY} {
			r := query(t, p, name, qtype)
			if data := len(r.Answer) > 0; data != (qtype == dns.TypeA) || qtype == dns.TypeHTTPS && r.Rcode != dns.RcodeSuccess {
				t.Errorf("%s, %s: %v", name, dns.TypeToString[qtype], r)
			}
		}
		if w.wasAsked(name) {
			t.Errorf("%s was asked about", name)
		}
	}
	if query(t, p, "plain.example", dns.TypeHTTPS); !w.wasAsked("plain.example") {
		t.Error("the name server hears of nothing")
	}
}

func TestDNSOverTCP(t *testing.T) {
	w := newWorld(t)
	w.name("plain.example", allowedIP)
	p := w.proxy(dnsPolicy, nil)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go p.Serve(l, KindDNSTCP)
	conn, err := dns.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for _, name := range []string{"plain.example.", "evil.example."} {
		m := new(dns.Msg)
		m.SetQuestion(name, dns.TypeA)
		if err := conn.WriteMsg(m); err != nil {
			t.Fatal(err)
		}
		r, err := conn.ReadMsg()
		if err != nil {
			t.Fatal(err)
		}
		if (r.Rcode == dns.RcodeRefused) != (name == "evil.example.") {
			t.Errorf("%s: %v", name, r)
		}
	}
}

func TestDNSMalformed(t *testing.T) {
	w := newWorld(t)
	w.name("plain.example", allowedIP)
	p := w.proxy(dnsPolicy, nil)
	two := new(dns.Msg)
	two.SetQuestion("plain.example.", dns.TypeA)
	two.Question = append(two.Question, dns.Question{Name: "data.evil.example.", Qtype: dns.TypeA, Qclass: dns.ClassINET})
	chaos := new(dns.Msg)
	chaos.SetQuestion("version.bind.", dns.TypeTXT)
	chaos.Question[0].Qclass = dns.ClassCHAOS
	update := new(dns.Msg)
	update.SetUpdate("plain.example.")
	for name, m := range map[string]*dns.Msg{"two questions": two, "chaos": chaos, "update": update} {
		r, _, err := (&dns.Client{Timeout: 10 * time.Second}).Exchange(m, p.nameServer)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if r.Rcode == dns.RcodeSuccess {
			t.Errorf("%s: %v", name, r)
		}
	}
	if len(w.questions()) != 0 {
		t.Errorf("asked %v", w.questions())
	}
}

// The address that a sandbox was told, however long ago, is recognised when it
// is dialled: names with many servers answer differently each time.
func TestTransparentToAnEarlierAnswer(t *testing.T) {
	w, _ := basicWorld(t)
	p := w.proxy(basicPolicy, withToken)
	query(t, p, "plain.example", dns.TypeA)
	w.name("plain.example", "93.184.216.99")
	p.resolver = dnsx.NewResolver([]string{resolverAddr}, w.dial, time.Now) // forgets, as a TTL that ran out does not
	if _, err := p.handshake(p.redirected(allowedIP+":443"), "plain.example"); err == nil {
		t.Error("an address that the name never had was accepted")
	}
	w.name("plain.example", allowedIP)
	p = w.proxy(basicPolicy, withToken)
	query(t, p, "plain.example", dns.TypeA)
	if _, err := p.handshake(p.redirected(allowedIP+":443"), "plain.example"); err != nil {
		t.Error(err)
	}
}
