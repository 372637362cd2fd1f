package wire

import (
	"errors"
	"io"
	"os"
	"reflect"
	"slices"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/callcell/callcell/internal/packet"
	"github.com/callcell/callcell/internal/testing/leak"
)

// conn returns one end as a Conn and the other as a bare descriptor.
func conn(t *testing.T) (*Conn, int) {
	t.Helper()
	leak.Check(t)
	a, b, err := Pair()
	if err != nil {
		t.Fatal(err)
	}
	c, err := NewConn(a)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Close() // some tests have closed it
		_ = unix.Close(b)
	})
	return c, b
}

// conns returns both ends as Conns.
func conns(t *testing.T) (*Conn, *Conn) {
	t.Helper()
	leak.Check(t)
	a, b, err := Pair()
	if err != nil {
		t.Fatal(err)
	}
	var both [2]*Conn
	for i, fd := range []int{a, b} {
		if both[i], err = NewConn(fd); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = both[i].Close() })
	}
	return both[0], both[1]
}

// files opens n descriptors for a test.
func files(t *testing.T, n int) []int {
	t.Helper()
	var fds []int
	for range n {
		f, err := os.Open(os.DevNull)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		fds = append(fds, int(f.Fd()))
	}
	return fds
}

func send(t *testing.T, fd int, b []byte, oob []byte) {
	t.Helper()
	if err := unix.Sendmsg(fd, b, oob, nil, unix.MSG_NOSIGNAL); err != nil {
		t.Fatal(err)
	}
}

// malformed checks that the next message is one, and that no descriptor of it
// stays open: leak.Check looks.
func malformed(t *testing.T, c *Conn) {
	t.Helper()
	if m, fds, err := c.Receive(); !errors.Is(err, ErrMalformed) || m != (Message{}) || fds != nil {
		t.Errorf("%+v, %v, %v; want ErrMalformed alone", m, fds, err)
	}
}

func TestMessagesPass(t *testing.T) {
	a, b := conns(t)
	for i, body := range bodies(t) {
		want := Message{Seq: uint32(i), Body: body}
		if err := a.Send(want); err != nil {
			t.Fatal(err)
		}
		got, fds, err := b.Receive()
		if err != nil || len(fds) != 0 || !reflect.DeepEqual(got, want) {
			t.Errorf("%T: %+v, %v, %v", body, got, fds, err)
		}
	}
}

func TestDescriptorsPass(t *testing.T) {
	a, b := conns(t)
	sent := files(t, MaxFDs)
	if err := a.Send(Message{Body: &Start{Slot: 1}}, sent...); err != nil {
		t.Fatal(err)
	}
	_, got, err := b.Receive()
	if err != nil || len(got) != MaxFDs {
		t.Fatal(got, err)
	}
	defer packet.CloseAll(got)
	for i, fd := range got {
		flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
		if err != nil || flags&unix.FD_CLOEXEC == 0 {
			t.Errorf("descriptor %d: flags %#x, %v; want close-on-exec", i, flags, err)
		}
		if slices.Contains(sent, fd) {
			t.Errorf("descriptor %d is the sender's own", i)
		}
	}
}

func TestTooManyDescriptors(t *testing.T) {
	c, raw := conn(t)
	for _, n := range []int{MaxFDs + 1, 128, 253} {
		send(t, raw, encode(t, Message{Body: &Done{}}), unix.UnixRights(files(t, n)...))
		malformed(t, c)
	}
}

func TestMalformedBytesCloseTheirDescriptors(t *testing.T) {
	c, raw := conn(t)
	oob := unix.UnixRights(files(t, MaxFDs)...)
	for _, b := range [][]byte{{0}, {byte(TypeDone), 0, 0, 0, 0, 0}, make([]byte, MaxMessage), make([]byte, MaxMessage+1), make([]byte, 64<<10)} {
		send(t, raw, b, oob)
		malformed(t, c)
	}
}

// TestOversizedPacket: what was cut off must not be mended by what is left.
func TestOversizedPacket(t *testing.T) {
	c, raw := conn(t)
	send(t, raw, append(encode(t, Message{Body: &Done{}}), make([]byte, 2*MaxMessage)...), nil)
	malformed(t, c)
}

