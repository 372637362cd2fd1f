package inside

import (
	"errors"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/callcell/callcell/internal/guest/mux"
	"github.com/callcell/callcell/internal/guest/wire"
)

// mostOfHost is how many streams the host may have open at once.
const mostOfHost = 256

// guest is the guest. What the host asks for is done side by side; the host
// asks in an order that makes sense.
type guest struct {
	m       *mux.Mux
	place   place
	program *program
	tunnels *tunnels               // nil: nothing listens
	stderr  map[uint32]*mux.Stream // opened, and of no command yet; serve's
}

// serve does what the host asks for until it hangs up.
func (g *guest) serve() error {
	for {
		select {
		case s := <-g.m.Accepted():
			var n wire.Note
			if err := wire.Decode(s.Note(), &n); err != nil {
				return err
			}
			g.answer(s, n)
		case <-g.m.Done():
			return g.m.Err()
		}
	}
}

func (g *guest) answer(s *mux.Stream, n wire.Note) {
	switch n.Op {
	case wire.OpStderr:
		g.stderr[s.ID()] = s
	case wire.OpPrepare:
		go g.say(s, func() wire.Message { return g.prepare(s) })
	case wire.OpPut:
		go g.say(s, func() wire.Message { return g.put(s) })
	case wire.OpExec:
		stderr := g.stderr[n.Number]
		delete(g.stderr, n.Number)
		go g.exec(s, stderr)
	case wire.OpSignal:
		go g.say(s, func() wire.Message { return g.program.signal(unix.Signal(n.Number)) })
	case wire.OpStop:
		go g.say(s, func() wire.Message { return g.stop() })
	case wire.OpList:
		go g.say(s, func() wire.Message { return g.list(s, n) })
	case wire.OpGet:
		go g.get(s, n)
	default:
		_ = s.Reset() // the channel has ended, else
	}
}

// say answers with what f returns, and ends the stream.
func (g *guest) say(s *mux.Stream, f func() wire.Message) {
	reply(s, f())
	_ = s.CloseWrite() // the channel has ended, else
	_ = s.Close()
}

// reply answers. An answer that cannot be said has nobody to hear it.
func reply(s *mux.Stream, m wire.Message) {
	if b, err := wire.Encode(m); err == nil {
		_ = s.Reply(b) // the channel has ended, else
	}
}

// failed says what went wrong.
func failed(step wire.Step, index int, err error) *wire.Status {
	st := &wire.Status{Cause: wire.CauseErrno, Step: step, Index: uint32(index), Errno: uint32(syscall.EIO)}
	var errno syscall.Errno
	switch {
	case err == nil:
		return &wire.Status{}
	case errors.Is(err, errIrregular):
		st.Cause, st.Errno = wire.CauseIrregular, 0
	case errors.Is(err, wire.ErrMalformed):
		st.Cause, st.Errno = wire.CauseRequest, 0
	case errors.As(err, &errno) && errno <= wire.MaxErrno:
		st.Errno = uint32(errno)
	}
	return st
}

func (g *guest) prepare(s *mux.Stream) *wire.Status {
	var p wire.Place
	if err := wire.ReadFrom(s, wire.MaxMessage, &p); err != nil {
		return failed(wire.StepNone, 0, wire.ErrMalformed)
	}
	if st := g.place.make(&p); st.Cause != wire.CauseNone {
		return st
	}
	if len(p.Ports) == 0 {
		return &wire.Status{}
	}
	runtime.GOMAXPROCS(runtime.NumCPU()) // connections are carried side by side; it began with one
	t, index, err := listen(g.m, p.Ports, p.Six)
	if err != nil {
		return failed(wire.StepListen, index, err)
	}
	g.tunnels = t
	return &wire.Status{}
}

// stop ends all there is of the program, and what listens for it.
func (g *guest) stop() *wire.Status {
	if g.tunnels != nil {
		g.tunnels.close()
	}
	return g.program.end()
}
