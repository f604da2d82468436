package planter

import (
	"context"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/probes"
	"github.com/wallproof/wallproof/probes/canary"
	"github.com/wallproof/wallproof/probes/nonce"
	"github.com/wallproof/wallproof/probes/paths"
	"github.com/wallproof/wallproof/probes/plant"
)

// Bounds of the neighbour.
const (
	maxQuestion   = 8 << 10         // bytes read of one question
	questionTime  = 5 * time.Second // to send it
	maxNeighbours = 256             // connections at once
)

// Neighbour answers nonces and reports their arrival.
type Neighbour struct {
	plan  plant.Serve
	out   *probes.Writer
	slots chan struct{}
}

// NewNeighbour returns a neighbour that reports to out.
func NewNeighbour(plan plant.Serve, out *probes.Writer) *Neighbour {
	return &Neighbour{plan: plan, out: out, slots: make(chan struct{}, maxNeighbours)}
}

// Listen opens every address of the plan and answers there until ctx ends. It
// returns once all are open; what cannot be opened is an error.
func (n *Neighbour) Listen(ctx context.Context) error {
	for _, spec := range n.plan.Listen {
		network, address, ok := strings.Cut(spec, ":")
		if !ok {
			return fmt.Errorf("listen on %q: want NETWORK:ADDRESS", spec)
		}
		var err error
		if network == "udp" {
			err = n.packets(ctx, address)
		} else {
			err = n.streams(ctx, network, address)
		}
		if err != nil {
			return fmt.Errorf("listen on %q: %w", spec, err)
		}
	}
	return nil
}

// family keeps a wildcard address to its own family, so that both can be opened.
func family(network, address string) string {
	switch {
	case network == "unix":
		return network
	case strings.HasPrefix(address, "["):
		return network + "6"
	}
	return network + "4"
}

func (n *Neighbour) streams(ctx context.Context, network, address string) error {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, family(network, address), address)
	if err != nil {
		return err
	}
	context.AfterFunc(ctx, func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			n.slots <- struct{}{}
			go func() {
				defer func() { <-n.slots }()
				defer c.Close()
				n.converse(c, network)
			}()
		}
	}()
	return nil
}

// converse reads until there is a nonce, the peer stops, or time is up.
func (n *Neighbour) converse(c net.Conn, network string) {
	_ = c.SetDeadline(time.Now().Add(questionTime))
	var question []byte
	buf := make([]byte, 1024)
	for len(question) < maxQuestion {
		k, err := c.Read(buf)
		question = append(question, buf[:k]...)
		if len(nonce.Find(question)) > 0 || err != nil {
			break
		}
	}
	answer := n.answer(question, network, c.RemoteAddr().String(), c.LocalAddr().String())
	_, _ = c.Write(answer)
}

func (n *Neighbour) packets(ctx context.Context, address string) error {
	var lc net.ListenConfig
	pc, err := lc.ListenPacket(ctx, family("udp", address), address)
	if err != nil {
		return err
	}
	context.AfterFunc(ctx, func() { pc.Close() })
	go func() {
		buf := make([]byte, maxQuestion)
		for {
			k, from, err := pc.ReadFrom(buf)
			if err != nil {
				return
			}
			_, _ = pc.WriteTo(n.answer(buf[:k], "udp", from.String(), pc.LocalAddr().String()), from)
		}
	}()
	return nil
}

// answer reports the nonces and canaries in a question and returns what is sent
// back: the proof and the neighbour's own text, as a page when it was asked in
// HTTP.
func (n *Neighbour) answer(question []byte, proto, source, dest string) []byte {
	text := n.plan.Answer + "\n"
	for _, found := range nonce.Find(question) {
		proof, known := n.plan.Proofs[found]
		if !known {
			continue
		}
		text = nonce.AnswerPrefix + proof + "\n" + text
		// Without a reader of its output the neighbour still answers.
		_ = n.out.Write(manifest.Observation{
			Side: manifest.SideWitness, Service: paths.ServiceNeighbour, Nonce: found, Proto: proto, Source: source, Dest: dest,
			Time: time.Now().UTC().Format(probes.TimeFormat), Bytes: int64(len(question)), Obtained: canary.Find(question), Count: 1,
		})
	}
	if isHTTP(question) {
		return fmt.Appendf(nil, "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", len(text), text)
	}
	return []byte(text)
}

func isHTTP(question []byte) bool {
	line, _, _ := strings.Cut(string(question), "\r\n")
	return strings.Contains(line, " HTTP/1.")
}
