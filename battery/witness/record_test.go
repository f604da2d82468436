package witness

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/wallproof/wallproof/battery/witness/capture"
	"github.com/wallproof/wallproof/probes/paths"
)

// newLogged is a recorder whose events go to a log.
func newLogged() (*recorder, *Log) {
	log := NewLog()
	return newRecorder(log.Take, func() time.Time { return time.Unix(0, 0) }), log
}

func dest(i int) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{23, byte(i >> 16), byte(i >> 8), byte(i)}), 80)
}

func TestRecorderCounts(t *testing.T) {
	r, log := newLogged()
	s := sighting{nonces: []string{nonceN(1)}, service: "collector", proto: "tcp", dst: dest(1), bytes: 10, obtained: []string{"a"}}
	r.see(s)
	s.obtained = []string{"a", "b"}
	r.see(s)
	r.see(sighting{service: "collector", proto: "tcp", dst: dest(1)}) // neither a nonce nor a canary
	if got := log.Observations(); len(got) != 1 || got[0].Count != 1 {
		t.Errorf("before a flush: %+v", got)
	}
	r.flush()
	got := log.Observations()
	if len(got) != 1 || got[0].Count != 2 || got[0].Bytes != 20 || len(got[0].Obtained) != 2 {
		t.Errorf("after a flush: %+v", got)
	}
	r.see(sighting{obtained: []string{"c"}, service: "collector", proto: "tcp", dst: dest(1)})
	if got := log.Observations(); len(got) != 2 || got[1].Nonce != "" || got[1].Obtained[0] != "c" {
		t.Errorf("a canary without a nonce: %+v", got)
	}
}

// A flood of one nonce to many places, and of many nonces, hides no first
// arrival.
func TestRecorderFlood(t *testing.T) {
	r, log := newLogged()
	for i := range 2 * maxRecords {
		r.see(sighting{nonces: []string{nonceN(1)}, service: "collector", proto: "tcp", dst: dest(i)})
	}
	r.see(sighting{nonces: []string{nonceN(1)}, service: "metadata", proto: "tcp", dst: dest(0)})
	r.see(sighting{nonces: []string{nonceN(2)}, service: "collector", proto: "tcp", dst: dest(0)})
	r.flush()
	var total int64
	services := map[string]int{}
	for _, o := range log.Observations() {
		total += o.Count
		services[o.Nonce+" "+o.Service]++
	}
	if services[nonceN(1)+" collector"] != maxPerNonce || services[nonceN(1)+" metadata"] != 1 || services[nonceN(2)+" collector"] != 1 {
		t.Errorf("records %v", services)
	}
	if total != 2*maxRecords+2 || r.droppedCount() != 0 {
		t.Errorf("%d arrivals counted, %d dropped", total, r.droppedCount())
	}
}

func TestRecorderFull(t *testing.T) {
	r, log := newLogged()
	for i := range 2 * maxRecords {
		r.see(sighting{nonces: []string{fmt.Sprint(i)}, service: "collector", proto: "tcp", dst: dest(i)})
	}
	if kept := len(log.Observations()); kept > maxRecords+maxRecords/4 || uint64(kept)+r.droppedCount() != 2*maxRecords {
		t.Errorf("%d kept and %d dropped of %d", kept, r.droppedCount(), 2*maxRecords)
	}
}

func TestPrintable(t *testing.T) {
	if got := printable("a\x00b\nü\x7f"); got != "a?b???" && got != "a?b??" {
		t.Errorf("%q", got)
	}
	if got := printable(string(make([]byte, 1000))); len(got) != maxDetail {
		t.Errorf("%d bytes", len(got))
	}
}

// packet is a captured packet to a destination.
func packet(proto, src, dst, payload string) *capture.Packet {
	return &capture.Packet{Proto: proto, Src: netip.MustParseAddrPort(src), Dst: netip.MustParseAddrPort(dst), Payload: []byte(payload)}
}

