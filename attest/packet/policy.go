package packet

import (
	"fmt"
	"slices"

	"github.com/wallproof/wallproof/attest/predicate"
	"github.com/wallproof/wallproof/internal/canon"
)

// Egress defaults.
const (
	EgressDeny  = "deny"
	EgressAllow = "allow"
)

// modeNoNetwork is the mode under which nothing outside is reachable.
const modeNoNetwork = "no-network"

// ReadPolicy reads what a statement says of policy.canonical.json: its digest
// and what happens to what no entry matches. The mode alone decides the default
// (see package policy).
func ReadPolicy(data []byte) (predicate.Policy, error) {
	mode, err := readMode(data)
	if err != nil {
		return predicate.Policy{}, err
	}
	out := predicate.Policy{Digest: predicate.Digest(data), EgressDefault: EgressDeny}
	if mode == "denylist" || mode == "public" {
		out.EgressDefault = EgressAllow
	}
	return out, nil
}

// Closed reports whether policy.canonical.json leaves no host to reach, so that
// there is no allowed path whose life could be shown (see judge.Heartbeats).
func Closed(data []byte) (bool, error) {
	mode, err := readMode(data)
	return mode == modeNoNetwork, err
}

func readMode(data []byte) (string, error) {
	fault := func(err error) (string, error) {
		return "", &Error{Reason: ReasonDocument, Path: PolicyFile, Err: err}
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
	if !slices.Contains([]string{"allowlist", modeNoNetwork, "denylist", "public"}, p.Mode) {
		return fault(fmt.Errorf("mode %.60q is not one of allowlist, no-network, denylist, public", p.Mode))
	}
	return p.Mode, nil
}
