package packet

import (
	"errors"
	"io"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestHangUp(t *testing.T) {
	for name, hangUp := range map[string]func(*Conn) error{"close": (*Conn).Close, "half": (*Conn).CloseSend} {
		t.Run(name, func(t *testing.T) {
			a, b := conns(t, limits())
			send(t, a, []byte("last"))
			if err := hangUp(a); err != nil {
				t.Fatal(err)
			}
			if got, _, err := b.Receive(); err != nil || string(got) != "last" {
				t.Errorf("%q, %v; what was sent before the hang-up comes first", got, err)
			}
			for range 2 {
				if _, _, err := b.Receive(); !errors.Is(err, io.EOF) {
					t.Errorf("%v, want io.EOF", err)
				}
			}
		})
	}
}

func TestShutdownKeepsWhatHasCome(t *testing.T) {
	a, b := conns(t, limits())
	null := files(t, 1)
	send(t, a, []byte("first"))
	send(t, a, []byte("second"), null...)
	if err := b.Shutdown(); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"first", "second"} {
		got, fds, err := b.Receive()
		CloseAll(fds)
		if err != nil || string(got) != want {
			t.Errorf("%q, %v; want %q", got, err, want)
		}
	}
	if err := receive(b); !errors.Is(err, io.EOF) {
		t.Errorf("then %v, want io.EOF", err)
	}
	for name, c := range map[string]*Conn{"theirs": a, "ours": b} {
		if err := c.Send([]byte("x")); !errors.Is(err, unix.EPIPE) {
			t.Errorf("%s: sending after Shutdown: %v, want EPIPE", name, err)
		}
	}
}

func TestShutdownUnblocks(t *testing.T) {
	for name, op := range map[string]func(*Conn) error{"send": fill, "receive": receive} {
		t.Run(name, func(t *testing.T) {
			c, _, _ := conn(t, limits())
			done := make(chan error)
			go func() { done <- op(c) }()
			if err := c.Shutdown(); err != nil {
				t.Fatal(err)
			}
			if err := <-done; !errors.Is(err, io.EOF) && !errors.Is(err, unix.EPIPE) {
				t.Errorf("%v, want io.EOF or EPIPE", err)
			}
		})
	}
}

// TestCloseSendDoesNotWait for a Send whose other side does not read.
func TestCloseSendDoesNotWait(t *testing.T) {
	c, _, _ := conn(t, limits())
	if err := c.SetSendDeadline(time.Now().Add(20 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if err := fill(c); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatal(err)
	}
	if err := c.SetSendDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	go func() { done <- fill(c) }()
	if err := c.CloseSend(); err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; !errors.Is(err, os.ErrClosed) && !errors.Is(err, unix.EPIPE) {
		t.Errorf("%v, want os.ErrClosed or EPIPE", err)
	}
}

// TestSendingToTheDead: also the first time, when the kernel has a reset to
// tell of.
func TestSendingToTheDead(t *testing.T) {
	a, b := conns(t, limits())
	send(t, b, []byte("unread"))
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := b.Send([]byte("x")); !errors.Is(err, unix.EPIPE) {
			t.Errorf("%v, want EPIPE", err)
		}
	}
}

// TestHangUpWithUnreadMessages: the kernel then says ECONNRESET, and says it
// first. It is a hang-up like any other, and what was sent before it counts.
func TestHangUpWithUnreadMessages(t *testing.T) {
	a, b := conns(t, limits())
	null := files(t, 1)
	for range 3 {
		send(t, b, []byte("unread"), null...)
	}
	send(t, a, []byte("last"))
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if got, _, err := b.Receive(); err != nil || string(got) != "last" {
		t.Errorf("%q, %v; want the last word", got, err)
	}
	if _, _, err := b.Receive(); !errors.Is(err, io.EOF) {
		t.Errorf("%v, want io.EOF", err)
	}
	if err := b.Send([]byte("x"), null...); !errors.Is(err, unix.EPIPE) {
		t.Errorf("sending to nobody: %v, want EPIPE", err)
	}
}

func TestHalfClosedStillHears(t *testing.T) {
	a, b := conns(t, limits())
	if err := a.CloseSend(); err != nil {
		t.Fatal(err)
	}
	send(t, b, []byte("heard"))
	if got, _, err := a.Receive(); err != nil || string(got) != "heard" {
		t.Errorf("%q, %v", got, err)
	}
	if err := a.Send([]byte("x")); !errors.Is(err, unix.EPIPE) {
		t.Errorf("sending after CloseSend: %v, want EPIPE", err)
	}
}

// fill sends until the error, which the test waits for: nobody reads.
func fill(c *Conn) error {
	for {
		if err := c.Send(make([]byte, 1000)); err != nil {
			return err
		}
	}
}

func receive(c *Conn) error {
	_, _, err := c.Receive()
	return err
}

func TestCloseUnblocks(t *testing.T) {
	for name, op := range map[string]func(*Conn) error{"send": fill, "receive": receive} {
		t.Run(name, func(t *testing.T) {
			c, _, _ := conn(t, limits())
			done := make(chan error)
			go func() { done <- op(c) }()
			if err := c.Close(); err != nil {
				t.Fatal(err)
			}
			if err := <-done; !errors.Is(err, os.ErrClosed) {
				t.Errorf("%v, want os.ErrClosed", err)
			}
			if err := op(c); !errors.Is(err, os.ErrClosed) {
				t.Errorf("after Close: %v, want os.ErrClosed", err)
			}
			if err := c.CloseSend(); !errors.Is(err, os.ErrClosed) {
				t.Errorf("CloseSend after Close: %v, want os.ErrClosed", err)
			}
		})
	}
}

func TestDeadlinesUnblock(t *testing.T) {
	for name, c := range map[string]struct {
		op  func(*Conn) error
		set func(*Conn, time.Time) error
	}{"send": {fill, (*Conn).SetSendDeadline}, "receive": {receive, (*Conn).SetReceiveDeadline}} {
		t.Run(name, func(t *testing.T) {
			a, b := conns(t, limits())
			done := make(chan error)
			go func() { done <- c.op(a) }()
			if err := c.set(a, time.Now()); err != nil {
				t.Fatal(err)
			}
			if err := <-done; !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("%v, want os.ErrDeadlineExceeded", err)
			}
			if err := c.set(a, time.Time{}); err != nil {
				t.Fatal(err)
			}
			_ = b.Close()
			if err := c.op(a); !errors.Is(err, unix.EPIPE) && !errors.Is(err, io.EOF) {
				t.Errorf("%v; the deadline is gone", err)
			}
		})
	}
}
