package audit_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/audit"
	"github.com/callcell/callcell/internal/store/storetest"
	"github.com/callcell/callcell/internal/testing/leak"
)

const canary = "s3cr3t-canary"

// secretCall is a call whose secret stands wherever a text can.
func secretCall(id string) (audit.Intent, *envelope.Call) {
	in := intent(id)
	call := &envelope.Call{Tool: "sh", Argv: []string{"curl", "-H", "Bearer " + canary}, Env: map[string]string{"TOKEN": canary},
		Inputs: []envelope.File{{Name: "in-" + canary, Data: []byte(canary)}}, Outputs: []string{"out-" + canary}, Stdin: []byte(canary)}
	in.Call, in.Hold = call, true
	said := *call
	said.Argv = []string{"curl", "-H", "Bearer [redacted:gh]"}
	said.Inputs = []envelope.File{{Name: "in-[redacted:gh]", Data: []byte(canary)}}
	said.Outputs = []string{"out-[redacted:gh]"}
	return in, &said
}

func raw(m *storetest.Memory) string {
	var all strings.Builder
	for _, s := range events(m) {
		all.Write(s.Body)
	}
	return all.String()
}

// TestHeldArguments come with the ending, whichever it is, and no secret with
// them.
func TestHeldArguments(t *testing.T) {
	for _, mode := range []audit.ArgumentMode{audit.ArgumentsKept, audit.ArgumentsDigested, audit.ArgumentsDropped} {
		m := new(storetest.Memory)
		l := newLog(t, m, audit.Options{Clock: newClock(), Arguments: mode})
		ran, said := secretCall(l.NewID())
		if err := l.Intend(t.Context(), ran); err != nil {
			t.Fatal(err)
		}
		e := completed(ran.ID)
		e.Said = said
		e.Warnings = []string{"it said " + canary}
		e.Redact = func(s string) string { return strings.ReplaceAll(s, canary, "***") }
		if _, err := l.Complete(t.Context(), e); err != nil {
			t.Fatal(err)
		}
		failed, said := secretCall(l.NewID())
		if err := l.Intend(t.Context(), failed); err != nil {
			t.Fatal(err)
		}
		if _, err := l.Refuse(t.Context(), audit.Refused{Intent: failed, Said: said, Refusal: envelope.Refusal{Reason: envelope.ReasonSetup, Message: "no"}}); err != nil {
			t.Fatal(err)
		}
		never, _ := secretCall(l.NewID())
		if _, err := l.Refuse(t.Context(), audit.Refused{Intent: never, Refusal: envelope.Refusal{Reason: envelope.ReasonPolicy, Message: "no"}}); err != nil {
			t.Fatal(err)
		}
		if text := raw(m); strings.Contains(text, canary) {
			t.Errorf("%s: a secret in %s", mode, text)
		}
		first, second, third := row(t, l, ran.ID), row(t, l, failed.ID), row(t, l, never.ID)
		if mode == audit.ArgumentsDropped {
			if first.Intent.Arguments.Mode != "dropped" || first.Ending.Arguments != nil || second.Refused.Arguments != nil {
				t.Errorf("dropped: %+v %+v", first.Intent.Arguments, first.Ending.Arguments)
			}
			continue
		}
		held := first.Intent.Arguments
		if held.Mode != "held" || held.SHA256 == "" || held.Counts.Argv != 3 || held.Argv != nil || held.Inputs != nil {
			t.Errorf("%s: intent has %+v", mode, held)
		}
		for _, a := range []*audit.Arguments{first.Ending.Arguments, second.Refused.Arguments} {
			if a == nil || a.Mode != mode.String() || a.SHA256 != "" || a.Outputs[0] != "out-[redacted:gh]" || len(a.Env) != 1 || a.Stdin.Bytes != int64(len(canary)) {
				t.Fatalf("%s: the ending has %+v", mode, a)
			}
			if kept := mode == audit.ArgumentsKept; kept != slices.Equal(a.Argv, said.Argv) {
				t.Errorf("%s: argv %q", mode, a.Argv)
			}
		}
		if a := third.Refused.Arguments; a.Mode != "held" || a.Argv != nil {
			t.Errorf("refused before its intent: %+v", a)
		}
		if rep := verify(t, l); !rep.Intact() {
			t.Errorf("%+v", rep)
		}
	}
}

