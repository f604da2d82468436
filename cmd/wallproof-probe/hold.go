package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/wallproof/wallproof/probes/open"
	"github.com/wallproof/wallproof/probes/planter"
	"golang.org/x/sys/unix"
)

// first is what the first process attempts before it does anything else.
var first string

// hold is a sandbox's first process: it makes the first attempts, if it is given
// any, holds what it is asked to plant, and does nothing else but wait.
func hold(ctx context.Context, _ io.Reader, _ io.Writer) error {
	if first != "" {
		made, err := open.Begin(ctx, first)
		if err != nil {
			return err
		}
		go made.Tell(ctx)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = planter.TakePlans(ctx) // who wants to plant does so without it
	}()
	err := wait(ctx)
	<-ended
	return err
}

// wait waits until it is told to end and reaps every child that it inherits.
func wait(ctx context.Context) error {
	children := make(chan os.Signal, 1)
	signal.Notify(children, unix.SIGCHLD)
	reap()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-children:
			reap()
		}
	}
}

// reap collects all children that have ended.
func reap() {
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, unix.WNOHANG, nil)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || pid <= 0 {
			return
		}
	}
}

// become gives up root for a user, and lets that user's other processes look at
// this one, as they could had it been started by that user.
func become(owner uint32) error {
	if owner == 0 {
		return nil
	}
	if err := syscall.Setgid(int(owner)); err != nil {
		return fmt.Errorf("become group %d: %w", owner, err)
	}
	if err := syscall.Setuid(int(owner)); err != nil {
		return fmt.Errorf("become user %d: %w", owner, err)
	}
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("become dumpable: %w", err)
	}
	return nil
}
