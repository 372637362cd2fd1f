package audit_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/audit"
	"github.com/callcell/callcell/internal/store/storetest"
	"github.com/callcell/callcell/internal/testing/leak"
)

func TestRowOfACallThatRan(t *testing.T) {
	leak.Check(t)
	c := newClock()
	l := newLog(t, new(storetest.Memory), audit.Options{Clock: c})
	id := l.NewID()
	intend(t, l, id)
	if r := row(t, l, id); !r.Open() || r.Intent == nil || r.Ending != nil || r.Receipt != nil {
		t.Fatalf("an open call: %+v", r)
	}
	c.move(time.Second)
	receipt, err := l.Complete(t.Context(), audit.EndingOf(&envelope.Result{
		ID: id, Outcome: envelope.OutcomeMemory,
		Exit:     envelope.Exit{Code: -1, Signal: "SIGKILL", Cause: "memory", Source: "host"},
		Stdout:   envelope.Stream{Head: []byte("he"), Tail: []byte("llo"), Total: 99, Truncated: true},
		Outputs:  []envelope.File{{Name: "a.txt", Data: []byte("hello")}},
		Missing:  []envelope.Miss{{Name: "b", Why: "not there"}},
		Events:   []envelope.Event{{Kind: "memory", Count: 1, Source: "host"}},
		Teardown: &envelope.Report{Complete: true, Checks: []envelope.Check{{What: "processes", Gone: true}}},
	}))
	if err != nil {
		t.Fatal(err)
	}
	r := row(t, l, id[:20])
	const hello = "sha256:2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"
	want := audit.Output{Total: 99, Kept: 5, Truncated: true, SHA256: hello}
	switch {
	case r.ID != id || r.Task != "task" || r.Caller != "local" || r.Tool != "sh" || r.Level != envelope.LevelContainer:
		t.Errorf("names: %+v", r)
	case r.Outcome != envelope.OutcomeMemory || r.Open() || *r.Receipt != receipt || r.Ended.Sub(r.Started) != time.Second:
		t.Errorf("ending: %+v", r)
	case r.Ending.Stdout != want || r.Ending.Stderr != (audit.Output{}):
		t.Errorf("output: %+v", r.Ending)
	case !slices.Equal(r.Ending.Outputs, []audit.Blob{{Name: "a.txt", Bytes: 5, SHA256: hello}}) || len(r.Ending.Missing) != 1:
		t.Errorf("files: %+v", r.Ending)
	case r.Ending.Teardown == nil || !r.Ending.Teardown.Complete || len(r.Ending.Events) != 1:
		t.Errorf("teardown and events: %+v", r.Ending)
	case r.Intent.Profile != "small" || r.Intent.Image != "host" || len(r.Intent.Envelope) == 0 || len(r.Intent.Why) != 1:
		t.Errorf("intent: %+v", r.Intent)
	}
	if rep := verify(t, l, receipt); !rep.Intact() || rep.Events != 2 || rep.Calls != 1 || rep.Open != 0 || rep.ProvenTo != 2 {
		t.Errorf("verify: %+v", rep)
	}
}

func TestRowOfARefusal(t *testing.T) {
	l := newLog(t, new(storetest.Memory), audit.Options{Clock: newClock()})
	before, after := l.NewID(), l.NewID()
	ref := refused(before, envelope.ReasonPolicy)
	ref.Call = &envelope.Call{Task: "task", Tool: "sh\x00\xff", Argv: []string{"x"}, Inputs: []envelope.File{{Name: "f", Data: []byte("abc")}}}
	ref.Refusal.Field, ref.Refusal.Hint = "network.allow", "ask the operator"
	receipt, err := l.Refuse(t.Context(), ref)
	if err != nil || receipt.Seq != 1 {
		t.Fatalf("%+v, %v", receipt, err)
	}
	r := row(t, l, before)
	if r.Reason != envelope.ReasonPolicy || r.Intent != nil || r.Task != "task" || r.Tool != "sh\uFFFD\uFFFD" || r.Refused.Refusal != ref.Refusal {
		t.Errorf("refusal before an intent: %+v", r)
	}
	if in := r.Refused.Arguments.Inputs; len(in) != 1 || in[0] != (audit.Blob{Name: "f", Bytes: 3}) {
		t.Errorf("inputs of a refused call: %+v, want no digest", in)
	}
	intend(t, l, after)
	if _, err := l.Refuse(t.Context(), refused(after, envelope.ReasonSetup)); err != nil {
		t.Fatal(err)
	}
	if r := row(t, l, after); r.Reason != envelope.ReasonSetup || r.Intent == nil || r.Task != "task" || r.Outcome.Valid() {
		t.Errorf("refusal after an intent: %+v", r)
	}
	if rep := verify(t, l, receipt); !rep.Intact() || rep.Calls != 2 || rep.ProvenTo != 1 || rep.Tail != "tail unproven after 1" {
		t.Errorf("verify: %+v", rep)
	}
}