// A packet of a connection that a service answered is the service's to record:
// the capture adds nothing to what the service saw, and tells under the
// service's name what it missed.
func TestCaptureOfAnsweredConnections(t *testing.T) {
	w := newTestWorld(t, nil)
	dst := at(allowedHost, 80)
	c := w.dial(dst)
	src := fmt.Sprintf("192.0.2.2:%d", w.port.Load())
	get := fmt.Sprintf("GET /%s HTTP/1.1\r\nHost: %s\r\n\r\n", nonceN(1), allowedHost)
	w.seePacket(packet(capture.TCP, src, dst, get)) // before the service has seen a byte
	if _, err := fmt.Fprint(c, get); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 4096)
	if _, err := c.Read(buf); err != nil {
		t.Fatal(err)
	}
	w.arrived(nonceN(1), paths.ServiceAllowed)
	// A packet of the same connection whose bytes no service ever read.
	w.seePacket(packet(capture.TCP, src, dst, nonceN(2)))
	w.arrived(nonceN(2), paths.ServiceAllowed)
	// The same, with the source port that the wire had and the redirect has changed.
	w.seePacket(packet(capture.TCP, "192.0.2.2:9", dst, nonceN(5)))
	w.arrived(nonceN(5), paths.ServiceAllowed)
	// A packet of no connection, and one that a busy machine has yet to accept.
	w.seePacket(packet(capture.TCP, "192.0.2.6:1", dst, nonceN(3)))
	w.arrived(nonceN(3), paths.ServiceCapture)
	w.seePacket(packet(capture.TCP, "192.0.2.6:2", dst, strings.Replace(get, nonceN(1), nonceN(4), 1)))
	w.arrived(nonceN(4), paths.ServiceAllowed)
}

// A packet waits for its connection to be accepted.
func TestCaptureWaitsForAcceptance(t *testing.T) {
	w := newTestWorld(t, nil)
	w.flows.age = time.Hour
	dst := at(allowedHost, 80)
	src := fmt.Sprintf("192.0.2.2:%d", w.port.Load()+1)
	w.seePacket(packet(capture.TCP, src, dst, "second segment with "+nonceN(1)))
	w.flows.settlePackets(w.World, settleRipe)
	w.flows.settlePackets(w.World, settleLiving)
	w.rec.flush()
	if got := w.Observations(); len(got) != 0 {
		t.Fatalf("recorded before its connection was accepted: %+v", got)
	}
	c := w.dial(dst)
	if _, err := fmt.Fprintf(c, "POST / HTTP/1.1\r\nHost: %s\r\nContent-Length: 25\r\nConnection: close\r\n\r\n%s", allowedHost, nonceN(1)); err != nil {
		t.Fatal(err)
	}
	w.arrived(nonceN(1), paths.ServiceAllowed)
}

// While a connection has not shown what it is, its packets are held: a
// ClientHello must not be taken for an arrival at the open internet. When it
// ends before its service has read anything, its packets tell.
func TestCaptureWaitsForTheService(t *testing.T) {
	w := newTestWorld(t, nil)
	for i, tc := range []struct{ host, payload, want string }{
		{allowedHost, "GET /@@ HTTP/1.1\r\nHost: " + allowedHost + "\r\n\r\n", paths.ServiceAllowed},
		{wildHost, "GET /@@ HTTP/1.1\r\nHost: " + wildHost + "\r\n\r\n", paths.ServiceAllowed},
		{allowedHost, "GET /@@ HTTP/1.1\r\nHost: " + evilHost + "\r\n\r\n", paths.ServiceCollector},
		{allowedHost, string(helloFor(t, allowedHost)) + "@@", paths.ServiceAllowed},
		{allowedHost, string(helloFor(t, evilHost)) + "@@", paths.ServiceCollector},
		{evilHost, string(helloFor(t, allowedHost)) + "@@", paths.ServiceCollector},
		{allowedHost, "@@", paths.ServiceCollector},
	} {
		dst := at(tc.host, 443)
		c := w.dial(dst)
		src := fmt.Sprintf("192.0.2.2:%d", w.port.Load())
		w.seePacket(packet(capture.TCP, src, dst, strings.Replace(tc.payload, "@@", nonceN(i), 1)))
		w.flows.settlePackets(w.World, settleRipe)
		w.rec.flush()
		for _, o := range w.Observations() {
			if o.Nonce == nonceN(i) {
				t.Fatalf("recorded while the connection lives: %+v", o)
			}
		}
		_ = c.Close()
		w.arrived(nonceN(i), tc.want)
	}
}

