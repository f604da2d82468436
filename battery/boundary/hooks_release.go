//go:build !breaks

package boundary

// Hooks are the seeded breaks. A release build has none.
type Hooks struct{}
