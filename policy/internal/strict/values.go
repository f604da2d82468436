package strict

import (
	"strconv"
	"strings"
	"time"
)

// MaxText is the most bytes of a text, unless its key says otherwise.
const MaxText = 4 << 10

// Text reads a text of 1 to MaxText bytes on one line.
func (d *Decoder) Text(n *Node) (string, *Error) {
	switch {
	case n.Kind != Text:
		return "", d.WrongKind(n, "text")
	case n.Text == "":
		return "", d.Fail(n, "is empty")
	case len(n.Text) > MaxText:
		return "", d.Fail(n, "has %d bytes; at most %d are allowed", len(n.Text), MaxText)
	}
	for _, r := range n.Text {
		if r < 0x20 || r == 0x7f || r >= 0x80 && r < 0xa0 || r == 0xfeff || r == 0x2028 || r == 0x2029 {
			return "", d.Fail(n, "has a control character")
		}
	}
	return n.Text, nil
}

// Word reads a text that fits a check, which names what it wants.
func (d *Decoder) Word(n *Node, ok func(string) bool, want string) (string, *Error) {
	s, err := d.Text(n)
	if err != nil {
		return "", err
	}
	if !ok(s) {
		return "", d.Fail(n, "%.64q is not %s", s, want)
	}
	return s, nil
}

// Choice reads one of a few words.
func (d *Decoder) Choice(n *Node, words ...string) (string, *Error) {
	s, err := d.Text(n)
	if err != nil {
		return "", err
	}
	for _, w := range words {
		if s == w {
			return s, nil
		}
	}
	if best := closest(s, words); best != "" {
		return "", d.Fail(n, "unknown value %.64q; did you mean %q?", s, best)
	}
	return "", d.Fail(n, "unknown value %.64q; one of %s", s, strings.Join(words, ", "))
}

// Integer reads a whole number between two bounds.
func (d *Decoder) Integer(n *Node, least, most int64) (int64, *Error) {
	if n.Kind != Int {
		return 0, d.WrongKind(n, "a whole number")
	}
	v, err := strconv.ParseInt(n.Text, 10, 64)
	if err != nil || v < least || v > most {
		return 0, d.Fail(n, "%s is not between %d and %d", n.Text, least, most)
	}
	return v, nil
}

// Boolean reads true or false.
func (d *Decoder) Boolean(n *Node) (bool, *Error) {
	if n.Kind != Bool {
		return false, d.WrongKind(n, "true or false")
	}
	return n.Text == "true", nil
}

// List calls each for every element of a list of at most most elements.
func (d *Decoder) List(n *Node, most int, each func(*Node) *Error) *Error {
	switch {
	case n.Kind != List:
		return d.WrongKind(n, "a list")
	case len(n.Items) > most:
		return d.Fail(n, "has %d elements; at most %d are allowed", len(n.Items), most)
	}
	for i := range n.Items {
		d.PushIndex(i)
		if n.Items[i].Kind == Null {
			return d.Fail(&n.Items[i], "has no value; give one or remove it")
		}
		if err := each(&n.Items[i]); err != nil {
			return err
		}
		d.Pop()
	}
	return nil
}

// FullList is List that refuses an empty one.
func (d *Decoder) FullList(n *Node, most int, each func(*Node) *Error) *Error {
	if n.Kind == List && len(n.Items) == 0 {
		return d.Fail(n, "is an empty list, which would match nothing; give an element or remove the key")
	}
	return d.List(n, most, each)
}

// Words reads a list of texts that fit a check, none twice.
func (d *Decoder) Words(n *Node, most int, ok func(string) bool, want string) ([]string, *Error) {
	var out []string
	seen := map[string]bool{}
	err := d.FullList(n, most, func(n *Node) *Error {
		s, err := d.Word(n, ok, want)
		if err != nil {
			return err
		}
		if seen[s] {
			return d.Fail(n, "%q is listed twice", s)
		}
		seen[s] = true
		out = append(out, s)
		return nil
	})
	return out, err
}

// Duration reads a time such as 90s, 10m or 1h30m, in whole seconds.
func (d *Decoder) Duration(n *Node, least, most time.Duration) (time.Duration, *Error) {
	s, err := d.Text(n)
	if err != nil {
		return 0, err
	}
	v, perr := time.ParseDuration(s)
	if perr != nil || v != v.Truncate(time.Second) {
		return 0, d.Fail(n, "%.32q is not a time such as 90s, 10m or 1h30m, in whole seconds", s)
	}
	if v < least || v > most {
		return 0, d.Fail(n, "%s is not between %s and %s", s, least, most)
	}
	return v, nil
}

var sizeUnits = []struct {
	suffix string
	bytes  int64
}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40}}

// Size reads a number of bytes, or a text such as 512MiB.
func (d *Decoder) Size(n *Node) (int64, *Error) {
	const most = 1 << 50
	if n.Kind == Int {
		return d.Integer(n, 1, most)
	}
	s, err := d.Text(n)
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
	return 0, d.Fail(n, "%.32q is not a size such as 1048576, 512MiB or 4GiB", s)
}
