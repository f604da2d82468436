//go:build !breaks

package battery

import (
	"reflect"
	"testing"

	"github.com/wallproof/wallproof/battery/sandbox"
)

// A release build has nothing to break a run or a sandbox with.
func TestReleaseHasNoBreaks(t *testing.T) {
	for _, typ := range []reflect.Type{reflect.TypeFor[Breaks](), reflect.TypeFor[sandbox.Breaks]()} {
		if n := typ.NumField(); n != 0 {
			t.Errorf("%s has %d fields", typ, n)
		}
	}
	var b Breaks
	if b.any() || b.attackOnly() {
		t.Error("a release build breaks something")
	}
}
