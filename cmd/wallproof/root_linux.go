package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"

	"github.com/wallproof/wallproof/internal/front"
	"github.com/wallproof/wallproof/internal/term"
	"golang.org/x/sys/unix"
)

// needRoot says in one sentence what a command needs, or, on a terminal with
// sudo at hand, starts the same command line again through it and does not
// return.
func needRoot(command string) error {
	if os.Geteuid() == 0 {
		return nil
	}
	self, err := os.Executable()
	sudo, missing := exec.LookPath("sudo")
	if err == nil && missing == nil && term.StyleOf(os.Stdin).Live {
		fmt.Fprintf(os.Stderr, "wallproof: %s needs root; asking sudo for it\n", command)
		argv := append([]string{"sudo", "--preserve-env=NO_COLOR,TERM", "--", front.Typed(self)}, os.Args[1:]...)
		err = unix.Exec(sudo, argv, os.Environ())
	}
	if err != nil {
		return fmt.Errorf("%s needs root, and sudo could not be started: %w", command, err)
	}
	return fmt.Errorf("%s needs root, to make network namespaces and sandboxes of its own: run it as `sudo %s`", command, strings.Join(os.Args, " "))
}

func joinNames(names []string) string { return strings.Join(names, ", ") }
