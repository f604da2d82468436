package battery

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/wallproof/wallproof/attest/packet"
	"github.com/wallproof/wallproof/attest/predicate"
	"github.com/wallproof/wallproof/internal/canon"
	"github.com/wallproof/wallproof/policy/proxy/redact"
	"github.com/wallproof/wallproof/probes/canary"
)

// encodings are the forms in which the redaction proof looks for a value, each
// with how its positive control writes one.
var encodings = []struct {
	name  string
	write func(string) string
}{
	{"raw", func(s string) string { return s }},
	{"base64", func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }},
	{"base64-offset-1", func(s string) string { return base64.StdEncoding.EncodeToString([]byte("x" + s + "yz")) }},
	{"base64-offset-2", func(s string) string { return base64.StdEncoding.EncodeToString([]byte("xx" + s + "y")) }},
	{"base64url", func(s string) string { return base64.RawURLEncoding.EncodeToString([]byte("~~~" + s)) }},
	{"hex", func(s string) string { return hex.EncodeToString([]byte(s)) }},
	{"hex-upper", func(s string) string { return fmt.Sprintf("%X", s) }},
	{"percent", percentAll},
	{"percent-reserved", func(s string) string { return url.QueryEscape(s) }},
	{"json", func(s string) string { b, _ := json.Marshal(s); return string(b) }},
}

func percentAll(s string) string {
	out := make([]byte, 0, 3*len(s))
	for _, b := range []byte(s) {
		out = fmt.Appendf(out, "%%%02X", b)
	}
	return string(out)
}

// ErrUnredacted means that a packet holds secrets.
var ErrUnredacted = errors.New("the packet is not fit to leave this machine")

// proveRedaction searches every file of the packet for every value that must
// not be in it, in every encoding, and shows that the search works by planting a
// value in each encoding into copies of the same files. A hit is an error: the
// packet is not fit to leave the machine.
//
// The machine is searched too, for what the run left outside the packet: see
// searchResidue.
func proveRedaction(dir string, secrets []string, places residuePlaces, began time.Time) ([]byte, error) {
	values := make([][]byte, len(secrets))
	for i, s := range secrets {
		values[i] = []byte(s)
	}
	r, err := redact.New(values...)
	if err != nil {
		return nil, fmt.Errorf("prepare the redaction proof: %w", err)
	}
	proof := packet.Redaction{Schema: packet.RedactionSchema, Secrets: int64(len(secrets))}
	for _, e := range encodings {
		proof.Encodings = append(proof.Encodings, e.name)
	}
	root := os.DirFS(dir)
	index, err := scanned(root)
	if err != nil {
		return nil, err
	}
	planted := secrets[len(secrets)-1]
	for n, f := range index {
		data, err := fs.ReadFile(root, f.Path)
		if err != nil {
			return nil, fmt.Errorf("read %s for the redaction proof: %w", f.Path, err)
		}
		proof.Hits += int64(hits(r, data))
		e := encodings[n%len(encodings)]
		proof.Control.Planted++
		proof.Control.Found += found(r, implant(data, e.write(planted)))
	}
	for _, e := range encodings { // each encoding at least once, however few the files
		proof.Control.Planted++
		proof.Control.Found += found(r, []byte(e.write(planted)))
	}
	proof.Scanned = index
	if proof.Kinds, err = proveKinds(r, oneWord(secrets)); err != nil {
		return nil, err
	}
	if err := withResidue(&proof, places, secrets, began); err != nil {
		return nil, err
	}
	if proof.Hits > 0 {
		return nil, fmt.Errorf("%w: the packet holds %d secrets in clear or encoded", ErrUnredacted, proof.Hits)
	}
	if proof.Control.Found != proof.Control.Planted {
		return nil, fmt.Errorf("the redaction proof found %d of the %d values planted as its control", proof.Control.Found, proof.Control.Planted)
	}
	return canon.Marshal(proof)
}

// oneWord picks a secret of a single word, a canary where there is one: what is
// planted in a text that is then written as JSON must not change by that alone.
func oneWord(secrets []string) string {
	words := slices.DeleteFunc(slices.Clone(secrets), func(s string) bool { return strings.ContainsAny(s, " \r\n\t\"\\<>&") })
	for _, s := range words {
		if canary.Contains([]byte(s)) {
			return s
		}
	}
	if len(words) > 0 {
		return words[0]
	}
	return secrets[len(secrets)-1]
}

// scanned lists the files that exist in the packet.
func scanned(root fs.FS) ([]predicate.File, error) {
	var out []predicate.File
	err := fs.WalkDir(root, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := fs.ReadFile(root, path)
		if err != nil {
			return err
		}
		sum := sha256.Sum256(data)
		out = append(out, predicate.File{Path: path, Size: int64(len(data)), SHA256: hex.EncodeToString(sum[:])})
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list the packet for the redaction proof: %w", err)
	}
	return out, nil
}

// hits counts secrets in data. Canaries are looked for by their shape too,
// whoever made them.
func hits(r *redact.Redactor, data []byte) int {
	return r.Bytes(append([]byte(nil), data...)) + len(canary.Find(data))
}

func found(r *redact.Redactor, data []byte) int64 {
	if r.Bytes(data) > 0 {
		return 1
	}
	return 0
}

// implant puts a value into the middle of a copy of data.
func implant(data []byte, value string) []byte {
	out := append([]byte(nil), data[:len(data)/2]...)
	out = append(out, value...)
	return append(out, data[len(data)/2:]...)
}
