package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
	"go.yaml.in/yaml/v4/plugin/loaderlimits"

	"github.com/callcell/callcell/envelope"
)

// MaxYAML is the most bytes a file may have.
const MaxYAML = 1 << 20

const maxDepth = 32

// A Document is a file that has been read: its value as JSON, and where each
// part of it stands.
type Document struct {
	file string
	root *yaml.Node
	json []byte
}

// Parse reads a file's YAML. The file's name is for errors only. An error is
// a *Error.
func Parse(file string, data []byte) (*Document, error) {
	if err := checkText(data); err != nil {
		err.File = file
		return nil, err
	}
	root, err := parseOne(data)
	if err != nil {
		err.File = file
		return nil, err
	}
	w := &writer{}
	if err := w.value(root, ""); err != nil {
		err.File = file
		return nil, err
	}
	return &Document{file: file, root: root, json: w.out}, nil
}

// JSON returns the document as JSON. It must not be written to.
func (d *Document) JSON() []byte { return d.json }

// Decode reads the document into the value that into points to, as
// envelope.Decode does. An error of the document is a *Error, and then *into
// is as it was.
func (d *Document) Decode(into any) error {
	max := int64(len(d.json)) // MaxYAML has bounded it
	return d.Locate(envelope.Decode(d.json, max, into), "")
}

// DecodeYAML reads a file's YAML into the value that into points to. An error
// is a *Error, and then *into is as it was.
func DecodeYAML(file string, data []byte, into any) error {
	d, err := Parse(file, data)
	if err != nil {
		return err
	}
	return d.Decode(into)
}

// DecodeEnvelope reads an envelope over base and validates it. An error is a
// *Error; then the envelope is the zero value.
func DecodeEnvelope(file string, data []byte, base envelope.Envelope) (envelope.Envelope, error) {
	d, err := Parse(file, data)
	if err != nil {
		return envelope.Envelope{}, err
	}
	e, err := envelope.DecodeEnvelope(d.json, base)
	if err == nil {
		err = e.Validate()
	}
	if err != nil {
		return envelope.Envelope{}, d.Locate(err, "")
	}
	return e, nil
}

// DecodeRequest reads a request. An error is a *Error; then the request is the
// zero value.
func DecodeRequest(file string, data []byte) (envelope.Request, error) {
	d, err := Parse(file, data)
	if err != nil {
		return envelope.Request{}, err
	}
	r, err := envelope.DecodeRequest(d.json)
	return r, d.Locate(err, "")
}

// checkText is what can be said of a file before its syntax.
func checkText(data []byte) *Error {
	if len(data) > MaxYAML {
		return &Error{Msg: fmt.Sprintf("%d bytes are too many: at most %d", len(data), MaxYAML), Hint: "keep data out of configuration"}
	}
	pos := Position{1, 1}
	for at := 0; at < len(data); {
		r, size := utf8.DecodeRune(data[at:])
		if msg, hint := unfit(r, size); msg != "" {
			return &Error{Pos: pos, Msg: msg, Hint: hint}
		}
		at += size
		pos.Column++
		if r == '\n' {
			pos = Position{pos.Line + 1, 1}
		}
	}
	return nil
}

// unfit says why a character may not be in a file.
func unfit(r rune, size int) (msg, hint string) {
	switch {
	case r == utf8.RuneError && size == 1:
		return "not UTF-8", "save the file as UTF-8"
	case r == '\ufeff':
		return "a byte order mark", "save the file as UTF-8 without one"
	case r == '\u0085' || r == '\u2028' || r == '\u2029':
		return fmt.Sprintf("U+%04X, which only some programs take as the end of a line", r), "write the escape in double quotes if it is meant"
	case r == '\u061c' || r == '\u200e' || r == '\u200f' || r >= '\u202a' && r <= '\u202e' || r >= '\u2066' && r <= '\u2069':
		return fmt.Sprintf("U+%04X, which makes text read in another order than it has", r), "write the escape in double quotes if it is meant"
	case r >= '\U000e0000' && r <= '\U000e007f':
		return fmt.Sprintf("U+%04X, which nobody sees", r), "write the escape in double quotes if it is meant"
	}
	return "", ""
}

// parseOne reads the one document of a file.
func parseOne(data []byte) (*yaml.Node, *Error) {
	loader, err := yaml.NewLoader(bytes.NewReader(data), yaml.WithStreamNodes(),
		yaml.WithPlugin(loaderlimits.New(loaderlimits.DepthValue(maxDepth))))
	if err != nil {
		return nil, &Error{Msg: "cannot be read as YAML", Err: err}
	}
	var root *yaml.Node
	for {
		node := new(yaml.Node)
		err := loader.Load(node)
		switch {
		case errors.Is(err, io.EOF) && root == nil:
			return nil, &Error{Pos: Position{1, 1}, Msg: "nothing in it", Hint: "write {} for an empty one"}
		case errors.Is(err, io.EOF):
			return root, nil
		case err != nil:
			return nil, syntaxError(err)
		case node.Kind == yaml.StreamNode:
			if s := node.Stream; s != nil && (s.Version != nil || len(s.TagDirectives) > 0) {
				return nil, &Error{Pos: at(node), Msg: "a directive", Hint: "leave the line with % out"}
			}
		case root != nil || len(node.Content) != 1:
			return nil, &Error{Pos: at(node.Content[0]), Msg: "a second document", Hint: "keep one, without --- between"}
		default:
			root = node.Content[0]
		}
	}
}

func syntaxError(err error) *Error {
	e := &Error{Msg: "not YAML", Hint: "check indentation (spaces, no tabs), quotes and brackets", Err: err}
	var load *yaml.LoadError
	if errors.As(err, &load) {
		e.Pos = Position{load.Mark.Line, load.Mark.Column}
		e.Msg = "not YAML: " + load.Message
	}
	return e
}

func at(n *yaml.Node) Position { return Position{n.Line, n.Column} }
