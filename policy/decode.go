package policy

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/wallproof/wallproof/policy/internal/strict"
)

// decoder turns a tree into a Policy. It keeps the path of the value that it
// is at, for messages.
type decoder struct {
	file      string
	canonical bool // the document is a canonical form: sources may be absent
	entries   int
	path      []step
}

// step is a key, or an index where key is "".
type step struct {
	key   string
	index int
}

// field is one key of a map that decodes into a T.
type field[T any] struct {
	name     string
	required bool
	set      func(*decoder, *strict.Node, *T) *Error
}

// decodeMap decodes n into t by the table. It returns the set of keys that n
// has, by index in the table.
func decodeMap[T any](d *decoder, n *strict.Node, t *T, table []field[T]) (keys, *Error) {
	if n.Kind != strict.Map {
		return 0, d.wrongKind(n, "a map of keys and values")
	}
	var have keys
	for i := range n.Members {
		m := &n.Members[i]
		k := fieldIndex(table, m.Name)
		if k < 0 {
			return 0, d.unknownKey(m, names(table))
		}
		have |= 1 << k
		d.push(m.Name)
		if m.Value.Kind == strict.Null {
			return 0, d.fail(&m.Value, "has no value; give one or remove the key")
		}
		if err := table[k].set(d, &m.Value, t); err != nil {
			return 0, err
		}
		d.pop()
	}
	for i := range table {
		if table[i].required && have&(1<<i) == 0 {
			return 0, d.fail(n, "the key %q is missing", table[i].name)
		}
	}
	return have, nil
}

// keys is a set of keys by their index in a table.
type keys uint64

func has[T any](k keys, table []field[T], name string) bool {
	i := fieldIndex(table, name)
	return i >= 0 && k&(1<<i) != 0
}

func fieldIndex[T any](table []field[T], name string) int {
	for i := range table {
		if table[i].name == name {
			return i
		}
	}
	return -1
}

func names[T any](table []field[T]) []string {
	out := make([]string, len(table))
	for i := range table {
		out[i] = table[i].name
	}
	return out
}

func (d *decoder) push(key string)    { d.path = append(d.path, step{key: key}) }
func (d *decoder) pushIndex(i int)    { d.path = append(d.path, step{index: i}) }
func (d *decoder) pop()               { d.path = d.path[:len(d.path)-1] }
func pos(n *strict.Node) Pos          { return Pos{int(n.Line), int(n.Column)} }
func (p Pos) error(msg string) *Error { return &Error{Line: p.Line, Column: p.Column, Message: msg} }

// fail returns an error about the value that the decoder is at.
func (d *decoder) fail(n *strict.Node, format string, args ...any) *Error {
	var b strings.Builder
	for _, s := range d.path {
		switch {
		case s.key == "":
			fmt.Fprintf(&b, "[%d]", s.index)
		case b.Len() > 0:
			b.WriteString("." + s.key)
		default:
			b.WriteString(s.key)
		}
	}
	return &Error{File: d.file, Line: int(n.Line), Column: int(n.Column), Field: b.String(), Message: fmt.Sprintf(format, args...)}
}

func (d *decoder) wrongKind(n *strict.Node, want string) *Error {
	hint := ""
	if want == "text" && (n.Kind == strict.Int || n.Kind == strict.Bool || n.Kind == strict.Other) {
		hint = fmt.Sprintf("; write %q in quotes", n.Text)
	}
	return d.fail(n, "wants %s, not %s%s", want, n.Kind, hint)
}

func (d *decoder) unknownKey(m *strict.Member, known []string) *Error {
	at := strict.Node{Line: m.Line, Column: m.Column}
	msg := fmt.Sprintf("unknown key %.64q", m.Name)
	if len(d.path) == 1 && d.path[0].key == "phases" && m.Name == string(PhaseAgent) {
		return d.fail(&at, "%s: the document's own mode and entries are the agent phase", msg)
	}
	if best := closest(m.Name, known); best != "" {
		return d.fail(&at, "%s; did you mean %q?", msg, best)
	}
	return d.fail(&at, "%s; known here: %s", msg, strings.Join(known, ", "))
}

// text reads a text of 1 to MaxText bytes on one line.
func (d *decoder) text(n *strict.Node) (string, *Error) {
	switch {
	case n.Kind != strict.Text:
		return "", d.wrongKind(n, "text")
	case n.Text == "":
		return "", d.fail(n, "is empty")
	case len(n.Text) > MaxText:
		return "", d.fail(n, "has %d bytes; at most %d are allowed", len(n.Text), MaxText)
	}
	for _, r := range n.Text {
		if r < 0x20 || r == 0x7f || r >= 0x80 && r < 0xa0 || r == 0xfeff || r == 0x2028 || r == 0x2029 {
			return "", d.fail(n, "has a control character")
		}
	}
	return n.Text, nil
}

// word reads a text that fits a check, which names what it wants.
func (d *decoder) word(n *strict.Node, ok func(string) bool, want string) (string, *Error) {
	s, err := d.text(n)
	if err != nil {
		return "", err
	}
	if !ok(s) {
		return "", d.fail(n, "%.64q is not %s", s, want)
	}
	return s, nil
}

