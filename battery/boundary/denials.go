package boundary

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/florianl/go-nflog/v2"
	"golang.org/x/sys/unix"
)

// MaxDenialPayload bounds Denial.Payload, in bytes.
const MaxDenialPayload = 512

const (
	logGroup       = 5
	maxHeaders     = 60 + 60 + 8*maxExtensions // IP and transport headers before the payload
	logSnapLen     = maxHeaders + MaxDenialPayload
	logSocketBytes = 8 << 20
	denialQueue    = 8192
)

// Denial is one packet that the router refused.
type Denial struct {
	Time    time.Time      // when the reader got the record
	Box     string         // whose link it came by
	Rule    string         // one of the Rule constants
	Proto   string         // "tcp", "udp", "icmp", "icmpv6", or the protocol's number
	Src     netip.AddrPort // port 0 where the protocol has none
	Dst     netip.AddrPort // as the sender wrote it, before any redirect
	Length  int            // bytes, IP header included
	Payload []byte         // at most MaxDenialPayload bytes of what follows the transport header
}

// DenialStats counts what became of the records of refusals.
type DenialStats struct {
	Delivered uint64 `json:"delivered"` // put on the channel
	Overflow  uint64 `json:"overflow"`  // dropped because nobody took them from the channel
	Lost      uint64 `json:"lost"`      // lost between kernel and reader, by the kernel's own numbering
	Malformed uint64 `json:"malformed"` // not an IP packet that could be read
}

// reader takes the records of refusals from the kernel.
type reader struct {
	log    *nflog.Nflog
	cancel context.CancelFunc
	out    chan Denial

	mu      sync.Mutex
	closed  bool
	stats   DenialStats
	nextSeq uint32
	seen    bool
	failed  error // why the reader stopped, if it did by itself
	own     func(Denial) bool
}

func (s *Stage) startReader() error {
	var err error
	s.denials, err = newReader(int(s.router.fd))
	return err
}

func newReader(nsFD int) (*reader, error) {
	log, err := nflog.Open(&nflog.Config{
		NetNS: nsFD, Group: logGroup, Copymode: nflog.CopyPacket, Bufsize: logSnapLen, QThresh: 1, Flags: nflog.FlagSeq,
	})
	if err != nil {
		return nil, fmt.Errorf("open the log of refusals: %w", err)
	}
	if err := log.Con.SetReadBuffer(logSocketBytes); err != nil {
		_ = log.Close()
		return nil, fmt.Errorf("size the log of refusals: %w", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	r := &reader{log: log, cancel: cancel, out: make(chan Denial, denialQueue)}
	if err := log.RegisterWithErrorFunc(ctx, r.take, func(err error) int { return r.trouble(ctx, err) }); err != nil {
		cancel()
		_ = log.Close()
		return nil, fmt.Errorf("read the log of refusals (the kernel must have nfnetlink_log): %w", err)
	}
	return r, nil
}

// take is called for each record, from one goroutine.
func (r *reader) take(a nflog.Attribute) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return 1
	}
	r.noteSequence(a.Seq)
	d, ok := newDenial(a, time.Now())
	if !ok {
		r.stats.Malformed++
		return 0
	}
	if r.own != nil && r.own(d) {
		return 0
	}
	select {
	case r.out <- d:
		r.stats.Delivered++
	default:
		r.stats.Overflow++
	}
	return 0
}

// noteSequence counts the records that are missing before this one.
func (r *reader) noteSequence(seq *uint32) {
	if seq == nil {
		return
	}
	if r.seen {
		r.stats.Lost += uint64(*seq - r.nextSeq)
	}
	r.seen, r.nextSeq = true, *seq+1
}

// trouble tells the library whether to stop.
func (r *reader) trouble(ctx context.Context, err error) int {
	switch {
	case ctx.Err() != nil:
		return 1
	case errors.Is(err, unix.ENOBUFS): // records were lost; the sequence tells how many
		return 0
	}
	r.mu.Lock()
	r.failed = err
	r.mu.Unlock()
	return 1
}

// newDenial reads a record. Its prefix is "RULE BOX".
func newDenial(a nflog.Attribute, now time.Time) (Denial, bool) {
	if a.Payload == nil || a.Prefix == nil {
		return Denial{}, false
	}
	rule, box, ok := strings.Cut(strings.TrimRight(*a.Prefix, "\x00"), " ")
	if !ok {
		return Denial{}, false
	}
	p, err := parsePacket(*a.Payload)
	if err != nil {
		return Denial{}, false
	}
	return Denial{
		Time: now, Box: box, Rule: rule, Proto: protoName(p.proto), Src: p.src, Dst: p.dst, Length: p.length,
		Payload: bytes.Clone(p.payload[:min(len(p.payload), MaxDenialPayload)]),
	}, true
}

// divert gives the records for which own returns true to own alone, until the
// returned function is called.
func (r *reader) divert(own func(Denial) bool) (stop func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.own = own
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.own = nil
	}
}

func (r *reader) close() {
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		return
	}
	r.closed = true
	close(r.out)
	r.mu.Unlock()
	r.cancel()
	_ = r.log.Close()
}

// Denials delivers refused packets in order, as soon as they are refused. When
// nobody takes them, 8192 are kept and the rest is counted in DenialStats. Close
// closes the channel.
func (s *Stage) Denials() <-chan Denial { return s.denials.out }

// DenialStats reads the counts so far. An error means that the reader has
// stopped: from then on refusals go unrecorded, though they are still refused.
func (s *Stage) DenialStats() (DenialStats, error) {
	s.denials.mu.Lock()
	defer s.denials.mu.Unlock()
	if s.denials.failed != nil {
		return s.denials.stats, fmt.Errorf("the log of refusals has stopped: %w", s.denials.failed)
	}
	return s.denials.stats, nil
}
