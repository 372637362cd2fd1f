package launcher

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/callcell/callcell/internal/launcher/wire"
)

// A stolen or broken front: what comes over its socket is anything at all.

// small are ceilings within which hostile messages do no harm to the host.
func small() []string {
	return []string{
		"cells = 8", "uids.count = 16", "ceiling.memory = 32Mi", "ceiling.pids = 16", "ceiling.cpu = 1", "ceiling.scratch = 4Mi",
		"ceiling.inodes = 100", "ceiling.wall = 1s", "ceiling.openFiles = 64", "ceiling.fileSize = 4Mi",
		"image.wall = 1s", "image.bytes = 1Mi", "image.entries = 100",
	}
}

// numbers returns the fields of a spec that are numbers, with what small lets
// through.
func numbers(s *wire.Spec) map[*int64][2]int64 {
	const mib = 1 << 20
	second := int64(time.Second)
	return map[*int64][2]int64{
		&s.Memory: {mib, 32 * mib}, &s.Pids: {1, 16}, &s.CPU: {10, 1000}, &s.CPUTime: {1, 1 << 62}, &s.Wall: {1, second}, &s.StopGrace: {0, second},
		&s.Scratch: {4096, 4 * mib}, &s.Inodes: {1, 100}, &s.FileSize: {1, 4 * mib}, &s.OpenFiles: {8, 64},
	}
}

// A hostile front makes messages out of one seed.
type hostile struct {
	*rand.Rand
	fds   []int    // to send along: good and bad
	cells []uint32 // that were built
}

func newHostile(t *testing.T, seed uint64) *hostile {
	t.Helper()
	h := &hostile{Rand: rand.New(rand.NewPCG(seed, 1)), cells: []uint32{1}}
	good := payloadOf(t, []string{"/bin/sleep", "1000"}, nil)
	r, w := pipe(t)
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	must(t, err)
	t.Cleanup(func() { null.Close() })
	files := []*os.File{null, r, w, memfd(t, good), memfd(t, []byte("junk"))}
	for _, f := range wrongFiles(t, good) {
		files = append(files, f)
	}
	a, b, err := wire.Pair() // for the egress process
	must(t, err)
	for _, fd := range []int{a, b} {
		f := os.NewFile(uintptr(fd), "control")
		t.Cleanup(func() { f.Close() })
		files = append(files, f)
	}
	for _, f := range files {
		h.fds = append(h.fds, int(f.Fd()))
	}
	return h
}

func pick[T any](h *hostile, from ...T) T { return from[h.IntN(len(from))] }

func (h *hostile) number(low, high int64) int64 {
	return pick(h, low, high, low-1, high+1, 0, -1, math.MaxInt64, math.MinInt64, h.Int64(), 1<<h.IntN(63))
}

func (h *hostile) text() string {
	return pick(h, "", ".", "..", "/", "x", "../../../etc/shadow", "/etc/shadow", "a\x00b", "\xff\xfe", strings.Repeat("a/", 2000), strings.Repeat("x", 8000),
		"work/../../tmp", "/proc/self/fd/6", "./.", "a//b", "\n")
}

func (h *hostile) slot() uint32 {
	if h.IntN(8) > 0 {
		return pick(h, h.cells[max(0, len(h.cells)-10):]...)
	}
	return pick(h, 0, h.cells[len(h.cells)-1]+1, math.MaxUint32, h.Uint32())
}

// spec is mostly a good one, with a field or two out of its bounds.
func (h *hostile) spec() wire.Spec {
	s := spec()
	for field, b := range numbers(&s) {
		*field = b[1]
		if h.IntN(12) == 0 {
			*field = h.number(b[0], b[1])
		}
	}
	if s.Wall == int64(time.Second) {
		s.Wall = pick(h, 1, 1000, int64(20*time.Millisecond), int64(50*time.Millisecond)) // the test waits for it
	}
	if s.StopGrace == int64(time.Second) {
		s.StopGrace = pick(h, 0, 0, 1, int64(20*time.Millisecond))
	}
	if h.IntN(20) == 0 {
		s.ID = h.text()
	}
	if h.IntN(20) == 0 {
		s.Tree, s.Added = pick(h, "", h.text(), strings.Repeat("a", 64)), pick(h, "", h.text())
	}
	for h.IntN(20) == 0 {
		s.Mounts = append(s.Mounts, wire.Mount{Name: pick(h, "a", h.text()), Source: [32]byte{byte(h.Uint32())}, Target: pick(h, "/m", h.text(), "/etc", "/m/x")})
	}
	if h.IntN(4) == 0 {
		s.Ports = pick(h, []uint16{443}, []uint16{53, 80, 3128}, ascending(wire.MaxPorts))
		s.Addrs = pick(h, nil, nil, [][16]byte{{0xfd, 15: 1}}, [][16]byte{{10: 0xff, 11: 0xff, 12: 203, 15: 5}})
		for range pick(h, 0, 0, 0, 1, 2) {
			s.Ports = append(s.Ports, uint16(h.Uint32()), pick(h, s.Ports...))
		}
		for range pick(h, 0, 0, 0, 1, 60) {
			s.Addrs = append(s.Addrs, pick(h, [16]byte{}, [16]byte{15: 1}, [16]byte{10: 0xff, 11: 0xff, 12: 127}, [16]byte{0: byte(h.Uint32()), 15: byte(h.Uint32())}))
		}
	}
	if h.IntN(40) == 0 {
		s.Ports = nil
	}
	return s
}

