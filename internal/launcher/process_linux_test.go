package launcher

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/callcell/callcell/internal/launcher/wire"
)

func TestOneCell(t *testing.T) {
	c := dial(t, newPlace(t))
	if c.hello.Version != wire.Version || c.hello.Refused != "" || c.hello.MaxCells != 512 {
		t.Errorf("%+v", c.hello)
	}
	slot := c.open(t, spec())
	p := c.start(t, slot, "sh", "-c", "echo hello; echo out > file; mkdir d; echo deep > d/deep; exit 3")
	p.says(t, "hello")
	e := p.exit(t)
	if ws := syscall.WaitStatus(e.Status); !e.Known || ws.ExitStatus() != 3 || e.Cause != wire.CauseNone {
		t.Errorf("%+v", e)
	}
	if e.Wall <= 0 || e.CPU <= 0 || e.MemoryPeak <= 0 || e.InodesUse != 3 || e.ScratchMax != spec().Scratch || e.InodesMax != spec().Inodes {
		t.Errorf("counted: %+v", e)
	}
	found := c.call(t, &wire.Get{Slot: slot, Name: "file"})
	if f, ok := found.body.(*wire.Found); !ok || f.Size != 4 || len(found.fds) != 1 {
		t.Errorf("%+v", found)
	}
	list := c.call(t, &wire.List{Slot: slot, Dir: ".", Max: 10})
	if f, ok := list.body.(*wire.Found); !ok || f.Cut || len(list.fds) != 1 {
		t.Errorf("%+v", list)
	}
	c.close(t, slot)
	noGroups(t, c)
	c.hangUp(t)
	c.ended(t, 0)
}

// TestOutOfOrder: each request that does not fit is answered, and changes
// nothing.
func TestOutOfOrder(t *testing.T) {
	c := dial(t, newPlace(t, "cells = 3", "uids.count = 8"))
	requests := func(slot uint32) []wire.Body {
		return []wire.Body{
			&wire.Kill{Slot: slot, Cause: wire.CauseCancel}, &wire.Stop{Slot: slot}, &wire.Get{Slot: slot, Name: "x"},
			&wire.List{Slot: slot, Dir: "."}, &wire.Close{Slot: slot}, &wire.Start{Slot: slot},
		}
	}
	for _, slot := range []uint32{0, 1, 3, 512, math.MaxInt32, math.MaxUint32} {
		for _, body := range requests(slot) {
			c.refused(t, wire.KindState, body)
		}
	}
	for _, b := range bodiesOfAnswers() {
		c.refused(t, wire.KindState, b)
	}

	slot := c.open(t, spec())
	c.refused(t, wire.KindFile, &wire.Get{Slot: slot, Name: "x"}) // nothing runs: files may be read
	p := c.start(t, slot, "sh", "-c", "echo ready; read x")
	p.says(t, "ready")
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	must(t, err)
	defer null.Close()
	fd := int(null.Fd())
	payload := memfd(t, payloadOf(t, []string{"/bin/true"}, nil))
	c.refused(t, wire.KindState, &wire.Start{Slot: slot}, fd, fd, fd, int(payload.Fd())) // it runs
	c.refused(t, wire.KindState, &wire.Get{Slot: slot, Name: "x"})
	c.refused(t, wire.KindState, &wire.List{Slot: slot, Dir: ".", Max: 1})
	must(t, p.stdin.Close())
	if e := p.exit(t); e.Cause != wire.CauseNone {
		t.Errorf("%+v", e)
	}
	c.refused(t, wire.KindState, &wire.Start{Slot: slot}, fd, fd, fd, int(payload.Fd())) // it has run
	for range 2 {
		if a := c.call(t, &wire.Stop{Slot: slot}); a.body.Type() != wire.TypeDone {
			t.Errorf("%+v", a.body)
		}
	}
	c.close(t, slot)
	for _, body := range requests(slot) {
		c.refused(t, wire.KindState, body)
	}
	next := c.open(t, spec())
	for _, body := range requests(slot) {
		c.refused(t, wire.KindState, body) // what comes late does not meet the next cell
	}
	c.close(t, next)
}