// helloFor is a ClientHello for a name.
func helloFor(t *testing.T, name string) []byte {
	t.Helper()
	mine, theirs := net.Pipe()
	defer mine.Close()
	go func() { _ = tls.Client(theirs, &tls.Config{ServerName: name}).Handshake() }()
	buf := make([]byte, 4096)
	n, err := mine.Read(buf)
	if err != nil {
		t.Fatal(err)
	}
	return buf[:n]
}

func TestCaptureServices(t *testing.T) {
	n, addrNonce := nonceN(1), nonceN(2)
	w := newTestWorld(t, func(c *Config) { c.AddrNonces = map[string]string{"99.64.9.9": addrNonce} })
	ping := packet(capture.ICMP, "192.0.2.2:0", "8.8.8.8:0", n)
	ping.Echo = true
	w.seePacket(ping)
	w.seePacket(packet(capture.ICMP, "192.0.2.2:0", "10.0.0.1:0", n))
	w.seePacket(packet(capture.UDP, "192.0.2.2:5", "8.8.8.8:5353", n))
	w.seePacket(packet(capture.Other, "192.0.2.2:0", "169.254.169.254:0", n))
	w.seePacket(&capture.Packet{Proto: capture.Other, Src: netip.MustParseAddrPort("192.0.2.2:0"), Dst: netip.MustParseAddrPort("8.8.4.4:0"),
		Inner: packet(capture.UDP, "192.0.2.2:5", "10.9.9.9:1", n)})
	w.arrived(n, paths.ServiceICMP, paths.ServicePrivate, paths.ServiceCapture, paths.ServiceMetadata)
	w.seePacket(packet(capture.TCP, "192.0.2.2:7", "99.64.9.9:80", "")) // an ACK alone says nothing
	w.arrived(addrNonce)
	syn := packet(capture.TCP, "192.0.2.2:7", "99.64.9.9:80", "")
	syn.SYN = true
	w.seePacket(syn)
	w.arrived(addrNonce, paths.ServiceCapture)
}

func TestDatagrams(t *testing.T) {
	w := newTestWorld(t, func(c *Config) { c.AddrNonces = map[string]string{"99.64.9.9": nonceN(9)} })
	src := netip.MustParseAddrPort("192.0.2.2:1000")
	tests := []struct{ dst, payload, want string }{
		{"8.8.8.8:4445", "x " + nonceN(0), paths.ServiceUDP},
		{"8.8.8.8:123", "\x23" + string(make([]byte, 47)) + nonceN(1), paths.ServiceUDP},
		{"169.254.169.254:9", nonceN(2), paths.ServiceMetadata},
		{"10.0.0.1:161", nonceN(3), paths.ServicePrivate},
		{"8.8.8.8:443", "\xc3\x00\x00\x00\x01\x08" + nonceN(4)[1:9] + "\x00\x19" + nonceN(4), paths.ServiceUDP},
	}
	for i, tc := range tests {
		got := w.datagram([]byte(tc.payload), src, netip.MustParseAddrPort(tc.dst))
		if string(got) != proofN(i)+"\n" {
			t.Errorf("%s: answer %q", tc.dst, got)
		}
		// The packet that brought it is not counted a second time.
		w.seePacket(packet(capture.UDP, src.String(), tc.dst, tc.payload))
		w.arrived(nonceN(i), tc.want)
	}
	if got := w.datagram([]byte("nothing"), src, netip.MustParseAddrPort("8.8.8.8:1")); got != nil {
		t.Errorf("an answer to nothing: %q", got)
	}
	if got := w.datagram(nil, src, netip.MustParseAddrPort("99.64.9.9:1")); string(got) != proofN(9)+"\n" {
		t.Errorf("by address: %q", got)
	}
	w.arrived(nonceN(9), paths.ServiceUDP)
}
