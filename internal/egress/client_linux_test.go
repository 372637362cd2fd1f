package egress

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/egress/wire"
	"github.com/callcell/callcell/internal/testing/leak"
)

func TestOneProcessServesEveryCall(t *testing.T) {
	c, s := client(t)
	if s.started() != 0 {
		t.Error("a process before any call")
	}
	one, two := open(t, c), open(t, c)
	shut(t, one)
	works(t, c)
	shut(t, two)
	if s.started() != 1 {
		t.Errorf("%d processes, want 1", s.started())
	}
}

// TestManyAtOnceStartOne: who comes while it is being started waits for it.
func TestManyAtOnceStartOne(t *testing.T) {
	go1 := make(chan struct{})
	c, s := client(t, part{hello: func(f *fake) {
		<-go1
		f.control.say(wire.Message{Hello: &wire.Hello{Version: wire.Version}})
	}})
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if session, err := c.Open(context.Background(), Call{}); err != nil {
				t.Error(err)
			} else if _, err := session.Close(context.Background()); err != nil {
				t.Error(err)
			}
		})
	}
	close(go1)
	all.Wait()
	if s.started() != 1 {
		t.Errorf("%d processes, want 1", s.started())
	}
}

func TestWarmStartsItAhead(t *testing.T) {
	up := make(chan struct{})
	c, s := client(t, part{hello: func(f *fake) {
		f.control.say(wire.Message{Hello: &wire.Hello{Version: wire.Version}})
		close(up)
	}})
	c.Warm()
	c.Warm()
	<-up
	works(t, c)
	c.Warm()
	if s.started() != 1 {
		t.Errorf("%d processes, want 1", s.started())
	}
}

// TestDeathInMidCall: every call hears of it at once, its lines are kept, and
// the next call has another process.
func TestDeathInMidCall(t *testing.T) {
	said := make(chan struct{}, 3)
	c, s := client(t, part{begin: func(_ *fake, call *peer) {
		call.say(ready(""))
		for _, v := range []envelope.Verdict{envelope.VerdictAllowed, envelope.VerdictDenied, envelope.VerdictCut, envelope.VerdictFailed} {
			call.say(line("a.test", 443, v))
		}
		said <- struct{}{}
	}}, part{})
	one, two := open(t, c), open(t, c)
	ended := open(t, c)
	for range 3 {
		<-said
	}
	shut(t, ended)
	s.last().die()
	for _, session := range []*Session{one, two} {
		e := dies(t, session)
		if len(e.Attempts) != 4 || e.Connections != 2 || e.Denied != 2 || e.Failed != 1 || e.Sent != 4 || e.Received != 8 {
			t.Errorf("%+v", e)
		}
	}
	shut(t, ended) // as before
	if works(t, c); s.started() != 2 || s.fakes[0].closed != 1 {
		t.Errorf("%d processes, want 2; the first was ended %d times", s.started(), s.fakes[0].closed)
	}
}

// TestDeathBetweenCalls is nobody's trouble, noticed or not.
func TestDeathBetweenCalls(t *testing.T) {
	c, s := client(t)
	const deaths = 50
	for range deaths {
		works(t, c)
		s.last().die()
	}
	works(t, c)
	if s.started() != deaths+1 {
		t.Errorf("%d processes, want %d", s.started(), deaths+1)
	}
}

// TestAProcessThatDiesOfEveryCall is not tried without end.
func TestAProcessThatDiesOfEveryCall(t *testing.T) {
	c, s := client(t, part{begin: func(f *fake, _ *peer) { f.die() }})
	for want := 1; want < 5; want++ {
		if got, err := c.Open(t.Context(), Call{}); got != nil || !errors.Is(err, ErrDied) {
			t.Errorf("%v, %v; want ErrDied", got, err)
		}
		if n := s.started(); n < want || n > 2*want {
			t.Errorf("%d processes after %d calls", n, want)
		}
	}
}

// TestWhatCannotBeEndedIsSaid: the process stays, so nobody may say that
// nothing of the call is held.
func TestWhatCannotBeEndedIsSaid(t *testing.T) {
	c, s := client(t)
	s.stays = true
	session := open(t, c)
	s.last().die()
	<-session.Dead()
	for range 2 {
		_, err := session.Close(t.Context())
		if !errors.Is(err, ErrLeft) || errors.Is(err, ErrDied) || !strings.Contains(err.Error(), "process: pid 7") {
			t.Errorf("%v, want ErrLeft", err)
		}
	}
	if err := c.Close(t.Context()); !errors.Is(err, ErrLeft) {
		t.Errorf("%v, want ErrLeft", err)
	}
}

