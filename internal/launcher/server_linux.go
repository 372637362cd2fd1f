package launcher

import (
	"errors"
	"io"
	"runtime/debug"
	"sync"
	"time"

	"github.com/callcell/callcell/internal/launcher/conf"
	"github.com/callcell/callcell/internal/launcher/wire"
)

// requestsPerCell bounds the requests that are worked on at once; beyond it
// the socket is not read.
const requestsPerCell = 2

// memoryLimit is where garbage collection begins. Below, the collector is off,
// because it would have to wait for a child that is being prepared.
const memoryLimit = 64 << 20

// A server answers one front.
type server struct {
	host *host
	conn *wire.Conn
	gate chan struct{} // one token a request under way
	work sync.WaitGroup
	over chan struct{} // closed when the conversation is
	most int           // cells at once; the slots from there on are those of processes of ours

	// handing is held from the opening of a cell's sockets until they are with
	// the front: they are many, and the descriptors of one cell at a time.
	handing sync.Mutex

	mu      sync.Mutex // guards the following
	down    bool       // no cell is taken on any more
	last    uint32     // the number that was given out last
	cells   map[uint32]*cell
	slots   []bool             // in use; a slot whose teardown is incomplete stays so
	makings map[string]*making // trees, by id; see unpack_linux.go

	makers chan struct{} // one token a tree whose unpacker, or its check, is there

	spares spares
}

func newServer(h *host, conn *wire.Conn) *server {
	most := int(h.conf.Cells)
	return &server{
		host: h, conn: conn, gate: make(chan struct{}, requestsPerCell*(most+otherSlots)), over: h.over,
		most: most, cells: map[uint32]*cell{}, makings: map[string]*making{}, slots: make([]bool, most+otherSlots),
		makers: make(chan struct{}, unpackSlots), spares: spares{most: h.mostSpares()},
	}
}

