package guest

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/callcell/callcell/internal/guest/mux"
	"github.com/callcell/callcell/internal/guest/wire"
	"github.com/callcell/callcell/internal/testing/leak"
)

// A liar is a guest that keeps to the frames, and says in them what it likes.
type liar struct {
	m *mux.Mux
	// answers plays one stream of the host's; it returns and the stream ends.
	answers func(s *mux.Stream, n wire.Note)
}

// late is what a liar may take that ends, however slow this host is.
func late() times { return times{stall: time.Minute, end: time.Minute} }

// soon is the same for one that is to be given up at the end.
func soon() times { return times{stall: time.Minute, end: 200 * time.Millisecond} }

// lie dials one.
func lie(t testing.TB, answers func(s *mux.Stream, n wire.Note)) (*Host, *liar) {
	t.Helper()
	return lieFor(t, late(), answers)
}

func lieFor(t testing.TB, bounds times, answers func(s *mux.Stream, n wire.Note)) (*Host, *liar) {
	t.Helper()
	leak.Check(t)
	ours, its := net.Pipe()
	l := &liar{m: mux.New(its, mux.Options{Most: 256, Own: 2 * wire.MaxTunnels}), answers: answers}
	go func() { _ = l.m.Hello() }()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case s := <-l.m.Accepted():
				var n wire.Note
				if wire.Decode(s.Note(), &n) == nil {
					go l.answers(s, n)
				}
			case <-l.m.Done():
				return
			}
		}
	}()
	h, err := dial(t.Context(), ours, bounds)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = h.Close()
		l.m.Close()
		<-ended
	})
	return h, l
}

// says sends an answer, and the end.
func says(s *mux.Stream, messages ...wire.Message) {
	for _, m := range messages {
		b, err := wire.Encode(m)
		if err != nil {
			panic(err)
		}
		_ = s.Reply(b)
	}
	_ = s.CloseWrite()
}

// hands hands over a file, or what it says is one, and the end.
func hands(s *mux.Stream, f *wire.Found, bytes string) {
	_ = wire.WriteTo(s, f)
	_, _ = io.WriteString(s, bytes)
	_ = s.CloseWrite()
}

// operations are all that a host asks of a guest.
func operations() map[string]func(ctx context.Context, h *Host) error {
	return map[string]func(ctx context.Context, h *Host) error{
		"prepare": func(ctx context.Context, h *Host) error { return h.Prepare(ctx, Place{Scratch: 1}) },
		"put": func(ctx context.Context, h *Host) error {
			return h.Put(ctx, []File{{Name: "a", Data: make([]byte, 1<<20)}})
		},
		"exec": func(ctx context.Context, h *Host) error {
			_, err := h.Exec(ctx, Command{Argv: []string{"a"}, Stdin: make([]byte, 1<<20)})
			return err
		},
		"signal": func(ctx context.Context, h *Host) error { return h.Signal(ctx, 15) },
		"stop":   func(ctx context.Context, h *Host) error { return h.Stop(ctx) },
		"list":   func(ctx context.Context, h *Host) error { _, _, err := h.List(ctx, "a", 10); return err },
		"get": func(ctx context.Context, h *Host) error {
			return h.Get(ctx, []string{"a"}, 100, func(int, Output, error) {})
		},
	}
}

// TestAGuestThatEndsEachStreamAtOnce is given up, and says which word it broke.
func TestAGuestThatEndsEachStreamAtOnce(t *testing.T) {
	for end, f := range map[string]func(s *mux.Stream){
		"END":             func(s *mux.Stream) { _ = s.CloseWrite() },
		"RESET":           func(s *mux.Stream) { _ = s.Reset() },
		"noise":           func(s *mux.Stream) { _ = s.Reply([]byte("noise")); _ = s.CloseWrite() },
		"an empty answer": func(s *mux.Stream) { _ = s.Reply(nil); _ = s.CloseWrite() },
	} {
		for name, op := range operations() {
			t.Run(end+" to "+name, func(t *testing.T) {
				h, _ := lie(t, func(s *mux.Stream, n wire.Note) {
					if n.Op == wire.OpPut || n.Op == wire.OpPrepare {
						go func() { _, _ = io.Copy(io.Discard, s) }()
					}
					if n.Op != wire.OpStderr {
						f(s)
					}
				})
				if err := op(t.Context(), h); !errors.Is(err, ErrBroken) {
					t.Errorf("%v", err)
				}
				<-h.Done()
			})
		}
	}
}

