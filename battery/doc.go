// Package battery runs the attacks: it resolves what is to be tested, plans
// which techniques apply, runs each of them twice (the control, with the boundary
// removed, and the attack, against the real one), joins what both sides saw,
// has it judged, and records it.
//
// Each phase has namespaces, a world, sandboxes, canaries and an authentication key
// of its own and shares nothing with the other, so that both run at the same
// time. The control removes the boundary and never the sandbox: the router
// forwards everything to a world of our own, the open proxy of package witness
// stands where the enforcing one would, file and memory canaries are planted
// inside, and tenants share a folder on purpose.
//
// No real secret is ever resolved here. Everything that the policy would inject
// is a canary.
package battery
