package kit

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"

	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/probes/canary"
	"github.com/wallproof/wallproof/probes/nonce"
	"golang.org/x/net/dns/dnsmessage"
	"golang.org/x/sys/unix"
)

// maxMessage is the largest DNS message that is read.
const maxMessage = 16 << 10

// Question builds a query for a name, which may lack its final dot.
func Question(name string, kind dnsmessage.Type) ([]byte, error) {
	if !strings.HasSuffix(name, ".") {
		name += "."
	}
	n, err := dnsmessage.NewName(name)
	if err != nil {
		return nil, fmt.Errorf("ask for %q: %w", name, err)
	}
	m := dnsmessage.Message{
		Header:    dnsmessage.Header{ID: uint16(len(name))<<8 | 0x5a, RecursionDesired: true},
		Questions: []dnsmessage.Question{{Name: n, Type: kind, Class: dnsmessage.ClassINET}},
	}
	return m.Pack()
}

// AskUDP sends a query as a datagram and returns the answer.
func (t *Try) AskUDP(ctx context.Context, server string, query []byte) (*dnsmessage.Message, error) {
	c, err := t.Dial(ctx, "udp", server)
	if err != nil {
		return nil, err
	}
	if _, err := c.Write(query); err != nil {
		return nil, err
	}
	buf := make([]byte, maxMessage)
	n, err := c.Read(buf)
	if err != nil {
		return nil, err
	}
	return parseAnswer(buf[:n])
}

// AskStream sends a query over a stream, with its length before it (RFC 1035
// section 4.2.2, RFC 7858), and returns the answer.
func AskStream(c net.Conn, query []byte) (*dnsmessage.Message, error) {
	framed := binary.BigEndian.AppendUint16(nil, uint16(len(query)))
	if _, err := c.Write(append(framed, query...)); err != nil {
		return nil, err
	}
	var size [2]byte
	if _, err := io.ReadFull(c, size[:]); err != nil {
		return nil, err
	}
	buf := make([]byte, binary.BigEndian.Uint16(size[:]))
	if len(buf) > maxMessage {
		return nil, fmt.Errorf("answer of %d bytes", len(buf))
	}
	if _, err := io.ReadFull(c, buf); err != nil {
		return nil, err
	}
	return parseAnswer(buf)
}

func parseAnswer(raw []byte) (*dnsmessage.Message, error) {
	var m dnsmessage.Message
	if err := m.Unpack(raw); err != nil {
		return nil, fmt.Errorf("read the answer: %w", err)
	}
	if m.RCode == dnsmessage.RCodeRefused {
		return nil, &Refusal{What: "dns", Status: int(m.RCode)}
	}
	return &m, nil
}

// Answered turns a DNS answer into an observation: the proof and canaries are
// looked for in its text records, addresses go into the detail.
func Answered(m *dnsmessage.Message) manifest.Observation {
	var text strings.Builder
	var addrs []string
	for _, list := range [][]dnsmessage.Resource{m.Answers, m.Additionals} {
		for _, rr := range list {
			switch body := rr.Body.(type) {
			case *dnsmessage.TXTResource:
				text.WriteString(strings.Join(body.TXT, "") + "\n")
			case *dnsmessage.AResource:
				addrs = append(addrs, netip.AddrFrom4(body.A).String())
			case *dnsmessage.AAAAResource:
				addrs = append(addrs, netip.AddrFrom16(body.AAAA).String())
			}
		}
	}
	o := manifest.Observation{
		Sign:     manifest.SignAnswered,
		Status:   int64(m.RCode),
		Bytes:    int64(text.Len()),
		Proof:    nonce.FindProof([]byte(text.String())),
		Obtained: canary.Find([]byte(text.String())),
		Detail:   strings.TrimSpace(m.RCode.String() + " " + strings.Join(addrs, " ")),
	}
	if o.Proof != "" {
		o.Sign = manifest.SignReached
	}
	return o
}

// Lookup asks the sandbox's resolver for an address of a name.
func (t *Try) Lookup(ctx context.Context, name string, v6 bool) (netip.Addr, error) {
	if led := HostsEntry(name, v6); led.IsValid() {
		return led, nil
	}
	server := Of(t.Env.Facts.Resolver, v6)
	if server == "" {
		return netip.Addr{}, fmt.Errorf("look %s up: no resolver: %w", name, unix.ENODEV)
	}
	return t.LookupAt(ctx, server, name, v6)
}

// HostsFile gives names their addresses before any resolver is asked.
const HostsFile = "/etc/hosts"

// HostsEntry is where the hosts file leads a name, as any client would follow it.
// Entries for the machine itself count for nothing.
func HostsEntry(name string, v6 bool) netip.Addr {
	b, err := ReadHead(HostsFile, 1<<20)
	if err != nil {
		return netip.Addr{}
	}
	for _, line := range strings.Split(string(b), "\n") {
		line, _, _ = strings.Cut(line, "#")
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		a, err := netip.ParseAddr(fields[0])
		if err != nil || a.Is6() != v6 || a.IsLoopback() {
			continue
		}
		for _, n := range fields[1:] {
			if strings.EqualFold(n, name) {
				return a
			}
		}
	}
	return netip.Addr{}
}

// LookupAt asks one name server, "address:port", for a name's address.
func (t *Try) LookupAt(ctx context.Context, server, name string, v6 bool) (netip.Addr, error) {
	kind := dnsmessage.TypeA
	if v6 {
		kind = dnsmessage.TypeAAAA
	}
	query, err := Question(name, kind)
	if err != nil {
		return netip.Addr{}, err
	}
	m, err := t.AskUDP(ctx, server, query)
	if err != nil {
		return netip.Addr{}, fmt.Errorf("look %s up: %w", name, err)
	}
	for _, rr := range m.Answers {
		switch body := rr.Body.(type) {
		case *dnsmessage.AResource:
			return netip.AddrFrom4(body.A), nil
		case *dnsmessage.AAAAResource:
			return netip.AddrFrom16(body.AAAA), nil
		}
	}
	return netip.Addr{}, &Unexpected{What: "dns", Status: int(m.RCode), Detail: "no address"}
}