// ascending are that many ports.
func ascending(n int) []uint16 {
	ports := make([]uint16, n)
	for i := range ports {
		ports[i] = uint16(1000 + i)
	}
	return ports
}

// message returns a body and the descriptors that go with it.
func (h *hostile) message() (wire.Body, []int) {
	var fds []int
	for range pick(h, 0, 0, 0, 1, 4) {
		fds = append(fds, pick(h, h.fds...))
	}
	switch h.IntN(14) {
	case 0, 1, 2:
		return &wire.Open{Spec: h.spec()}, fds
	case 3, 4:
		if h.IntN(3) > 0 {
			fds = []int{h.fds[0], h.fds[1], h.fds[2], h.fds[3+h.IntN(2)]}
		}
		return &wire.Start{Slot: h.slot()}, fds
	case 5:
		return &wire.Kill{Slot: h.slot(), Cause: wire.Cause(h.IntN(6))}, fds
	case 6:
		return &wire.Stop{Slot: h.slot()}, fds
	case 7:
		return &wire.Get{Slot: h.slot(), Name: h.text()}, fds
	case 8:
		return &wire.List{Slot: h.slot(), Dir: h.text(), Max: pick(h, 0, 1, h.Uint32())}, fds
	case 9, 10:
		return &wire.Close{Slot: h.slot()}, fds
	case 11:
		return &wire.Egress{}, pick(h, fds, h.fds[len(h.fds)-1:])
	case 12:
		return h.store(), pick(h, fds, fds, fds, fds, []int{h.fds[1], h.fds[2]})
	}
	return pick(h, bodiesOfAnswers()...), fds
}

// store is a request of the store of trees.
func (h *hostile) store() wire.Body {
	id, digest := pick(h, treeID(1), treeID(2), h.text()), pick(h, strings.Repeat("a", 64), h.text())
	return pick[wire.Body](h,
		&wire.Unpack{ID: id, Bytes: h.number(1, 1<<20), Entries: h.number(1, 100), Dir: h.IntN(4) > 0, EROFS: h.IntN(2) > 0}, &wire.Unpack{ID: id, Bytes: 1, Entries: 1, Dir: true},
		&wire.Keep{ID: id, Digest: digest, Owner: pick(h, treeOwner, treeOwner, h.text())}, &wire.Drop{ID: id}, &wire.Trees{Owner: pick(h, "", "", treeOwner, h.text())}, &wire.Remove{Digest: digest, Owner: pick(h, treeOwner, treeOwner, h.text())}, &wire.OpenTree{Digest: digest, File: wire.TreeListing})
}

// wanted are the sorts of answers that are to come to pass. Which do hangs on what
// a launcher has come to; some are a handful among thousands.
func wanted() []string {
	all := []string{"*wire.Open -> *wire.Opened", "*wire.Start -> *wire.Exited", "*wire.Close -> *wire.Closed", "*wire.Get -> failed 6",
		"*wire.Egress -> *wire.Opened", "*wire.Egress -> failed 3", "networked", "*wire.Unpack -> failed 3", "*wire.Drop -> failed 8",
		"*wire.Keep -> failed 3", "*wire.Trees -> *wire.Found"}
	if !testing.Short() {
		all = append(all, "*wire.Unpack -> *wire.Unpacked", "*wire.Remove -> failed 10", "*wire.Open -> failed 9", "*wire.Open -> failed 10")
	}
	return all
}