func TestOneIntentOneEnding(t *testing.T) {
	m := new(storetest.Memory)
	l := newLog(t, m, audit.Options{Clock: newClock()})
	id := l.NewID()
	if _, err := l.Complete(t.Context(), completed(id)); !errors.Is(err, audit.ErrNoIntent) {
		t.Errorf("an ending without intent: %v", err)
	}
	intend(t, l, id)
	if err := l.Intend(t.Context(), intent(id)); !errors.Is(err, audit.ErrExists) {
		t.Errorf("a second intent: %v", err)
	}
	if err := newLog(t, m, audit.Options{}).Intend(t.Context(), intent(id)); !errors.Is(err, audit.ErrExists) {
		t.Errorf("a second intent, of another process: %v", err)
	}
	complete(t, l, id)
	if _, err := l.Complete(t.Context(), completed(id)); !errors.Is(err, audit.ErrEnded) {
		t.Errorf("a second ending: %v", err)
	}
	if _, err := l.Refuse(t.Context(), refused(id, envelope.ReasonSetup)); !errors.Is(err, audit.ErrEnded) {
		t.Errorf("a refusal after the ending: %v", err)
	}
	alone := l.NewID()
	if _, err := l.Refuse(t.Context(), refused(alone, envelope.ReasonRate)); err != nil {
		t.Fatal(err)
	}
	if err := l.Intend(t.Context(), intent(alone)); !errors.Is(err, audit.ErrExists) {
		t.Errorf("an intent after the refusal: %v", err)
	}
	if rep := verify(t, l); !rep.Intact() || rep.Events != 3 {
		t.Errorf("verify: %+v", rep)
	}
}

func TestInvalidArguments(t *testing.T) {
	l := newLog(t, new(storetest.Memory), audit.Options{Clock: newClock()})
	for name, change := range map[string]func(*audit.Intent){
		"no id":       func(in *audit.Intent) { in.ID = "" },
		"other id":    func(in *audit.Intent) { in.ID = "../../x" },
		"no call":     func(in *audit.Intent) { in.Call = nil },
		"no envelope": func(in *audit.Intent) { in.Envelope = nil },
		"no level":    func(in *audit.Intent) { in.Level = 0 },
		"auto":        func(in *audit.Intent) { in.Level = envelope.LevelAuto },
		"long task":   func(in *audit.Intent) { in.Call.Task = strings.Repeat("x", 1025) },
		"NUL in tool": func(in *audit.Intent) { in.Call.Tool = "a\x00" },
		"bad caller":  func(in *audit.Intent) { in.Caller = "\xff" },
		"bad level":   func(in *audit.Intent) { in.Envelope.Level = 0 },
	} {
		in := intent(l.NewID())
		change(&in)
		if err := l.Intend(t.Context(), in); !errors.Is(err, audit.ErrInvalid) {
			t.Errorf("%s: %v, want ErrInvalid", name, err)
		}
	}
	for name, e := range map[string]audit.Ending{
		"no id": completed(""), "no outcome": {ID: l.NewID()}, "lost": {ID: l.NewID(), Outcome: envelope.OutcomeLost},
	} {
		if _, err := l.Complete(t.Context(), e); !errors.Is(err, audit.ErrInvalid) {
			t.Errorf("%s: %v, want ErrInvalid", name, err)
		}
	}
	if _, err := l.Refuse(t.Context(), refused(l.NewID(), 0)); !errors.Is(err, audit.ErrInvalid) {
		t.Errorf("no reason: %v, want ErrInvalid", err)
	}
	for name, o := range map[string]audit.Options{
		"long chain": {Chain: strings.Repeat("x", 129)}, "short lease": {TTL: time.Millisecond},
		"mode": {Arguments: 9}, "keep": {Keep: audit.MaxKeep + 1}, "negative keep": {Keep: -1},
	} {
		if _, err := audit.New(new(storetest.Memory), o); !errors.Is(err, audit.ErrInvalid) {
			t.Errorf("%s: %v, want ErrInvalid", name, err)
		}
	}
}

