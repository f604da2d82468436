//go:build unix

// Command wallproof-front is wallproof as `make build` installs it: it verifies
// quickly, and hands everything else over to cmd/wallproof, which is installed beside
// it as wallproof-boundary. See package front.
package main

import (
	"os"

	"github.com/wallproof/wallproof/internal/front"
)

func main() { front.Main(os.Args) }
