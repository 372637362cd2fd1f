package hook

import (
	"encoding/json"
	"errors"
	"os/exec"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

const event = `{"session_id":"abc-123","transcript_path":"/x.jsonl","cwd":"/srv/p/sub","permission_mode":"default","hook_event_name":"PreToolUse",
"tool_name":"Bash","tool_input":{"command":"npm test","timeout":90000,"description":"tests","run_in_background":true,"new":{"a":[1]}},"tool_use_id":"toolu_1"}`

func TestParse(t *testing.T) {
	e, err := Parse([]byte(event))
	if err != nil || e.Session != "abc-123" || e.Dir != "/srv/p/sub" || e.Command != "npm test" || e.Timeout != 90*time.Second {
		t.Errorf("%+v, %v", e, err)
	}
	if e, err := Parse([]byte(`{"hook_event_name":"PreToolUse","tool_name":"Read","tool_input":{"file_path":"/x"}}`)); err != nil || e.Tool != "Read" || e.Command != "" {
		t.Errorf("%+v, %v", e, err)
	}
	if e, err := Parse([]byte(`{"hook_event_name":"PreToolUse","tool_name":"Read","session_id":"../a\n;b","cwd":"relative"}`)); err != nil || e.Session != "ab" || e.Dir != "" {
		t.Errorf("%+v, %v", e, err)
	}
}

// TestWhatIsNotKnownMustNotRun: each is an error, never another tool's event.
func TestWhatIsNotKnownMustNotRun(t *testing.T) {
	shell := func(input string) string {
		return `{"hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":` + input + `}`
	}
	for text, want := range map[string]error{
		"": ErrEvent, "[]": ErrEvent, "{}": ErrEvent, "{\"a\":\"\xff\"}": ErrEvent,
		`{"hook_event_name":"PostToolUse","tool_name":"Bash"}`: ErrEvent,
		`{"hook_event_name":"PreToolUse"}`:                     ErrEvent,
		shell(`"x"`):                                           ErrEvent,
		shell(`{}`):                                            ErrShell,
		shell(`{"command":""}`):                                ErrShell,
		shell(`{"command":null}`):                              ErrShell,
		shell(`{"command":["sh","-c","id"]}`):                  ErrShell,
		shell(`{"command":"a\u0000b"}`):                        ErrShell,
		shell(`{"command":"a","timeout":"1"}`):                 ErrShell,
		shell(`{"command":"a","timeout":-1}`):                  ErrShell,
		shell(`{"command":"a","timeout":1e300}`):               ErrShell,
	} {
		if _, err := Parse([]byte(text)); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", text, err, want)
		}
	}
}

// TestRewriteKeepsTheRest: clients replace the whole input.
func TestRewriteKeepsTheRest(t *testing.T) {
	e, err := Parse([]byte(event))
	if err != nil {
		t.Fatal(err)
	}
	for _, allow := range []bool{false, true} {
		data, err := e.Rewrite("other", allow)
		if err != nil {
			t.Fatal(err)
		}
		var got struct {
			Output map[string]any `json:"hookSpecificOutput"`
		}
		if err := json.Unmarshal(data, &got); err != nil {
			t.Fatal(err)
		}
		want := map[string]any{"hookEventName": "PreToolUse", "updatedInput": map[string]any{"command": "other", "timeout": 90000.,
			"description": "tests", "run_in_background": true, "new": map[string]any{"a": []any{1.}}}}
		if allow {
			want["permissionDecision"] = "allow"
		}
		if !reflect.DeepEqual(got.Output, want) {
			t.Errorf("%s", data)
		}
	}
	data, err := Deny("because\n\u202e\"")
	if err != nil || !strings.Contains(string(data), `"permissionDecision":"deny","permissionDecisionReason":"because\n`) || strings.Count(string(data), "\n") != 1 {
		t.Errorf("%s, %v", data, err)
	}
}

// TestQuoteSurvivesAShell: whatever a model writes, a real shell hands it on as
// it is and runs nothing of it.
func TestQuoteSurvivesAShell(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.OneOf(rapid.SampledFrom([]string{"'", "''", `\`, "$(id)", "`id`", "\n", "!x", "*", "~", "-n", "", "é", "'; id; '", "\x01"}), rapid.String())
		words := rapid.SliceOfN(word, 1, 6).Draw(t, "words")
		for i := range words {
			words[i] = strings.ReplaceAll(words[i], "\x00", "")
		}
		out, err := exec.Command("/bin/sh", "-c", Quote(append([]string{"printf", "%s\\0"}, words...))).Output()
		if err != nil || string(out) != strings.Join(words, "\x00")+"\x00" {
			t.Fatalf("%q became %q, %v", words, out, err)
		}
	})
}

func TestPlace(t *testing.T) {
	for _, c := range [][4]string{
		{"/p", "/p", "/p", "."}, {"/p", "/p/a/b", "/p", "a/b"}, {"/p", "/q", "/p", "."}, {"/p", "/", "/p", "."},
		{"", "/q", "/q", "."}, {"/p", "", "/p", "."}, {"/p", "/p..x", "/p", "."}, {"/p", "/p/..x", "/p", "..x"},
	} {
		if root, below := Place(c[0], c[1]); root != c[2] || below != c[3] {
			t.Errorf("%q: %q, %q", c, root, below)
		}
	}
}

func TestProgramRunsBelow(t *testing.T) {
	argv := Program("/bin/sh", "us r", `echo "$PWD" "$0"`)
	c := exec.Command(argv[0], argv[1:]...)
	c.Dir = t.TempDir()
	if out, err := c.Output(); err != nil || !strings.HasSuffix(string(out), "/us r /bin/sh\n") {
		t.Errorf("%q, %v", out, err)
	}
}

// FuzzParse: whatever comes, an event of the shell has a command or is an
// error, and its answer is one line of JSON that holds a word with the command.
func FuzzParse(f *testing.F) {
	f.Add([]byte(event))
	f.Add([]byte(`{"hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":["x"]}}`))
	f.Add([]byte(`{"hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":"a","command":"b","Command":"c"}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		e, err := Parse(data)
		if err != nil {
			return
		}
		if e.Tool == Shell && e.Command == "" {
			t.Fatalf("%q: a shell without a command", data)
		}
		out, err := e.Rewrite(Quote([]string{"callcell", e.Command}), false)
		if err != nil || !json.Valid(out) || strings.Count(string(out), "\n") != 1 {
			t.Fatalf("%q, %v", out, err)
		}
	})
}
