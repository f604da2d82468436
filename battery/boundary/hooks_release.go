//go:build !breaks

package boundary

// Hooks are the seeded breaks. A release build has none: the type is empty, and
// what the builder asks of it is always the intact answer.
type Hooks struct{}

func (Hooks) check(*Config) error { return nil }

func (Hooks) editRules(*ruleset, []Box) {}

func (Hooks) forwarding(open bool) (v4, v6 bool) { return open, open }

func (Hooks) lateFilter() bool { return false }

func (Hooks) built(*Stage) error { return nil }

func (Hooks) verified(*Stage) {}

func (Hooks) begun(*Stage) {}

func (Hooks) spareLiveCheck() bool { return false }
