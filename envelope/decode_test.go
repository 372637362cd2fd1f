package envelope

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
)

type badDocument struct {
	name, doc       string
	path, msg, hint string
}

func badEnvelopes() []badDocument {
	return []badDocument{
		{"misspelt", `{"files":{"scrach":"1Mi"}}`, "files.scrach", `unknown key "scrach"`, `did you mean "scratch"?`},
		{"misspelt allow", `{"network":{"alow":[]}}`, "network.alow", "unknown key", `"allow"`},
		{"misspelt deep", `{"network":{"allow":[{"hosts":"a.test"}]}}`, "network.allow[0].hosts", "unknown key", `"host"`},
		{"misspelt in a map", `{"files":{"mounts":{"m":{"src":"/x"}}}}`, "files.mounts.m.src", "unknown key", "source, target, why"},
		{"other case", `{"Files":{}}`, "Files", "unknown key", `"files"`},
		{"snake case", `{"resources":{"cpu_time":"1s"}}`, "resources.cpu_time", "unknown key", `"cpuTime"`},
		{"prefix", `{"resources":{"mem":"1Gi"}}`, "resources.mem", "unknown key", `"memory"`},
		{"foreign", `{"resources":{"timeout":"1s"}}`, "resources.timeout", "unknown key", "write wall"},
		{"read only", `{"files":{"mounts":{"m":{"readonly":false}}}}`, "files.mounts.m.readonly", "unknown key", "every mount is read-only"},
		{"no such", `{"unsafe":true}`, "unsafe", "unknown key", "version, level, trust"},
		{"hostile key", "{\"a\\u001b[31m\u202e\":1}", `["a\x1b[31m\u202e"]`, "unknown key", "version, level"},
		{"empty key", `{"":1}`, `[""]`, "unknown key", "version, level"},
		{"key with a dot", `{"files.scratch":"1Mi"}`, `["files.scratch"]`, "unknown key", "version"},
		{"twice", `{"trust":"hostile","trust":"reviewed"}`, "trust", "comes twice", "keep one"},
		{"twice by escape", `{"trust":"hostile","tr\u0075st":"reviewed"}`, "trust", "comes twice", "keep one"},
		{"twice in a map", `{"credentials":{"a":{},"a":{}}}`, "credentials.a", "comes twice", "keep one"},
		{"null", `{"files":null}`, "files", "null", "leave the key out"},
		{"null list", `{"environment":null}`, "environment", "null", "an empty list means nothing"},
		{"null element", `{"environment":[null]}`, "environment[0]", "null", "leave"},
		{"null entry", `{"credentials":{"a":null}}`, "credentials.a", "null", "leave"},
		{"null quantity", `{"resources":{"wall":null}}`, "resources.wall", "null", "leave"},
		{"null document", `null`, "", "null", "leave"},
		{"unknown level", `{"level":"containr"}`, "level", `unknown level "containr"`, `did you mean "container"?`},
		{"unknown trust", `{"trust":"full"}`, "trust", `unknown trust "full"`, ""},
		{"level as a number", `{"level":3}`, "level", `unknown level "3"`, ""},
		{"level as a list", `{"level":["auto"]}`, "level", "want a word, not a list", ""},
		{"bare size", `{"files":{"scratch":67108864}}`, "files.scratch", `bad size "67108864"`, `write "64Mi", not 67108864`},
		{"bare size in a string", `{"files":{"scratch":"67108864"}}`, "files.scratch", "bad size", `write "64Mi", not 67108864`},
		{"bare time", `{"resources":{"wall":30}}`, "resources.wall", `bad duration "30"`, `write "30s", not 30`},
		{"time 0", `{"resources":{"wall":0}}`, "resources.wall", "bad duration", `"0s"`},
		{"time -1", `{"resources":{"wall":-1}}`, "resources.wall", "bad duration", "no unlimited"},
		{"time 1e9", `{"resources":{"wall":1e9}}`, "resources.wall", "bad duration", ""},
		{"unlimited", `{"resources":{"memory":"unlimited"}}`, "resources.memory", "bad size", "there is no unlimited"},
		{"unlimited count", `{"resources":{"pids":"unlimited"}}`, "resources.pids", "bad count", "there is no unlimited"},
		{"unlimited cpu", `{"resources":{"cpu":"max"}}`, "resources.cpu", "bad cpu", "there is no unlimited"},
		{"negative count", `{"resources":{"pids":-0}}`, "resources.pids", "bad count", "negative"},
		{"fractional count", `{"resources":{"pids":1.0}}`, "resources.pids", "bad count", ""},
		{"count as an object", `{"resources":{"pids":{"max":1}}}`, "resources.pids", "bad count", ""},
		{"size as true", `{"files":{"scratch":true}}`, "files.scratch", "want a size with a unit", ""},
		{"no list", `{"network":{"allow":[{"host":"a.test","ports":443}]}}`, "network.allow[0].ports", "want a list, not a number", "brackets"},
		{"one entry", `{"network":{"allow":{"host":"a.test"}}}`, "network.allow", "want a list, not an object", "brackets"},
		{"text for a list", `{"environment":"LANG"}`, "environment", "want a list, not a string", "brackets"},
		{"text for an object", `{"network":"none"}`, "network", "want an object, not a string", ""},
		{"list for a map", `{"credentials":[]}`, "credentials", "want an object, not a list", ""},
		{"port as text", `{"network":{"allow":[{"ports":["443"]}]}}`, "network.allow[0].ports[0]", "want a whole number, not a string", ""},
		{"port of half", `{"network":{"allow":[{"ports":[443.5]}]}}`, "network.allow[0].ports[0]", `want a whole number, not "443.5"`, ""},
		{"port too long", `{"network":{"allow":[{"ports":[99999999999999999999]}]}}`, "network.allow[0].ports[0]", "want a whole number", ""},
		{"yes", `{"network":{"allow":[{"inspect":"yes"}]}}`, "network.allow[0].inspect", "want true or false, not a string", ""},
		{"one", `{"network":{"allow":[{"inspect":1}]}}`, "network.allow[0].inspect", "want true or false, not a number", ""},
		{"not JSON", `{version: 1}`, "", "not JSON", "one JSON value"},
		{"empty", ``, "", "not JSON", "one JSON value"},
		{"trailing", `{} {}`, "", "not JSON", "nothing after it"},
		{"trailing brace", `{}}`, "", "after top-level value, at byte 3", "nothing after it"},
		{"trailing bracket", `{}]`, "", "after top-level value, at byte 3", "nothing after it"},
		{"trailing garbage", `{}x`, "", "after top-level value, at byte 3", "nothing after it"},
		{"trailing NUL", "{}\x00", "", "not JSON", "nothing after it"},
		{"cut", `{"files":`, "", "not JSON", ""},
		{"not UTF-8", "{\"image\":\"\xff\"}", "", "not UTF-8 at byte 10", "base64"},
		{"overlong UTF-8", "{\"image\":\"\xc0\xaf\"}", "", "not UTF-8", "base64"},
		{"UTF-16 half in UTF-8", "{\"image\":\"\xed\xa0\x80\"}", "", "not UTF-8", "base64"},
		{"lone surrogate", `{"image":"\ud800"}`, "image", "half of a character", "partner"},
		{"lone low surrogate", `{"image":"\udc00"}`, "image", "half of a character", "partner"},
		{"two low surrogates", `{"image":"\udc00\udc00"}`, "image", "half of a character", "partner"},
		{"two high surrogates", `{"image":"\ud800\ud800"}`, "image", "half of a character", "partner"},
		{"surrogate before an escape", `{"image":"\ud800\n"}`, "image", "half of a character", "partner"},
		{"surrogate in a key", `{"\ud800":1}`, "", "half of a character", "partner"},
		{"scalar", `5`, "", "want an object, not a number", ""},
	}
}

