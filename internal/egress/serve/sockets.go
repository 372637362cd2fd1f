package serve

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"time"

	"github.com/callcell/callcell/internal/egress/wire"
)

// sockets are what stands in a call's cell.
type sockets struct {
	dns    []net.PacketConn
	dnsTCP []net.Listener
	proxy  []net.Listener
	listen []net.Listener
	handed *handed // one of dnsTCP: for what a guest hands over
}

// adopt makes listeners of the descriptors that came with Begin, but for the
// first. It takes over all of them; on an error none is open.
func adopt(list []wire.Socket, fds []int) (*sockets, error) {
	s := &sockets{handed: newHanded()}
	s.dnsTCP = append(s.dnsTCP, s.handed)
	var errs []error
	for i, fd := range fds {
		f := os.NewFile(uintptr(fd), list[i].Use)
		if err := s.add(list[i], f); err != nil {
			errs = append(errs, fmt.Errorf("socket %d: %w", i+1, err))
		}
		_ = f.Close() // what was made of it has a descriptor of its own
	}
	if err := errors.Join(errs...); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (s *sockets) add(what wire.Socket, f *os.File) error {
	switch what.Use {
	case wire.UseDNS:
		pc, err := net.FilePacketConn(f)
		if err == nil {
			s.dns = append(s.dns, pc)
		}
		return err
	case wire.UseDNSTCP:
		return adoptTCP(&s.dnsTCP, f, 0)
	case wire.UseProxy:
		return adoptTCP(&s.proxy, f, 0)
	case wire.UseListen:
		return adoptTCP(&s.listen, f, what.Port)
	}
	return fmt.Errorf("its use is %q", what.Use)
}

// adoptTCP appends the listener that f is. Port 0 is any.
func adoptTCP(list *[]net.Listener, f *os.File, port int) error {
	l, err := net.FileListener(f)
	if err != nil {
		return err
	}
	at, err := netip.ParseAddrPort(l.Addr().String())
	if err == nil && port != 0 && int(at.Port()) != port {
		err = fmt.Errorf("it is at port %d, not %d", at.Port(), port)
	}
	if err != nil {
		_ = l.Close() // it was never served
		return err
	}
	*list = append(*list, l)
	return nil
}

// close closes all of them. It may be called again.
func (s *sockets) close() {
	for _, pc := range s.dns {
		_ = pc.Close() // closed is what it is to be
	}
	for _, list := range [][]net.Listener{s.dnsTCP, s.proxy, s.listen} {
		for _, l := range list {
			_ = l.Close() // the same
		}
	}
}

// patient is a listener whose Accept waits where descriptors or memory are
// short, and fails only when it is closed.
type patient struct {
	net.Listener
	ctx context.Context
}

// The times that Accept waits.
const (
	shortWait = 5 * time.Millisecond
	longWait  = time.Second
)

// Accept implements net.Listener.
func (p patient) Accept() (net.Conn, error) {
	for wait := shortWait; ; wait = min(2*wait, longWait) {
		c, err := p.Listener.Accept()
		if err == nil || errors.Is(err, net.ErrClosed) || p.ctx.Err() != nil {
			return c, err
		}
		select {
		case <-time.After(wait):
		case <-p.ctx.Done():
		}
	}
}
