// Package bugreport writes what a bug report about a run needs into one archive
// from which secrets are taken out.
//
// # Form
//
// A tar file; the same input gives the same bytes:
//
//	contents.json  what is in it: size and SHA-256 of each file before redaction,
//	               how many values were masked in it, and the positive control
//	about.json     version, system, names (never values) of WALLPROOF_ variables
//	checks.json    what reading the packet strictly finds, check by check
//	packet/…       the packet's files
//	logs/…         logs that were named
//
// # Redaction
//
// Masked are, in every encoding that policy/proxy/redact knows, the values of
// environment variables whose names look like keys, and by their form: private
// keys in PEM, JSON web tokens, tokens of well-known services, passwords in URLs,
// and authorization headers. A file that holds a canary in any encoding is left
// out whole: it stood in for a secret, so it should not be there. Host names and paths stay: whoever sends the
// archive should read it first.
package bugreport

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/wallproof/wallproof/policy"
	"github.com/wallproof/wallproof/policy/proxy/redact"
	"github.com/wallproof/wallproof/probes/canary"
)

// Bounds.
const (
	MaxFileBytes = 256 << 20
	maxFiles     = 4096
)

// About is about.json.
type About struct {
	RunID     string   `json:"runId"`
	Version   string   `json:"version"`
	Commit    string   `json:"commit"`
	Go        string   `json:"go"`
	System    string   `json:"system"`
	Kernel    string   `json:"kernel,omitempty"`
	Variables []string `json:"variables"` // names only
}

// Sources are what a report is made of.
type Sources struct {
	About  About
	Checks any               // of reading the packet, for checks.json
	Packet fs.FS             // may be nil
	Logs   map[string][]byte // by file name
	Env    []string          // NAME=VALUE; values of names that look like keys are masked
}

// File is a line of contents.json.
type File struct {
	Path   string `json:"path"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
	Masked int    `json:"masked"`
	// LeftOut says why the archive has an empty file in this one's place.
	LeftOut string `json:"leftOut,omitempty"`
}

// Contents is contents.json.
type Contents struct {
	Files   []File `json:"files"`
	Control string `json:"control"` // of the redaction
}

// ErrControl means that the redaction did not find what was planted for it.
var ErrControl = errors.New("the redaction did not find a value that was planted as its control; nothing was written")

// redactor masks what must not leave.
type redactor struct{ values *redact.Redactor }

func newRedactor(env []string, control string) (*redactor, error) {
	values := [][]byte{[]byte(control)}
	for _, kv := range env {
		name, value, _ := strings.Cut(kv, "=")
		if policy.LooksLikeKey(name) && len(value) >= redact.MinSecret && len(value) <= redact.MaxSecret {
			values = append(values, []byte(value))
		}
	}
	r, err := redact.New(values...)
	if err != nil {
		return nil, fmt.Errorf("prepare the redaction: %w", err)
	}
	return &redactor{r}, nil
}

// forms are secrets that are told by how they look. The last group is what is
// masked.
var forms = sync.OnceValue(func() []*regexp.Regexp {
	return []*regexp.Regexp{
		regexp.MustCompile(`(-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|\z))`),
		regexp.MustCompile(`\b(eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*)`),
		regexp.MustCompile(`\b((?:gh[pousr]_|github_pat_|glpat-|xox[abposr]-|sk-|npm_|hf_|hvs\.|dop_v1_|ya29\.)[A-Za-z0-9_.-]{16,})`),
		regexp.MustCompile(`\b((?:AKIA|ASIA)[A-Z0-9]{16})\b`),
		regexp.MustCompile(`(?i)\b[a-z][a-z0-9+.-]*://[^\s/@:"']*:([^\s/@"']+)@`),
		regexp.MustCompile(`(?i)\bauthorization["']?\s*[:=]\s*["']?(?:(?:bearer|basic|token)\s+)?([^\s"',}]+)`),
	}
})

// mask overwrites secrets in data and counts them.
func (r *redactor) mask(data []byte) int {
	n := r.values.Bytes(data)
	for _, form := range forms() {
		for _, m := range form.FindAllSubmatchIndex(data, -1) {
			at := m[len(m)-2:]
			if strings.Trim(string(data[at[0]:at[1]]), "*") == "" {
				continue // masked already
			}
			n++
			copy(data[at[0]:at[1]], redact.Masked(at[1]-at[0]))
		}
	}
	return n
}

// Write writes the archive and returns what is in it. On an error the archive is
// of no use.
func Write(w io.Writer, s Sources) (Contents, error) {
	const control = "wallproof-bugreport-control"
	r, err := newRedactor(s.Env, control)
	if err != nil {
		return Contents{}, err
	}
	files, err := s.collect()
	if err != nil {
		return Contents{}, err
	}
	var out Contents
	for _, name := range sorted(files) {
		data := files[name]
		sum := sha256.Sum256(data)
		f := File{Path: name, Size: int64(len(data)), SHA256: hex.EncodeToString(sum[:])}
		planted := append(slices.Clone(data), control...)
		f.Masked = r.mask(data)
		if r.mask(planted) <= f.Masked || strings.Contains(string(planted), control) {
			return Contents{}, ErrControl
		}
		if canary.Contains(data) {
			files[name], f.LeftOut = nil, "it holds a canary"
		}
		out.Files = append(out.Files, f)
	}
	out.Control = fmt.Sprintf("a value planted behind each of %d files was found in each", len(out.Files))
	if files["contents.json"], err = json.MarshalIndent(out, "", "  "); err != nil {
		return out, fmt.Errorf("write contents.json: %w", err)
	}
	return out, writeTar(w, files)
}

// collect reads everything.
func (s Sources) collect() (map[string][]byte, error) {
	files := map[string][]byte{}
	for name, v := range map[string]any{"about.json": s.About, "checks.json": s.Checks} {
		data, err := json.MarshalIndent(v, "", "  ")
		if err != nil {
			return nil, fmt.Errorf("write %s: %w", name, err)
		}
		files[name] = data
	}
	for name, data := range s.Logs {
		files["logs/"+name] = slices.Clone(data)
	}
	if s.Packet == nil {
		return files, nil
	}
	err := fs.WalkDir(s.Packet, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !d.Type().IsRegular() {
			return err // links and devices are no evidence
		}
		if len(files) >= maxFiles {
			return fmt.Errorf("more than %d files", maxFiles)
		}
		data, err := readFile(s.Packet, path)
		files["packet/"+path] = data
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read the packet: %w", err)
	}
	return files, nil
}

func readFile(p fs.FS, path string) ([]byte, error) {
	f, err := p.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, MaxFileBytes+1))
	if err == nil && len(data) > MaxFileBytes {
		err = fmt.Errorf("%s is larger than %d bytes", path, MaxFileBytes)
	}
	return data, err
}

func sorted(files map[string][]byte) []string {
	var names []string
	for name := range files {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func writeTar(w io.Writer, files map[string][]byte) error {
	tw := tar.NewWriter(w)
	for _, name := range sorted(files) {
		h := &tar.Header{Typeflag: tar.TypeReg, Name: name, Size: int64(len(files[name])), Mode: 0o600, ModTime: time.Unix(0, 0).UTC(), Format: tar.FormatPAX}
		if err := tw.WriteHeader(h); err != nil {
			return fmt.Errorf("write the archive: %w", err)
		}
		if _, err := tw.Write(files[name]); err != nil {
			return fmt.Errorf("write the archive: %w", err)
		}
	}
	if err := tw.Close(); err != nil {
		return fmt.Errorf("write the archive: %w", err)
	}
	return nil
}
