package site

import (
	"crypto"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/wallproof/wallproof/policy"
	"github.com/wallproof/wallproof/probes/catalog"
	"github.com/wallproof/wallproof/site/history"
	"github.com/wallproof/wallproof/verify"
)

// cacheSchema names the format; a cache of another one is ignored.
const cacheSchema = "wallproof.site-cache/v3"

// cachedBytes is what a packet takes in a cache, about.
const cachedBytes = 1400

// maxCacheBytes bounds a cache that is read.
const maxCacheBytes = 256 << 20

// cache remembers what a packet gave the last time: by the digest of its bytes,
// with the digest of the bytes of its pages. What depends on the clock is decided
// anew at each build. The cache is trusted like the program that reads it: keep
// it where nobody else writes.
type cache struct {
	mu      sync.Mutex
	old     map[string]cached // by digest of the packet's stamp
	next    map[string]cached
	states  map[string]cached // old, by the state of the packet's files
	started int64             // kernel's time when this build began; 0 where it cannot be told
	ended   int64             // kernel's time when the build before had ended; 0 where nothing rests on it
	encoded []byte            // next, to be written at the end
}

// cached is one packet. State and Read stand for the packet's files, Made for the
// site's: see unchanged.go.
type cached struct {
	Key       string  `json:"key"`
	At        string  `json:"at"`
	Stamp     string  `json:"stamp"`
	State     string  `json:"files,omitempty"` // of the packet when it was read
	Read      int64   `json:"read,omitempty"`  // kernel's time of that
	Made      string  `json:"made,omitempty"`  // names the files about it in the site
	Seen      int64   `json:"seen,omitempty"`  // kernel's time when their content was known
	Record    *record `json:"record"`
	Name      string  `json:"name"`
	Collected string  `json:"collected"`
}

type cacheFile struct {
	Schema  string            `json:"schema"`
	Ended   int64             `json:"ended"`
	Packets map[string]cached `json:"packets"`
}

// readCache reads the cache of the build before. One of another format is as good as
// none.
func readCache(path string) (f cacheFile, err error) {
	if path == "" {
		return f, nil
	}
	b, err := readBounded(path, maxCacheBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return f, nil
	}
	if err != nil {
		return f, fmt.Errorf("site: cache: %w", err)
	}
	if json.Unmarshal(b, &f) != nil || f.Schema != cacheSchema {
		return cacheFile{}, nil
	}
	return f, nil
}

// begin prepares the cache of this build. place is the folder in which the output
// folder is, or "" where nothing is kept.
func (f cacheFile) begin(place string) *cache {
	c := &cache{old: f.Packets, next: map[string]cached{}, states: map[string]cached{}, ended: f.Ended}
	if place == "" {
		return c
	}
	c.started = kernelTime(place)
	for _, k := range c.old {
		if k.State != "" && recent(k.Read, c.started) {
			c.states[k.State] = k
		}
	}
	return c
}

// encode writes down what is kept for the next build.
func (c *cache) encode(path string) error {
	if path == "" {
		return nil
	}
	b := make([]byte, 0, cachedBytes*len(c.next))
	for _, key := range sortedKeys(c.next) {
		one, err := json.Marshal(c.next[key])
		if err != nil {
			return fmt.Errorf("site: cache: %w", err)
		}
		if len(b) > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendQuote(b, key) // hexadecimal digits
		b = append(append(b, ':'), one...)
	}
	c.encoded = b
	return nil
}

// save writes the cache, after encode. It comes last: what is changed in the site from
// now on is changed by somebody else.
func (c *cache) save(path, place string) error {
	if path == "" {
		return nil
	}
	var ended int64
	if c.started != 0 {
		time.Sleep(settle)
		ended = kernelTime(place)
	}
	head := fmt.Appendf(nil, `{"schema":%q,"ended":%d,"packets":{`, cacheSchema, ended)
	err := mkdirFor(path)
	if err == nil {
		err = writeParts(path+".new", head, c.encoded, []byte("}}"))
	}
	if err == nil {
		err = os.Rename(path+".new", path)
	}
	if err != nil {
		return fmt.Errorf("site: cache: %w", err)
	}
	return nil
}

// writeParts writes a file that only its owner reads.
func writeParts(path string, parts ...[]byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	for _, p := range parts {
		if err == nil {
			_, err = f.Write(p)
		}
	}
	return errors.Join(err, f.Close())
}

func stampKey(stamp string) string {
	sum := sha256.Sum256([]byte(stamp))
	return hex.EncodeToString(sum[:])
}

// glimpse returns what an unchanged packet says of itself, or nil.
func (c *cache) glimpse(stamp string) *glimpse {
	if stamp == "" {
		return nil
	}
	k, ok := c.old[stampKey(stamp)]
	if !ok || k.Record == nil {
		return nil
	}
	return &glimpse{attestation: k.Record.Digest, name: k.Name, subject: k.Record.Subject, run: k.Record.Run, collected: parseTime(k.Collected)}
}

// known is the stamp of a packet whose files are in a state in which they were
// read before, or "".
func (c *cache) known(state string) (stamp string, read int64) {
	k := c.states[state]
	return k.Stamp, k.Read
}

// record returns what is kept of an unchanged packet for which nothing else has
// changed either, or nil. A verdict stays only until the attestation expires.
func (c *cache) record(stamp, key string, now time.Time) *cached {
	if stamp == "" {
		return nil
	}
	k, ok := c.old[stampKey(stamp)]
	if !ok || k.Key != key || k.Record == nil || now.Before(parseTime(k.At)) {
		return nil
	}
	expires := parseTime(k.Record.Expires)
	if parseTime(k.At).Before(expires) && !now.Before(expires) {
		return nil
	}
	r := *k.Record
	k.Record = &r
	return &k
}

