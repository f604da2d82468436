package kit

import (
	"bytes"
	"context"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/wallproof/wallproof/attest/manifest"
	"github.com/wallproof/wallproof/probes"
	"github.com/wallproof/wallproof/probes/canary"
	"github.com/wallproof/wallproof/probes/keyshape"
)

// Bounds of one search.
const (
	maxSearchFiles = 20000
	maxSearchFile  = 1 << 20
	maxSearchHead  = 256 << 10 // of a file, searched in every encoding
	maxSearchBytes = 16 << 20
	maxSearchDepth = 12
)

// Exposure begins the detail of an observation whose attempt obtained nothing but
// found something that would help an escape.
const Exposure = "exposure: "

// Search looks for canaries in the places that an attempt names. It counts what
// it could read and what it was denied, and stops at its bounds.
type Search struct {
	ctx    context.Context
	skip   []string
	found  map[string]bool
	seen   map[fileID]bool
	read   int // places read
	denied int
	bytes  int64 // of files
	// Bounds, where they are not the usual ones.
	maxRead, maxDepth int
	maxBytes, maxDeep int64
	memory            int64 // of memory
	last              error // why the last place could not be read
	// places are the files in which something was found, where that is asked for, and at
	// is the one that is being looked at.
	places map[string][]string
	at     string
	// keys are strings in the shape of a provider's key, by the place in which they stand;
	// of files only where places are noted.
	keys map[string][]keyshape.Match
}

// maxShapes bounds how many keys are kept of one process, and how many places with keys.
const maxShapes = 256

func (s *Search) keep(place string, keys []keyshape.Match) {
	if len(keys) == 0 || len(s.keys) >= maxShapes {
		return
	}
	if s.keys == nil {
		s.keys = map[string][]keyshape.Match{}
	}
	s.keys[place] = append(s.keys[place], keys...)
}

// Shapes returns strings in the shape of a provider's key, by the place in which they
// stand: the memory of other processes, and every file.
func (s *Search) Shapes() map[string][]keyshape.Match {
	for _, dir := range Processes() {
		s.Memory(dir)
	}
	if all := s.everyFile(); all != nil {
		for path, keys := range all.keys {
			s.keep(path, keys)
		}
	}
	return s.keys
}

// maxPlaces bounds how many files are noted in which something was found.
const maxPlaces = 4096

// note notes what was found, and where.
func (s *Search) note(digests []string) {
	for _, d := range digests {
		s.found[d] = true
	}
	if s.places != nil && s.at != "" && len(digests) > 0 && len(s.places) < maxPlaces {
		s.places[s.at] = append(s.places[s.at], digests...)
	}
}

type fileID struct{ dev, ino uint64 }

// NewSearch starts a search. The probe's own mount is never looked at.
func NewSearch(ctx context.Context, env *probes.Env) *Search {
	s := &Search{ctx: ctx, found: map[string]bool{}, seen: map[fileID]bool{}}
	if m := env.Facts.Local.ProbeMount; m != "" {
		s.skip = append(s.skip, filepath.Clean(m))
	}
	return s
}

// Bytes looks at bytes that the attempt has read by itself.
func (s *Search) Bytes(b []byte) {
	s.read++
	s.bytes += int64(len(b))
	s.note(canary.Find(b))
}

// bulk looks at memory, in which only canaries as they are are found.
func (s *Search) bulk(b []byte) {
	s.memory += int64(len(b))
	s.note(canary.FindPlain(b))
}

// Done reports whether the search has to end.
func (s *Search) Done() bool {
	return s.ctx.Err() != nil || s.bytes > max(s.maxBytes, maxSearchBytes) || s.read > max(s.maxRead, maxSearchFiles)
}