// TestAnEndThatTakesTooLong is not waited for.
func TestAnEndThatTakesTooLong(t *testing.T) {
	stop := make(chan struct{})
	c, s := client(t, part{end: func(*fake, *peer) { <-stop }})
	c.times.exit = -1 // buried waits for a second more
	session := open(t, c)
	c.current.times.end = soon
	if _, err := session.Close(t.Context()); !errors.Is(err, ErrLeft) {
		t.Errorf("%v, want ErrLeft", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.Close(ctx); !errors.Is(err, ErrLeft) || !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want ErrLeft", err)
	}
	close(stop)
	if err := c.Close(t.Context()); err != nil || s.last().closed != 1 {
		t.Errorf("%v; the process was ended %d times", err, s.last().closed)
	}
}

func TestAStartThatFails(t *testing.T) {
	c, s := client(t)
	s.fails = []error{fs.ErrPermission, fs.ErrPermission}
	for range 2 {
		g := gate(t, 443)
		if got, err := c.Open(t.Context(), Call{Gate: g}); got != nil || !errors.Is(err, fs.ErrPermission) {
			t.Errorf("%v, %v", got, err)
		}
		closed(t, g)
	}
	works(t, c)
}

func TestAuthoritiesAreReadOnce(t *testing.T) {
	c, s := client(t)
	reads := 0
	c.options.Roots = func() ([]byte, error) {
		if reads++; reads == 1 {
			return nil, fs.ErrNotExist
		}
		return []byte("roots"), nil
	}
	if _, err := c.Open(t.Context(), Call{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v", err)
	}
	for range 3 {
		works(t, c)
		s.last().die()
	}
	if reads != 2 {
		t.Errorf("read %d times", reads)
	}
}

func TestWithoutAuthorities(t *testing.T) {
	c, _ := client(t)
	c.options.Roots = nil
	works(t, c)
}

// TestLeavingWhileItStarts: it goes on for those who wait.
func TestLeavingWhileItStarts(t *testing.T) {
	starting, up := make(chan struct{}), make(chan struct{})
	c, s := client(t, part{hello: func(f *fake) {
		close(starting)
		<-up
		f.control.say(wire.Message{Hello: &wire.Hello{Version: wire.Version}})
	}})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-starting
		cancel()
	}()
	g := gate(t, 443)
	if got, err := c.Open(ctx, Call{Gate: g}); got != nil || !errors.Is(err, context.Canceled) {
		t.Errorf("%v, %v", got, err)
	}
	closed(t, g)
	close(up)
	if works(t, c); s.started() != 1 {
		t.Errorf("%d processes, want 1", s.started())
	}
}

func TestCloseEndsTheProcess(t *testing.T) {
	c, s := client(t)
	session := open(t, c)
	for range 2 {
		if err := c.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	dies(t, session)
	if s.last().closed != 1 {
		t.Errorf("the process was ended %d times", s.last().closed)
	}
	g := gate(t, 443)
	if got, err := c.Open(t.Context(), Call{Gate: g}); got != nil || !errors.Is(err, ErrClosed) {
		t.Errorf("%v, %v; want ErrClosed", got, err)
	}
	closed(t, g)
	if c.Warm(); s.started() != 1 {
		t.Error("a process after Close")
	}
}

func TestCloseWithoutAProcess(t *testing.T) {
	leak.Check(t)
	c := New(nil, Options{})
	if err := c.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestCloseWhileItStarts(t *testing.T) {
	starting := make(chan struct{})
	c, s := client(t, part{hello: func(*fake) { close(starting) }})
	got := make(chan error)
	go func() {
		_, err := c.Open(context.Background(), Call{})
		got <- err
	}()
	<-starting
	if err := c.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if err := <-got; !errors.Is(err, ErrClosed) {
		t.Errorf("%v, want ErrClosed", err)
	}
	if s.last().closed != 1 {
		t.Errorf("the process was ended %d times", s.last().closed)
	}
}

func TestDefaultsAreAllPositive(t *testing.T) {
	d := Defaults()
	for _, n := range []int64{int64(d.Connections), int64(d.AllConnections), int64(d.CallConnections), int64(d.Names), d.Bytes, int64(d.Dial), int64(d.Idle), int64(d.Total),
		d.FetchBytes, d.FetchHeader, int64(d.FetchTotal), int64(d.FetchHops), int64(d.CacheEntries), int64(d.CacheFor), d.CacheBytes, int64(len(d.FetchPorts))} {
		if n <= 0 {
			t.Errorf("%+v", d)
		}
	}
}

// TestHammer: calls of every kind from many goroutines, while the process dies
// now and then. Each session ends well or has died, never both, and nothing is
// left.
func TestHammer(t *testing.T) {
	const callers, each = 8, 60
	c, s := client(t)
	var well, ill atomic.Int64
	var all sync.WaitGroup
	for i := range callers {
		all.Go(func() {
			for k := range each {
				if i == 0 && k%10 == 9 {
					s.last().die()
				}
				ok, err := hammer(t, c, k)
				switch {
				case err != nil:
					t.Error(err)
				case ok:
					well.Add(1)
				default:
					ill.Add(1)
				}
			}
		})
	}
	all.Wait()
	t.Logf("%d well, %d died, %d processes", well.Load(), ill.Load(), s.started())
	if well.Load() == 0 {
		t.Error("no call ended well")
	}
}

// hammer makes one call and reports whether it ended well.
func hammer(t *testing.T, c *Client, k int) (bool, error) {
	g := gate(t, k+1)
	session, err := c.Open(context.Background(), Call{ID: "c", Gate: g})
	if errors.Is(err, ErrDied) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	var doing sync.WaitGroup
	doing.Go(func() { _, _, _ = session.Fetch(context.Background(), envelope.Fetch{URL: "u"}) })
	for range k % 4 {
		f := file(t)
		doing.Go(func() { _ = session.Tunnel(here(), false, f) })
	}
	if k%3 == 0 {
		doing.Wait()
	}
	for range 2 {
		doing.Go(func() { _, _ = session.Close(context.Background()) })
	}
	doing.Wait()
	e, err := session.Close(context.Background())
	if k%3 == 0 && err == nil && len(e.Attempts) != k%4 {
		return true, errors.New("lines are missing")
	}
	select {
	case <-session.Dead():
		if !errors.Is(err, ErrDied) {
			return false, errors.Join(errors.New("dead, and it ended well"), err)
		}
		return false, nil
	default:
		return true, err
	}
}
