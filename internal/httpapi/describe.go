package httpapi

import (
	"encoding/json"
	"fmt"
	"path"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"

	"github.com/callcell/callcell/envelope"
)

//go:generate go run ./gen

const schemas = "#/components/schemas/"

// A place is one field of a type.
type place struct {
	of    reflect.Type
	field string // of Go
}

// describe has the document say of its types and fields what their comments
// say, what is checked of them, and between what the ceilings may be. A field
// with a tag doc says that.
func describe(types huma.Registry) {
	texts, more := comments(), limits()
	places, rules := checked()
	for at, text := range places {
		more[at] = append(more[at], text)
	}
	for name, s := range types.Map() {
		t := types.TypeFromRef(schemas + name)
		if s.Description == "" {
			s.Description = texts[nameInComments(t)]
		}
		s.Description = sentences(s.Description, rules[t])
		describeFields(s, t, texts, more)
	}
}

func describeFields(s *huma.Schema, t reflect.Type, texts map[string]string, more map[place][]string) {
	for i := range t.NumField() {
		f := t.Field(i)
		name := jsonName(f)
		if f.Anonymous && name == "" {
			describeFields(s, f.Type, texts, more)
			continue
		}
		p := s.Properties[name]
		if p == nil || f.Tag.Get("doc") != "" {
			continue
		}
		parts := []string{textOfField(t, f.Name, texts), p.Description}
		if p.Ref != "" && parts[0] == "" && len(more[place{t, f.Name}]) == 0 {
			continue // its type says what it is
		}
		if f.Type == reflect.TypeFor[time.Duration]() {
			parts = append(parts, "nanoseconds")
		}
		p.Description = sentences(append(parts, more[place{t, f.Name}]...)...)
	}
}

func jsonName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}

// nameInComments is what a type is called in comments.
func nameInComments(t reflect.Type) string { return path.Base(t.PkgPath()) + "." + t.Name() }

// textOfField is the comment of a field. One of a request that has none is what
// the field is that it narrows.
func textOfField(t reflect.Type, field string, texts map[string]string) string {
	key := nameInComments(t)
	if text := texts[key+"."+field]; text != "" {
		return text
	}
	narrows, ok := strings.CutSuffix(key, "Request")
	if !ok {
		return ""
	}
	if narrows == "envelope." {
		narrows += "Envelope"
	}
	return texts[narrows+"."+field]
}

// sentences puts texts one behind the other, each beginning as a sentence does
// but for one that begins with a name. A list stands below what is before it.
func sentences(texts ...string) string {
	var b strings.Builder
	for _, text := range texts {
		first, size := utf8.DecodeRuneInString(text)
		switch {
		case text == "":
			continue
		case strings.HasPrefix(text, "- "):
			if b.Len() > 0 {
				b.WriteString("\n\n")
			}
			b.WriteString(strings.TrimSuffix(text, "\n"))
			continue
		case b.Len() > 0:
			b.WriteString(". ")
		}
		if head, _, _ := strings.Cut(text, " "); strings.IndexFunc(head, func(r rune) bool { return !unicode.IsLower(r) && !strings.ContainsRune(",:;'-", r) }) >= 0 {
			b.WriteString(text)
			continue
		}
		b.WriteRune(unicode.ToUpper(first))
		b.WriteString(text[size:])
	}
	return b.String()
}

// limits are between what the ceilings of an envelope and of a request may be,
// and what they are in an envelope that does not say.
func limits() map[place][]string {
	type bound struct{ field, text string }
	found := map[place][]bound{}
	initial := initials()
	for _, b := range envelope.Bounds() {
		for _, root := range []reflect.Type{reflect.TypeFor[envelope.Envelope](), reflect.TypeFor[envelope.Request]()} {
			at, ok := locate(root, b.Field)
			if !ok {
				continue
			}
			text := b.Least + " to " + b.Most
			if root == reflect.TypeFor[envelope.Envelope]() {
				text += ", and " + initial(b.Field) + " where it is not said"
			}
			found[at] = append(found[at], bound{b.Field, text})
		}
	}
	out := map[place][]string{}
	for at, list := range found {
		if len(list) == 1 {
			out[at] = []string{list[0].text}
			continue
		}
		for _, b := range list {
			out[at] = append(out[at], b.field+": "+b.text)
		}
		slices.Sort(out[at])
		out[at] = []string{strings.Join(out[at], "; ")}
	}
	return out
}

// initials returns what a field, dotted, is in the envelope that is used where
// nobody said otherwise.
func initials() func(field string) string {
	text, _ := json.Marshal(envelope.Default()) // a test of package envelope has it written
	return func(field string) string {
		var of map[string]json.RawMessage
		value := json.RawMessage(text)
		for name := range strings.SplitSeq(field, ".") {
			_ = json.Unmarshal(value, &of)
			value, of = of[name], nil
		}
		return strings.Trim(string(value), `"`)
	}
}

// locate walks down a dotted field from a type.
func locate(t reflect.Type, field string) (at place, ok bool) {
	for name := range strings.SplitSeq(field, ".") {
		for t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		if t.Kind() != reflect.Struct {
			return place{}, false
		}
		at, ok = place{}, false
		for i := range t.NumField() {
			if f := t.Field(i); jsonName(f) == name {
				at, ok = place{t, f.Name}, true
			}
		}
		if !ok {
			return place{}, false
		}
		f, _ := t.FieldByName(at.field)
		t = f.Type
	}
	return at, ok
}

// checked is what is checked of the fields of a call, by the checks that have
// their names, and a list of what else is checked of a call and of an envelope.
func checked() (places map[place]string, rules map[reflect.Type]string) {
	call, permission := reflect.TypeFor[envelope.Call](), reflect.TypeFor[envelope.Envelope]()
	places, rules = map[place]string{}, map[reflect.Type]string{}
	for _, c := range envelope.Checks() {
		at, ok := locate(call, c.Name)
		switch {
		case c.Of == "envelope":
			rules[permission] += "- " + c.Says + "\n"
		case ok:
			places[at] = strings.Replace(c.Says, c.Name+" ", "`"+c.Name+"` ", 1)
		default:
			rules[call] += "- " + c.Says + "\n"
		}
	}
	return places, rules
}

// meanings are the words of a set, as a list.
func meanings(set string) string {
	var b strings.Builder
	for _, c := range envelope.Codes() {
		if c.Set == set {
			fmt.Fprintf(&b, "- `%s`: %s\n", c.Word, c.Means)
		}
	}
	return strings.TrimSuffix(b.String(), "\n")
}
