package site

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/wallproof/wallproof/probes/catalog"
	"github.com/wallproof/wallproof/site/history"
	"github.com/wallproof/wallproof/verify"
)

// ErrNoPackets is returned when there is nothing to render.
var ErrNoPackets = errors.New("site: no packet given; name at least one packet directory or archive")

// Build verifies every packet, renders the site into a temporary folder beside
// outDir and swaps it in whole. When it fails, outDir is as it was. A packet that
// does not verify is no error: the result says so, and so does the site.
func Build(ctx context.Context, in Input, outDir string) (res Result, err error) {
	if len(in.Packets) > manyPackets {
		// A large site makes much short-lived garbage. It is collected when there is
		// much of it, and sooner only as memory nears the limit.
		// A rebuild makes little: new memory costs it more than collecting does.
		percent := 800
		if in.Cache != "" && exists(in.Cache) {
			percent = 200
		}
		defer debug.SetGCPercent(debug.SetGCPercent(percent))
		defer debug.SetMemoryLimit(debug.SetMemoryLimit(softMemory))
	}
	b, err := newBuilder(in, outDir)
	if err != nil {
		return Result{}, err
	}
	if b.tree, err = newTree(outDir); err != nil {
		return Result{}, err
	}
	defer func() { err = errors.Join(err, b.tree.discard()) }()
	place := ""
	if b.in.Cache != "" {
		place = filepath.Dir(b.tree.out)
	}
	b.cache = b.before.begin(place)
	if len(b.cache.old) > 0 {
		b.tree.keepInPlace()
	}
	if err := b.run(ctx); err != nil {
		return Result{}, err
	}
	if err := b.tree.commit(); err != nil {
		return Result{}, err
	}
	if err := b.tree.discard(); err != nil { // before the cache is written: it changes files that are linked
		return Result{}, err
	}
	return b.result(), b.cache.save(b.in.Cache, place)
}

const (
	// manyPackets is from where on a site counts as large.
	manyPackets = 500
	// softMemory is the memory that the build of a large site tries not to exceed.
	softMemory = 220 << 20
)

// builder is the state of one build.
type builder struct {
	in       Input
	now      time.Time
	tree     *tree
	cache    *cache
	before   cacheFile // of the build before
	assets   assetView
	base     string                     // digest of everything that is the same for all packets
	primary  string                     // image name that index.html is about
	escaped  map[string]history.Finding // by image digest: the newest runs that are known to have found a critical escape
	catalog  map[string]catalog.Technique
	verifier *verify.Verifier
	drawn    sync.Map // digest of a policy → its edges

	mu      sync.Mutex
	history *history.History
	records []*record
	removed []string // digests of attestations that the build before still had
}

func newBuilder(in Input, outDir string) (*builder, error) {
	if len(in.Packets) == 0 {
		return nil, ErrNoPackets
	}
	if err := in.Theme.check(); err != nil {
		return nil, err
	}
	in.Theme = in.Theme.cleaned()
	if in.BaseURL != "" && !httpURL(in.BaseURL) {
		return nil, fmt.Errorf("site: base URL %q is not an absolute https or http address", in.BaseURL)
	}
	clock := in.Clock
	if clock == nil {
		clock = time.Now
	}
	if clockBound(in.Verify) {
		in.Cache = ""
	}
	b := &builder{in: in, now: clock().UTC().Truncate(time.Second)}
	if err := b.load(outDir); err != nil {
		return nil, err
	}
	b.escaped = b.history.Latest(isCritical)
	list := in.Verify.Catalogue
	if list == nil {
		list = catalog.All()
	}
	b.catalog = byID(list)
	b.verifier = verify.NewVerifier(in.Verify.TrustedRoot, in.Verify.TrustedRootDigest, in.Verify.Catalogue)
	return b, nil
}

// load reads what the build before left, and names what this one depends on.
func (b *builder) load(outDir string) error {
	var g errgroup.Group
	g.Go(func() (err error) {
		b.before, err = readCache(b.in.Cache)
		return err
	})
	g.Go(func() (err error) {
		if b.history, err = loadHistory(b.in.History, outDir); err == nil {
			b.base, err = inputDigest(b.in)
		}
		return err
	})
	return g.Wait()
}

func loadHistory(given []byte, outDir string) (*history.History, error) {
	if given == nil {
		b, err := readBounded(filepath.Join(outDir, historyFile), history.MaxBytes)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("site: earlier history: %w", err)
		}
		given = b
	}
	h, err := history.Parse(given)
	if err != nil {
		return nil, fmt.Errorf("site: earlier history: %w; without it, drift that was seen before would be forgotten", err)
	}
	return h, nil
}

func (b *builder) run(ctx context.Context) error {
	if err := b.writeAssets(); err != nil {
		return err
	}
	jobs, err := b.survey(ctx)
	if err != nil {
		return err
	}
	if err := b.examineAll(ctx, jobs); err != nil {
		return err
	}
	slices.SortFunc(b.records, newer)
	b.noteRemoved()
	return b.writePages(ctx)
}

