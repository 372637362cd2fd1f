package config

import (
	"errors"
	"strings"
	"testing"

	"github.com/callcell/callcell/envelope"
)

func TestParse(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"scalars", "a: true\nb: false\nc: 7\nd: -0.25\ne: 64Mi\nf: 30s\ng: 0s\nh: 16k\n", `{"a":true,"b":false,"c":7,"d":-0.25,"e":"64Mi","f":"30s","g":"0s","h":"16k"}`},
		{"quotes make text", `{a: "yes", b: '1', c: "null", d: "1e3"}`, `{"a":"yes","b":"1","c":"null","d":"1e3"}`},
		{"text with digits", "a: 10.1.2.0/24\nb: 1.2.3\nc: 2001:db8::/32\nd: python:3.13-slim\ne: 1e3x\n", `{"a":"10.1.2.0/24","b":"1.2.3","c":"2001:db8::/32","d":"python:3.13-slim","e":"1e3x"}`},
		{"blocks", "a: |\n  x\n  y\nb: >\n  x\n  y\n", `{"a":"x\ny\n","b":"x y\n"}`},
		{"escapes", `a: "\u202e\x07\u2028"`, "{\"a\":\"\u202e\\u0007\\u2028\"}"},
		{"nothing in brackets", "a: {}\nb: []\nc: \"\"\n", `{"a":{},"b":[],"c":""}`},
		{"keys", "'yes': a\n\"1\": b\n\"<<\": c\n\"\": d\n", `{"yes":"a","1":"b","\u003c\u003c":"c","":"d"}`},
		{"marks of a document", "# x\n---\na: 1\n...\n# y\n", `{"a":1}`},
		{"JSON", `{"a": [1, {"b": "c"}], "d": "\""}`, `{"a":[1,{"b":"c"}],"d":"\""}`},
		{"lines of Windows", "a: 1\r\nb: 2\r\n", `{"a":1,"b":2}`},
		{"a bare scalar", "x", `"x"`},
	} {
		d, err := Parse("f.yaml", []byte(c.in))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if got := string(d.JSON()); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"nothing", "", "f.yaml:1:1: nothing in it"},
		{"comments only", "# x\n", "f.yaml:1:1: nothing in it"},
		{"two documents", "a: 1\n---\nb: 2\n", "f.yaml:3:1: a second document"},
		{"a document behind the end", "a: 1\n...\nb", "f.yaml:3:1: a second document"},
		{"a directive", "%TAG !e! tag:x,1:\n---\na: 1\n", "f.yaml:1:1: a directive"},
		{"another version", "%YAML 1.2\n---\na: 1\n", "f.yaml:1:1: not YAML: found incompatible YAML document"},
		{"an anchor", "a: &x 1\n", "f.yaml:1:4: a: anchors and aliases are not taken"},
		{"an anchor on a key", "&x a: 1\n", "f.yaml:1:1: anchors and aliases are not taken"},
		{"an alias", "a: {b: &x 1, c: *x}\n", "f.yaml:1:8: a.b: anchors and aliases are not taken"},
		{"a merge key", "a: {<<: {b: 1}}\n", "f.yaml:1:5: a: merge keys are not taken"},
		{"a tag", "a: !!str 1\n", "f.yaml:1:4: a: tags are not taken"},
		{"a tag of its own", "a:\n  - !env HOME\n", "f.yaml:2:5: a[0]: tags are not taken"},
		{"a bare tag", "a: ! x\n", "f.yaml:1:4: a: tags are not taken"},
		{"a tag on a key", "!x a: 1\n", "f.yaml:1:1: tags are not taken"},
		{"a tag on a list", "a: !!set [1]\n", "f.yaml:1:4: a: tags are not taken"},
		{"a key twice", "a: 1\nb: 2\na: 3\n", "f.yaml:3:1: a: the key comes twice, first in line 1"},
		{"a key twice, spelt apart", "a: 1\n\"\\x61\": 2\n", "f.yaml:2:1: a: the key comes twice, first in line 1"},
		{"a key twice below", "a: {b.c: [{x: 1, x: 2}]}\n", `f.yaml:1:18: a["b.c"][0].x: the key comes twice, first in line 1`},
		{"a list as a key", "? [1]\n: 2\n", "f.yaml:1:3: a key that is not a word"},
		{"a key that is a number", "1: a\n", `f.yaml:1:1: the key "1" is not read as text by every program`},
		{"a key that is a boolean", "a: {yes: a}\n", `f.yaml:1:5: a: the key "yes" is not read as text by every program`},
		{"an empty key", ": 1\n", "f.yaml:1:1: a key that is empty"},
		{"null as a key", "~: 1\n", "f.yaml:1:1: a key that is empty"},
		{"no value", "files:\n", "f.yaml:1:7: files: no value"},
		{"no value in a list", "a:\n  - \n", "f.yaml:2:4: a[0]: no value"},
		{"null", "a: null\n", "f.yaml:1:4: a: no value"},
		{"tilde", "a: ~\n", "f.yaml:1:4: a: no value"},
		{"a tab", "a:\n\tb: 1\n", "f.yaml:2:1: not YAML: found character that cannot start any token"},
		{"an open bracket", "a: [1,\n", "f.yaml:2:1: not YAML: did not find expected node content"},
		{"deep", strings.Repeat("[", 40), "f.yaml:1:33: not YAML: exceeded max depth of 32"},
		{"deep in two ways", strings.Repeat("- ", 20) + strings.Repeat("[", 20) + strings.Repeat("]", 20), ""},
		{"not UTF-8", "a: 1\nb: \xff\n", "f.yaml:2:4: not UTF-8"},
		{"UTF-16", "\xff\xfea\x00", "f.yaml:1:1: not UTF-8"},
		{"a byte order mark", "\ufeffa: 1\n", "f.yaml:1:1: a byte order mark"},
		{"text turned around, in a comment", "a: 1 # \u202e\n", "f.yaml:1:8: U+202E, which makes text read in another order than it has"},
		{"a line that only YAML sees", "a: 1 # x\u0085b: 2\n", "f.yaml:1:9: U+0085, which only some programs take as the end of a line"},
		{"tags nobody sees", "a: x\U000e0041\n", "f.yaml:1:5: U+E0041, which nobody sees"},
		{"control characters", "a: 'x\x07'\n", ""},
	} {
		d, err := Parse("f.yaml", []byte(c.in))
		var fault *Error
		if d != nil || !errors.As(err, &fault) {
			t.Errorf("%s: %v, %v", c.name, d, err)
			continue
		}
		if c.want != "" && err.Error() != c.want {
			t.Errorf("%s: %v, want %s", c.name, err, c.want)
		}
	}
}

