package audit_test

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/audit"
	"github.com/callcell/callcell/internal/store/storetest"
)

// TestPausedProcessIsFencedOff: a process that was paused past its lease
// cannot write an outcome, whether or not somebody has completed its calls.
func TestPausedProcessIsFencedOff(t *testing.T) {
	for _, recovered := range []bool{false, true} {
		t.Run(fmt.Sprintf("recovered=%v", recovered), func(t *testing.T) {
			c, m := newClock(), new(storetest.Memory)
			a, b := newLog(t, m, audit.Options{Clock: c}), newLog(t, m, audit.Options{Clock: c})
			one, two := a.NewID(), a.NewID()
			intend(t, a, one)
			intend(t, a, two)
			c.move(audit.DefaultTTL)
			if recovered {
				lost, err := b.Recover(t.Context())
				if err != nil || len(lost) != 2 {
					t.Fatalf("lost %v, %v", lost, err)
				}
			}
			if _, err := a.Complete(t.Context(), completed(one)); !errors.Is(err, audit.ErrFenced) {
				t.Errorf("an outcome after the lease: %v", err)
			}
			if _, err := a.Refuse(t.Context(), refused(two, envelope.ReasonSetup)); !errors.Is(err, audit.ErrFenced) {
				t.Errorf("a refusal after the lease: %v", err)
			}
			if _, err := b.Recover(t.Context()); err != nil {
				t.Fatal(err)
			}
			for _, id := range []string{one, two} {
				if r := row(t, b, id); r.Outcome != envelope.OutcomeLost || r.Lost.Instance == "" || r.Lost.Intent < 1 {
					t.Errorf("row of the paused process: %+v", r)
				}
			}
			if rep := verify(t, b); !rep.Intact() || rep.Events != 4 || rep.Calls != 2 {
				t.Errorf("verify: %+v", rep)
			}
		})
	}
}

// TestFencedProcessGoesOn: after its lease has ended, a process gets another
// one for its next call, and cannot end the calls of the first with it.
func TestFencedProcessGoesOn(t *testing.T) {
	c, m := newClock(), new(storetest.Memory)
	l := newLog(t, m, audit.Options{Clock: c})
	old, next := l.NewID(), l.NewID()
	intend(t, l, old)
	c.move(2 * audit.DefaultTTL)
	intend(t, l, next)
	if _, err := l.Complete(t.Context(), completed(old)); !errors.Is(err, audit.ErrFenced) {
		t.Errorf("an outcome of the lease before: %v", err)
	}
	complete(t, l, next)
	lost, err := l.Recover(t.Context())
	if err != nil || len(lost) != 1 || lost[0] != old {
		t.Errorf("lost %v, %v", lost, err)
	}
	if a, b := row(t, l, old).Instance, row(t, l, next).Instance; a == b {
		t.Errorf("both leases have the id %s", a)
	}
}

// TestLostInstanceIsNotRevived: the clock of the one that was given up runs
// behind, so that its lease looks valid to it.
func TestLostInstanceIsNotRevived(t *testing.T) {
	behind, ahead, m := newClock(), newClock(), new(storetest.Memory)
	ahead.move(audit.DefaultTTL)
	a, b := newLog(t, m, audit.Options{Clock: behind}), newLog(t, m, audit.Options{Clock: ahead})
	one, two := a.NewID(), a.NewID()
	intend(t, a, one)
	if lost, err := b.Recover(t.Context()); err != nil || len(lost) != 1 {
		t.Fatalf("lost %v, %v", lost, err)
	}
	intend(t, a, two)
	if x, y := row(t, a, one).Instance, row(t, a, two).Instance; x == y {
		t.Errorf("instance %s goes on after its calls were lost", x)
	}
	complete(t, a, two)
}

// TestOthersCallsAreTheirs: a call can be ended by who intended it alone, also
// while both are alive.
func TestOthersCallsAreTheirs(t *testing.T) {
	c, m := newClock(), new(storetest.Memory)
	a, b := newLog(t, m, audit.Options{Clock: c}), newLog(t, m, audit.Options{Clock: c})
	id := a.NewID()
	intend(t, a, id)
	intend(t, b, b.NewID())
	if _, err := b.Complete(t.Context(), completed(id)); !errors.Is(err, audit.ErrFenced) {
		t.Errorf("an outcome by another: %v", err)
	}
	if _, err := b.Refuse(t.Context(), refused(id, envelope.ReasonSetup)); !errors.Is(err, audit.ErrFenced) {
		t.Errorf("a refusal by another: %v", err)
	}
	complete(t, a, id)
}

