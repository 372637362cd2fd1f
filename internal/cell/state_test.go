package cell_test

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/cell"
)

var errStep = errors.New("step failed")

func ops() []cell.Op { return []cell.Op{cell.OpPut, cell.OpExec, cell.OpStop, cell.OpGet} }

// hold starts op and keeps it under way until the test lets it go. It returns
// once op is under way; release is called at the end of the test.
func hold(t *testing.T, l *cell.Lifecycle, op cell.Op, result error) (release func()) {
	t.Helper()
	entered, let, done := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		_ = l.Do(op, func() error { close(entered); <-let; return result })
	}()
	<-entered
	release = sync.OnceFunc(func() { close(let); <-done })
	t.Cleanup(release)
	return release
}

// must runs ops in order; each has to be in order.
func must(t *testing.T, l *cell.Lifecycle, ops ...cell.Op) {
	t.Helper()
	for _, op := range ops {
		if err := l.Do(op, func() error { return nil }); err != nil {
			t.Fatalf("%s on the way: %v", op, err)
		}
	}
}

// states says how a lifecycle gets to each state.
func states() map[cell.State]func(*testing.T, *cell.Lifecycle) {
	closeNow := func(l *cell.Lifecycle) { l.Close(func() envelope.Report { return envelope.Report{Complete: true} }) }
	return map[cell.State]func(*testing.T, *cell.Lifecycle){
		cell.StateOpen:    func(*testing.T, *cell.Lifecycle) {},
		cell.StatePutting: func(t *testing.T, l *cell.Lifecycle) { hold(t, l, cell.OpPut, nil) },
		cell.StateRunning: func(t *testing.T, l *cell.Lifecycle) { must(t, l, cell.OpPut); hold(t, l, cell.OpExec, nil) },
		cell.StateExited:  func(t *testing.T, l *cell.Lifecycle) { must(t, l, cell.OpPut, cell.OpExec) },
		cell.StateStopping: func(t *testing.T, l *cell.Lifecycle) {
			must(t, l, cell.OpExec)
			hold(t, l, cell.OpStop, nil)
		},
		cell.StateStopped: func(t *testing.T, l *cell.Lifecycle) { must(t, l, cell.OpExec, cell.OpStop, cell.OpGet) },
		cell.StateGetting: func(t *testing.T, l *cell.Lifecycle) {
			must(t, l, cell.OpExec, cell.OpStop)
			hold(t, l, cell.OpGet, nil)
		},
		cell.StateSpoiled: func(_ *testing.T, l *cell.Lifecycle) { _ = l.Do(cell.OpExec, func() error { return errStep }) },
		cell.StateClosing: func(t *testing.T, l *cell.Lifecycle) {
			entered, let, done := make(chan struct{}), make(chan struct{}), make(chan struct{})
			go func() {
				defer close(done)
				l.Close(func() envelope.Report { close(entered); <-let; return envelope.Report{Complete: true} })
			}()
			<-entered
			t.Cleanup(func() { close(let); <-done })
		},
		cell.StateClosed: func(_ *testing.T, l *cell.Lifecycle) { closeNow(l) },
	}
}

type edge struct {
	state cell.State
	op    cell.Op
}

// edges are the operations that are in order, each with the state after it
// when it succeeds and when it fails. Every other pair is out of order.
func edges() map[edge][2]cell.State {
	return map[edge][2]cell.State{
		{cell.StateOpen, cell.OpPut}:    {cell.StateOpen, cell.StateSpoiled},
		{cell.StateOpen, cell.OpExec}:   {cell.StateExited, cell.StateSpoiled},
		{cell.StateExited, cell.OpStop}: {cell.StateStopped, cell.StateExited},
		{cell.StateStopped, cell.OpGet}: {cell.StateStopped, cell.StateStopped},
	}
}

func TestEveryStateAndOperation(t *testing.T) {
	if n := len(states()); n != int(cell.StateClosed) {
		t.Fatalf("%d states are reached, want all %d", n, cell.StateClosed)
	}
	for state, reach := range states() {
		for _, op := range ops() {
			for outcome, result := range []error{nil, errStep} {
				t.Run(fmt.Sprintf("%s/%s/fails=%v", state, op, result != nil), func(t *testing.T) {
					l := cell.NewLifecycle()
					reach(t, l)
					if got := l.State(); got != state {
						t.Fatalf("state is %s, want %s", got, state)
					}
					checkPair(t, l, edge{state, op}, outcome, result)
				})
			}
		}
	}
}