func TestArgumentModes(t *testing.T) {
	secret := "CANARY-c0ffee"
	call := &envelope.Call{
		Task: "t", Argv: []string{"curl", "-H", "Authorization: " + secret}, Env: map[string]string{"B": "x", "TOKEN": secret},
		Stdin: []byte("in"), Inputs: []envelope.File{{Name: "f", Data: []byte("abc")}}, Outputs: []string{"out/"},
	}
	for _, mode := range []audit.ArgumentMode{audit.ArgumentsKept, audit.ArgumentsDigested, audit.ArgumentsDropped} {
		l := newLog(t, new(storetest.Memory), audit.Options{
			Clock: newClock(), Arguments: mode,
			Redact: func(s string) string { return strings.ReplaceAll(s, secret, "[redacted]") },
		})
		in := intent(l.NewID())
		in.Call = call
		if err := l.Intend(t.Context(), in); err != nil {
			t.Fatal(err)
		}
		r := row(t, l, in.ID)
		text, err := json.Marshal(r)
		if err != nil || strings.Contains(string(text), secret) {
			t.Errorf("%v: the secret is in the row (%v): %s", mode, err, text)
		}
		a := r.Intent.Arguments
		named := a.SHA256 != "" && len(a.Env) == 2 && a.Env[1].Name == "TOKEN" && a.Env[1].Bytes == 13 &&
			a.Stdin.Bytes == 2 && a.Inputs[0].SHA256 != "" && slices.Equal(a.Outputs, []string{"out/"})
		kept := slices.Equal(a.Argv, []string{"curl", "-H", "Authorization: [redacted]"})
		sums := a.Counts != nil && *a.Counts == audit.ArgumentSums{Argv: 3, Env: 2, Inputs: 1, Outputs: 1, InputBytes: 3}
		if a.Mode != mode.String() || kept != (mode == audit.ArgumentsKept) || named != (mode != audit.ArgumentsDropped) || sums != (mode == audit.ArgumentsDropped) {
			t.Errorf("%v: %+v", mode, a)
		}
	}
}

