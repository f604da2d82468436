//go:build !linux

package main

import (
	"github.com/urfave/cli/v2"
	"github.com/wallproof/wallproof/attest/predicate"
)

// fabricFlags: the drivers are Linux's.
func fabricFlags() []cli.Flag { return nil }

func deployedFabric(*cli.Context) (*predicate.LiveFabric, error) { return nil, nil }

func kernelRelease() string { return "" }
