package boundary

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/wallproof/wallproof/internal/procs"
)

// VerifyAddr4 and VerifyAddr6 are the destinations of VerifyInPlace's own
// packets (documentation ranges, RFC 5737 and RFC 3849), on port 9 (discard).
var (
	VerifyAddr4 = netip.MustParseAddr("198.51.100.254")
	VerifyAddr6 = netip.MustParseAddr("2001:db8:fffe::fe")
)

const (
	verifyPort     = 9
	verifyDeadline = 10 * time.Second // for each single check
)

// Verification is what VerifyInPlace has seen.
type Verification struct {
	Filter FilterState `json:"filter"`
	Checks []string    `json:"checks"` // one line each, in the order in which they were made
}

// VerifyInPlace shows that the boundary stands, before the first byte of
// untrusted code runs behind it:
//
//   - the rules read back from the kernel are those that were meant, and no other,
//     and forwarding is as it should be;
//   - enforced mode: a TCP and a UDP attempt from each box at a forbidden address,
//     in each family, are refused at once, appear in the log of refusals with
//     their own tuple, and do not arrive in the world;
//   - open mode: a datagram from each box, in each family, arrives in the world
//     with its destination, and the answer comes back.
//
// The attempts are made from the box's own namespace, so they come before the
// first sandbox is started there. An error wraps ErrNotInPlace when the boundary
// was seen to be wrong; any error means: start nothing.
func (s *Stage) VerifyInPlace(ctx context.Context) (Verification, error) {
	var v Verification
	err := s.open(func() error {
		return s.verify(ctx, &v)
	})
	if err != nil {
		return v, fmt.Errorf("verify the boundary of run %s: %w", s.cfg.Run, err)
	}
	s.cfg.Hooks.verified(s)
	return v, nil
}

// Begin says that the first byte of untrusted code is about to run, End that the last
// one has. Nothing depends on it but seeded breaks that are about time.
func (s *Stage) Begin() { s.cfg.Hooks.begun(s) }

// End is the other side of Begin: what was to come later comes now.
func (s *Stage) End() {
	s.hasten()
	s.pending.Wait()
}

func (s *Stage) verify(ctx context.Context, v *Verification) error {
	if !s.cfg.Hooks.lateFilter() {
		if err := s.rules.compareWithKernel(int(s.router.fd)); err != nil {
			return err
		}
		v.Checks = append(v.Checks, "the packet filter in the kernel is the one that was meant")
	}
	if err := s.verifyForwarding(); err != nil {
		return err
	}
	v.Checks = append(v.Checks, fmt.Sprintf("forwarding is as the %s mode needs it", s.cfg.Mode))
	if !s.cfg.Hooks.spareLiveCheck() {
		for i := range s.boxes {
			if err := s.verifyBox(ctx, i, v); err != nil {
				return err
			}
		}
	}
	var err error
	v.Filter, err = readFilterState(int(s.router.fd))
	return err
}

func (s *Stage) verifyForwarding() error {
	v4, v6 := s.cfg.forwarding()
	want := map[string]bool{"ipv4/ip_forward": v4}
	if s.noIPv6 == "" {
		want["ipv6/conf/all/forwarding"] = v6
	}
	for key, on := range want {
		got, err := readSysctl(s.router, key)
		if err != nil {
			return err
		}
		if got != flag(on) {
			return fmt.Errorf("%w: net.%s is %s, not %s", ErrNotInPlace, key, got, flag(on))
		}
	}
	return nil
}

func (s *Stage) verifyBox(ctx context.Context, i int, v *Verification) error {
	b := s.boxes[i]
	type path struct{ from, to netip.Addr }
	paths := []path{{b.IPv4, VerifyAddr4}}
	if b.IPv6.IsValid() {
		paths = append(paths, path{b.IPv6, VerifyAddr6})
	}
	for _, p := range paths {
		to := netip.AddrPortFrom(p.to, verifyPort)
		if s.cfg.Mode == Open {
			if err := s.verifyArrives(ctx, i, p.from, to); err != nil {
				return err
			}
			v.Checks = append(v.Checks, fmt.Sprintf("udp from box %s to %s arrives and is answered", b.Name, to))
			continue
		}
		for _, network := range []string{"tcp", "udp"} {
			if err := s.verifyRefused(ctx, i, network, to); err != nil {
				return err
			}
			v.Checks = append(v.Checks, fmt.Sprintf("%s from box %s to %s is refused and recorded", network, b.Name, to))
		}
	}
	return nil
}

