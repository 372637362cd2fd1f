package launcher

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/callcell/callcell/internal/launcher/cgroup"
)

func TestReaperEndsCellsOfADeadLauncher(t *testing.T) {
	r := startReaping(t)
	r.setup(t, sleeper(t))
	known, young, born := r.cell(t, 0), r.cell(t, 7), r.cell(t, 1023)
	r.tell(t, known, noteOpen, notePID)
	r.tell(t, young, noteOpen) // cloned, and the launcher died before it could say so
	r.tell(t, born, noteOpen, notePID)
	second := sleeper(t) // of a cell whose first process the reaper knows
	for _, dir := range groupDirs(r.parent, known.group.Name()) {
		if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(itoa(second)), 0); err != nil {
			t.Fatal(err)
		}
	}
	r.hangUp()
	r.finish(t, 0)
	dead(t, soon, []int{known.pid, young.pid, born.pid, second}) // who leaves its group is not yet seen as dead
	if left := r.left(); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// TestReaperReadsWhatWasSaidBeforeTheHangUp sends and dies at once.
func TestReaperReadsWhatWasSaidBeforeTheHangUp(t *testing.T) {
	r := startReaping(t)
	var cells []*fakeCell
	for slot := range 20 {
		cells = append(cells, r.cell(t, slot))
	}
	r.setup(t, sleeper(t))
	for _, c := range cells {
		r.tell(t, c, noteOpen, notePID)
	}
	r.tell(t, cells[3], noteDone)
	spared := cells[3]
	r.hangUp()
	r.finish(t, 0)
	for _, c := range cells {
		if c != spared {
			dead(t, soon, []int{c.pid})
		}
	}
	if !alive(spared.pid) {
		t.Errorf("slot %d is dead", spared.slot)
	}
	if left := r.left(); len(left) != len(r.groups.Parents()) || filepath.Base(left[0]) != spared.group.Name() {
		t.Errorf("left: %v, want the group of the slot that was done", left)
	}
	killGroup(r.left()[0])
	eventually(t, "the spared group can be removed", func() bool {
		for _, dir := range r.left() {
			_ = os.Remove(dir) // EBUSY for a moment
		}
		return len(r.left()) == 0
	})
}

