package env

import "testing"

// A label confines where a module refuses something to who bears it.
func TestConfines(t *testing.T) {
	for label, want := range map[string]bool{
		"unconfined":                                      false,
		"unconfined (enforce)":                            false,
		"docker-default (enforce)":                        true,
		"/usr/bin/thing (kill)":                           true,
		"docker-default (complain)":                       false,
		"system_u:system_r:container_t:s0:c1,c2":          true,
		"system_u:system_r:spc_t:s0":                      false,
		"unconfined_u:unconfined_r:unconfined_t:s0-s0:c1": false,
		"kernel":           false,
		"an ordinary file": false,
		"":                 false,
	} {
		if got := confines(label); got != want {
			t.Errorf("%q: %v", label, got)
		}
	}
}