// TestRestartLosesNothingOfOthers: two processes on one store; that one starts
// again while the other runs makes nothing of the other's lost.
func TestRestartLosesNothingOfOthers(t *testing.T) {
	c, m := newClock(), new(storetest.Memory)
	a, b := newLog(t, m, audit.Options{Clock: c}), newLog(t, m, audit.Options{Clock: c})
	ofA, ofB := a.NewID(), b.NewID()
	intend(t, b, ofB)
	c.move(6 * time.Second)
	intend(t, a, ofA)
	b.Close(t.Context()) // as if killed: its call is open
	for i, want := range []int{0, 0, 1, 0} {
		b = newLog(t, m, audit.Options{Clock: c})
		lost, err := b.Recover(t.Context())
		if err != nil || len(lost) != want || want == 1 && lost[0] != ofB {
			t.Errorf("start %d: lost %v, %v, want %d", i, lost, err, want)
		}
		c.move(2 * time.Second)
	}
	complete(t, a, ofA)
	if r := row(t, a, ofA); r.Outcome != envelope.OutcomeCompleted {
		t.Errorf("row of the process that ran on: %+v", r)
	}
}

// TestLeaseIsRenewedByUse: intents keep a lease fresh without the background.
func TestLeaseIsRenewedByUse(t *testing.T) {
	c := newClock()
	l := newLog(t, new(storetest.Memory), audit.Options{Clock: c})
	first := l.NewID()
	intend(t, l, first)
	for range 5 {
		c.move(9 * time.Second)
		id := l.NewID()
		intend(t, l, id)
		complete(t, l, id)
	}
	complete(t, l, first)
}

func TestRecoverWritesNothingWithoutNeed(t *testing.T) {
	m := new(storetest.Memory)
	l := newLog(t, m, audit.Options{Clock: newClock()})
	id := l.NewID()
	intend(t, l, id)
	m.Fault(func() error { return errors.New("a write") })
	if lost, err := l.Recover(t.Context()); err != nil || lost != nil {
		t.Errorf("lost %v, %v, want no write", lost, err)
	}
	m.Fault(nil)
}

func TestRecoverAtOnce(t *testing.T) {
	c, m := newClock(), new(storetest.Memory)
	dead := newLog(t, m, audit.Options{Clock: c})
	const n = 600 // more than one batch
	for range n {
		intend(t, dead, dead.NewID())
	}
	c.move(time.Hour)
	var wg sync.WaitGroup
	var total atomic.Int64
	for range 4 {
		l := newLog(t, m, audit.Options{Clock: c})
		wg.Go(func() {
			lost, err := l.Recover(t.Context())
			if err != nil {
				t.Error(err)
			}
			total.Add(int64(len(lost)))
		})
	}
	wg.Wait()
	if total.Load() != n {
		t.Errorf("%d calls were lost, want %d, each once", total.Load(), n)
	}
	if rep := verify(t, dead); !rep.Intact() || rep.Events != 2*n || rep.Calls != n {
		t.Errorf("verify: %+v", rep)
	}
}

// TestRecoverLeavesOtherChains: each chain is completed by its own.
func TestRecoverLeavesOtherChains(t *testing.T) {
	c, m := newClock(), new(storetest.Memory)
	a, b := newLog(t, m, audit.Options{Clock: c}), newLog(t, m, audit.Options{Clock: c, Chain: "other"})
	id := a.NewID()
	intend(t, a, id)
	c.move(time.Hour)
	if lost, err := b.Recover(t.Context()); err != nil || lost != nil {
		t.Errorf("another chain's: %v, %v", lost, err)
	}
	if _, err := b.Complete(t.Context(), completed(id)); !errors.Is(err, audit.ErrFenced) {
		t.Errorf("an ending in another chain: %v", err)
	}
	if lost, err := a.Recover(t.Context()); err != nil || len(lost) != 1 {
		t.Errorf("its own: %v, %v", lost, err)
	}
}

// TestLeaseIsRenewedInTheBackground has a call run for much longer than a
// lease, on a clock of its own.
func TestLeaseIsRenewedInTheBackground(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := new(storetest.Memory)
		l := newLog(t, m, audit.Options{})
		id := l.NewID()
		intend(t, l, id)
		<-time.After(10 * audit.DefaultTTL)
		complete(t, l, id)
		<-time.After(3 * audit.DefaultTTL)
		m.Tamper(func(s *storetest.State) {
			for _, until := range s.Leases {
				if time.Now().Before(until) {
					t.Error("an idle process renews its lease")
				}
			}
		})
		l.Close(t.Context())
	})
}

