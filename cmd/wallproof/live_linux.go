package main

import (
	"fmt"
	"runtime"

	"github.com/urfave/cli/v2"
	"github.com/wallproof/wallproof/attest/predicate"
	"github.com/wallproof/wallproof/battery"
	"github.com/wallproof/wallproof/battery/sandbox/drivers"
)

func fabricFlags() []cli.Flag {
	return []cli.Flag{&cli.StringFlag{Name: "driver", Usage: "the sandbox `DRIVER` in use on this machine: " + joinNames(drivers.Names())}}
}

// deployedFabric is what the driver says of itself on this machine.
func deployedFabric(c *cli.Context) (*predicate.LiveFabric, error) {
	name := c.String("driver")
	if name == "" {
		return nil, nil
	}
	d, err := openDriver(name)
	if err != nil {
		return nil, err
	}
	desc, err := d.Describe(c.Context)
	if err != nil {
		return nil, fmt.Errorf("ask the driver %s: %w", name, err)
	}
	return &predicate.LiveFabric{Driver: desc.Name, Version: desc.Version, ConfigDigest: desc.ConfigDigest, Kernel: battery.KernelRelease(), Arch: runtime.GOARCH}, nil
}

func kernelRelease() string { return battery.KernelRelease() }
