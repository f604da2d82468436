package kit

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"testing"

	"github.com/wallproof/wallproof/attest/manifest"
	"golang.org/x/sys/unix"
)

func TestSign(t *testing.T) {
	op := func(errno unix.Errno) error {
		return &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", errno)}
	}
	for _, tt := range []struct {
		name        string
		err         error
		sign, errno string
		status      int64
	}{
		{"nothing", nil, manifest.SignAnswered, "", 0},
		{"reset by a filter", op(unix.ECONNREFUSED), manifest.SignRefused, "ECONNREFUSED", 0},
		{"reset later", op(unix.ECONNRESET), manifest.SignRefused, "ECONNRESET", 0},
		{"admin prohibited", op(unix.EHOSTUNREACH), manifest.SignRefused, "EHOSTUNREACH", 0},
		{"no route", op(unix.ENETUNREACH), manifest.SignRefused, "ENETUNREACH", 0},
		{"not permitted", op(unix.EPERM), manifest.SignRefused, "EPERM", 0},
		{"access", fmt.Errorf("open: %w", unix.EACCES), manifest.SignRefused, "EACCES", 0},
		{"no such call", unix.ENOSYS, manifest.SignMissing, "ENOSYS", 0},
		{"no such family", op(unix.EAFNOSUPPORT), manifest.SignMissing, "EAFNOSUPPORT", 0},
		{"no address of that family", op(unix.EADDRNOTAVAIL), manifest.SignError, "EADDRNOTAVAIL", 0},
		{"no file", &fs.PathError{Op: "open", Path: "x", Err: unix.ENOENT}, manifest.SignAbsent, "ENOENT", 0},
		{"kernel's timeout", op(unix.ETIMEDOUT), manifest.SignTimeout, "ETIMEDOUT", 0},
		{"deadline", &net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}, manifest.SignTimeout, "", 0},
		{"context", fmt.Errorf("dial: %w", context.DeadlineExceeded), manifest.SignTimeout, "", 0},
		{"end", io.EOF, manifest.SignClosed, "", 0},
		{"cut", fmt.Errorf("read: %w", io.ErrUnexpectedEOF), manifest.SignClosed, "", 0},
		{"proxy's no", fmt.Errorf("connect: %w", &Refusal{What: "connect", Status: 403, Reason: "default-deny"}), manifest.SignRefused, "", 403},
		{"alert", &net.OpError{Op: "remote error", Err: tls.AlertError(49)}, manifest.SignRefused, "", 0},
		{"odd answer", &Unexpected{What: "connect", Status: 500}, manifest.SignAnswered, "", 500},
		{"anything else", errors.New("oh"), manifest.SignError, "", 0},
	} {
		o := Sign(tt.err)
		if o.Sign != tt.sign || o.Errno != tt.errno || o.Status != tt.status {
			t.Errorf("%s: %+v", tt.name, o)
		}
	}
}

func TestWayOf(t *testing.T) {
	for variant, want := range map[string]struct {
		way Way
		v6  bool
	}{
		"direct-v4": {Direct, false}, "direct-v6": {Direct, true}, "absolute-v6": {Absolute, true}, "connect-v4": {Connect, false},
		"socks-v4": {Socks, false}, "default": {Direct, false}, "": {Direct, false},
	} {
		if way, v6 := WayOf(variant); way != want.way || v6 != want.v6 {
			t.Errorf("WayOf(%q) = %s, %v", variant, way, v6)
		}
	}
}

func TestWorse(t *testing.T) {
	o := func(sign, obtained, local string) manifest.Observation {
		out := manifest.Observation{Sign: sign, Local: []string{local}}
		if obtained != "" {
			out.Obtained = []string{obtained}
		}
		return out
	}
	got := Worse(o(manifest.SignRefused, "a", "tcp/1"), o(manifest.SignReached, "b", "tcp/2"))
	if got.Sign != manifest.SignReached || len(got.Obtained) != 2 || len(got.Local) != 2 {
		t.Errorf("%+v", got)
	}
	order := []string{manifest.SignRefused, manifest.SignSent, manifest.SignError, manifest.SignTimeout, manifest.SignClosed, manifest.SignAnswered, manifest.SignReached}
	for i := 1; i < len(order); i++ {
		for _, pair := range [][2]string{{order[i-1], order[i]}, {order[i], order[i-1]}} {
			if got := Worse(o(pair[0], "", ""), o(pair[1], "", "")); got.Sign != order[i] {
				t.Errorf("of %s and %s, %s was reported", pair[0], pair[1], got.Sign)
			}
		}
	}
}