// serve answers requests until the front hangs up or the reaper dies, then
// ends every cell. It returns nil only for a hang-up.
func serve(h *host, conn *wire.Conn) error {
	debug.SetGCPercent(-1)
	debug.SetMemoryLimit(memoryLimit)
	s := newServer(h, conn)
	defer s.closeAll()
	s.work.Go(func() { _ = h.images.Sweep() }) // what cannot be removed is there for the next
	go func() {
		select {
		case <-h.reaper.gone:
			conn.Close() // loop returns
		case <-s.over:
		}
	}()
	err := s.loop()
	if closed(h.reaper.gone) {
		return errors.New("the reaper is dead: no cell may run without it")
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

func (s *server) loop() error {
	if err := s.conn.Send(wire.Message{Body: s.host.hello()}); err != nil {
		return err
	}
	for {
		m, fds, err := s.conn.Receive()
		if err != nil {
			return err // a front that sends what is no message is not listened to any longer
		}
		began := time.Now()
		fds = useful(m.Body, fds)
		s.gate <- struct{}{}
		s.work.Add(1)
		go func() {
			defer func() { <-s.gate; s.work.Done() }()
			s.answer(m, fds, began)
		}()
	}
}

func (h *host) hello() *wire.Hello {
	version, refused := h.runsc()
	return &wire.Hello{
		Version: wire.Version, Kernel: h.kernel, Cgroup: uint8(h.groups.Version()), Landlock: int32(h.landlock),
		MaxCells: uint32(h.conf.Cells), Filter: h.common, Missing: h.missing(), Reaper: uint32(h.reaper.pid),
		Runsc: version, NoRunsc: refused, HostNet: h.conf.Runsc.Network == conf.NetworkHost,
	}
}

// useful closes at once the descriptors of a request that has no use for so
// many: while it waits for its turn, it holds no more than its share.
func useful(b wire.Body, fds []int) []int {
	want := 0
	switch b.Type() {
	case wire.TypeStart:
		want = givenFDs
	case wire.TypeEgress:
		want = 1
	case wire.TypeUnpack:
		want = unpackFDs
	}
	if len(fds) > want {
		closeAll(fds)
		return nil
	}
	return fds
}

// answer does one request, which came at a time, and sends its one answer.
func (s *server) answer(m wire.Message, fds []int, began time.Time) {
	if o, ok := m.Body.(*wire.Open); ok && len(o.Spec.Ports) > 0 {
		s.handing.Lock()
		defer s.handing.Unlock()
	}
	body, out := s.do(m.Body, fds)
	closeAll(fds)
	took(body, time.Since(began))
	err := s.conn.Send(wire.Message{Seq: m.Seq, Body: body}, out...)
	closeAll(out)
	if errors.Is(err, wire.ErrMalformed) { // a fault of ours; there is an answer all the same
		err = s.conn.Send(wire.Message{Seq: m.Seq, Body: failure(wire.KindBroken, "answer", err)})
	}
	_ = err // a front that is gone hears nothing; loop sees the hang-up itself
	switch b := m.Body.(type) {
	case *wire.Start:
		s.tidy(b.Slot)
	case *wire.Close:
		s.spareSoon()
	}
}

// took says in the answer how long it took, where it has a place for that.
func took(b wire.Body, d time.Duration) {
	switch b := b.(type) {
	case *wire.Opened:
		b.Took = int64(d)
	case *wire.Closed:
		b.Took = int64(d)
	}
}

// tidy removes the group of a program that has ended, while its end is on its
// way to the front. Close does it again, and says what is left.
func (s *server) tidy(number uint32) {
	if c := s.cell(number); c != nil && closed(c.ended) {
		_ = c.removeGroup()
	}
}

// do takes over fds only for Start and Unpack; those that it returns go with the
// answer.
func (s *server) do(b wire.Body, fds []int) (answer wire.Body, out []int) {
	switch m := b.(type) {
	case *wire.Open:
		return s.open(m.Spec)
	case *wire.Egress:
		return s.startEgress(fds), nil
	case *wire.Unpack:
		return s.unpack(m, fds), nil
	case *wire.Keep:
		return s.keep(m), nil
	case *wire.Drop:
		return s.drop(m), nil
	case *wire.Trees:
		return s.trees(m)
	case *wire.Remove:
		return s.removeTree(m), nil
	case *wire.OpenTree:
		return s.openTree(m)
	}
	return s.doCell(b, fds)
}

// doCell does what is asked of one cell.
func (s *server) doCell(b wire.Body, fds []int) (answer wire.Body, out []int) {
	number, ok := slotOf(b)
	c := s.cell(number)
	if !ok || c == nil || c.alone && b.Type() != wire.TypeClose {
		return &wire.Failed{Kind: wire.KindState, Step: "no such cell"}, nil
	}
	switch m := b.(type) {
	case *wire.Start:
		if c.sentry != nil {
			return c.startSentry(), nil
		}
		return c.start(fds), nil
	case *wire.Kill:
		c.kill(m.Cause)
		return &wire.Done{}, nil
	case *wire.Count:
		return c.count(), nil
	case *wire.Stop:
		if f := c.stop(); f != nil {
			return f, nil
		}
		return &wire.Done{}, nil
	case *wire.Get:
		return c.get(m.Name)
	case *wire.List:
		return c.list(m.Dir, int(m.Max))
	default:
		return s.close(c), nil
	}
}

func slotOf(b wire.Body) (uint32, bool) {
	switch m := b.(type) {
	case *wire.Start:
		return m.Slot, true
	case *wire.Kill:
		return m.Slot, true
	case *wire.Stop:
		return m.Slot, true
	case *wire.Count:
		return m.Slot, true
	case *wire.Get:
		return m.Slot, true
	case *wire.List:
		return m.Slot, true
	case *wire.Close:
		return m.Slot, true
	}
	return 0, false
}

func (s *server) cell(number uint32) *cell {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cells[number]
}

// open builds a cell. What it has of a network goes to the front.
func (s *server) open(spec wire.Spec) (answer wire.Body, sockets []int) {
	if err := s.host.check(spec); err != nil {
		return failure(wire.KindSpec, err.Error(), nil), nil
	}
	enforced, err := s.host.enforced(spec)
	if err != nil {
		return failure(wire.KindSpec, "digest", err), nil
	}
	c, f := s.obtain(spec)
	if c == nil {
		return f, nil
	}
	if f == nil {
		sockets, f = c.waysOut()
	}
	if f == nil && !s.register(c) {
		f = &wire.Failed{Kind: wire.KindState, Step: "the launcher is going down"}
	}
	if f != nil {
		closeAll(sockets)
		s.destroy(c)
		return f, nil
	}
	return &wire.Opened{Slot: c.number, Enforced: enforced}, sockets
}

// waysOut opens what a cell's front is given: the channel of one that has a guest,
// and the sockets in the cell's network namespace, where its programs see that.
func (c *cell) waysOut() (fds []int, f *wire.Failed) {
	hosts := c.sentry == nil || c.host.hostNet(&c.spec)
	if hosts && len(c.spec.Ports) > 0 {
		sockets, err := openGate(c.netns, &c.spec)
		if err != nil {
			return nil, failure(wire.KindSetup, "open the cell's sockets", err)
		}
		fds = sockets
	}
	if c.sentry != nil {
		fds = append(c.handOver(), fds...)
	}
	return fds, nil
}

// register gives a cell the number by which requests find it. A number is not
// given out again: a request that comes late must not meet the next cell.
func (s *server) register(c *cell) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down {
		return false
	}
	s.last++
	for s.cells[s.last] != nil || s.last == 0 { // after four thousand million
		s.last++
	}
	c.number = s.last
	s.cells[c.number] = c
	return true
}

// reserve takes a slot out of a range.
func (s *server) reserve(from, to int) (int, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := from; i < to; i++ {
		if !s.slots[i] {
			s.slots[i] = true
			return i, true
		}
	}
	return 0, false
}

func (s *server) free(slot int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.slots[slot] = false
}

// close answers Close. Whoever takes a cell out of the table is the one who
// destroys it.
func (s *server) close(c *cell) wire.Body {
	s.mu.Lock()
	mine := s.cells[c.number] == c
	if mine {
		delete(s.cells, c.number)
	}
	s.mu.Unlock()
	if !mine {
		return &wire.Failed{Kind: wire.KindState, Step: "no such cell"}
	}
	return s.destroy(c)
}

// destroy ends a cell. A slot whose cell is not wholly gone is not used again,
// and counts against the capacity; what is left is tried again until it is
// gone.
func (s *server) destroy(c *cell) *wire.Closed {
	report := c.close()
	if gone(report) {
		s.free(c.slot)
	} else {
		s.work.Go(func() { s.quarantine(c) })
	}
	return report
}

// quarantineEvery is how often what is left of a cell is tried again.
const quarantineEvery = 5 * time.Second

func (s *server) quarantine(c *cell) {
	again := time.NewTicker(quarantineEvery)
	defer again.Stop()
	for {
		select {
		case <-s.over: // the reaper goes on
			return
		case <-again.C:
		}
		if gone(c.close()) {
			s.free(c.slot)
			if c.number == 0 { // a spare, or what was never built: the front has not heard of it
				return
			}
			_ = s.conn.Send(wire.Message{Body: &wire.Freed{Slot: c.number}}) // or the front is gone
			return
		}
	}
}

// closingGrace is how long trees are removed after the end of the conversation;
// the rest is for the next launcher's sweep.
const closingGrace = 3 * time.Second

// closeAll ends every cell, at the same time, and returns when no request is
// under way.
func (s *server) closeAll() {
	close(s.over)
	time.AfterFunc(closingGrace, func() { s.host.late.Store(true) })
	s.conn.Close()
	s.mu.Lock()
	s.down = true
	cells := s.cells
	s.cells = nil
	s.mu.Unlock()
	var all sync.WaitGroup
	for _, c := range cells {
		all.Go(func() { c.close() })
	}
	all.Wait()
	s.work.Wait() // no spare is made any more
	s.closeSpares()
	s.work.Wait()
	s.dropMakings()
	s.host.grounds.close()
	s.host.slice.forget()
}
