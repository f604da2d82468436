package proxy

import "time"

// Limits bound what a sandbox can make the proxy spend. Zero means the default
// beside it, never unlimited. Times are in milliseconds in JSON.
type Limits struct {
	Connections   int   `json:"connections,omitempty"`   // concurrent client connections
	HeadBytes     int   `json:"headBytes,omitempty"`     // one request or response head, trailers likewise
	Headers       int   `json:"headers,omitempty"`       // header fields in a head
	HeadTimeoutMs int   `json:"headTimeoutMs,omitempty"` // to receive a head, a ClientHello, a SOCKS greeting
	IdleTimeoutMs int   `json:"idleTimeoutMs,omitempty"` // without a byte in either direction
	DialTimeoutMs int   `json:"dialTimeoutMs,omitempty"` // name lookup and dial, each
	MemoryBytes   int64 `json:"memoryBytes,omitempty"`   // soft limit of the process
}

// Defaults of Limits.
const (
	DefaultConnections = 4096
	DefaultHeadBytes   = 64 << 10
	DefaultHeaders     = 128
	DefaultHeadTimeout = 15 * time.Second
	DefaultIdleTimeout = 10 * time.Minute
	DefaultDialTimeout = 10 * time.Second
	DefaultMemoryBytes = 1 << 30
)

func (l Limits) withDefaults() Limits {
	setInt(&l.Connections, DefaultConnections)
	setInt(&l.HeadBytes, DefaultHeadBytes)
	setInt(&l.Headers, DefaultHeaders)
	setInt(&l.HeadTimeoutMs, int(DefaultHeadTimeout/time.Millisecond))
	setInt(&l.IdleTimeoutMs, int(DefaultIdleTimeout/time.Millisecond))
	setInt(&l.DialTimeoutMs, int(DefaultDialTimeout/time.Millisecond))
	if l.MemoryBytes <= 0 {
		l.MemoryBytes = DefaultMemoryBytes
	}
	return l
}

func setInt(p *int, def int) {
	if *p <= 0 {
		*p = def
	}
}

func (l Limits) headTimeout() time.Duration { return time.Duration(l.HeadTimeoutMs) * time.Millisecond }
func (l Limits) idleTimeout() time.Duration { return time.Duration(l.IdleTimeoutMs) * time.Millisecond }
func (l Limits) dialTimeout() time.Duration { return time.Duration(l.DialTimeoutMs) * time.Millisecond }
