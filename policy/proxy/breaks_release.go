//go:build !breaks

package proxy

import (
	"bufio"
	"io"

	"github.com/wallproof/wallproof/policy/proxy/httpx"
	"github.com/wallproof/wallproof/policy/proxy/redact"
)

// Breaks is empty in a release build: there is nothing to switch off.
type Breaks struct{}

// The questions below are constants in a release build, so that the compiler
// leaves out what they guard.

func (Breaks) skip(protection) bool { return false }

func redactForms(*Config) redact.Forms { return redact.AllForms }

func (Breaks) relax(*httpx.RequestReader)                   {}
func (Breaks) misframe(*httpx.Request, *request)            {}
func (Breaks) bodyMasker(*redact.Live, io.Reader) io.Reader { return nil }

// framing is how a body's length is written when that is seeded to be wrong.
type framing struct{}

func (framing) write(*bufio.Writer) bool { return false }

func (Breaks) swapAnywhere(*rules, *request) []string { return nil }
