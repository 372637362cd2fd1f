package envelope

import (
	"bytes"
	"encoding"
	"encoding/json"
	"reflect"
	"strings"
	"sync"
)

// A decoder walks a document beside the value it goes into. The document is
// known to be valid JSON in valid UTF-8, so the walk need not look at syntax.
type decoder struct {
	data   []byte
	pos    int
	depth  int
	values int
	path   []step
	// structs caches what is known of each struct type for this document.
	structs map[reflect.Type]*structFields
}

// value reads the next value into v, which can be set.
func (d *decoder) value(v reflect.Value) error {
	if err := d.count(); err != nil {
		return err
	}
	c := d.peek()
	if c == 'n' && !takesNull(v.Type()) {
		return d.fail("null is not a value", "leave the key out to keep the default; an empty list means nothing")
	}
	for v.Kind() == reflect.Pointer {
		fresh := reflect.New(v.Type().Elem())
		v.Set(fresh)
		v = fresh.Elem()
	}
	switch u := v.Addr().Interface().(type) {
	case json.Unmarshaler:
		return d.custom(v, u)
	case encoding.TextUnmarshaler:
		return d.text(v, u)
	}
	switch v.Kind() {
	case reflect.Struct:
		return d.structure(v)
	case reflect.Map:
		return d.mapping(v)
	case reflect.Slice:
		if isBytes(v.Type()) {
			return d.plain(v)
		}
		return d.list(v)
	case reflect.Interface:
		return d.untyped(v)
	default:
		return d.plain(v)
	}
}

// isBytes reports whether a slice is bytes in JSON's sense, as encoding/json
// has it: a list of words whose values are small numbers is not.
func isBytes(t reflect.Type) bool {
	return t.Elem().Kind() == reflect.Uint8 && !reflect.PointerTo(t.Elem()).Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}

// structure reads an object over the struct v.
func (d *decoder) structure(v reflect.Value) error {
	if d.peek() != '{' {
		return d.mismatch(v.Type())
	}
	known := d.fields(v.Type())
	err := d.members(func(key string) error {
		index, ok := known.index[key]
		if !ok {
			return d.fail("unknown key "+quote(key), known.hint(key))
		}
		return d.value(v.FieldByIndex(index))
	})
	if err == nil {
		d.settle(v, known)
	}
	return err
}

// mapping reads an object into a new map.
func (d *decoder) mapping(v reflect.Value) error {
	if d.peek() != '{' || v.Type().Key().Kind() != reflect.String {
		return d.mismatch(v.Type())
	}
	fresh := reflect.MakeMap(v.Type())
	err := d.members(func(key string) error {
		element := reflect.New(v.Type().Elem()).Elem()
		if err := d.value(element); err != nil {
			return err
		}
		fresh.SetMapIndex(reflect.ValueOf(key).Convert(v.Type().Key()), element)
		return nil
	})
	v.Set(fresh)
	return err
}

// list reads an array into a new slice.
func (d *decoder) list(v reflect.Value) error {
	if d.peek() != '[' {
		return d.mismatch(v.Type())
	}
	v.Set(reflect.MakeSlice(v.Type(), 0, 0))
	return d.elements(func(i int) error {
		v.Grow(1)
		v.SetLen(i + 1)
		return d.value(v.Index(i))
	})
}

// custom hands the next value to a type with a JSON decoder of its own.
func (d *decoder) custom(v reflect.Value, u json.Unmarshaler) error {
	raw, err := d.raw()
	if err != nil {
		return err
	}
	if err := u.UnmarshalJSON(raw); err != nil {
		return d.wrong(v.Type(), raw, err)
	}
	return nil
}

// text hands the next string to a type with a text decoder of its own. A
// number goes to it as well, for the sake of what it says about it, and is an
// error all the same.
func (d *decoder) text(v reflect.Value, u encoding.TextUnmarshaler) error {
	c := d.peek()
	if c == '{' || c == '[' || c == 't' || c == 'f' {
		return d.mismatch(v.Type())
	}
	if c != '"' {
		raw, err := d.raw()
		if err != nil {
			return err
		}
		if err := u.UnmarshalText(raw); err != nil {
			return d.wrong(v.Type(), raw, err)
		}
		return d.mismatchWith(v.Type(), "a number")
	}
	start := d.pos
	s, err := d.str()
	if err != nil {
		return err
	}
	if err := u.UnmarshalText(s); err != nil {
		return d.wrong(v.Type(), d.data[start:d.pos], err)
	}
	return nil
}

