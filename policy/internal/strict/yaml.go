package strict

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// readYAML reads one YAML document. The parser is given a tree to fill, so that
// it never expands an alias.
func readYAML(data []byte, l Limits) (n *Node, err *Error) {
	defer func() {
		// What is parsed comes from outside, and the parser is not ours: a defect
		// in it must refuse the document and not take the process down.
		if r := recover(); r != nil {
			n, err = nil, &Error{Message: fmt.Sprintf("the YAML parser failed: %v", r)}
		}
	}()
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc yaml.Node
	switch e := dec.Decode(&doc); {
	case errors.Is(e, io.EOF):
		return nil, &Error{Line: 1, Column: 1, Message: "the document is empty"}
	case e != nil:
		return nil, yamlError(e)
	}
	var next yaml.Node
	switch e := dec.Decode(&next); {
	case errors.Is(e, io.EOF):
	case e != nil:
		return nil, yamlError(e)
	default:
		return nil, &Error{Line: next.Line, Column: next.Column, Message: "a second document begins here; a file holds one"}
	}
	if doc.Kind != yaml.DocumentNode || len(doc.Content) != 1 {
		return nil, &Error{Line: 1, Column: 1, Message: "the document is empty"}
	}
	c := converter{limits: l}
	root := new(Node)
	if err := c.node(doc.Content[0], root, 1); err != nil {
		return nil, err
	}
	return root, nil
}

// yamlError takes the line out of the parser's message, which leaves it out
// when it is the first.
func yamlError(e error) *Error {
	msg := strings.TrimPrefix(e.Error(), "yaml: ")
	line := 1
	if rest, ok := strings.CutPrefix(msg, "line "); ok {
		if num, text, ok := strings.Cut(rest, ": "); ok {
			if v, err := strconv.Atoi(num); err == nil {
				line, msg = v, text
			}
		}
	}
	return &Error{Line: line, Message: "not YAML: " + msg}
}

type converter struct {
	limits Limits
	nodes  int
}

func at(y *yaml.Node, format string, args ...any) *Error {
	return &Error{Line: y.Line, Column: y.Column, Message: fmt.Sprintf(format, args...)}
}

func (c *converter) node(y *yaml.Node, n *Node, depth int) *Error {
	c.nodes++
	switch {
	case c.nodes > c.limits.Nodes:
		return at(y, "the document has more than %d values", c.limits.Nodes)
	case depth > c.limits.Depth:
		return at(y, "the document is nested deeper than %d", c.limits.Depth)
	case y.Kind == yaml.AliasNode || y.Anchor != "":
		return at(y, "anchors and aliases are not allowed; write the value out")
	case y.Style&yaml.TaggedStyle != 0:
		return at(y, "tags are not allowed: %.32q", y.Tag)
	}
	n.Line, n.Column = int32(y.Line), int32(y.Column)
	switch y.Kind {
	case yaml.MappingNode:
		return c.mapping(y, n, depth)
	case yaml.SequenceNode:
		n.Kind = List
		n.Items = make([]Node, len(y.Content))
		for i, item := range y.Content {
			if err := c.node(item, &n.Items[i], depth+1); err != nil {
				return err
			}
		}
		return nil
	default:
		return c.scalar(y, n)
	}
}

func (c *converter) mapping(y *yaml.Node, n *Node, depth int) *Error {
	n.Kind = Map
	n.Members = make([]Member, 0, len(y.Content)/2)
	for i := 0; i+1 < len(y.Content); i += 2 {
		key := y.Content[i]
		var k Node
		if err := c.node(key, &k, depth+1); err != nil {
			return err
		}
		if k.Kind != Text {
			if key.ShortTag() == "!!merge" {
				return at(key, "merge keys are not allowed; write the values out")
			}
			return at(key, "a key is text, and this is %s; quote it", k.Kind)
		}
		n.Members = append(n.Members, Member{Name: k.Text, Line: k.Line, Column: k.Column})
		if err := c.node(y.Content[i+1], &n.Members[len(n.Members)-1].Value, depth+1); err != nil {
			return err
		}
	}
	return checkNames(n.Members)
}

func (c *converter) scalar(y *yaml.Node, n *Node) *Error {
	if len(y.Value) > c.limits.Scalar {
		return at(y, "a text of %d bytes; at most %d are read", len(y.Value), c.limits.Scalar)
	}
	n.Text = y.Value
	switch y.ShortTag() {
	case "!!str":
		n.Kind = Text
	case "!!int":
		if !wholeNumber(y.Value) {
			return at(y, "the number %.32q is not plain decimal, or too large", y.Value)
		}
		n.Kind = Int
	case "!!bool":
		if y.Value != "true" && y.Value != "false" {
			return at(y, "write true or false in lower case, not %.32q", y.Value)
		}
		n.Kind = Bool
	case "!!null":
		n.Kind = Null
	default:
		n.Kind = Other
	}
	return nil
}
