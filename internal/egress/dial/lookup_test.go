package dial

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/callcell/callcell/internal/egress/dial/dialtest"
	"github.com/callcell/callcell/internal/testing/leak"
)

func resolverAt(servers ...*dialtest.Server) *resolver {
	var at []netip.AddrPort
	for _, s := range servers {
		at = append(at, s.Addr)
	}
	r := newResolver(at)
	r.perTry, r.lag = time.Minute, time.Minute // whatever else the host has to do
	return r
}

func TestLookup(t *testing.T) {
	leak.Check(t)
	many := make([]string, 100)
	for i := range many {
		many[i] = "10.1.0." + strconv.Itoa(i)
	}
	answers := map[string]dialtest.Answer{
		"both.test.":    {Addrs: []string{"10.0.0.1", "2001:db8::1"}},
		"alias.test.":   {Aliases: []string{"b.test.", "C.test."}, Addrs: []string{"10.0.0.2"}},
		"large.test.":   {Truncated: true, Addrs: many},
		"none.test.":    {RCode: dnsmessage.RCodeNameError},
		"broken.test.":  {RCode: dnsmessage.RCodeServerFailure},
		"refused.test.": {RCode: dnsmessage.RCodeRefused},
		"nodata.test.":  {},
		"loop.test.":    {Aliases: []string{"loop.test."}},
		"raw.test.":     {Raw: []byte{0x80, 0}},
		"stray.test.":   {Before: [][]byte{nil, []byte("x"), make([]byte, 12), {0, 0, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0}}, Addrs: []string{"10.0.0.3"}},
		"a.test.b.c.":   {Addrs: []string{"10.0.0.4"}},
	}
	s := dialtest.New(t, func(name string, _ dnsmessage.Type) dialtest.Answer { return answers[strings.ToLower(name)] })
	for _, row := range []struct {
		host string
		want []string
		why  string
	}{
		{"both.test", []string{"10.0.0.1", "2001:db8::1"}, ""},
		{"alias.test", []string{"10.0.0.2"}, ""},
		{"large.test", many, ""},
		{"stray.test", []string{"10.0.0.3"}, ""},
		{"none.test", nil, "there is no such name"},
		{"nodata.test", nil, "the name has no address"},
		{"loop.test", nil, "the name has no address"},
		{"broken.test", nil, "the resolver did not answer"},
		{"refused.test", nil, "the resolver did not answer"},
		{"a.test.b", nil, "the name has no address"}, // no search domain is appended
	} {
		got, err := resolverAt(s).lookup(t.Context(), row.host)
		slices.SortFunc(got, netip.Addr.Compare)
		if want := addrs(row.want...); !slices.Equal(got, want) {
			t.Errorf("%s: %v %v", row.host, got, err)
		}
		var failed *Failed
		if row.why != "" && (!errors.As(err, &failed) || failed.Why != row.why) {
			t.Errorf("%s: %v", row.host, err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if got, err := resolverAt(s).lookup(ctx, "raw.test"); err == nil {
		t.Errorf("what cannot be read: %v", got)
	}
}

func TestEveryQuestionIsForACompleteName(t *testing.T) {
	s := dialtest.New(t, dialtest.Fixed(nil))
	_, _ = resolverAt(s).lookup(t.Context(), "x.test") // there is none
	got := s.Asked()
	slices.Sort(got)
	if want := []string{"x.test. A", "x.test. AAAA"}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

func TestTheNextServerIsAskedAndThenFirst(t *testing.T) {
	bad := dialtest.New(t, func(string, dnsmessage.Type) dialtest.Answer {
		return dialtest.Answer{RCode: dnsmessage.RCodeServerFailure}
	})
	good := dialtest.New(t, dialtest.Fixed(map[string][]string{"a.test.": {"10.0.0.1"}}))
	r := resolverAt(bad, good)
	for range 3 {
		if got, err := r.lookup(t.Context(), "a.test"); err != nil || len(got) != 1 {
			t.Fatalf("%v %v", got, err)
		}
	}
	if n := len(bad.Asked()); n > 2 {
		t.Errorf("the broken one is asked %d times", n)
	}
}

func TestASilentServerIsGivenUpInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newResolver([]netip.AddrPort{netip.MustParseAddrPort("10.0.0.1:53"), netip.MustParseAddrPort("10.0.0.2:53")})
		r.exchange = func(ctx context.Context, server netip.AddrPort, _ dnsmessage.Name, typ dnsmessage.Type) (reply, error) {
			if server.Addr() == netip.MustParseAddr("10.0.0.2") && typ == dnsmessage.TypeA {
				return reply{addrs: addrs("10.0.0.7")}, nil
			}
			<-ctx.Done()
			return reply{}, ctx.Err()
		}
		start := time.Now()
		got, err := r.lookup(t.Context(), "a.test")
		if err != nil || len(got) != 1 || time.Since(start) != perTry+lag {
			t.Errorf("%v %v after %v", got, err, time.Since(start))
		}
		r.exchange = func(ctx context.Context, _ netip.AddrPort, _ dnsmessage.Name, _ dnsmessage.Type) (reply, error) {
			<-ctx.Done()
			return reply{}, ctx.Err()
		}
		start = time.Now()
		if got, err := r.lookup(t.Context(), "a.test"); err == nil || time.Since(start) != 2*rounds*perTry {
			t.Errorf("%v %v after %v", got, err, time.Since(start))
		}
	})
}

func FuzzRead(f *testing.F) {
	name := dnsmessage.MustNewName("a.test.")
	alias := dnsmessage.MustNewName("b.test.")
	for _, answers := range [][]dnsmessage.Resource{
		nil,
		{{Header: dnsmessage.ResourceHeader{Name: name, Class: dnsmessage.ClassINET}, Body: &dnsmessage.AResource{A: [4]byte{10, 0, 0, 1}}}},
		{
			{Header: dnsmessage.ResourceHeader{Name: name, Class: dnsmessage.ClassINET}, Body: &dnsmessage.CNAMEResource{CNAME: alias}},
			{Header: dnsmessage.ResourceHeader{Name: alias, Class: dnsmessage.ClassINET}, Body: &dnsmessage.AResource{A: [4]byte{10, 0, 0, 1}}},
			{Header: dnsmessage.ResourceHeader{Name: alias, Class: dnsmessage.ClassINET}, Body: &dnsmessage.AAAAResource{}},
		},
	} {
		m := dnsmessage.Message{Header: dnsmessage.Header{ID: 7, Response: true}, Answers: answers,
			Questions: []dnsmessage.Question{{Name: name, Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET}}}
		b, err := m.Pack()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := read(b, 7, name, dnsmessage.TypeA)
		if err != nil {
			if len(got.addrs) > 0 {
				t.Fatal("an error and addresses")
			}
			return
		}
		if b[0] != 0 || b[1] != 7 || b[2]&0x80 == 0 || len(got.addrs) > maxRecords {
			t.Fatalf("%x: %v", b[:12], got)
		}
		if len(got.addrs) > 0 && (got.truncated || got.rcode != 0) {
			t.Fatalf("%x: %v", b[:12], got)
		}
		for _, a := range got.addrs {
			if !a.Is4() {
				t.Fatalf("%v to a question for IPv4", a)
			}
		}
	})
}