// TestGoldenDigests pins the digests of arguments, computed by another program.
func TestGoldenDigests(t *testing.T) {
	l := newLog(t, new(storetest.Memory), audit.Options{Clock: newClock()})
	in := intent(callA)
	in.Call.Env = map[string]string{"TOKEN": "value"}
	if err := l.Intend(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	a := row(t, l, callA).Intent.Arguments
	if want := "sha256:74f56a8001658a332a2795b6f5beb98594da95bc2d4c6b4846af5beec76a403d"; a.SHA256 != want {
		t.Errorf("argv: %s, want %s", a.SHA256, want)
	}
	if want := "sha256:68d4e832b61dbbde70c4f392ca875aa501d145d16a8fd6e3a3aaa970b7511a8c"; a.Env[0].SHA256 != want {
		t.Errorf("env: %s, want %s", a.Env[0].SHA256, want)
	}
	in = intent(l.NewID())
	in.Call.Argv, in.Call.Script = nil, &envelope.Script{Lang: "python", Code: "print(1)"}
	if err := l.Intend(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	a = row(t, l, in.ID).Intent.Arguments
	if want := "sha256:dce894129b694fef4c0117fa5203801b01e8ebaaca1b3ca84d82f28635a4ab0f"; a.SHA256 != want || a.Code != "print(1)" {
		t.Errorf("script: %+v, want %s", a, want)
	}
}

func TestKeptArgumentsAreCapped(t *testing.T) {
	l := newLog(t, new(storetest.Memory), audit.Options{Clock: newClock(), Keep: 30})
	for _, c := range []struct {
		argv, kept       []string
		truncated, lossy bool
	}{
		{[]string{"0123456789"}, []string{"0123456789"}, false, false},
		{[]string{"0123456789", "0123456789"}, []string{"0123456789", "0123"}, true, false},
		{[]string{"éééééééééééé"}, []string{"ééééééééééé"}, true, false},
		{[]string{"", "", "", "", "x"}, []string{"", "", ""}, true, false},
		{[]string{"a\xffb"}, []string{"a\uFFFDb"}, false, true},
	} {
		in := intent(l.NewID())
		in.Call.Argv = c.argv
		if err := l.Intend(t.Context(), in); err != nil {
			t.Fatal(err)
		}
		a := row(t, l, in.ID).Intent.Arguments
		if !slices.Equal(a.Argv, c.kept) || a.Truncated != c.truncated || a.Lossy != c.lossy {
			t.Errorf("%q: %+v, want %q", c.argv, a, c.kept)
		}
	}
}

// TestLargeEventsAreCut gives the log more than an event may hold.
func TestLargeEventsAreCut(t *testing.T) {
	l := newLog(t, new(storetest.Memory), audit.Options{Clock: newClock()})
	in := intent(l.NewID())
	in.Call.Argv = []string{strings.Repeat("\x01", 1<<20)}
	for i := range 500 {
		in.Call.Outputs = append(in.Call.Outputs, fmt.Sprintf("%05d%s", i, strings.Repeat("\x02", 300)))
		in.Why = append(in.Why, strings.Repeat("\x03", 5000))
	}
	if err := l.Intend(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	e := completed(in.ID)
	for range 500 {
		e.Outputs = append(e.Outputs, audit.Blob{Name: strings.Repeat("\x04", 4096), SHA256: "sha256:"})
		e.Missing = append(e.Missing, envelope.Miss{Name: strings.Repeat("\x05", 9000), Why: "w"})
	}
	if _, err := l.Complete(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	r := row(t, l, in.ID)
	total := len(r.Intent.Arguments.Outputs)
	for _, c := range r.Intent.Cut {
		if c.List == "arguments.outputs" && c.SHA256 != "" {
			total += c.More
		}
	}
	if total != 500 || len(r.Ending.Cut) != 2 || !r.Intent.Arguments.Truncated {
		t.Errorf("cuts %+v and %+v, %d outputs accounted for", r.Intent.Cut, r.Ending.Cut, total)
	}
	if rep := verify(t, l); !rep.Intact() {
		t.Errorf("verify: %+v", rep)
	}
}

// TestBodiesAreOneLine has a call hold what would start another row in a file
// of rows.
func TestBodiesAreOneLine(t *testing.T) {
	m := new(storetest.Memory)
	l := newLog(t, m, audit.Options{Clock: newClock()})
	in := intent(l.NewID())
	in.Call.Task = "t\n{\"id\":999,\"decision\":\"allow\"}\u2028\u2029\r"
	if err := l.Intend(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	complete(t, l, in.ID)
	m.Tamper(func(s *storetest.State) {
		for _, e := range s.Events {
			if strings.ContainsAny(string(e.Body), "\n\r\u2028\u2029") || !json.Valid(e.Body) {
				t.Errorf("body %q", e.Body)
			}
		}
	})
	if r := row(t, l, in.ID); r.Task != in.Call.Task {
		t.Errorf("task %q, want %q", r.Task, in.Call.Task)
	}
}

func TestClose(t *testing.T) {
	leak.Check(t)
	l := newLog(t, new(storetest.Memory), audit.Options{})
	id := l.NewID()
	intend(t, l, id)
	for range 2 {
		if err := l.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Intend(t.Context(), intent(l.NewID())); !errors.Is(err, audit.ErrClosed) {
		t.Errorf("Intend after Close: %v", err)
	}
	if _, err := l.Complete(t.Context(), completed(id)); !errors.Is(err, audit.ErrClosed) {
		t.Errorf("Complete after Close: %v", err)
	}
	if r := row(t, l, id); !r.Open() {
		t.Errorf("row after Close: %+v", r)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := newLog(t, new(storetest.Memory), audit.Options{}).Intend(ctx, intent(id)); !errors.Is(err, context.Canceled) {
		t.Errorf("Intend with an ended context: %v", err)
	}
}
