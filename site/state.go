package site

import "github.com/wallproof/wallproof/site/history"

// State is what the site says of one attestation.
type State = history.State

// The states. Only StateCurrent supports a claim.
const (
	StateCurrent = history.StateCurrent
	StateHeld    = history.StateHeld
	StateInvalid = history.StateInvalid
	StateRemoved = history.StateRemoved // in the history alone: no packet of this build
)
