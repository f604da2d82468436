//go:build breaks

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
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
	"github.com/wallproof/wallproof/probes/catalog"
	"golang.org/x/sync/errgroup"
)

// stand is what all breaks of one invocation are tried on: one image and one
// driver of each name. Every try has namespaces, sandboxes and a folder of its own.
type stand struct {
	dir     string // scratch; the packets are not kept
	bin     string
	all     bool
	image   *image.Resolved
	drivers map[string]sandbox.Driver
	stop    func() error

	mu     sync.Mutex // of what follows
	out    io.Writer
	caught map[catalog.Vector][2]int // caught, seeded
	missed []string
	tries  int
}

// deadTimeout bounds an attempt where nothing answers.
const deadTimeout = 4 * time.Second

func newStand(ctx context.Context, out io.Writer, list []*breaks.Break, all bool) (*stand, error) {
	if os.Geteuid() != 0 {
		return nil, errors.New("this needs root, to build real boundaries")
	}
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this executable: %w", err)
	}
	s := &stand{bin: filepath.Dir(self), all: all, out: out, drivers: map[string]sandbox.Driver{}, caught: map[catalog.Vector][2]int{}}
	for _, b := range list {
		if s.drivers[b.Driver] != nil {
			continue
		}
		d, err := drivers.New(b.Driver, drivers.Options{})
		if err != nil {
			return nil, err
		}
		if _, err := d.Describe(ctx); err != nil {
			return nil, fmt.Errorf("use the driver %s: %w", b.Driver, err)
		}
		s.drivers[b.Driver] = d
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

// memoryPerTry is what one try takes at most of memory that is free, beside what
// its sandboxes' limits would allow: three to six sandboxes, two proxies, a
// witness.
const memoryPerTry = 1 << 30

// width is how many tries run at once: as many as there are processors, and no
// more than memory has room for.
func width(asked int) int {
	if asked > 0 {
		return asked
	}
	return max(1, min(runtime.NumCPU(), int(freeMemory()/memoryPerTry)))
}

// freeMemory is what the kernel says is available, in bytes; 0 when it does not.
func freeMemory() int64 {
	f, err := os.Open("/proc/meminfo")
	if err != nil {
		return 0
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var kib int64
		if _, err := fmt.Sscanf(lines.Text(), "MemAvailable: %d kB", &kib); err == nil {
			return kib << 10
		}
	}
	return 0
}

// runAll tries every break, several at once. One that cannot be tried is missed.
func (s *stand) runAll(ctx context.Context, list []*breaks.Break, asked int) error {
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(width(asked))
	for _, b := range list {
		g.Go(func() error {
			err := s.try(gctx, b)
			if gctx.Err() != nil {
				return gctx.Err()
			}
			if err != nil {
				s.failed(b, err)
			}
			return nil
		})
	}
	return g.Wait()
}

// try runs the battery against one break.
func (s *stand) try(ctx context.Context, b *breaks.Break) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	hooks, err := b.Hooks()
	if err != nil {
		return err
	}
	tested, err := b.Tested()
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.tries++
	out := filepath.Join(s.dir, fmt.Sprint(s.tries))
	s.mu.Unlock()
	defer os.RemoveAll(out)
	opt := battery.Options{Image: s.image, Policy: tested, Driver: s.drivers[b.Driver], Out: out, Self: []string{"/proc/self/exe"},
		Probe: filepath.Join(s.bin, "wallproof-probe"), Agent: filepath.Join(s.bin, "wallproof-agent"),
		Tool: manifest.Tool{Version: version.String()}, Breaks: hooks}
	if b.Expect == breaks.ExpectNothingBlocked {
		opt.AttemptTimeout = deadTimeout
	}
	if !s.all {
		opt.Select = &manifest.Selection{Only: b.CaughtBy}
	}
	start := time.Now()
	_, err = battery.Run(ctx, opt)
	if b.Expect == breaks.ExpectRefused {
		return s.refused(b, err, time.Since(start))
	}
	if err != nil {
		return err
	}
	return s.count(b, filepath.Join(out, "packet"), time.Since(start))
}

