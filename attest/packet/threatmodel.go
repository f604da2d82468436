package packet

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"unicode/utf8"

	"github.com/wallproof/wallproof/attest/predicate"
	"github.com/wallproof/wallproof/internal/canon"
)

// MaxThreatModelBytes bounds a threat model.
const MaxThreatModelBytes = 4 << 20

// maxField bounds one field of the front matter.
const maxField = 4096

// ThreatModelSchema names the JSON form.
const ThreatModelSchema = "wallproof.threat-model/v1"

// ErrThreatModel is the class of errors of ParseThreatModel.
var ErrThreatModel = errors.New("not a threat model")

// threatModelJSON is threat-model.json.
type threatModelJSON struct {
	Schema          string `json:"schema"`
	Scope           string `json:"scope"`
	TrustAssumption string `json:"trustAssumption"`
	PrimaryAsset    string `json:"primaryAsset"`
	Boundary        string `json:"boundary"`
}

// ParseThreatModel reads a threat model: JSON when its first byte is "{", else
// Markdown with a front matter:
//
//	---
//	scope: what is covered
//	trust-assumption: who is trusted
//	primary-asset: what must not be lost
//	boundary: where the wall runs
//	---
//	# The document, any Markdown
//
// A field is one line; lines that begin with a space continue it. Quotes around
// a whole value are dropped. Other fields may stand there too; a field twice, or
// in another case, is refused, as is one of the four that is missing or empty.
// The result's File says under which name the packet keeps it.
func ParseThreatModel(data []byte) (predicate.ThreatModel, error) {
	if len(data) > MaxThreatModelBytes {
		return predicate.ThreatModel{}, fmt.Errorf("%w: %d bytes, the limit is %d", ErrThreatModel, len(data), MaxThreatModelBytes)
	}
	if !utf8.Valid(data) {
		return predicate.ThreatModel{}, fmt.Errorf("%w: not UTF-8", ErrThreatModel)
	}
	parse := parseMarkdown
	if bytes.HasPrefix(data, []byte("{")) {
		parse = parseThreatModelJSON
	}
	t, err := parse(data)
	if err != nil {
		return predicate.ThreatModel{}, fmt.Errorf("%w: %w", ErrThreatModel, err)
	}
	t.Digest = predicate.Digest(data)
	return t, nil
}

func parseThreatModelJSON(data []byte) (predicate.ThreatModel, error) {
	var j threatModelJSON
	if _, err := canon.UnmarshalOpen(data, canon.Limits{Bytes: MaxThreatModelBytes}, &j); err != nil {
		return predicate.ThreatModel{}, err
	}
	if j.Schema != ThreatModelSchema {
		return predicate.ThreatModel{}, fmt.Errorf("schema is %.100q, want %q", j.Schema, ThreatModelSchema)
	}
	return fields{"scope": j.Scope, "trust-assumption": j.TrustAssumption, "primary-asset": j.PrimaryAsset, "boundary": j.Boundary}.model(ThreatModelJSON)
}

func parseMarkdown(data []byte) (predicate.ThreatModel, error) {
	text := strings.ReplaceAll(string(data), "\r\n", "\n")
	rest, ok := strings.CutPrefix(text, "---\n")
	if !ok {
		return predicate.ThreatModel{}, errors.New(`no front matter: the first line must be "---"`)
	}
	front, _, ok := strings.Cut("\n"+rest, "\n---\n")
	if !ok {
		if front, ok = strings.CutSuffix("\n"+rest, "\n---"); !ok {
			return predicate.ThreatModel{}, errors.New(`the front matter has no end: a line "---"`)
		}
	}
	f, err := parseFields(front)
	if err != nil {
		return predicate.ThreatModel{}, err
	}
	return f.model(ThreatModelMD)
}

// fields are the front matter's, by name.
type fields map[string]string

func parseFields(front string) (fields, error) {
	f := fields{}
	last := ""
	for line := range strings.SplitSeq(front, "\n") {
		switch {
		case strings.TrimSpace(line) == "":
			continue
		case line[0] == ' ' || line[0] == '\t':
			if last == "" {
				return nil, errors.New("the front matter begins with a continuation")
			}
			// One that is too long already is refused, or is not looked at: adding to it
			// for ever would take time in the square of its length.
			if len(f[last]) <= maxField {
				f[last] += " " + strings.TrimSpace(line)
			}
			continue
		case line[0] == '#':
			continue
		}
		name, value, ok := strings.Cut(line, ":")
		if !ok {
			return nil, fmt.Errorf("front matter line %.60q is not \"name: value\"", line)
		}
		name = strings.TrimSpace(name)
		if strings.ToLower(name) != name || name == "" {
			return nil, fmt.Errorf("front matter name %.60q must be in lower case", name)
		}
		if _, twice := f[name]; twice {
			return nil, fmt.Errorf("front matter has %.60q twice", name)
		}
		f[name] = strings.TrimSpace(value)
		last = name
	}
	return f, nil
}

func (f fields) model(file string) (predicate.ThreatModel, error) {
	t := predicate.ThreatModel{File: file}
	for _, want := range []struct {
		name string
		dest *string
	}{
		{"scope", &t.Scope}, {"trust-assumption", &t.TrustAssumption},
		{"primary-asset", &t.PrimaryAsset}, {"boundary", &t.Boundary},
	} {
		v := unquote(f[want.name])
		if v == "" {
			return predicate.ThreatModel{}, fmt.Errorf("%q is missing or empty", want.name)
		}
		if len(v) > maxField || strings.ContainsFunc(v, func(r rune) bool { return r < 0x20 || r == 0x7f }) {
			return predicate.ThreatModel{}, fmt.Errorf("%q is longer than %d bytes or has control characters", want.name, maxField)
		}
		*want.dest = v
	}
	return t, nil
}

func unquote(s string) string {
	if len(s) >= 2 && (s[0] == '"' || s[0] == '\'') && s[len(s)-1] == s[0] {
		return strings.TrimSpace(s[1 : len(s)-1])
	}
	return s
}

// ReadThreatModel reads the packet's threat model; nil when it has none.
func ReadThreatModel(packet fs.FS) (*predicate.ThreatModel, error) {
	for _, name := range []string{ThreatModelMD, ThreatModelJSON} {
		data, err := ReadDocument(packet, name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		t, err := ParseThreatModel(data)
		if err != nil {
			return nil, &Error{Reason: ReasonDocument, Path: name, Err: err}
		}
		if t.File != name {
			return nil, &Error{Reason: ReasonDocument, Path: name, Detail: "its content belongs under the name " + t.File}
		}
		return &t, nil
	}
	return nil, nil
}
