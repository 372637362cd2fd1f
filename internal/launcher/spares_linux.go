package launcher

import (
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/callcell/callcell/internal/launcher/wire"
)

// spares are cells that were made before they were asked for: like the last one
// that was, in every number of its spec, and with nothing of a call in them,
// whose id they learn when they are taken. One that is taken is as good as new,
// because it is new; it never comes back.
//
//	two cells alike, one after the other     one of them is closed
//	                                          a moment later a spare is made, where nothing else is being built
//	one more like them                        it is taken
//	another spec, no slot left, no call for
//	a while, the end of the launcher          it is destroyed, as any cell is
type spares struct {
	most int // kept at once

	mu     sync.Mutex      // guards the following
	wanted int             // cells that are being built for calls
	last   wire.Spec       // of the cell that was asked for last, without its call
	alike  bool            // the one before was like it
	making []chan struct{} // closed when one is kept, or given up
	kept   []*cell
	ending []chan struct{} // of those that are being destroyed; closed when one is gone
	idle   *time.Timer     // nil: there never was one
	barred map[string]int  // trees that are being removed, by digest: none is made of them
}

// spareDelay is how long after a cell's end a spare is made: on a machine with
// few cores it would be in the way of the answer. spareIdle is how long a spare
// waits for a call.
const (
	spareDelay = time.Millisecond
	spareIdle  = 10 * time.Second
)

// mostSpares is how many there are by the configuration. They have uids of
// their own, of a range that several launchers may share: where it is short
// there are none.
func (h *host) mostSpares() int {
	if int64(h.conf.UIDsCount) < 2*h.conf.Cells {
		return 0
	}
	return int(h.conf.Spares)
}

// anonymous is a spec without its call.
func anonymous(spec wire.Spec) wire.Spec {
	spec.ID = ""
	return spec
}

// obtain returns a spare, or a cell that it builds. What there is of the latter
// after a failure is destroy's.
func (s *server) obtain(spec wire.Spec) (*cell, *wire.Failed) {
	defer s.spares.want(spec)()
	m, err := s.host.makingsOf(&spec)
	if err != nil {
		return nil, rootFailure(err)
	}
	defer m.close()
	if c := s.takeSpare(spec, m.rootKey); c != nil {
		return c, nil
	}
	slot, ok := s.reserve(0, s.most)
	if !ok {
		if c := s.makeRoom(spec, m.rootKey); c != nil {
			return c, nil
		}
		if slot, ok = s.reserve(0, s.most); !ok {
			return nil, &wire.Failed{Kind: wire.KindCapacity, Step: "every slot is in use"}
		}
	}
	s.host.building.Lock()
	defer s.host.building.Unlock()
	if c := s.takeSpare(spec, m.rootKey); c != nil { // that was being made
		s.free(slot)
		return c, nil
	}
	c := newCell(s.host, slot, spec)
	return c, c.buildLocked(m)
}

// makeRoom waits until no spare has a slot, not one that is being made and none
// that is on its way out; or returns the one that was being made.
func (s *server) makeRoom(spec wire.Spec, key rootKey) *cell {
	s.host.building.Lock()
	c := s.takeSpare(spec, key)
	s.host.building.Unlock()
	if c == nil {
		s.dropSpares()()
	}
	return c
}

// want notes what is asked for, until the function that it returns is called.
func (p *spares) want(spec wire.Spec) (done func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wanted++
	spec = anonymous(spec)
	p.alike, p.last = reflect.DeepEqual(p.last, spec), spec
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.wanted--
	}
}

// takeSpare returns a spare of that spec and root, nil where there is none.
// Those of another are destroyed.
func (s *server) takeSpare(spec wire.Spec, key rootKey) *cell {
	p := &s.spares
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.kept) > 0 {
		c := p.kept[0]
		p.kept = p.kept[1:]
		if reflect.DeepEqual(c.spec, anonymous(spec)) && c.rootKey() == key && !closed(c.ended) {
			c.spec.ID = spec.ID
			return c
		}
		s.endSpareLocked(c)
	}
	return nil
}

// endSpareLocked destroys a spare, beside what else is done. It has its slot until
// then.
func (s *server) endSpareLocked(c *cell) {
	p := &s.spares
	gone := make(chan struct{})
	p.ending = append(slices.DeleteFunc(p.ending, func(ch chan struct{}) bool { return closed(ch) }), gone)
	s.work.Go(func() {
		defer close(gone)
		s.destroy(c)
	})
}

