package httpapi

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"
)

// described is what the document has of a type or field.
type described struct {
	Description          string
	Ref                  string `json:"$ref"`
	Enum                 []string
	Properties           map[string]*described
	Items                *described
	AdditionalProperties json.RawMessage
}

func schemasOf(t *testing.T) map[string]*described {
	t.Helper()
	text, err := (&API{}).document()
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Components struct{ Schemas map[string]*described }
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	if len(doc.Components.Schemas) < 60 {
		t.Fatalf("%d types", len(doc.Components.Schemas))
	}
	return doc.Components.Schemas
}

// TestAllIsDescribed: the document says what each type and each field is, and
// without the names of Go: a client knows those of JSON.
func TestAllIsDescribed(t *testing.T) {
	types := schemasOf(t)
	words := map[string]bool{"KiB": true, "MiB": true, "GiB": true, "WebAssembly": true}
	for name := range types { // as it is, and without its package
		words[name] = true
		for _, pkg := range []string{"Audit", "Gateway", "Assembly", "Health", "Image"} {
			words[strings.TrimPrefix(name, pkg)] = true
		}
	}
	camel := regexp.MustCompile(`\b[A-Z][a-z]+[A-Z]\w*`)
	look := func(where, text string) {
		if text == "" {
			t.Errorf("%s is not described", where)
		}
		for _, name := range camel.FindAllString(text, -1) {
			if !words[name] {
				t.Errorf("%s speaks of %s: %s", where, name, text)
			}
		}
	}
	for name, s := range types {
		look(name, s.Description)
		for field, p := range s.Properties {
			text := p.Description
			for _, of := range []*described{p, p.Items} {
				if of != nil && text == "" {
					if to := types[strings.TrimPrefix(of.Ref, schemas)]; to != nil {
						text = to.Description
					}
				}
			}
			look(name+"."+field, text)
		}
	}
}

// TestDescribed: units, limits, words and what a field is come from where they
// are decided, and what narrows a field is told as the field is.
func TestDescribed(t *testing.T) {
	types := schemasOf(t)
	for _, c := range []struct {
		of, field string
		want      []string
	}{
		{"Resources", "memory", []string{"Of the whole cell", "Bytes with their unit", "1Mi to 1Ti, and 256Mi where it is not said"}},
		{"ResourcesRequest", "memory", []string{"Of the whole cell", "Bytes with their unit", "1Mi to 1Ti"}},
		{"OutputCaps", "count", []string{"files.outputs.count: 0 to 16384, and 16 where", "files.tree.changes.count: 0 to 65536"}},
		{"Request", "trust", []string{"Who wrote the code", "- `hostile`: "}},
		{"Call", "argv", []string{"A program and its arguments", "Exactly one of argv, script and fetch", "at most 4096 arguments"}},
		{"Call", "inlineOutputs", []string{"inlineOutputs is the most bytes", "Bytes with their unit"}},
		{"Result", "outcome", []string{"- `wall_time`: "}},
		{"Usage", "cpuNs", []string{"every process of the cell", "Nanoseconds"}},
		{"FetchRequest", "url", []string{"http or https"}},
		{"NewTeam", "tier", []string{"free where it is not said"}},
	} {
		p := types[c.of].Properties[c.field]
		for _, want := range c.want {
			if p == nil || !strings.Contains(p.Description, want) {
				t.Errorf("%s.%s: no %q in %+v", c.of, c.field, want, p)
			}
		}
	}
	if p := types["Script"].Properties["lang"]; strings.Join(p.Enum, " ") != "python node sh" {
		t.Errorf("%+v", p)
	}
	for name, want := range map[string]string{"Call": "- tool and task are one printable line", "Envelope": "- a mount says why"} {
		if !strings.Contains(types[name].Description, want) {
			t.Errorf("%s: %s", name, types[name].Description)
		}
	}
}
