//go:build !breaks

package battery

import (
	"github.com/wallproof/wallproof/battery/boundary"
	"github.com/wallproof/wallproof/battery/sandbox"
	"github.com/wallproof/wallproof/policy/proxy"
	"github.com/wallproof/wallproof/probes/plant"
)

// Breaks are the seeded breaks of the attack's boundary. A release build has
// none: the type is empty, nothing reads it, and what it is asked to change
// stays as it is.
type Breaks struct{}

func (Breaks) boundary() boundary.Hooks                           { return boundary.Hooks{} }
func (Breaks) proxy(*phase, string) proxy.Breaks                  { return proxy.Breaks{} }
func (Breaks) policy(p *phase) ([]byte, string)                   { return p.r.canonical, p.r.policyDigest }
func (Breaks) planting(_ *phase, p plant.Planting) plant.Planting { return p }
func (Breaks) spec(*phase, string, *sandbox.Spec) error           { return nil }
func (Breaks) restored(*phase, *sandbox.Spec) error               { return nil }
func (Breaks) image(*run) error                                   { return nil }

func (Breaks) authority(*phase) string { return "" }
func (Breaks) lower(*run) []plant.File { return nil }

// unmasked: in a release build all that is written is masked.
func (Breaks) unmasked(string) bool { return false }

func (Breaks) transcripts(_ *run, masked []transcriptLine) []transcriptLine { return masked }

func (Breaks) imageText(_ *phase, text string) string { return text }

// any: a release build has no break.
func (Breaks) any() bool { return false }

// attackOnly: a release build never goes without its control.
func (Breaks) attackOnly() bool { return false }

// priorLeaves: a release build's base is taken before the prior run does anything.
func (Breaks) priorLeaves(*phase) (plant.Place, bool) { return plant.Place{}, false }
