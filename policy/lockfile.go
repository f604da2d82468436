package policy

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// MaxLockfile is the largest lockfile that is read, in bytes.
const MaxLockfile = 64 << 20

// LoadLockfiles adds the digests of the lockfiles that pins name. open returns a
// file's content. Canonical, Digest and Compile refuse a policy whose lockfiles
// are not loaded, because what it allows is not known before. Known are
// package-lock.json, npm-shrinkwrap.json, yarn.lock and pnpm-lock.yaml (SRI
// digests), requirements files, poetry.lock, uv.lock, pdm.lock and Pipfile.lock
// ("sha256:…"), Cargo.lock (checksums), go.sum (h1 of modules), and the output of
// sha256sum under any other name.
func (p *Policy) LoadLockfiles(open func(path string) ([]byte, error)) error {
	loaded := map[string][]string{}
	for _, pin := range p.pins() {
		if pin.Lockfile == "" || pin.loaded {
			continue
		}
		digests, ok := loaded[pin.Lockfile]
		if !ok {
			data, err := open(pin.Lockfile)
			if err != nil {
				return p.pinError(pin, fmt.Sprintf("the lockfile cannot be read: %v", err))
			}
			if digests, err = lockfileDigests(pin.Lockfile, data); err != nil {
				return p.pinError(pin, fmt.Sprintf("the lockfile %s: %v", pin.Lockfile, err))
			}
			loaded[pin.Lockfile] = digests
		}
		pin.Digests = slices.Concat(pin.Digests, digests)
		slices.Sort(pin.Digests)
		pin.Digests = slices.Compact(pin.Digests)
		if len(pin.Digests) > MaxDigests {
			return p.pinError(pin, fmt.Sprintf("the pin has %d digests; at most %d are allowed", len(pin.Digests), MaxDigests))
		}
		pin.loaded = true
	}
	return nil
}

// pins returns all pins of the document.
func (p *Policy) pins() []*Pin {
	var out []*Pin
	add := func(packs []PackRef, allow []Entry) {
		for i := range packs {
			if packs[i].Pin != nil {
				out = append(out, packs[i].Pin)
			}
		}
		for i := range allow {
			if allow[i].Pin != nil {
				out = append(out, allow[i].Pin)
			}
		}
	}
	add(p.Packs, p.Allow)
	add(p.Setup.Packs, p.Setup.Allow)
	add(p.Verifier.Packs, p.Verifier.Allow)
	return out
}

func (p *Policy) pinError(pin *Pin, msg string) *Error {
	err := pin.Pos.error(msg)
	err.File, err.Field = p.Source, "pin"
	return err
}

func lockfileError(file string, pin *Pin) *Error {
	err := pin.Pos.error(fmt.Sprintf("the lockfile %s has not been loaded, so what the pin allows is not known", pin.Lockfile))
	err.File, err.Field = file, "pin"
	return err
}

var (
	sriPattern      = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\bsha(256|384|512)-([A-Za-z0-9+/]+={0,2})`) })
	pipPattern      = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\bsha(256|384|512):([0-9a-f]{64,128})\b`) })
	checksumPattern = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?m)^checksum = "([0-9a-f]{64})"`) })
	goSumPattern    = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?m)^\S+ (v\S+) (h1:[A-Za-z0-9+/]+=*)\r?$`) })
	sha256sumLine   = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?m)^([0-9a-f]{64}) [ *]\S`) })
)

// lockfileDigests returns the digests that a lockfile lists, in the notation of
// Pin. Weak ones (sha1, md5) are passed over.
func lockfileDigests(name string, data []byte) ([]string, error) {
	if len(data) > MaxLockfile {
		return nil, fmt.Errorf("it has %d bytes; at most %d are read", len(data), MaxLockfile)
	}
	var out []string
	base := strings.ToLower(path.Base(strings.ReplaceAll(name, "\\", "/")))
	switch {
	case base == "package-lock.json", base == "npm-shrinkwrap.json", base == "yarn.lock", base == "pnpm-lock.yaml":
		for _, m := range sriPattern().FindAllSubmatch(data, -1) {
			if raw, err := base64.StdEncoding.DecodeString(string(m[2])); err == nil {
				out = append(out, "sha"+string(m[1])+":"+hex.EncodeToString(raw))
			}
		}
	case base == "cargo.lock":
		for _, m := range checksumPattern().FindAllSubmatch(data, -1) {
			out = append(out, "sha256:"+string(m[1]))
		}
	case base == "go.sum":
		for _, m := range goSumPattern().FindAllSubmatch(data, -1) {
			if !strings.HasSuffix(string(m[1]), "/go.mod") {
				out = append(out, string(m[2]))
			}
		}
	case strings.HasSuffix(base, ".txt") && strings.Contains(base, "require"),
		base == "poetry.lock", base == "uv.lock", base == "pdm.lock", base == "pipfile.lock":
		for _, m := range pipPattern().FindAllSubmatch(data, -1) {
			out = append(out, "sha"+string(m[1])+":"+string(m[2]))
		}
	default:
		for _, m := range sha256sumLine().FindAllSubmatch(data, -1) {
			out = append(out, "sha256:"+string(m[1]))
		}
	}
	for _, d := range out {
		if !isDigest(d) {
			return nil, fmt.Errorf("%.80q in it is not a digest", d)
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("no digest found in it; known are package-lock.json, yarn.lock, pnpm-lock.yaml, requirements.txt with hashes, poetry.lock, uv.lock, Cargo.lock, go.sum and the output of sha256sum")
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}
