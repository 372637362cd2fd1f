package inside

import (
	"os"

	"golang.org/x/sys/unix"

	"github.com/callcell/callcell/internal/guest/mux"
	"github.com/callcell/callcell/internal/guest/wire"
)

// streams are the program's, and our ends of them.
type streams struct {
	its      [3]int
	in       *os.File // nil: the program reads /dev/null
	out, err *os.File
}

// exec serves one command: it starts it, carries its streams, and says how it
// ended when nothing of it is left.
func (g *guest) exec(s, stderr *mux.Stream) {
	defer s.Close()
	if stderr != nil {
		defer stderr.Close()
	}
	var c wire.Command
	if err := wire.ReadFrom(s, wire.MaxMessage, &c); err != nil || stderr == nil {
		refuse(s, stderr, failed(wire.StepExec, 0, wire.ErrMalformed))
		return
	}
	st, err := newStreams(c.Stdin)
	if err != nil {
		refuse(s, stderr, failed(wire.StepStreams, 0, err))
		return
	}
	defer st.close()
	status := g.program.start(&c, st.its)
	st.closeIts()
	if status.Cause != wire.CauseNone {
		refuse(s, stderr, status)
		return
	}
	reply(s, status)
	go feed(st.in, s)
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		drain(stderr, st.err)
	}()
	drain(s, st.out)
	<-drained
	<-g.program.none
	_ = stderr.CloseWrite() // the channel has ended, else
	x := &wire.Exit{Status: uint32(g.program.status), Wall: int64(g.program.wall), CPU: int64(g.program.cpu), Tasks: g.program.seen()}
	g.place.space(x)
	reply(s, x)
	_ = s.CloseWrite() // as above
}

// refuse says that the program does not run, and nothing else.
func refuse(s, stderr *mux.Stream, status *wire.Status) {
	if stderr != nil {
		_ = stderr.CloseWrite() // as below
	}
	reply(s, status)
	_ = s.CloseWrite() // the channel has ended, else
}

// feed passes on the program's input, and takes what it does not want.
func feed(to *os.File, s *mux.Stream) {
	buf := make([]byte, mux.MaxData)
	for {
		n, err := s.Read(buf)
		if to != nil && n > 0 {
			if _, err := to.Write(buf[:n]); err != nil {
				_ = to.Close() // it has ended, or does not read
				to = nil
			}
		}
		if err != nil {
			if to != nil {
				_ = to.Close() // all is said
			}
			return
		}
	}
}

// drain passes on what the program writes until all who could are gone. Where
// the host does not take it any more, it is dropped.
func drain(to *mux.Stream, from *os.File) {
	buf := make([]byte, mux.MaxData)
	for taken := true; ; {
		n, err := from.Read(buf)
		if n > 0 && taken {
			_, failed := to.Write(buf[:n])
			taken = failed == nil
		}
		if err != nil {
			return
		}
	}
}

func newStreams(input bool) (*streams, error) {
	st := &streams{its: [3]int{-1, -1, -1}}
	err := st.open(input)
	if err != nil {
		st.closeIts()
		st.close()
	}
	return st, err
}

func (st *streams) open(input bool) (err error) {
	if input {
		st.its[0], st.in, err = pipe(true)
	} else {
		st.its[0], err = unix.Open(os.DevNull, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	}
	if err == nil {
		st.its[1], st.out, err = pipe(false)
	}
	if err == nil {
		st.its[2], st.err, err = pipe(false)
	}
	return err
}

// pipe makes a pipe, of which one end is the program's: to read from, or to
// write to. Ours is out of the way of its limit.
func pipe(reads bool) (its int, ours *os.File, err error) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		return -1, nil, err
	}
	its, fd := fds[1], fds[0]
	if reads {
		its, fd = fds[0], fds[1]
	}
	moved, err := high(fd)
	if err == nil {
		ours, err = pollable(moved, "stream")
	}
	if err != nil {
		_ = unix.Close(its) // it was not used
		return -1, nil, err
	}
	return its, ours, nil
}

func (st *streams) closeIts() {
	for i, fd := range st.its {
		if fd >= 0 {
			_ = unix.Close(fd) // the program has its own
			st.its[i] = -1
		}
	}
}

func (st *streams) close() {
	for _, f := range []*os.File{st.in, st.out, st.err} {
		if f != nil {
			_ = f.Close() // nothing is left to be read or written
		}
	}
}
