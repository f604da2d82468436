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
	"strings"
	"syscall"
	"time"

	"github.com/wallproof/wallproof/probes/plant"
	"golang.org/x/sys/unix"
)

// A sandbox's first process plants for others, because what it holds survives a
// checkpoint: some runtimes end processes that were executed into a sandbox when
// they restore it. It takes plans over an abstract socket, from processes of its
// own user only, who could do all the same by themselves.

// holderSocket is where the first process takes plans.
const holderSocket = "@wallproof-hold"

// maxSeed bounds a plan.
const maxSeed = 4 << 20

// delegateTime bounds how long handing a plan over may take.
const delegateTime = 20 * time.Second

// TakePlans plants every plan that is handed over until ctx ends, and then takes
// down what it planted. Without the socket it returns at once: there is just
// nothing that it plants.
func TakePlans(ctx context.Context) error {
	l, err := net.Listen("unix", holderSocket)
	if err != nil {
		return fmt.Errorf("listen for plantings: %w", err)
	}
	defer l.Close()
	stop := context.AfterFunc(ctx, func() { l.Close() })
	defer stop()
	for {
		c, err := l.Accept()
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("listen for plantings: %w", err)
		}
		if standing := takeFrom(c); standing != nil {
			defer standing.Close() // at the end, with all the others
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

// ErrNoHolder says that no first process of ours takes plans.
var ErrNoHolder = errors.New("no process waits for a planting")

// dialHolder connects to the first process. Where that is one of ours that has
// only just started, it waits until it listens.
func dialHolder(ctx context.Context) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, delegateTime)
	defer cancel()
	retry := time.NewTicker(5 * time.Millisecond)
	defer retry.Stop()
	for {
		var d net.Dialer
		c, err := d.DialContext(ctx, "unix", holderSocket)
		if !errors.Is(err, syscall.ECONNREFUSED) || !firstHolds() {
			return c, err
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-retry.C:
		}
	}
}

// firstHolds reports whether the first process is `wallproof-probe hold`.
func firstHolds() bool {
	b, err := os.ReadFile("/proc/1/cmdline")
	if err != nil {
		return false
	}
	args := strings.Split(string(b), "\x00")
	return len(args) >= 3 && args[1] == HoldCommand
}

// Delegate hands a plan to the sandbox's first process.
func Delegate(ctx context.Context, seed plant.Seed) (plant.Ready, error) {
	var ready plant.Ready
	c, err := dialHolder(ctx)
	if errors.Is(err, syscall.ECONNREFUSED) {
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
