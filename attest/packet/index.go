package packet

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/wallproof/wallproof/attest/predicate"
)

// Index lists every file of a packet but the two bundles, sorted by path, with
// size and SHA-256. Names outside the layout, links and missing required files
// are refused.
func Index(packet fs.FS) ([]predicate.File, error) {
	paths, err := list(packet)
	if err != nil {
		return nil, err
	}
	out := make([]predicate.File, 0, len(paths))
	var total int64
	for _, p := range paths {
		if IsBundle(p) {
			continue
		}
		f, err := hashFile(packet, p)
		if err != nil {
			return nil, err
		}
		if total += f.Size; total > MaxTotalBytes {
			return nil, &Error{Reason: ReasonLimit, Path: p, Detail: fmt.Sprintf("more than %d bytes in all", int64(MaxTotalBytes))}
		}
		out = append(out, f)
	}
	return out, nil
}

// Compare holds a packet's Index against the one of a statement and returns
// everything that differs, each an *Error.
func Compare(have, want []predicate.File) []error {
	var faults []error
	if err := checkIndex(want); err != nil {
		faults = append(faults, err)
	}
	listed := map[string]predicate.File{}
	for _, f := range want {
		listed[f.Path] = f
	}
	for _, h := range have {
		w, ok := listed[h.Path]
		delete(listed, h.Path)
		switch {
		case !ok:
			faults = append(faults, &Error{Reason: ReasonUnlisted, Path: h.Path, Detail: "the signed index does not have it"})
		case h.Size != w.Size:
			faults = append(faults, &Error{Reason: ReasonSize, Path: h.Path, Detail: fmt.Sprintf("%d bytes, signed are %d", h.Size, w.Size)})
		case h.SHA256 != w.SHA256:
			faults = append(faults, &Error{Reason: ReasonDigest, Path: h.Path, Detail: "sha256:" + h.SHA256 + ", signed is sha256:" + w.SHA256})
		}
	}
	for _, w := range want {
		if _, missing := listed[w.Path]; missing {
			faults = append(faults, &Error{Reason: ReasonMissing, Path: w.Path, Detail: "the signed index has it"})
		}
	}
	return faults
}

// checkIndex refuses an index that Index would not have written.
func checkIndex(files []predicate.File) error {
	if len(files) > MaxFiles {
		return &Error{Reason: ReasonLimit, Detail: fmt.Sprintf("an index of %d files, the limit is %d", len(files), MaxFiles)}
	}
	for i, f := range files {
		if i > 0 && files[i-1].Path >= f.Path {
			return &Error{Reason: ReasonIndex, Path: f.Path, Detail: "the index is not sorted or lists a file twice"}
		}
		if predicate.CheckDigest("sha256:"+f.SHA256) != nil || f.Size < 0 || IsBundle(f.Path) {
			return &Error{Reason: ReasonIndex, Path: f.Path, Detail: "not an entry of an index"}
		}
	}
	return nil
}

// list returns the sorted paths of all files.
func list(packet fs.FS) ([]string, error) {
	var paths []string
	err := fs.WalkDir(packet, ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return &Error{Reason: ReasonRead, Path: p, Err: err}
		}
		if d.IsDir() {
			return checkDir(p)
		}
		if !d.Type().IsRegular() {
			return &Error{Reason: ReasonNotFile, Path: p, Detail: "only regular files belong into a packet"}
		}
		if err := checkName(p); err != nil {
			return err
		}
		if len(paths) >= MaxFiles {
			return &Error{Reason: ReasonLimit, Detail: fmt.Sprintf("more than %d files", MaxFiles)}
		}
		paths = append(paths, p)
		return nil
	})
	if err != nil {
		return nil, err
	}
	slices.Sort(paths)
	if err := checkDistinct(paths); err != nil {
		return nil, err
	}
	return paths, checkComplete(paths)
}

// checkDistinct refuses names that are one file, or one folder, where case does
// not count: such a packet would be another one on another machine.
func checkDistinct(paths []string) error {
	seen := map[string]string{}
	for _, p := range paths {
		for name := p; name != "."; name = path.Dir(name) {
			folded := strings.ToLower(name)
			if other, ok := seen[folded]; ok && other != name {
				return &Error{Reason: ReasonName, Path: p, Detail: "differs from " + other + " only in case"}
			}
			seen[folded] = name
		}
	}
	return nil
}

func checkDir(p string) error {
	if p == "." || p == ObservationsDir || p == LogsDir || strings.HasPrefix(p, LogsDir+"/") {
		return nil
	}
	return &Error{Reason: ReasonName, Path: p, Detail: "a directory that is not part of a packet"}
}

