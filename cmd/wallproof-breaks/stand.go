//go:build breaks

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/battery"
	"github.com/wallproof/wallproof/battery/breaks"
	"github.com/wallproof/wallproof/battery/image"
	"github.com/wallproof/wallproof/battery/judge"
	"github.com/wallproof/wallproof/battery/sandbox"
	"github.com/wallproof/wallproof/battery/sandbox/drivers"
	"github.com/wallproof/wallproof/internal/demo"
	"github.com/wallproof/wallproof/internal/version"
	"github.com/wallproof/wallproof/policy"
	"github.com/wallproof/wallproof/probes/catalog"
)

// stand is what all breaks of one invocation are tried on.
type stand struct {
	dir    string // scratch; the packets are not kept
	bin    string
	all    bool
	policy *policy.Policy
	image  *image.Resolved
	driver sandbox.Driver
	stop   func() error
	caught map[catalog.Vector][2]int // caught, seeded
	runs   int
}

func newStand(ctx context.Context, policyFile string, all bool) (*stand, error) {
	if os.Geteuid() != 0 {
		return nil, errors.New("this needs root, to build real boundaries")
	}
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this executable: %w", err)
	}
	s := &stand{bin: filepath.Dir(self), all: all, caught: map[catalog.Vector][2]int{}}
	data := demo.Policy
	if policyFile != "" {
		if data, err = os.ReadFile(policyFile); err != nil {
			return nil, fmt.Errorf("read the policy: %w", err)
		}
	}
	if s.policy, err = policy.Parse(policyFile, data); err != nil {
		return nil, err
	}
	if s.driver, err = drivers.New(drivers.Default, drivers.Options{}); err != nil {
		return nil, err
	}
	ref, stop, err := demo.ServeImage(ctx, filepath.Join(s.bin, "wallproof-agent"))
	if err != nil {
		return nil, err
	}
	s.stop = stop
	if s.image, err = image.Resolve(ctx, ref, image.Options{}); err != nil {
		return nil, errors.Join(err, stop())
	}
	if s.dir, err = os.MkdirTemp("", "wallproof-breaks-"); err != nil {
		return nil, errors.Join(err, stop())
	}
	return s, nil
}

func (s *stand) close() {
	s.stop()
	os.RemoveAll(s.dir)
}

// runFile runs the battery against one break.
func (s *stand) runFile(ctx context.Context, file string) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	b, err := breaks.Parse(file, data)
	if err != nil {
		return err
	}
	hooks, err := b.Hooks()
	if err != nil {
		return err
	}
	s.runs++
	out := filepath.Join(s.dir, fmt.Sprint(s.runs))
	opt := battery.Options{Image: s.image, Policy: s.policy, Driver: s.driver, Out: out, Self: []string{"/proc/self/exe"},
		Probe: filepath.Join(s.bin, "wallproof-probe"), Agent: filepath.Join(s.bin, "wallproof-agent"),
		Tool: manifest.Tool{Version: version.String()}, Breaks: hooks}
	if b.Expect == breaks.ExpectNothingBlocked {
		opt.AttemptTimeout = deadTimeout
	}
	if !s.all {
		opt.Select = &manifest.Selection{Only: b.CaughtBy}
	}
	if _, err := battery.Run(ctx, opt); err != nil {
		return err
	}
	defer os.RemoveAll(out)
	return s.count(b, filepath.Join(out, "packet"))
}

// count reads the manifest and tells whether a technique that the break names
// escaped.
func (s *stand) count(b *breaks.Break, packet string) error {
	f, err := os.Open(filepath.Join(packet, "manifest.jsonl"))
	if err != nil {
		return err
	}
	defer f.Close()
	m, err := manifest.Read(f)
	if err != nil {
		return err
	}
	by, seen := noticed(b, m.Techniques)
	t, _ := catalog.Lookup(b.CaughtBy[0])
	n := s.caught[t.Vector]
	n[1]++
	if by != "" {
		n[0]++
		fmt.Printf("caught  %-34s by %s\n", b.Name, by)
	} else {
		fmt.Printf("MISSED  %-34s %v\n", b.Name, seen)
	}
	s.caught[t.Vector] = n
	return nil
}

// deadTimeout bounds an attempt where nothing answers.
const deadTimeout = 4 * time.Second

// noticed says what noticed the break, "" when nothing did, and what each of the
// named techniques came to.
func noticed(b *breaks.Break, entries []manifest.Technique) (by string, seen []string) {
	blocked := ""
	for _, e := range entries {
		if !slices.Contains(b.CaughtBy, e.Technique) {
			continue
		}
		name := e.Technique + "/" + e.Variant
		seen = append(seen, fmt.Sprintf("%s %s (%s)", name, e.Outcome, e.Reason))
		switch judge.Outcome(e.Outcome) {
		case judge.Escaped:
			if by == "" {
				by = name
			}
		case judge.Blocked:
			blocked = name
		}
	}
	if b.Expect == breaks.ExpectNothingBlocked {
		if blocked != "" || len(seen) == 0 {
			return "", seen
		}
		return fmt.Sprintf("all: none of %d attempts is called blocked", len(seen)), seen
	}
	return by, seen
}

// summary prints one line a vector and the total.
func (s *stand) summary(w io.Writer) (caught, total int) {
	for _, v := range catalog.Vectors() {
		n := s.caught[v]
		if n[1] == 0 {
			continue
		}
		fmt.Fprintf(w, "%s: %d/%d\n", v, n[0], n[1])
		caught, total = caught+n[0], total+n[1]
	}
	fmt.Fprintf(w, "total: %d/%d\n", caught, total)
	return caught, total
}