// TestHostileMessages: every message has its answer, no cell is built outside
// of the ceilings, and nothing stays.
func TestHostileMessages(t *testing.T) {
	messages := 4000
	if testing.Short() {
		messages = 400
	}
	c := dial(t, withProbe(t, small()...))
	c.close(t, c.open(t, smallSpec()))
	c.close(t, c.open(t, smallSpec())) // from now on a network namespace is ahead
	settled := func() []string { return targets(fdsOf(t, c.pid)) }
	var before []string
	eventually(t, "the stock of network namespaces", func() bool {
		before = settled()
		return count(before, "net") == stock && count(before, "socket") == 2 // none is just being made
	})

	h := newHostile(t, 20)
	kinds := map[string]int{}
	type asked struct {
		body wire.Body
		ch   <-chan answered
	}
	var pending []asked
	settle := func(a asked) {
		got, ok := await(t, fmt.Sprintf("an answer to %+v", a.body), a.ch)
		if !ok {
			t.Fatalf("the launcher hung up on %+v\n%s", a.body, c.stderr.String())
		}
		closeAll(got.fds)
		kinds[fmt.Sprintf("%T -> %s", a.body, sort(got.body))]++
		if o, built := got.body.(*wire.Opened); built {
			h.cells = append(h.cells, o.Slot)
			if m, cell := a.body.(*wire.Open); cell {
				allowed(t, m.Spec)
				if len(m.Spec.Ports) > 0 {
					kinds["networked"]++
				}
			}
		}
	}
	missing := func() []string {
		return slices.DeleteFunc(wanted(), func(want string) bool { return kinds[want] > 0 })
	}
	for n := 0; n < messages || n < 20*messages && len(missing()) > 0; n++ {
		body, fds := h.message()
		pending = append(pending, asked{body, c.ask(body, fds...)})
		if len(pending) == 16 {
			settle(pending[0])
			pending = pending[1:]
		}
	}
	for _, a := range pending {
		settle(a)
	}
	if left := missing(); len(left) > 0 {
		t.Errorf("%q did not come to pass: the test tests little: %v", left, kinds)
	}
	for _, slot := range h.cells {
		c.call(t, &wire.Close{Slot: slot}) // most are closed already
	}
	noGroups(t, c)
	defer func() {
		if t.Failed() {
			t.Logf("descriptors before: %q\nnow: %q", before, settled())
		}
	}()
	eventually(t, "no descriptor stays", func() bool { return len(more(before, settled())) == 0 })
	if left := c.inStore(t); len(left) != 0 {
		t.Errorf("trees of the launcher: %v", left)
	}
	if entries, err := os.ReadDir(c.run); err != nil || len(entries) != 0 {
		t.Errorf("files of the launcher: %v, %v", entries, err)
	}
	c.close(t, c.open(t, smallSpec()))
	c.hangUp(t)
	c.ended(t, 0)
}

func smallSpec() wire.Spec {
	s := spec()
	for field, b := range numbers(&s) {
		*field = b[1]
	}
	s.StopGrace = 0
	return s
}

// sort is the sort of an answer.
func sort(b wire.Body) string {
	if f, ok := b.(*wire.Failed); ok {
		return fmt.Sprint("failed ", f.Kind)
	}
	return fmt.Sprintf("%T", b)
}

// targets returns descriptors without their numbers.
func targets(fds []string) []string {
	for i, fd := range fds {
		_, fds[i], _ = strings.Cut(fd, " ")
	}
	slices.Sort(fds)
	return fds
}

// more are those that are there now, and were not before: what was on its way out
// then may be gone.
func more(before, now []string) (new []string) {
	for _, fd := range slices.Compact(slices.Clone(now)) {
		if count(now, fd) > count(before, fd) {
			new = append(new, fd)
		}
	}
	return new
}

func count(all []string, what string) (n int) {
	for _, s := range all {
		if s == what {
			n++
		}
	}
	return n
}

// allowed checks a spec of which a cell was built.
func allowed(t *testing.T, s wire.Spec) {
	t.Helper()
	for field, b := range numbers(&s) {
		if *field < b[0] || *field > b[1] {
			t.Errorf("a cell was built with %d, out of %d to %d: %+v", *field, b[0], b[1], s)
		}
	}
	if err := s.CheckNetwork(); err != nil {
		t.Errorf("a cell was built with %v", err)
	}
	if len(s.ID) != 36 || strings.ContainsAny(s.ID, "/.\x00") || s.Tree+s.Added != "" || len(s.Mounts) > 0 { // none of the latter is there
		t.Errorf("a cell was built for %+v", s)
	}
}