// job is one packet with what it says of itself.
type job struct {
	packet Packet
	state  string // names the packet's files, or ""
	read   int64  // kernel's time when their content was known
	intact bool   // the site's files about it are known to be as they were written
	glimpse
}

// survey groups the packets by image digest, newest first, so that a newer run
// is examined before the older ones that it may contradict.
func (b *builder) survey(ctx context.Context) ([][]job, error) {
	jobs := make([]job, len(b.in.Packets))
	at := newFolders()
	defer at.close()
	err := b.each(ctx, len(jobs), func(ctx context.Context, i int) error {
		p := b.in.Packets[i]
		b.stamp(at, &p, &jobs[i])
		jobs[i].packet = p
		if c := b.cache.glimpse(p.Stamp); c != nil {
			jobs[i].glimpse, jobs[i].intact = *c, b.intact(at, p.Stamp)
			return nil
		}
		jobs[i].glimpse = p.peek()
		return nil
	})
	if err != nil {
		return nil, err
	}
	if err := b.choosePrimary(jobs); err != nil {
		return nil, err
	}
	return grouped(jobs), nil
}

// stamp names a packet's bytes, where a cache needs that: without reading them if
// they were read before and the packet's files have not changed since.
func (b *builder) stamp(at *folders, p *Packet, j *job) {
	if b.in.Cache == "" || p.content == nil {
		return
	}
	j.read = b.cache.started
	if p.state != nil {
		j.state = p.state(at, b.cache.started)
	}
	if stamp, read := b.cache.known(j.state); stamp != "" {
		p.Stamp, j.read = stamp, read
		return
	}
	if len(b.cache.old) > 0 {
		var err error
		if p.Stamp, err = p.content(); err != nil {
			p.Stamp = "" // it is opened again, and reported, when it is examined
		}
	}
}

// intact tells whether the files about a packet in the site that is there are
// known, without reading them, to be as they were written. It is asked for all
// before any is taken over, since a link to a file changes it.
func (b *builder) intact(at *folders, stamp string) bool {
	k := b.cache.old[stampKey(stamp)]
	if k.Record == nil || k.Made == "" || !recent(k.Seen, b.cache.started) {
		return false
	}
	return filesID(at, b.tree.there(k.Record), k.Record.Ends, b.cache.ended) == k.Made
}

// choosePrimary finds the image that index.html is about. One that was asked for
// and that no packet is about is an error: another would be shown in its place.
func (b *builder) choosePrimary(jobs []job) error {
	b.primary = b.in.Primary
	names := map[string]bool{}
	for _, j := range jobs {
		b.primary = cmp.Or(b.primary, j.name)
		names[j.name] = j.name != ""
	}
	if b.in.Primary == "" || names[b.in.Primary] {
		return nil
	}
	var have []string
	for _, n := range sortedKeys(names) {
		if n != "" && len(have) < maxNamesTold {
			have = append(have, strconv.Quote(n))
		}
	}
	return fmt.Errorf("site: no packet is about the image %q; there are: %s", b.in.Primary, cmp.Or(strings.Join(have, ", "), "none that can be read"))
}

// maxNamesTold bounds the names in a message.
const maxNamesTold = 10

func grouped(jobs []job) [][]job {
	slices.SortStableFunc(jobs, func(x, y job) int {
		return cmp.Or(cmp.Compare(x.subject, y.subject), y.collected.Compare(x.collected), cmp.Compare(x.attestation, y.attestation))
	})
	var out [][]job
	for i, j := range jobs {
		if i == 0 || j.subject != jobs[i-1].subject || j.subject == "" {
			out = append(out, nil)
		}
		out[len(out)-1] = append(out[len(out)-1], j)
	}
	return out
}

func (b *builder) workers() int {
	if b.in.Workers > 0 {
		return b.in.Workers
	}
	return runtime.GOMAXPROCS(0)
}

func (b *builder) examineAll(ctx context.Context, groups [][]job) error {
	return b.each(ctx, len(groups), func(ctx context.Context, i int) error { return b.examineGroup(ctx, groups[i]) })
}

// each calls do with each number below n, in as many goroutines as there are workers.
// They are few and live long: the stack of each grows once, not once a packet.
func (b *builder) each(ctx context.Context, n int, do func(ctx context.Context, i int) error) error {
	g, ctx := errgroup.WithContext(ctx)
	var next atomic.Int64
	for range min(n, b.workers()) {
		g.Go(func() error {
			for {
				i := int(next.Add(1)) - 1
				if i >= n {
					return nil
				}
				if err := ctx.Err(); err != nil {
					return err
				}
				if err := do(ctx, i); err != nil {
					return err
				}
			}
		})
	}
	return g.Wait()
}

// doubt is what other runs over the same image say against one.
type doubt int

const (
	noDoubt    doubt = iota
	sameTime         // a run that ended in the same second found a critical escape
	laterDoubt       // a newer one did
)

