package open

import (
	"context"
	"encoding/binary"
	"net/netip"
	"os"
	"runtime"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/probes"
	"github.com/wallproof/wallproof/probes/kit"
	"github.com/wallproof/wallproof/probes/nonce"
	"golang.org/x/sys/unix"
)

// This file is as much of io_uring (linux/io_uring.h) as connecting, sending and
// receiving one after the other needs.

// Operations.
const (
	opConnect = 16
	opSend    = 26
	opRecv    = 27
)

const (
	ringEntries  = 4
	offSubmit    = 0          // IORING_OFF_SQ_RING
	offComplete  = 0x8000000  // IORING_OFF_CQ_RING
	offEntries   = 0x10000000 // IORING_OFF_SQES
	enterWait    = 1          // IORING_ENTER_GETEVENTS
	entrySize    = 64         // struct io_uring_sqe
	completeSize = 16         // struct io_uring_cqe
)

// ringParams is struct io_uring_params.
type ringParams struct {
	sqEntries, cqEntries, flags, sqThreadCPU, sqThreadIdle, features, wqFD uint32
	_                                                                      [3]uint32
	sq                                                                     struct {
		head, tail, mask, entries, flags, dropped, array, _ uint32
		_                                                   uint64
	}
	cq struct {
		head, tail, mask, entries, overflow, cqes, flags, _ uint32
		_                                                   uint64
	}
}

// ring is one io_uring instance.
type ring struct {
	fd                     int
	params                 ringParams
	submit, complete, sqes []byte
}

func newRing() (*ring, error) {
	r := &ring{}
	fd, _, errno := unix.Syscall(unix.SYS_IO_URING_SETUP, ringEntries, uintptr(unsafe.Pointer(&r.params)), 0)
	if errno != 0 {
		return nil, errno
	}
	r.fd = int(fd)
	p := &r.params
	var err error
	for _, m := range []struct {
		into   *[]byte
		offset int64
		size   uint32
	}{
		{&r.submit, offSubmit, p.sq.array + p.sqEntries*4},
		{&r.complete, offComplete, p.cq.cqes + p.cqEntries*completeSize},
		{&r.sqes, offEntries, p.sqEntries * entrySize},
	} {
		if *m.into, err = unix.Mmap(r.fd, m.offset, int(m.size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE); err != nil {
			r.close()
			return nil, err
		}
	}
	return r, nil
}

func (r *ring) close() {
	for _, m := range [][]byte{r.submit, r.complete, r.sqes} {
		if m != nil {
			_ = unix.Munmap(m)
		}
	}
	unix.Close(r.fd)
}

// word is one of the ring's counters, which the kernel shares.
func word(b []byte, offset uint32) *uint32 { return (*uint32)(unsafe.Pointer(&b[offset])) }

// do submits one operation on memory and returns its result once there is one, or
// when it takes too long.
func (r *ring) do(ctx context.Context, op byte, fd int, memory []byte, length uint32, offset uint64) (int, error) {
	var pin runtime.Pinner // the kernel writes there while Go code runs
	pin.Pin(&memory[0])
	defer pin.Unpin()
	sqe := r.sqes[:entrySize]
	clear(sqe)
	sqe[0] = op
	binary.NativeEndian.PutUint32(sqe[4:], uint32(fd))
	binary.NativeEndian.PutUint64(sqe[8:], offset)
	binary.NativeEndian.PutUint64(sqe[16:], uint64(uintptr(unsafe.Pointer(&memory[0]))))
	binary.NativeEndian.PutUint32(sqe[24:], length)
	tail := atomic.LoadUint32(word(r.submit, r.params.sq.tail))
	mask := *word(r.submit, r.params.sq.mask)
	*word(r.submit, r.params.sq.array+(tail&mask)*4) = 0
	atomic.StoreUint32(word(r.submit, r.params.sq.tail), tail+1)
	if _, _, errno := unix.Syscall6(unix.SYS_IO_URING_ENTER, uintptr(r.fd), 1, 0, 0, 0, 0); errno != 0 {
		return 0, errno
	}
	poll := time.NewTicker(time.Millisecond)
	defer poll.Stop()
	for {
		if n, ok := r.result(); ok {
			if n < 0 {
				return 0, unix.Errno(-n)
			}
			return int(n), nil
		}
		select {
		case <-ctx.Done():
			return 0, os.ErrDeadlineExceeded
		case <-poll.C:
			// A task that does not enter the kernel may not see its completions.
			_, _, _ = unix.Syscall6(unix.SYS_IO_URING_ENTER, uintptr(r.fd), 0, 0, enterWait, 0, 0)
		}
	}
}

// result takes one completion.
func (r *ring) result() (int32, bool) {
	head := atomic.LoadUint32(word(r.complete, r.params.cq.head))
	if head == atomic.LoadUint32(word(r.complete, r.params.cq.tail)) {
		return 0, false
	}
	mask := *word(r.complete, r.params.cq.mask)
	n := int32(*word(r.complete, r.params.cq.cqes+(head&mask)*completeSize+8))
	atomic.StoreUint32(word(r.complete, r.params.cq.head), head+1)
	return n, true
}

func ioUring(ctx context.Context, env *probes.Env) manifest.Observation {
	r, err := newRing()
	if err != nil {
		o := kit.Sign(err)
		o.Sign = manifest.SignMissing
		return o
	}
	defer r.close()
	to := kit.Outside(env)
	domain := unix.AF_INET
	if to.Is6() {
		domain = unix.AF_INET6
	}
	fd, err := unix.Socket(domain, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return kit.Sign(err)
	}
	defer unix.Close(fd)
	port := kit.BindAny(fd)
	o := r.line(ctx, fd, to, kit.Probe(env))
	o.Local = kit.Local("tcp", port)
	return o
}

// line connects, sends a line, and reads until there is a proof or an end.
func (r *ring) line(ctx context.Context, fd int, to netip.Addr, line []byte) manifest.Observation {
	ctx, cancel := context.WithTimeout(ctx, kit.Patience)
	defer cancel()
	sa := rawAddr(to, oddTCP)
	if _, err := r.do(ctx, opConnect, fd, sa, 0, uint64(len(sa))); err != nil {
		return kit.Sign(err)
	}
	if _, err := r.do(ctx, opSend, fd, line, uint32(len(line)), 0); err != nil {
		return kit.Sign(err)
	}
	buf := make([]byte, 4096)
	n, err := r.do(ctx, opRecv, fd, buf, uint32(len(buf)), 0)
	if err != nil {
		return kit.Sign(err)
	}
	o := manifest.Observation{Sign: manifest.SignAnswered, Bytes: int64(n), Proof: nonce.FindProof(buf[:n])}
	switch {
	case n == 0:
		o.Sign = manifest.SignClosed
	case o.Proof != "":
		o.Sign = manifest.SignReached
	}
	return o
}

// rawAddr is a struct sockaddr_in or sockaddr_in6.
func rawAddr(a netip.Addr, port uint16) []byte {
	if a.Is6() {
		b := binary.NativeEndian.AppendUint16(nil, unix.AF_INET6)
		b = binary.BigEndian.AppendUint16(b, port)
		b = append(append(b, 0, 0, 0, 0), a.AsSlice()...)
		return append(b, 0, 0, 0, 0)
	}
	b := binary.NativeEndian.AppendUint16(nil, unix.AF_INET)
	b = binary.BigEndian.AppendUint16(b, port)
	return append(append(b, a.AsSlice()...), make([]byte, 8)...)
}
