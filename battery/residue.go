package battery

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/wallproof/wallproof/attest/packet"
	"github.com/wallproof/wallproof/policy/proxy/redact"
)

// Secrets never touch a disk: after everything is torn down, the places of this
// machine where one could have been left are searched for every secret and
// canary, in every encoding. Each place is bounded; what was not read is counted.

// Bounds of a place.
const (
	maxResidueFiles = 20000
	maxResidueBytes = 512 << 20
	maxResidueDepth = 8
	residueBuffer   = 256 << 10
)

// residuePlaces are where things are left on a machine.
type residuePlaces struct {
	temporary []string // folders for temporary files
	cores     []string // folders that core dumps go to
	swaps     []string // files and devices that memory is swapped to
	state     string   // the run's folder, with its snapshots: must be gone
	except    string   // the packet, which has a search of its own
}

// machinePlaces are this machine's.
func machinePlaces(state, packetDir string) residuePlaces {
	p := residuePlaces{
		temporary: []string{os.TempDir(), "/tmp", "/var/tmp", "/dev/shm"},
		cores:     []string{"/var/lib/systemd/coredump", "/var/crash", "/var/lib/apport/coredump", "/cores"},
		swaps:     swapFiles(), state: state,
	}
	if b, err := os.ReadFile("/proc/sys/kernel/core_pattern"); err == nil {
		if pattern := strings.TrimSpace(string(b)); filepath.IsAbs(pattern) {
			p.cores = append(p.cores, filepath.Dir(pattern))
		}
	}
	if abs, err := filepath.Abs(packetDir); err == nil {
		p.except = abs
	}
	return p
}

// swapFiles lists what the kernel swaps to.
func swapFiles() []string {
	b, err := os.ReadFile("/proc/swaps")
	if err != nil {
		return nil
	}
	var out []string
	for i, line := range strings.Split(strings.TrimSpace(string(b)), "\n") {
		if f := strings.Fields(line); i > 0 && len(f) > 0 {
			out = append(out, strings.ReplaceAll(f[0], `\040`, " "))
		}
	}
	return out
}

// searchResidue searches the places for what was left since the run began. The
// control is a value of its own, written into the first temporary folder for as
// long as the search takes: it must be found there.
func searchResidue(p residuePlaces, secrets []string, since time.Time) (found []packet.Residue, control packet.RedactionControl, err error) {
	var raw [20]byte
	if _, err := rand.Read(raw[:]); err != nil {
		return nil, control, err
	}
	marker := "wallproof-residue-" + hex.EncodeToString(raw[:])
	all, err := compileValues(secrets)
	if err != nil {
		return nil, control, err
	}
	marked, err := compileValues([]string{marker})
	if err != nil {
		return nil, control, err
	}
	s := newResidueSearch(all, marked, since)
	s.except = p.except
	if len(p.temporary) > 0 {
		// Its name comes first, so that it is reached before the bounds are.
		plant := filepath.Join(p.temporary[0], "!"+marker[:30])
		if err := os.WriteFile(plant, []byte("a control of the redaction proof: "+marker+"\n"), 0o600); err != nil {
			return nil, control, fmt.Errorf("plant the control of the search for residue: %w", err)
		}
		defer os.Remove(plant)
		control.Planted++
	}
	for _, place := range []struct {
		kind string
		list []string
	}{{packet.ResidueTemporary, p.temporary}, {packet.ResidueCores, p.cores}, {packet.ResidueState, []string{p.state}}} {
		r := packet.Residue{Place: place.kind}
		for _, dir := range place.list {
			s.folder(&r, dir, place.kind != packet.ResidueState)
		}
		found = append(found, r)
	}
	swap := packet.Residue{Place: packet.ResidueSwap}
	for _, path := range p.swaps {
		s.file(&swap, path)
	}
	control.Found = min(int64(s.marks), control.Planted)
	return append(found, swap), control, nil
}

