//go:build !breaks

package httpx

// leniency is empty in a release build: framing is always read strictly.
type leniency struct{}

func (leniency) lax() bool                   { return false }
func (leniency) careless(head string) string { return head }
func (leniency) laxChecks(*Request) *Error   { return nil }
