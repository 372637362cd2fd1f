package relay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/callcell/callcell/internal/testing/leak"
)

const patience = time.Minute

// program is a connection of a program's, as a guest hands it over.
type program struct {
	*net.UnixConn
	datagrams bool

	mu    sync.Mutex // guards what follows
	reset bool
	ended bool
}

func (p *program) Local() netip.AddrPort { return netip.AddrPort{} }
func (p *program) Datagrams() bool       { return p.datagrams }

func (p *program) Reset() error {
	p.mu.Lock()
	p.reset = true
	p.mu.Unlock()
	return p.Close()
}

func (p *program) CloseWrite() error {
	p.mu.Lock()
	p.ended = true
	p.mu.Unlock()
	return p.UnixConn.CloseWrite()
}

// how is how it ended for the program: reset, or by a good end.
func (p *program) how() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.reset:
		return "reset"
	case p.ended:
		return "end"
	}
	return "neither"
}

func conns(t *testing.T) (a, b *net.UnixConn) {
	t.Helper()
	a, f, err := Pair()
	if err != nil {
		t.Fatal(err)
	}
	c, err := net.FileConn(f)
	_ = f.Close()
	if err != nil {
		t.Fatal(err)
	}
	b = c.(*net.UnixConn)
	for _, c := range []*net.UnixConn{a, b} {
		t.Cleanup(func() { _ = c.Close() })
		_ = c.SetDeadline(time.Now().Add(patience))
	}
	return a, b
}

func TestWhatEachSideSees(t *testing.T) {
	for name, row := range map[string]struct {
		datagrams bool
		egress    func(c *net.UnixConn) // what the process does, after which it closes
		program   func(c *net.UnixConn)
		got, how  string // by the program
	}{
		"an end":                         {false, say("\x00\x03abc\x00\x00"), end, "abc", "end"},
		"an end in pieces":               {false, say("\x00\x01a\x00\x02bc\x00\x00"), end, "abc", "end"},
		"a break":                        {false, say("\x00\x03abc"), end, "abc", "reset"},
		"a break in a frame":             {false, say("\x00\x04abc"), end, "abc", "reset"},
		"a break in a head":              {false, say("\x00"), end, "", "reset"},
		"nothing":                        {false, say(""), end, "", "reset"},
		"a long frame":                   {false, say("\xff\xff" + strings.Repeat("x", 65535) + "\x00\x00"), end, strings.Repeat("x", 65535), "end"},
		"an exchange ends as a whole":    {true, say("\x00\x03abc"), end, "\x00\x03abc", "reset"},
		"a program that says no end":     {false, say("\x00\x00"), func(c *net.UnixConn) {}, "", "end"},
		"a program that is gone already": {false, say("\x00\x03abc\x00\x00"), func(c *net.UnixConn) { _ = c.Close() }, "", "reset"},
	} {
		t.Run(name, func(t *testing.T) {
			leak.Check(t)
			front, process := conns(t)
			tunnel, prog := conns(t)
			p := &program{UnixConn: tunnel, datagrams: row.datagrams}
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan struct{})
			go func() { defer close(done); Carry(ctx, p, front) }()
			row.program(prog)
			row.egress(process)
			got, _ := io.ReadAll(prog) // it may be closed
			_ = process.Close()
			if name == "a program that says no end" {
				cancel() // nobody else ends it
			}
			<-done
			if string(got) != row.got || p.how() != row.how && name != "a program that says no end" {
				t.Errorf("%d bytes, %s", len(got), p.how())
			}
			cancel()
		})
	}
}

func end(c *net.UnixConn) { _ = c.CloseWrite() }

// say writes, takes what the program has said, and closes.
func say(text string) func(c *net.UnixConn) {
	return func(c *net.UnixConn) {
		_, _ = io.WriteString(c, text)
		_ = c.SetReadDeadline(time.Now().Add(50 * time.Millisecond)) // it may say no end
		_, _ = io.Copy(io.Discard, c)
		_ = c.Close()
	}
}

// TestWhatAProcessSaidComesFirst: a process has answered all that it will, and has
// closed, before what the program says more is carried to it.
func TestWhatAProcessSaidComesFirst(t *testing.T) {
	leak.Check(t)
	said := strings.Repeat("x", 65535)
	for range 50 {
		front, process := conns(t)
		tunnel, prog := conns(t)
		_, _ = io.WriteString(process, "\xff\xff"+said+"\x00\x00")
		_ = process.Close()
		_, _ = io.WriteString(prog, "more")
		p := &program{UnixConn: tunnel}
		done := make(chan struct{})
		go func() {
			defer close(done)
			(&carrier{t: p, front: front, parting: patience}).carry(t.Context())
		}()
		if got, _ := io.ReadAll(prog); string(got) != said {
			t.Fatalf("%d bytes of %d", len(got), len(said))
		}
		if <-done; p.how() != "reset" {
			t.Fatal(p.how())
		}
	}
}

// TestAProgramThatHearsNothingOut says more to a process that is gone, and takes
// nothing of what it said.
func TestAProgramThatHearsNothingOut(t *testing.T) {
	leak.Check(t)
	front, process := conns(t)
	tunnel, prog := conns(t)
	_ = process.SetWriteBuffer(1 << 20)
	_ = tunnel.SetWriteBuffer(4 << 10)
	_, _ = io.WriteString(process, "\xff\xff"+strings.Repeat("x", 65535)+"\x00\x00")
	_ = process.Close()
	_, _ = io.WriteString(prog, "more")
	p := &program{UnixConn: tunnel}
	done := make(chan struct{})
	go func() {
		defer close(done)
		(&carrier{t: p, front: front, parting: time.Millisecond}).carry(t.Context())
	}()
	select {
	case <-done:
	case <-time.After(patience / 2): // which is when its connection ends by itself
		t.Error("it goes on")
	}
	if <-done; p.how() != "reset" {
		t.Error(p.how())
	}
}

// TestAProgramThatBreaksOff: the process sees its end closed, and not only shut
// down.
func TestAProgramThatBreaksOff(t *testing.T) {
	leak.Check(t)
	front, process := conns(t)
	p := &broken{program{UnixConn: front}}
	Carry(t.Context(), p, front)
	if _, err := process.Write([]byte("x")); err == nil {
		t.Error("it is taken")
	}
	if p.how() != "reset" {
		t.Error(p.how())
	}
}

type broken struct{ program }

func (*broken) Read([]byte) (int, error) { return 0, errors.New("reset by peer") }

func TestTheEndOfTheCallEndsIt(t *testing.T) {
	leak.Check(t)
	front, _ := conns(t)
	tunnel, _ := conns(t)
	ctx, cancel := context.WithCancel(t.Context())
	p := &program{UnixConn: tunnel}
	done := make(chan struct{})
	go func() { defer close(done); Carry(ctx, p, front) }()
	cancel()
	<-done
	if p.how() != "reset" {
		t.Error(p.how())
	}
}

func TestPairsAreNotInherited(t *testing.T) {
	leak.Check(t)
	c, f, err := Pair()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	defer f.Close()
	if b, err := os.ReadFile(fmt.Sprintf("/proc/self/fdinfo/%d", f.Fd())); err != nil || !strings.Contains(string(b), "02000000") && !strings.Contains(string(b), "02000002") {
		t.Errorf("%s, %v", b, err)
	}
}