func badRequests() []badDocument {
	return []badDocument{
		{"task", `{"task":{}}`, "task", "unknown key", "the profile's alone"},
		{"coResidency", `{"coResidency":"none"}`, "coResidency", "unknown key", "the profile's alone"},
		{"private", `{"network":{"private":[]}}`, "network.private", "unknown key", "the profile's alone"},
		{"fetch", `{"network":{"fetch":"public"}}`, "network.fetch", "unknown key", "the profile's alone"},
		{"own mount", `{"files":{"mounts":{"etc":{"source":"/etc","target":"/e","why":"x"}}}}`, "files.mounts", "want a list, not an object", ""},
		{"own source", `{"credentials":{"a":{"source":"file:/etc/shadow"}}}`, "credentials", "want a list, not an object", ""},
		{"credential source", `{"credentials":[{"source":"file:/etc/shadow"}]}`, "credentials[0]", "want a string, not an object", "its name"},
		{"null keeps nothing open", `{"credentials":null}`, "credentials", "null", "leave"},
		{"null level", `{"level":null}`, "level", "null", "leave"},
	}
}

func badCalls() []badDocument {
	return []badDocument{
		{"command", `{"command":["ls"]}`, "command", "unknown key", "argv"},
		{"cwd", `{"argv":["ls"],"cwd":"/proc/self/fd/3"}`, "cwd", "unknown key", "request"},
		{"timeout", `{"argv":["ls"],"timeout":30}`, "timeout", "unknown key", "request"},
		{"code", `{"code":"1"}`, "code", "unknown key", "script"},
		{"files", `{"files":[]}`, "files", "unknown key", "inputs"},
		{"from", `{"inputs":[{"name":"a","from":"/etc/shadow"}]}`, "inputs[0].from", "unknown key", "name, data, executable"},
		{"argv as a line", `{"argv":"ls -l"}`, "argv", "want a list, not a string", "brackets"},
		{"needs as a word", `{"argv":["ls"],"needs":"shell"}`, "needs", "want a list, not a string", ""},
		{"a need there is not", `{"argv":["ls"],"needs":["shell","root"]}`, "needs[1]", "root", ""},
		{"argv with a number", `{"argv":["sleep",1]}`, "argv[1]", "want a string, not a number", ""},
		{"data as text", `{"stdin":"hello there!"}`, "stdin", "want standard base64", "RFC 4648"},
		{"data unpadded", `{"inputs":[{"name":"a","data":"aGk"}]}`, "inputs[0].data", "base64", "RFC 4648"},
		{"data null", `{"inputs":[{"name":"a","data":null}]}`, "inputs[0].data", "null", "leave"},
		{"data as a list", `{"stdin":[104,105]}`, "stdin", "want a string of base64, not a list", ""},
		{"env number", `{"env":{"A":1}}`, "env.A", "want a string, not a number", ""},
		{"env null", `{"env":{"A":null}}`, "env.A", "null", "leave"},
		{"request", `{"request":{"files":{"scratch":1}}}`, "request.files.scratch", "bad size", `"1B"`},
	}
}

