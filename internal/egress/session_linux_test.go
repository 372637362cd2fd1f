package egress

import (
	"context"
	"errors"
	"io"
	"net/netip"
	"os"
	"reflect"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/egress/wire"
	"github.com/callcell/callcell/internal/packet"
)

// TestSetup: the process is told what the options say, and gets the
// authorities in a file that nobody can change.
func TestSetup(t *testing.T) {
	told := make(chan *wire.Setup, 1)
	text := make(chan string, 1)
	c, _ := client(t, part{setup: func(_ *fake, m *wire.Message, roots int) {
		f := os.NewFile(uintptr(roots), "roots")
		defer f.Close()
		b, err := io.ReadAll(f)
		if err != nil {
			t.Error(err)
		}
		if _, err := f.WriteAt([]byte("x"), 0); !errors.Is(err, unix.EPERM) {
			t.Errorf("the process writes to the authorities: %v", err)
		}
		if err := f.Truncate(0); !errors.Is(err, unix.EPERM) {
			t.Errorf("the process cuts the authorities: %v", err)
		}
		told <- m.Setup
		text <- string(b)
	}})
	c.options.Resolvers = []string{"192.0.2.53:53"}
	c.options.Hosts = []wire.Host{{Name: "db.test", Addrs: []netip.Addr{netip.MustParseAddr("10.0.0.5")}}}
	c.options.Deny = []netip.Prefix{netip.MustParsePrefix("203.0.113.0/24")}
	works(t, c)
	want := &wire.Setup{Version: wire.Version, Resolvers: c.options.Resolvers, Hosts: c.options.Hosts, Deny: c.options.Deny, Limits: Defaults()}
	if got := <-told; !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := <-text; got != "roots" {
		t.Errorf("%q", got)
	}
}

func TestBegin(t *testing.T) {
	type seen struct {
		begin *wire.Begin
		fds   int
	}
	saw := make(chan seen, 1)
	c, _ := client(t, part{begun: func(b *wire.Begin, fds []int) { saw <- seen{b, len(fds)} }})
	g := gate(t, 443, 5432)
	network := envelope.Network{Allow: []envelope.Allow{{Host: "a.test", Ports: []int{443, 5432}}}, Private: []envelope.Private{}}
	s, err := c.Open(t.Context(), Call{ID: "c1", Team: "blue", Network: network, Gate: g})
	if err != nil {
		t.Fatal(err)
	}
	closed(t, g)
	shut(t, s)
	want := &wire.Begin{ID: "c1", Team: "blue", Network: network, Sockets: []wire.Socket{
		{Use: wire.UseCall}, {Use: wire.UseDNS}, {Use: wire.UseDNSTCP}, {Use: wire.UseProxy}, {Use: wire.UseListen, Port: 443}, {Use: wire.UseListen, Port: 5432},
	}}
	if got := <-saw; !reflect.DeepEqual(got.begin, want) || got.fds != 6 {
		t.Errorf("%+v with %d descriptors, want %+v with 6", got.begin, got.fds, want)
	}
}

// TestTheLargestGatePasses: 32 ports, of both families.
func TestTheLargestGatePasses(t *testing.T) {
	c, _ := client(t)
	var ports []int
	for i := range envelope.MaxPorts {
		ports = append(ports, i+1, i+1)
	}
	s, err := c.Open(t.Context(), Call{Gate: gate(t, ports...)})
	if err != nil {
		t.Fatal(err)
	}
	shut(t, s)
}

func TestWhatTheCallTried(t *testing.T) {
	counters := envelope.Egress{More: 1, Connections: 2, Denied: 3, Failed: 4, Names: 5, Sent: 6, Received: 7}
	c, _ := client(t, part{
		begin: func(_ *fake, call *peer) {
			call.say(ready("a certificate"))
			call.say(line("a.test", 443, envelope.VerdictAllowed))
		},
		end: func(_ *fake, call *peer) {
			call.say(line("b.test", 0, envelope.VerdictDenied))
			call.say(wire.Message{Done: &wire.Done{Egress: counters}})
		},
	})
	s := open(t, c)
	if got := s.CA(); got != "a certificate" {
		t.Errorf("%q", got)
	}
	want := counters
	want.Attempts = []envelope.Attempt{*line("a.test", 443, envelope.VerdictAllowed).Line, *line("b.test", 0, envelope.VerdictDenied).Line}
	for range 2 {
		got := shut(t, s)
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%+v, want %+v", got, want)
		}
		got.Attempts[0].Host = "changed" // the second answer is not the first one's
	}
}

func TestTheMostLinesPass(t *testing.T) {
	c, _ := client(t, part{end: func(_ *fake, call *peer) {
		for range envelope.MaxAttempts {
			call.say(line("a.test", 443, envelope.VerdictAllowed))
		}
		call.say(done())
	}})
	if got := shut(t, open(t, c)); len(got.Attempts) != envelope.MaxAttempts {
		t.Errorf("%d lines", len(got.Attempts))
	}
}

