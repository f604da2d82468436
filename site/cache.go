package site

import (
	"crypto"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/wallproof/wallproof/policy"
	"github.com/wallproof/wallproof/probes/catalog"
	"github.com/wallproof/wallproof/site/history"
	"github.com/wallproof/wallproof/verify"
)

// cacheSchema names the format; a cache of another one is ignored.
const cacheSchema = "wallproof.site-cache/v2"

// maxCacheBytes bounds a cache that is read.
const maxCacheBytes = 256 << 20

// cache remembers what a packet gave the last time: by the digest of its bytes,
// with the digest of the bytes of its pages. What depends on the clock is decided
// anew at each build. The cache is trusted like the program that reads it: keep
// it where nobody else writes.
type cache struct {
	mu   sync.Mutex
	old  map[string]cached // by digest of the packet's stamp
	next map[string]cached
}

// cached is one packet.
type cached struct {
	Key       string  `json:"key"`
	At        string  `json:"at"`
	Record    *record `json:"record"`
	Name      string  `json:"name"`
	Collected string  `json:"collected"`
}

type cacheFile struct {
	Schema  string            `json:"schema"`
	Packets map[string]cached `json:"packets"`
}

func loadCache(path string) (*cache, error) {
	c := &cache{old: map[string]cached{}, next: map[string]cached{}}
	if path == "" {
		return c, nil
	}
	b, err := readBounded(path, maxCacheBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return c, nil
	}
	if err != nil {
		return nil, fmt.Errorf("site: cache: %w", err)
	}
	var f cacheFile
	if json.Unmarshal(b, &f) == nil && f.Schema == cacheSchema {
		c.old = f.Packets
	}
	return c, nil
}

func (c *cache) save(path string) error {
	if path == "" {
		return nil
	}
	b, err := json.Marshal(cacheFile{cacheSchema, c.next})
	if err == nil {
		err = mkdirFor(path)
	}
	if err == nil {
		err = os.WriteFile(path+".new", b, 0o600)
	}
	if err == nil {
		err = os.Rename(path+".new", path)
	}
	if err != nil {
		return fmt.Errorf("site: cache: %w", err)
	}
	return nil
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

// record returns the record of an unchanged packet for which nothing else has
// changed either, or nil. A verdict stays only until the attestation expires.
func (c *cache) record(stamp, key string, now time.Time) *record {
	if stamp == "" {
		return nil
	}
	s := stampKey(stamp)
	k, ok := c.old[s]
	if !ok || k.Key != key || k.Record == nil || now.Before(parseTime(k.At)) {
		return nil
	}
	expires := parseTime(k.Record.Expires)
	if parseTime(k.At).Before(expires) && !now.Before(expires) {
		return nil
	}
	c.mu.Lock()
	c.next[s] = k
	c.mu.Unlock()
	r := *k.Record
	return &r
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

func (c *cache) put(j job, key string, r *record, now time.Time) {
	if j.packet.Stamp == "" || r.State == StateInvalid || slices.ContainsFunc(untimely, func(code string) bool { return contains(r.Codes, code) }) {
		return
	}
	keep := *r
	c.mu.Lock()
	defer c.mu.Unlock()
	c.next[stampKey(j.packet.Stamp)] = cached{Key: key, At: history.Stamp(now), Record: &keep, Name: j.name, Collected: at(j.collected).ISO}
}

func (c *cache) forget(stamp string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.old, stampKey(stamp))
	delete(c.next, stampKey(stamp))
}

// cacheKey names everything but the packet itself and the clock that its pages
// depend on.
func (b *builder) cacheKey(j job, contradicted bool, latched []history.Latch) string {
	b.mu.Lock()
	entry := b.history.Attestations[j.attestation]
	past, err := json.Marshal(entry)
	b.mu.Unlock()
	if err != nil {
		return ""
	}
	h := sha256.New()
	fmt.Fprintf(h, "%s\n%v\n%v\n%q\n%x\n", b.base, contradicted, latched, past, sha256.Sum256(b.liveFor(j)))
	return hex.EncodeToString(h.Sum(nil))
}

// inputDigest names what is the same for all packets: trust and requirements,
// theme, templates and assets, catalogue and evaluator.
func inputDigest(in Input) (string, error) {
	h := sha256.New()
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
