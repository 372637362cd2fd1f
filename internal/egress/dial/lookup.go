package dial

import (
	"context"
	"errors"
	"net/netip"
	"sync/atomic"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

const (
	perTry = 2 * time.Second // for one server to answer
	rounds = 3               // over all servers

	// lag is how long the addresses of one family wait for those of the
	// other.
	lag = 300 * time.Millisecond
)

// errNoName is the error of a name that does not exist.
var errNoName = errors.New("there is no such name")

// resolver asks the configured servers. It is a stub: they recurse.
type resolver struct {
	servers []netip.AddrPort
	perTry  time.Duration
	lag     time.Duration
	good    atomic.Int32 // the server that answered last is asked first

	// exchange sends a question to a server and returns what it answered.
	exchange func(ctx context.Context, server netip.AddrPort, name dnsmessage.Name, t dnsmessage.Type) (reply, error)
}

func newResolver(servers []netip.AddrPort) *resolver {
	return &resolver{servers: servers, perTry: perTry, lag: lag, exchange: exchange}
}

type found struct {
	t     dnsmessage.Type
	addrs []netip.Addr
	err   error
}

// lookup returns the addresses of both families that a name has, IPv4 first.
// The name is asked for as it is: with a final dot, and never with another
// one appended.
func (r *resolver) lookup(ctx context.Context, host string) ([]netip.Addr, error) {
	name, err := dnsmessage.NewName(host + ".")
	if err != nil || host == "" {
		return nil, &Failed{Why: "the name cannot be asked for", Err: err}
	}
	if len(r.servers) == 0 {
		return nil, &Failed{Why: "no resolver is configured"}
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan found)
	for _, t := range []dnsmessage.Type{dnsmessage.TypeA, dnsmessage.TypeAAAA} {
		go func() {
			addrs, err := r.ask(ctx, name, t)
			done <- found{t, addrs, err}
		}()
	}
	one := <-done
	if len(one.addrs) > 0 {
		defer time.AfterFunc(r.lag, cancel).Stop()
	}
	two := <-done
	cancel()
	if one.t != dnsmessage.TypeA {
		one, two = two, one
	}
	if addrs := append(one.addrs, two.addrs...); len(addrs) > 0 {
		return addrs, nil
	}
	return nil, noAddress(one.err, two.err)
}

// noAddress says why there is no address. A name that does not exist is so for
// both families; a server that failed for one of them leaves it open.
func noAddress(errs ...error) error {
	var first error
	for _, err := range errs {
		if errors.Is(err, errNoName) {
			return &Failed{Why: errNoName.Error()}
		}
		if first == nil {
			first = err
		}
	}
	if first == nil {
		return &Failed{Why: "the name has no address"}
	}
	return &Failed{Why: "the resolver did not answer", Err: first}
}

// ask asks the servers in turn until one answers.
func (r *resolver) ask(ctx context.Context, name dnsmessage.Name, t dnsmessage.Type) ([]netip.Addr, error) {
	var last error
	start := int(r.good.Load())
	for try := range rounds * len(r.servers) {
		i := (start + try) % len(r.servers)
		got, err := r.try(ctx, r.servers[i], name, t)
		switch {
		case err == nil:
			r.good.Store(int32(i))
			return got.addrs, nil
		case errors.Is(err, errNoName):
			r.good.Store(int32(i))
			return nil, err
		case ctx.Err() != nil:
			return nil, ctx.Err()
		}
		last = err
	}
	return nil, last
}

// try asks one server. An answer that is no final one is an error.
func (r *resolver) try(ctx context.Context, server netip.AddrPort, name dnsmessage.Name, t dnsmessage.Type) (reply, error) {
	ctx, cancel := context.WithTimeout(ctx, r.perTry)
	defer cancel()
	got, err := r.exchange(ctx, server, name, t)
	switch {
	case err != nil:
		return reply{}, err
	case got.rcode == dnsmessage.RCodeNameError:
		return reply{}, errNoName
	case got.rcode != dnsmessage.RCodeSuccess:
		return reply{}, errors.New("a resolver answered " + got.rcode.String())
	}
	return got, nil
}
