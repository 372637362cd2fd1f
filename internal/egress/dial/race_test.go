package dial

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// road is how one address answers.
type road struct {
	after time.Duration
	err   error
}

// closing counts connections that were closed.
type closing struct {
	net.Conn
	to     netip.Addr
	closed *[]netip.Addr
}

func (c closing) Close() error {
	*c.closed = append(*c.closed, c.to)
	return nil
}

func TestRace(t *testing.T) {
	refused := errors.New("refused")
	for name, row := range map[string]struct {
		roads  []road // of 10.0.0.1, 10.0.0.2 ...
		won    int    // from 1; 0: none; -1: any
		tried  int
		took   time.Duration
		closed int
	}{
		"the first answers":              {[]road{{after: 10 * time.Millisecond}, {}}, 1, 1, 10 * time.Millisecond, 0},
		"a refusal starts the next":      {[]road{{after: time.Millisecond, err: refused}, {after: time.Millisecond}}, 2, 2, 2 * time.Millisecond, 0},
		"a slow one has the next beside": {[]road{{after: time.Second}, {after: time.Millisecond}, {}}, 2, 2, stagger + time.Millisecond, 0},
		"a slow one can win":             {[]road{{after: 300 * time.Millisecond}, {after: time.Minute}}, 1, 2, 300 * time.Millisecond, 0},
		"two at once":                    {[]road{{after: 300 * time.Millisecond}, {after: 50 * time.Millisecond}}, -1, 2, 300 * time.Millisecond, 1},
		"all refuse":                     {[]road{{err: refused}, {err: refused}, {err: refused}}, 0, 3, 0, 0},
		"none answers":                   {[]road{{after: time.Hour}, {after: time.Hour}}, 0, 2, 5 * time.Second, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var mu sync.Mutex
				var tried, closed []netip.Addr
				d := New(Options{Timeout: 5 * time.Second, Own: func() ([]netip.Addr, error) { return addrs("10.9.9.9"), nil }})
				d.connect = func(ctx context.Context, _ Judge, to netip.AddrPort) (net.Conn, error) {
					mu.Lock()
					tried = append(tried, to.Addr())
					mu.Unlock()
					r := row.roads[to.Addr().As4()[3]-1]
					select {
					case <-time.After(r.after):
						if r.err != nil {
							return nil, r.err
						}
						return closing{to: to.Addr(), closed: &closed}, nil
					case <-ctx.Done():
						return nil, ctx.Err()
					}
				}
				var all []netip.Addr
				for i := range row.roads {
					all = append(all, netip.AddrFrom4([4]byte{10, 0, 0, byte(i + 1)}))
				}
				d.o.Hosts = map[string][]netip.Addr{"a.test": all}
				start := time.Now()
				c, err := d.Dial(t.Context(), func(netip.Addr, []netip.Addr) (bool, string) { return true, "" }, Target{Host: "a.test", Port: 80})
				won := 0
				if err == nil {
					won = int(c.(closing).to.As4()[3])
				}
				if row.won < 0 && won > 0 {
					won = row.won
				}
				if won != row.won || len(tried) != row.tried || time.Since(start) != row.took || len(closed) != row.closed || !slices.IsSortedFunc(tried, netip.Addr.Compare) {
					t.Errorf("won by %d (%v), tried %v, closed %v, took %v", won, err, tried, closed, time.Since(start))
				}
				var failed *Failed
				if won == 0 && !errors.As(err, &failed) {
					t.Error(err)
				}
			})
		})
	}
}

func TestGivingUpEndsEveryAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := New(Options{Timeout: time.Minute, Own: func() ([]netip.Addr, error) { return addrs("10.9.9.9"), nil }})
		d.connect = func(ctx context.Context, _ Judge, _ netip.AddrPort) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		d.o.Hosts = map[string][]netip.Addr{"a.test": addrs("10.0.0.1", "10.0.0.2")}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := d.Dial(ctx, func(netip.Addr, []netip.Addr) (bool, string) { return true, "" }, Target{Host: "a.test", Port: 80})
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	})
}