// TestAGuestThatNeverAnswers holds nobody longer than he wants to wait, and
// what is left ends with Close.
func TestAGuestThatNeverAnswers(t *testing.T) {
	for name, op := range operations() {
		t.Run(name, func(t *testing.T) {
			h, _ := lieFor(t, soon(), func(*mux.Stream, wire.Note) {})
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			err := op(ctx, h)
			if name == "exec" && errors.Is(err, ErrBroken) {
				return // it was to end the program, and did not
			}
			if !errors.Is(err, context.DeadlineExceeded) || h.Err() != nil {
				t.Errorf("%v, %v", err, h.Err())
			}
		})
	}
}

func TestWhatAGuestMustNotAnswer(t *testing.T) {
	ok := &wire.Status{}
	for name, row := range map[string]struct {
		op      string
		answers func(s *mux.Stream, n wire.Note)
		why     string
	}{
		"a file of another number": {"put", func(s *mux.Stream, _ wire.Note) {
			go func() { _, _ = io.Copy(io.Discard, s) }()
			says(s, &wire.Status{Cause: wire.CauseErrno, Errno: 28, Index: 7})
		}, "said what it must not"},
		"more of a file than it said": {"get", func(s *mux.Stream, _ wire.Note) {
			hands(s, &wire.Found{Size: 3}, "four")
		}, "said what it must not"},
		"more than was asked for": {"get", func(s *mux.Stream, _ wire.Note) { hands(s, &wire.Found{Size: 101}, "") }, "said what it must not"},
		"a file of 8 EiB":         {"get", func(s *mux.Stream, _ wire.Note) { hands(s, &wire.Found{Size: 1<<63 - 1}, "") }, "said what it must not"},
		"half a head of a file": {"get", func(s *mux.Stream, _ wire.Note) {
			_, _ = s.Write([]byte{0, 0, 0, 19, 0})
			_ = s.CloseWrite()
		}, "without an answer"},
		"a head of 4 GiB": {"get", func(s *mux.Stream, _ wire.Note) {
			_, _ = s.Write([]byte{0xff, 0xff, 0xff, 0xff})
			_ = s.CloseWrite()
		}, "said what it must not"},
		"more entries than were asked for": {"list", func(s *mux.Stream, _ wire.Note) {
			for range 11 {
				_ = wire.WriteTo(s, &wire.Entry{Name: "a"})
			}
			says(s, &wire.Listed{})
		}, "said what it must not"},
		"an entry of 4 GiB": {"list", func(s *mux.Stream, _ wire.Note) {
			_, _ = s.Write([]byte{0xff, 0xff, 0xff, 0xff})
			says(s, &wire.Listed{})
		}, "said what it must not"},
		"half an entry": {"list", func(s *mux.Stream, _ wire.Note) {
			_, _ = s.Write([]byte{0, 0, 0, 9, 1})
			says(s, &wire.Listed{})
		}, "without an answer"},
		"that it ended before it ran": {"exec", func(s *mux.Stream, n wire.Note) {
			if n.Op == wire.OpExec {
				says(s, &wire.Exit{})
			}
		}, "said what it must not"},
		"that it runs, and no end": {"exec", func(s *mux.Stream, n wire.Note) {
			if n.Op == wire.OpExec {
				says(s, ok)
			}
		}, "without an answer"},
		"an end whose streams go on": {"exec", func(s *mux.Stream, n wire.Note) {
			if n.Op == wire.OpExec {
				says(s, ok, &wire.Exit{})
			}
		}, "does not end the program's streams"},
	} {
		t.Run(name, func(t *testing.T) {
			bounds := late()
			if strings.Contains(row.why, "does not end") {
				bounds = soon()
			}
			h, _ := lieFor(t, bounds, row.answers)
			err := operations()[row.op](t.Context(), h)
			if !errors.Is(err, ErrBroken) || !strings.Contains(err.Error(), row.why) {
				t.Errorf("%v, want %q", err, row.why)
			}
		})
	}
}

