package main

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"

	"golang.org/x/sys/unix"
)

// hold waits until it is told to end and reaps every child that it inherits, as
// a sandbox's first process must.
func hold(ctx context.Context, _ io.Reader, _ io.Writer) error {
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