// File looks at a file's content, name and target.
func (s *Search) File(path string) {
	if s.Done() || s.skipped(path) {
		return
	}
	s.at = path
	defer func() { s.at = "" }()
	if target, err := os.Readlink(path); err == nil {
		s.Bytes([]byte(target))
	}
	info, err := os.Stat(path)
	if err != nil {
		s.miss(err)
		return
	}
	if !info.Mode().IsRegular() {
		return
	}
	if id, ok := identity(info); ok {
		if s.seen[id] {
			return
		}
		s.seen[id] = true
	}
	b, err := ReadHead(path, maxSearchFile)
	if err != nil {
		s.miss(err)
		return
	}
	if s.places != nil {
		s.keep(path, keyshape.All(b))
	}
	if s.maxDeep > 0 && s.bytes > s.maxDeep {
		s.read++
		s.bytes += int64(len(b))
		s.note(canary.FindPlain(b))
		return
	}
	s.Bytes(b[:min(len(b), maxSearchHead)])
	if len(b) > maxSearchHead {
		s.bulk(b[maxSearchHead-overlap:])
	}
}

// Special looks at a file of /proc or /dev, whose size and type say nothing.
func (s *Search) Special(path string) []byte {
	if s.Done() {
		return nil
	}
	b, err := ReadHead(path, maxSearchFile)
	if err != nil {
		s.miss(err)
		return nil
	}
	s.Bytes(b)
	return b
}

// Pages looks at the beginning of a file or device that holds pages of memory, up to
// most bytes, a step at a time.
func (s *Search) Pages(path string, most, step int) {
	f, err := os.OpenFile(path, os.O_RDONLY|nonBlock, 0)
	if err != nil {
		s.miss(err)
		return
	}
	defer f.Close()
	s.read++
	buf := make([]byte, step+overlap)
	kept := 0
	for done := 0; done < most && s.ctx.Err() == nil; {
		n, err := io.ReadFull(f, buf[kept:])
		s.bulk(buf[:kept+n])
		if err != nil {
			return
		}
		done += n
		kept = copy(buf, buf[len(buf)-overlap:])
	}
}

// Tree looks at all files below a folder. Links are not followed, kernel file
// systems not entered.
func (s *Search) Tree(root string) {
	depth := strings.Count(filepath.Clean(root), "/")
	_ = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case s.Done():
			return fs.SkipAll
		case err != nil:
			s.miss(err)
			return fs.SkipDir
		case s.skipped(path), d.IsDir() && kernelFS(path), strings.Count(path, "/")-depth > max(s.maxDepth, maxSearchDepth):
			return fs.SkipDir
		case d.IsDir():
			s.name(path)
			return nil
		}
		s.name(path)
		s.File(path)
		return nil
	})
}

// Bounds of Everything.
const (
	maxEveryFile  = 50000
	maxEveryBytes = 64 << 20
	maxEveryDeep  = 4 << 20 // searched in every encoding
	maxEveryDepth = 64
)

// likely are the folders in which people and their tools put things.
var likely = []string{"/root", "/home", "/workspace", "/etc", "/run", "/tmp", "/var", "/srv", "/opt", "/app", "/mnt", "/media", "/data"}

// every is what Everything found in this process: several attempts ask, and the
// files are the same. Whoever holds turn may look.
var every = struct {
	turn   chan struct{}
	result *Search // nil until everything was looked at
}{turn: make(chan struct{}, 1)}

// Everything looks at all files of the root and of what is mounted in it: in every
// encoding as far as a bound goes, mounts and likely folders first, and after that
// for what stands there as it is.
func (s *Search) Everything() {
	all := s.everyFile()
	if all == nil {
		return
	}
	maps.Copy(s.found, all.found)
	s.read, s.denied, s.bytes, s.memory = all.read, all.denied, all.bytes, all.memory
}

