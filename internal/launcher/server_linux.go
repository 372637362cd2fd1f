package launcher

import (
	"errors"
	"io"
	"runtime"
	"runtime/debug"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/callcell/callcell/internal/launcher/wire"
)

// requestsPerCell bounds the requests that are worked on at once; beyond it
// the socket is not read.
const requestsPerCell = 2

// collectEvery is how many cells are closed between two garbage collections:
// the collector is off, because it would have to wait for a child that is
// being prepared.
const collectEvery = 64

// A server answers one front.
type server struct {
	host *host
	conn *wire.Conn
	gate chan struct{} // one token a request under way
	work sync.WaitGroup

	mu    sync.Mutex // guards the following
	cells map[uint32]*cell
	slots []bool // in use; a slot whose teardown is incomplete stays so
	shut  int    // cells closed
}

// serve answers requests until the front hangs up or the reaper dies, then
// ends every cell. It returns nil only for a hang-up.
func serve(h *host, conn *wire.Conn) error {
	debug.SetGCPercent(-1)
	most := int(h.conf.Cells)
	s := &server{host: h, conn: conn, gate: make(chan struct{}, requestsPerCell*most), cells: map[uint32]*cell{}, slots: make([]bool, most)}
	defer s.closeAll()
	lost := make(chan error, 1)
	go func() {
		select {
		case <-h.reaper.gone:
			lost <- errors.New("the reaper is dead: no cell may run without it")
			conn.Close()
		case <-lost:
		}
	}()
	err := s.loop()
	select {
	case err := <-lost:
		return err
	default:
		lost <- nil
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
		s.gate <- struct{}{}
		s.work.Add(1)
		go func() {
			defer func() { <-s.gate; s.work.Done() }()
			s.answer(m, fds)
		}()
	}
}

func (h *host) hello() *wire.Hello {
	return &wire.Hello{
		Version: wire.Version, Kernel: h.kernel, Cgroup: uint8(h.groups.Version()), Landlock: int32(h.landlock),
		MaxCells: uint32(h.conf.Cells), Filter: h.common, Missing: h.missing(), Reaper: uint32(h.reaper.pid),
	}
}

// answer does one request and sends its one answer.
func (s *server) answer(m wire.Message, fds []int) {
	body, out := s.do(m.Body, fds)
	closeAll(fds)
	// A front that is gone hears nothing; loop sees the hang-up itself.
	_ = s.conn.Send(wire.Message{Seq: m.Seq, Body: body}, out...)
	closeAll(out)
}

// do takes over fds only for Start.
func (s *server) do(b wire.Body, fds []int) (answer wire.Body, out []int) {
	if m, ok := b.(*wire.Open); ok {
		return s.open(m.Spec), nil
	}
	slot, ok := slotOf(b)
	c := s.cell(slot)
	if !ok || c == nil {
		return &wire.Failed{Kind: wire.KindState, Step: "no such cell"}, nil
	}
	switch m := b.(type) {
	case *wire.Start:
		return c.start(fds), nil
	case *wire.Kill:
		c.kill(m.Cause)
		return &wire.Done{}, nil
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
		return s.close(slot, c), nil
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
	case *wire.Get:
		return m.Slot, true
	case *wire.List:
		return m.Slot, true
	case *wire.Close:
		return m.Slot, true
	}
	return 0, false
}

func (s *server) cell(slot uint32) *cell {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cells[slot]
}

func (s *server) open(spec wire.Spec) wire.Body {
	if err := s.host.check(spec); err != nil {
		return failure(wire.KindSpec, err.Error(), nil)
	}
	enforced, err := s.host.enforced(spec)
	if err != nil {
		return failure(wire.KindSpec, "digest", err)
	}
	slot, ok := s.reserve()
	if !ok {
		return &wire.Failed{Kind: wire.KindCapacity, Step: "every slot is in use"}
	}
	c, f := s.host.open(slot, spec)
	if f != nil {
		s.free(slot)
		return f
	}
	s.mu.Lock()
	s.cells[uint32(slot)] = c
	s.mu.Unlock()
	return &wire.Opened{Slot: uint32(slot), Enforced: enforced}
}

func (s *server) reserve() (int, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, used := range s.slots {
		if !used {
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

// close destroys a cell. A slot whose cell is not wholly gone is not used
// again, and counts against the capacity; what is left is tried again until
// it is gone.
func (s *server) close(slot uint32, c *cell) wire.Body {
	s.mu.Lock()
	mine := s.cells[slot] == c
	delete(s.cells, slot)
	s.shut++
	collect := s.shut%collectEvery == 0
	s.mu.Unlock()
	if !mine {
		return &wire.Failed{Kind: wire.KindState, Step: "no such cell"}
	}
	report := c.close()
	if gone(report) {
		s.free(int(slot))
	} else {
		go s.quarantine(int(slot), c)
	}
	if collect {
		runtime.GC()
	}
	return report
}

// quarantineEvery is how often what is left of a cell is tried again.
const quarantineEvery = 5 * time.Second

func (s *server) quarantine(slot int, c *cell) {
	for range time.Tick(quarantineEvery) {
		if gone(c.close()) {
			s.free(slot)
			return
		}
	}
}

// closeAll ends every cell, at the same time.
func (s *server) closeAll() {
	s.conn.Close()
	s.mu.Lock()
	var all sync.WaitGroup
	for _, c := range s.cells {
		all.Go(func() { c.close() })
	}
	s.mu.Unlock()
	all.Wait()
	s.work.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.cells { // opened meanwhile
		c.close()
	}
}

// get answers with a descriptor of one regular file.
func (c *cell) get(name string) (wire.Body, []int) {
	if !c.stopped() {
		return &wire.Failed{Kind: wire.KindState, Step: "files are read after the stop"}, nil
	}
	fd, st, err := c.scratch.open(name)
	if err != nil {
		return failure(wire.KindFile, fileWords(err), nil), nil
	}
	return &wire.Found{Size: st.Size, Executable: st.Mode&0o100 != 0}, []int{fd}
}

// list answers with a memfd of names, each ended by NUL.
func (c *cell) list(dir string, most int) (wire.Body, []int) {
	if !c.stopped() {
		return &wire.Failed{Kind: wire.KindState, Step: "files are read after the stop"}, nil
	}
	names, cut, err := c.scratch.list(dir, most)
	if err != nil {
		return failure(wire.KindFile, fileWords(err), nil), nil
	}
	fd, size, err := namesFile(names)
	if err != nil {
		return failure(wire.KindBroken, "list", err), nil
	}
	return &wire.Found{Size: size, Cut: cut}, []int{fd}
}

func namesFile(names []string) (fd int, size int64, err error) {
	var b []byte
	for _, n := range names {
		b = append(append(b, n...), 0)
	}
	fd, err = unix.MemfdCreate("names", unix.MFD_CLOEXEC)
	if err != nil {
		return -1, 0, err
	}
	for at := int64(0); at < int64(len(b)); {
		n, err := unix.Pwrite(fd, b[at:], at)
		if err != nil {
			unix.Close(fd)
			return -1, 0, err
		}
		at += int64(n)
	}
	return fd, int64(len(b)), nil
}

// fileWords says why a file cannot be had, in words that go to the caller.
func fileWords(err error) string {
	switch {
	case errors.Is(err, errNotRegular), errors.Is(err, unix.ELOOP), errors.Is(err, unix.EISDIR):
		return "not a regular file"
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR):
		return "not there"
	case errors.Is(err, unix.EXDEV):
		return "outside the working directory"
	case errors.Is(err, unix.ENAMETOOLONG):
		return "name too long"
	}
	return "cannot be read"
}
