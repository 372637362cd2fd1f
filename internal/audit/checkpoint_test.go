package audit_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/callcell/callcell/internal/audit"
	"github.com/callcell/callcell/internal/store/storetest"
	"github.com/callcell/callcell/internal/testing/leak"
)

// anchored is a log whose checkpoints are kept outside.
type anchored struct {
	*audit.Log
	due   *audit.Log // another one of the same store, which only looks whether one is due
	m     *storetest.Memory
	clock *clock
	kept  []audit.Checkpoint
}

func newAnchored(t testing.TB, o audit.Options) *anchored {
	a := &anchored{m: new(storetest.Memory), clock: newClock()}
	o.Clock, o.Publish = a.clock, func(c audit.Checkpoint) { a.kept = append(a.kept, c) }
	if o.Signer == nil {
		o.Signer = testKey(1)
	}
	a.due = newLog(t, a.m, o)
	o.CheckpointEvents = 0 // so that writing wakes nobody
	a.Log = newLog(t, a.m, o)
	return a
}

// calls writes n calls of two events each, a millisecond apart.
func (a *anchored) calls(t testing.TB, n int) {
	t.Helper()
	for range n {
		a.clock.move(time.Millisecond)
		id := a.NewID()
		intend(t, a.Log, id)
		complete(t, a.Log, id)
	}
}

func (a *anchored) verify(t testing.TB, key *audit.PublicKey, kept ...audit.Checkpoint) audit.VerifyReport {
	t.Helper()
	return must(a.Verify(t.Context(), audit.VerifyOptions{Key: key, Checkpoints: kept}))(t)
}

func public(n byte) *audit.PublicKey {
	k := testKey(n).Public()
	return &k
}

func TestCheckpointsAreDueByNumberAndTime(t *testing.T) {
	a := newAnchored(t, audit.Options{CheckpointEvents: 10, CheckpointEvery: time.Minute})
	due := func(want int) {
		t.Helper()
		if err := a.due.CheckpointIfDue(t.Context()); err != nil || len(a.kept) != want {
			t.Fatalf("%d checkpoints, want %d, %v", len(a.kept), want, err)
		}
	}
	due(0) // there is nothing
	a.calls(t, 4)
	due(0)
	a.calls(t, 1)
	due(1) // ten events
	due(1)
	a.clock.move(time.Hour)
	due(1) // nothing came after it
	a.calls(t, 1)
	due(2) // a minute has gone
	a.calls(t, 1)
	due(2)
	a.clock.move(-24 * time.Hour)
	due(3) // the clock was set back
	due(3)
	if err := a.Checkpoint(t.Context()); err != nil || len(a.kept) != 3 {
		t.Errorf("a checkpoint of nothing new: %d, %v", len(a.kept), err)
	}
	a.calls(t, 1)
	if err := a.Checkpoint(t.Context()); err != nil || len(a.kept) != 4 {
		t.Errorf("the last one: %d, %v", len(a.kept), err)
	}
	rep := a.verify(t, public(1), a.kept...)
	if !rep.Intact() || rep.Checkpoints != 4 || rep.ProvenTo != rep.Events-1 || rep.Foreign != 0 {
		t.Errorf("%+v", rep)
	}
	reader := newLog(t, a.m, audit.Options{Clock: a.clock, Signer: testKey(1)})
	if err := reader.Checkpoint(t.Context()); err != nil || len(a.kept) != 4 {
		t.Errorf("a log that has written nothing: %v", err)
	}
	if err := newLog(t, a.m, audit.Options{}).Checkpoint(t.Context()); !errors.Is(err, audit.ErrNoKey) {
		t.Errorf("without a key: %v", err)
	}
}