func (c badDocument) check(t *testing.T, err error) {
	t.Helper()
	var d *DecodeError
	if !errors.As(err, &d) {
		t.Fatalf("error %v, want a DecodeError", err)
	}
	if d.Path != c.path || !strings.Contains(d.Msg, c.msg) || !strings.Contains(d.Hint, c.hint) {
		t.Errorf("got %q: %q (%s)", d.Path, d.Msg, d.Hint)
	}
	mended(t, err)
	if r := RefusalOf(err); r == nil || r.Reason != ReasonRequest || r.Field != c.path {
		t.Errorf("the refusal is %+v", r)
	}
	for _, r := range d.Error() + d.Hint {
		if r < ' ' || r > '~' {
			t.Errorf("the error has the character %U", r)
		}
	}
}

func TestDecodeEnvelopeRefuses(t *testing.T) {
	for _, c := range badEnvelopes() {
		t.Run(c.name, func(t *testing.T) {
			base := full()
			got, err := DecodeEnvelope([]byte(c.doc), base)
			c.check(t, err)
			if !reflect.DeepEqual(got, Envelope{}) || !reflect.DeepEqual(base, full()) {
				t.Error("the result is not zero, or the base was changed")
			}
			into := full()
			if err := Decode([]byte(c.doc), 1<<20, &into); err == nil || !reflect.DeepEqual(into, full()) {
				t.Errorf("the destination was changed, %v", err)
			}
		})
	}
}

func TestDecodeRequestRefuses(t *testing.T) {
	for _, c := range badRequests() {
		t.Run(c.name, func(t *testing.T) {
			got, err := DecodeRequest([]byte(c.doc))
			c.check(t, err)
			if !reflect.DeepEqual(got, Request{}) {
				t.Error("the result is not zero")
			}
		})
	}
}