// verifyRefused makes one attempt and looks for its refusal on both sides.
func (s *Stage) verifyRefused(ctx context.Context, i int, network string, to netip.AddrPort) error {
	b := s.boxes[i]
	var conn *net.UDPConn
	if s.world != nil && network == "udp" {
		var err error
		if conn, err = s.listenAt(to); err != nil {
			return err
		}
		defer conn.Close()
	}
	deadline := deadlineOf(ctx)
	recorded := make(chan Denial, 16)
	stop := s.denials.divert(func(d Denial) bool {
		own := d.Box == b.Name && d.Dst == to
		if own {
			select {
			case recorded <- d:
			default:
			}
		}
		return own
	})
	defer stop()
	local, err := attempt(s.boxNS[i], network, to, deadline)
	if !errors.Is(err, unix.ECONNREFUSED) {
		return fmt.Errorf("%w: %s from box %s to %s should be refused, but: %w", ErrNotInPlace, network, b.Name, to, orSucceeded(err))
	}
	if err := awaitRecord(ctx, recorded, network, local, deadline); err != nil {
		return fmt.Errorf("%w: the refusal of %s from box %s to %s is not recorded: %w", ErrNotInPlace, network, b.Name, to, err)
	}
	if conn == nil {
		return nil
	}
	if arrived, err := arrivedAlready(conn); err != nil || arrived {
		return fmt.Errorf("%w: %s from box %s to %s was refused and arrived all the same (%w)", ErrNotInPlace, network, b.Name, to, orSucceeded(err))
	}
	return nil
}

// deadlineOf is when a single check gives up.
func deadlineOf(ctx context.Context) time.Time {
	deadline := time.Now().Add(verifyDeadline)
	if d, ok := ctx.Deadline(); ok && d.Before(deadline) {
		return d
	}
	return deadline
}

func orSucceeded(err error) error {
	if err == nil {
		return errors.New("it succeeded")
	}
	return err
}

// attempt connects and, for UDP, sends a datagram and waits for what comes back.
// It returns its own address.
func attempt(ns *namespace, network string, to netip.AddrPort, deadline time.Time) (local netip.AddrPort, err error) {
	err = procs.DoIn(ns.path(), func() error {
		d := net.Dialer{Deadline: deadline, Control: func(_, _ string, c syscall.RawConn) error {
			return bindFirst(c, to.Addr().Is4(), &local)
		}}
		c, err := d.Dial(network, to.String())
		if err != nil {
			return err
		}
		defer c.Close()
		if network == "tcp" {
			return nil
		}
		_ = c.SetDeadline(deadline)
		if _, err := c.Write([]byte("wallproof-verify")); err != nil {
			return err
		}
		_, err = c.Read(make([]byte, 64))
		return err
	})
	return local, err
}

// bindFirst gives the socket a port before it connects, so that the port of a
// refused attempt is known.
func bindFirst(c syscall.RawConn, v4 bool, local *netip.AddrPort) error {
	var opErr error
	err := c.Control(func(fd uintptr) {
		var any unix.Sockaddr = &unix.SockaddrInet6{}
		if v4 {
			any = &unix.SockaddrInet4{}
		}
		if opErr = unix.Bind(int(fd), any); opErr != nil {
			return
		}
		var sa unix.Sockaddr
		if sa, opErr = unix.Getsockname(int(fd)); opErr != nil {
			return
		}
		switch a := sa.(type) {
		case *unix.SockaddrInet4:
			*local = netip.AddrPortFrom(netip.AddrFrom4(a.Addr), uint16(a.Port))
		case *unix.SockaddrInet6:
			*local = netip.AddrPortFrom(netip.AddrFrom16(a.Addr), uint16(a.Port))
		}
	})
	return errors.Join(err, opErr)
}

