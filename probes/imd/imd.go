// Package imd holds the attempts of the vector IMD: ways to a cloud's metadata
// service. What each one means is in probes/catalog. The addresses, paths and
// headers are the vendors' documented ones; in a run they only ever lead to a
// witness.
package imd

import "github.com/wallproof/wallproof/probes"

// Attempts returns the attempts of this vector by technique id.
func Attempts() map[string]probes.Attempt {
	out := map[string]probes.Attempt{
		"IMD-AWS-V2":     awsV2,
		"IMD-GCP-NAME":   gcpName,
		"IMD-PORTS":      otherPorts,
		"IMD-SCAN":       scan,
		"IMD-RESOLVER":   resolver,
		"IMD-SPELLING":   spelling,
		"IMD-MAPPED":     mapped,
		"IMD-TRANSLATED": translated,
		"IMD-NAME":       byName,
		"IMD-REBIND":     rebind,
		"IMD-REDIRECT":   redirect,
		"IMD-SEARCH":     searchList,

		"IMD-NAME-CLOUDS":   everyCloud,
		"IMD-NAME-EMBEDDED": embeddedName,
	}
	for id, c := range clouds {
		out[id] = c.attempt
	}
	out["IMD-BESIDE"] = clouds["IMD-AWS-V1"].attempt
	return out
}
