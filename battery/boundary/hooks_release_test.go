//go:build !breaks

package boundary

import (
	"reflect"
	"testing"
)

// A release build has nothing to break the boundary with.
func TestReleaseHasNoHooks(t *testing.T) {
	if typ := reflect.TypeFor[Hooks](); typ.NumField() != 0 || typ.NumMethod() != 0 {
		t.Errorf("Hooks has %d fields and %d exported methods", typ.NumField(), typ.NumMethod())
	}
}