// TestBackgroundRecovers: a process that lives completes the calls of one that
// has died.
func TestBackgroundRecovers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := new(storetest.Memory)
		dead, alive := newLog(t, m, audit.Options{}), newLog(t, m, audit.Options{})
		id := dead.NewID()
		intend(t, dead, id)
		dead.Close(t.Context())
		other := alive.NewID()
		intend(t, alive, other)
		<-time.After(2 * audit.DefaultTTL)
		if r := row(t, alive, id); r.Outcome != envelope.OutcomeLost {
			t.Errorf("row of the dead process: %+v", r)
		}
		complete(t, alive, other)
		alive.Close(t.Context())
	})
}

// TestEndingWaitsForTheStore: the store takes no writes when a call ends; the
// ending is written when it does again.
func TestEndingWaitsForTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := new(storetest.Memory)
		var told atomic.Int64
		l := newLog(t, m, audit.Options{Failed: func(err error) {
			if errors.Is(err, audit.ErrUnwritable) {
				told.Add(1)
			}
		}})
		ids := []string{l.NewID(), l.NewID()}
		for _, id := range ids {
			intend(t, l, id)
		}
		m.Fault(func() error { return fmt.Errorf("%w: full", audit.ErrUnwritable) })
		for range 2 { // asking again changes nothing
			if _, err := l.Complete(t.Context(), completed(ids[0])); !errors.Is(err, audit.ErrUnwritable) {
				t.Errorf("Complete on a full store: %v", err)
			}
		}
		if _, err := l.Refuse(t.Context(), refused(ids[1], envelope.ReasonSetup)); !errors.Is(err, audit.ErrUnwritable) {
			t.Errorf("Refuse on a full store: %v", err)
		}
		if err := l.Intend(t.Context(), intent(l.NewID())); !errors.Is(err, audit.ErrUnwritable) {
			t.Errorf("Intend on a full store: %v", err)
		}
		<-time.After(audit.DefaultTTL / 2)
		m.Fault(nil)
		<-time.After(audit.DefaultTTL / 2)
		if r := row(t, l, ids[0]); r.Outcome != envelope.OutcomeCompleted {
			t.Errorf("row: %+v", r)
		}
		if r := row(t, l, ids[1]); r.Reason != envelope.ReasonSetup {
			t.Errorf("row: %+v", r)
		}
		if rep := verify(t, l); !rep.Intact() || rep.Events != 4 || told.Load() == 0 {
			t.Errorf("verify: %+v, told %d times", rep, told.Load())
		}
		if _, err := l.Complete(t.Context(), completed(ids[0])); !errors.Is(err, audit.ErrEnded) {
			t.Errorf("Complete again: %v", err)
		}
		l.Close(t.Context())
	})
}

// TestCloseWritesWhatWaits: Close is the last try.
func TestCloseWritesWhatWaits(t *testing.T) {
	m := new(storetest.Memory)
	l := newLog(t, m, audit.Options{Clock: newClock()})
	id := l.NewID()
	intend(t, l, id)
	m.Fault(func() error { return audit.ErrUnwritable })
	if _, err := l.Complete(t.Context(), completed(id)); !errors.Is(err, audit.ErrUnwritable) {
		t.Fatalf("Complete on a full store: %v", err)
	}
	m.Fault(nil)
	if err := l.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if r := row(t, l, id); r.Outcome != envelope.OutcomeCompleted {
		t.Errorf("row: %+v", r)
	}
}

// TestManyAtOnce hammers one log, and what it does in the background too.
func TestManyAtOnce(t *testing.T) {
	c, m := &ticking{newClock(), make(chan time.Time)}, new(storetest.Memory)
	l := newLog(t, m, audit.Options{Clock: c})
	over, ticked := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ticked)
		for {
			select {
			case c.c <- c.Now():
			case <-over:
				return
			}
		}
	}()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for i := range 20 {
				id := l.NewID()
				intend(t, l, id)
				if i%4 == 0 {
					if _, err := l.Refuse(t.Context(), refused(id, envelope.ReasonSetup)); err != nil {
						t.Error(err)
					}
					continue
				}
				complete(t, l, id)
			}
		})
	}
	wg.Wait()
	close(over)
	<-ticked
	if rep := verify(t, l); !rep.Intact() || rep.Calls != 160 || rep.Open != 0 {
		t.Errorf("verify: %+v", rep)
	}
}
