//go:build !breaks

package bundle

import (
	"os"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/wallproof/wallproof/battery/sandbox"
)

// A release build breaks nothing: what goes in comes out.

func breakProcess(_ sandbox.Spec, p *specs.Process) *specs.Process { return p }

// BreakSpec applies seeded breaks to a sandbox's configuration.
func BreakSpec(_ sandbox.Spec, s *specs.Spec) *specs.Spec { return s }

// BrokenFlags are flags of the runtime that seeded breaks add.
func BrokenFlags(sandbox.Spec) []string { return nil }

// LeakedFD is the descriptor at which a command has what it inherits, where the
// runtime lets it be chosen.
const LeakedFD = 9

// LeakedFiles are opened files that every command inherits in a seeded break.
func LeakedFiles(sandbox.Spec) []*os.File { return nil }