func TestReaperEndsCellsWhenTheFrontHangsUp(t *testing.T) {
	r := startReaping(t)
	launcher := sleeper(t)
	r.setup(t, launcher)
	early, late := r.cell(t, 1), r.cell(t, 2)
	r.tell(t, early, noteOpen, notePID)
	if err := r.front.Close(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the cell is dead at once", func() bool { return !alive(early.pid) })
	r.tell(t, late, noteOpen, notePID) // was being built meanwhile
	if !alive(launcher) {
		t.Error("the launcher was given no time")
	}
	r.hangUp()
	r.gone(t)
	eventually(t, "the late cell is dead", func() bool { return !alive(late.pid) })
	if left := r.left(); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	if !alive(launcher) {
		t.Error("a launcher that hung up in time was killed")
	}
}

// TestReaperIgnoresAHalfClosedFront: it may still want to hear.
func TestReaperIgnoresAHalfClosedFront(t *testing.T) {
	r := startReaping(t)
	r.setup(t, sleeper(t))
	c := r.cell(t, 1)
	r.tell(t, c, noteOpen, notePID)
	if err := r.front.CloseSend(); err != nil {
		t.Fatal(err)
	}
	r.settle(t)
	if !alive(c.pid) {
		t.Error("the cell is dead")
	}
	r.hangUp()
	r.finish(t, 0)
}

// settle waits until the reaper has read every note: a note with a pipe's end
// that it does not keep is answered by the end of that pipe.
func (r *reaping) settle(t *testing.T) {
	t.Helper()
	read, write := pipe(t)
	r.note(t, 99, 0, "", int(write.Fd()))
	write.Close()
	if _, err := io.ReadAll(read); err != nil {
		t.Fatal(err)
	}
}

func TestReaperKillsALauncherThatHangs(t *testing.T) {
	if testing.Short() {
		t.Skip("takes as long as a launcher is given")
	}
	t.Parallel()
	r := startReaping(t)
	launcher := sleeper(t)
	r.setup(t, launcher)
	c := r.cell(t, 1)
	r.tell(t, c, noteOpen, notePID)
	if err := r.front.Close(); err != nil {
		t.Fatal(err)
	}
	within(t, 2*patience, "the launcher is killed", func() bool { return !alive(launcher) })
	late := r.cell(t, 2)
	r.tell(t, late, noteOpen, notePID) // its last words
	r.hangUp()
	r.gone(t)
	dead(t, soon, []int{c.pid, late.pid})
	if len(r.left()) > 0 {
		t.Errorf("left: %v", r.left())
	}
}

func TestReaperIgnoresSignals(t *testing.T) {
	r := startReaping(t)
	r.setup(t, sleeper(t))
	c := r.cell(t, 1)
	r.tell(t, c, noteOpen, notePID)
	r.settle(t)
	for _, sig := range []unix.Signal{unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGPIPE} {
		if err := unix.Kill(r.pid, sig); err != nil {
			t.Fatal(err)
		}
	}
	r.settle(t)
	if !alive(r.pid) || !alive(c.pid) {
		t.Errorf("reaper alive %v, cell alive %v", alive(r.pid), alive(c.pid))
	}
	r.hangUp()
	r.finish(t, 0)
}

// TestReaperSurvivesMalformedNotes: it keeps no descriptor of one, and goes on.
func TestReaperSurvivesMalformedNotes(t *testing.T) {
	r := startReaping(t)
	r.setup(t, sleeper(t))
	c := r.cell(t, 5)
	r.tell(t, c, noteOpen, notePID)
	r.settle(t)
	before := fdsOf(t, r.pid)

	null := lock(t)
	many := func(n int) []int { return slices.Repeat([]int{null}, n) }
	text := func(op, slot uint32, name string) []byte {
		b := binary.LittleEndian.AppendUint32(nil, op)
		b = binary.LittleEndian.AppendUint32(b, slot)
		return append(b, name...)
	}
	full := string(make([]byte, noteName))
	long := string(slices.Repeat([]byte("x"), noteName))
	for _, b := range [][]byte{
		{1}, {2, 0, 0}, text(noteSetup, 0, ""), text(0, 0, full), text(99, 0, full), text(1<<31, 0, full),
		text(noteOpen, reaperSlots, full), text(noteOpen, 1<<31, long), text(notePID, 1<<32-1, full), text(noteDone, reaperSlots, full),
		text(notePID, 17, full), // no such cell
		text(noteDone, 17, full), text(noteOpen, 0, long+long+long), make([]byte, 60_000),
	} {
		for _, n := range []int{0, 2, 3, 16, 17, 253} {
			r.raw(t, b, many(n)...)
		}
	}
	r.raw(t, text(notePID, 17, full), null)
	r.raw(t, text(noteOpen, reaperSlots, full), null)
	r.settle(t)
	if after := fdsOf(t, r.pid); !slices.Equal(before, after) {
		t.Errorf("descriptors before: %v\nafter: %v", before, after)
	}
	if !alive(c.pid) {
		t.Error("a cell is dead")
	}
	r.hangUp()
	r.finish(t, 0)
	dead(t, soon, []int{c.pid})
}

// TestReaperLetsGoOfASlot: notes about a slot that is used anew replace what
// was known.
func TestReaperLetsGoOfASlot(t *testing.T) {
	r := startReaping(t)
	r.setup(t, sleeper(t))
	r.settle(t)
	before := len(fdsOf(t, r.pid))
	first, second := r.cell(t, 1), r.cell(t, 2)
	r.tell(t, first, noteOpen, notePID, notePID)
	r.settle(t)
	if n := len(fdsOf(t, r.pid)); n != before+2 {
		t.Errorf("%d descriptors more, want the lock and the pidfd", n-before)
	}
	r.note(t, noteOpen, first.slot, second.group.Name(), lock(t))
	r.settle(t)
	if n := len(fdsOf(t, r.pid)); n != before+1 {
		t.Errorf("%d descriptors more, want the lock", n-before)
	}
	r.note(t, noteDone, first.slot, "")
	r.settle(t)
	if n := len(fdsOf(t, r.pid)); n != before {
		t.Errorf("%d descriptors more", n-before)
	}
	r.tell(t, first, noteOpen)
	r.tell(t, second, noteOpen)
	r.hangUp()
	r.finish(t, 0)
}

// TestReaperCountsWhatItCannotRemove needs a group that stays: one with a
// group below it. The reaper says so, and goes on until it can be removed, with
// the lock that keeps the uid from use and the claim that keeps the parent.
func TestReaperCountsWhatItCannotRemove(t *testing.T) {
	if testing.Short() {
		t.Skip("takes as long as the reaper tries")
	}
	t.Parallel()
	r := startReaping(t)
	r.setup(t, sleeper(t))
	c, other := r.cell(t, 1), r.cell(t, 2)
	r.tell(t, c, noteOpen, notePID)
	r.tell(t, other, noteOpen, notePID)
	below := filepath.Join(groupDirs(r.parent, c.group.Name())[0], "below")
	if err := os.Mkdir(below, 0o755); err != nil {
		t.Fatal(err)
	}
	r.hangUp()
	r.lastWord(t, 1)
	dead(t, soon, []int{c.pid, other.pid})
	if len(groupDirs(r.parent, other.group.Name())) > 0 {
		t.Error("one group that stays kept another")
	}
	if fds := fdsOf(t, r.pid); !slices.ContainsFunc(fds, func(fd string) bool { return number(fd) > 4 && strings.HasSuffix(fd, os.DevNull) }) {
		t.Errorf("the lock is gone: %v", fds)
	}
	if _, err := r.groups.Claim("another's"); !errors.Is(err, cgroup.ErrClaimed) {
		t.Errorf("the claim is gone: %v", err)
	}
	if err := os.Remove(below); err != nil {
		t.Error(err)
	}
	r.gone(t)
	if left := groupDirs(r.parent, c.group.Name()); len(left) > 0 {
		t.Errorf("it ended without having removed %v", left)
	}
	claim, err := r.groups.Claim("another's")
	if err != nil {
		t.Fatalf("a claim outlived the reaper: %v", err)
	}
	unix.Close(claim)
}

// TestReaperPosture: what it may do and holds, exhaustively.
func TestReaperPosture(t *testing.T) {
	r := startReaping(t)
	r.setup(t, sleeper(t))
	r.settle(t)
	for field, want := range map[string]string{
		"CapInh": "0000000000000000", "CapPrm": "0000000000000020", "CapEff": "0000000000000020", // KILL
		"CapBnd": "0000000000000000", "CapAmb": "0000000000000000", "NoNewPrivs": "1",
		"SigIgn": "0000000000005003", "SigCgt": "0000000000000000", "SigBlk": "0000000000000000", // HUP INT PIPE TERM
		"Threads": "1",
	} {
		if got := procField(r.pid, field); got != want {
			t.Errorf("%s: %s, want %s", field, got, want)
		}
	}
	want := []string{"0 /dev/null", "1 /dev/null", "2 /dev/null", "3 socket", "4 socket", "5 anon_inode:[pidfd]"}
	parents := append(groupDirs(r.parent, "."), groupDirs(r.parent, cgroup.ClaimName)...)
	got := fdsOf(t, r.pid)
	if len(got) != len(want)+len(parents) || !slices.Equal(got[:len(want)], want) {
		t.Errorf("descriptors %v, want %v and %v", got, want, parents)
	}
	for _, fd := range got[min(len(want), len(got)):] {
		if _, dir, _ := strings.Cut(fd, " "); !slices.Contains(parents, dir) {
			t.Errorf("descriptor %s is no parent of groups, nor its claim", fd)
		}
	}
	if sid, err := unix.Getsid(r.pid); err != nil || sid != r.pid {
		t.Errorf("session %d, %v: it must be its own", sid, err)
	}
	if env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", r.pid)); err != nil || len(env) != 0 {
		t.Errorf("environment %q, %v", env, err)
	}
	if dir, err := os.Readlink(fmt.Sprintf("/proc/%d/cwd", r.pid)); err != nil || dir != "/" {
		t.Errorf("working directory %s, %v", dir, err)
	}
	var limit unix.Rlimit
	if err := unix.Prlimit(r.pid, unix.RLIMIT_NOFILE, nil, &limit); err != nil || limit.Cur != limit.Max {
		t.Errorf("open files %+v, %v: it needs two for each slot", limit, err)
	}
	r.hangUp()
	r.finish(t, 0)
}

// TestReaperHoldsEverySlot fills all slots of a reaper that was started with a
// low soft limit.
func TestReaperHoldsEverySlot(t *testing.T) {
	var was unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	if was.Max < 2*reaperSlots+64 {
		t.Skipf("only %d files may be open here", was.Max)
	}
	r := startReaping(t)
	r.setup(t, sleeper(t))
	pid := sleeper(t)
	fd, null := pidfdOf(t, pid), lock(t)
	defer unix.Close(fd)
	r.settle(t)
	before := len(fdsOf(t, r.pid))
	for slot := range reaperSlots {
		r.note(t, noteOpen, slot, fmt.Sprintf("c%d-none", slot), null)
		r.note(t, notePID, slot, "", fd)
	}
	r.settle(t)
	if n := len(fdsOf(t, r.pid)) - before; n != 2*reaperSlots {
		t.Errorf("%d descriptors, want two for each of %d slots", n, reaperSlots)
	}
	r.hangUp()
	r.finish(t, 0)
	dead(t, soon, []int{pid})
}
