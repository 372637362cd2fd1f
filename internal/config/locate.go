package config

import (
	"errors"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"go.yaml.in/yaml/v4"

	"github.com/callcell/callcell/envelope"
)

// plainKey is a key that stands in a dotted path as it is; others are quoted.
// It is the grammar of the paths of package envelope.
var plainKey = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9_-]{0,63}$`) })

// segment is what a key adds to a dotted path.
func segment(key string, first bool) string {
	if !plainKey().MatchString(key) {
		return "[" + strconv.QuoteToASCII(key) + "]"
	}
	if first {
		return key
	}
	return "." + key
}

func index(i int) string { return "[" + strconv.Itoa(i) + "]" }

// Locate returns an error of package envelope about the document, or about
// the part of it at the path within, as a *Error with its place. It leaves
// other errors, and nil, as they are.
func (d *Document) Locate(err error, within string) error {
	var decode *envelope.DecodeError
	var field *envelope.FieldError
	e := &Error{File: d.file, Err: err}
	switch {
	case err == nil:
		return nil
	case errors.As(err, &decode):
		e.Field, e.Msg, e.Hint = decode.Path, decode.Msg, decode.Hint
	case errors.As(err, &field):
		e.Field, e.Msg, e.Hint = field.Field, field.Msg, field.Hint
	default:
		return err
	}
	e.Field = join(within, e.Field)
	key, value, _ := d.find(e.Field)
	e.Pos = at(key)
	if e.Hint == "write a string" && value.Kind == yaml.ScalarNode {
		e.Hint = "put it in quotes if it is text"
	}
	return e
}

// Position returns where the value at a dotted path is given: its key, or for
// an element of a list the element. It reports false where the document does
// not give it.
func (d *Document) Position(path string) (Position, bool) {
	key, _, found := d.find(path)
	return at(key), found
}

// join puts a dotted path below another one.
func join(within, path string) string {
	if within == "" || path == "" || path[0] == '[' {
		return within + path
	}
	return within + "." + path
}

// find walks down a dotted path as far as the document has it.
func (d *Document) find(path string) (key, value *yaml.Node, found bool) {
	key, value = d.root, d.root
	rest := path
	for rest != "" {
		k, v, after, ok := child(value, rest, rest == path)
		if !ok {
			return key, value, false
		}
		key, value, rest = k, v, after
	}
	return key, value, true
}

// child finds the part of n at which the path goes on.
func child(n *yaml.Node, path string, first bool) (key, value *yaml.Node, rest string, ok bool) {
	try := func(piece string) bool {
		rest, ok = strings.CutPrefix(path, piece)
		ok = ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
		return ok
	}
	switch n.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			if try(segment(n.Content[i].Value, first)) {
				return n.Content[i], n.Content[i+1], rest, true
			}
		}
	case yaml.SequenceNode:
		for i, item := range n.Content {
			if try(index(i)) {
				return item, item, rest, true
			}
		}
	}
	return nil, nil, "", false
}

// emptyNode stands for a document where there is none.
func emptyNode() *yaml.Node { return &yaml.Node{Kind: yaml.MappingNode} }
