package guest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/callcell/callcell/internal/cell"
	"github.com/callcell/callcell/internal/guest/mux"
	"github.com/callcell/callcell/internal/guest/wire"
)

// Conn is the host's end of the channel: a net.Conn, or an os.File of a socket.
type Conn = mux.Conn

// times bound what a guest may take.
type times struct {
	stall time.Duration // to read what is sent
	end   time.Duration // to say how the program ended that was killed
}

func usual() times { return times{stall: 15 * time.Second, end: 10 * time.Second} }

// mostOwn is how many streams of ours there may be at once.
const mostOwn = 64

// Host is the host's side of one guest. Its methods may be called
// concurrently; Exec and Prepare once.
type Host struct {
	m        *mux.Mux
	times    times
	prepared atomic.Bool
	started  atomic.Bool
}

// Dial takes over conn and waits until the guest has said that it is there and
// of this version. On an error conn is closed.
func Dial(ctx context.Context, conn Conn) (*Host, error) { return dial(ctx, conn, usual()) }

func dial(ctx context.Context, conn Conn, t times) (*Host, error) {
	h := &Host{m: mux.New(conn, mux.Options{Host: true, Own: mostOwn, Stall: t.stall}), times: t}
	defer context.AfterFunc(ctx, func() { h.m.Fail(ctx.Err()) })()
	err := h.m.Hello()
	if err == nil {
		select {
		case <-h.m.Ready():
			return h, nil
		case <-h.m.Done():
			err = h.m.Err()
		}
	}
	h.m.Close()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return nil, h.wrap(err)
}

// Done is closed when the channel has broken or was closed.
func (h *Host) Done() <-chan struct{} { return h.m.Done() }

// Err says why: it wraps ErrBroken, or is ErrClosed; nil before Done.
func (h *Host) Err() error {
	if h.m.Err() == nil {
		return nil
	}
	return h.wrap(nil)
}

// Close hangs up: the guest ends, and its place with it. It unblocks all
// others, and is idempotent. Nothing of the host's side runs any more when it
// returns, but what the caller's writers and connections still do.
func (h *Host) Close() error {
	h.m.Close()
	return nil
}

// do opens a stream, talks on it, and ends it. When ctx ends, so does the talk.
func (h *Host) do(ctx context.Context, n wire.Note, talk func(*mux.Stream) error) error {
	s, err := h.open(ctx, n)
	if err != nil {
		return err
	}
	defer s.Close()
	defer context.AfterFunc(ctx, func() { _ = s.Reset() })() // an error ends the channel, and is seen there
	if err = talk(s); err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	return h.broke(err)
}

func (h *Host) open(ctx context.Context, n wire.Note) (*mux.Stream, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	note, err := wire.Encode(&n)
	if err != nil {
		return nil, &FileError{n.Name, ErrRequest}
	}
	s, err := h.m.Open(note)
	if errors.Is(err, mux.ErrFull) {
		return nil, fmt.Errorf("guest: %w", err)
	}
	if err != nil {
		return nil, h.wrap(err)
	}
	return s, nil
}

// answer takes an answer on a stream.
func answer(s *mux.Stream, m wire.Message) error {
	b, err := s.Answer()
	if err != nil {
		return err
	}
	return wire.Decode(b, m)
}

// Prepare makes the place. It is called once, before Put and Exec. When it
// returns, what is to listen there does. The error is a *StepError or of the
// channel.
func (h *Host) Prepare(ctx context.Context, p Place) error {
	if h.prepared.Swap(true) {
		return errors.New("guest: a place is made once")
	}
	if len(p.Ports) > 0 {
		h.m.Allow(wire.MaxTunnels)
	}
	return h.do(ctx, wire.Note{Op: wire.OpPrepare}, func(s *mux.Stream) error {
		if err := wire.WriteTo(s, p.message()); err != nil {
			return err
		}
		if err := s.CloseWrite(); err != nil {
			return err
		}
		return statusOf(s)
	})
}

