package boundary

import (
	"context"
	"errors"
	"time"

	"net/netip"

	"github.com/wallproof/wallproof/internal/procs"
)

var errUnfinished = errors.New("boundary: not filled in yet")

// Stage is one phase's namespaces. Its methods are safe for concurrent use.
type Stage struct{}

// Build makes the namespaces, links, addresses and rules, and starts the reader
// of refusals. On an error nothing is left behind. It takes root.
func Build(ctx context.Context, cfg Config) (*Stage, error) { return nil, errUnfinished }

// Box finds a box by its name.
func (s *Stage) Box(name string) (Box, bool) { return Box{}, false }

// ResetBox puts a box's addresses and routes back. A sandbox that takes them
// over (gVisor's does) removes them from the namespace, so this comes before a
// second sandbox is started there.
func (s *Stage) ResetBox(ctx context.Context, name string) error { return errUnfinished }

// RouterNS is the path of the router's namespace.
func (s *Stage) RouterNS() string { return "" }

// WorldNS is the path of the world's namespace, "" without one.
func (s *Stage) WorldNS() string { return "" }

// IPv6 tells whether the boundary has IPv6, and if not, why.
func (s *Stage) IPv6() (has bool, why string) { return false, "" }

// Listeners opens the sockets on each gateway address, for the proxy (enforced)
// or the witness's open proxy and resolver (open): "proxy" (tcp 3128), "socks"
// (tcp 1080, with Config.SOCKS), "dns-udp", "dns-tcp" (53), "transparent" (tcp
// 15001, enforced only; origdst.TCP has the destination). Each name has one file
// per box and family. The caller closes the files when the child has them.
func (s *Stage) Listeners() ([]procs.NamedFile, error) { return nil, errUnfinished }

// WorldListeners opens the world's sockets, for the witness: "any-tcp4",
// "any-tcp6" (origdst.TCP has the destination), "any-udp4", "any-udp6"
// (origdst.ReadUDP has it, origdst.ReplyUDP answers), "capture" (AF_PACKET,
// SOCK_RAW, every frame on the world's link), and for each Config.Services
// "tcp4-PORT" and so on.
func (s *Stage) WorldListeners() ([]procs.NamedFile, error) { return nil, errUnfinished }

// FilterState is what the kernel says of the router's packet filter.
type FilterState struct {
	Digest     string `json:"digest"`     // "sha256:…" over all tables, chains, rules and sets, without handles and counters
	Generation uint32 `json:"generation"` // changes with every commit to the rules
}

// FilterState reads the rules back from the kernel.
func (s *Stage) FilterState() (FilterState, error) { return FilterState{}, errUnfinished }

// Verification is what VerifyInPlace saw.
type Verification struct {
	Filter FilterState
	Checks []string // one line each
}

// VerifyInPlace reads the rules back, compares them with what was meant, and
// sends packets from each box's namespace to see what they do. It comes before
// the first sandbox starts.
func (s *Stage) VerifyInPlace(ctx context.Context) (Verification, error) {
	return Verification{}, errUnfinished
}

// Denial is one packet that the router rejected.
type Denial struct {
	Time    time.Time
	Box     string         // whose link it came from
	Rule    string         // which rule rejected it
	Proto   string         // "tcp", "udp", "icmp", "icmpv6", or the protocol's number
	Src     netip.AddrPort // port 0 where the protocol has none
	Dst     netip.AddrPort
	Length  int    // bytes, IP header included
	Payload []byte // at most MaxDenialPayload bytes of what follows the transport header
}

// MaxDenialPayload bounds Denial.Payload.
const MaxDenialPayload = 512

// Denials delivers rejected packets in order. It is closed by Close.
func (s *Stage) Denials() <-chan Denial { return nil }

// DenialStats counts what became of the log's records.
type DenialStats struct {
	Delivered uint64 // put on the channel
	Overflow  uint64 // dropped because the channel was full
	Lost      uint64 // lost between kernel and reader
	Malformed uint64 // not an IP packet that could be read
}

// DenialStats reads the counts so far.
func (s *Stage) DenialStats() DenialStats { return DenialStats{} }

// Counter is a rule's count.
type Counter struct{ Packets, Bytes uint64 }

// Counters reads the router's counters, by rule.
func (s *Stage) Counters() (map[string]Counter, error) { return nil, errUnfinished }

// Close removes everything. It is idempotent.
func (s *Stage) Close() error { return errUnfinished }

// Sweep removes namespaces (and stray links) whose names begin with wallproof-
// and whose run is not alive, and returns the names of what it removed.
func Sweep(ctx context.Context, alive func(run string) bool) ([]string, error) {
	return nil, errUnfinished
}

// Claim records this process as the owner of a run, in /run/wallproof/RUN/owner.
// release removes the record.
func Claim(run string) (release func() error, err error) { return nil, errUnfinished }

// Alive tells whether the process that claimed the run still runs.
func Alive(run string) bool { return false }
