package dial

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/callcell/callcell/internal/egress/dial/dialtest"
	"github.com/callcell/callcell/internal/testing/leak"
	"github.com/callcell/callcell/internal/testing/listener"
)

// public takes 127.0.0.2 for a public address and nothing else.
func public(a netip.Addr, _ []netip.Addr) (bool, string) {
	return a == netip.MustParseAddr("127.0.0.2"), a.String() + " is not public"
}

func addrs(texts ...string) (all []netip.Addr) {
	for _, text := range texts {
		all = append(all, netip.MustParseAddr(text))
	}
	return all
}

// server accepts at addr and counts.
func server(t *testing.T, addr string) (port uint16, hits *atomic.Int64) {
	t.Helper()
	hits = new(atomic.Int64)
	at := listener.Start(t, addr, func(c net.Conn) {
		hits.Add(1)
		_, _ = c.Write([]byte("x"))
	})
	return at.Port(), hits
}

func dialer(t *testing.T, resolver *dialtest.Server, change func(*Options)) *Dialer {
	t.Helper()
	o := Options{Timeout: time.Minute, Own: func() ([]netip.Addr, error) { return addrs("127.0.0.1"), nil }}
	if resolver != nil {
		o.Resolvers = []netip.AddrPort{resolver.Addr}
	}
	if change != nil {
		change(&o)
	}
	d := New(o)
	d.res.lag = time.Minute // so that a slow test sees both families
	return d
}

func TestANameThatFlipsNeverReachesTheRefusedAddress(t *testing.T) {
	leak.Check(t)
	var n atomic.Int64
	resolver := dialtest.New(t, func(_ string, typ dnsmessage.Type) dialtest.Answer {
		if typ != dnsmessage.TypeA {
			return dialtest.Answer{}
		}
		return dialtest.Answer{Addrs: []string{[]string{"127.0.0.2", "127.0.0.1"}[n.Add(1)%2]}}
	})
	port, inside := server(t, "127.0.0.1:0")
	_, outside := server(t, netip.AddrPortFrom(netip.MustParseAddr("127.0.0.2"), port).String())
	d := dialer(t, resolver, nil)
	reached := 0
	for range 200 {
		c, err := d.Dial(t.Context(), public, Target{Host: "flip.test", Port: port})
		var denied *Denied
		switch {
		case err == nil:
			reached++
			if _, err := io.ReadAll(c); err != nil {
				t.Error(err)
			}
			_ = c.Close()
		case !errors.As(err, &denied) || denied.Why != "resolved address not allowed: 127.0.0.1 is not public":
			t.Fatal(err)
		}
	}
	// A question that is asked again turns the name once more.
	if inside.Load() != 0 || reached < 50 || reached > 150 || outside.Load() != int64(reached) {
		t.Errorf("%d hits inside, %d reached, %d hits outside", inside.Load(), reached, outside.Load())
	}
}

func TestOnlyAddressesThatPassedAreDialled(t *testing.T) {
	resolver := dialtest.New(t, dialtest.Fixed(map[string][]string{
		"mixed.test.":  {"127.0.0.1", "127.0.0.2", "::ffff:127.0.0.1", "::1", "127.0.0.2"},
		"inside.test.": {"127.0.0.1", "::1"},
		"empty.test.":  {},
	}))
	var mu sync.Mutex
	var dialled []netip.AddrPort
	d := dialer(t, resolver, nil)
	d.connect = func(_ context.Context, _ Judge, to netip.AddrPort) (net.Conn, error) {
		mu.Lock()
		defer mu.Unlock()
		dialled = append(dialled, to)
		return nil, errors.New("not today")
	}
	for _, row := range []struct {
		target  Target
		denied  bool
		why     string
		dialled string
	}{
		{Target{Host: "mixed.test", Port: 80}, false, "the connection failed", "127.0.0.2:80"},
		{Target{Host: "inside.test", Port: 80}, true, "resolved address not allowed: 127.0.0.1 is not public, and 1 more", ""},
		{Target{Host: "empty.test", Port: 80}, false, "the name has no address", ""},
		{Target{Host: "none.test", Port: 80}, false, "there is no such name", ""},
		{Target{Host: strings.Repeat("a", 64) + ".test", Port: 80}, false, "the resolver did not answer", ""},
		{Target{Host: strings.Repeat("a.", 127) + "test", Port: 80}, false, "the name cannot be asked for", ""},
		{Target{Host: "", Port: 80}, false, "the name cannot be asked for", ""},
		{Target{Host: "127.0.0.2", Port: 80, Literal: netip.MustParseAddr("127.0.0.2")}, false, "the connection failed", "127.0.0.2:80"},
		{Target{Host: "::1", Port: 80, Literal: netip.MustParseAddr("::1")}, true, "resolved address not allowed: ::1 is not public", ""},
		{Target{Host: "known.test", Port: 80}, true, "resolved address not allowed: 127.0.0.9 is not public", ""},
	} {
		dialled = nil
		d.o.Hosts = map[string][]netip.Addr{"known.test": addrs("127.0.0.9")}
		_, err := d.Dial(t.Context(), public, row.target)
		var denied *Denied
		var failed *Failed
		if row.denied {
			if !errors.As(err, &denied) || denied.Why != row.why {
				t.Errorf("%s: %v", row.target.Host, err)
			}
		} else if !errors.As(err, &failed) || failed.Why != row.why {
			t.Errorf("%s: %v", row.target.Host, err)
		}
		var texts []string
		for _, to := range dialled {
			texts = append(texts, to.String())
		}
		if got := strings.Join(texts, " "); got != row.dialled {
			t.Errorf("%s: dialled %s", row.target.Host, got)
		}
	}
	for _, q := range resolver.Asked() {
		if strings.HasPrefix(q, "known.test.") || strings.HasPrefix(q, "127.") {
			t.Errorf("asked: %s", q)
		}
	}
}

