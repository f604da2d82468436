package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/wallproof/wallproof/probes"
	"github.com/wallproof/wallproof/probes/plant"
	"github.com/wallproof/wallproof/probes/planter"
)

// seed has planted what its plan says and says so in one line. Where the
// sandbox's first process is ours it is the one that plants and holds; else seed
// does so itself and goes on until it is told to end.
func seed(ctx context.Context, in io.Reader, out io.Writer) error {
	var plan plant.Seed
	if err := probes.ReadJSON(in, &plan); err != nil {
		return err
	}
	ready, err := planter.Delegate(ctx, plan)
	if err == nil {
		return say(out, ready)
	}
	if !errors.Is(err, planter.ErrNoHolder) {
		return err
	}
	standing := planter.Plant(plan)
	defer standing.Close()
	if err := become(plan.Owner); err != nil {
		return err
	}
	if err := say(out, standing.Ready()); err != nil {
		return err
	}
	return wait(ctx)
}

// say prints the line that the planting waits for.
func say(out io.Writer, ready plant.Ready) error {
	if err := json.NewEncoder(out).Encode(ready); err != nil {
		return fmt.Errorf("say that it stands: %w", err)
	}
	return nil
}

// serve is the neighbour: it plants what is its own, listens, and reports.
func serve(ctx context.Context, in io.Reader, out io.Writer) error {
	var plan plant.Serve
	if err := probes.ReadJSON(in, &plan); err != nil {
		return err
	}
	w, err := probes.NewWriter(out, plan.Key)
	if err != nil {
		return err
	}
	standing := planter.Plant(plan.Seed)
	defer standing.Close()
	ready := standing.Ready()
	if err := planter.NewNeighbour(plan, w).Listen(ctx); err != nil {
		return err
	}
	if err := become(plan.Seed.Owner); err != nil {
		return err
	}
	if err := say(out, ready); err != nil {
		return err
	}
	return wait(ctx)
}