func TestParseSurprises(t *testing.T) {
	for _, text := range []string{
		"yes", "No", "ON", "off", "y", "N", "True", "FALSE", "017", "0o17", "0x1F", "0b11", "1_000", "+1", "089", "1e3", "1.5E-3", ".5", "5.",
		".inf", "-.Inf", ".NaN", "12:30", "1:2:3.5", "2026-01-01", "2026-01-01T10:00:00Z", "2026-1-1 10:00:00", "=", "9999999999999999999", "0.1234567890123456789",
	} {
		if d, err := Parse("f.yaml", []byte("a: "+text+"\n")); err == nil {
			t.Errorf("%s is taken as %s", text, d.JSON())
		}
		if _, err := Parse("f.yaml", []byte("a: '"+text+"'\n")); err != nil {
			t.Errorf("%s in quotes: %v", text, err)
		}
	}
}

func TestParseSize(t *testing.T) {
	if _, err := Parse("f.yaml", []byte("a: 1\n#"+strings.Repeat("x", MaxYAML))); err == nil {
		t.Error("more than MaxYAML is taken")
	}
}

func TestDecodeEnvelope(t *testing.T) {
	e, err := DecodeEnvelope("f.yaml", []byte("files:\n  scratch: 16Mi\nresources: {cpu: 0.5, pids: 16}\n"), envelope.Default())
	if err != nil {
		t.Fatal(err)
	}
	if e.Files.Scratch != 16*envelope.MiB || e.Resources.CPU != 500 || e.Resources.Pids != 16 || e.Resources.Wall != envelope.Default().Resources.Wall {
		t.Errorf("got %+v", e)
	}
}