// TestRefusalRefersToItsIntent instead of saying all of it again.
func TestRefusalRefersToItsIntent(t *testing.T) {
	m := new(storetest.Memory)
	l := newLog(t, m, audit.Options{Clock: newClock()})
	intend(t, l, l.NewID())
	in := intent(l.NewID())
	in.Why = []string{strings.Repeat("why ", 1000)}
	if err := l.Intend(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Refuse(t.Context(), audit.Refused{Intent: in, Refusal: envelope.Refusal{Reason: envelope.ReasonCapacity, Message: "full"}}); err != nil {
		t.Fatal(err)
	}
	list := events(m)
	if size := len(list[2].Body); size > 200 {
		t.Errorf("the refusal has %d bytes: %s", size, list[2].Body)
	}
	r := row(t, l, in.ID)
	if r.Refused.After != 2 || r.Task != "task" || r.Intent.Why[0] != in.Why[0] || r.Reason != envelope.ReasonCapacity {
		t.Errorf("%+v", r)
	}
	if rep := verify(t, l); !rep.Intact() {
		t.Errorf("%+v", rep)
	}
}

// TestIdleDaemonCompletesTheDead: it was started before the lease of the one
// that died had run out, and nobody calls it.
func TestIdleDaemonCompletesTheDead(t *testing.T) {
	leak.Check(t)
	m, c := new(storetest.Memory), &ticking{newClock(), make(chan time.Time)}
	dead := newLog(t, m, audit.Options{Clock: c.clock})
	id := dead.NewID()
	intend(t, dead, id)
	daemon := newLog(t, m, audit.Options{Clock: c})
	if lost, err := daemon.Recover(t.Context()); err != nil || len(lost) != 0 {
		t.Fatal(lost, err)
	}
	if err := daemon.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.move(audit.DefaultTTL)
	c.c <- c.Now()
	c.c <- c.Now() // the first has been dealt with
	if r := row(t, daemon, id); r.Outcome != envelope.OutcomeLost {
		t.Errorf("%+v", r)
	}
	if err := daemon.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := daemon.Start(t.Context()); !errors.Is(err, audit.ErrClosed) {
		t.Errorf("closed: %v", err)
	}
	dead.Close(t.Context())
}

// TestClockSetBack: what a process that died has left is completed after a
// lease, though by the clock it would be alive for a day; who lives stays so.
func TestClockSetBack(t *testing.T) {
	m, c := new(storetest.Memory), newClock()
	dead, alive := newLog(t, m, audit.Options{Clock: c}), newLog(t, m, audit.Options{Clock: c})
	left, running := dead.NewID(), alive.NewID()
	intend(t, dead, left)
	intend(t, alive, running)
	c.move(-24 * time.Hour)
	lost := func(want ...string) {
		t.Helper()
		if got, err := alive.Recover(t.Context()); err != nil || !slices.Equal(got, want) {
			t.Fatalf("lost %q, %v; want %q", got, err, want)
		}
	}
	lost() // both leases are cut to their length
	again := alive.NewID()
	intend(t, alive, again) // which the living one renews with its work
	c.move(audit.DefaultTTL / 2)
	intend(t, alive, alive.NewID())
	c.move(audit.DefaultTTL / 2)
	lost(left)
	complete(t, alive, running)
	complete(t, alive, again)
	if _, err := dead.Complete(t.Context(), completed(left)); !errors.Is(err, audit.ErrFenced) {
		t.Errorf("the dead one: %v", err)
	}
	if rep := verify(t, alive); !rep.Intact() || rep.Open != 1 {
		t.Errorf("%+v", rep)
	}
}