// checkName accepts the names of the layout: the fixed files, the two
// observation files, and plain names below logs/.
func checkName(p string) error {
	if _, ok := fixed[p]; ok || p == ControlFile || p == AttackFile {
		return nil
	}
	if rest, ok := strings.CutPrefix(p, LogsDir+"/"); ok && len(p) <= MaxPathBytes && plainPath(rest) {
		return nil
	}
	return &Error{Reason: ReasonName, Path: p, Detail: "not a name of the packet's layout"}
}

var device = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\A(con|prn|aux|nul|(com|lpt)[0-9])\z`) })

// plainPath allows letters, digits and "._-" in each part, no leading or trailing
// dot, and no name that is a device on Windows, where packets are verified too.
func plainPath(p string) bool {
	for part := range strings.SplitSeq(p, "/") {
		stem, _, _ := strings.Cut(strings.ToLower(part), ".")
		if part == "" || part[0] == '.' || part[len(part)-1] == '.' || device().MatchString(stem) {
			return false
		}
		for i := range len(part) {
			c := part[i]
			if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("._-", c) >= 0) {
				return false
			}
		}
	}
	return true
}

func checkComplete(paths []string) error {
	required := []string{ControlFile, AttackFile}
	for name, must := range fixed {
		if must {
			required = append(required, name)
		}
	}
	slices.Sort(required)
	for _, name := range required {
		if !slices.Contains(paths, name) {
			return &Error{Reason: ReasonMissing, Path: name, Detail: "every packet has it"}
		}
	}
	if slices.Contains(paths, ThreatModelMD) && slices.Contains(paths, ThreatModelJSON) {
		return &Error{Reason: ReasonName, Path: ThreatModelJSON, Detail: "a packet has one threat model"}
	}
	return nil
}

func hashFile(packet fs.FS, p string) (predicate.File, error) {
	f, err := Open(packet, p)
	if err != nil {
		return predicate.File{}, &Error{Reason: ReasonRead, Path: p, Err: err}
	}
	defer f.Close()
	h := sha256.New()
	n, err := copyFile(h, f)
	if err != nil {
		return predicate.File{}, &Error{Reason: ReasonRead, Path: p, Err: err}
	}
	if n > MaxFileBytes {
		return predicate.File{}, &Error{Reason: ReasonLimit, Path: p, Detail: fmt.Sprintf("more than %d bytes", int64(MaxFileBytes))}
	}
	return predicate.File{Path: p, Size: n, SHA256: hex.EncodeToString(h.Sum(nil))}, nil
}

// held is a file that is in memory already.
type held interface {
	io.WriterTo
	Len() int
}

var copyBuffers = sync.Pool{New: func() any { return new([64 << 10]byte) }}

// copyFile copies a file, up to one byte more than MaxFileBytes. One in memory is
// handed over as it is, any other goes through a buffer that others used before.
func copyFile(w io.Writer, f fs.File) (int64, error) {
	if m, ok := f.(held); ok && int64(m.Len()) <= MaxFileBytes {
		return m.WriteTo(w)
	}
	b := copyBuffers.Get().(*[64 << 10]byte)
	defer copyBuffers.Put(b)
	return io.CopyBuffer(w, io.LimitReader(f, MaxFileBytes+1), b[:])
}

// readFile reads a file, up to one byte more than MaxDocumentBytes.
func readFile(f fs.File) ([]byte, error) {
	if m, ok := f.(held); ok && m.Len() <= MaxDocumentBytes {
		data := make([]byte, m.Len())
		_, err := io.ReadFull(f, data)
		return data, err
	}
	return io.ReadAll(io.LimitReader(f, MaxDocumentBytes+1))
}

// ReadDocument reads a file into memory, up to MaxDocumentBytes. A file that is
// not there gives fs.ErrNotExist.
func ReadDocument(packet fs.FS, name string) ([]byte, error) {
	f, err := Open(packet, name)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) || ReasonOf(err) != "" {
			return nil, err
		}
		return nil, &Error{Reason: ReasonRead, Path: name, Err: err}
	}
	defer f.Close()
	data, err := readFile(f)
	if err != nil {
		return nil, &Error{Reason: ReasonRead, Path: name, Err: err}
	}
	if len(data) > MaxDocumentBytes {
		return nil, &Error{Reason: ReasonLimit, Path: name, Detail: fmt.Sprintf("more than %d bytes", MaxDocumentBytes)}
	}
	return data, nil
}