func TestDecodeEnvelopeRefuses(t *testing.T) {
	for _, c := range []struct{ name, in, want, hint string }{
		{"a size without a unit", "files:\n  scratch: 64\n", "f.yaml:2:3: files.scratch: ", "64Mi"},
		{"a time without a unit", "resources: {wall: 30}\n", "f.yaml:1:13: resources.wall: ", "30s"},
		{"a number as text", "image: 3.13\n", "f.yaml:1:1: image: ", "quotes"},
		{"an unknown key", "files:\n  scrath: 1Mi\n", "f.yaml:2:3: files.scrath: ", "scratch"},
		{"a fault in a list", "network:\n  allow:\n    - {host: a.example.com, ports: [443]}\n    - {host: b.example.com, ports: [0]}\n", "f.yaml:4:37: network.allow[1].ports[0]: ", "65535"},
		{"a strange key", "files: {mounts: {\"a b\": {source: 1}}}\n", `f.yaml:1:`, ""},
		{"not a map", "[]\n", "f.yaml:1:1: ", ""},
	} {
		_, err := DecodeEnvelope("f.yaml", []byte(c.in), envelope.Default())
		var fault *Error
		if !errors.As(err, &fault) {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if !strings.HasPrefix(err.Error(), c.want) || !strings.Contains(fault.Hint+fault.Msg, c.hint) {
			t.Errorf("%s: %v (hint %q), want %s (hint with %q)", c.name, err, fault.Hint, c.want, c.hint)
		}
	}
}

func TestDecodeRequest(t *testing.T) {
	r, err := DecodeRequest("f.yaml", []byte("resources: {wall: 5s}\nfiles: {mounts: []}\n"))
	if err != nil || r.Resources == nil || *r.Resources.Wall != 5e9 || r.Files.Mounts == nil || len(*r.Files.Mounts) != 0 {
		t.Errorf("got %+v, %v", r, err)
	}
	_, err = DecodeRequest("f.yaml", []byte("files:\n  mounts: {a: {source: /etc}}\n"))
	if err == nil || !strings.HasPrefix(err.Error(), "f.yaml:2:3: files.mounts: ") {
		t.Errorf("err = %v", err)
	}
	if refusal := envelope.RefusalOf(err); refusal == nil || refusal.Field != "files.mounts" || refusal.Reason != envelope.ReasonRequest {
		t.Errorf("refusal = %+v", refusal)
	}
}

func TestDecodeYAMLKeeps(t *testing.T) {
	into := map[string]any{"kept": true}
	for _, in := range []string{"a: yes", "a: 1\na: 2", "[1]"} {
		if err := DecodeYAML("f.yaml", []byte(in), &into); err == nil || len(into) != 1 || into["kept"] != true {
			t.Errorf("%s: %v, %v", in, into, err)
		}
	}
}

func TestPosition(t *testing.T) {
	d, err := Parse("f.yaml", []byte("a:\n  b-c:\n    - x: 1\n    - z: 2\n  \"d.e\": 3\nab: 4\n"))
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]Position{
		"": {1, 1}, "a": {1, 1}, "ab": {6, 1}, "a.b-c": {2, 3}, "a.b-c[1]": {4, 7}, "a.b-c[1].z": {4, 7}, `a["d.e"]`: {5, 3},
	} {
		if got, ok := d.Position(path); !ok || got != want {
			t.Errorf("Position(%s) = %v, %v, want %v", path, got, ok, want)
		}
	}
	for path, want := range map[string]Position{"a.x": {1, 1}, "a.b-c[7].y": {2, 3}, "abc": {1, 1}, "a.b-c[0].x.z": {3, 7}} {
		if got, ok := d.Position(path); ok || got != want {
			t.Errorf("Position(%s) = %v, %v, want the nearest, %v", path, got, ok, want)
		}
	}
}