func awaitRecord(ctx context.Context, recorded <-chan Denial, network string, local netip.AddrPort, deadline time.Time) error {
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	for {
		select {
		case d := <-recorded:
			if d.Proto == network && d.Src.Port() == local.Port() && d.Rule == RuleDeny {
				return nil
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// listenAt opens a UDP socket in the world at an address and port that nothing
// else there has. It is transparent, so that the world's tproxy rule, too, finds
// it once it is connected.
func (s *Stage) listenAt(at netip.AddrPort) (*net.UDPConn, error) {
	var conn net.PacketConn
	err := procs.DoIn(s.world.path(), func() error {
		lc := net.ListenConfig{Control: switchOn(originalDst(at.Addr().Is4()))}
		var err error
		conn, err = lc.ListenPacket(context.Background(), "udp", at.String())
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("listen at %s in the world: %w", at, err)
	}
	return conn.(*net.UDPConn), nil
}

// arrivedAlready tells whether a datagram waits, without waiting for one.
// Delivery over a veth pair is over before the sender's refusal can have been
// seen.
func arrivedAlready(conn *net.UDPConn) (bool, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return false, err
	}
	var opErr error
	err = raw.Control(func(fd uintptr) {
		_, _, opErr = unix.Recvfrom(int(fd), make([]byte, 1), unix.MSG_DONTWAIT|unix.MSG_PEEK)
	})
	if errors.Is(opErr, unix.EAGAIN) {
		return false, err
	}
	return true, errors.Join(err, opErr)
}

// verifyArrives sends a datagram from the box to an address far away and answers
// it from there.
func (s *Stage) verifyArrives(ctx context.Context, i int, from netip.Addr, to netip.AddrPort) error {
	deadline := deadlineOf(ctx)
	world, err := s.listenAt(to)
	if err != nil {
		return err
	}
	defer world.Close()
	box, err := s.dialFromBox(i, from, to)
	if err != nil {
		return fmt.Errorf("%w: udp from box %s to %s: %w", ErrNotInPlace, s.boxes[i].Name, to, err)
	}
	defer box.Close()
	if err := connectTo(world, box.LocalAddr().(*net.UDPAddr).AddrPort()); err != nil {
		return err
	}
	_ = world.SetDeadline(deadline)
	_ = box.SetDeadline(deadline)
	if err := roundTrip(box, world); err != nil {
		return fmt.Errorf("%w: udp from box %s to %s: %w", ErrNotInPlace, s.boxes[i].Name, to, err)
	}
	return nil
}

func (s *Stage) dialFromBox(i int, from netip.Addr, to netip.AddrPort) (net.Conn, error) {
	var c net.Conn
	err := procs.DoIn(s.boxNS[i].path(), func() error {
		d := net.Dialer{LocalAddr: net.UDPAddrFromAddrPort(netip.AddrPortFrom(from, 0))}
		var err error
		c, err = d.Dial("udp", to.String())
		return err
	})
	return c, err
}

func connectTo(c *net.UDPConn, peer netip.AddrPort) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var sa unix.Sockaddr = &unix.SockaddrInet6{Port: int(peer.Port()), Addr: peer.Addr().As16()}
	if peer.Addr().Is4() {
		sa = &unix.SockaddrInet4{Port: int(peer.Port()), Addr: peer.Addr().As4()}
	}
	var opErr error
	err = raw.Control(func(fd uintptr) { opErr = unix.Connect(int(fd), sa) })
	if err = errors.Join(err, opErr); err != nil {
		return fmt.Errorf("connect the world's socket to %s: %w", peer, err)
	}
	return nil
}

func roundTrip(box net.Conn, world *net.UDPConn) error {
	const question, answer = "wallproof-verify", "wallproof-verified"
	if _, err := box.Write([]byte(question)); err != nil {
		return err
	}
	buf := make([]byte, 64)
	n, _, err := world.ReadFromUDPAddrPort(buf)
	if err != nil {
		return fmt.Errorf("it did not arrive: %w", err)
	}
	if string(buf[:n]) != question {
		return errors.New("something else arrived")
	}
	if err := answerFrom(world, answer); err != nil {
		return err
	}
	if n, err = box.Read(buf); err != nil {
		return fmt.Errorf("the answer did not come back: %w", err)
	}
	if string(buf[:n]) != answer {
		return errors.New("something else came back")
	}
	return nil
}

// answerFrom sends over a socket that was connected behind the net package's
// back, so by the system call itself.
func answerFrom(c *net.UDPConn, text string) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var opErr error
	err = raw.Write(func(fd uintptr) bool {
		_, opErr = unix.Write(int(fd), []byte(text))
		return opErr != unix.EAGAIN
	})
	if err = errors.Join(err, opErr); err != nil {
		return fmt.Errorf("answer from the world: %w", err)
	}
	return nil
}
