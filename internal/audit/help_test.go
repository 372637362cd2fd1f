package audit_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/audit"
	"github.com/callcell/callcell/internal/store/storetest"
)

// clock is a Clock that stands still until it is moved. Its tickers tick only
// when told to.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func newClock() *clock { return &clock{now: storetest.Time(0)} }

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) Ticker(time.Duration) (<-chan time.Time, func()) { return nil, func() {} }

func (c *clock) move(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// newLog returns a log that the test closes.
func newLog(t testing.TB, s audit.Store, o audit.Options) *audit.Log {
	t.Helper()
	l, err := audit.New(s, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close(context.Background()) })
	return l
}

// intent is an intent of a small call.
func intent(id string) audit.Intent {
	env := envelope.Default()
	call := &envelope.Call{Tool: "sh", Task: "task", Profile: "small", Argv: []string{"sh", "-c", "echo hi"}}
	return audit.IntentOf(id, "local", call, &env, envelope.LevelContainer, []string{"container: reviewed"}, nil)
}

func completed(id string) audit.Ending {
	return audit.EndingOf(&envelope.Result{ID: id, Outcome: envelope.OutcomeCompleted, Exit: envelope.Exit{Source: "host"}})
}

func refused(id string, reason envelope.Reason) audit.Refused {
	return audit.Refused{Intent: audit.Intent{ID: id}, Refusal: envelope.Refusal{Reason: reason, Message: "no"}}
}

func intend(t testing.TB, l *audit.Log, id string) {
	t.Helper()
	if err := l.Intend(t.Context(), intent(id)); err != nil {
		t.Fatal(err)
	}
}

func complete(t testing.TB, l *audit.Log, id string) envelope.Receipt {
	t.Helper()
	r, err := l.Complete(t.Context(), completed(id))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func verify(t testing.TB, l *audit.Log, against ...envelope.Receipt) audit.VerifyReport {
	t.Helper()
	rep, err := l.Verify(t.Context(), audit.VerifyOptions{Against: against})
	if err != nil {
		t.Fatal(err)
	}
	return rep
}

func row(t testing.TB, l *audit.Log, id string) audit.Row {
	t.Helper()
	r, err := l.Row(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return r
}
