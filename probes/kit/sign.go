// Package kit is what attempts are built from: connections by every way out of
// a sandbox, requests written byte for byte, name queries, searches, and the one
// place where an error becomes a sign. It is linked into the probe only.
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

	"github.com/wallproof/wallproof/attest/manifest"
	"golang.org/x/sys/unix"
)

// Refusal is an explicit no in a protocol: an HTTP status, a DNS response code, a
// SOCKS reply. It is an error, so that it travels like one.
type Refusal struct {
	What   string // "http", "connect", "dns", "socks"
	Status int    // of that protocol
	Reason string // X-Wallproof-Reason, if any
}

func (r *Refusal) Error() string {
	if r.Reason == "" {
		return fmt.Sprintf("%s refused with %d", r.What, r.Status)
	}
	return fmt.Sprintf("%s refused with %d (%s)", r.What, r.Status, r.Reason)
}

// Unexpected is an answer that is neither what was asked for nor a refusal.
type Unexpected struct {
	What   string
	Status int
	Detail string
}

func (u *Unexpected) Error() string {
	return fmt.Sprintf("%s answered %d %s", u.What, u.Status, u.Detail)
}

// refusals are the errnos by which a kernel or a network says no.
var refusals = map[unix.Errno]bool{
	unix.ECONNREFUSED: true,
	unix.ECONNRESET:   true,
	unix.ECONNABORTED: true,
	unix.EPIPE:        true,
	unix.EHOSTUNREACH: true,
	unix.ENETUNREACH:  true,
	unix.EACCES:       true,
	unix.EPERM:        true,
	unix.EROFS:        true,
}

// missing are the errnos that mean that there is no such facility here.
var missing = map[unix.Errno]bool{
	unix.ENOSYS:          true,
	unix.EAFNOSUPPORT:    true,
	unix.EPFNOSUPPORT:    true,
	unix.EPROTONOSUPPORT: true,
	unix.ESOCKTNOSUPPORT: true,
	unix.EOPNOTSUPP:      true,
	unix.ENOPROTOOPT:     true,
	unix.ENODEV:          true,
	unix.ENXIO:           true,
}

// absent are the errnos that mean that there is no such thing.
var absent = map[unix.Errno]bool{
	unix.ENOENT:  true,
	unix.ENOTDIR: true,
	unix.ESRCH:   true,
}

// Sign turns an error into the sign, errno, status and detail of an observation.
// A nil error gives SignAnswered.
func Sign(err error) manifest.Observation {
	var o manifest.Observation
	if err == nil {
		o.Sign = manifest.SignAnswered
		return o
	}
	o.Detail = err.Error()
	var refusal *Refusal
	var unexpected *Unexpected
	var errno unix.Errno
	switch {
	case errors.As(err, &refusal):
		o.Sign, o.Status = manifest.SignRefused, int64(refusal.Status)
	case errors.As(err, &unexpected):
		o.Sign, o.Status = manifest.SignAnswered, int64(unexpected.Status)
	case isAlert(err):
		o.Sign = manifest.SignRefused
	case errors.As(err, &errno):
		o.Errno = errnoName(errno)
		o.Sign = errnoSign(errno)
	case isTimeout(err):
		o.Sign = manifest.SignTimeout
	case errors.Is(err, fs.ErrNotExist):
		o.Sign = manifest.SignAbsent
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, net.ErrClosed):
		o.Sign = manifest.SignClosed
	default:
		o.Sign = manifest.SignError
	}
	return o
}

func errnoSign(errno unix.Errno) string {
	switch {
	case refusals[errno]:
		return manifest.SignRefused
	case missing[errno]:
		return manifest.SignMissing
	case absent[errno]:
		return manifest.SignAbsent
	case errno == unix.ETIMEDOUT || errno == unix.EAGAIN:
		return manifest.SignTimeout
	}
	return manifest.SignError
}

func errnoName(errno unix.Errno) string {
	if name := unix.ErrnoName(errno); name != "" {
		return name
	}
	return fmt.Sprintf("errno %d", int(errno))
}

// isAlert reports whether the peer ended a TLS handshake with an alert.
func isAlert(err error) bool {
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "remote error" {
		return true
	}
	var alert tls.AlertError
	return errors.As(err, &alert)
}

func isTimeout(err error) bool {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) || errors.Is(err, os.ErrDeadlineExceeded) {
		return true
	}
	var ne net.Error
	return errors.As(err, &ne) && ne.Timeout()
}

// Missing returns the observation of an attempt that lacks what it needs.
func Missing(detail string) manifest.Observation {
	return manifest.Observation{Sign: manifest.SignMissing, Detail: detail}
}