// refused tells whether the run refused its own packet.
func (s *stand) refused(b *breaks.Break, err error, took time.Duration) error {
	if err != nil && !errors.Is(err, battery.ErrUnredacted) {
		return err
	}
	by, seen := "", []string{"the packet was written"}
	if err != nil {
		by = "the redaction proof: " + err.Error()
	}
	s.tell(b, by, seen, took)
	return nil
}

// count reads the manifest and tells whether a technique that the break names
// noticed.
func (s *stand) count(b *breaks.Break, packet string, took time.Duration) error {
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
	s.tell(b, by, seen, took)
	return nil
}

// tell counts a try and prints what came of it.
func (s *stand) tell(b *breaks.Break, by string, seen []string, took time.Duration) {
	vector := vectorOf(b)
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.caught[vector]
	n[1]++
	if by != "" {
		n[0]++
		fmt.Fprintf(s.out, "caught  %-34s by %s (%.1f s)\n", b.Name, by, took.Seconds())
	} else {
		s.missed = append(s.missed, b.Name)
		fmt.Fprintf(s.out, "MISSED  %-34s %s\n", b.Name, strings.Join(seen, "; "))
	}
	s.caught[vector] = n
}

// failed counts a break that could not be tried.
func (s *stand) failed(b *breaks.Break, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.caught[vectorOf(b)]
	n[1]++
	s.caught[vectorOf(b)] = n
	s.missed = append(s.missed, b.Name)
	fmt.Fprintf(s.out, "FAILED  %-34s %v\n", b.Name, err)
}

// vectorOf is the vector that a break counts for: that of the first technique
// that must notice.
func vectorOf(b *breaks.Break) catalog.Vector {
	t, _ := catalog.Lookup(b.CaughtBy[0])
	return t.Vector
}

// noticed says what noticed the break, "" when nothing did, and what each of the
// named techniques came to.
func noticed(b *breaks.Break, entries []manifest.Technique) (by string, seen []string) {
	blocked := ""
	for _, e := range entries {
		if !slices.Contains(b.CaughtBy, e.Technique) {
			continue
		}
		name := e.Technique + "/" + e.Variant
		seen = append(seen, fmt.Sprintf("%s %s (%s)%s", name, e.Outcome, e.Reason, said(e)))
		switch judge.Outcome(e.Outcome) {
		case judge.Escaped:
			if by == "" {
				by = name
			}
		case judge.Blocked:
			if t, _ := catalog.Lookup(e.Technique); b.Kind == "filter-drop" && (t.Expect == catalog.ExpectSilence || !strings.HasPrefix(e.Variant, "direct")) {
				continue // silence is expected, or the proxy refuses as ever
			}
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

// said is what the probe said of an attempt, for whoever looks into a miss.
func said(e manifest.Technique) string {
	for _, o := range e.Attack.Observations {
		if o.Side == manifest.SideProbe {
			return fmt.Sprintf(" [%s %s %d %s]", o.Sign, o.Errno, o.Status, o.Detail)
		}
	}
	if e.Fact != "" {
		return " [" + e.NotApplicable + ": " + e.Fact + "]"
	}
	return ""
}

// summary prints one line a vector, each miss, and the total, to which belong those
// that were refused.
func (s *stand) summary(refused int) (caught, total int) {
	for _, v := range catalog.Vectors() {
		n := s.caught[v]
		if n[1] == 0 {
			continue
		}
		fmt.Fprintf(s.out, "%s: %d/%d\n", v, n[0], n[1])
		caught, total = caught+n[0], total+n[1]
	}
	slices.Sort(s.missed)
	for _, name := range s.missed {
		fmt.Fprintf(s.out, "missed: %s\n", name)
	}
	if total += refused; refused > 0 {
		fmt.Fprintf(s.out, "refused: %d\n", refused)
	}
	fmt.Fprintf(s.out, "total: %d/%d\n", caught, total)
	return caught, total
}
