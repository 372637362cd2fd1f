package cell

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/callcell/callcell/envelope"
)

// State is where a cell is between Open and Close. The zero value is invalid.
type State uint8

// The states of a cell.
const (
	StateOpen     State = iota + 1 // built; nothing of the call has run
	StatePutting                   // Put is under way
	StateRunning                   // Exec is under way
	StateExited                    // the program has ended; others of its cell may live
	StateStopping                  // Stop is under way
	StateStopped                   // every process is gone
	StateGetting                   // Get is under way
	StateSpoiled                   // Put or Exec failed: fit for nothing but Close
	StateClosing                   // Close is under way
	StateClosed                    // destroyed
)

// String returns the word of s.
func (s State) String() string {
	words := [...]string{"invalid", "open", "putting", "running", "exited", "stopping",
		"stopped", "getting", "spoiled", "closing", "closed"}
	if int(s) >= len(words) {
		s = 0
	}
	return words[s]
}

// Op is a method of Cell. The zero value is invalid.
type Op uint8

// The operations of a cell.
const (
	OpPut Op = iota + 1
	OpExec
	OpStop
	OpGet
	OpClose
)

// String returns the method's name.
func (o Op) String() string {
	words := [...]string{"invalid", "Put", "Exec", "Stop", "Get", "Close"}
	if int(o) >= len(words) {
		o = 0
	}
	return words[o]
}

// A rule is one row of the state machine: where an operation may start, where
// the cell is meanwhile, and where it is afterwards.
type rule struct{ from, during, done, failed State }

// ruleOf is the state machine. OpClose has no row: it starts from every state
// and ends in StateClosed.
//
//	        Put             Stop fails        Get
//	       +---+              +---+          +---+
//	       v   |              v   |          v   |
//	Open --+---+-- Exec --> Exited --Stop--> Stopped
//	  \             /
//	   +--failed---+--> Spoiled           any of them --Close--> Closed
func ruleOf(op Op) (rule, bool) {
	switch op {
	case OpPut:
		return rule{from: StateOpen, during: StatePutting, done: StateOpen, failed: StateSpoiled}, true
	case OpExec:
		return rule{from: StateOpen, during: StateRunning, done: StateExited, failed: StateSpoiled}, true
	case OpStop:
		return rule{from: StateExited, during: StateStopping, done: StateStopped, failed: StateExited}, true
	case OpGet:
		return rule{from: StateStopped, during: StateGetting, done: StateStopped, failed: StateStopped}, true
	}
	return rule{}, false
}

// Lifecycle holds one cell to the order of its operations. A runtime keeps one
// in each of its cells and does its work inside Do and Close. It is safe for
// concurrent use; an operation that comes while another is under way is out of
// order, except Close.
type Lifecycle struct {
	closing chan struct{} // closed when Close begins
	closed  chan struct{} // closed when report is set

	mu     sync.Mutex      // guards all that follows
	state  State           //
	idle   chan struct{}   // closed when no operation is under way
	report envelope.Report // of the first Close, set once
}

// NewLifecycle returns the lifecycle of a cell that has just been built.
func NewLifecycle() *Lifecycle {
	idle := make(chan struct{})
	close(idle)
	return &Lifecycle{
		closing: make(chan struct{}),
		closed:  make(chan struct{}),
		state:   StateOpen,
		idle:    idle,
	}
}

// State returns the present state.
func (l *Lifecycle) State() State {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state
}

// Closing returns a channel that is closed as soon as Close begins. An
// operation that waits for anything waits for this too.
func (l *Lifecycle) Closing() <-chan struct{} { return l.closing }

// Idle returns a channel that is closed when no operation is under way: what a
// teardown waits for, with a bound of its own. Never wait for it inside Do.
func (l *Lifecycle) Idle() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.idle
}

// Do runs step as operation op, which is not OpClose. It returns an
// *OrderError without running step where op is out of order, and step's error
// otherwise. An error or a panic of Put or Exec spoils the cell; one of Stop
// or Get leaves it where it was.
func (l *Lifecycle) Do(op Op, step func() error) error {
	r, known := ruleOf(op)
	idle := make(chan struct{})
	l.mu.Lock()
	if !known || l.state != r.from {
		err := &OrderError{Op: op, State: l.state}
		l.mu.Unlock()
		return err
	}
	l.state, l.idle = r.during, idle
	l.mu.Unlock()

	next := r.failed
	defer func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.state == r.during { // else Close came in between, and its state stays
			l.state = next
		}
		close(idle)
	}()
	err := step()
	if err == nil {
		next = r.done
	}
	return err
}

// Close runs destroy the first time and returns its report; every other call,
// also one that comes meanwhile, waits for that report and returns a copy. It
// starts from every state and at once: destroy begins while an operation may
// still be under way, and ends it (see Closing and Idle). destroy must be
// bounded in time. A destroy that panics counts as a report that found nothing
// gone; the panic goes on to the first caller.
func (l *Lifecycle) Close(destroy func() envelope.Report) envelope.Report {
	l.mu.Lock()
	if l.state == StateClosing || l.state == StateClosed {
		l.mu.Unlock()
		<-l.closed
		l.mu.Lock()
		defer l.mu.Unlock()
		return copyReport(l.report)
	}
	l.state = StateClosing
	close(l.closing)
	l.mu.Unlock()

	report := envelope.Report{Checks: []envelope.Check{{What: "teardown", Note: "did not come to its end"}}}
	defer func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.state, l.report = StateClosed, copyReport(report)
		close(l.closed)
	}()
	report = destroy()
	return copyReport(report)
}

func copyReport(r envelope.Report) envelope.Report {
	r.Checks = slices.Clone(r.Checks)
	return r
}

// OrderError is an operation that does not fit the state of its cell. It is
// ErrState, and ErrClosed too where the cell was closed.
type OrderError struct {
	Op    Op
	State State
}

// Error names the operation and the state.
func (e *OrderError) Error() string {
	return fmt.Sprintf("cell: %s is out of order: the cell is %s", e.Op, e.State)
}

// Is makes an OrderError match ErrState and, after Close, ErrClosed.
func (e *OrderError) Is(target error) bool {
	gone := e.State == StateClosing || e.State == StateClosed
	return errors.Is(ErrState, target) || gone && errors.Is(ErrClosed, target)
}