// bodiesOfAnswers are messages that only the launcher sends.
func bodiesOfAnswers() []wire.Body {
	return []wire.Body{
		&wire.Hello{}, &wire.Opened{}, &wire.Exited{}, &wire.Done{}, &wire.Found{}, &wire.Closed{}, &wire.Failed{Kind: wire.KindSetup}, &wire.Swept{},
	}
}

func TestCapacity(t *testing.T) {
	c := dial(t, newPlace(t, "cells = 3", "uids.count = 8"))
	if c.hello.MaxCells != 3 {
		t.Errorf("%d cells", c.hello.MaxCells)
	}
	slots := []uint32{c.open(t, spec()), c.open(t, spec()), c.open(t, spec())}
	c.refused(t, wire.KindCapacity, &wire.Open{Spec: spec()})
	c.close(t, slots[1])
	if slot := c.open(t, spec()); slices.Contains(slots, slot) {
		t.Errorf("cell %d again", slot)
	}
	c.refused(t, wire.KindCapacity, &wire.Open{Spec: spec()})
}

// TestCeilings: each number of a spec just inside and just outside of its
// bounds.
func TestCeilings(t *testing.T) {
	c := dial(t, newPlace(t, "ceiling.memory = 128Mi", "ceiling.pids = 40", "ceiling.cpu = 2.5", "ceiling.scratch = 16Mi",
		"ceiling.inodes = 300", "ceiling.wall = 90s", "ceiling.openFiles = 100", "ceiling.fileSize = 9Mi"))
	const mib = 1 << 20
	for name, v := range map[string]struct {
		field     func(*wire.Spec) *int64
		low, high int64
	}{
		"memory":    {func(s *wire.Spec) *int64 { return &s.Memory }, mib, 128 * mib},
		"pids":      {func(s *wire.Spec) *int64 { return &s.Pids }, 1, 40},
		"cpu":       {func(s *wire.Spec) *int64 { return &s.CPU }, 10, 2500},
		"cpuTime":   {func(s *wire.Spec) *int64 { return &s.CPUTime }, 1, 1 << 62},
		"wall":      {func(s *wire.Spec) *int64 { return &s.Wall }, 1, int64(90 * time.Second)},
		"stopGrace": {func(s *wire.Spec) *int64 { return &s.StopGrace }, 0, int64(90 * time.Second)},
		"scratch":   {func(s *wire.Spec) *int64 { return &s.Scratch }, 4096, 16 * mib},
		"inodes":    {func(s *wire.Spec) *int64 { return &s.Inodes }, 1, 300},
		"fileSize":  {func(s *wire.Spec) *int64 { return &s.FileSize }, 1, 9 * mib},
		"openFiles": {func(s *wire.Spec) *int64 { return &s.OpenFiles }, 8, 100},
	} {
		for _, n := range []int64{v.low, v.high} {
			s := spec()
			*v.field(&s) = n
			c.close(t, c.open(t, s))
		}
		for _, n := range []int64{v.low - 1, v.high + 1, 0, -1, math.MinInt64, math.MaxInt64} {
			if n == v.low {
				continue // a grace of 0
			}
			s := spec()
			*v.field(&s) = n
			if f := c.refused(t, wire.KindSpec, &wire.Open{Spec: s}); !strings.HasPrefix(f.Step, name+":") {
				t.Errorf("%s = %d: %q", name, n, f.Step)
			}
		}
	}
	for _, id := range []string{"", "x", strings.Repeat("a", 35), strings.Repeat("a", 37), strings.Repeat("A", 36), strings.Repeat("a", 17) + "/" + strings.Repeat("a", 18),
		"../" + strings.Repeat("a", 33), strings.Repeat("a", 24) + "/../../../..", strings.Repeat("a", 35) + "\x00", strings.Repeat("a", 35) + "\n", strings.Repeat("g", 36)} {
		s := spec()
		s.ID = id
		c.refused(t, wire.KindSpec, &wire.Open{Spec: s})
	}
	for _, digest := range []string{"host", "..", "/", "oci:x", strings.Repeat("A", 64), strings.Repeat("a", 63), strings.Repeat("a", 63) + "\x00", "../" + strings.Repeat("a", 61)} {
		tree, added := spec(), spec()
		tree.Tree, added.Added = digest, digest
		c.refused(t, wire.KindSpec, &wire.Open{Spec: tree})
		c.refused(t, wire.KindSpec, &wire.Open{Spec: added})
	}
	noGroups(t, c)
}