func TestTheVeryAddressIsJudgedAgainBeforeTheConnect(t *testing.T) {
	port, hits := server(t, "127.0.0.2:0")
	times := 0
	judge := func(a netip.Addr, own []netip.Addr) (bool, string) {
		times++
		return times == 1, "it has become ours"
	}
	_, err := dialer(t, nil, nil).Dial(t.Context(), judge, Target{Port: port, Literal: netip.MustParseAddr("127.0.0.2")})
	var denied *Denied
	if !errors.As(err, &denied) || !strings.HasSuffix(denied.Why, "it has become ours") || times != 2 || hits.Load() != 0 {
		t.Errorf("%v after %d judgements, %d hits", err, times, hits.Load())
	}
}

func TestConnectToAnotherAddressIsRefused(t *testing.T) {
	d := dialer(t, nil, nil)
	to := netip.MustParseAddrPort("127.0.0.2:80")
	for _, address := range []string{"127.0.0.1:80", "127.0.0.2:81", "[::ffff:127.0.0.2]:80", "localhost:80", ""} {
		if err := d.control(public, to, "tcp4", address); !errors.Is(err, errOther) {
			t.Errorf("%q: %v", address, err)
		}
	}
	if err := d.control(public, to, "udp4", "127.0.0.2:80"); !errors.Is(err, errOther) {
		t.Error(err)
	}
	if err := d.control(public, to, "tcp4", "127.0.0.2:80"); err != nil {
		t.Error(err)
	}
}

func TestNothingIsDialledWhereOurAddressesCannotBeRead(t *testing.T) {
	port, hits := server(t, "127.0.0.2:0")
	for name, own := range map[string]func() ([]netip.Addr, error){
		"an error": func() ([]netip.Addr, error) { return addrs("127.0.0.1"), errors.New("no netlink") },
		"none":     func() ([]netip.Addr, error) { return nil, nil },
	} {
		d := dialer(t, nil, func(o *Options) { o.Own = own })
		_, err := d.Dial(t.Context(), public, Target{Port: port, Literal: netip.MustParseAddr("127.0.0.2")})
		var failed *Failed
		if !errors.As(err, &failed) || !strings.Contains(failed.Why, "addresses of this host") || hits.Load() != 0 {
			t.Errorf("%s: %v, %d hits", name, err, hits.Load())
		}
		if err := d.control(public, netip.MustParseAddrPort("127.0.0.2:80"), "tcp4", "127.0.0.2:80"); err == nil {
			t.Errorf("%s: the control passes", name)
		}
	}
}

func TestOurAddressesAreReadAnewAfterTwoSeconds(t *testing.T) {
	now, reads := time.Unix(1000, 0), 0
	d := dialer(t, nil, func(o *Options) {
		o.Now = func() time.Time { return now }
		o.Own = func() ([]netip.Addr, error) { reads++; return addrs("127.0.0.1"), nil }
	})
	for _, row := range []struct {
		step  time.Duration
		reads int
	}{{0, 1}, {time.Second, 1}, {time.Second, 2}, {-time.Hour, 3}, {0, 3}} {
		now = now.Add(row.step)
		if _, err := d.own.get(); err != nil || reads != row.reads {
			t.Errorf("after %v: %d reads, want %d: %v", row.step, reads, row.reads, err)
		}
	}
}

func TestTheKernelKnowsOurAddresses(t *testing.T) {
	got, err := interfaces()
	if err != nil || !slices.Contains(got, netip.MustParseAddr("127.0.0.1")) {
		t.Errorf("%v %v", got, err)
	}
}

func TestOrderOfFamilies(t *testing.T) {
	all := addrs("10.0.0.1", "10.0.0.2", "10.0.0.3", "2001:db8::1", "2001:db8::2")
	for _, row := range []struct{ own, want []netip.Addr }{
		{addrs("10.9.9.9", "::1", "fe80::1", "fd00::1"), addrs("10.0.0.1", "2001:db8::1", "10.0.0.2", "2001:db8::2", "10.0.0.3")},
		{addrs("10.9.9.9", "2001:db8::9"), addrs("2001:db8::1", "10.0.0.1", "2001:db8::2", "10.0.0.2", "10.0.0.3")},
	} {
		if got := order(all, row.own); !slices.Equal(got, row.want) {
			t.Errorf("with %v: %v", row.own, got)
		}
	}
	if got := order(slices.Repeat(all, 4), nil); len(got) != maxTried {
		t.Errorf("%d are tried", len(got))
	}
}

func TestFailuresHaveAReason(t *testing.T) {
	const port = 1 // where nobody listens
	_, err := dialer(t, nil, nil).Dial(t.Context(), public, Target{Port: port, Literal: netip.MustParseAddr("127.0.0.2")})
	var failed *Failed
	if !errors.As(err, &failed) || failed.Why != "the connection was refused" {
		t.Error(err)
	}
	_, err = dialer(t, nil, nil).Dial(t.Context(), public, Target{Host: "a.test", Port: port})
	if !errors.As(err, &failed) || failed.Why != "no resolver is configured" {
		t.Error(err)
	}
}