// TestLongTextsAreCut: a program in the cell may have chosen them.
func TestLongTextsAreCut(t *testing.T) {
	long := strings.Repeat("ä", maxText)
	c, _ := client(t, part{end: func(_ *fake, call *peer) {
		m := line(long, 1, envelope.VerdictDenied)
		m.Line.Why, m.Line.Address, m.Line.Protocol, m.Line.Unchecked = "x"+long, long, long, long
		call.say(m)
		call.say(done())
	}})
	a := shut(t, open(t, c)).Attempts[0]
	cutAt := strings.Repeat("ä", maxText/2)
	for _, got := range []string{a.Host, a.Address, a.Protocol, a.Unchecked, a.Why} {
		if want := "x" + cutAt[:maxText-2]; got != cutAt && got != want {
			t.Errorf("%d bytes: %.20q", len(got), got)
		}
	}
}

func TestRefusedCallsAreToldAndHarmNobody(t *testing.T) {
	c, s := client(t, part{begin: func(_ *fake, call *peer) { call.say(wire.Message{Refused: &wire.Refused{Why: "no room\x1b[2J"}}) }})
	for range 2 {
		g := gate(t, 80)
		got, err := c.Open(t.Context(), Call{Gate: g})
		if got != nil || !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), `"no room\x1b[2J"`) {
			t.Errorf("%v, %v; want ErrRefused", got, err)
		}
		closed(t, g)
	}
	if s.started() != 1 {
		t.Errorf("%d processes, want 1", s.started())
	}
}

// TestWhatCannotBeSentHarmsNobody: no process has seen it.
func TestWhatCannotBeSentHarmsNobody(t *testing.T) {
	c, s := client(t)
	works(t, c)
	gone := gate(t, 80)
	gone.Proxy.Close()
	wide := gate(t, make([]int, wire.MaxFDs)...)
	for name, call := range map[string]Call{
		"too long":       {ID: strings.Repeat("x", wire.MaxMessage)},
		"too many files": {Gate: wide},
		"a closed file":  {Gate: gone},
	} {
		if got, err := c.Open(t.Context(), call); got != nil || err == nil || errors.Is(err, ErrDied) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	closed(t, wide)
	closed(t, gone)
	if works(t, c); s.started() != 1 {
		t.Errorf("%d processes, want 1", s.started())
	}
}

// here is an address in a cell, of its guest's.
func here() netip.AddrPort { return netip.MustParseAddrPort("198.18.1.0:443") }

func TestTunnel(t *testing.T) {
	c, _ := client(t, part{conn: func(_ *fake, call *peer, m *wire.Conn, fd int) {
		f := os.NewFile(uintptr(fd), "guest")
		defer f.Close()
		_, _ = f.WriteString(m.Local.String())
		call.say(line("a.test", int(m.Local.Port()), envelope.VerdictAllowed))
	}})
	s := open(t, c)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if err := s.Tunnel(here(), false, w); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(r); err != nil || string(got) != here().String() { // to the end: nobody else has w
		t.Errorf("%q, %v", got, err)
	}
	if e := shut(t, s); len(e.Attempts) != 1 || e.Attempts[0].Port != 443 {
		t.Errorf("%+v", e)
	}
	late := file(t)
	if err := s.Tunnel(here(), false, late); !errors.Is(err, ErrClosed) || !errors.Is(late.Close(), os.ErrClosed) {
		t.Errorf("%v, want ErrClosed, and the file closed", err)
	}
}

func TestFetch(t *testing.T) {
	asked := make(chan wire.Fetch, 1)
	c, _ := client(t, part{fetch: func(_ *fake, call *peer, m *wire.Fetch) {
		asked <- *m
		call.say(body("one "))
		call.say(line("a.test", 443, envelope.VerdictAllowed))
		call.say(body("two"))
		call.say(wire.Message{Fetched: &wire.Fetched{Fetched: envelope.Fetched{
			URL: m.URL, Hops: []string{"http://a.test/"}, Status: 200, Type: "text/html", Charset: "utf-8", Title: "t", Bytes: 7, WireBytes: 9, Cached: true, Cut: true, Failure: "f",
		}}})
	}})
	s := open(t, c)
	f := envelope.Fetch{URL: "https://a.test/", Text: true, Bytes: 1000, Fresh: true}
	got, refusal, err := s.Fetch(t.Context(), f)
	want := envelope.Fetched{URL: f.URL, Hops: []string{"http://a.test/"}, Status: 200, Type: "text/html", Charset: "utf-8", Title: "t", Body: []byte("one two"),
		Bytes: 7, WireBytes: 9, Cached: true, Cut: true, Failure: "f", Untrusted: true}
	if err != nil || refusal != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v, %v; want %+v", got, refusal, err, want)
	}
	if m := <-asked; m.Fetch != f {
		t.Errorf("%+v was asked for, not %+v", m.Fetch, f)
	}
	if _, _, err := s.Fetch(t.Context(), f); err == nil {
		t.Error("a session fetches twice")
	}
	if e := shut(t, s); len(e.Attempts) != 1 {
		t.Errorf("%+v", e)
	}
}

