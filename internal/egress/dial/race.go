package dial

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"
	"time"
)

// stagger is how long an address has before the next is tried beside it.
const stagger = 250 * time.Millisecond

// errOther is the error of a connect to an address that was not judged.
var errOther = errors.New("the address to connect to is not the one that was judged")

type attempt struct {
	conn net.Conn
	err  error
}

// race dials one address after the other and returns the first connection.
// Those that lose are closed before it returns.
func (d *Dialer) race(ctx context.Context, judge Judge, addrs []netip.Addr, port uint16) (net.Conn, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan attempt)
	timer := time.NewTimer(stagger)
	defer timer.Stop()
	running := 0
	next := func() {
		to := netip.AddrPortFrom(addrs[0], port)
		addrs, running = addrs[1:], running+1
		timer.Reset(stagger)
		go func() {
			c, err := d.connect(ctx, judge, to)
			done <- attempt{c, err}
		}()
	}
	won, first := net.Conn(nil), error(nil)
	for next(); running > 0; {
		var tick <-chan time.Time
		if len(addrs) > 0 {
			tick = timer.C
		}
		select {
		case <-tick:
		case a := <-done:
			running--
			won, first = settle(a, won, first)
		}
		if won != nil || ctx.Err() != nil {
			addrs = nil
			cancel() // the others end at once
		} else if len(addrs) > 0 {
			next()
		}
	}
	if won != nil {
		return won, nil
	}
	return nil, judgedLate(first)
}

// settle takes in the end of one attempt. The first connection is kept, and
// else the first error.
func settle(a attempt, won net.Conn, first error) (net.Conn, error) {
	switch {
	case a.err != nil && first == nil:
		return won, a.err
	case a.err == nil && won == nil:
		return a.conn, first
	case a.err == nil:
		_ = a.conn.Close() // it came second
	}
	return won, first
}

// judgedLate tells a refusal before the connect from a failure.
func judgedLate(err error) error {
	var denied *Denied
	if errors.As(err, &denied) {
		return denied
	}
	return failed(err)
}

// dialAddr connects to one address, which is judged once more where nothing
// can come in between.
func (d *Dialer) dialAddr(ctx context.Context, judge Judge, to netip.AddrPort) (net.Conn, error) {
	nd := net.Dialer{
		FallbackDelay: -1,
		Control: func(network, address string, _ syscall.RawConn) error {
			return d.control(judge, to, network, address)
		},
	}
	nd.SetMultipathTCP(false)
	network := "tcp4"
	if to.Addr().Is6() {
		network = "tcp6"
	}
	return nd.DialContext(ctx, network, to.String())
}

func (d *Dialer) control(judge Judge, to netip.AddrPort, network, address string) error {
	got, err := netip.ParseAddrPort(address)
	if err != nil || got != to || network != "tcp4" && network != "tcp6" {
		return fmt.Errorf("%s %q: %w", network, address, errOther)
	}
	own, err := d.own.get()
	if err != nil {
		return &Failed{Why: "the addresses of this host could not be read", Err: err}
	}
	if passed, why := judged([]netip.Addr{got.Addr()}, own, judge); len(passed) == 0 {
		return &Denied{Why: why, Addr: got.Addr()}
	}
	return nil
}
