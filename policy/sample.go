package policy

import "github.com/wallproof/wallproof/policy/host"

// Sample is a concrete request that an entry or rule is about.
type Sample struct {
	Entry   string   // as in Decision.Entry
	Line    int      //
	Request Request  // what to send; for wildcards with a label of our own
	Secrets []string // injected into it, by name
	Wild    bool     // the host is one of many that the entry covers
}

// Allowed returns one concrete allowed request for each allow entry for which
// there is one, in the entries' order, at most max.
func (e *Evaluator) Allowed(max int) []Sample { return nil }

// Injected returns one concrete request for each injection rule that an allowed
// request can reach.
func (e *Evaluator) Injected() []Sample { return nil }

// Brokered returns the brokered repositories.
func (e *Evaluator) Brokered() []Lease { return nil }

// Denies reports whether nothing at all may be asked of h, at any port, and the
// decision that says so.
func (e *Evaluator) Denies(h host.Host) (Decision, bool) { return Decision{}, false }

// OpensPrivate reports whether an entry opens any private, CGNAT, loopback or
// link-local range.
func (e *Evaluator) OpensPrivate() bool { return false }

// OpensMetadata reports whether an entry opens a metadata address or name.
func (e *Evaluator) OpensMetadata() bool { return false }

// OpensInternet reports whether hosts that no entry names are reachable.
func (e *Evaluator) OpensInternet() bool { return false }
