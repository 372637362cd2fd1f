package broker

import (
	"context"
	"errors"
	"fmt"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/cell"
)

// Egress is the only way out of this host for a call. It is called
// concurrently.
type Egress interface {
	// Check says whether a network can be served at all: a *FieldError
	// where not.
	Check(n *envelope.Network) error
	// Warm says that Open comes soon; it does not wait.
	Warm()
	// Open begins the way out of one call, and takes over WayOut.Gate. The
	// error is a *cell.Error or our own.
	Open(ctx context.Context, c WayOut) (Way, error)
}

// WayOut is what a Way is opened for.
type WayOut struct {
	ID      string // of the call
	Team    string
	Network envelope.Network
	// Held are credentials that the way out adds to requests; their secrets
	// are valid until the way is closed.
	Held []Held
	// Gate has the sockets that stand in the call's cell, or Tunnels is where
	// the connections come from that its guest hands over. A fetch has
	// neither.
	Gate    *cell.Gate
	Tunnels cell.Tunnels
}

// Way is the way out of one call, while it runs.
type Way interface {
	// Trust returns what must be put into the cell for its programs to
	// trust the call's own authority: files and variables. Both are empty
	// where nothing is inspected.
	Trust() ([]cell.RunFile, map[string]string, error)
	// Dead is closed when the way is gone before its time: from then on
	// everything is denied.
	Dead() <-chan struct{}
	// Fetch gets one document. A refusal means that nothing has left this
	// host.
	Fetch(ctx context.Context, f envelope.Fetch) (envelope.Fetched, *envelope.Refusal, error)
	// Close cuts what there is and returns what was tried, also beside an
	// error, which wraps ErrWayDied where the way died before and all is
	// closed; any other means that nobody knows. It is bounded in time.
	Close(ctx context.Context) (envelope.Egress, error)
}

const fetchWhy = "none: nothing of a stranger is executed; the egress process of this host fetches"

// reachable refuses what nobody could carry out of this host.
func (b *Broker) reachable(f *flight) error {
	if !f.reaches() {
		return nil
	}
	if b.egress == nil {
		return &envelope.Refusal{Reason: envelope.ReasonUnsupported, Field: "network",
			Message: "there is no way out on this host", Hint: "callcell levels says what is missing"}
	}
	return b.egress.Check(&f.env.Network)
}

// reaches reports whether the call may reach anything.
func (f *flight) reaches() bool { return f.call.Fetch != nil || len(f.env.Network.Allow) > 0 }

// openGate opens the way out of a cell and tells its programs of it.
func (b *Broker) openGate(ctx context.Context, f *flight) error {
	out := WayOut{}
	var err error
	switch c := f.cell.(type) {
	case cell.Gated:
		out.Gate, err = c.Gate()
	case cell.Tunnelled:
		out.Tunnels, err = c.Tunnels()
	default:
		err = fmt.Errorf("%w: the network was offered at %s, whose cells have no gate", errAssembly, f.result.Level)
	}
	if err != nil {
		return err
	}
	if err := b.openWay(ctx, f, out); err != nil {
		return err
	}
	files, vars, err := f.way.Trust()
	if err != nil {
		return err
	}
	f.cmd.Run = append(f.cmd.Run, files...)
	for name, value := range proxyVariables() {
		f.setenv(name, value)
	}
	for name, value := range vars {
		f.setenv(name, value)
	}
	return nil
}

// openWay opens the way out of a call; out says how its connections come.
func (b *Broker) openWay(ctx context.Context, f *flight, out WayOut) error {
	out.ID, out.Team, out.Network, out.Held = f.result.ID, f.who.Team, f.env.Network, f.held
	span := f.trace.Begin(f.step, "way")
	way, err := b.egress.Open(ctx, out)
	span.End(err != nil)
	if err != nil {
		return err
	}
	f.way = way
	f.undo.Add("egress", f.closeWay)
	return nil
}

// proxyVariables are for programs that use a proxy where one is named. None
// needs it: names lead out by themselves, under the same rules.
func proxyVariables() map[string]string {
	const proxy, local = "http://" + cell.ProxyAddress, "localhost,127.0.0.0/8,::1"
	return map[string]string{
		"http_proxy": proxy, "https_proxy": proxy, "no_proxy": local,
		"HTTP_PROXY": proxy, "HTTPS_PROXY": proxy, "NO_PROXY": local,
	}
}

// whileWay returns a context that ends, with errWay, when the way out dies.
func (f *flight) whileWay(ctx context.Context) (context.Context, context.CancelFunc) {
	if f.way == nil {
		return ctx, func() {}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	dead := f.way.Dead()
	go func() {
		select {
		case <-dead:
			cancel(errWay)
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(nil) }
}

// wayDied reports whether the way out is gone before its time.
func (f *flight) wayDied() bool {
	if f.way == nil {
		return false
	}
	select {
	case <-f.way.Dead():
		return true
	default:
		return false
	}
}

// closeWay ends the way out before the cell goes: what it held of the cell is
// closed then.
func (f *flight) closeWay(ctx context.Context) error {
	check := envelope.Check{What: "egress", Gone: true}
	seen, err := f.way.Close(ctx)
	if err != nil {
		check.Gone, check.Note = errors.Is(err, ErrWayDied), err.Error()
	}
	f.mask.egress(&seen)
	f.result.Egress, f.wayGone = &seen, &check
	if f.cell == nil {
		f.result.Teardown = withCheck(&envelope.Report{Complete: true}, &check)
	}
	return nil
}

func withCheck(r *envelope.Report, c *envelope.Check) *envelope.Report {
	if c != nil {
		r.Checks = append(r.Checks, *c)
		r.Complete = r.Complete && c.Gone
	}
	return r
}

// fetch gets one document. Where it was refused, nothing has left this host.
func (b *Broker) fetch(ctx context.Context, f *flight) error {
	r, began := f.result, b.clock.Now()
	r.Usage.MemoryPeak, r.Usage.PidsPeak, r.Usage.Scratch = -1, -1, -1
	ctx, stop := f.whileWay(ctx)
	defer stop()
	fetched, refusal, err := f.way.Fetch(ctx, *f.call.Fetch)
	r.Usage.Wall = b.since(began)
	if refusal != nil {
		f.started = false
		return refusal
	}
	r.Exit = envelope.Exit{Source: "host"}
	if err == nil {
		f.mask.fetched(&fetched)
		r.Outcome, r.Fetched = envelope.OutcomeCompleted, &fetched
		if fetched.Failure != "" {
			r.Exit.Code = 1
		}
		return nil
	}
	r.Exit.Code = -1
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, errWay) || cause == nil:
		return err // it broke
	case errors.Is(cause, errOverrun):
		r.Outcome, r.Exit.Cause = envelope.OutcomeWallTime, cell.CauseWall
	default:
		r.Outcome, r.Exit.Cause = envelope.OutcomeCancelled, cell.CauseCancel
	}
	return nil
}
