package main

import (
	"github.com/urfave/cli/v2"
	"github.com/wallproof/wallproof/internal/auditor"
)

// verifyCommands are the commands that run on every system.
func verifyCommands() []*cli.Command {
	outward := &auditor.Outward{RegistryFlags: registryFlags, Fetch: fetchEvidence, KeyServices: keyServices, SigningFlags: serviceFlags, Sign: signEvidence}
	list := append([]*cli.Command{attestCommand()}, auditor.Commands("wallproof", outward)...)
	return append(list, liveCommand(), reportCommand(), siteCommand(), diffCommand(), policyCommand(), probesCommand())
}
