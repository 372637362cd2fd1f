package launcher

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/callcell/callcell/internal/launcher/images"
	"github.com/callcell/callcell/internal/launcher/template"
	"github.com/callcell/callcell/internal/launcher/wire"
)

// A ground is a template that stands: a locked thread in a cells' root of its
// own. Cells are cloned from it, and die with the thread that they come from, so
// that it stays as long as one of them.
type ground struct {
	rootKey
	thread *thread
	roots  map[string]int // its trees, by digest; their inodes are nobody else's while they are open
	last   *compiled      // of the cell before; the thread alone has it

	// Guarded by grounds.mu; the slice's are not used.
	cells  int       // that were cloned from it, spares too
	locks  []int     // of the store: there while cells are
	unused time.Time // since when there are none
}

// A rootKey says of what a root is made. Two that are alike are one root: trees
// do not change, and of mounts it has which directory it was.
type rootKey struct {
	tree, added string // digests; "" is the slice, nothing
	mounts      string
}

// Bounds of what is kept of templates that no cell uses.
const (
	mostGrounds = 8
	groundIdle  = 60 * time.Second
)

// grounds are the templates beside the slice's. They are made when a cell needs
// them. Those that no cell uses are kept for a while, so many of them.
type grounds struct {
	mu    sync.Mutex
	kept  []*ground // the one that was used last is the last
	timer *time.Timer
}

// enter builds the template on the ground's thread, which gives up, for good,
// what none of its children needs.
func (g *ground) enter(point string, init []byte, layout *template.Layout) error {
	return g.thread.do(func() error {
		if err := template.Build(point, init, layout); err != nil {
			return err
		}
		dropBounding()
		return nil
	})
}

// start starts a cell's init. The list of the cell before is used again where
// it is the same.
func (g *ground) start(h *host, b bounds, p parts, into int) (pid, pidfd int, err error) {
	err = g.thread.do(func() (err error) {
		if g.last == nil || g.last.bounds != b {
			if g.last != nil {
				g.last.list.Release()
			}
			g.last = (&plan{bounds: b, joins: len(p.join), filter: h.filter, landlock: h.landlock, lastCap: h.lastCap}).compile()
		}
		pid, pidfd, err = g.last.start(p, into)
		return err
	})
	return pid, pidfd, err
}

// forget lets go of the list. No cell is started after it.
func (g *ground) forget() {
	_ = g.thread.do(func() error {
		if g.last != nil {
			g.last.list.Release()
		}
		return nil
	})
}

// end ends the thread, and with it the root.
func (g *ground) end() {
	g.forget()
	close(g.thread.work)
	for _, fd := range g.roots {
		unix.Close(fd)
	}
}

// groundFor returns the ground of a cell, which gives it back with leave. It is
// called with building held.
func (h *host) groundFor(m *makings) (*ground, *wire.Failed) {
	if m.rootKey == (rootKey{}) {
		return h.slice, nil
	}
	if g := h.grounds.find(h.images, m); g != nil {
		return g, nil
	}
	g, err := h.newGround(m)
	if err != nil {
		return nil, rootFailure(err)
	}
	h.grounds.add(g)
	return g, nil
}

// find returns a ground that stands, for one cell more.
func (gs *grounds) find(store *images.Store, m *makings) *ground {
	gs.mu.Lock()
	defer gs.mu.Unlock()
	i := slices.IndexFunc(gs.kept, func(g *ground) bool { return g.rootKey == m.rootKey })
	if i < 0 {
		return nil
	}
	g := gs.kept[i]
	gs.kept = slices.Delete(gs.kept, i, i+1)
	if g.cells == 0 {
		locks, same := lockTrees(store, g.roots)
		if !same { // the tree was removed meanwhile
			unlockTrees(locks)
			g.end()
			return nil
		}
		g.locks = locks
	}
	g.cells++
	gs.kept = append(gs.kept, g)
	return g
}

// add takes a new ground on, which has one cell. The oldest one without any has
// to go for it.
func (gs *grounds) add(g *ground) {
	gs.mu.Lock()
	defer gs.mu.Unlock()
	g.cells = 1
	gs.kept = append(gs.kept, g)
	gs.trimLocked(gs.overLocked())
}

// trimLocked ends grounds that no cell uses, the oldest first.
func (gs *grounds) trimLocked(which func(*ground) bool) {
	gs.kept = slices.DeleteFunc(gs.kept, func(g *ground) bool {
		if g.cells > 0 || !which(g) {
			return false
		}
		g.end()
		return true
	})
}

// overLocked says of so many grounds that they go as there are too many.
func (gs *grounds) overLocked() func(*ground) bool {
	over := len(gs.kept) - mostGrounds
	return func(*ground) bool {
		over--
		return over >= 0
	}
}

// leave gives a ground back. The slice's is everybody's.
func (gs *grounds) leave(g *ground) {
	if g == nil || g.rootKey == (rootKey{}) {
		return
	}
	gs.mu.Lock()
	defer gs.mu.Unlock()
	g.cells--
	if g.cells > 0 {
		return
	}
	unlockTrees(g.locks)
	g.locks, g.unused = nil, time.Now()
	gs.trimLocked(gs.overLocked())
	if gs.timer == nil {
		gs.timer = time.AfterFunc(groundIdle, gs.expire)
	}
}

// expire ends those that were not used for a while.
func (gs *grounds) expire() {
	gs.mu.Lock()
	defer gs.mu.Unlock()
	gs.trimLocked(func(g *ground) bool { return time.Since(g.unused) >= groundIdle })
	gs.timer = nil
	for _, g := range gs.kept {
		if g.cells == 0 {
			gs.timer = time.AfterFunc(groundIdle-time.Since(g.unused), gs.expire)
			return
		}
	}
}

// drop ends those that no cell uses and that have a tree.
func (gs *grounds) drop(digest string) {
	gs.mu.Lock()
	defer gs.mu.Unlock()
	gs.trimLocked(func(g *ground) bool { return g.tree == digest || g.added == digest })
}

// close ends all, where there are no cells any more.
func (gs *grounds) close() {
	gs.mu.Lock()
	defer gs.mu.Unlock()
	if gs.timer != nil {
		gs.timer.Stop()
	}
	gs.trimLocked(func(*ground) bool { return true })
}

// newGround builds a template. Its trees are locked.
func (h *host) newGround(m *makings) (_ *ground, err error) {
	g := &ground{rootKey: m.rootKey, thread: newPassingThread()}
	defer func() {
		if err != nil {
			close(g.thread.work)
			unlockTrees(g.locks)
		}
	}()
	var same bool
	if g.locks, same = lockTrees(h.images, m.roots); !same {
		return nil, fmt.Errorf("a tree was removed meanwhile: %w", images.ErrAbsent)
	}
	layout, err := m.lay()
	if err != nil {
		return nil, err
	}
	if err := g.enter(h.conf.RunDir, h.init, layout); err != nil {
		return nil, err
	}
	g.roots, m.roots = m.roots, nil
	return g, nil
}

// rootFailure is the answer where a root could not be made.
func rootFailure(err error) *wire.Failed {
	kind := wire.KindSetup
	var point *template.PointError
	var mount *mountError
	switch {
	case errors.Is(err, images.ErrAbsent):
		kind = wire.KindAbsent
	case errors.As(err, &point):
		kind = wire.KindTree
	case errors.As(err, &mount):
		f := failure(wire.KindMount, "the cell's root", err)
		f.Index = uint32(mount.index)
		return f
	}
	return failure(kind, "the cell's root", err)
}