// rootKey says what the cell's root is.
func (c *cell) rootKey() rootKey {
	if c.ground == nil {
		return rootKey{tree: c.spec.Tree, added: c.spec.Added}
	}
	return c.ground.rootKey
}

// spareSoon makes a spare in a moment, where it is of use then.
func (s *server) spareSoon() {
	s.work.Add(1)
	time.AfterFunc(spareDelay, func() {
		defer s.work.Done()
		s.makeSpare()
	})
}

func (s *server) makeSpare() {
	spec, made := s.beginSpare()
	if made == nil {
		return
	}
	s.host.building.Lock() // until it is kept: who waits for the lock takes it
	defer s.host.building.Unlock()
	c, f := s.buildSpare(spec)
	p := &s.spares
	p.mu.Lock()
	defer p.mu.Unlock()
	close(made)
	p.making = slices.DeleteFunc(p.making, func(ch chan struct{}) bool { return ch == made })
	switch {
	case c == nil:
	case f != nil || !reflect.DeepEqual(p.last, spec):
		s.endSpareLocked(c)
	default:
		p.kept = append(p.kept, c)
		if p.idle == nil {
			p.idle = time.AfterFunc(spareIdle, func() { s.dropSpares() })
		}
		p.idle.Reset(spareIdle)
	}
}

// buildSpare builds a cell, where there is a slot and its root is to be had.
func (s *server) buildSpare(spec wire.Spec) (*cell, *wire.Failed) {
	m, err := s.host.makingsOf(&spec)
	if err != nil {
		return nil, rootFailure(err)
	}
	defer m.close()
	slot, ok := s.reserve(0, s.most)
	if !ok {
		return nil, nil
	}
	c := newCell(s.host, slot, spec)
	return c, c.buildLocked(m)
}

// beginSpare says of what spec a spare is to be made, if it is, and what is to be
// closed when it was.
func (s *server) beginSpare() (wire.Spec, chan struct{}) {
	p := &s.spares
	p.mu.Lock()
	defer p.mu.Unlock()
	barred := p.barred[p.last.Tree] > 0 || p.barred[p.last.Added] > 0
	if closed(s.over) || p.wanted > 0 || !p.alike || barred || len(p.kept)+len(p.making) >= p.most {
		return wire.Spec{}, nil
	}
	made := make(chan struct{})
	p.making = append(p.making, made)
	return p.last, made
}

// dropSpares destroys all. The function that it returns waits until they are gone,
// and those that were being destroyed already.
func (s *server) dropSpares() (wait func()) {
	p := &s.spares
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.kept {
		s.endSpareLocked(c)
	}
	p.kept = nil
	return p.endedLocked()
}

// endedLocked returns a function that waits for those that are being destroyed.
func (p *spares) endedLocked() (wait func()) {
	ending := slices.Clone(p.ending)
	return func() {
		for _, gone := range ending {
			<-gone
		}
	}
}

// dropSparesOf is dropSpares where one of them has that tree, and waits. One that
// is being made or destroyed is waited for, and none is made of that tree until the
// function that it returns is called.
func (s *server) dropSparesOf(digest string) (done func()) {
	p := &s.spares
	of := func(spec *wire.Spec) bool { return spec.Tree == digest || spec.Added == digest }
	p.mu.Lock()
	if p.barred == nil {
		p.barred = map[string]int{}
	}
	p.barred[digest]++
	making := slices.Clone(p.making)
	p.mu.Unlock()
	for _, made := range making {
		<-made
	}
	p.mu.Lock()
	has, wait := slices.ContainsFunc(p.kept, func(c *cell) bool { return of(&c.spec) }), p.endedLocked()
	p.mu.Unlock()
	if has {
		wait = s.dropSpares()
	}
	wait()
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.barred[digest]--; p.barred[digest] == 0 {
			delete(p.barred, digest)
		}
	}
}

// closeSpares is dropSpares for good.
func (s *server) closeSpares() {
	s.dropSpares()()
	s.spares.mu.Lock()
	defer s.spares.mu.Unlock()
	if s.spares.idle != nil {
		s.spares.idle.Stop()
	}
}
