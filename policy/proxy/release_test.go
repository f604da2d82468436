//go:build !breaks

package proxy

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

// A release build has nothing that could be switched off.
func TestReleaseHasNoBreaks(t *testing.T) {
	if n := reflect.TypeFor[Breaks]().NumField(); n != 0 {
		t.Errorf("%d switches", n)
	}
	dec := json.NewDecoder(strings.NewReader(`{"breaks":{"noRedaction":true}}`))
	dec.DisallowUnknownFields() // as procs.Join reads a configuration
	if err := dec.Decode(&Config{}); err == nil {
		t.Error("a switch was accepted")
	}
	var b Breaks
	for p := hostAgreement; p <= dnsAddresses; p++ {
		if b.skip(p) {
			t.Errorf("protection %d can be skipped", p)
		}
	}
}
