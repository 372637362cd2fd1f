package link

import (
	"context"
	"runtime"
	"time"

	"github.com/callcell/callcell/internal/cell"
	"github.com/callcell/callcell/internal/launcher/wire"
)

// Launchers are processes of their own, each with its reaper. They share the
// groups' parent and the range of uids, of which the kernel's locks see to it
// that no two cells have one; they know nothing of each other.
//
//	start      the first at once, one more when a cell is wanted while the
//	           launcher with the least to do is busy building
//	serve      each cell is asked of the launcher that has the least to do
//	retire     after many cells, or when it has grown: another takes its place,
//	           it gets no more cells, and is hung up on with its last one
//
// The death of one ends its own cells and no other's.

const (
	mostLaunchers  = 8      // by default; behind that the kernel is what is waited for
	defaultRecycle = 20_000 // cells

	// growthPause is how long nothing more is started beside launchers that
	// serve, once that could not be done: this process may have given up the
	// rights since.
	growthPause = time.Minute
)

// most is how many launchers there are at once, those that retire aside.
func (c Config) most() int {
	switch {
	case c.Once:
		return 1
	case c.Launchers > 0:
		return c.Launchers
	}
	return min(runtime.GOMAXPROCS(0), mostLaunchers)
}

func (c Config) recycle() int {
	if c.Recycle > 0 {
		return c.Recycle
	}
	return defaultRecycle
}

// want is what a launcher is looked for.
type want int

const (
	wantHello want = iota // what it says of this host; nothing is counted
	wantCell
	wantEgress
	wantStore
)

// take returns the launcher that is to be asked, and its hello. A cell or an
// egress process is counted there already, for link.open to go on with, and a
// request of the store, up to link.doneStore. Where the hello has a refusal there
// is no launcher.
func (r *Launchers) take(ctx context.Context, w want) (*link, *wire.Hello, error) {
	for {
		l, hello, err := r.choose(w)
		if err != nil || hello != nil {
			return l, hello, err
		}
		if hello, err = l.greet(); err != nil || hello.Refused != "" {
			return nil, hello, err
		}
		if err := ctx.Err(); err != nil {
			return nil, nil, err
		}
	}
}

// choose returns a launcher that serves, or one that has yet to say hello,
// which is then nil.
func (r *Launchers) choose(w want) (*link, *wire.Hello, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, nil, cell.ErrClosed
	}
	s := r.survey()
	if s.short(w, r.conf.most()) && (s.best == nil || time.Now().After(r.growth)) {
		l, err := r.startLocked()
		if err != nil && s.best == nil {
			return nil, nil, err
		}
		if err != nil {
			r.growth = time.Now().Add(growthPause)
		} else if s.starting == nil {
			s.starting = l
		}
	}
	if s.best == nil {
		return s.starting, nil, nil
	}
	if w == wantCell && s.cells >= int(s.best.hello.MaxCells) {
		return nil, nil, errFull
	}
	switch w {
	case wantCell, wantEgress:
		s.best.link.hold(w == wantCell)
	case wantStore:
		s.best.link.holdStore()
	}
	return s.best.link, s.best.hello, nil
}

// A survey is what there is of launchers that new cells may be asked of.
type survey struct {
	best     *load // of those that have said hello; nil: none has
	starting *link // one that has not yet; nil: none
	fresh    int   // how many there are, worn ones aside
	cells    int   // of all launchers
}

// survey looks at every launcher, forgets those that have ended, and lets worn
// ones retire that are not needed any more.
func (r *Launchers) survey() survey {
	var s survey
	var worn []*link
	kept := r.links[:0]
	for _, l := range r.links {
		if l.ended() {
			continue
		}
		kept = append(kept, l)
		n := l.load(r.conf.recycle())
		s.cells += n.cells
		switch {
		case n.refused:
			r.growth = time.Now().Add(growthPause)
		case !n.serves:
		case n.hello == nil:
			s.starting, s.fresh = l, s.fresh+1
		default:
			if n.worn {
				worn = append(worn, l)
			} else {
				s.fresh++
			}
			if s.best == nil || n.less(s.best) {
				s.best = &n
			}
		}
	}
	clear(r.links[len(kept):])
	r.links = kept
	if s.best != nil && !s.best.worn {
		for _, l := range worn {
			l.retire()
		}
	}
	return s
}

// short reports whether one more launcher would be of use.
func (s *survey) short(w want, most int) bool {
	if s.starting != nil {
		return false
	}
	return s.fresh == 0 || w == wantCell && s.best.opening > 0 && s.fresh < most
}

// A load is what one launcher has to do.
type load struct {
	link    *link
	hello   *wire.Hello // nil: it has not said it yet
	serves  bool        // it lives, and does not retire
	refused bool        // it could not do its work on this host
	worn    bool        // it should be replaced
	opening int         // cells and egress processes that it builds
	held    int         // all that it has, those included
	cells   int         // of those, cells
}

// less reports whether a has less to do than b.
func (a *load) less(b *load) bool {
	switch {
	case a.worn != b.worn:
		return b.worn
	case a.opening != b.opening:
		return a.opening < b.opening
	}
	return a.held < b.held
}