// examineGroup examines the packets over one image, newest first. Those that do
// not verify come last: their page must not take the place of a good one.
func (b *builder) examineGroup(ctx context.Context, group []job) error {
	done := map[string]bool{}
	contradicted := false
	var invalid []*attempt
	for rest := group; len(rest) > 0; {
		together := rest[:ofOneTime(rest)]
		rest = rest[len(together):]
		found, err := b.criticalOf(together)
		if err != nil {
			return err
		}
		for _, j := range together {
			if err := ctx.Err(); err != nil {
				return err
			}
			a, err := b.attempt(j, b.doubtOf(j, contradicted, found))
			if err != nil {
				return err
			}
			if a.record.State == StateInvalid {
				invalid = append(invalid, a)
				if err := a.close(); err != nil {
					return err
				}
				continue
			}
			if !done[a.record.Digest] {
				done[a.record.Digest] = true
				err = b.publish(a)
			}
			if err := errors.Join(err, a.close()); err != nil {
				return err
			}
			if a.record.Critical {
				found = append(found, a.record.Digest)
			}
			b.keep(a.record)
		}
		contradicted = contradicted || len(found) > 0
	}
	return b.publishInvalid(invalid, done)
}

// publishInvalid publishes what does not verify, where nothing better has its page.
func (b *builder) publishInvalid(invalid []*attempt, done map[string]bool) error {
	for _, a := range invalid {
		d := a.record.Digest
		a.record.ID = ""
		if d != "" && !done[d] {
			done[d] = true
			a.record.ID = pageID(d)
			if err := b.publish(a); err != nil {
				return err
			}
		}
		b.keep(a.record)
	}
	return nil
}

// ofOneTime counts the jobs at the beginning of a list whose runs ended together.
func ofOneTime(list []job) int {
	n := 1
	for n < len(list) && list[n].collected.Equal(list[0].collected) {
		n++
	}
	return n
}

// criticalOf are those of runs that ended together which found a critical escape. No
// order says which of them counts, so they are looked at before any is published.
func (b *builder) criticalOf(together []job) ([]string, error) {
	if len(together) < 2 {
		return nil, nil
	}
	var found []string
	for _, j := range together {
		a, err := b.attempt(j, noDoubt)
		if err != nil {
			return nil, err
		}
		if a.record.State != StateInvalid && a.record.Critical {
			found = append(found, a.record.Digest)
		}
		if err := a.close(); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// doubtOf joins what is known against a run: that a newer one of this build found a
// critical escape, that others of its time did, and what the history says. A newer
// run counts even when its packet was not handed over this time.
func (b *builder) doubtOf(j job, contradicted bool, found []string) doubt {
	known := b.escaped[j.subject]
	others := slices.Clone(found)
	if known.At.Equal(j.collected) {
		others = append(others, known.By...)
	}
	switch {
	case contradicted || known.At.After(j.collected):
		return laterDoubt
	case slices.ContainsFunc(others, func(digest string) bool { return digest != j.attestation }):
		return sameTime
	}
	return noDoubt
}

func (b *builder) keep(r *record) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.records = append(b.records, r)
}

// liveFor is the live state that a packet is compared with.
func (b *builder) liveFor(j job) []byte {
	switch {
	case j.packet.Live != nil:
		return j.packet.Live
	case j.name == b.primary || j.name == "":
		return b.in.Live
	}
	return nil
}

func (b *builder) verifyInput(j job) verify.Input {
	v := b.in.Verify
	v.Live = b.liveFor(j)
	if j.name != b.primary { // a scorecard is about one image
		v.Scorecard, v.Binding = nil, nil
	}
	return v
}

func (b *builder) result() Result {
	res := Result{Files: int(b.tree.files.Load()), Bytes: b.tree.bytes.Load()}
	res.Next, res.Removed = b.next(), b.removed
	p := b.primaryRecord()
	for _, r := range b.records {
		if r.reused {
			res.Reused++
		}
		if r.unread {
			res.Unread++
		}
		if r == p {
			s := r.summary()
			res.Primary = &s
			res.Attestations = append([]Summary{s}, res.Attestations...)
			continue
		}
		res.Attestations = append(res.Attestations, r.summary())
	}
	return res
}

// next is when the first of the claims that the site shows ends, or "". From then on
// only a page with its script says so, until the site is built again.
func (b *builder) next() string {
	first := ""
	for _, r := range b.records {
		if r.Claim != "" && (first == "" || r.Expires < first) { // all in one form, in which earlier is less
			first = r.Expires
		}
	}
	return first
}

// primaryRecord is the newest run over the primary image, whatever its state;
// where none verifies, the first that does not.
func (b *builder) primaryRecord() *record {
	var bad *record
	for _, r := range b.records {
		if r.State != StateInvalid && r.Name == b.primary {
			return r
		}
		if r.State == StateInvalid && bad == nil {
			bad = r
		}
	}
	if bad != nil {
		return bad
	}
	return b.records[0]
}

func mkdirFor(path string) error { return os.MkdirAll(filepath.Dir(path), 0o755) }
