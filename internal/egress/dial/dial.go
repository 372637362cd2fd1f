package dial

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"time"
)

// maxAddrs is how many addresses of a name are looked at, and maxTried how
// many of them are dialled.
const (
	maxAddrs = 64
	maxTried = 8
)

// A Judge says whether an address may be dialled, and if not, why, which names
// the address. own are the addresses of this host's interfaces.
type Judge func(a netip.Addr, own []netip.Addr) (ok bool, why string)

// Target is what is dialled. Whether it may be was judged before.
type Target struct {
	Host    string     // canonical; what Literal says where that is valid
	Port    uint16     // not 0
	Literal netip.Addr // valid where the host is an address
}

// Options configure a Dialer.
type Options struct {
	// Resolvers are asked in order.
	Resolvers []netip.AddrPort
	// Hosts are the names that are known without asking, canonical.
	Hosts map[string][]netip.Addr
	// Timeout is for one Dial, resolving included; positive.
	Timeout time.Duration
	// Own returns the addresses of this host's interfaces; nil asks the
	// kernel. If it fails nothing is dialled.
	Own func() ([]netip.Addr, error)
	// Now is the clock; nil is time.Now.
	Now func() time.Time
}

// Dialer dials. Its methods may be called concurrently.
type Dialer struct {
	o   Options
	own *own
	res *resolver

	// connect is one connection to an address that passed.
	connect func(ctx context.Context, judge Judge, to netip.AddrPort) (net.Conn, error)
}

// New makes a dialer.
func New(o Options) *Dialer {
	if o.Own == nil {
		o.Own = interfaces
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	d := &Dialer{o: o, own: &own{read: o.Own, now: o.Now}, res: newResolver(o.Resolvers)}
	d.connect = d.dialAddr
	return d
}

// Dial connects to the target. What it returns is a *net.TCPConn. The error
// is a *Denied or a *Failed. When it returns, nothing of it runs any more.
func (d *Dialer) Dial(ctx context.Context, judge Judge, to Target) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, d.o.Timeout)
	defer cancel()
	addrs, err := d.addresses(ctx, to)
	if err != nil {
		return nil, failed(err)
	}
	own, err := d.own.get()
	if err != nil {
		return nil, &Failed{Why: "the addresses of this host could not be read", Err: err}
	}
	passed, why := judged(addrs, own, judge)
	if len(passed) == 0 {
		return nil, &Denied{Why: why, Addr: addrs[0]}
	}
	return d.race(ctx, judge, order(passed, own), to.Port)
}

// addresses returns the addresses of a target, each once.
func (d *Dialer) addresses(ctx context.Context, to Target) ([]netip.Addr, error) {
	if to.Literal.IsValid() {
		return []netip.Addr{to.Literal}, nil
	}
	addrs, ok := d.o.Hosts[to.Host]
	if !ok {
		var err error
		if addrs, err = d.res.lookup(ctx, to.Host); err != nil {
			return nil, err
		}
	}
	var unique []netip.Addr
	for _, a := range addrs {
		if a = a.Unmap(); len(unique) < maxAddrs && !slices.Contains(unique, a) {
			unique = append(unique, a)
		}
	}
	if len(unique) == 0 {
		return nil, &Failed{Why: "the name has no address"}
	}
	return unique, nil
}

// judged returns the addresses that may be dialled. If there are none, why
// says it of the first.
func judged(addrs, own []netip.Addr, judge Judge) (passed []netip.Addr, why string) {
	for _, a := range addrs {
		ok, reason := judge(a, own)
		if ok {
			passed = append(passed, a)
		} else if why == "" {
			why = "resolved address not allowed: " + reason
		}
	}
	if more := len(addrs) - 1; more > 0 {
		why += ", and " + strconv.Itoa(more) + " more"
	}
	return passed, why
}

// order brings the addresses of both families in turn, those of the family
// first that this host has a public address of.
func order(addrs, own []netip.Addr) []netip.Addr {
	six := slices.ContainsFunc(own, func(a netip.Addr) bool { return a.Is6() && a.IsGlobalUnicast() && !a.IsPrivate() })
	var first, second []netip.Addr
	for _, a := range addrs {
		if a.Is6() == six {
			first = append(first, a)
		} else {
			second = append(second, a)
		}
	}
	var turn []netip.Addr
	for i := range max(len(first), len(second)) {
		turn = append(turn, first[min(i, len(first)):min(i+1, len(first))]...)
		turn = append(turn, second[min(i, len(second)):min(i+1, len(second))]...)
	}
	return turn[:min(len(turn), maxTried)]
}