// statusOf takes a Status, which is the answer to a step.
func statusOf(s *mux.Stream) error {
	var status wire.Status
	if err := answer(s, &status); err != nil {
		return err
	}
	if err := cause(status); err != nil {
		return &StepError{status.Step, err}
	}
	return nil
}

// Put writes files. The error of one that cannot be written is a *FileError;
// others are written then.
func (h *Host) Put(ctx context.Context, files []File) error {
	return h.do(ctx, wire.Note{Op: wire.OpPut}, func(s *mux.Stream) error {
		w := bufio.NewWriterSize(s, mux.MaxData)
		for _, f := range files {
			head := wire.File{Name: f.Name, Mode: f.Mode, Run: f.Run, Size: int64(len(f.Data))}
			if err := wire.WriteTo(w, &head); errors.Is(err, wire.ErrMalformed) {
				return &FileError{f.Name, ErrRequest}
			} else if err != nil {
				return err
			}
			if _, err := w.Write(f.Data); err != nil {
				return err
			}
		}
		if err := errors.Join(w.Flush(), s.CloseWrite()); err != nil {
			return err
		}
		var status wire.Status
		if err := answer(s, &status); err != nil {
			return err
		}
		if err := cause(status); err != nil {
			if uint64(status.Index) >= uint64(len(files)) {
				return wire.ErrMalformed
			}
			return &FileError{files[status.Index].Name, err}
		}
		return nil
	})
}

// Signal sends a signal to every process of the place but the guest. SIGKILL
// also keeps one from being started.
func (h *Host) Signal(ctx context.Context, sig syscall.Signal) error {
	return h.do(ctx, wire.Note{Op: wire.OpSignal, Number: uint32(sig)}, func(s *mux.Stream) error {
		if err := s.CloseWrite(); err != nil {
			return err
		}
		return statusOf(s)
	})
}

// Stop ends every process of the place and everything that listens there. When
// it returns nil the guest has said that none is left.
func (h *Host) Stop(ctx context.Context) error {
	return h.do(ctx, wire.Note{Op: wire.OpStop}, func(s *mux.Stream) error {
		if err := s.CloseWrite(); err != nil {
			return err
		}
		return statusOf(s)
	})
}

// Tunnels returns the connections that the guest hands over. Without
// Place.Ports none comes.
func (h *Host) Tunnels() cell.Tunnels { return tunnels{h} }

type tunnels struct{ h *Host }

// Accept implements cell.Tunnels.
func (t tunnels) Accept(ctx context.Context) (cell.Tunnel, error) {
	select {
	case s := <-t.h.m.Accepted():
		return t.h.tunnel(s)
	case <-t.h.m.Done():
		return nil, t.h.wrap(nil)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (h *Host) tunnel(s *mux.Stream) (cell.Tunnel, error) {
	var n wire.Note
	err := wire.Decode(s.Note(), &n)
	if err != nil || n.Op != wire.OpTunnel || n.Number == 0 || n.Number > 65535 {
		h.m.Fail(&mux.BrokenError{What: "it opened a stream for what it must not", Err: err})
		return nil, h.wrap(nil)
	}
	local := netip.AddrPortFrom(netip.AddrFrom16(n.Addr).Unmap(), uint16(n.Number))
	return &tunnel{s, local, n.Datagrams}, nil
}

// A tunnel is one connection of a program.
type tunnel struct {
	*mux.Stream
	local     netip.AddrPort
	datagrams bool
}

// Local implements cell.Tunnel.
func (t *tunnel) Local() netip.AddrPort { return t.local }

// Datagrams implements cell.Tunnel.
func (t *tunnel) Datagrams() bool { return t.datagrams }

// copyTo takes all that comes on a stream. It returns the first error of the
// writer, and goes on without it: nobody waits for us.
func copyTo(w io.Writer, s *mux.Stream, refused func()) error {
	if w == nil {
		w = io.Discard
	}
	buf := make([]byte, mux.MaxData)
	for {
		n, err := s.Read(buf)
		if n > 0 && w != io.Discard {
			if _, refusal := w.Write(buf[:n]); refusal != nil {
				w = io.Discard
				refused()
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
