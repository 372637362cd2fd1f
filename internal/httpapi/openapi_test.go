package httpapi

import (
	"encoding"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/danielgtaylor/huma/v2"
)

// TestWhatIsWrittenFitsTheDocument fills each body and answer of the table of
// routes, every field of it, and holds what the encoder writes of that against
// what the document says. Without an alias a set of words is a number there, and
// a list of them bytes.
func TestWhatIsWrittenFitsTheDocument(t *testing.T) {
	types, seen := newTypes(), 0
	for _, e := range endpoints() {
		for _, v := range []any{e.in, e.out} {
			if v == nil {
				continue
			}
			seen++
			of := reflect.TypeOf(v)
			full := reflect.New(of)
			fill(t, full.Elem(), 0)
			text, err := json.Marshal(full.Interface())
			if err != nil {
				t.Fatalf("%s: %v: %v", e.id, of, err)
			}
			var written any
			if err := json.Unmarshal(text, &written); err != nil {
				t.Fatal(err)
			}
			var found huma.ValidateResult
			huma.Validate(types, types.Schema(of, true, e.id), huma.NewPathBuffer([]byte(of.Name()), 0), huma.ModeReadFromServer, written, &found)
			for _, err := range found.Errors {
				t.Errorf("%s: %v", e.id, err)
			}
		}
	}
	if seen < 40 {
		t.Fatalf("%d bodies and answers", seen)
	}
}

// fill gives something to each field: to a set of words its first one.
func fill(t *testing.T, v reflect.Value, depth int) {
	t.Helper()
	if at, ok := v.Addr().Interface().(*time.Time); ok {
		*at = time.Date(2026, 11, 30, 14, 0, 0, 0, time.UTC)
		return
	}
	if word, ok := v.Addr().Interface().(encoding.TextMarshaler); ok && v.CanUint() {
		for i := range uint64(64) {
			v.SetUint(i)
			if text, err := word.MarshalText(); err == nil && len(text) > 0 {
				return
			}
		}
		t.Fatalf("%v has no word", v.Type())
	}
	if raw, ok := v.Addr().Interface().(*json.RawMessage); ok {
		*raw = json.RawMessage(`{"a":1}`)
		return
	}
	if depth > 12 { // a type that has itself
		return
	}
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(1)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(1)
	case reflect.Float64:
		v.SetFloat(1)
	case reflect.String:
		v.SetString("a")
	default:
		fillMade(t, v, depth)
	}
}

func fillMade(t *testing.T, v reflect.Value, depth int) {
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(t, v.Elem(), depth+1)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(t, v.Index(0), depth+1)
	case reflect.Array:
		for i := range v.Len() {
			fill(t, v.Index(i), depth+1)
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		key, one := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(t, key, depth+1)
		fill(t, one, depth+1)
		v.SetMapIndex(key, one)
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() && f.Tag.Get("json") != "-" {
				fill(t, v.Field(i), depth+1)
				if first, _, _ := strings.Cut(f.Tag.Get("enum"), ","); first != "" {
					v.Field(i).SetString(first)
				}
			}
		}
	case reflect.Interface:
		v.Set(reflect.ValueOf(1))
	default:
		t.Fatalf("nothing to fill a %v with", v.Type())
	}
}
