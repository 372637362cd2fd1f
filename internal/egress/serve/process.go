package serve

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"slices"
	"sync"

	"github.com/callcell/callcell/internal/egress/carry"
	"github.com/callcell/callcell/internal/egress/dial"
	"github.com/callcell/callcell/internal/egress/fetch"
	"github.com/callcell/callcell/internal/egress/policy"
	"github.com/callcell/callcell/internal/egress/suffix"
	"github.com/callcell/callcell/internal/egress/wire"
	"github.com/callcell/callcell/internal/packet"
)

const (
	maxRoots = 8 << 20 // bytes of certificate authorities
	maxCalls = 1024    // at once
)

// ErrSetup is the error of a process that was not told what it has to know.
var ErrSetup = errors.New("egress: not set up")

// Options are for tests: a process has none.
type Options struct {
	// Log takes short lines of ours without data of strangers. Nil: nowhere.
	Log io.Writer
	// Fetch fetches; nil makes a fetch.Fetcher.
	Fetch Fetcher
}

// Fetcher is what a call's fetch is left to. It is called concurrently.
type Fetcher interface {
	Fetch(ctx context.Context, team string, pol fetch.Judge, req wire.Fetch, emit func([]byte) error) wire.Fetched
}

// process is the egress process.
type process struct {
	control *packet.Conn
	log     *journal
	setup   wire.Setup
	roots   func() *x509.CertPool // parsed when they are first needed: most calls never do
	dialer  *dial.Dialer
	fetcher func() Fetcher
	buffers carry.Buffers
	places  places
	web     places // of connections that are looked into
	calls   places
	running sync.WaitGroup
}

// Run serves calls until the front hangs up. It takes over fd, the process's
// end of the control conversation. When it returns, every call has ended. The
// error is nil where the front just hung up.
func Run(fd int, o Options) error {
	control, err := packet.New(fd, packet.Limits{Message: wire.MaxMessage, FDs: wire.MaxFDs})
	if err != nil {
		return err
	}
	defer control.Close()
	p := &process{control: control, log: &journal{to: o.Log}, calls: places{most: maxCalls}, web: places{most: allWeb}}
	if err := p.begin(o); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	err = p.serve(ctx)
	cancel(carry.ErrEnded)
	p.running.Wait()
	return err
}

// begin takes Setup and answers it.
func (p *process) begin(o Options) error {
	m, fds, err := receive(p.control)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrSetup, err)
	}
	if m.Setup == nil || len(fds) != 1 {
		packet.CloseAll(fds)
		return fmt.Errorf("%w: the first message is another one", ErrSetup)
	}
	roots := os.NewFile(uintptr(fds[0]), "roots")
	defer roots.Close()
	if m.Setup.Version != wire.Version {
		return fmt.Errorf("%w: the front is of version %d, and this is %d", ErrSetup, m.Setup.Version, wire.Version)
	}
	if err := p.take(*m.Setup, roots, o); err != nil {
		return fmt.Errorf("%w: %w", ErrSetup, err)
	}
	return send(p.control, wire.Message{Hello: &wire.Hello{Version: wire.Version, PID: os.Getpid()}})
}

// take sets up what all calls share.
func (p *process) take(s wire.Setup, roots *os.File, o Options) error {
	pem, err := readRoots(roots)
	if err != nil {
		return err
	}
	p.setup, p.places.most = s, int64(s.Limits.AllConnections)
	p.roots = sync.OnceValue(func() *x509.CertPool {
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM(pem)
		return pool
	})
	if err := positive(s.Limits); err != nil {
		return err
	}
	dialing := dial.Options{Timeout: s.Limits.Dial, Hosts: map[string][]netip.Addr{}}
	for _, r := range s.Resolvers {
		at, err := netip.ParseAddrPort(r)
		if err != nil {
			return fmt.Errorf("resolver: %w", err)
		}
		dialing.Resolvers = append(dialing.Resolvers, at)
	}
	for _, h := range s.Hosts {
		name, err := policy.Canonical(h.Name)
		if err != nil {
			continue // a name that cannot be asked for
		}
		dialing.Hosts[name] = append(dialing.Hosts[name], h.Addrs...)
	}
	p.dialer = dial.New(dialing)
	p.fetcher = sync.OnceValue(func() Fetcher {
		if o.Fetch != nil {
			return o.Fetch
		}
		return fetch.New(fetch.Options{Dial: fetchDialer{}, Roots: p.roots(), Limits: s.Limits, ToASCII: suffix.ToASCII})
	})
	return nil
}

// readRoots reads from the start of a file whose position is somebody's.
func readRoots(f *os.File) ([]byte, error) {
	pem, err := io.ReadAll(io.NewSectionReader(f, 0, maxRoots+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("certificate authorities: %w", err)
	case len(pem) > maxRoots:
		return nil, fmt.Errorf("certificate authorities: more than %d bytes", maxRoots)
	}
	return pem, nil
}

func positive(l wire.Limits) error {
	all := []int64{int64(l.Connections), int64(l.AllConnections), int64(l.CallConnections), int64(l.Names), l.Bytes,
		int64(l.Dial), int64(l.Idle), int64(l.Total), l.FetchBytes, l.FetchHeader, int64(l.FetchTotal)}
	if slices.Min(all) <= 0 {
		return errors.New("a limit is not positive")
	}
	return nil
}

// serve begins calls until the front hangs up.
func (p *process) serve(ctx context.Context) error {
	for {
		m, fds, err := receive(p.control)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if m.Begin == nil || len(fds) == 0 || len(fds) != len(m.Begin.Sockets) || m.Begin.Sockets[0].Use != wire.UseCall {
			packet.CloseAll(fds)
			return errors.New("egress: the front said what is not for it to say")
		}
		conn, err := packet.New(fds[0], packet.Limits{Message: wire.MaxMessage, FDs: 1})
		if err != nil {
			packet.CloseAll(fds[1:])
			return err
		}
		p.running.Go(func() { p.call(ctx, conn, m.Begin, fds[1:]) })
	}
}

// receive returns the next message of a conversation and its descriptors.
func receive(conn *packet.Conn) (wire.Message, []int, error) {
	b, fds, err := conn.Receive()
	if err != nil {
		return wire.Message{}, nil, err
	}
	m, err := wire.Decode(b)
	if err != nil {
		packet.CloseAll(fds)
		return wire.Message{}, nil, err
	}
	return m, fds, nil
}

func send(conn *packet.Conn, m wire.Message) error {
	b, err := wire.Encode(m)
	if err != nil {
		return err
	}
	return conn.Send(b)
}

// journal takes short lines of ours.
type journal struct {
	mu sync.Mutex // serialises writes
	to io.Writer
}

func (j *journal) line(text string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.to != nil {
		_, _ = io.WriteString(j.to, "callcell-egress: "+text+"\n") // there is nowhere to say that it failed
	}
}
