package config

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"sync"

	"go.yaml.in/yaml/v4"
)

// A writer writes a YAML tree as JSON.
type writer struct {
	out   []byte
	depth int
}

func (w *writer) value(n *yaml.Node, path string) *Error {
	if n.Kind == yaml.AliasNode || n.Anchor != "" {
		return fault(n, path, "anchors and aliases are not taken", "write the value out where it is used")
	}
	if n.Style&yaml.TaggedStyle != 0 || n.Tag == "!" {
		return fault(n, path, "tags are not taken", "leave the word with ! out; quotes make a string")
	}
	if w.depth++; w.depth > maxDepth {
		return fault(n, path, fmt.Sprintf("nested deeper than %d levels", maxDepth), "")
	}
	defer func() { w.depth-- }()
	switch n.Kind {
	case yaml.MappingNode:
		return w.mapping(n, path)
	case yaml.SequenceNode:
		return w.sequence(n, path)
	case yaml.ScalarNode:
		return w.scalar(n, path)
	}
	return fault(n, path, "not a value", "")
}

func (w *writer) mapping(n *yaml.Node, path string) *Error {
	seen := make(map[string]Position, len(n.Content)/2)
	w.out = append(w.out, '{')
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		if err := checkKey(key, path); err != nil {
			return err
		}
		field := path + segment(key.Value, path == "")
		if first, twice := seen[key.Value]; twice {
			return fault(key, field, fmt.Sprintf("the key comes twice, first in line %d", first.Line), "keep one of them")
		}
		seen[key.Value] = at(key)
		if i > 0 {
			w.out = append(w.out, ',')
		}
		w.str(key.Value)
		w.out = append(w.out, ':')
		if err := w.value(n.Content[i+1], field); err != nil {
			return err
		}
	}
	w.out = append(w.out, '}')
	return nil
}

func checkKey(key *yaml.Node, path string) *Error {
	switch {
	case key.Kind != yaml.ScalarNode:
		return fault(key, path, "a key that is not a word", "write KEY: VALUE")
	case key.Anchor != "":
		return fault(key, path, "anchors and aliases are not taken", "write the value out where it is used")
	case key.Style&yaml.TaggedStyle != 0 || key.Tag == "!":
		return fault(key, path, "tags are not taken", "leave the word with ! out")
	case plain(key) && key.Value == "<<":
		return fault(key, path, "merge keys are not taken", "write the keys out")
	case plain(key) && nullWord(key.Value):
		return fault(key, path, "a key that is empty", "write KEY: VALUE")
	case plain(key) && (literal(key.Value) || surprising(key)):
		return fault(key, path, "the key "+strconv.Quote(key.Value)+" is not read as text by every program", "put it in quotes")
	}
	return nil
}

func (w *writer) sequence(n *yaml.Node, path string) *Error {
	w.out = append(w.out, '[')
	for i, item := range n.Content {
		if i > 0 {
			w.out = append(w.out, ',')
		}
		if err := w.value(item, path+index(i)); err != nil {
			return err
		}
	}
	w.out = append(w.out, ']')
	return nil
}

var (
	// numberText is a number as JSON writes it, but for the exponent.
	numberText = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^-?(0|[1-9][0-9]{0,17})(\.[0-9]{1,18})?$`)
	})
	// surpriseText is what YAML 1.1 or 1.2 reads as something else than text,
	// and numberText does not cover.
	surpriseText = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^(?:` +
			`(?i:y|n|yes|no|on|off|true|false)|` +
			`[-+]?0[bB][01_]+|[-+]?0[oO]?[0-7_]+|[-+]?0[xX][0-9a-fA-F_]+|` +
			`[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?|` +
			`[-+]?(?:\.[0-9_]+|[0-9][0-9_]*(?:\.[0-9_]*)?)(?:[eE][-+]?[0-9]+)?|` +
			`[-+]?\.(?i:inf)|\.(?i:nan)|` +
			`[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}(?:[Tt \t].*)?|` +
			`=)$`)
	})
)

func (w *writer) scalar(n *yaml.Node, path string) *Error {
	text := n.Value
	switch {
	case !plain(n):
		w.str(text)
	case nullWord(text):
		return fault(n, path, "no value", "leave the key out to keep the default; [] is an empty list, {} an empty map, \"\" an empty text")
	case literal(text):
		w.out = append(w.out, text...)
	case surprising(n):
		return fault(n, path, strconv.Quote(text)+" is read as a number, a time or a boolean by some programs and as text by others",
			"put it in quotes if it is text; write true or false, or a plain decimal number, if it is one")
	default:
		w.str(text)
	}
	return nil
}

// literal reports whether a plain scalar is a boolean or a number.
func literal(text string) bool {
	return text == "true" || text == "false" || numberText().MatchString(text)
}

// surprising reports whether a plain scalar that is no literal may be read as
// something else than text.
func surprising(n *yaml.Node) bool { return surpriseText().MatchString(n.Value) || n.Tag != "!!str" }

// str appends a string. JSON can hold every string that YAML has.
func (w *writer) str(text string) {
	quoted, _ := json.Marshal(text)
	w.out = append(w.out, quoted...)
}

// plain reports whether a scalar stands without quotes and not as a block.
func plain(n *yaml.Node) bool {
	return n.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle) == 0
}

func nullWord(text string) bool {
	switch text {
	case "", "~", "null", "Null", "NULL":
		return true
	}
	return false
}

func fault(n *yaml.Node, path, msg, hint string) *Error {
	return &Error{Pos: at(n), Field: path, Msg: msg, Hint: hint}
}