// plain reads a string, a boolean or a number.
func (d *decoder) plain(v reflect.Value) error {
	if wordOf(d.peek()) != jsonWord(v.Type()) {
		return d.mismatch(v.Type())
	}
	if v.Kind() == reflect.String {
		s, err := d.str()
		if err == nil {
			v.SetString(string(s))
		}
		return err
	}
	raw, err := d.raw()
	if err != nil {
		return err
	}
	if err := json.Unmarshal(raw, v.Addr().Interface()); err != nil {
		return d.wrong(v.Type(), raw, err)
	}
	return nil
}

// untyped reads anything into an interface without methods.
func (d *decoder) untyped(v reflect.Value) error {
	raw, err := d.raw()
	if err != nil {
		return err
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var out any
	if err := dec.Decode(&out); err != nil {
		return d.wrong(v.Type(), raw, err)
	}
	if out == nil {
		v.SetZero()
		return nil
	}
	if !reflect.TypeOf(out).AssignableTo(v.Type()) {
		return d.mismatch(v.Type())
	}
	v.Set(reflect.ValueOf(out))
	return nil
}

// takesNull reports whether null stays null in a value of type t.
func takesNull(t reflect.Type) bool {
	return t.Kind() == reflect.Interface || t == reflect.TypeFor[json.RawMessage]()
}

// structFields is what the decoder knows of a struct type.
type structFields struct {
	t     reflect.Type
	names []string
	index map[string][]int
	omits map[string]bool // tagged omitempty
	zeros map[string]bool // tagged omitzero
}

// fields returns the fields of t by their JSON names.
func (d *decoder) fields(t reflect.Type) *structFields {
	if known, ok := callFields()[t]; ok {
		return known
	}
	if known, ok := d.structs[t]; ok {
		return known
	}
	known := fieldsOf(t)
	d.structs[t] = known
	return known
}

func fieldsOf(t reflect.Type) *structFields {
	known := &structFields{t: t, index: map[string][]int{}, omits: map[string]bool{}, zeros: map[string]bool{}}
	known.add(t, nil)
	return known
}

// callFields is what the decoder knows of a Call and all that is in one: it is
// the same for every call.
var callFields = sync.OnceValue(func() map[reflect.Type]*structFields {
	all := map[reflect.Type]*structFields{}
	var walk func(reflect.Type)
	walk = func(t reflect.Type) {
		switch t.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Map:
			walk(t.Elem())
		case reflect.Struct:
			if all[t] != nil {
				return
			}
			all[t] = fieldsOf(t)
			for i := range t.NumField() {
				walk(t.Field(i).Type)
			}
		}
	}
	walk(reflect.TypeFor[Call]())
	return all
})

func (s *structFields) add(t reflect.Type, prefix []int) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		index := append(prefix[:len(prefix):len(prefix)], i)
		if f.Anonymous && name == "" && f.Type.Kind() == reflect.Struct {
			s.add(f.Type, index)
			continue
		}
		if name == "" {
			name = f.Name
		}
		if _, twice := s.index[name]; twice || !f.IsExported() || name == "-" {
			continue
		}
		s.names = append(s.names, name)
		s.index[name] = index
		s.omits[name] = strings.Contains(","+options+",", ",omitempty,")
		s.zeros[name] = strings.Contains(","+options+",", ",omitzero,")
	}
}

// settle makes lists and maps of v what they will be when v has been written
// and read again.
func (d *decoder) settle(v reflect.Value, known *structFields) {
	for _, name := range known.names {
		f := v.FieldByIndex(known.index[name])
		if known.zeros[name] && f.IsZero() {
			continue // it will be left out
		}
		switch f.Kind() {
		case reflect.Struct:
			d.settle(f, d.fields(f.Type()))
		case reflect.Map:
			if f.Len() == 0 && known.omits[name] {
				f.SetZero()
			} else if f.IsNil() {
				f.Set(reflect.MakeMap(f.Type()))
			}
		case reflect.Slice:
			if f.Len() == 0 && known.omits[name] {
				f.SetZero()
			} else if f.IsNil() && f.Type() != reflect.TypeFor[json.RawMessage]() {
				f.Set(reflect.MakeSlice(f.Type(), 0, 0))
			}
		}
	}
}