// TestLimitsOfAGroup: what was asked for is what the kernel holds.
func TestLimitsOfAGroup(t *testing.T) {
	c := dial(t, newPlace(t))
	s := spec()
	s.Memory, s.Pids, s.CPU = 48<<20, 7, 500
	slot := c.open(t, s)
	for file, want := range map[string][]string{
		"memory.limit_in_bytes": {itoa(48 << 20)}, "memory.max": {itoa(48 << 20)},
		"pids.max":         {"8"}, // and init
		"cpu.cfs_quota_us": {"50000"}, "cpu.max": {"50000 100000"},
	} {
		for _, dir := range groupDirs(c.parent, "*") {
			text, err := os.ReadFile(filepath.Join(dir, file))
			if err == nil && strings.TrimSpace(string(text)) != want[0] {
				t.Errorf("%s: %s, want %s", file, text, want[0])
			}
		}
	}
	c.close(t, slot)
}

// TestLeastCell: the least of everything is enough for the set-up itself.
func TestLeastCell(t *testing.T) {
	c := dial(t, newPlace(t))
	for name, spare := range map[string]func(*wire.Spec){
		"openFiles": func(s *wire.Spec) { s.OpenFiles = 8 },
		"pids":      func(s *wire.Spec) { s.Pids = 1 },
		"inodes":    func(s *wire.Spec) { s.Inodes = 1 },
		"scratch":   func(s *wire.Spec) { s.Scratch = 4096 },
		"fileSize":  func(s *wire.Spec) { s.FileSize = 1 },
		"cpu":       func(s *wire.Spec) { s.CPU = 10 },
	} {
		t.Run(name, func(t *testing.T) {
			s := spec()
			spare(&s)
			slot := c.open(t, s)
			if e := c.start(t, slot, "/bin/true").exit(t); !e.Known || e.Status != 0 {
				t.Errorf("%+v", e)
			}
			c.close(t, slot)
		})
	}
}

// TestStartWithWrongDescriptors: there is an answer, no program runs, and the
// cell can still be used and closed.
func TestStartWithWrongDescriptors(t *testing.T) {
	c := dial(t, newPlace(t))
	slot := c.open(t, spec())
	good := payloadOf(t, []string{"/bin/true"}, nil)
	payload := int(memfd(t, good).Fd())
	r, w := pipe(t)
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	must(t, err)
	defer null.Close()
	fd := int(null.Fd())
	for name, f := range wrongFiles(t, good) {
		t.Run(name, func(t *testing.T) {
			bad := int(f.Fd())
			for i := range 3 {
				fds := []int{fd, fd, fd, payload}
				fds[i] = bad
				c.refused(t, wire.KindSpec, &wire.Start{Slot: slot}, fds...)
			}
			c.refused(t, wire.KindSpec, &wire.Start{Slot: slot}, fd, fd, fd, bad)
		})
	}
	for name, fds := range map[string][]int{
		"none": nil, "one": {fd}, "three": {fd, fd, fd}, "a payload first": {payload, fd, fd, fd}, "streams alone": {fd, fd, fd, fd}, "a pipe": {fd, fd, fd, int(r.Fd())},
	} {
		t.Run(name, func(t *testing.T) { c.refused(t, wire.KindSpec, &wire.Start{Slot: slot}, fds...) })
	}
	// Ends of pipes the wrong way round, or without another end, are the
	// program's own misfortune.
	must(t, r.Close())
	a := c.call(t, &wire.Start{Slot: slot}, int(w.Fd()), int(w.Fd()), int(w.Fd()), payload)
	if e, ok := a.body.(*wire.Exited); !ok || e.Status != 0 {
		t.Errorf("%+v", a.body)
	}
	c.close(t, slot)
}

