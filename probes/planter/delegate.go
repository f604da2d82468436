package planter

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"time"

	"github.com/wallproof/wallproof/probes/plant"
	"golang.org/x/sys/unix"
)

// A sandbox's first process plants for others, because what it holds survives a
// checkpoint: some runtimes end processes that were executed into a sandbox when
// they restore it. It takes one plan, over an abstract socket, from a process of
// its own user, and closes the socket; the first thing that is executed in a
// sandbox is a planting, long before any code of the image.

// holderSocket is where the first process takes its plan.
const holderSocket = "@wallproof-hold"

// maxSeed bounds a plan.
const maxSeed = 4 << 20

// delegateTime bounds how long handing a plan over may take.
const delegateTime = 20 * time.Second

// TakePlan waits for one plan, plants it, and answers. It returns when that is
// done, when ctx ends, or at once when the socket cannot be opened.
func TakePlan(ctx context.Context) (*Standing, error) {
	l, err := net.Listen("unix", holderSocket)
	if err != nil {
		return nil, fmt.Errorf("listen for a planting: %w", err)
	}
	defer l.Close()
	stop := context.AfterFunc(ctx, func() { l.Close() })
	defer stop()
	for {
		c, err := l.Accept()
		if err != nil {
			return nil, fmt.Errorf("listen for a planting: %w", err)
		}
		if standing := takeFrom(c); standing != nil {
			return standing, nil
		}
	}
}

// takeFrom reads a plan from one connection and plants it; nil when the peer is
// somebody else's or sent no plan.
func takeFrom(c net.Conn) *Standing {
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(delegateTime))
	if !sameUser(c) {
		return nil
	}
	var seed plant.Seed
	dec := json.NewDecoder(io.LimitReader(c, maxSeed))
	dec.DisallowUnknownFields()
	if dec.Decode(&seed) != nil {
		return nil
	}
	standing := Plant(seed)
	_ = json.NewEncoder(c).Encode(standing.Ready()) // a planter that has gone is no reason to take it down
	return standing
}

// sameUser reports whether the peer runs as the user of this process.
func sameUser(c net.Conn) bool {
	u, ok := c.(*net.UnixConn)
	if !ok {
		return false
	}
	raw, err := u.SyscallConn()
	if err != nil {
		return false
	}
	same := false
	err = raw.Control(func(fd uintptr) {
		cred, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
		same = err == nil && cred.Uid == uint32(os.Getuid())
	})
	return err == nil && same
}

// ErrNoHolder says that no first process of ours waits for a plan.
var ErrNoHolder = errors.New("no process waits for a planting")

// Delegate hands a plan to the sandbox's first process.
func Delegate(ctx context.Context, seed plant.Seed) (plant.Ready, error) {
	var ready plant.Ready
	var d net.Dialer
	c, err := d.DialContext(ctx, "unix", holderSocket)
	if errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ENOENT) {
		return ready, ErrNoHolder
	}
	if err != nil {
		return ready, fmt.Errorf("hand the plan over: %w", err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(delegateTime))
	if err := json.NewEncoder(c).Encode(seed); err != nil {
		return ready, fmt.Errorf("hand the plan over: %w", err)
	}
	line, err := bufio.NewReader(io.LimitReader(c, maxSeed)).ReadBytes('\n')
	if err != nil {
		return ready, fmt.Errorf("hand the plan over: %w", err)
	}
	if err := json.Unmarshal(line, &ready); err != nil {
		return ready, fmt.Errorf("hand the plan over: %w", err)
	}
	return ready, nil
}