func compileValues(values []string) (*redact.Redactor, error) {
	list := make([][]byte, len(values))
	for i, v := range values {
		list[i] = []byte(v)
	}
	r, err := redact.New(list...)
	if err != nil {
		return nil, fmt.Errorf("prepare the search for residue: %w", err)
	}
	return r, nil
}

type residueSearch struct {
	secrets, marker counter
	buf             []byte // what is read at once
	since           time.Time
	except          string
	seen            map[string]bool // folders and files that were searched already
	marks           int
}

// newResidueSearch prepares a search for secrets, and for a control's marker.
func newResidueSearch(secrets, marker *redact.Redactor, since time.Time) *residueSearch {
	return &residueSearch{secrets: counter{Redactor: secrets}, marker: counter{Redactor: marker}, buf: make([]byte, residueBuffer), since: since, seen: map[string]bool{}}
}

// folder searches the regular files of a folder that were changed since the run
// began, or all of them. A link is not followed.
func (s *residueSearch) folder(r *packet.Residue, dir string, recent bool) {
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return // there is no such place
	}
	depth := strings.Count(dir, string(filepath.Separator))
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			r.Unread++
			return fs.SkipDir
		case err != nil:
			return nil
		case d.IsDir():
			if path == s.except || s.seen[path] || strings.Count(path, string(filepath.Separator))-depth > maxResidueDepth {
				return fs.SkipDir
			}
			s.seen[path] = true
			return nil
		case !d.Type().IsRegular():
			return nil
		}
		info, err := d.Info()
		if err != nil || recent && info.ModTime().Before(s.since) {
			return nil
		}
		s.file(r, path)
		return nil
	})
}

// file searches one file or device, within the place's bounds.
func (s *residueSearch) file(r *packet.Residue, path string) {
	if r.Files >= maxResidueFiles || r.Bytes >= maxResidueBytes {
		r.Unread++
		return
	}
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return // gone meanwhile
	}
	if err != nil {
		r.Unread++
		return
	}
	defer f.Close()
	r.Files++
	n, err := s.count(io.LimitReader(f, maxResidueBytes-r.Bytes))
	r.Bytes += n
	if err != nil && !errors.Is(err, fs.ErrNotExist) || r.Bytes >= maxResidueBytes {
		r.Unread++
	}
	r.Hits += int64(s.secrets.total())
	s.marks += s.marker.total()
}

// count has the counters look at all of src. Their buffers outlive a file:
// temporary folders hold many small ones.
func (s *residueSearch) count(src io.Reader) (n int64, err error) {
	for err == nil {
		var m int
		m, err = src.Read(s.buf)
		n += int64(m)
		s.secrets.look(s.buf[:m])
		s.marker.look(s.buf[:m])
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return n, err
}

// counter counts occurrences in what it looks at, also those across the borders
// of what it looks at once.
type counter struct {
	*redact.Redactor
	buf   []byte // what is held back, and what is looked at
	held  int    // how much of buf is held back
	found int
}

// look counts what is complete in p and holds the rest back. p stays as it is.
func (c *counter) look(p []byte) {
	c.buf = append(c.buf[:c.held], p...)
	found, hold := c.Stream(c.buf, false)
	c.found += found
	c.held = copy(c.buf, c.buf[hold:])
}

// total returns the count, with what was held back at the end, and begins anew.
func (c *counter) total() int {
	n := c.found + c.Bytes(c.buf[:c.held])
	c.held, c.found = 0, 0
	return n
}

// withResidue adds a search of the machine to the proof. A hit is an error.
func withResidue(proof *packet.Redaction, places residuePlaces, secrets []string, since time.Time) error {
	found, control, err := searchResidue(places, secrets, since)
	if err != nil {
		return err
	}
	proof.Residue = found
	proof.Control.Planted += control.Planted
	proof.Control.Found += control.Found
	for _, r := range found {
		if r.Hits > 0 {
			return fmt.Errorf("%d secrets of the run were left on this machine (%s); find and remove them before anything else", r.Hits, r.Place)
		}
	}
	return nil
}
