package serve

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"

	"github.com/callcell/callcell/internal/egress/carry"
	"github.com/callcell/callcell/internal/egress/dial"
	"github.com/callcell/callcell/internal/egress/inspect"
)

// web leaves a connection to package inspect. It is carry.Options.HTTP.
func (c *call) web(ctx context.Context, program net.Conn, t carry.Target, o carry.Options) carry.HTTPOutcome {
	var address, denied atomic.Value // of the last dial, and that may not be dialled
	out := inspect.Serve(ctx, program, inspect.Options{
		Host: t.Host, Port: t.Port, TLS: t.Inspect, CA: c.ca, Roots: c.p.roots(), Once: t.Once, Edge: c.grant.At(t.Host, t.Port),
		Idle: o.Idle, Total: o.Total, MaxHeader: c.p.setup.Limits.FetchHeader, Count: o.Count,
		Dial: func(ctx context.Context) (net.Conn, error) {
			conn, err := o.Dial(ctx)
			if err != nil {
				if d := (*dial.Denied)(nil); errors.As(err, &d) && d.Addr.IsValid() {
					denied.Store(d.Addr.String())
				}
				return nil, judged(err)
			}
			address.Store(conn.RemoteAddr().String())
			return conn, nil
		},
	})
	h := carry.HTTPOutcome{Requests: out.Requests, Sent: out.Sent, Received: out.Received, Cut: out.Cut || out.Refused > 0, Late: out.Late, Why: out.Why, Failed: out.Failed}
	h.Address, _ = address.Load().(string)
	h.Blocked, _ = denied.Load().(string)
	if out.Bare > 0 {
		h.Note = fmt.Sprintf("%d of %d requests without a credential", out.Bare, out.Requests)
	}
	return h
}

// notAllowed is a *dial.Denied as package inspect knows one.
type notAllowed struct{ *dial.Denied }

// Is reports whether target is inspect's word for a refusal.
func (notAllowed) Is(target error) bool { return target == inspect.ErrDenied }

// Unwrap returns what was denied.
func (n notAllowed) Unwrap() error { return n.Denied }

// judged marks an error of dialling that is a refusal.
func judged(err error) error {
	var denied *dial.Denied
	if errors.As(err, &denied) {
		return notAllowed{denied}
	}
	return err
}
