package launcher

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/callcell/callcell/internal/launcher/wire"
)

// A stolen or broken front: what comes over its socket is anything at all.

// small are ceilings within which hostile messages do no harm to the host.
func small() []string {
	return []string{
		"cells = 8", "uids.count = 16", "ceiling.memory = 32Mi", "ceiling.pids = 16", "ceiling.cpu = 1", "ceiling.scratch = 4Mi",
		"ceiling.inodes = 100", "ceiling.wall = 1s", "ceiling.openFiles = 64", "ceiling.fileSize = 4Mi",
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
		s.Image = h.text()
	}
	return s
}

// message returns a body and the descriptors that go with it.
func (h *hostile) message() (wire.Body, []int) {
	var fds []int
	for range pick(h, 0, 0, 0, 1, 4) {
		fds = append(fds, pick(h, h.fds...))
	}
	switch h.IntN(12) {
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
	}
	return pick(h, bodiesOfAnswers()...), fds
}

// TestHostileMessages: every message has its answer, no cell is built outside
// of the ceilings, and nothing stays.
func TestHostileMessages(t *testing.T) {
	messages := 4000
	if testing.Short() {
		messages = 400
	}
	c := dial(t, newPlace(t, small()...))
	c.close(t, c.open(t, smallSpec()))
	c.close(t, c.open(t, smallSpec())) // from now on a network namespace is ahead
	settled := func() []string { return targets(fdsOf(t, c.pid)) }
	var before []string
	eventually(t, "the stock of network namespaces", func() bool {
		before = settled()
		return count(before, "net") == stock
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
			allowed(t, a.body.(*wire.Open).Spec)
		}
	}
	for range messages {
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
	for _, want := range []string{"*wire.Open -> *wire.Opened", "*wire.Start -> *wire.Exited", "*wire.Close -> *wire.Closed", "*wire.Get -> failed 6"} {
		if kinds[want] == 0 {
			t.Errorf("%s did not come to pass: the test tests little: %v", want, kinds)
		}
	}
	for _, slot := range h.cells {
		c.call(t, &wire.Close{Slot: slot}) // most are closed already
	}
	noGroups(t, c)
	eventually(t, "no descriptor stays", func() bool { return slices.Equal(settled(), before) })
	if entries, err := os.ReadDir(c.run); err != nil || len(entries) != 1 {
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
	if len(s.ID) != 36 || strings.ContainsAny(s.ID, "/.\x00") || s.Image != "host" {
		t.Errorf("a cell was built for %+v", s)
	}
}

// rawLauncher starts a launcher and returns the bare front's end, after its
// hello.
func rawLauncher(t *testing.T, p place) (front int, cmd *exec.Cmd) {
	t.Helper()
	ours, theirs, err := wire.Pair()
	must(t, err)
	remote := os.NewFile(uintptr(theirs), "launcher")
	cmd = exec.Command(helper("callcell-launcher"), "-config", p.conf)
	cmd.Env, cmd.Dir, cmd.ExtraFiles = []string{}, "/", []*os.File{remote}
	cmd.Stderr = &bytes.Buffer{}
	must(t, cmd.Start(), remote.Close())
	must(t, unix.SetsockoptTimeval(ours, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: int64(patience.Seconds())}))
	if m := receive(t, ours); m.Body == nil || m.Body.Type() != wire.TypeHello {
		t.Fatalf("the launcher's first word: %+v", m.Body)
	}
	return ours, cmd
}

// receive returns the next message, the zero message for a hang-up.
func receive(t *testing.T, front int) wire.Message {
	t.Helper()
	b := make([]byte, wire.MaxMessage)
	for {
		n, err := unix.Read(front, b)
		if errors.Is(err, unix.EINTR) || errors.Is(err, unix.ECONNRESET) {
			continue
		}
		must(t, err)
		if n == 0 {
			return wire.Message{}
		}
		m, err := wire.Decode(b[:n])
		must(t, err)
		if m.Body.Type() != wire.TypeSwept {
			return m
		}
	}
}

// hungUp checks that the launcher ended the conversation because of what it
// was sent, in good order.
func hungUp(t *testing.T, front int, cmd *exec.Cmd, what string) {
	t.Helper()
	if m := receive(t, front); m.Body != nil {
		t.Errorf("%s: %+v, want a hang-up", what, m.Body)
	}
	unix.Close(front)
	_ = cmd.Wait() // its status is looked at
	said := fmt.Sprint(cmd.Stderr)
	if code := cmd.ProcessState.ExitCode(); code != 1 || !strings.Contains(said, "malformed") || strings.Contains(said, "goroutine") {
		t.Errorf("%s: exit status %d\n%s", what, code, said)
	}
}

func rawSend(t *testing.T, front int, b []byte, fds ...int) {
	t.Helper()
	var oob []byte
	if len(fds) > 0 {
		oob = unix.UnixRights(fds...)
	}
	must(t, unix.Sendmsg(front, b, oob, nil, unix.MSG_NOSIGNAL))
}

// requests are valid messages, encoded.
func requests(t *testing.T) [][]byte {
	t.Helper()
	var all [][]byte
	for i, body := range append(bodiesOfAnswers(), &wire.Open{Spec: smallSpec()}, &wire.Start{Slot: 1}, &wire.Kill{Slot: 1, Cause: wire.CauseWall}, &wire.Stop{Slot: 1},
		&wire.Get{Slot: 1, Name: "name"}, &wire.List{Slot: 1, Dir: "dir", Max: 5}, &wire.Close{Slot: 1}) {
		b, err := wire.Encode(wire.Message{Seq: uint32(i), Body: body})
		must(t, err)
		all = append(all, b)
	}
	return all
}

// TestMutatedMessages: what is no message ends the conversation; what still is
// one has an answer.
func TestMutatedMessages(t *testing.T) {
	messages, hangUps := 3000, 100
	if testing.Short() {
		messages, hangUps = 300, 10
	}
	p := newPlace(t, small()...)
	h := newHostile(t, 21)
	seeds := requests(t)
	front, cmd := rawLauncher(t, p)
	for range messages {
		b := mutate(h, pick(h, seeds...))
		m, err := wire.Decode(b)
		if len(b) == 0 || err != nil && hangUps == 0 {
			continue // an empty message is a hang-up
		}
		rawSend(t, front, b)
		if err == nil {
			if a := receive(t, front); a.Body == nil || a.Seq != m.Seq {
				t.Fatalf("% x: %+v", b, a)
			}
			continue
		}
		hangUps--
		hungUp(t, front, cmd, fmt.Sprintf("% x", b))
		front, cmd = rawLauncher(t, p)
	}
	if hangUps > 0 {
		t.Errorf("%d hang-ups too few: the test tests little", hangUps)
	}
	unix.Close(front)
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	eventually(t, "the reaper has removed the rest", func() bool { return len(groupDirs(p.parent, "*")) == 0 })
}

func mutate(h *hostile, b []byte) []byte {
	b = bytes.Clone(b)
	for range 1 + h.IntN(2) {
		switch h.IntN(5) {
		case 0:
			b = b[:h.IntN(len(b)+1)]
		case 1:
			b = append(b, byte(h.Uint32()))
		default:
			if len(b) > 0 {
				b[h.IntN(len(b))] = pick(h, 0, 1, 0xff, 0x7f, byte(h.Uint32()))
			}
		}
		if len(b) == 0 {
			return b
		}
	}
	return b
}

// TestMalformedPackets end the conversation too, and with it every cell.
func TestMalformedPackets(t *testing.T) {
	p := newPlace(t, small()...)
	done := requests(t)[3]
	h := newHostile(t, 22)
	open, err := wire.Encode(wire.Message{Seq: 1, Body: &wire.Open{Spec: smallSpec()}})
	must(t, err)
	for name, send := range map[string]func(front int){
		"too many descriptors": func(front int) { rawSend(t, front, done, h.fds[:wire.MaxFDs+1]...) },
		"far too many":         func(front int) { rawSend(t, front, done, slices.Repeat(h.fds[:1], 253)...) },
		"too long":             func(front int) { rawSend(t, front, make([]byte, wire.MaxMessage+1)) },
		"far too long":         func(front int) { rawSend(t, front, append(bytes.Clone(done), make([]byte, 100<<10)...)) },
		"one byte":             func(front int) { rawSend(t, front, []byte{1}) },
	} {
		t.Run(name, func(t *testing.T) {
			front, cmd := rawLauncher(t, p)
			rawSend(t, front, open)
			o, ok := receive(t, front).Body.(*wire.Opened)
			if !ok {
				t.Fatal("no cell")
			}
			start, err := wire.Encode(wire.Message{Seq: 2, Body: &wire.Start{Slot: o.Slot}})
			must(t, err)
			rawSend(t, front, start, h.fds[0], h.fds[0], h.fds[0], h.fds[3])
			eventually(t, "the program runs", func() bool { return len(members(p.parent)) == 2 })
			pids := members(p.parent)
			send(front)
			dead(t, soon, pids)
			hungUp(t, front, cmd, name)
		})
	}
}

// TestMemoryStaysBounded sends messages that are dear to decode and do
// nothing.
func TestMemoryStaysBounded(t *testing.T) {
	messages := 20_000
	if testing.Short() {
		messages = 5000
	}
	c := dial(t, newPlace(t))
	long := &wire.Get{Slot: 7, Name: strings.Repeat("x", 8<<10)}
	var last <-chan answered
	for i := range messages {
		last = c.ask(long)
		if i%64 == 0 {
			await(t, "an answer", last)
		}
	}
	await(t, "the last answer", last)
	var kib int
	if _, err := fmt.Sscan(procField(c.pid, "VmHWM"), &kib); err != nil || kib > 128<<10 {
		t.Errorf("%d KiB at most, %v, after %d messages of 8 KiB", kib, err, messages)
	}
}

// TestDeafFront asks and does not hear: its cells are ended in time all the
// same, and with it when it goes.
func TestDeafFront(t *testing.T) {
	p := newPlace(t, small()...)
	h := newHostile(t, 23)
	front, cmd := rawLauncher(t, p)
	open, err := wire.Encode(wire.Message{Seq: 1, Body: &wire.Open{Spec: smallSpec()}})
	must(t, err)
	rawSend(t, front, open)
	o, ok := receive(t, front).Body.(*wire.Opened)
	if !ok {
		t.Fatal("no cell")
	}
	start, err := wire.Encode(wire.Message{Seq: 2, Body: &wire.Start{Slot: o.Slot}})
	must(t, err)
	rawSend(t, front, start, h.fds[0], h.fds[0], h.fds[0], h.fds[3])
	eventually(t, "the program runs", func() bool { return len(members(p.parent)) == 2 })
	pids := members(p.parent)
	get, err := wire.Encode(wire.Message{Seq: 3, Body: &wire.Get{Slot: 100}})
	must(t, err, unix.SetNonblock(front, true))
	sent := 0
	for err == nil || errors.Is(err, unix.EINTR) {
		err = unix.Sendmsg(front, get, nil, nil, unix.MSG_NOSIGNAL)
		sent++
	}
	if !errors.Is(err, unix.EAGAIN) {
		t.Fatalf("after %d messages: %v", sent, err)
	}
	dead(t, 2*time.Second, pids) // its wall time is a second
	unix.Close(front)
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v\n%s", err, cmd.Stderr)
	}
	eventually(t, "no group is left", func() bool { return len(groupDirs(p.parent, "*")) == 0 })
}
