package main

import (
	"context"
	"encoding/json"
	"io"

	"github.com/wallproof/wallproof/probes/isolation"
)

// facts prints what isolates this process.
func facts(_ context.Context, _ io.Reader, out io.Writer) error {
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	return enc.Encode(isolation.Measure())
}
