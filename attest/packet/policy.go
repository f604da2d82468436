package packet

import (
	"fmt"

	"github.com/wallproof/wallproof/attest/predicate"
	"github.com/wallproof/wallproof/internal/canon"
)

// Egress defaults.
const (
	EgressDeny  = "deny"
	EgressAllow = "allow"
)

// ReadPolicy reads what a statement says of policy.canonical.json: its digest
// and what happens to what no entry matches. The mode alone decides the default
// (see package policy).
func ReadPolicy(data []byte) (predicate.Policy, error) {
	fault := func(err error) (predicate.Policy, error) {
		return predicate.Policy{}, &Error{Reason: ReasonDocument, Path: PolicyFile, Err: err}
	}
	if err := canon.Check(data, canon.Limits{Bytes: MaxDocumentBytes}); err != nil {
		return fault(err)
	}
	var p struct {
		Mode string `json:"mode"`
	}
	if _, err := canon.UnmarshalOpen(data, canon.Limits{Bytes: MaxDocumentBytes}, &p); err != nil {
		return fault(err)
	}
	out := predicate.Policy{Digest: predicate.Digest(data)}
	switch p.Mode {
	case "allowlist", "no-network":
		out.EgressDefault = EgressDeny
	case "denylist", "public":
		out.EgressDefault = EgressAllow
	default:
		return fault(fmt.Errorf("mode %.60q is not one of allowlist, no-network, denylist, public", p.Mode))
	}
	return out, nil
}
