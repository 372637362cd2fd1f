package envelope

import (
	"errors"
	"reflect"
	"strconv"
	"strings"
)

// A step of the path to a value: a key, or an index that is not negative.
type step struct {
	key   string
	index int
}

// fail returns an error at the place where the decoder is.
func (d *decoder) fail(msg, hint string) error {
	return &DecodeError{Path: pathText(d.path), Msg: msg, Hint: hint}
}

// wrong returns the error of a value that its own type did not take.
func (d *decoder) wrong(t reflect.Type, raw []byte, err error) error {
	e := &DecodeError{Path: pathText(d.path), Err: err}
	var value *ValueError
	if errors.As(err, &value) {
		e.Msg, e.Hint = value.Error(), value.Hint
		if e.Hint == "" {
			e.Hint = "write " + value.wanted()
		}
		return e
	}
	e.Msg, e.Hint = "want "+wanted(t)+", not "+shown(raw), "write "+wanted(t)
	return e
}

// mismatch returns the error of a value of another kind than t takes.
func (d *decoder) mismatch(t reflect.Type) error { return d.mismatchWith(t, wordOf(d.peek())) }

func (d *decoder) mismatchWith(t reflect.Type, got string) error {
	hint := "write " + wanted(t)
	switch {
	case t.Kind() == reflect.Slice && jsonWord(t) == "a list" && jsonWord(t.Elem()) == got:
		hint = "a list stands in brackets, of one element too"
	case t.Kind() == reflect.String && got == "an object":
		hint = "write its name as a string: it cannot be described here"
	}
	return d.fail("want "+wanted(t)+", not "+got, hint)
}

// pathText renders a path so that it can be shown: keys that are no plain
// words are quoted, and long ones cut.
func pathText(path []step) string {
	var b strings.Builder
	for _, s := range path {
		switch {
		case s.index >= 0:
			b.WriteString("[" + strconv.Itoa(s.index) + "]")
		case !plainKey(s.key):
			b.WriteString("[" + quote(s.key) + "]")
		default:
			if b.Len() > 0 {
				b.WriteByte('.')
			}
			b.WriteString(s.key)
		}
	}
	return b.String()
}

// entryField is the dotted name of an entry of a map.
func entryField(field, key string) string {
	if plainKey(key) {
		return field + "." + key
	}
	return field + "[" + quote(key) + "]"
}

func plainKey(key string) bool { return nameText(key, 64, "_-") }

// wordOf names the kind of JSON value that starts with c.
func wordOf(c byte) string {
	switch c {
	case '{':
		return "an object"
	case '[':
		return "a list"
	case '"':
		return "a string"
	case 't', 'f':
		return "a boolean"
	case 'n':
		return "null"
	}
	return "a number"
}

// jsonWord names the kind of JSON value that goes into t.
func jsonWord(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Pointer:
		return jsonWord(t.Elem())
	case reflect.Struct, reflect.Map:
		return "an object"
	case reflect.Slice:
		if isBytes(t) {
			return "a string"
		}
		return "a list"
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "a boolean"
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64,
		reflect.Float32, reflect.Float64:
		return "a number"
	}
	return "nothing that can be decoded (" + t.String() + ")"
}

// wanted says what goes into t.
func wanted(t reflect.Type) string {
	switch t {
	case reflect.TypeFor[Size]():
		return "a size with a unit (\"64Mi\")"
	case reflect.TypeFor[Duration]():
		return "a time with a unit (\"30s\")"
	case reflect.TypeFor[Data]():
		return "a string of base64"
	case reflect.TypeFor[Level](), reflect.TypeFor[Trust](), reflect.TypeFor[Outcome](), reflect.TypeFor[Reason]():
		return "a word"
	}
	switch t.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return "a whole number"
	}
	return jsonWord(t)
}

// shown is a value's JSON text in a message.
func shown(raw []byte) string {
	if len(raw) > 32 {
		return wordOf(raw[0])
	}
	return quote(string(raw))
}
