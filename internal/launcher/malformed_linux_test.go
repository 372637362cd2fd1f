package launcher

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/callcell/callcell/internal/launcher/wire"
)

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

// rawCell has a cell built in which a program runs, and returns its processes:
// init at least, where its wall time was over before we looked.
func rawCell(t *testing.T, p place, h *hostile, front int) (pids []int) {
	t.Helper()
	open, err := wire.Encode(wire.Message{Seq: 1, Body: &wire.Open{Spec: smallSpec()}})
	must(t, err)
	rawSend(t, front, open)
	o, ok := receive(t, front).Body.(*wire.Opened)
	if !ok {
		t.Fatal("no cell")
	}
	pids = members(p.parent)
	start, err := wire.Encode(wire.Message{Seq: 2, Body: &wire.Start{Slot: o.Slot}})
	must(t, err)
	rawSend(t, front, start, h.fds[0], h.fds[0], h.fds[0], h.fds[3])
	eventually(t, "the program runs", func() bool {
		if now := members(p.parent); len(now) > len(pids) {
			pids = now
		}
		return len(pids) == 2 || !alive(pids[0])
	})
	return pids
}

// requests are valid messages, encoded.
func requests(t *testing.T) [][]byte {
	t.Helper()
	var all [][]byte
	for i, body := range append(bodiesOfAnswers(), &wire.Open{Spec: smallSpec()}, &wire.Start{Slot: 1}, &wire.Kill{Slot: 1, Cause: wire.CauseWall}, &wire.Stop{Slot: 1},
		&wire.Get{Slot: 1, Name: "name"}, &wire.List{Slot: 1, Dir: "dir", Max: 5}, &wire.Close{Slot: 1}, &wire.Egress{}) {
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
	for name, send := range map[string]func(front int){
		"too many descriptors": func(front int) { rawSend(t, front, done, slices.Repeat(h.fds[:1], wire.MaxFDs+1)...) },
		"far too many":         func(front int) { rawSend(t, front, done, slices.Repeat(h.fds[:1], 253)...) },
		"too long":             func(front int) { rawSend(t, front, make([]byte, wire.MaxMessage+1)) },
		"far too long":         func(front int) { rawSend(t, front, append(bytes.Clone(done), make([]byte, 100<<10)...)) },
		"one byte":             func(front int) { rawSend(t, front, []byte{1}) },
	} {
		t.Run(name, func(t *testing.T) {
			front, cmd := rawLauncher(t, p)
			pids := rawCell(t, p, h, front)
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
	pids := rawCell(t, p, h, front)
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
	dead(t, patience, pids) // its wall time is a second
	unix.Close(front)
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v\n%s", err, cmd.Stderr)
	}
	eventually(t, "no group is left", func() bool { return len(groupDirs(p.parent, "*")) == 0 })
}
