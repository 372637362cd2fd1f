package link

import (
	"context"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/cell"
	"github.com/callcell/callcell/internal/launcher/wire"
)

// An Answer is what a launcher said, with its descriptors, which are the
// receiver's.
type Answer struct {
	Body wire.Body
	FDs  []int
}

// Close closes the descriptors that are not -1.
func (a Answer) Close() { closeAll(a.FDs) }

// A Slot is one thing that a launcher has built: a cell, or an egress process.
// It is safe for concurrent use.
type Slot struct {
	link *link

	Number   uint32   // the launcher's; requests carry it
	Enforced [32]byte // digest of what bounds it
	FDs      []int    // what came with it; the owner's, who closes them

	built   time.Duration
	removed atomic.Int64 // nanoseconds
}

// Launcher returns the process number of the launcher that has it.
func (s *Slot) Launcher() int { return s.link.process.pid }

// Ask sends a request whose answer may wait for a program. The channel is closed
// without one if the launcher dies. A launcher that does not take the request is
// abandoned, which ends it and all that it has.
func (s *Slot) Ask(body wire.Body, fds ...int) (<-chan Answer, error) {
	defer s.link.bound(s.link.limits().build)()
	return s.link.ask(body, fds...)
}

// Await returns the answer to a request that runs a program, and false where
// the launcher died. When ctx ends, or closing is closed, it asks for the
// program's end; a launcher that has not answered some time after grace is
// abandoned.
func (s *Slot) Await(ctx context.Context, closing <-chan struct{}, answers <-chan Answer, grace time.Duration) (Answer, bool) {
	select {
	case a, ok := <-answers:
		return a, ok
	case <-ctx.Done():
	case <-closing:
	}
	defer s.link.bound(s.link.limits().patience + grace)()
	s.Kill(wire.CauseCancel)
	a, ok := <-answers
	return a, ok
}

// Kill asks for the program's end; the answer to what runs it says when it is
// there.
func (s *Slot) Kill(cause wire.Cause) {
	// A launcher that does not hear this is dead, and the cell with it.
	_, _ = s.link.ask(&wire.Kill{Slot: s.Number, Cause: cause})
}

// Call asks and waits for the answer, which waits for no program. It is bounded.
func (s *Slot) Call(body wire.Body, fds ...int) (Answer, error) { return s.link.call(body, fds...) }

// Destroy closes the slot and returns the report. It is bounded. What is not
// wholly gone stays counted until the launcher says that it is (wire.Freed).
func (s *Slot) Destroy() envelope.Report {
	report, took := s.link.destroy(s.Number)
	if took > 0 {
		s.removed.Store(int64(took))
	}
	return report
}

// Timings are how long the launcher says that it took.
func (s *Slot) Timings() cell.Timings {
	return cell.Timings{Build: s.built, Remove: time.Duration(s.removed.Load())}
}

func closeAll(fds []int) {
	for _, fd := range fds {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
}

// ahead is how many requests of Each are under way: the launcher works on the
// next ones while the answers before them are read.
const ahead = 16

// Each asks n requests and hands their answers on in order. An answer is take's,
// which closes it; an error of it ends the rest. A launcher that gives no
// answer for too long is abandoned.
func (s *Slot) Each(n int, body func(int) wire.Body, take func(int, Answer) error) (err error) {
	var asked []<-chan Answer
	defer func() {
		for _, ch := range asked { // of an Each that ended early
			a, _ := s.wait(ch)
			a.Close()
		}
	}()
	for next, i := 0, 0; i < n; i++ {
		for ; next < n && len(asked) < ahead; next++ {
			ch, err := s.link.ask(body(next))
			if err != nil {
				return err
			}
			asked = append(asked, ch)
		}
		a, ok := s.wait(asked[0])
		asked = asked[1:]
		if !ok {
			return ErrLauncher
		}
		if err := take(i, a); err != nil {
			return err
		}
	}
	return nil
}

func (s *Slot) wait(ch <-chan Answer) (Answer, bool) {
	defer s.link.bound(s.link.limits().patience)()
	a, ok := <-ch
	return a, ok
}