func checkPair(t *testing.T, l *cell.Lifecycle, at edge, outcome int, result error) {
	t.Helper()
	ran := false
	err := l.Do(at.op, func() error { ran = true; return result })
	after, inOrder := edges()[at]
	if inOrder {
		if !ran || !errors.Is(err, result) {
			t.Fatalf("ran=%v err=%v, want the step's own %v", ran, err, result)
		}
		if got := l.State(); got != after[outcome] {
			t.Fatalf("state afterwards is %s, want %s", got, after[outcome])
		}
		return
	}
	gone := at.state == cell.StateClosing || at.state == cell.StateClosed
	if ran || !errors.Is(err, cell.ErrState) || errors.Is(err, cell.ErrClosed) != gone {
		t.Fatalf("ran=%v err=%v, want ErrState, and ErrClosed only after Close", ran, err)
	}
	if got := l.State(); got != at.state {
		t.Fatalf("a refused operation moved the state to %s", got)
	}
}

func TestCloseFromEveryState(t *testing.T) {
	for state, reach := range states() {
		if state == cell.StateClosing {
			continue // TestCloseIsOneForAll
		}
		t.Run(state.String(), func(t *testing.T) {
			l := cell.NewLifecycle()
			reach(t, l)
			var runs atomic.Int32
			for range 2 {
				l.Close(func() envelope.Report { runs.Add(1); return envelope.Report{Complete: true} })
			}
			want := int32(1)
			if state == cell.StateClosed {
				want = 0
			}
			if runs.Load() != want || l.State() != cell.StateClosed {
				t.Fatalf("destroyed %d times, state %s", runs.Load(), l.State())
			}
		})
	}
}

func TestUnknownOperation(t *testing.T) {
	l := cell.NewLifecycle()
	for _, op := range []cell.Op{0, cell.OpClose, cell.OpClose + 1} {
		if err := l.Do(op, func() error { t.Error("ran"); return nil }); !errors.Is(err, cell.ErrState) {
			t.Errorf("%s: %v, want ErrState", op, err)
		}
	}
}

func TestCloseInterruptsAndTheStateStays(t *testing.T) {
	l := cell.NewLifecycle()
	left := make(chan error, 1)
	entered := make(chan struct{})
	go func() {
		left <- l.Do(cell.OpExec, func() error { close(entered); <-l.Closing(); return cell.ErrClosed })
	}()
	<-entered
	l.Close(func() envelope.Report { <-l.Idle(); return envelope.Report{Complete: true} })
	if err := <-left; !errors.Is(err, cell.ErrClosed) {
		t.Fatalf("the interrupted step returned %v", err)
	}
	if l.State() != cell.StateClosed {
		t.Fatalf("state is %s", l.State())
	}
}

func TestCloseIsOneForAll(t *testing.T) {
	l := cell.NewLifecycle()
	var runs atomic.Int32
	var all sync.WaitGroup
	reports := make(chan envelope.Report, 64)
	for range cap(reports) {
		all.Go(func() {
			reports <- l.Close(func() envelope.Report {
				return envelope.Report{Complete: true, Checks: []envelope.Check{{What: fmt.Sprint(runs.Add(1)), Gone: true}}}
			})
		})
	}
	all.Wait()
	close(reports)
	for r := range reports {
		if len(r.Checks) != 1 || r.Checks[0].What != "1" {
			t.Fatalf("a caller got %+v, want the first report", r)
		}
		r.Checks[0].What = "scribbled" // the others must not see it
	}
}

func TestPanicsLeaveNothingHeld(t *testing.T) {
	l := cell.NewLifecycle()
	panics := func(f func()) (did bool) {
		defer func() { did = recover() != nil }()
		f()
		return false
	}
	if !panics(func() { _ = l.Do(cell.OpPut, func() error { panic("put") }) }) {
		t.Fatal("the panic of a step was swallowed")
	}
	if l.State() != cell.StateSpoiled {
		t.Fatalf("after a panic in Put the state is %s", l.State())
	}
	if !panics(func() { l.Close(func() envelope.Report { panic("destroy") }) }) {
		t.Fatal("the panic of destroy was swallowed")
	}
	again := l.Close(func() envelope.Report { t.Error("destroyed twice"); return envelope.Report{} })
	if again.Complete || len(again.Checks) == 0 {
		t.Fatalf("a teardown that panicked reports %+v", again)
	}
}