func TestHangUp(t *testing.T) {
	for name, hangUp := range map[string]func(*Conn) error{"close": (*Conn).Close, "half": (*Conn).CloseSend} {
		t.Run(name, func(t *testing.T) {
			a, b := conns(t)
			if err := a.Send(Message{Seq: 9, Body: &Done{}}); err != nil {
				t.Fatal(err)
			}
			if err := hangUp(a); err != nil {
				t.Fatal(err)
			}
			if m, _, err := b.Receive(); err != nil || m.Seq != 9 {
				t.Errorf("%+v, %v; what was sent before the hang-up comes first", m, err)
			}
			if _, _, err := b.Receive(); !errors.Is(err, io.EOF) {
				t.Errorf("%v, want io.EOF", err)
			}
		})
	}
}

// TestHangUpWithUnreadMessages: the kernel then says ECONNRESET, and says it
// first. It is a hang-up like any other, and what was sent before it counts.
func TestHangUpWithUnreadMessages(t *testing.T) {
	a, b := conns(t)
	for range 3 {
		if err := b.Send(Message{Body: &Done{}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.Send(Message{Seq: 7, Body: &Swept{Left: 1}}); err != nil {
		t.Fatal(err)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if m, _, err := b.Receive(); err != nil || m.Seq != 7 {
		t.Errorf("%+v, %v; want the last word", m, err)
	}
	if _, _, err := b.Receive(); !errors.Is(err, io.EOF) {
		t.Errorf("%v, want io.EOF", err)
	}
}

func TestHalfClosedStillHears(t *testing.T) {
	a, b := conns(t)
	if err := a.CloseSend(); err != nil {
		t.Fatal(err)
	}
	if err := b.Send(Message{Seq: 3, Body: &Swept{}}); err != nil {
		t.Fatal(err)
	}
	if m, _, err := a.Receive(); err != nil || m.Seq != 3 {
		t.Errorf("%+v, %v", m, err)
	}
	if err := a.Send(Message{Body: &Done{}}); !errors.Is(err, unix.EPIPE) {
		t.Errorf("sending after CloseSend: %v, want EPIPE", err)
	}
}

func TestCloseUnblocksReceive(t *testing.T) {
	a, _ := conn(t)
	done := make(chan error)
	go func() {
		_, _, err := a.Receive()
		done <- err
	}()
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; !errors.Is(err, os.ErrClosed) {
		t.Errorf("%v, want os.ErrClosed", err)
	}
}

// TestCloseUnblocksSend: the other side does not read.
func TestCloseUnblocksSend(t *testing.T) {
	a, _ := conn(t)
	done := make(chan error)
	go func() {
		for {
			if err := a.Send(Message{Body: &Get{Name: string(make([]byte, maxString))}}); err != nil {
				done <- err
				return
			}
		}
	}()
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; !errors.Is(err, os.ErrClosed) {
		t.Errorf("%v, want os.ErrClosed", err)
	}
}

// TestHammer sends from many goroutines; every message must arrive once, whole,
// with its own descriptors.
func TestHammer(t *testing.T) {
	const senders, each = 8, 200
	a, b := conns(t)
	null := files(t, 2)
	var sending sync.WaitGroup
	for i := range senders {
		sending.Go(func() {
			for k := range each {
				m := Message{Seq: uint32(i*each + k), Body: &Get{Slot: uint32(i), Name: string(make([]byte, k))}}
				if err := a.Send(m, null[:k%3]...); err != nil {
					t.Error(err)
				}
			}
		})
	}
	seen := map[uint32]bool{}
	for range senders * each {
		m, fds, err := b.Receive()
		if err != nil {
			t.Fatal(err)
		}
		packet.CloseAll(fds)
		k := int(m.Seq) % each
		if g, ok := m.Body.(*Get); !ok || len(g.Name) != k || len(fds) != k%3 || seen[m.Seq] {
			t.Fatalf("message %d: %T with %d descriptors", m.Seq, m.Body, len(fds))
		}
		seen[m.Seq] = true
	}
	sending.Wait()
}

func TestSendRefusesWhatCannotBeRead(t *testing.T) {
	a, _ := conn(t)
	if err := a.Send(Message{Body: &Failed{}}); !errors.Is(err, ErrMalformed) {
		t.Errorf("%v, want ErrMalformed", err)
	}
}