// OrLike is an attempt that looks in the places where something usually lies and, where
// nothing was found there, for files of its kind wherever they lie: in all that
// Everything looks at, those whose path matches. It leaves a part of its time: that not
// everything could be looked at is for the attempt to say that is about everything.
func OrLike(usual probes.Attempt, kind string) probes.Attempt {
	match := regexp.MustCompile(kind)
	return func(ctx context.Context, env *probes.Env) manifest.Observation {
		o := usual(ctx, env)
		if o.Sign != manifest.SignAbsent {
			return o
		}
		if end, ok := ctx.Deadline(); ok {
			var cancel context.CancelFunc
			ctx, cancel = context.WithDeadline(ctx, end.Add(-time.Until(end)/3))
			defer cancel()
		}
		s := NewSearch(ctx, env)
		all := s.everyFile()
		if all == nil {
			return o
		}
		for path, digests := range all.places {
			if match.MatchString(path) {
				s.read++
				s.note(digests)
			}
		}
		if len(s.found) == 0 {
			return o
		}
		return s.Observation()
	}
}

// everyFile is the search of everything, which the first who asks makes. Where its time
// ended before all was looked at it is made again for the next; it is nil for who got no
// turn.
func (s *Search) everyFile() *Search {
	select {
	case every.turn <- struct{}{}:
	case <-s.ctx.Done():
		return nil
	}
	defer func() { <-every.turn }()
	if every.result != nil {
		return every.result
	}
	all := &Search{ctx: s.ctx, skip: s.skip, found: map[string]bool{}, seen: map[fileID]bool{}, places: map[string][]string{}}
	all.walkEverything()
	if s.ctx.Err() == nil {
		every.result = all
	}
	return all
}

func (s *Search) walkEverything() {
	s.maxRead, s.maxBytes, s.maxDeep, s.maxDepth = maxEveryFile, maxEveryBytes, maxEveryDeep, maxEveryDepth
	for _, m := range Mounts() {
		if info, err := os.Stat(m.Point); err == nil && !info.IsDir() {
			s.File(m.Point)
		} else {
			s.Tree(m.Point)
		}
	}
	for _, root := range likely {
		s.Tree(root)
	}
	s.Tree("/")
}

// Glob looks at the files that match any of the patterns.
func (s *Search) Glob(patterns ...string) {
	for _, p := range patterns {
		list, _ := filepath.Glob(p)
		for _, path := range list {
			s.File(path)
		}
	}
}

// name looks at a file's name: it can hold data as well.
func (s *Search) name(path string) {
	s.at = path
	s.note(canary.FindPlain([]byte(strings.ToLower(path))))
	s.at = ""
}

func (s *Search) skipped(path string) bool {
	for _, skip := range s.skip {
		if path == skip || strings.HasPrefix(path, skip+"/") {
			return true
		}
	}
	return false
}

func (s *Search) miss(err error) {
	if os.IsPermission(err) {
		s.denied++
	}
	s.last = err
}

// Miss notes a place that could not be looked at.
func (s *Search) Miss(err error) { s.miss(err) }

// Read is how many places could be read.
func (s *Search) Read() int { return s.read }

// Observation says what the search found: reached with canaries, absent without.
func (s *Search) Observation() manifest.Observation {
	o := manifest.Observation{Sign: manifest.SignAbsent, Bytes: s.bytes + s.memory}
	for d := range s.found {
		o.Obtained = append(o.Obtained, d)
	}
	if len(o.Obtained) > 0 {
		o.Sign = manifest.SignReached
	}
	o.Detail = Count(s.read, "place read", "places read")
	if s.denied > 0 {
		o.Detail += ", " + Count(s.denied, "denied", "denied")
	}
	if s.ctx.Err() != nil && len(o.Obtained) == 0 {
		o.Sign = manifest.SignTimeout
	}
	return o
}

// ReadHead reads at most limit bytes of a file, also of one that blocks or has no
// end, as devices and pipes do.
func ReadHead(path string, limit int64) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|nonBlock, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var b bytes.Buffer
	if _, err := io.Copy(&b, io.LimitReader(f, limit)); err != nil && b.Len() == 0 {
		return nil, err
	}
	return b.Bytes(), nil
}

// kernelFS reports whether a folder is the kernel's own and not to be walked.
func kernelFS(path string) bool {
	switch path {
	case "/proc", "/sys", "/dev":
		return true
	}
	return false
}
