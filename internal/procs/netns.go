package procs

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// onThread runs fn on a thread that is thrown away afterwards, so that fn may
// change what belongs to a thread (namespace, bounding set, no_new_privs). It is
// never the process's first thread: the runtime cannot end that one, and it is
// the one that /proc/PID shows to others.
func onThread(fn func() error) error {
	done := make(chan error, 1)
	go runThrownAway(fn, done)
	return <-done
}

func runThrownAway(fn func() error, done chan<- error) {
	runtime.LockOSThread() // never unlocked: the thread ends with this goroutine
	if unix.Gettid() != unix.Getpid() {
		done <- fn()
		return
	}
	// Keep the first thread busy, so that the next goroutine gets another one.
	other := make(chan error, 1)
	go runThrownAway(fn, other)
	err := <-other
	runtime.UnlockOSThread()
	done <- err
}

// enterNetNS moves the calling thread into the namespace at path.
func enterNetNS(path string) error {
	if path == "" {
		return nil
	}
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("open network namespace: %w", err)
	}
	defer f.Close()
	if err := unix.Setns(int(f.Fd()), unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("enter network namespace %s: %w", path, err)
	}
	return nil
}

// DoIn runs fn on a thread inside the network namespace at path ("" is the
// caller's own) and returns its error. What fn opens (sockets, files below
// /proc/sys/net) belongs to that namespace for good. fn must do its system calls
// itself: a goroutine that it starts runs in the caller's namespace. Name
// resolution does start goroutines, so fn uses literal addresses.
func DoIn(path string, fn func() error) error {
	return onThread(func() error {
		if err := enterNetNS(path); err != nil {
			return err
		}
		return fn()
	})
}

// ListenIn opens a listening TCP socket ("tcp", "tcp4", "tcp6") or a bound UDP
// socket ("udp", "udp4", "udp6") at the literal address addr ("192.0.2.1:53",
// "[2001:db8::1]:53") inside the namespace at path, and returns it as a file for
// Spec.Files. The caller closes the file once the child has started.
func ListenIn(path, network, addr string) (*os.File, error) {
	return ListenConfigIn(path, net.ListenConfig{}, network, addr)
}

// ListenConfigIn is ListenIn with options: lc.Control runs inside the namespace,
// with the privileges of the caller.
func ListenConfigIn(path string, lc net.ListenConfig, network, addr string) (*os.File, error) {
	var f *os.File
	err := DoIn(path, func() error {
		var err error
		f, err = listenFile(lc, network, addr)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("listen on %s %s: %w", network, addr, err)
	}
	return f, nil
}

func listenFile(lc net.ListenConfig, network, addr string) (*os.File, error) {
	switch network {
	case "tcp", "tcp4", "tcp6":
		l, err := lc.Listen(context.Background(), network, addr)
		if err != nil {
			return nil, err
		}
		defer l.Close()
		return l.(*net.TCPListener).File()
	case "udp", "udp4", "udp6":
		c, err := lc.ListenPacket(context.Background(), network, addr)
		if err != nil {
			return nil, err
		}
		defer c.Close()
		return c.(*net.UDPConn).File()
	}
	return nil, errors.New("network must be tcp or udp, with or without 4 or 6")
}