// choice reads one of a few words.
func (d *decoder) choice(n *strict.Node, words ...string) (string, *Error) {
	s, err := d.text(n)
	if err != nil {
		return "", err
	}
	for _, w := range words {
		if s == w {
			return s, nil
		}
	}
	if best := closest(s, words); best != "" {
		return "", d.fail(n, "unknown value %.64q; did you mean %q?", s, best)
	}
	return "", d.fail(n, "unknown value %.64q; one of %s", s, strings.Join(words, ", "))
}

func (d *decoder) integer(n *strict.Node, least, most int64) (int64, *Error) {
	if n.Kind != strict.Int {
		return 0, d.wrongKind(n, "a whole number")
	}
	v, err := strconv.ParseInt(n.Text, 10, 64)
	if err != nil || v < least || v > most {
		return 0, d.fail(n, "%s is not between %d and %d", n.Text, least, most)
	}
	return v, nil
}

func (d *decoder) boolean(n *strict.Node) (bool, *Error) {
	if n.Kind != strict.Bool {
		return false, d.wrongKind(n, "true or false")
	}
	return n.Text == "true", nil
}

// list calls each for every element of a list of 1 to most elements.
func (d *decoder) list(n *strict.Node, most int, each func(*strict.Node) *Error) *Error {
	switch {
	case n.Kind != strict.List:
		return d.wrongKind(n, "a list")
	case len(n.Items) > most:
		return d.fail(n, "has %d elements; at most %d are allowed", len(n.Items), most)
	}
	for i := range n.Items {
		d.pushIndex(i)
		if n.Items[i].Kind == strict.Null {
			return d.fail(&n.Items[i], "has no value; give one or remove it")
		}
		if err := each(&n.Items[i]); err != nil {
			return err
		}
		d.pop()
	}
	return nil
}

// fullList is list that refuses an empty one.
func (d *decoder) fullList(n *strict.Node, most int, each func(*strict.Node) *Error) *Error {
	if n.Kind == strict.List && len(n.Items) == 0 {
		return d.fail(n, "is an empty list, which would match nothing; give an element or remove the key")
	}
	return d.list(n, most, each)
}

// words reads a list of texts that fit a check, none twice.
func (d *decoder) words(n *strict.Node, most int, ok func(string) bool, want string) ([]string, *Error) {
	var out []string
	seen := map[string]bool{}
	err := d.fullList(n, most, func(n *strict.Node) *Error {
		s, err := d.word(n, ok, want)
		if err != nil {
			return err
		}
		if seen[s] {
			return d.fail(n, "%q is listed twice", s)
		}
		seen[s] = true
		out = append(out, s)
		return nil
	})
	return out, err
}

// duration reads a time such as 90s, 10m or 1h30m, in whole seconds.
func (d *decoder) duration(n *strict.Node, least, most time.Duration) (time.Duration, *Error) {
	s, err := d.text(n)
	if err != nil {
		return 0, err
	}
	v, perr := time.ParseDuration(s)
	if perr != nil || v != v.Truncate(time.Second) {
		return 0, d.fail(n, "%.32q is not a time such as 90s, 10m or 1h30m, in whole seconds", s)
	}
	if v < least || v > most {
		return 0, d.fail(n, "%s is not between %s and %s", s, least, most)
	}
	return v, nil
}

var sizeUnits = []struct {
	suffix string
	bytes  int64
}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40}}

// size reads a number of bytes, or a text such as 512MiB.
func (d *decoder) size(n *strict.Node) (int64, *Error) {
	const most = 1 << 50
	if n.Kind == strict.Int {
		return d.integer(n, 1, most)
	}
	s, err := d.text(n)
	if err != nil {
		return 0, err
	}
	for _, u := range sizeUnits {
		digits, ok := strings.CutSuffix(s, u.suffix)
		if !ok {
			continue
		}
		v, perr := strconv.ParseInt(strings.TrimSuffix(digits, " "), 10, 64)
		if perr == nil && v > 0 && v <= most/u.bytes {
			return v * u.bytes, nil
		}
	}
	return 0, d.fail(n, "%.32q is not a size such as 1048576, 512MiB or 4GiB", s)
}

// closest returns the word that somebody who wrote s most likely meant, or "".
func closest(s string, words []string) string {
	s = strings.ReplaceAll(strings.ToLower(s), "_", "-")
	best, least := "", 3
	for _, w := range words {
		if strings.TrimSuffix(s, "s") == strings.TrimSuffix(w, "s") {
			return w
		}
		if dist := editDistance(s, w); dist < least && dist < max(len(w), len(s))/2+1 {
			best, least = w, dist
		}
	}
	return best
}

// editDistance counts insertions, deletions, substitutions and swaps of
// neighbours between two short texts.
func editDistance(a, b string) int {
	const tooLong = 64
	if len(a) > tooLong || len(b) > tooLong {
		return tooLong
	}
	rows := [3][]int{make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)}
	for j := range rows[1] {
		rows[1][j] = j
	}
	for i := 1; i <= len(a); i++ {
		before, last, now := rows[(i-1)%3], rows[i%3], rows[(i+1)%3]
		now[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			now[j] = min(last[j]+1, now[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				now[j] = min(now[j], before[j-2]+1)
			}
		}
	}
	return rows[(len(a)+1)%3][len(b)]
}
