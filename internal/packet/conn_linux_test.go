package packet

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"slices"
	"sync"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/callcell/callcell/internal/testing/leak"
)

func limits() Limits { return Limits{Message: 1000, FDs: 4} }

// conn returns one end as a Conn, and both as bare descriptors, of which ours
// is the Conn's.
func conn(t *testing.T, l Limits) (c *Conn, ours, theirs int) {
	t.Helper()
	leak.Check(t)
	ours, theirs, err := Pair()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(theirs) })
	if c, err = New(ours, l); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() }) // some tests have closed it
	return c, ours, theirs
}

// conns returns both ends as Conns.
func conns(t *testing.T, l Limits) (*Conn, *Conn) {
	t.Helper()
	leak.Check(t)
	a, b, err := Pair()
	if err != nil {
		t.Fatal(err)
	}
	var both [2]*Conn
	for i, fd := range []int{a, b} {
		if both[i], err = New(fd, l); err != nil {
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
		fd, err := unix.Open(os.DevNull, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { unix.Close(fd) })
		fds = append(fds, fd)
	}
	return fds
}

func sendRaw(t *testing.T, fd int, b, oob []byte) {
	t.Helper()
	if err := unix.Sendmsg(fd, b, oob, nil, unix.MSG_NOSIGNAL); err != nil {
		t.Fatal(err)
	}
}

func send(t *testing.T, c *Conn, b []byte, fds ...int) {
	t.Helper()
	if err := c.Send(b, fds...); err != nil {
		t.Fatal(err)
	}
}

// malformed checks that the next message is one, and that no descriptor of it
// is handed out; that none stays open, leak.Check looks.
func malformed(t *testing.T, c *Conn) {
	t.Helper()
	if b, fds, err := c.Receive(); !errors.Is(err, ErrMalformed) || b != nil || fds != nil {
		t.Errorf("%d bytes, %v, %v; want ErrMalformed alone", len(b), fds, err)
	}
}

func TestMessagesKeepTheirBounds(t *testing.T) {
	a, b := conns(t, limits())
	for _, n := range []int{1, 2, 999, 1000} {
		want := bytes.Repeat([]byte{byte(n)}, n)
		send(t, a, want)
		if got, fds, err := b.Receive(); err != nil || len(fds) != 0 || !bytes.Equal(got, want) {
			t.Errorf("%d bytes: %d came, %v, %v", n, len(got), fds, err)
		}
	}
}

func TestDescriptorsPass(t *testing.T) {
	a, b := conns(t, limits())
	sent := files(t, 4)
	send(t, a, []byte("x"), sent...)
	_, got, err := b.Receive()
	if err != nil || len(got) != 4 {
		t.Fatal(got, err)
	}
	defer CloseAll(got)
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

func TestSendStaysWithinTheLimits(t *testing.T) {
	c, _, theirs := conn(t, limits())
	null := files(t, 5)
	for name, err := range map[string]error{
		"an empty message":         c.Send(nil),
		"a byte too many":          c.Send(make([]byte, 1001)),
		"a descriptor too many":    c.Send([]byte("x"), null...),
		"an empty one with a file": c.Send(nil, null[0]),
	} {
		if !errors.Is(err, ErrLimits) {
			t.Errorf("%s: %v, want ErrLimits", name, err)
		}
	}
	if n, _, err := unix.Recvfrom(theirs, make([]byte, 10), unix.MSG_DONTWAIT); !errors.Is(err, unix.EAGAIN) {
		t.Errorf("something was sent: %d bytes, %v", n, err)
	}
}

func TestLimitsThatAreNone(t *testing.T) {
	leak.Check(t)
	for _, l := range []Limits{{}, {Message: -1}, {Message: 1, FDs: -1}, {Message: 1, FDs: MaxFDs + 1}} {
		a, b, err := Pair()
		if err != nil {
			t.Fatal(err)
		}
		if c, err := New(a, l); !errors.Is(err, ErrLimits) || c != nil {
			t.Errorf("%+v: %v, want ErrLimits", l, err)
		}
		unix.Close(b) // New has closed the other, says leak.Check
	}
}

func TestTooManyDescriptors(t *testing.T) {
	for _, most := range []int{0, 1, 3, 4} { // the kernel rounds the room for an odd number up
		c, _, theirs := conn(t, Limits{Message: 10, FDs: most})
		for _, n := range []int{most + 1, most + 2, 64, MaxFDs} {
			sendRaw(t, theirs, []byte("x"), unix.UnixRights(files(t, n)...))
			malformed(t, c)
		}
	}
}

// TestOversizedMessage: what was cut off must not be mended by what is left.
func TestOversizedMessage(t *testing.T) {
	c, _, theirs := conn(t, limits())
	oob := unix.UnixRights(files(t, 4)...)
	for _, n := range []int{1001, 1002, 64 << 10} {
		sendRaw(t, theirs, make([]byte, n), nil)
		malformed(t, c)
		sendRaw(t, theirs, make([]byte, n), oob)
		malformed(t, c)
	}
	sendRaw(t, theirs, []byte("x"), nil)
	if b, _, err := c.Receive(); err != nil || string(b) != "x" {
		t.Errorf("%q, %v; the next message is whole again", b, err)
	}
}

// TestEmptyMessage: the kernel does not tell it from a hang-up, so it is one,
// and brings no descriptor.
func TestEmptyMessage(t *testing.T) {
	c, _, theirs := conn(t, limits())
	oob := unix.UnixRights(files(t, 2)...)
	msg := unix.Msghdr{Control: &oob[0]} // unix.Sendmsg would put in a byte
	msg.SetControllen(len(oob))
	if _, _, errno := unix.Syscall(unix.SYS_SENDMSG, uintptr(theirs), uintptr(unsafe.Pointer(&msg)), 0); errno != 0 {
		t.Fatal(errno)
	}
	if b, fds, err := c.Receive(); !errors.Is(err, io.EOF) || b != nil || fds != nil {
		t.Errorf("%q, %v, %v; want io.EOF alone", b, fds, err)
	}
}

// TestForeignControlMessages: the other side may hold our end too, and ask for
// more than descriptors.
func TestForeignControlMessages(t *testing.T) {
	for name, option := range map[string]int{"credentials": unix.SO_PASSCRED, "pidfd": unix.SO_PASSPIDFD} {
		t.Run(name, func(t *testing.T) {
			c, ours, theirs := conn(t, limits())
			if err := unix.SetsockoptInt(ours, unix.SOL_SOCKET, option, 1); err != nil {
				t.Skipf("not in this kernel: %v", err)
			}
			sendRaw(t, theirs, []byte("x"), unix.UnixRights(files(t, 1)...))
			malformed(t, c)
		})
	}
}

func TestDescriptorsOfABrokenControlMessage(t *testing.T) {
	whole := unix.UnixRights(1000)
	for name, oob := range map[string][]byte{
		"a length beyond": func() []byte { b := bytes.Clone(whole); b[0] = 255; return b }(),
		"no length":       make([]byte, unix.SizeofCmsghdr),
	} {
		if fds, err := descriptors(oob); !errors.Is(err, ErrMalformed) || fds != nil {
			t.Errorf("%s: %v, %v", name, fds, err)
		}
	}
}

func TestInterruptedCallsAreMadeAgain(t *testing.T) {
	c, _, _ := conn(t, limits())
	for _, write := range []bool{false, true} {
		interrupted := 3
		err := c.raw(write, func(int) error {
			if interrupted--; interrupted >= 0 {
				return unix.EINTR
			}
			return nil
		})
		if err != nil || interrupted != -1 {
			t.Errorf("write %v: %v after %d more", write, err, interrupted)
		}
	}
}

// TestTheLongestMessagePasses whatever this host's default buffer.
func TestTheLongestMessagePasses(t *testing.T) {
	l := Limits{Message: 192 << 10, FDs: 80}
	a, b := conns(t, l)
	go func() { _ = a.Send(make([]byte, l.Message), files(t, l.FDs)...) }()
	got, fds, err := b.Receive()
	CloseAll(fds)
	if err != nil || len(got) != l.Message || len(fds) != l.FDs {
		t.Errorf("%d bytes, %d descriptors, %v", len(got), len(fds), err)
	}
}

func TestTheBufferHoldsTheLongestMessage(t *testing.T) {
	_, ours, _ := conn(t, limits())
	if err := unix.SetsockoptInt(ours, unix.SOL_SOCKET, unix.SO_SNDBUF, 8<<10); err != nil {
		t.Fatal(err)
	}
	widen(ours, 64<<10)
	if got, err := unix.GetsockoptInt(ours, unix.SOL_SOCKET, unix.SO_SNDBUF); err != nil || got < 64<<10 {
		t.Errorf("%d bytes, %v", got, err)
	}
}

// TestHammer sends from many goroutines; every message must arrive once, whole,
// with its own descriptors.
func TestHammer(t *testing.T) {
	const senders, each = 8, 200
	a, b := conns(t, limits())
	null := files(t, 2)
	var sending sync.WaitGroup
	for i := range senders {
		sending.Go(func() {
			for k := range each {
				m := append(binary.BigEndian.AppendUint32(nil, uint32(i*each+k)), make([]byte, k)...)
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
		CloseAll(fds)
		n := binary.BigEndian.Uint32(m)
		if k := int(n) % each; len(m) != 4+k || len(fds) != k%3 || seen[n] {
			t.Fatalf("message %d: %d bytes with %d descriptors", n, len(m), len(fds))
		}
		seen[n] = true
	}
	sending.Wait()
}
