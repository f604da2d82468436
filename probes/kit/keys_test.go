package kit

import (
	"crypto/rand"
	"testing"

	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/probes"
	"github.com/wallproof/wallproof/probes/canary"
	"golang.org/x/sys/unix"
)

// A key that stands in the user's keyring is found, under whatever name, and nothing
// is found when it has gone.
func TestKeysAreFound(t *testing.T) {
	c, err := canary.New(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	name := "wallproof-test-" + c[len(c)-8:]
	look := func(known string) manifest.Observation {
		s := NewSearch(t.Context(), &probes.Env{Facts: &probes.Facts{}})
		s.Keys(known)
		return s.Observation()
	}
	holds := func(o manifest.Observation) bool {
		for _, d := range o.Obtained {
			if d == canary.Digest(c) {
				return true
			}
		}
		return false
	}
	if err := MakeKey(name, []byte("token: "+c+"\n")); err != nil {
		t.Fatalf("leave a key (this needs a kernel with keyrings): %v", err)
	}
	for _, known := range []string{name, "another-name"} {
		if o := look(known); !holds(o) {
			t.Errorf("looking for %s: %s, obtained %v", known, o.Detail, o.Obtained)
		}
	}
	id, err := unix.KeyctlSearch(userKeyring, "user", name, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := unix.KeyctlInt(unix.KEYCTL_REVOKE, id, 0, 0, 0); err != nil {
		t.Fatal(err)
	}
	if holds(look(name)) {
		t.Error("a key that has gone is found")
	}
}
