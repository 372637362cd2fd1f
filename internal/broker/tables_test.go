package broker

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/cell"
)

func TestOutcomeOf(t *testing.T) {
	met := func(o envelope.Outcome) []envelope.Event { return []envelope.Event{{Kind: o.String(), Count: 1}} }
	for _, c := range []struct {
		exit cell.Exit
		want envelope.Outcome
	}{
		{cell.Exit{}, envelope.OutcomeCompleted},
		{cell.Exit{Code: 137}, envelope.OutcomeCompleted},
		{cell.Exit{Signal: 9}, envelope.OutcomeSignalled},
		{cell.Exit{Signal: 9, Cause: cell.CauseWall}, envelope.OutcomeWallTime},
		{cell.Exit{Signal: 15, Cause: cell.CauseWall}, envelope.OutcomeWallTime},
		{cell.Exit{Code: 0, Cause: cell.CauseWall}, envelope.OutcomeWallTime}, // TERM was heeded
		{cell.Exit{Signal: 9, Cause: cell.CauseCPU}, envelope.OutcomeCPUTime},
		{cell.Exit{Signal: 9, Cause: cell.CauseMemory}, envelope.OutcomeMemory},
		{cell.Exit{Signal: 9, Cause: cell.CauseOutput}, envelope.OutcomeOutput},
		{cell.Exit{Signal: 9, Cause: cell.CauseCancel}, envelope.OutcomeCancelled},
		{cell.Exit{Signal: 9, Cause: "new word"}, envelope.OutcomeBroken},
		{cell.Exit{Signal: 24}, envelope.OutcomeCPUTime},
		{cell.Exit{Signal: 25}, envelope.OutcomeFileSize},
		{cell.Exit{Signal: 25, Cause: cell.CauseCancel}, envelope.OutcomeCancelled},
		{cell.Exit{Signal: 9, Events: met(envelope.OutcomeMemory)}, envelope.OutcomeMemory},
		{cell.Exit{Signal: 11, Events: met(envelope.OutcomeMemory)}, envelope.OutcomeSignalled},
		{cell.Exit{Code: 1, Events: met(envelope.OutcomeMemory)}, envelope.OutcomeCompleted}, // a child was killed, the program lived
		{cell.Exit{Code: 1, Events: met(envelope.OutcomeDisk)}, envelope.OutcomeCompleted},
		{cell.Exit{Signal: 7, Events: met(envelope.OutcomeDisk)}, envelope.OutcomeDisk},
		{cell.Exit{Signal: 7}, envelope.OutcomeSignalled},
		{cell.Exit{Code: 2, Events: met(envelope.OutcomeProcesses)}, envelope.OutcomeCompleted},
		{cell.Exit{Signal: 9, Events: []envelope.Event{{Kind: "memory", Count: 0}}}, envelope.OutcomeSignalled},
	} {
		if got := outcomeOf(c.exit); got != c.want {
			t.Errorf("%+v: %s, want %s", c.exit, got, c.want)
		}
	}
}

func TestEventsHaveWhatEndedTheCall(t *testing.T) {
	given := []envelope.Event{{Kind: "disk", Count: 2, Source: "guest"}}
	got := eventsOf(cell.Exit{Events: given}, envelope.OutcomeWallTime)
	if len(got) != 2 || got[0] != given[0] || got[1] != (envelope.Event{Kind: "wall_time", Count: 1, Source: "host"}) {
		t.Errorf("got %+v", got)
	}
	if got := eventsOf(cell.Exit{Events: given}, envelope.OutcomeDisk); !slices.Equal(got, given) {
		t.Errorf("got %+v, want nothing added", got)
	}
}

func TestSignalNames(t *testing.T) {
	for n, want := range map[int]string{0: "", 9: "SIGKILL", 15: "SIGTERM", 31: "SIGSYS", 34: "SIG34", -1: "SIG-1"} {
		if got := signalName(n); got != want {
			t.Errorf("%d is %q, want %q", n, got, want)
		}
	}
}

func file(name string, size int) envelope.File {
	return envelope.File{Name: name, Data: make([]byte, size)}
}

// TestSift: what a cell hands out is held to what was asked, whoever wrote it.
func TestSift(t *testing.T) {
	caps := envelope.OutputCaps{Count: 3, Bytes: 100}
	for _, c := range []struct {
		name  string
		asked []string
		files []envelope.File
		miss  []envelope.Miss
		want  string
	}{
		{"as asked", []string{"a", "d/"}, []envelope.File{file("a", 1), file("d/b", 1), file("d/e/f", 1)}, nil, "a d/b d/e/f"},
		{"not asked for", []string{"a", "d/"}, []envelope.File{file("b", 1), file("d", 1), file("dx", 1), file("a", 1)}, nil, "a b! d! dx!"},
		{"names that climb", []string{"a", "d/"}, []envelope.File{file("d/../../x", 1), file("/a", 1), file("d/\x1b[2J", 1), file("a", 1)}, nil,
			`a "d/../../x"! "/a"! "d/\x1b[2J"!`},
		{"twice", []string{"a"}, []envelope.File{file("a", 1), file("a", 2)}, nil, "a a!"},
		{"too many", []string{"d/"}, []envelope.File{file("d/1", 1), file("d/2", 1), file("d/3", 1), file("d/4", 1)}, nil, "d/1 d/2 d/3 d/4!"},
		{"too large", []string{"a", "b"}, []envelope.File{file("a", 60), file("b", 41)}, nil, "a b!"},
		{"misses are handed on", []string{"a", "d/"}, nil, []envelope.Miss{{Name: "a", Why: "link"}, {Name: "d/", Why: "gone"}}, "a! d/!"},
		{"hostile names of misses", []string{"a"}, nil, []envelope.Miss{{Name: "a", Why: "x"}, {Name: "\u202e" + strings.Repeat("x", 500), Why: "x"}},
			`a! "\u202e` + strings.Repeat("x", 61) + `"!`},
		{"not answered", []string{"a", "b", "d/"}, []envelope.File{file("b", 1)}, nil, "b a!"},
	} {
		files, misses, _ := sift(c.asked, caps, c.files, c.miss)
		var got []string
		for _, f := range files {
			got = append(got, f.Name)
		}
		for _, m := range misses {
			got = append(got, m.Name+"!")
		}
		if text := strings.Join(got, " "); text != c.want {
			t.Errorf("%s: %s, want %s", c.name, text, c.want)
		}
	}
}

func TestMissesAreBounded(t *testing.T) {
	var misses []envelope.Miss
	for i := range 10_000 {
		misses = append(misses, envelope.Miss{Name: fmt.Sprintf("d/%d", i), Why: "not a regular file"})
	}
	_, got, _ := sift([]string{"d/"}, envelope.OutputCaps{}, nil, misses)
	if len(got) != maxMisses+1 || got[maxMisses].Why != "and 9744 more" {
		t.Errorf("%d misses, the last is %+v", len(got), got[len(got)-1])
	}
}
