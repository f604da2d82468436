package predicate

import (
	"errors"
	"fmt"
	"time"

	"github.com/wallproof/wallproof/internal/canon"
)

// LiveSchema names the format of live.json.
const LiveSchema = "wallproof.live/v1"

// Live is what is deployed at a moment, written by CI from the registry, the
// policy file and the driver. A member that is absent is not compared.
type Live struct {
	Schema    string      `json:"schema"`
	Generated string      `json:"generated"` // RFC 3339
	Image     string      `json:"image,omitempty"`
	Policy    string      `json:"policy,omitempty"`
	Fabric    *LiveFabric `json:"fabric,omitempty"`
}

// LiveFabric is the sandbox fabric at a moment; see manifest.Driver and Host.
type LiveFabric struct {
	Driver       string            `json:"driver,omitempty"`
	Version      string            `json:"version,omitempty"`
	ConfigDigest string            `json:"configDigest,omitempty"`
	Kernel       string            `json:"kernel,omitempty"`
	Arch         string            `json:"arch,omitempty"`
	Isolation    map[string]string `json:"isolation,omitempty"`
}

// MaxLiveBytes bounds a live.json.
const MaxLiveBytes = 1 << 20

// ErrLive is the class of ParseLive's errors.
var ErrLive = errors.New("not a live.json")

// ParseLive reads a live.json strictly.
func ParseLive(data []byte) (Live, error) {
	var l Live
	if err := canon.UnmarshalLimits(data, canon.Limits{Bytes: MaxLiveBytes}, &l); err != nil {
		return Live{}, fmt.Errorf("%w: %w", ErrLive, err)
	}
	if l.Schema != LiveSchema {
		return Live{}, fmt.Errorf("%w: schema is %.100q, want %q", ErrLive, l.Schema, LiveSchema)
	}
	if _, err := time.Parse(time.RFC3339, l.Generated); err != nil {
		return Live{}, fmt.Errorf("%w: generated: %w", ErrLive, err)
	}
	for _, d := range []string{l.Image, l.Policy} {
		if d == "" {
			continue
		}
		if err := CheckDigest(d); err != nil {
			return Live{}, fmt.Errorf("%w: %w", ErrLive, err)
		}
	}
	return l, nil
}
