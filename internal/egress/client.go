package egress

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/cell"
	"github.com/callcell/callcell/internal/egress/wire"
)

// Starter starts the egress process.
type Starter interface {
	// StartEgress starts one process whose end of the control conversation is
	// control, which stays the caller's and is not used once it has returned.
	// It is never called twice at once.
	StartEgress(ctx context.Context, control *os.File) (Process, error)
}

// Process is an egress process that was started.
type Process interface {
	// Close ends the process and says what was looked for. It is called once,
	// whether the process still runs or not, and bounded in time whatever ctx
	// says.
	Close(ctx context.Context) envelope.Report
}

// Options are what the process is told. The lists are not changed meanwhile.
type Options struct {
	Resolvers []string       // ADDRESS:PORT, asked in order
	Hosts     []wire.Host    // names that this host knows by itself
	Deny      []netip.Prefix // the operator's, beside what is never dialled
	Limits    wire.Limits    // the zero Connections: Defaults
	// Roots returns the certificate authorities that are trusted, PEM. It is
	// called when the first process is started, and again only where it
	// failed. nil: there are none.
	Roots func() ([]byte, error)
}

// Defaults are the limits where the operator names none.
func Defaults() wire.Limits {
	return wire.Limits{
		Connections: 64, AllConnections: 1024, CallConnections: 10_000, Names: 256, Bytes: 1 << 30,
		Dial: 10 * time.Second, Idle: time.Minute, Total: time.Hour,
		FetchBytes: 2 << 20, FetchHeader: 64 << 10, FetchTotal: 20 * time.Second, FetchHops: 5,
		CacheEntries: 128, CacheFor: 2 * time.Minute, CacheBytes: 32 << 20, FetchPorts: []int{80, 443, 8080, 8443},
	}
}

// Call is one call that may reach something.
type Call struct {
	ID      string // of the call
	Team    string // whose cached answers it may get
	Network envelope.Network
	// Credentials are what the call may use and is not given. Their secrets
	// stay the caller's: Open sends them from where they are and keeps no
	// copy. At most wire.MaxCredentials, of at most wire.MaxSecret bytes.
	Credentials []wire.Credential
	// Gate has the sockets that stand in the call's cell; nil where there is
	// no cell, or its guest tunnels. Open takes it over.
	Gate *cell.Gate
	// Tunnels is where the connections come from that a guest hands over; nil
	// where none does. The session takes them until it is closed.
	Tunnels cell.Tunnels
}

// times bound the process.
type times struct {
	start time.Duration // from the start to Hello
	begin time.Duration // from Begin to Ready
	send  time.Duration // until a message is taken
	end   time.Duration // from End to Done
	exit  time.Duration // to end the process
	hand  time.Duration // until a connection is taken that a guest hands over beyond those that its call may make
}

// Client starts the process and opens sessions. It is safe for concurrent use.
type Client struct {
	starter Starter
	options Options
	times   times

	mu       sync.Mutex // guards the following
	current  *process   // nil until one has been started; may be dead
	starting *starting  // nil where none is being started
	closed   bool

	roots []byte // the starting goroutine's, of which there is one
}

// starting is a process that is being started for everyone who waits.
type starting struct {
	cancel context.CancelFunc
	done   chan struct{} // closed when the following is set
	p      *process
	err    error
}

// New returns a client. No process is started before it is needed.
func New(s Starter, o Options) *Client {
	if o.Limits.Connections == 0 {
		o.Limits = Defaults()
	}
	return &Client{starter: s, options: o, times: times{
		start: 20 * time.Second, begin: 15 * time.Second, send: 5 * time.Second, end: 5 * time.Second, exit: 15 * time.Second,
		hand: time.Millisecond,
	}}
}

// Warm begins to start the process where none runs, for a call that comes
// soon. Whether it can be started, Open says.
func (c *Client) Warm() { _, _, _ = c.join() }