func TestDecodeCallRefuses(t *testing.T) {
	for _, c := range badCalls() {
		t.Run(c.name, func(t *testing.T) {
			got, err := DecodeCall([]byte(c.doc))
			c.check(t, err)
			if !reflect.DeepEqual(got, Call{}) {
				t.Error("the result is not zero")
			}
		})
	}
}

func TestDecodeEnvelopeOverBase(t *testing.T) {
	base := full()
	got, err := DecodeEnvelope([]byte(` {
		"files": {"scratch": "1Mi", "mounts": {"models": {"source": "/a", "target": "/b", "why": "c"}}},
		"network": {"allow": [{"host": "x.test", "ports": [443]}]},
		"credentials": {"gh": {"source": "env:GH", "use": {"file": true}}},
		"resources": {"pids": "1k", "cpu": 0.25}, "environment": [] }`), base)
	if err != nil {
		t.Fatal(err)
	}
	want := full()
	want.Files.Scratch = MiB
	want.Files.Mounts = map[string]Mount{"models": {"/a", "/b", "c"}}
	want.Network.Allow = []Allow{{Host: "x.test", Ports: []int{443}}}
	want.Credentials = map[string]Credential{"gh": {Source: "env:GH", Use: CredentialUse{File: true}}}
	want.Resources.Pids, want.Resources.CPU = 1000, 250
	want.Environment = []string{}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if !reflect.DeepEqual(base, full()) {
		t.Error("the base was changed")
	}
	if got, err = DecodeEnvelope([]byte(`{}`), full()); err != nil || !reflect.DeepEqual(got, full()) {
		t.Errorf("an empty document is not the base: %v", err)
	}
	spoil(reflect.ValueOf(&got))
	if !reflect.DeepEqual(base, full()) {
		t.Error("the result shares memory with the base")
	}
}

func TestDecodeKeepsNothingOfTheData(t *testing.T) {
	data := []byte(`{"tool":"abc","argv":["one"],"env":{"KEY":"value"},"stdin":"aGVsbG8=","inputs":[{"name":"f","data":"aGk="}]}`)
	got, err := DecodeCall(data)
	if err != nil {
		t.Fatal(err)
	}
	clear(data)
	want := Call{Tool: "abc", Argv: []string{"one"}, Env: map[string]string{"KEY": "value"}, Stdin: Data("hello"), Inputs: []File{{Name: "f", Data: Data("hi")}}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v", got)
	}
}

// A word whose value is a small number is no byte.
func TestDecodeNeeds(t *testing.T) {
	c, err := DecodeCall([]byte(`{"argv":["ls"],"needs":["shell","tenant-secrets"]}`))
	if err != nil || !slices.Equal(c.Needs, []Need{NeedShell, NeedTenantSecrets}) {
		t.Errorf("%v, %v", c.Needs, err)
	}
}

func TestDecodeOtherTypes(t *testing.T) {
	type inner struct{ A, B int }
	type document struct {
		inner
		Any    any               `json:"any"`
		Raw    json.RawMessage   `json:"raw,omitempty"`
		Ptr    *inner            `json:"ptr,omitempty"`
		List   []inner           `json:"list"`
		Opt    []string          `json:"opt,omitempty"`
		Map    map[string]*inner `json:"map"`
		Float  float64           `json:"float"`
		Bytes  []byte            `json:"bytes,omitempty"`
		Nested struct {
			List []int `json:"list"`
		} `json:"nested"`
		Not    string `json:"-"`
		hidden string
	}
	into := document{Ptr: &inner{A: 1, B: 2}, Opt: []string{"old"}, Not: "kept", hidden: "kept"}
	doc := `{"A":1,"any":{"n":12345678901234567890,"null":null,"l":[1,null,true]},"raw":{"x":null},"ptr":{"B":3},"opt":[],"map":{"k":{"A":4}},"float":1.5,"bytes":"aGk="}`
	if err := Decode([]byte(doc), 1<<10, &into); err != nil {
		t.Fatal(err)
	}
	want := document{inner: inner{A: 1}, Raw: json.RawMessage(`{"x":null}`), Ptr: &inner{B: 3}, List: []inner{}, Map: map[string]*inner{"k": {A: 4}},
		Float: 1.5, Bytes: []byte("hi"), Not: "kept", hidden: "kept"}
	want.Any = map[string]any{"n": json.Number("12345678901234567890"), "null": nil, "l": []any{json.Number("1"), nil, true}}
	want.Nested.List = []int{}
	if !reflect.DeepEqual(into, want) {
		t.Errorf("got  %#v\nwant %#v", into, want)
	}
	for _, doc := range []string{`{"Not":"x"}`, `{"hidden":"x"}`, `{"inner":{}}`, `{"any":{"a":1,"a":2}}`, `{"raw":{"a":"\ud800"}}`, `{"float":"1.5"}`, `{"bytes":"!"}`, `{"map":{"k":null}}`} {
		before := into
		if err := Decode([]byte(doc), 1<<10, &into); err == nil || !reflect.DeepEqual(into, before) {
			t.Errorf("%s: taken, or the destination changed", doc)
		}
	}
}

