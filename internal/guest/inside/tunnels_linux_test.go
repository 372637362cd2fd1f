package inside

import (
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/callcell/callcell/internal/guest/mux"
	"github.com/callcell/callcell/internal/testing/leak"
)

const patience = time.Minute

// channels returns both ends of a channel.
func channels(t *testing.T) (host, guest *mux.Mux) {
	t.Helper()
	a, b := net.Pipe()
	host = mux.New(a, mux.Options{Host: true, Most: 64, Own: 64, Stall: patience})
	guest = mux.New(b, mux.Options{Most: 64, Own: 64})
	for _, m := range []*mux.Mux{host, guest} {
		t.Cleanup(m.Close)
		go func() { _ = m.Hello() }()
	}
	<-host.Ready()
	<-guest.Ready()
	return host, guest
}

// connection returns a program's end of a connection, and the guest's.
func connection(t *testing.T) (program *net.TCPConn, its *os.File) {
	t.Helper()
	l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(patience))
	f, err := l.File()
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if its, _, err = acceptTCP(f); err != nil {
		t.Fatal(err)
	}
	return c.(*net.TCPConn), its
}

// parted returns a tunnel to a host that said something, and takes nothing more.
func parted(t *testing.T, host, guest *mux.Mux, said string) *mux.Stream {
	t.Helper()
	var ours, theirs [2]*mux.Stream
	for i := range ours {
		s, err := guest.Open([]byte("tunnel"))
		if err != nil {
			t.Fatal(err)
		}
		ours[i], theirs[i] = s, <-host.Accepted()
	}
	for _, err := range []error{second(io.WriteString(theirs[0], said)), theirs[0].CloseWrite(), theirs[0].Reset(), theirs[1].Reply([]byte("x"))} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := ours[1].Answer(); err != nil { // which came after all that
		t.Fatal(err)
	}
	return ours[0]
}

func second(_ int, err error) error { return err }

// TestWhatTheHostSaidComesFirst: the host has said all that it will, and takes
// nothing more, before what the program says is carried to it.
func TestWhatTheHostSaidComesFirst(t *testing.T) {
	leak.Check(t)
	said := strings.Repeat("x", mux.GuestWindow)
	host, guest := channels(t)
	for range 50 {
		s := parted(t, host, guest, said)
		program, its := connection(t)
		_, _ = io.WriteString(program, "more")
		done := make(chan struct{})
		go func() {
			defer close(done)
			(&carrier{conn: its, s: s, heard: make(chan struct{}), parting: patience}).carry()
		}()
		got, _ := io.ReadAll(program) // it sees the connection broken at the end, or has seen its end before
		if string(got) != said {
			t.Fatalf("%d bytes of %d", len(got), len(said))
		}
		<-done
	}
}

// TestAProgramThatHearsNothingOut takes nothing of what the host said.
func TestAProgramThatHearsNothingOut(t *testing.T) {
	leak.Check(t)
	host, guest := channels(t)
	s := parted(t, host, guest, strings.Repeat("x", mux.GuestWindow))
	program, its := connection(t)
	_ = program.SetReadBuffer(4 << 10)
	if err := control(its, func(fd int) error { return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF, 4<<10) }); err != nil {
		t.Fatal(err)
	}
	_, _ = io.WriteString(program, "more")
	done := make(chan struct{})
	go func() {
		defer close(done)
		(&carrier{conn: its, s: s, heard: make(chan struct{}), parting: time.Millisecond}).carry()
	}()
	select {
	case <-done:
	case <-time.After(patience):
		t.Error("it goes on")
	}
}