// wrongFiles are open files that no cell is given.
func wrongFiles(t *testing.T, good []byte) map[string]*os.File {
	t.Helper()
	dir := t.TempDir()
	wrong := map[string]*os.File{}
	open := func(name, path string, flags int) {
		f, err := os.OpenFile(path, flags, 0o600)
		must(t, err)
		t.Cleanup(func() { f.Close() })
		wrong[name] = f
	}
	made := func(name string, fd int, err error) {
		must(t, err)
		wrong[name] = os.NewFile(uintptr(fd), name)
		t.Cleanup(func() { wrong[name].Close() })
	}
	open("the host's root", "/", os.O_RDONLY)
	open("a mere handle", dir, unix.O_PATH|os.O_RDONLY)
	open("a file", filepath.Join(dir, "file"), os.O_RDWR|os.O_CREATE)
	open("a device", "/dev/zero", os.O_RDWR)
	open("the terminal's multiplexer", "/dev/ptmx", os.O_RDWR|unix.O_NOCTTY)
	open("another's memory", fmt.Sprintf("/proc/%d/mem", os.Getpid()), os.O_RDWR)
	open("a namespace", "/proc/self/ns/mnt", os.O_RDONLY)
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	made("a socket", fd, err)
	fd, err = unix.Eventfd(0, unix.EFD_CLOEXEC)
	made("an eventfd", fd, err)
	fd, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	made("an epoll", fd, err)
	fd, err = unix.PidfdOpen(os.Getpid(), 0)
	made("a process", fd, err)
	fd, err = unix.MemfdCreate("unsealed", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	made("a memfd that can change", fd, err)
	_, err = wrong["a memfd that can change"].Write(good)
	must(t, err)
	fd, err = unix.MemfdCreate("half", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	made("a memfd that can grow", fd, err)
	_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_WRITE|unix.F_SEAL_SHRINK)
	must(t, err)
	return wrong
}

// TestPayloadThatIsNone is init's to refuse.
func TestPayloadThatIsNone(t *testing.T) {
	c := dial(t, newPlace(t))
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	must(t, err)
	defer null.Close()
	fd := int(null.Fd())
	for name, content := range map[string][]byte{"nothing": nil, "junk": bytes.Repeat([]byte("junk"), 1000), "cut": payloadOf(t, []string{"x"}, nil)[:25]} {
		t.Run(name, func(t *testing.T) {
			slot := c.open(t, spec())
			c.refused(t, wire.KindBroken, &wire.Start{Slot: slot}, fd, fd, fd, int(memfd(t, content).Fd()))
			c.close(t, slot)
		})
	}
	slot := c.open(t, spec())
	p := c.start(t, slot, "/nowhere")
	if a, _ := await(t, "the end", p.answer); a.body.(*wire.Failed).Kind != wire.KindExec || a.body.(*wire.Failed).Errno != int32(syscall.ENOENT) {
		t.Errorf("%+v", a.body)
	}
	c.close(t, slot)
}

// TestManyTinyCells asks for cells that are too small to run anything, all at
// once. There are answers, and everybody else lives.
func TestManyTinyCells(t *testing.T) {
	const cells = 500
	c := dial(t, newPlace(t))
	lasting := spec()
	lasting.Wall = int64(10 * patience)
	neighbour := c.start(t, c.open(t, lasting), "sh", "-c", "echo ready; read x; exit 5")
	neighbour.says(t, "ready")
	tiny := spec()
	tiny.Memory = 1 << 20
	var opens []<-chan answered
	for range cells {
		opens = append(opens, c.ask(&wire.Open{Spec: tiny}))
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	must(t, err)
	defer null.Close()
	fd := int(null.Fd())
	payloads := []*os.File{
		memfd(t, payloadOf(t, []string{"/bin/sh", "-c", "exec tail /dev/zero"}, nil)), // takes what memory there is
		memfd(t, payloadOf(t, []string{"/bin/true"}, nil, wire.PayloadFile{Name: "big", Data: make([]byte, 4<<20)})),
		memfd(t, payloadOf(t, []string{"/bin/true"}, nil)),
	}
	var slots []uint32
	var starts, closes []<-chan answered
	for _, ch := range opens {
		a, ok := await(t, "an answer to Open", ch)
		if o, opened := a.body.(*wire.Opened); opened {
			slots = append(slots, o.Slot)
			starts = append(starts, c.ask(&wire.Start{Slot: o.Slot}, fd, fd, fd, int(payloads[len(slots)%3].Fd())))
		} else if f, failed := a.body.(*wire.Failed); !ok || !failed {
			t.Fatalf("%+v", f)
		}
	}
	kinds := map[string]int{}
	for _, ch := range starts {
		a, ok := await(t, "an answer to Start", ch)
		if !ok {
			t.Fatal("the launcher is gone")
		}
		kinds[describe(a.body)]++
	}
	t.Logf("%d of %d were built: %v", len(slots), cells, kinds)
	for _, slot := range slots {
		closes = append(closes, c.ask(&wire.Close{Slot: slot}))
	}
	for _, ch := range closes {
		a, _ := await(t, "an answer to Close", ch)
		if closed, ok := a.body.(*wire.Closed); !ok || !gone(closed) {
			t.Errorf("%+v", a.body)
		}
	}
	must(t, neighbour.stdin.Close())
	if e := neighbour.exit(t); syscall.WaitStatus(e.Status).ExitStatus() != 5 {
		t.Errorf("the neighbour: %+v", e)
	}
	c.close(t, neighbour.slot)
	c.close(t, c.open(t, spec()))
}

// describe is the sort of an answer to Start.
func describe(b wire.Body) string {
	switch m := b.(type) {
	case *wire.Exited:
		return fmt.Sprintf("exited by cause %d, status known %v", m.Cause, m.Known)
	case *wire.Failed:
		step, _, _ := strings.Cut(m.Step, ":")
		return fmt.Sprintf("failed %d at %q", m.Kind, step)
	}
	return fmt.Sprintf("%T", b)
}

// TestEnforced: the digest is that of what bounds a cell, not of whose it is.
func TestEnforced(t *testing.T) {
	p := newPlace(t)
	digest := func(c *client, s wire.Spec) [32]byte {
		o, ok := c.call(t, &wire.Open{Spec: s}).body.(*wire.Opened)
		if !ok {
			t.Fatal("no cell")
		}
		c.close(t, o.Slot)
		return o.Enforced
	}
	c, other := dial(t, p), dial(t, p)
	want := digest(c, spec())
	another := spec()
	another.ID = "01923f6c-0000-7000-8000-ffffffffffff"
	for name, got := range map[string][32]byte{"again": digest(c, spec()), "another call": digest(c, another), "another launcher": digest(other, spec())} {
		if got != want {
			t.Errorf("%s: %x, want %x", name, got, want)
		}
	}
	seen := map[[32]byte]bool{want: true}
	s := spec()
	for field := range numbers(&s) {
		*field++
		if d := digest(c, s); seen[d] {
			t.Errorf("%+v has another's digest", s)
		} else {
			seen[d] = true
		}
	}
}