// loose is a text type that takes any text, digits as well.
type loose string

func (l *loose) UnmarshalText(b []byte) error { *l = loose(b); return nil }

func TestDecodeTextIsAString(t *testing.T) {
	for _, doc := range []string{`5`, `true`, `[]`, `{}`, `null`} {
		l := loose("before")
		if err := Decode([]byte(doc), 10, &l); err == nil || l != "before" {
			t.Errorf("%s: %q, %v", doc, l, err)
		}
	}
	var l loose
	if err := Decode([]byte(`"5"`), 10, &l); err != nil || l != "5" {
		t.Errorf("%q, %v", l, err)
	}
}

func TestDecodeIntoWhat(t *testing.T) {
	var e *Envelope
	for _, into := range []any{nil, Envelope{}, e} {
		var invalid *json.InvalidUnmarshalError
		if err := Decode([]byte(`{}`), 10, into); !errors.As(err, &invalid) {
			t.Errorf("%T: %v", into, err)
		}
	}
	var c chan int
	if err := Decode([]byte(`1`), 10, &c); err == nil {
		t.Error("a channel was decoded")
	}
	var anything any = "before"
	if err := Decode([]byte(`null`), 10, &anything); err != nil || anything != nil {
		t.Errorf("%v, %v", anything, err)
	}
}

func TestDecodeCaps(t *testing.T) {
	var anything any
	small := `{"a":"` + strings.Repeat("x", 100) + `"}`
	if err := Decode([]byte(small), int64(len(small)), &anything); err != nil {
		t.Error(err)
	}
	badDocument{msg: "108 bytes are too many: at most 107", hint: "less"}.check(t, Decode([]byte(small), 107, &anything))
	deep := strings.Repeat("[", maxDepth) + strings.Repeat("]", maxDepth)
	if err := Decode([]byte(deep), 1<<20, &anything); err != nil {
		t.Error(err)
	}
	err := Decode([]byte("["+deep+"]"), 1<<20, &anything)
	if err == nil || !strings.Contains(err.Error(), "nested deeper than 64") {
		t.Error(err)
	}
	many := `{"inputs":[{}` + strings.Repeat(",{}", maxValues) + `]}`
	_, err = DecodeCall([]byte(many))
	if err == nil || !strings.Contains(err.Error(), "more than 262144 values") {
		t.Error(err)
	}
	_, err = DecodeCall([]byte(fmt.Sprintf(`{"tool":%q}`, strings.Repeat("x", int(MaxCallJSON)))))
	if err == nil || !strings.Contains(err.Error(), "too many") {
		t.Error(err)
	}
}

func TestNearest(t *testing.T) {
	known := []string{"scratch", "inodes", "outputs", "mounts", "cpuTime", "wall"}
	for word, want := range map[string]string{
		"scrtach": "scratch", "SCRATCH": "scratch", "mount": "mounts", "out": "outputs", "cpu-time": "cpuTime", "wal": "wall", "walll": "wall",
		"": "", "x": "", "network": "", "zzzzzzz": "", strings.Repeat("m", 5000): "",
	} {
		if got := nearest(word, known); got != want {
			t.Errorf("%q: %q, want %q", word, got, want)
		}
	}
}
