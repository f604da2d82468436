package battery

import (
	"bytes"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/wallproof/wallproof/attest/packet"
)

// TestResidue (D15): a secret that was left anywhere on the machine, in whatever
// encoding, is found, in the place where it lies; the rest of the machine is not.
func TestResidue(t *testing.T) {
	const secret = "wpcanaryabcdefghijklmnopqrstuvwx234567abcd"
	since := time.Now().Add(-time.Second)
	for name, c := range map[string]struct {
		leave func(p *residuePlaces, write func(path, text string))
		want  string // place, "" for none
	}{
		"nothing":                {func(*residuePlaces, func(string, string)) {}, ""},
		"a temporary file":       {func(p *residuePlaces, w func(string, string)) { w("tmp/a/b/c", "x"+secret) }, packet.ResidueTemporary},
		"in hex":                 {func(p *residuePlaces, w func(string, string)) { w("tmp/a", hex.EncodeToString([]byte(secret))) }, packet.ResidueTemporary},
		"behind a megabyte":      {func(p *residuePlaces, w func(string, string)) { w("tmp/a", strings.Repeat("x", 1<<20-7)+secret) }, packet.ResidueTemporary},
		"a core dump":            {func(p *residuePlaces, w func(string, string)) { w("cores/core.1", "\x7fELF"+secret) }, packet.ResidueCores},
		"swap":                   {func(p *residuePlaces, w func(string, string)) { w("swapfile", secret) }, packet.ResidueSwap},
		"a snapshot":             {func(p *residuePlaces, w func(string, string)) { w("state/snapshot/pages", secret) }, packet.ResidueState},
		"the packet itself":      {func(p *residuePlaces, w func(string, string)) { w("tmp/packet/manifest", secret) }, ""},
		"a file from before":     {func(p *residuePlaces, w func(string, string)) { w("tmp/old", secret) }, ""},
		"a link out of the tree": {func(p *residuePlaces, w func(string, string)) { w("elsewhere", secret) }, ""},
	} {
		dir := t.TempDir()
		at := func(path string) string { return filepath.Join(dir, path) }
		p := residuePlaces{temporary: []string{at("tmp")}, cores: []string{at("cores")}, swaps: []string{at("swapfile")}, state: at("state"), except: at("tmp/packet")}
		write := func(path, text string) {
			if err := os.MkdirAll(filepath.Dir(at(path)), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(at(path), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		write("tmp/harmless", "nothing")
		write("swapfile", strings.Repeat("y", 4096))
		c.leave(&p, write)
		switch name {
		case "a file from before":
			old := since.Add(-time.Hour)
			if err := os.Chtimes(at("tmp/old"), old, old); err != nil {
				t.Fatal(err)
			}
		case "a link out of the tree":
			if err := os.Symlink(at("elsewhere"), at("tmp/link")); err != nil {
				t.Fatal(err)
			}
		}
		found, control, err := searchResidue(p, []string{secret}, since)
		if err != nil {
			t.Fatal(err)
		}
		if control.Planted != 1 || control.Found != 1 {
			t.Errorf("%s: the control: %+v", name, control)
		}
		for _, r := range found {
			if (r.Hits > 0) != (r.Place == c.want) || r.Unread != 0 {
				t.Errorf("%s: %+v", name, r)
			}
		}
		if left, _ := filepath.Glob(at("tmp/!wallproof-residue-*")); len(left) > 0 {
			t.Errorf("%s: the control is still there", name)
		}
		var proof packet.Redaction
		if err := withResidue(&proof, p, []string{secret}, since); (err != nil) != (c.want != "") {
			t.Errorf("%s: %v", name, err)
		} else if err != nil && bytes.Contains([]byte(err.Error()), []byte(secret)) {
			t.Errorf("%s: the error quotes the secret", name)
		}
	}
}
