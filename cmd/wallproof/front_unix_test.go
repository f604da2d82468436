//go:build unix

package main

import (
	"os"

	"github.com/wallproof/wallproof/internal/front"
)

// What the front program hands over to must not take itself for it, by its name.
func init() {
	programs["front"] = func() { front.Main(append([]string{front.Program}, os.Args[1:]...)) }
}
