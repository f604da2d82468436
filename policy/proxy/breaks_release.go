//go:build !breaks

package proxy

import (
	"bufio"
	"context"
	"io"
	"net/netip"

	"github.com/wallproof/wallproof/policy"
	"github.com/wallproof/wallproof/policy/host"
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

func (Breaks) readAuthority(s string, def uint16) (target, error) { return parseAuthority(s, def) }

func (Breaks) readHost(s string) (host.Host, error) { return host.Parse(s) }

func (Breaks) ignoresLater(*request) bool                  { return false }
func (Breaks) dialsHost(target)                            {}
func (Breaks) absoluteLater(*session, *httpx.Request) bool { return false }

func (Breaks) remember(*rules)                                   {}
func (Breaks) gateOpen(target) bool                              { return false }
func (Breaks) listenerOpen(*conn) bool                           { return false }
func (Breaks) opened(netip.Addr) bool                            { return false }
func (Breaks) page(*session, *httpx.Request) bool                { return false }
func (Breaks) believed(*rules, *request, *policy.Rule)           {}
func (Breaks) opens() []string                                   { return nil }
func (Breaks) ownLets() []Let                                    { return nil }
func (Breaks) ownPages() []string                                { return nil }
func (Breaks) believedFields() []string                          { return nil }
func (Breaks) unpoliced(*origin, *request, policy.Decision) bool { return false }

func (Breaks) again(_ context.Context, _ *Server, _ target, judged []netip.AddrPort) []netip.AddrPort {
	return judged
}

func (Breaks) follow(_ context.Context, _ *origin, _ *rules, _ *request, resp *response) (*response, *refusal) {
	return resp, nil
}
