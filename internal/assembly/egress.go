package assembly

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"sync"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/broker"
	"github.com/callcell/callcell/internal/cell"
	"github.com/callcell/callcell/internal/config"
	"github.com/callcell/callcell/internal/config/guarded"
	"github.com/callcell/callcell/internal/egress"
	"github.com/callcell/callcell/internal/egress/hostnet"
	"github.com/callcell/callcell/internal/egress/policy"
	"github.com/callcell/callcell/internal/egress/suffix"
	"github.com/callcell/callcell/internal/egress/trust"
	"github.com/callcell/callcell/internal/egress/wire"
)

// maxRoots bounds the file of further certificate authorities, in bytes.
const maxRoots = 4 << 20

// A wayOut is the egress process as the broker sees it.
type wayOut struct {
	client *egress.Client
	roots  func() ([]byte, error) // PEM, of this host and the operator
}

func newWayOut(s egress.Starter, c *config.Config) (*wayOut, error) {
	options, err := egressOptions(c)
	if err != nil {
		return nil, err
	}
	return &wayOut{client: egress.New(s, options), roots: options.Roots}, nil
}

// egressOptions makes of the operator's configuration, and of what this host
// says of itself, what the egress process is told.
func egressOptions(c *config.Config) (egress.Options, error) {
	o := egress.Options{Limits: limitsOf(&c.Egress), Roots: sync.OnceValues(func() ([]byte, error) { return rootsOf(&c.Egress) })}
	for _, text := range c.Egress.Resolvers {
		at, err := config.ResolverAddress(text)
		if err != nil {
			return o, fmt.Errorf("egress.resolvers: %w", err)
		}
		o.Resolvers = append(o.Resolvers, at.String())
	}
	for _, text := range c.Egress.Deny {
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			return o, fmt.Errorf("egress.deny: %w", err)
		}
		o.Deny = append(o.Deny, prefix)
	}
	if len(o.Resolvers) == 0 {
		o.Resolvers = hostnet.Resolvers()
	}
	o.Hosts = hostnet.Hosts()
	return o, nil
}

func limitsOf(e *config.Egress) wire.Limits {
	l, f := &e.Limits, &e.Fetch
	return wire.Limits{
		Connections: int(l.Connections), AllConnections: int(l.AllConnections), CallConnections: int(l.CallConnections),
		Names: int(l.Names), Bytes: int64(l.Bytes), Dial: l.Dial.Std(), Idle: l.Idle.Std(), Total: l.Total.Std(),
		FetchBytes: int64(f.Bytes), FetchHeader: int64(f.Header), FetchTotal: f.Total.Std(), FetchHops: int(f.Hops),
		FetchPorts: f.Ports, CacheEntries: int(f.CacheEntries), CacheFor: f.CacheFor.Std(), CacheBytes: int64(f.CacheBytes),
	}
}

// rootsOf returns the certificate authorities of this host and the operator's
// own.
func rootsOf(e *config.Egress) ([]byte, error) {
	pem, err := hostnet.Roots()
	if e.Roots == "" {
		return pem, err
	}
	more, err := guarded.Read(e.Roots, maxRoots)
	if err != nil {
		return nil, fmt.Errorf("egress.roots: %w", err)
	}
	return append(append(pem, '\n'), hostnet.ParseRoots(more)...), nil
}

// Check implements broker.Egress.
func (w *wayOut) Check(n *envelope.Network) error {
	for i, a := range n.Allow {
		if addr, err := netip.ParseAddr(a.Host); err == nil && addr.IsLoopback() {
			return &envelope.FieldError{Reason: envelope.ReasonPolicy, Field: fmt.Sprintf("network.allow[%d].host", i),
				Msg: a.Host + " is the cell's own loopback", Hint: "give the service of this host a name, and list its address in network.private"}
		}
	}
	_, err := policy.New(*n, policy.Options{PublicSuffix: suffix.Public})
	var fault *policy.Error
	if errors.As(err, &fault) {
		return &envelope.FieldError{Reason: envelope.ReasonPolicy, Field: fmt.Sprintf("network.allow[%d].host", fault.Entry), Msg: fault.Msg, Hint: fault.Hint}
	}
	return err
}

// Warm implements broker.Egress.
func (w *wayOut) Warm() { w.client.Warm() }

// Open implements broker.Egress.
func (w *wayOut) Open(ctx context.Context, out broker.WayOut) (broker.Way, error) {
	call := egress.Call{ID: out.ID, Team: out.Team, Network: out.Network, Gate: out.Gate, Tunnels: out.Tunnels}
	for _, h := range out.Held {
		call.Credentials = append(call.Credentials, wire.Credential{
			Name: h.Name, Header: h.Use.Header, Format: h.Use.FormatOrDefault(), Host: h.Use.Host, Port: h.Use.PortOrDefault(),
			Methods: h.Use.Methods, Path: h.Use.Path, Secret: h.Secret,
		})
	}
	s, err := w.client.Open(ctx, call)
	if err != nil {
		return nil, &cell.Error{Reason: envelope.ReasonSetup, Step: "open the way out", Err: err}
	}
	return &way{s, w.roots}, nil
}

// A way is one session of the egress process.
type way struct {
	*egress.Session
	roots func() ([]byte, error)
}

// Close implements broker.Way.
func (w *way) Close(ctx context.Context) (envelope.Egress, error) {
	seen, err := w.Session.Close(ctx)
	if errors.Is(err, egress.ErrDied) {
		err = fmt.Errorf("%w: %w", broker.ErrWayDied, err)
	}
	return seen, err
}

// Trust implements broker.Way.
func (w *way) Trust() ([]cell.RunFile, map[string]string, error) {
	ca := w.CA()
	if ca == "" {
		return nil, nil, nil
	}
	roots, err := w.roots()
	if err != nil {
		return nil, nil, err
	}
	bundle, err := trust.Bundle(ca, roots)
	if err != nil {
		return nil, nil, err
	}
	var files []cell.RunFile
	for _, name := range slices.Sorted(maps.Keys(bundle)) {
		files = append(files, cell.RunFile{Name: name, Data: bundle[name], Mode: 0o444})
	}
	return files, trust.Variables(cell.RunDir), nil
}
