package kit

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/probes/nonce"
	"golang.org/x/net/dns/dnsmessage"
)

func TestDNS(t *testing.T) {
	answer := func(q []byte) []byte {
		var m dnsmessage.Message
		if m.Unpack(q) != nil {
			return nil
		}
		name := m.Questions[0].Name
		head := dnsmessage.ResourceHeader{Name: name, Class: dnsmessage.ClassINET}
		m.Response = true
		switch {
		case strings.HasPrefix(name.String(), "no."):
			m.RCode = dnsmessage.RCodeRefused
		case m.Questions[0].Type == dnsmessage.TypeTXT:
			head.Type = dnsmessage.TypeTXT
			m.Answers = []dnsmessage.Resource{{Header: head, Body: &dnsmessage.TXTResource{TXT: []string{nonce.AnswerPrefix, testProof}}}}
		case m.Questions[0].Type == dnsmessage.TypeA:
			head.Type = dnsmessage.TypeA
			m.Answers = []dnsmessage.Resource{{Header: head, Body: &dnsmessage.AResource{A: [4]byte{192, 0, 2, 1}}}}
		}
		out, _ := m.Pack()
		return out
	}
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer pc.Close()
	go func() {
		buf := make([]byte, 1024)
		for {
			n, from, err := pc.ReadFrom(buf)
			if err != nil {
				return
			}
			pc.WriteTo(answer(buf[:n]), from)
		}
	}()
	env := testEnv("direct-v4")
	env.Facts.Resolver.V4 = pc.LocalAddr().String()
	try := Begin(env)
	defer try.End()
	if a, err := try.Lookup(within(t), "a.example", false); err != nil || a.String() != "192.0.2.1" {
		t.Errorf("lookup: %v, %v", a, err)
	}
	var refusal *Refusal
	if _, err := try.Lookup(within(t), "no.example", false); !errors.As(err, &refusal) || refusal.Status != 5 {
		t.Errorf("refused: %v", err)
	}
	if _, err := try.Lookup(within(t), "a.example", true); err == nil {
		t.Error("looked up without a resolver of that family")
	}
	stream := serve(t, func(c net.Conn) {
		var size [2]byte
		io.ReadFull(c, size[:])
		q := make([]byte, binary.BigEndian.Uint16(size[:]))
		io.ReadFull(c, q)
		a := answer(q)
		c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(a))), a...))
	})
	c, err := net.Dial("tcp", stream)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	query, err := Question("a.example", dnsmessage.TypeTXT)
	if err != nil {
		t.Fatal(err)
	}
	m, err := AskStream(c, query)
	if err != nil {
		t.Fatal(err)
	}
	if o := Answered(m); o.Sign != manifest.SignReached || o.Proof != testProof {
		t.Errorf("stream: %+v", o)
	}
}
