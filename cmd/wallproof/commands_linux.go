package main

import "github.com/urfave/cli/v2"

// platformCommands are the commands that need Linux, because they build the
// boundary.
func platformCommands() []*cli.Command {
	return append([]*cli.Command{runCommand(), execCommand(), demoCommand(), proxyCommand(), logsCommand(), doctorCommand(), gcCommand()}, haltCommands()...)
}
