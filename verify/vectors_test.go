package verify

import (
	"slices"
	"testing"

	"github.com/wallproof/wallproof/probes/catalog"
)

// The verifier's own vectors are those that its catalogue has techniques of, in
// the same order.
func TestOwnVectorsAreTheCatalogues(t *testing.T) {
	if own, all := ownVectors(), vectors(catalog.All()); !slices.Equal(own, all) {
		t.Errorf("%v, the catalogue has techniques of %v", own, all)
	}
}
