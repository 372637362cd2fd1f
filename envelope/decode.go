package envelope

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"unicode/utf8"
)

// The caps of this package's documents, in bytes of JSON.
const (
	MaxCallJSON     int64 = 64 << 20 // inputs and standard input are in it, as base64
	MaxEnvelopeJSON int64 = 1 << 20
	MaxRequestJSON  int64 = 1 << 20
)

// The caps of every document: nesting, and values of all kinds together, so
// that a small document cannot become a large one in memory.
const (
	maxDepth  = 64
	maxValues = 1 << 18
)

// Decode reads one JSON document of at most max bytes into the value that
// into points to. It is the decoder of every trust edge, and strict:
//
//   - the document is UTF-8, without lone surrogate escapes, and nothing
//     follows it;
//   - a key is spelt exactly as the field's name, letter case included; an
//     unknown key and a key that comes twice are errors;
//   - null is an error wherever it would silently become a zero value. Where
//     into takes any JSON (any, json.RawMessage), null is null and numbers
//     are json.Number;
//   - at most 64 levels of nesting and 262144 values.
//
// A key that is absent leaves what was there: that is how a document is read
// over defaults. A list, a map or a pointer that is present replaces what was
// there and takes over nothing of it; an object that is a struct is read over
// the struct. Afterwards a list or map without omitempty is never nil, and
// an empty one with omitempty is nil, so that the value marshals to a
// document that decodes to the same value.
//
// A fault of the document is a *DecodeError, and then *into is as it was.
// Decode keeps no reference to data.
func Decode(data []byte, max int64, into any) error {
	dst := reflect.ValueOf(into)
	if dst.Kind() != reflect.Pointer || dst.IsNil() {
		return &json.InvalidUnmarshalError{Type: reflect.TypeOf(into)}
	}
	if err := checkDocument(data, max); err != nil {
		return err
	}
	fresh := reflect.New(dst.Type().Elem()).Elem()
	fresh.Set(dst.Elem()) // shallow: the decoder replaces what it would otherwise share
	d := &decoder{data: data, structs: map[reflect.Type]*structFields{}}
	if err := d.value(fresh); err != nil {
		return err
	}
	dst.Elem().Set(fresh)
	return nil
}

// checkDocument is what can be said of a document without its type.
func checkDocument(data []byte, max int64) error {
	if int64(len(data)) > max {
		return &DecodeError{Msg: fmt.Sprintf("%d bytes are too many: at most %d", len(data), max),
			Hint: "send less in one document"}
	}
	if !utf8.Valid(data) {
		return &DecodeError{Msg: fmt.Sprintf("not UTF-8 at byte %d", validPrefix(data)),
			Hint: "JSON is UTF-8; bytes that are not text go in as base64"}
	}
	if json.Valid(data) {
		return nil
	}
	var raw json.RawMessage
	err := json.Unmarshal(data, &raw)
	e := &DecodeError{Msg: "not JSON", Hint: "one JSON value, and nothing after it", Err: err}
	if syntax, ok := err.(*json.SyntaxError); ok {
		e.Msg = fmt.Sprintf("not JSON: %s, at byte %d", asciiText(syntax.Error()), syntax.Offset)
	}
	return e
}

// asciiText shows a message of encoding/json, which takes the bytes of a
// character for characters, in printable ASCII.
func asciiText(msg string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, msg)
}

// validPrefix returns how many bytes of data are UTF-8.
func validPrefix(data []byte) int {
	n := 0
	for n < len(data) {
		r, size := utf8.DecodeRune(data[n:])
		if r == utf8.RuneError && size <= 1 {
			break
		}
		n += size
	}
	return n
}

// DecodeCall reads a call of at most MaxCallJSON bytes, see Decode. The call
// is the zero value where the error is not nil. It is not yet validated.
func DecodeCall(data []byte) (Call, error) {
	var c Call
	err := Decode(data, MaxCallJSON, &c)
	return c, err
}

// DecodeEnvelope reads an envelope of at most MaxEnvelopeJSON bytes over base,
// see Decode: a field that the document leaves out keeps base's value, and a
// list or a map that it has (network.allow, files.mounts, credentials)
// replaces base's as a whole. The result shares no memory with base; it is
// the zero value where the error is not nil. It is not yet validated.
func DecodeEnvelope(data []byte, base Envelope) (Envelope, error) {
	e := base.Clone()
	if err := Decode(data, MaxEnvelopeJSON, &e); err != nil {
		return Envelope{}, err
	}
	return e, nil
}

// DecodeRequest reads a request of at most MaxRequestJSON bytes, see Decode.
// The request is the zero value where the error is not nil.
func DecodeRequest(data []byte) (Request, error) {
	var r Request
	err := Decode(data, MaxRequestJSON, &r)
	return r, err
}