func TestTheLargestBodyPasses(t *testing.T) {
	c, _ := client(t, part{fetch: func(_ *fake, call *peer, m *wire.Fetch) {
		for range Defaults().FetchBytes / wire.MaxBody {
			call.say(body(strings.Repeat("x", wire.MaxBody)))
		}
		call.say(fetched(m.URL))
	}})
	s := open(t, c)
	if got, _, err := s.Fetch(t.Context(), envelope.Fetch{}); err != nil || int64(len(got.Body)) != Defaults().FetchBytes {
		t.Errorf("%d bytes, %v", len(got.Body), err)
	}
	shut(t, s)
}

func TestRefusedFetch(t *testing.T) {
	refusal := envelope.Refusal{Reason: envelope.ReasonPolicy, Message: "m", Field: "fetch.url", Hint: "h"}
	c, _ := client(t, part{fetch: func(_ *fake, call *peer, m *wire.Fetch) {
		call.say(wire.Message{Fetched: &wire.Fetched{Refused: &refusal}})
	}})
	s := open(t, c)
	got, r, err := s.Fetch(t.Context(), envelope.Fetch{URL: "https://a.test/"})
	if err != nil || r == nil || *r != refusal || !reflect.DeepEqual(got, envelope.Fetched{}) {
		t.Errorf("%+v, %+v, %v", got, r, err)
	}
	shut(t, s)
}

// TestAbandonedFetch: what comes of it is not kept, and harms nobody.
func TestAbandonedFetch(t *testing.T) {
	begun, left := make(chan struct{}), make(chan struct{})
	c, _ := client(t, part{fetch: func(_ *fake, call *peer, m *wire.Fetch) {
		call.say(body("one"))
		close(begun)
		<-left
		call.say(body("two"))
		call.say(fetched(m.URL))
	}})
	s := open(t, c)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-begun
		cancel()
	}()
	if got, _, err := s.Fetch(ctx, envelope.Fetch{}); !errors.Is(err, context.Canceled) || got.Body != nil {
		t.Errorf("%+v, %v", got, err)
	}
	close(left)
	shut(t, s)
}

func TestCloseUnblocksFetch(t *testing.T) {
	begun := make(chan struct{})
	c, _ := client(t, part{fetch: func(*fake, *peer, *wire.Fetch) { close(begun) }})
	s := open(t, c)
	got := make(chan error)
	go func() {
		_, _, err := s.Fetch(context.Background(), envelope.Fetch{})
		got <- err
	}()
	<-begun
	shut(t, s)
	if err := <-got; !errors.Is(err, ErrClosed) {
		t.Errorf("%v, want ErrClosed", err)
	}
}

// TestCancelledOpenEndsTheCall: nothing of it stays with the process.
func TestCancelledOpenEndsTheCall(t *testing.T) {
	begun, ended := make(chan struct{}), make(chan struct{})
	c, s := client(t, part{
		begin: func(_ *fake, call *peer) {
			close(begun)
			m, _ := call.next()
			if m == nil || m.End == nil {
				t.Errorf("%+v, want End", m)
			}
			call.say(ready(""))
			call.say(done())
			close(ended)
		},
	}, part{})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-begun
		cancel()
	}()
	g := gate(t, 443)
	if got, err := c.Open(ctx, Call{Gate: g}); got != nil || !errors.Is(err, context.Canceled) {
		t.Errorf("%v, %v", got, err)
	}
	<-ended
	closed(t, g)
	if s.started() != 1 || !c.current.alive() {
		t.Error("the process did not survive")
	}
}

func TestDescriptorsOfTheGateAreTheProcess(t *testing.T) {
	taken := make(chan []int, 1) // the process's part is another goroutine
	c, _ := client(t, part{begun: func(_ *wire.Begin, fds []int) {
		var ends []int
		for _, fd := range fds[1:] {
			dup, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
			if err != nil {
				t.Error(err)
			}
			ends = append(ends, dup)
		}
		taken <- ends
	}})
	g := gate(t, 1, 2)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	g.Listen[1].File.Close()
	g.Listen[1].File = w
	s, err := c.Open(t.Context(), Call{Gate: g})
	if err != nil {
		t.Fatal(err)
	}
	shut(t, s)
	ends := <-taken
	if _, err := unix.Write(ends[4], []byte("x")); err != nil {
		t.Error(err)
	}
	packet.CloseAll(ends)
	if got, err := io.ReadAll(r); err != nil || string(got) != "x" {
		t.Errorf("%q, %v", got, err)
	}
}
