package main

import (
	"os"

	"github.com/wallproof/wallproof/battery/image"
	"github.com/wallproof/wallproof/battery/witness"
	"github.com/wallproof/wallproof/policy/proxy"
)

// runInternal serves the hidden subcommands that this program starts itself
// with, in other namespaces and as other users. They are told apart before the
// command line is built, so that they start fast and carry nothing of it.
func runInternal(args []string) (code int, ok bool) {
	if len(args) < 3 || args[1] != "internal" {
		return 0, false
	}
	switch args[2] {
	case "proxy":
		return proxy.Main(os.Stdin, os.Stdout, nil), true
	case "world":
		return witness.Main(os.Stdin, os.Stdout, nil), true
	case "unpack":
		return image.UnpackMain(args[3:]), true
	}
	return exitUsage, true
}
