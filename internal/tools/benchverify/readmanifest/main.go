// Readmanifest reads a manifest as a verifier does, so that what that takes can be
// measured from outside:
//
//	readmanifest chain FILE     the chain of hashes alone
//	readmanifest strict FILE    every rule, the chain and the Merkle root
package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/wallproof/wallproof/attest/manifest"
)

func main() {
	if err := read(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "readmanifest:", err)
		os.Exit(1)
	}
}

func read(args []string) error {
	if len(args) != 2 || args[0] != "chain" && args[0] != "strict" {
		return errors.New("usage: readmanifest chain|strict FILE")
	}
	f, err := os.Open(args[1])
	if err != nil {
		return err
	}
	defer f.Close()
	if args[0] == "chain" {
		_, _, err = manifest.Chain(f)
		return err
	}
	for r := manifest.NewReader(f); ; {
		if _, err := r.Next(); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
}
