package policy

import (
	"fmt"
	"strings"

	"github.com/wallproof/wallproof/internal/canon"
	"github.com/wallproof/wallproof/policy/internal/strict"
)

// Bounds on a document. What exceeds one is refused, never cut.
const (
	MaxBytes       = 128 << 20      // of the document
	MaxEntries     = 1 << 20        // allow and block entries of all phases together, packs expanded
	MaxList        = 10_000         // secrets, rules of a secret, repositories, …
	MaxText        = strict.MaxText // bytes of one text, unless said otherwise
	MaxValue       = 32 << 10       // bytes of an environment variable's value
	MaxPorts       = 64             // port ranges of an entry
	MaxMethods     = 32             // methods of an entry
	MaxPaths       = 1_000          // paths of an entry
	MaxDigests     = 100_000        // digests of a pin
	maxDepth       = 12
	maxNodes       = 12 * MaxEntries
	maxLeaseMin    = 60
	minPlaceholder = 8
)

var documentLimits = strict.Limits{Bytes: MaxBytes, Depth: maxDepth, Nodes: maxNodes, Scalar: MaxValue}

// Error says what is wrong with a document, and where.
type Error struct {
	File    string
	Line    int    // from 1; 0 when it is not about one place
	Column  int    // from 1, in characters; 0 when unknown
	Field   string // "allow[3].ports", or ""
	Message string // lower case, says what to do
}

// Error returns "file:line:column: field: message".
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.File)
	if e.File == "" {
		b.WriteString("policy")
	}
	if e.Line > 0 {
		fmt.Fprintf(&b, ":%d", e.Line)
		if e.Column > 0 {
			fmt.Fprintf(&b, ":%d", e.Column)
		}
	}
	if e.Field != "" {
		b.WriteString(": " + e.Field)
	}
	b.WriteString(": " + e.Message)
	return b.String()
}

// Parse reads a policy in YAML or JSON. name is for messages; one that ends in
// ".json" is read as JSON, one in ".yaml" or ".yml" as YAML, any other as JSON
// when it begins with a brace. The canonical form is read too. On an error, which
// is an *Error, the policy is nil.
func Parse(name string, data []byte) (*Policy, error) {
	root, err := strict.Read(strict.FormatOf(name, data), data, documentLimits)
	if err != nil {
		return nil, fromStrict(name, err)
	}
	d := &decoder{canonical: root.Get("evaluator") != nil}
	p, err := d.document(root)
	if err != nil {
		return nil, fromStrict(name, err)
	}
	p.Source = name
	if err := p.check(); err != nil {
		return nil, err
	}
	return p, nil
}

func fromStrict(file string, e *strict.Error) *Error {
	return &Error{File: file, Line: e.Line, Column: e.Column, Field: e.Field, Message: e.Message}
}

// ParseCanonical reads a canonical form and refuses any other bytes, so that
// one policy has one form. The sources of secrets are not in it. The error is an
// *Error.
func ParseCanonical(data []byte) (*Policy, error) {
	const file = "policy.canonical.json"
	if err := canon.Check(data, canon.Limits{Bytes: MaxBytes, Depth: maxDepth, Members: MaxEntries}); err != nil {
		return nil, &Error{File: file, Message: "not in canonical form: " + err.Error()}
	}
	p, err := Parse(file, data)
	if err != nil {
		return nil, err
	}
	again, err := p.Canonical()
	if err != nil {
		return nil, &Error{File: file, Message: err.Error()}
	}
	if string(again) != string(data) {
		return nil, &Error{File: file, Message: "not in canonical form: canonical JSON, but something in it is not in normal form, not in order, or given twice"}
	}
	return p, nil
}
