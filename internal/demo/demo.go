// Package demo holds what the demonstration and the test of the battery itself
// run on: a small policy that uses every kind of edge, its threat model, and the
// demo image served from a registry in this process.
package demo

import (
	"context"
	_ "embed"
	"fmt"
	"os"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/wallproof/wallproof/battery/image"
)

// Policy is the demo's egress policy.
//
//go:embed policy.yaml
var Policy []byte

// ThreatModel is the demo's threat model.
//
//go:embed threat-model.md
var ThreatModel []byte

// ServeImage builds the demo image around the agent binary at a path and serves
// it, so that a pull by digest is a real one. ref is its pinned reference.
func ServeImage(ctx context.Context, agentPath string) (ref string, stop func() error, err error) {
	agent, err := os.ReadFile(agentPath)
	if err != nil {
		return "", nil, fmt.Errorf("read the agent: %w", err)
	}
	img, err := image.Demo(agent, image.DemoOptions{Shell: true})
	if err != nil {
		return "", nil, err
	}
	digest, err := img.Digest()
	if err != nil {
		return "", nil, fmt.Errorf("hash the demo image: %w", err)
	}
	const name = "wallproof/demo"
	addr, stop, err := image.ServeRegistry(ctx, map[string]v1.Image{name: img})
	if err != nil {
		return "", nil, err
	}
	return fmt.Sprintf("%s/%s@%s", addr, name, digest), stop, nil
}
