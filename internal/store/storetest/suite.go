package storetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/audit"
)

// Chain is the chain that the suite writes.
const Chain = "suite"

// Run holds a store to what audit.Store says. open returns an empty store,
// which the test closes by itself.
func Run(t *testing.T, open func(*testing.T) audit.Store) {
	for _, c := range []struct {
		name string
		test func(*testing.T, audit.Store)
	}{
		{"Empty", testEmpty},
		{"AppendIsSeen", testAppend},
		{"FailedUpdateLeavesNothing", testFailedUpdate},
		{"NotTheNext", testNotTheNext},
		{"OneIntentOneEnding", testOnce},
		{"EndedContextNeverRuns", testEndedContext},
		{"TogetherNoneIsLost", testTogether},
		{"EventsInPages", testEvents},
		{"CallsByFilter", testCalls},
		{"Traces", testTraces},
		{"LeasesAndOrphans", testOrphans},
		{"SweepKeepsBusy", testSweep},
		{"OddTexts", testOddTexts},
		{"AboutNoCall", testAbout},
		{"EntriesBelongToCalls", testBelongs},
		{"Hosts", testHosts},
		{"Erase", testErase},
		{"FarLeases", testFarLeases},
		{"ManyTeams", testManyTeams},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, open(t)) })
	}
}

// Time returns a time that is n seconds after a fixed one.
func Time(n int) time.Time { return time.Unix(1_800_000_000+int64(n), 123_456_789).UTC() }

// ID returns the n-th of a list of call ids that sort in order.
func ID(n int) string { return fmt.Sprintf("01990000-%04x-7000-8000-00000000%04x", n, n) }

// put appends an event that follows the chain.
func put(tx audit.Tx, kind audit.Kind, entry audit.Entry, at time.Time, body string) (*audit.Event, error) {
	head, err := tx.Head(Chain)
	if err != nil {
		return nil, err
	}
	e := &audit.Event{
		Chain: Chain, Kind: kind, CallID: entry.ID, Instance: "writer", At: at, Body: []byte(body),
	}
	e.Link(head)
	if entry.First == 0 {
		entry.First = e.Seq
	}
	if kind.Ends() {
		entry.Last = e.Seq
	}
	return e, tx.Append(e, &entry)
}

func entry(n int) audit.Entry {
	return audit.Entry{
		ID: ID(n), Chain: Chain, Instance: "writer", Task: fmt.Sprintf("task-%d", n%3),
		Caller: "key", Tool: "sh", Level: envelope.LevelContainer,
	}
}

// fill writes n calls, all ended but those whose number divides by 5.
func fill(t *testing.T, s audit.Store, n int) []audit.Event {
	t.Helper()
	var events []audit.Event
	update(t, s, func(tx audit.Tx) error {
		for i := range n {
			e, err := put(tx, audit.KindIntent, entry(i), Time(i), `{"n":1}`)
			if err != nil {
				return err
			}
			events = append(events, *e)
			if i%5 == 0 {
				continue
			}
			kind, ending, _ := audit.KindOutcome, entry(i), 0
			ending.First, ending.Outcome = e.Seq, envelope.OutcomeCompleted
			if i%5 == 1 {
				kind, ending.Outcome, ending.Reason = audit.KindRefusal, 0, envelope.ReasonSetup
			}
			e, err = put(tx, kind, ending, Time(i), `{"n":2}`)
			if err != nil {
				return err
			}
			events = append(events, *e)
		}
		return nil
	})
	return events
}

func update(t *testing.T, s audit.Store, fn func(audit.Tx) error) {
	t.Helper()
	if err := s.Update(t.Context(), fn); err != nil {
		t.Fatal(err)
	}
}

func must[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}