// TestAProgramThatIsNotEnded: what a guest does not end in time is broken.
func TestAProgramThatIsNotEnded(t *testing.T) {
	h, _ := lieFor(t, soon(), func(s *mux.Stream, n wire.Note) {
		if n.Op == wire.OpExec {
			b, _ := wire.Encode(&wire.Status{})
			_ = s.Reply(b)
		}
	})
	ctx, cancel := context.WithCancel(t.Context())
	_, err := h.Exec(ctx, Command{Argv: []string{"a"}, Started: cancel})
	if !errors.Is(err, ErrBroken) || !strings.Contains(err.Error(), "does not end the program") {
		t.Errorf("%v", err)
	}
}

// TestNumbersThatCannotBe are shown as nothing.
func TestNumbersThatCannotBe(t *testing.T) {
	h, _ := lie(t, func(s *mux.Stream, n wire.Note) {
		if n.Op == wire.OpExec {
			says(s, &wire.Status{}, &wire.Exit{Status: 0xffffffff, Wall: -1, CPU: -5, Bytes: -9, Inodes: -1 << 63, MaxBytes: 1<<63 - 1, MaxIn: 0})
			return
		}
		_ = s.CloseWrite()
	})
	exit, err := h.Exec(t.Context(), Command{Argv: []string{"a"}})
	if err != nil || exit.Wall != 0 || exit.CPU != 0 || exit.Scratch != (Space{-1, -1, 1<<63 - 1, 0}) || exit.Code > 255 || exit.Signal > 127 {
		t.Errorf("%+v, %v", exit, err)
	}
}

// TestTunnelsNobodyAllowed, or that are something else, break the channel.
func TestTunnelsNobodyAllowed(t *testing.T) {
	open := func(l *liar, n wire.Note) {
		b, err := wire.Encode(&n)
		if err != nil {
			panic(err)
		}
		_, _ = l.m.Open(b)
	}
	for name, row := range map[string]struct {
		ports []uint16
		notes []wire.Note
		why   string
	}{
		"without a network": {nil, []wire.Note{{Op: wire.OpTunnel, Number: 443}}, "more than it may open"},
		"port 0":            {[]uint16{443}, []wire.Note{{Op: wire.OpTunnel}}, "for what it must not"},
		"port 65536":        {[]uint16{443}, []wire.Note{{Op: wire.OpTunnel, Number: 65536}}, "for what it must not"},
		"an operation":      {[]uint16{443}, []wire.Note{{Op: wire.OpStop}}, "for what it must not"},
		"too many":          {[]uint16{443}, make([]wire.Note, wire.MaxTunnels+1), "more than it may open"},
	} {
		t.Run(name, func(t *testing.T) {
			h, l := lie(t, func(s *mux.Stream, _ wire.Note) {
				go func() { _, _ = io.Copy(io.Discard, s) }()
				says(s, &wire.Status{})
			})
			if err := h.Prepare(t.Context(), Place{Ports: row.ports}); err != nil {
				t.Fatal(err)
			}
			for _, n := range row.notes {
				if n.Op == 0 {
					n = wire.Note{Op: wire.OpTunnel, Number: 443}
				}
				open(l, n)
			}
			if len(row.notes) > 1 {
				<-h.Done() // before one is accepted
			}
			_, err := h.Tunnels().Accept(t.Context())
			for err == nil { // those that came before
				_, err = h.Tunnels().Accept(t.Context())
			}
			if !errors.Is(err, ErrBroken) || !strings.Contains(err.Error(), row.why) {
				t.Errorf("%v, want %q", err, row.why)
			}
		})
	}
}

func TestDialOfWhatIsNoGuest(t *testing.T) {
	for name, talk := range map[string]func(c net.Conn){
		"silence":  func(c net.Conn) { _, _ = io.Copy(io.Discard, c) },
		"noise":    func(c net.Conn) { go func() { _, _ = io.Copy(io.Discard, c) }(); _, _ = c.Write(make([]byte, 4096)) },
		"the end":  func(c net.Conn) { _ = c.Close() },
		"no reads": func(net.Conn) {},
	} {
		t.Run(name, func(t *testing.T) {
			leak.Check(t)
			ours, its := net.Pipe()
			defer its.Close()
			go talk(its)
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			h, err := dial(ctx, ours, soon())
			if h != nil || !errors.Is(err, ErrBroken) && !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%v", err)
			}
		})
	}
}
