package policy

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"slices"
	"strings"

	"github.com/wallproof/wallproof/policy/host"
)

// MaxModule is the largest Go module zip that is held against an "h1:" digest,
// in bytes. Such a digest is over the files inside, so the zip has to be kept
// until it is complete. Larger ones are not pinned by anything, and so refused.
const MaxModule = 512 << 20

// Covers reports whether the response to a request for a raw path is held to
// the pin. One whose path cannot be cleaned is.
func (p *Pin) Covers(rawPath string) bool {
	if len(p.Artefacts) == 0 {
		return true
	}
	path, err := host.CleanPath(rawPath)
	if err != nil {
		return true
	}
	for _, ending := range p.Artefacts {
		if strings.HasSuffix(path, ending) {
			return true
		}
	}
	return false
}

// Verifier is fed an artefact with Write and then says whether it is one of the
// pinned ones. Write never fails.
type Verifier struct {
	pin    *Pin
	sums   map[string]hash.Hash // by name of the digest's algorithm
	module *bytes.Buffer        // nil unless a digest is h1
	over   bool                 // the artefact is larger than MaxModule
}

// Verifier returns a verifier for one artefact. It is not safe for concurrent
// use.
func (p *Pin) Verifier() *Verifier {
	v := &Verifier{pin: p, sums: map[string]hash.Hash{}}
	for _, d := range p.Digests {
		algorithm, _, _ := strings.Cut(d, ":")
		if v.sums[algorithm] != nil {
			continue
		}
		switch algorithm {
		case "sha256":
			v.sums[algorithm] = sha256.New()
		case "sha384":
			v.sums[algorithm] = sha512.New384()
		case "sha512":
			v.sums[algorithm] = sha512.New()
		case "h1":
			if v.module == nil {
				v.module = new(bytes.Buffer)
			}
		}
	}
	return v
}

// Write takes the next bytes of the artefact.
func (v *Verifier) Write(b []byte) (int, error) {
	for _, h := range v.sums {
		h.Write(b)
	}
	if v.module != nil && !v.over {
		if v.over = v.module.Len()+len(b) > MaxModule; v.over {
			v.module = new(bytes.Buffer)
		} else {
			v.module.Write(b)
		}
	}
	return len(b), nil
}

// Keeps reports whether what is written is kept in memory, as it is for an "h1:"
// digest.
func (v *Verifier) Keeps() bool { return v.module != nil && !v.over }

// Verified reports whether what was written is a pinned artefact.
func (v *Verifier) Verified() bool {
	for algorithm, h := range v.sums {
		if v.pin.has(algorithm + ":" + hex.EncodeToString(h.Sum(nil))) {
			return true
		}
	}
	if v.module == nil || v.over {
		return false
	}
	sum, err := moduleHash(v.module.Bytes())
	return err == nil && v.pin.has(sum)
}

func (p *Pin) has(digest string) bool {
	_, ok := slices.BinarySearch(p.Digests, digest)
	return ok
}

// moduleHash returns the "h1:" hash of a module's zip: SHA-256 over one line
// "<hex SHA-256>  <name>\n" a file, sorted by name (go.sum's format).
func moduleHash(data []byte) (string, error) {
	z, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return "", fmt.Errorf("read the module's zip: %w", err)
	}
	files := slices.Clone(z.File)
	slices.SortFunc(files, func(a, b *zip.File) int { return strings.Compare(a.Name, b.Name) })
	sum := sha256.New()
	left := int64(MaxModule)
	for _, f := range files {
		if strings.Contains(f.Name, "\n") {
			return "", fmt.Errorf("a file in the module's zip has a line break in its name")
		}
		r, err := f.Open()
		if err != nil {
			return "", fmt.Errorf("read %q in the module's zip: %w", f.Name, err)
		}
		h := sha256.New()
		// The bound is on the unpacked size too: a small zip can hold a large file.
		n, err := io.Copy(h, io.LimitReader(r, left+1))
		if cerr := r.Close(); err == nil {
			err = cerr
		}
		if left -= n; err != nil || left < 0 {
			return "", fmt.Errorf("read %q in the module's zip: too large, or broken", f.Name)
		}
		fmt.Fprintf(sum, "%x  %s\n", h.Sum(nil), f.Name)
	}
	return "h1:" + base64.StdEncoding.EncodeToString(sum.Sum(nil)), nil
}
