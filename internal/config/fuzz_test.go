package config

import (
	"bytes"
	"encoding/json"
	"os"
	"reflect"
	"testing"

	"go.yaml.in/yaml/v4"

	"github.com/callcell/callcell/envelope"
)

// FuzzParse holds what is accepted to three properties: the JSON means what
// YAML's own decoder reads, it is its own YAML, and an error gives nothing.
func FuzzParse(f *testing.F) {
	full, err := os.ReadFile("testdata/full.yaml")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(full)
	for _, seed := range []string{
		"", "a: 1\nb: [x, 'y', \"z\"]\n", "a: |\n  x\n", "{\"a\": {\"b\": [true, false, -0.5]}}", "a: yes\n", "a: &x 1\nb: *x\n",
		"<<: {a: 1}\n", "? [a]\n: b\n", "--- !!map\na: 1\n", "a: 1\n---\nb: 2\n", "%YAML 1.1\n---\na: 1\n", "a: \"\\u202e\"\n", "a: 'it''s'\n",
		"- - - 1\n", "a: 0x1f\n", "a: 1_0\n", "a: 12:30\n", "a: 2026-01-01\n", "a: ~\n", "\"a\": 1\n'a': 2\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		d, err := Parse("f.yaml", data)
		if err != nil {
			if d != nil {
				t.Fatalf("an error and a document: %v", err)
			}
			return
		}
		var got, theirs any
		if err := envelope.Decode(d.JSON(), int64(len(d.JSON())), &got); err != nil {
			t.Fatalf("%s is not strict JSON: %v", d.JSON(), err)
		}
		if err := yaml.Load(data, &theirs); err != nil {
			t.Fatalf("taken, and the library says %v", err)
		}
		if a, b := canonical(got), canonical(theirs); !reflect.DeepEqual(a, b) {
			t.Fatalf("read as %#v, by the library as %#v", a, b)
		}
		checkAgain(t, d.JSON())
	})
}

// checkAgain reads JSON of ours as YAML: it is the same value, unless it has
// characters that a file may have in escapes alone.
func checkAgain(t *testing.T, data []byte) {
	t.Helper()
	if checkText(data) != nil || yaml.Load(data, new(any)) != nil {
		return
	}
	again, err := Parse("f.yaml", data)
	if err != nil {
		t.Fatalf("%s is not YAML: %v", data, err)
	}
	if !bytes.Equal(again.JSON(), data) {
		t.Fatalf("%s became %s", data, again.JSON())
	}
}

// FuzzDecodeEnvelope: a file and its JSON are the same envelope, or both are
// refused.
func FuzzDecodeEnvelope(f *testing.F) {
	for _, seed := range []string{
		"{}", "files: {scratch: 16Mi}\n", "files: {scratch: 16}\n", "resources: {cpu: 0.5}\n", "trust: hostile\nlevel: gvisor\n",
		"network: {allow: [{host: a.example.com, ports: [443]}]}\n", "files: {mounts: {m: {source: /srv/m, target: /m, why: x}}}\n",
		"task: {calls: 10, tokens: 20k}\n", "image: 3\n", "unknown: 1\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := DecodeEnvelope("f.yaml", data, envelope.Default())
		if err != nil && !reflect.DeepEqual(got, envelope.Envelope{}) {
			t.Fatalf("an error and an envelope: %v", err)
		}
		d, parseErr := Parse("f.yaml", data)
		if parseErr != nil {
			if err == nil {
				t.Fatalf("taken, though %v", parseErr)
			}
			return
		}
		want, wantErr := envelope.DecodeEnvelope(d.JSON(), envelope.Default())
		if wantErr == nil {
			wantErr = want.Validate()
		}
		if (err == nil) != (wantErr == nil) || err == nil && !reflect.DeepEqual(got, want) {
			t.Fatalf("%+v, %v, want %+v, %v", got, err, want, wantErr)
		}
	})
}

// canonical makes values of two decoders comparable.
func canonical(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for k, e := range v {
			out[k] = canonical(e)
		}
		return out
	case []any:
		out := []any{}
		for _, e := range v {
			out = append(out, canonical(e))
		}
		return out
	case json.Number:
		n, _ := v.Float64()
		return n
	case int:
		return float64(v)
	case int64:
		return float64(v)
	case uint64:
		return float64(v)
	}
	return v
}
