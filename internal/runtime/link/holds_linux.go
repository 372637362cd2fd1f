package link

import (
	"context"
	"errors"
	"time"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/cell"
	"github.com/callcell/callcell/internal/launcher/wire"
)

// What a launcher has: cells and egress processes, from before they are asked
// for until they are gone. What could not be removed stays counted, against the
// number of cells too, until the launcher says that it is free.

// holds is guarded by its link's lock.
type holds struct {
	opening int             // what is being opened
	store   int             // trees in the making, and other requests of the store
	slots   map[uint32]bool // what is open, or could not be removed; true: a cell
	cells   int             // how many of both are cells
	opened  int             // everything that was ever asked for
	most    int             // at once
	used    bool            // something was closed
	retired bool            // hang up when all is closed
	grown   bool            // the process has, see process.grown
}

func (h *holds) all() int { return h.opening + h.store + len(h.slots) }

// lookEvery is after how many cells the launcher's size is looked at.
const lookEvery = 256

// hold counts a cell, or an egress process, that will be asked for.
func (l *link) hold(isCell bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	h := &l.holds
	h.opening++
	h.opened++
	h.most = max(h.most, h.all())
	if isCell {
		h.cells++
	}
	if h.opened%lookEvery == 0 {
		h.grown = l.process.grown(h.most)
	}
}

// holdStore counts what is asked of the store of trees, up to done.
func (l *link) holdStore() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.holds.store++
}

// doneStore takes it back.
func (l *link) doneStore() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.holds.store--
	l.leaveLocked()
}

// stands notes what was opened.
func (l *link) stands(slot uint32, isCell bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.holds.opening--
	l.holds.slots[slot] = isCell
}

// failed takes back what was not opened.
func (l *link) failed(isCell bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.holds.opening--
	if isCell {
		l.holds.cells--
	}
	l.leaveLocked()
}

// settle takes back what is gone. It is idempotent.
func (l *link) settle(slot uint32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.settleLocked(slot)
}

func (l *link) settleLocked(slot uint32) {
	isCell, ok := l.holds.slots[slot]
	if !ok {
		return
	}
	delete(l.holds.slots, slot)
	if isCell {
		l.holds.cells--
	}
	l.holds.used = true
	l.leaveLocked()
}

// retire lets the launcher go with the last of what it has. It gets no more.
func (l *link) retire() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.holds.retired = true
	l.leaveLocked()
}

// leaveLocked hangs up where that is due: a launcher for one call winds down
// beside what else is to be done. What it was asked it answers first: how a
// program ended may come after the report of its cell.
func (l *link) leaveLocked() {
	if h := &l.holds; h.all() == 0 && len(l.waiting) == 0 && (h.retired || l.once && h.used) {
		_ = l.conn.CloseSend() // it may be gone already
	}
}

// load is what the launcher has to do. Beyond so many cells it is worn.
func (l *link) load(recycle int) load {
	l.mu.Lock()
	defer l.mu.Unlock()
	h := &l.holds
	n := load{link: l, opening: h.opening, held: h.all(), worn: h.opened >= recycle || h.grown}
	if !l.aliveLocked() {
		n.refused = l.hello == nil || l.hello.Refused != ""
		return n // the reaper ends what it had
	}
	n.cells, n.hello = h.cells, l.hello
	n.refused = l.hello != nil && l.hello.Refused != ""
	n.serves = !h.retired && !n.refused
	return n
}

// open asks for a cell or an egress process, and gives back one that comes when
// nobody waits for it any more. It was counted by hold, and is closed by
// destroy. An error is a *cell.Error.
func (l *link) open(ctx context.Context, body wire.Body, step string, fds ...int) (*Slot, error) {
	_, isCell := body.(*wire.Open)
	a, err := l.await(ctx, body, fds)
	if errors.Is(err, errGivenBack) {
		return nil, &cell.Error{Reason: envelope.ReasonSetup, Step: step, Err: ctx.Err()}
	}
	if err == nil {
		switch b := a.Body.(type) {
		case *wire.Opened:
			l.stands(b.Slot, isCell)
			return &Slot{link: l, Number: b.Slot, Enforced: b.Enforced, FDs: a.FDs, built: time.Duration(max(b.Took, 0))}, nil
		case *wire.Failed:
			err = Refused(b, step)
		default:
			err = &cell.Error{Reason: envelope.ReasonSetup, Step: step, Err: wire.ErrMalformed}
		}
	} else {
		err = &cell.Error{Reason: envelope.ReasonSetup, Step: step, Err: err}
	}
	a.Close()
	l.failed(isCell)
	return nil, err
}

// errGivenBack means that nobody waits for the answer but giveBack.
var errGivenBack = errors.New("given up")

func (l *link) await(ctx context.Context, body wire.Body, fds []int) (Answer, error) {
	stop := l.bound(l.limits().build)
	ch, err := l.ask(body, fds...)
	if err != nil {
		stop()
		return Answer{}, err
	}
	select {
	case a, ok := <-ch:
		stop()
		if !ok {
			return Answer{}, ErrLauncher
		}
		return a, nil
	case <-ctx.Done():
		_, isCell := body.(*wire.Open)
		go l.giveBack(ch, isCell, stop)
		return Answer{}, errGivenBack
	}
}

func (l *link) giveBack(ch <-chan Answer, isCell bool, stop func()) {
	a := <-ch // the zero value where the launcher has died
	stop()
	a.Close()
	if o, ok := a.Body.(*wire.Opened); ok {
		l.stands(o.Slot, isCell)
		l.destroy(o.Slot) // nobody is left to tell; a launcher that goes sweeps
		return
	}
	l.failed(isCell)
}

// destroy closes a slot and returns the report. It is bounded. What is not
// wholly gone stays counted until the launcher says that it is (wire.Freed).
// took is what the launcher says that it took, 0 where it says nothing.
func (l *link) destroy(slot uint32) (r envelope.Report, took time.Duration) {
	a, err := l.call(&wire.Close{Slot: slot})
	if err != nil {
		defer l.settle(slot)
		return l.orphaned(), 0
	}
	a.Close()
	r = report(a.Body)
	closed, known := a.Body.(*wire.Closed)
	if r.Complete || !known || l.once {
		l.settle(slot)
	}
	if known {
		took = time.Duration(max(closed.Took, 0))
	}
	return r, took
}

func report(b wire.Body) envelope.Report {
	closed, ok := b.(*wire.Closed)
	if !ok {
		return envelope.Report{Checks: []envelope.Check{{What: "cell", Note: "the launcher knows it no longer"}}}
	}
	r := envelope.Report{Complete: len(closed.Checks) > 0}
	for _, k := range closed.Checks {
		r.Checks = append(r.Checks, envelope.Check{What: k.What, Gone: k.Gone, Note: k.Note})
		r.Complete = r.Complete && k.Gone
	}
	return r
}