// untimely are reasons that pass with time alone: what they hold is examined anew
// at each build. (What time takes away is an expiry, which record looks at.)
var untimely = []string{string(verify.CodeNotYet), string(verify.CodeRerunFuture), string(verify.CodeScorecardTime)}

// clockBound tells whether a verification rests on the clock in yet another way: that
// a certificate without a trusted timestamp is valid now.
func clockBound(v verify.Input) bool {
	for _, t := range []*verify.Trust{&v.Trust, v.VerifierTrust} {
		if t != nil && t.Identity != nil && t.Identity.WithoutTimestamp {
			return true
		}
	}
	return false
}

// cacheable tells whether a record may be kept.
func cacheable(r *record) bool {
	return r.State != StateInvalid && !slices.ContainsFunc(untimely, func(code string) bool { return contains(r.Codes, code) })
}

// put keeps what a packet gave for the next build.
func (c *cache) put(k cached) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.next[stampKey(k.Stamp)] = k
}

func (c *cache) forget(stamp string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.old, stampKey(stamp))
	delete(c.next, stampKey(stamp))
}

// cacheKey names everything but the packet itself and the clock that its pages
// depend on.
func (b *builder) cacheKey(j job, against doubt, latched []history.Latch) string {
	b.mu.Lock()
	entry := b.history.Attestations[j.attestation]
	past, err := json.Marshal(entry)
	b.mu.Unlock()
	if err != nil {
		return ""
	}
	h := sha256.New()
	fmt.Fprintf(h, "%s\n%v\n%v\n%v\n%q\n%x %v\n", b.base, j.name == b.primary, against, latched, past, sha256.Sum256(b.liveFor(j)), verify.LiveOutdated(b.liveFor(j), b.now))
	return hex.EncodeToString(h.Sum(nil))
}

// inputDigest names what is the same for all packets: trust and requirements,
// theme, templates and assets, catalogue and evaluator, and the program itself,
// whose verifier gave the verdicts.
func inputDigest(in Input) (string, error) {
	h := sha256.New()
	if in.Cache != "" {
		sum, err := ownDigest()
		if err != nil {
			return "", fmt.Errorf("site: cache: name the program that verifies: %w", err)
		}
		fmt.Fprintf(h, "%x\n", sum)
	}
	v := in.Verify
	fmt.Fprintf(h, "%s\n%d\n%s\n", catalog.Digest(), policy.EvaluatorVersion, cacheSchema)
	fmt.Fprintf(h, "%q %q %v %v %v %q %x %x\n", v.Image, v.PolicyDigest, v.Require, v.WithoutRerun, v.MaxAge, in.BaseURL, v.Scorecard, v.Binding)
	fmt.Fprintf(h, "%x %q\n", sha256.Sum256(v.TrustedRoot), v.TrustedRootDigest)
	if v.Catalogue != nil {
		if err := json.NewEncoder(h).Encode(v.Catalogue); err != nil {
			return "", fmt.Errorf("site: catalogue: %w", err)
		}
	}
	trusts := []*verify.Trust{&v.Trust, v.VerifierTrust}
	for _, t := range trusts {
		if err := trustDigest(h, t); err != nil {
			return "", err
		}
	}
	for _, k := range v.RedTeamKeys {
		if err := keyDigest(h, k); err != nil {
			return "", err
		}
	}
	theme := in.Theme
	if err := json.NewEncoder(h).Encode(theme); err != nil {
		return "", fmt.Errorf("site: theme: %w", err)
	}
	if err := embedded(h); err != nil {
		return "", err
	}
	fmt.Fprintf(h, "%v %x\n", in.Live != nil, sha256.Sum256(in.Wasm.Module))
	return hex.EncodeToString(h.Sum(nil)), nil
}

// ownDigest is of the running program's file.
var ownDigest = sync.OnceValues(func() ([]byte, error) {
	path, err := os.Executable()
	if err != nil {
		return nil, err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	h := sha256.New()
	_, err = io.Copy(h, f)
	return h.Sum(nil), err
})

type writer interface{ Write(p []byte) (int, error) }

func trustDigest(h writer, t *verify.Trust) error {
	if t == nil {
		fmt.Fprintln(h, "none")
		return nil
	}
	if t.Identity != nil {
		fmt.Fprintf(h, "%q\n", fmt.Sprintf("%#v", *t.Identity))
	}
	if t.Key == nil {
		return nil
	}
	return keyDigest(h, t.Key)
}

func keyDigest(h writer, k crypto.PublicKey) error {
	der, err := x509.MarshalPKIXPublicKey(k)
	if err != nil {
		return fmt.Errorf("site: trusted key: %w", err)
	}
	fmt.Fprintf(h, "%x\n", der)
	return nil
}

// embedded adds the templates and assets of this build of the program.
func embedded(h writer) error {
	for _, files := range []fs.FS{templateFiles, assetFiles} {
		err := fs.WalkDir(files, ".", func(p string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			b, err := fs.ReadFile(files, p)
			if err == nil {
				fmt.Fprintf(h, "%s %x\n", p, sha256.Sum256(b))
			}
			return err
		})
		if err != nil {
			return fmt.Errorf("site: embedded files: %w", err)
		}
	}
	return nil
}
