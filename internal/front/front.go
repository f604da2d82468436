// Package front is the program that users start on Unix, wallproof as `make build`
// installs it. It verifies by itself, and quickly: it carries no more than the
// auditor's program does. Every other command line it hands over, untouched, to the
// program beside it that has all commands (cmd/wallproof, installed as
// wallproof-boundary), in its own place: same process, arguments, descriptors and
// working folder.
//
// It takes a command line only where it understands all of it. In any doubt, even
// about a flag's name, it hands over, so there is one program that says what is wrong.
package front

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/wallproof/wallproof/internal/version"
)

const (
	// Program is the name that users type.
	Program = "wallproof"
	// Boundary is the program with all commands.
	Boundary = "wallproof-boundary"
	// mark is a variable that tells Boundary the version of who hands over.
	mark = "WALLPROOF_HANDED_OVER_BY"
)

// Check refuses to go on in a program that another version has handed over to. What
// one verifies and the other signs must be the same.
func Check() error {
	by := os.Getenv(mark)
	if by == "" {
		return nil
	}
	if err := os.Unsetenv(mark); err != nil {
		return err
	}
	if own := version.String(); by != own {
		return fmt.Errorf("%s is version %s, but %s beside it is version %s: install both from the same build", Program, by, Boundary, own)
	}
	return nil
}

// Typed is the program that a user types to start this one again.
func Typed(self string) string {
	if filepath.Base(self) != Boundary {
		return self
	}
	typed := filepath.Join(filepath.Dir(self), Program)
	if info, err := os.Stat(typed); err != nil || !info.Mode().IsRegular() {
		return self
	}
	return typed
}