// TestBusyLogsAreCheckpointedAtOnce: the background work is woken when enough
// events have come.
func TestBusyLogsAreCheckpointedAtOnce(t *testing.T) {
	leak.Check(t)
	published := make(chan audit.Checkpoint, 10)
	l := newLog(t, new(storetest.Memory), audit.Options{Signer: testKey(1), CheckpointEvents: 4, Clock: newClock(),
		Publish: func(c audit.Checkpoint) { published <- c }})
	for range 4 {
		id := l.NewID()
		intend(t, l, id)
		complete(t, l, id)
	}
	select {
	case c := <-published:
		if c.Heads[0].Seq < 4 {
			t.Errorf("%+v", c)
		}
	case <-time.After(time.Minute):
		t.Error("no checkpoint")
	}
	if err := l.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestCutTogetherWithItsCheckpoints: the tail is cut back to before a
// checkpoint. Without what an anchor kept nobody can tell, and it says so.
func TestCutTogetherWithItsCheckpoints(t *testing.T) {
	a := newAnchored(t, audit.Options{CheckpointEvents: 10})
	for range 3 {
		a.calls(t, 5)
		if err := a.due.CheckpointIfDue(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	a.m.Tamper(func(s *storetest.State) { // back to the first checkpoint, index and all
		s.Events = s.Events[:11]
		for id, e := range s.Entries {
			if e.First > 11 {
				delete(s.Entries, id)
			}
		}
	})
	rep := a.verify(t, nil)
	if !rep.Intact() || rep.Tail != "tail unproven after 0" {
		t.Errorf("without anything from outside: %+v", rep)
	}
	rep = a.verify(t, public(1))
	if !rep.Intact() || rep.Tail != "tail unproven after 10" {
		t.Errorf("with the key: %+v", rep)
	}
	for _, kept := range [][]audit.Checkpoint{a.kept, a.kept[2:]} {
		if rep := a.verify(t, public(1), kept...); !has(rep, audit.ProblemCut, 12) {
			t.Errorf("with %d of an anchor's: %+v", len(kept), rep)
		}
	}
	if rep := a.verify(t, public(1), a.kept[0]); !rep.Intact() || rep.ProvenTo != 10 {
		t.Errorf("with an old one: %+v", rep)
	}
}

// TestRewrittenChain has somebody with the store, and then with the key too,
// write a whole chain anew.
func TestRewrittenChain(t *testing.T) {
	a := newAnchored(t, audit.Options{CheckpointEvents: 10})
	a.calls(t, 7)
	if err := a.Checkpoint(t.Context()); err != nil {
		t.Fatal(err)
	}
	a.m.Tamper(func(s *storetest.State) { // event 4 says another time, and all is linked anew
		s.Events[3].At++
		for i := range s.Events {
			if i > 0 {
				s.Events[i].Prev = s.Events[i-1].Hash
			}
			rehash(&s.Events[i])
		}
	})
	if rep := a.verify(t, nil); !has(rep, audit.ProblemCheckpoint, 15) {
		t.Errorf("its checkpoint names the old head: %+v", rep)
	}
	forge := func(key byte) {
		b := newAnchored(t, audit.Options{Signer: testKey(key)})
		b.calls(t, 7)
		if err := b.Checkpoint(t.Context()); err != nil {
			t.Fatal(err)
		}
		b.m.Tamper(func(theirs *storetest.State) { a.m.Tamper(func(s *storetest.State) { *s = *theirs }) })
	}
	forge(2)
	if rep := a.verify(t, public(1)); !rep.Intact() || rep.Foreign != 1 || rep.ProvenTo != 0 {
		t.Errorf("another's chain, with the key: %+v", rep)
	}
	forge(1)
	if rep := a.verify(t, public(1)); !rep.Intact() || rep.ProvenTo != 14 {
		t.Errorf("with store and key stolen nobody can tell: %+v", rep)
	}
	if rep := a.verify(t, public(1), a.kept...); !has(rep, audit.ProblemRewritten, 14) {
		t.Errorf("but an anchor: %+v", rep)
	}
}

func TestForgedCheckpointInTheChain(t *testing.T) {
	a := newAnchored(t, audit.Options{})
	a.calls(t, 1)
	if err := a.Checkpoint(t.Context()); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*audit.Checkpoint){
		"time":      func(c *audit.Checkpoint) { c.At = c.At.Add(1) },
		"instance":  func(c *audit.Checkpoint) { c.Instance = instanceA },
		"signature": func(c *audit.Checkpoint) { c.Signature = "" },
		"head":      func(c *audit.Checkpoint) { c.Heads[0].Head = strings.Repeat("ab", 32) },
		"earlier":   func(c *audit.Checkpoint) { c.Heads[0].Seq = 1 },
		"no heads":  func(c *audit.Checkpoint) { c.Heads = nil },
	} {
		var clean []audit.Stored
		a.m.Tamper(func(s *storetest.State) {
			clean = slices.Clone(s.Events)
			c := a.kept[0]
			c.Heads = slices.Clone(c.Heads)
			change(&c)
			body, err := json.Marshal(c)
			if err != nil {
				t.Fatal(err)
			}
			e := must(audit.DecodeEvent(s.Events[2]))(t)
			e.Body = body
			e.Link(audit.Head{Seq: 2, Hash: audit.Hash(s.Events[1].Hash)})
			s.Events[2] = e.Stored()
		})
		if rep := a.verify(t, public(1)); !has(rep, audit.ProblemCheckpoint, 3) || rep.ProvenTo != 0 {
			t.Errorf("%s: %+v", name, rep)
		}
		a.m.Tamper(func(s *storetest.State) { s.Events = clean })
	}
}

// TestCheckpointsFromOutside are those of an anchor's file.
func TestCheckpointsFromOutside(t *testing.T) {
	a := newAnchored(t, audit.Options{CheckpointEvents: 2})
	var file bytes.Buffer
	for i := range 3 {
		a.calls(t, 1)
		if err := a.due.CheckpointIfDue(t.Context()); err != nil {
			t.Fatal(err)
		}
		line := must(json.Marshal(a.kept[i]))(t)
		if i == 1 {
			file.WriteString("<109>1 2026-11-29T00:00:00Z host callcell 7 checkpoint - ")
		}
		file.Write(append(line, "\n\n"...))
	}
	file.WriteString(`{"version":1,"at":"2026-` + "\nno checkpoint\n")
	list, skipped, err := audit.ReadCheckpoints(&file)
	if err != nil || skipped != 2 || !reflect.DeepEqual(list, a.kept) {
		t.Errorf("%+v, %d, %v; want %+v", list, skipped, err, a.kept)
	}
	for i := range list {
		if err := list[i].Check(*public(1)); err != nil {
			t.Error(err)
		}
	}
	if _, err := a.Verify(t.Context(), audit.VerifyOptions{Key: public(2), Checkpoints: list}); !errors.Is(err, audit.ErrSignature) {
		t.Errorf("another key: %v", err)
	}
	list[0].Heads[0].Chain = "other"
	if _, err := a.Verify(t.Context(), audit.VerifyOptions{Checkpoints: list[:1]}); !errors.Is(err, audit.ErrReceipt) {
		t.Errorf("of another chain: %v", err)
	}
	if _, _, err := audit.ReadCheckpoints(strings.NewReader(strings.Repeat("x", 200<<10))); !errors.Is(err, audit.ErrReceipt) {
		t.Errorf("a long line: %v", err)
	}
}

// FuzzParseCheckpoint gives the reader what a stranger may have put into an
// anchor's file. What it takes is the same when it is written and read again,
// and no signature of it is good but the key's.
func FuzzParseCheckpoint(f *testing.F) {
	a := newAnchored(f, audit.Options{})
	a.calls(f, 1)
	if err := a.Checkpoint(f.Context()); err != nil {
		f.Fatal(err)
	}
	good := must(json.Marshal(a.kept[0]))(f)
	f.Add(good)
	f.Add(bytes.Replace(good, []byte(`"heads":[`), []byte(`"heads":[{"chain":"a","seq":1,"head":"`+strings.Repeat("0", 64)+`"},`), 1))
	f.Add([]byte(`{"version":1,"at":"2026-01-01T00:00:00+01:00","instance":"x","heads":[{}],"key":"","signature":""}`))
	f.Add([]byte(`{}{}`))
	for _, more := range []string{"}", "]", "{}"} {
		if _, err := audit.ParseCheckpoint(append(slices.Clone(good), more...)); err == nil {
			f.Errorf("a checkpoint, and after it %q", more)
		}
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := audit.ParseCheckpoint(text)
		if err != nil {
			if !errors.Is(err, audit.ErrReceipt) || !reflect.DeepEqual(c, audit.Checkpoint{}) {
				t.Fatalf("%+v, %v", c, err)
			}
			return
		}
		again := must(audit.ParseCheckpoint(must(json.Marshal(c))(t)))(t)
		if !reflect.DeepEqual(again.Heads, c.Heads) || !again.At.Equal(c.At) || again.Signature != c.Signature {
			t.Fatalf("%+v became %+v", c, again)
		}
		if c.Check(*public(1)) != nil {
			return
		}
		for _, change := range []func(){func() { c.At = c.At.Add(1) }, func() { c.At = c.At.Add(-1); c.Heads[0].Seq++ }, func() { c.Heads[0].Seq--; c.Instance += "x" }} {
			if change(); c.Check(*public(1)) == nil {
				t.Fatalf("a signature over something else: %+v", c)
			}
		}
	})
}
