package cli

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/callcell/callcell/envelope"
)

// TestExitOf holds the statuses to their table: each reason and each outcome
// has one.
func TestExitOf(t *testing.T) {
	refusals := map[envelope.Reason]int{
		envelope.ReasonRequest: 121, envelope.ReasonPermission: 121, envelope.ReasonPolicy: 121,
		envelope.ReasonIsolation: 122, envelope.ReasonUnsupported: 122, envelope.ReasonSetup: 122,
		envelope.ReasonRate: 123, envelope.ReasonBudget: 123, envelope.ReasonCapacity: 123,
	}
	for reason := envelope.ReasonRequest; reason.Valid(); reason++ {
		r := &envelope.Result{Refusal: &envelope.Refusal{Reason: reason}}
		if got := exitOf(r, false); got != refusals[reason] {
			t.Errorf("%s: %d, want %d", reason, got, refusals[reason])
		}
	}
	outcomes := map[envelope.Outcome]int{
		envelope.OutcomeCompleted: 7, envelope.OutcomeSignalled: 143, envelope.OutcomeWallTime: 124, envelope.OutcomeCPUTime: 137,
		envelope.OutcomeMemory: 137, envelope.OutcomeProcesses: 137, envelope.OutcomeOutput: 137, envelope.OutcomeFileSize: 137,
		envelope.OutcomeDisk: 137, envelope.OutcomeCancelled: 130, envelope.OutcomeBroken: 125, envelope.OutcomeLost: 125,
	}
	for outcome := envelope.OutcomeCompleted; outcome.Valid(); outcome++ {
		r := &envelope.Result{Outcome: outcome, Exit: envelope.Exit{Code: 7, Signal: "SIGTERM"}}
		if got := exitOf(r, false); got != outcomes[outcome] {
			t.Errorf("%s: %d, want %d", outcome, got, outcomes[outcome])
		}
	}
	setup := &envelope.Result{Refusal: &envelope.Refusal{Reason: envelope.ReasonSetup}}
	if got := exitOf(setup, true); got != 130 {
		t.Errorf("cancelled before it started: %d, want 130", got)
	}
}

func TestSignalNumber(t *testing.T) {
	for name, want := range map[string]int{"SIGKILL": 9, "SIGSYS": 31, "SIG34": 34, "SIG64": 64, "": 0, "SIG": 0, "SIG999": 0, "SIG-1": 0} {
		if got := signalNumber(name); got != want {
			t.Errorf("%q: %d, want %d", name, got, want)
		}
	}
}

// TestGlance holds what is told before the flags are read against command
// lines that could mislead it.
func TestGlance(t *testing.T) {
	for line, want := range map[string]struct {
		path string
		run  bool
	}{
		"":                                {"", false},
		"run":                             {"", true},
		"run x --trust reviewed":          {"", true},
		"--config /c.yaml run":            {"/c.yaml", true},
		"--config=/c.yaml run":            {"/c.yaml", true},
		"run --config /c.yaml":            {"/c.yaml", true},
		"run --config":                    {"", true},
		"run --help":                      {"", false},
		"run -h":                          {"", false},
		"--config run levels":             {"", false},
		"audit list --tool run":           {"", false},
		"explain run":                     {"", false},
		"run --config=/a --config=/b.yml": {"/b.yml", true},
	} {
		path, run := glance(strings.Fields(line))
		if run != want.run || run && path != want.path {
			t.Errorf("%q: %q, %v, want %q, %v", line, path, run, want.path, want.run)
		}
	}
}

// TestCut holds what is ours and what is the program's apart.
func TestCut(t *testing.T) {
	for line, want := range map[string][2]string{
		"run x":               {"run x", ""},
		"run --":              {"run", ""},
		"run -- a --b -- c":   {"run", "a --b -- c"},
		"run --lang python f": {"run --lang python f", ""},
	} {
		a := &app{}
		got := strings.Join(a.cut(strings.Fields(line)), " ")
		if got != want[0] || strings.Join(a.command, " ") != want[1] {
			t.Errorf("%q: %q and %q, want %q", line, got, a.command, want)
		}
	}
}

// FuzzEscapeHidden: a value that is printed is the same value, and has nothing
// in it that a reader does not see.
func FuzzEscapeHidden(f *testing.F) {
	for _, seed := range []string{"", "plain", "\x1b[31m", "\u202e", "é", "e\u0301", "\U000e0041", "👩\u200d💻", "\x7f\u0085\u2028", "\xff\xfe", "<a&b>"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var out bytes.Buffer
		p := printer{out: &out}
		if err := p.json(map[string]string{"k": text}, false); err != nil {
			t.Fatal(err)
		}
		for _, r := range strings.TrimSuffix(out.String(), "\n") {
			if r < ' ' || r >= 0x7f && !shown(r) {
				t.Fatalf("%q is in %q", r, out.String())
			}
		}
		var got map[string]string
		if err := json.Unmarshal(out.Bytes(), &got); err != nil {
			t.Fatalf("%q: %v", out.String(), err)
		}
		if want := map[string]string{"k": strings.ToValidUTF8(text, "\ufffd")}; utf8.ValidString(text) && !reflect.DeepEqual(got, want) {
			t.Fatalf("%q became %q", text, got["k"])
		}
	})
}
