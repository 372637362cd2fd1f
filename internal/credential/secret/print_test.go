package secret

import (
	"bytes"
	"encoding/gob"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"testing"
	"text/template"
	"unsafe"
)

// holders returns a secret in everything that a value can be in.
func holders(s Secret) map[string]any {
	type hidden struct{ s Secret }
	type Shown struct{ S Secret }
	type Embedded struct{ Secret }
	type pointer struct{ s *Secret }
	return map[string]any{
		"plain": s, "pointer": &s, "hidden": hidden{s}, "shown": Shown{s}, "embedded": Embedded{s}, "pointer to hidden": &hidden{s},
		"hidden pointer": pointer{&s}, "slice": []Secret{s}, "map": map[string]Secret{"a": s}, "any": []any{s, &s, hidden{s}},
		"deep": map[string]any{"a": []Shown{{s}}}, "array": [1]Secret{s}, "channel": make(chan Secret),
		"error": errors.Join(fmt.Errorf("with %v: %w", s, errors.New("x")), fmt.Errorf("and %+v", hidden{s})),
	}
}

// carries reports whether text has the value, plainly or in one of the forms
// that printers use.
func carries(text string, value []byte) bool {
	lower := strings.ToLower(text)
	list := strings.Trim(fmt.Sprint(value), "[]")
	for _, form := range []string{string(value), fmt.Sprintf("%x", value), fmt.Sprintf("% x", value), list, strings.ReplaceAll(list, " ", ","),
		strings.ReplaceAll(list, " ", ", "), fmt.Sprintf("%#v", value)} {
		if strings.Contains(lower, strings.ToLower(form)) {
			return true
		}
	}
	return false
}

const canary = "c4nary-hunter2"

func TestFmtPrintsAMask(t *testing.T) {
	s := mustNew(t, canary)
	verbs := []string{"%v", "%+v", "%#v", "%s", "%q", "%#q", "%x", "%X", "% x", "%d", "%b", "%o", "%O", "%c", "%U", "%e", "%f", "%g", "%t", "%p", "%T", "%w", "%!", "%10.3s", "%-20v", "%z"}
	for name, holder := range holders(s) {
		for _, verb := range verbs {
			text := fmt.Sprintf(verb, holder)
			if carries(text, []byte(canary)) {
				t.Errorf("%s with %s: %s", name, verb, text)
			}
			if direct := name == "plain" || name == "pointer"; direct && !strings.Contains("%p %T %! %w", verb) && text != Mask {
				t.Errorf("%s with %s: %s, want the mask", name, verb, text)
			}
		}
	}
	if fmt.Sprint(s)+fmt.Sprintln(s)+s.String()+s.GoString() != Mask+Mask+"\n"+Mask+Mask {
		t.Error("not the mask")
	}
}

func TestEncodersWriteAMask(t *testing.T) {
	s := mustNew(t, canary)
	for name, holder := range holders(s) {
		for encoder, encode := range map[string]func() ([]byte, error){
			"json": func() ([]byte, error) { return json.Marshal(holder) },
			"xml":  func() ([]byte, error) { return xml.Marshal(holder) },
			"gob": func() ([]byte, error) {
				var b bytes.Buffer
				err := gob.NewEncoder(&b).Encode(holder)
				return b.Bytes(), err
			},
			"slog text": func() ([]byte, error) {
				var b bytes.Buffer
				slog.New(slog.NewTextHandler(&b, nil)).Info("x", "secret", holder)
				return b.Bytes(), nil
			},
			"slog json": func() ([]byte, error) {
				var b bytes.Buffer
				slog.New(slog.NewJSONHandler(&b, nil)).With("secret", holder).WithGroup("g").Info("x", slog.Any("again", holder))
				return b.Bytes(), nil
			},
			"template": func() ([]byte, error) {
				var b bytes.Buffer
				err := template.Must(template.New("x").Parse("{{.}} {{printf `%s %x` . .}}")).Execute(&b, holder)
				return b.Bytes(), err
			},
		} {
			text, err := encode()
			if carries(string(text), []byte(canary)) || err != nil && carries(err.Error(), []byte(canary)) {
				t.Errorf("%s of %s: %s, %v", encoder, name, text, err)
			}
			if name == "plain" && encoder != "gob" && (err != nil || !bytes.Contains(text, []byte(Mask))) {
				t.Errorf("%s: %s, %v, want the mask", encoder, text, err)
			}
		}
	}
	keyed, err := json.Marshal(struct{ S *Secret }{&s})
	if err != nil || string(keyed) != `{"S":"[secret]"}` {
		t.Errorf("%s, %v", keyed, err)
	}
}

func TestNothingReadsASecretBack(t *testing.T) {
	var holder struct{ S Secret }
	if err := json.Unmarshal([]byte(`{"S":"`+canary+`"}`), &holder); err == nil || strings.Contains(err.Error(), canary) || holder.S.Len() != 0 {
		t.Errorf("%v, %d bytes", err, holder.S.Len())
	}
}

func TestPanicPrintsAMask(t *testing.T) {
	s := mustNew(t, canary)
	defer func() {
		if text := fmt.Sprint(recover()); text != Mask {
			t.Errorf("recovered %q", text)
		}
	}()
	panic(s)
}

// TestReflectionFindsNothing walks everything that reflection can reach from
// a secret, unexported fields included, as printers for debugging do.
func TestReflectionFindsNothing(t *testing.T) {
	s := mustNew(t, canary)
	for name, holder := range holders(s) {
		if reaches(reflect.ValueOf(holder), []byte(canary), map[unsafe.Pointer]bool{}) {
			t.Errorf("%s: reflection reaches the bytes", name)
		}
	}
	control := struct{ b *box }{s.box()}
	if !reaches(reflect.ValueOf(control), []byte(canary), map[unsafe.Pointer]bool{}) {
		t.Error("the walk does not find bytes behind an unexported pointer: it proves nothing")
	}
}

// reaches reports whether value leads to the bytes wanted.
func reaches(v reflect.Value, want []byte, seen map[unsafe.Pointer]bool) bool {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() || seen[v.UnsafePointer()] {
			return false
		}
		seen[v.UnsafePointer()] = true
		return reaches(v.Elem(), want, seen)
	case reflect.Interface:
		return !v.IsNil() && reaches(v.Elem(), want, seen)
	case reflect.Struct:
		for i := range v.NumField() {
			if reaches(v.Field(i), want, seen) {
				return true
			}
		}
	case reflect.Slice, reflect.Array:
		if v.Type().Elem().Kind() == reflect.Uint8 && v.Kind() == reflect.Slice {
			return bytes.Contains(v.Bytes(), want)
		}
		for i := range v.Len() {
			if reaches(v.Index(i), want, seen) {
				return true
			}
		}
	case reflect.Map:
		for _, k := range v.MapKeys() {
			if reaches(k, want, seen) || reaches(v.MapIndex(k), want, seen) {
				return true
			}
		}
	case reflect.String:
		return strings.Contains(v.String(), string(want))
	}
	return false
}

func pointer(b []byte) unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(b)) }
