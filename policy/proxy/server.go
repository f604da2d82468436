package proxy

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
)

// Server enforces one run's policy on any number of listeners.
type Server struct {
	cfg Config
}

// New makes a Server: it reads the policy, makes the run's certificate
// authority, and compiles the redactor. It neither listens nor dials. An error
// means that nothing may run.
func New(cfg Config) (*Server, error) {
	return &Server{cfg: cfg}, nil
}

// CAPEM returns the certificate of the run's authority.
func (s *Server) CAPEM() []byte { return nil }

// Serve accepts connections on l until it is closed. kind is any but
// KindDNSUDP. It returns nil after Shutdown or Close.
func (s *Server) Serve(l net.Listener, kind Kind) error { return errBuilding }

// ServePacket answers name queries on pc until it is closed.
func (s *Server) ServePacket(pc net.PacketConn) error { return errBuilding }

// Update is a change of a running Server. Members left nil stay.
type Update struct {
	Policy  *string  `json:"policy,omitempty"`
	Secrets []Secret `json:"secrets,omitempty"`
}

// Reload exchanges policy and secrets as a whole or not at all. Connections
// that the new policy does not allow are closed.
func (s *Server) Reload(u Update) error { return errBuilding }

// Shutdown stops accepting, waits for connections until ctx ends, closes what
// is left, and revokes the leases.
func (s *Server) Shutdown(ctx context.Context) error { return nil }

// Close is Shutdown without waiting.
func (s *Server) Close() error { return nil }

// Redact masks every secret and lease of the run in b, in place of the same
// length, and returns how many occurrences it masked.
func (s *Server) Redact(b []byte) int { return 0 }

// Main is the proxy's process. files are the inherited descriptors that
// Config.Listeners index. It returns the process's exit code.
func Main(stdin io.Reader, stdout io.Writer, files []*os.File) int { return 1 }

// NewPlaceholder returns what a sandbox holds in the place of a secret:
// "wpplaceholder" and 32 characters of [a-z2-7] from the system's random source.
func NewPlaceholder() string { return "" }

var errBuilding = errors.New("proxy: not built yet")
