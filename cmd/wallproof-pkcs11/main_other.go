//go:build !((linux || darwin) && (amd64 || arm64))

package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "sigstore-kms-pkcs11: modules can be loaded on Linux and macOS, on 64-bit processors, only")
	os.Exit(1)
}