// Open begins the way out of one call. It takes over the call's gate and has
// closed its files when it returns. The error wraps ErrRefused, ErrDied or
// ErrClosed, or says why the process could not be started.
func (c *Client) Open(ctx context.Context, call Call) (*Session, error) {
	if call.Gate != nil {
		defer call.Gate.Close()
	}
	s, fresh, err := c.open(ctx, call)
	if errors.Is(err, ErrDied) && !fresh {
		s, _, err = c.open(ctx, call) // it had died before, and nobody had noticed
	}
	return s, err
}

// open is one try. The secrets cannot be overwritten while it lasts. fresh says
// that the process was started now.
func (c *Client) open(ctx context.Context, call Call) (s *Session, fresh bool, err error) {
	p, fresh, err := c.process(ctx)
	if err != nil {
		return nil, true, err
	}
	if !revealed(call.Credentials, func(secrets [][]byte) { s, err = p.open(ctx, call, secrets) }) {
		err = errNoSecret
	}
	return s, fresh, err
}

// process returns one that runs. fresh says that it was started now.
func (c *Client) process(ctx context.Context) (p *process, fresh bool, err error) {
	p, st, err := c.join()
	if st == nil {
		return p, false, err
	}
	select {
	case <-st.done:
		return st.p, true, st.err
	case <-ctx.Done():
		return nil, false, ctx.Err()
	}
}

// join returns the process that runs, or the start to wait for.
func (c *Client) join() (*process, *starting, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
		return nil, nil, ErrClosed
	case c.starting != nil:
		return nil, c.starting, nil
	case c.current != nil && c.current.alive():
		return c.current, nil, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), c.times.start)
	c.starting = &starting{cancel: cancel, done: make(chan struct{})}
	go c.start(ctx, c.starting, c.current)
	return nil, c.starting, nil
}

// start starts a process when the one before is gone.
func (c *Client) start(ctx context.Context, st *starting, before *process) {
	defer st.cancel()
	p, err := c.startAfter(ctx, before)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.starting = nil
	if p != nil {
		c.current = p
	}
	if c.closed {
		err = ErrClosed // Close takes it from here
	}
	st.p, st.err = p, err
	close(st.done)
}

// startAfter starts one. Beside an error it may return one that is dead.
func (c *Client) startAfter(ctx context.Context, before *process) (*process, error) {
	if before != nil {
		select {
		case <-before.gone:
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: %w", ErrLeft, ctx.Err())
		}
	}
	if c.roots == nil && c.options.Roots != nil {
		roots, err := c.options.Roots()
		if err != nil {
			return nil, fmt.Errorf("egress: certificate authorities: %w", err)
		}
		c.roots = roots
	}
	return c.launch(ctx)
}

// Close ends the process and waits until it is gone, at most until ctx ends.
// Sessions that are open die. The error says what is left. It is idempotent.
func (c *Client) Close(ctx context.Context) error {
	c.mu.Lock()
	c.closed = true
	st := c.starting
	c.mu.Unlock()
	if st != nil {
		st.cancel()
		select {
		case <-st.done:
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ErrLeft, ctx.Err())
		}
	}
	c.mu.Lock()
	p := c.current
	c.mu.Unlock()
	if p == nil {
		return nil
	}
	p.die(ErrClosed)
	return p.left(ctx)
}

// setup is the first message of a new process.
func (c *Client) setup() wire.Message {
	o := &c.options
	return wire.Message{Setup: &wire.Setup{Version: wire.Version, Resolvers: o.Resolvers, Hosts: o.Hosts, Deny: o.Deny, Limits: o.Limits}}
}

// notGone says what a report has not found gone; "" is nothing.
func notGone(r envelope.Report) string {
	if r.Complete {
		return ""
	}
	var left []string
	for _, check := range r.Checks {
		if !check.Gone {
			left = append(left, strings.TrimSuffix(check.What+": "+check.Note, ": "))
		}
	}
	if len(left) == 0 {
		return "nobody looked"
	}
	return strings.Join(left, ", ")
}
