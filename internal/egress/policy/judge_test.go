package policy

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/callcell/callcell/envelope"
)

func entryFor(host string, ports ...int) envelope.Allow {
	return envelope.Allow{Host: host, Ports: ports, Protocol: envelope.ProtocolTLS}
}

func mustNew(t testing.TB, n envelope.Network, o Options) *Policy {
	t.Helper()
	p, err := New(n, o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// stand is a network with something of everything.
func stand() envelope.Network {
	return envelope.Network{
		Allow: []envelope.Allow{
			{Host: "api.test.example", Ports: []int{8080, 443}, Protocol: envelope.ProtocolTLS, Inspect: true},
			{Host: "plain.test.example", Ports: []int{80, 443}},
			{Host: "*.wild.example", Ports: []int{443}},
			{Host: "*.deep.wild.example", Ports: []int{8443}, Protocol: envelope.ProtocolTLS},
			{Host: "db.test.example", Ports: []int{5432}, Protocol: envelope.ProtocolPostgres},
			{Host: "ssh.test.example", Ports: []int{22}, Protocol: envelope.ProtocolTCP},
			{Host: "8.8.8.8", Ports: []int{443}},
			{Host: "2a00::7", Ports: []int{443}},
			{Host: "10.1.2.3", Ports: []int{5432}, Protocol: envelope.ProtocolPostgres},
			{Host: "10.9.9.9", Ports: []int{443}},
			{Host: "www.github.example", Ports: []int{443}},
			{Host: "exact.wild.example", Ports: []int{443, 9443}, Protocol: envelope.ProtocolTLS},
		},
		Private: []envelope.Private{{CIDR: "10.1.2.0/24", Why: "the database"}},
	}
}

func TestJudge(t *testing.T) {
	p := mustNew(t, stand(), Options{})
	cases := []struct {
		host  string
		port  int
		entry int // -1: refused
		why   string
	}{
		{"api.test.example", 443, 0, `network.allow[0] "api.test.example"`},
		{"API.test.Example.", 8080, 0, `network.allow[0]`},
		{"api.test.example", 22, -1, `network.allow[0] "api.test.example": allowed on ports 443, 8080, not 22`},
		{"plain.test.example", 80, 1, `network.allow[1]`},
		{"a.wild.example", 443, 2, `network.allow[2] "*.wild.example"`},
		{"a.b.wild.example", 443, 2, `network.allow[2]`},
		{"_x.a_b.wild.example", 443, 2, `network.allow[2]`},
		{"exact.wild.example", 443, 11, `network.allow[11]`},
		{"exact.wild.example", 80, -1, `network.allow[11] "exact.wild.example", network.allow[2] "*.wild.example": allowed on ports 443, 9443, not 80`},
		{"a.wild.example", 80, -1, `network.allow[2] "*.wild.example": allowed on port 443, not 80`},
		{"a.deep.wild.example", 8443, 3, `network.allow[3]`},
		{"a.deep.wild.example", 443, 2, `network.allow[2]`},
		{"deep.wild.example", 8443, -1, `network.allow[2] "*.wild.example": allowed on port 443, not 8443`},
		{"wild.example", 443, -1, `network.allow[2] "*.wild.example" covers names below wild.example, not wild.example itself`},
		{"evilwild.example", 443, -1, "no entry of network.allow covers it"},
		{"a.wild.example.evil.test", 443, -1, "no entry of network.allow covers it"},
		{"x.api.test.example", 443, -1, `network.allow[0] "api.test.example" covers that name alone, not names below it`},
		{"github.example", 443, -1, `did you mean network.allow[10] "www.github.example"?`},
		{"www.gihtub.example", 443, -1, `did you mean network.allow[10] "www.github.example"?`},
		{"www.g1thub.example", 443, -1, `did you mean network.allow[10]`},
		{"apii.test.example", 443, -1, `did you mean network.allow[0]`},
		{"other.test", 443, -1, "no entry of network.allow covers it"},
		{"example", 443, -1, "no entry of network.allow covers it"},
		{"db.test.example", 5432, 4, `network.allow[4]`},
		{"ssh.test.example", 22, 5, `network.allow[5]`},

		{"8.8.8.8", 443, 6, `network.allow[6] "8.8.8.8"`},
		{"::ffff:8.8.8.8", 443, 6, `network.allow[6]`},
		{"8.8.8.8", 80, -1, `network.allow[6] "8.8.8.8": allowed on port 443, not 80`},
		{"8.8.8.9", 443, -1, "no entry of network.allow is this address"},
		{"[2A00:0::7]", 443, 7, `network.allow[7] "2a00::7"`},
		{"10.1.2.3", 5432, 8, `network.allow[8]`},
		{"10.9.9.9", 443, -1, `network.allow[9] "10.9.9.9": 10.9.9.9 is private (10.0.0.0/8)`},
		{"64:ff9b::8.8.8.8", 443, -1, "no entry of network.allow is this address"},
		{"134744072", 443, -1, "reads as an address"},

		{"api.test.example", 0, -1, "not a port"},
		{"api.test.example", -1, -1, "not a port"},
		{"api.test.example", 65536 + 443, -1, "not a port"},
		{"", 443, -1, `bad host ""`},
		{"api.test.example\x00.evil.test", 443, -1, `bad host "api.test.example\x00.evil.test": has a NUL`},
		{"*.wild.example", 443, -1, "has a wildcard"},
	}
	for _, c := range cases {
		v := p.Judge(c.host, c.port)
		if v.OK != (c.entry >= 0) || v.Entry != c.entry || v.Port != c.port || !strings.Contains(v.Why, c.why) {
			t.Errorf("%q %d: %+v", c.host, c.port, v)
			continue
		}
		a := stand().Allow
		if v.OK && (v.Protocol != a[v.Entry].ProtocolOn(c.port) || v.Inspect != a[v.Entry].InspectsOn(c.port)) {
			t.Errorf("%q %d: %+v", c.host, c.port, v)
		}
		if !v.OK && (v.Protocol != "" || v.Inspect) {
			t.Errorf("%q %d: refused, and it says how it is spoken: %+v", c.host, c.port, v)
		}
		if lit, err := netip.ParseAddr(v.Host); v.Literal != lit || (err == nil) != v.Literal.IsValid() {
			t.Errorf("%q %d: the literal is %v", c.host, c.port, v.Literal)
		}
	}
	if v := mustNew(t, envelope.Network{}, Options{}).Judge("a.test", 443); v.OK || v.Entry != -1 || v.Why != "network.allow is empty" {
		t.Errorf("nothing allows: %+v", v)
	}
}

// A hint is a hint: it names an entry that the host could be a slip of.
func TestLooks(t *testing.T) {
	for _, pair := range [][2]string{{"github.test", "gihtub.test"}, {"github.test", "git-hub.test"}, {"paypal.test", "paypa1.test"}, {"google.test", "gooogle.test"}, {"g00gle.test", "google.test"}, {"a.b-c.test", "a.b_c.test"}} {
		if looks(pair[0]) != looks(pair[1]) {
			t.Errorf("%v: %q, %q", pair, looks(pair[0]), looks(pair[1]))
		}
	}
	if looks("a.b.test") == looks("b.a.test") || looks("ab.test") == looks("a.b.test") || looks("") != "" {
		t.Error("labels are mixed up")
	}
	p := mustNew(t, envelope.Network{Allow: []envelope.Allow{entryFor(long(200), 443)}}, Options{})
	if v := p.Judge(long(201), 443); v.OK || v.Why != "no entry of network.allow covers it" {
		t.Errorf("a long name looks like another: %+v", v)
	}
}

func TestStrangeSpellingsAreNeverAllowed(t *testing.T) {
	n := stand()
	n.Fetch = envelope.FetchPublic
	n.Allow = append(n.Allow, entryFor("127.0.0.1", 9931))
	n.Private = append(n.Private, envelope.Private{CIDR: "127.0.0.1/32", Why: "stand"})
	p := mustNew(t, n, Options{FetchPorts: []int{80, 443, 9931}})
	for host := range strangers() {
		for name, v := range map[string]Verdict{"judge": p.Judge(host, 9931), "fetch": p.JudgeFetch(host, 9931), "resolves": p.Resolves(host)} {
			if v.OK || v.Entry != -1 || v.Literal.IsValid() || !strings.HasPrefix(v.Why, "bad host ") {
				t.Errorf("%s %.80q: %+v", name, host, v)
			}
			if len(v.Host) > 253 || len(v.Why) > 400 || strings.ContainsFunc(v.Host+v.Why, unprintable) {
				t.Errorf("%s %.80q cannot be shown: %q", name, host, v.Host)
			}
		}
	}
	if v := p.Judge("[::ffff:7f00:1]", 9931); !v.OK || v.Host != "127.0.0.1" {
		t.Errorf("what is one address is judged as that: %+v", v)
	}
}

func TestJudgeFetch(t *testing.T) {
	ports := Options{FetchPorts: []int{443, 80}}
	list := mustNew(t, stand(), ports)
	n := stand()
	n.Fetch = envelope.FetchPublic
	open := mustNew(t, n, ports)
	shut := mustNew(t, n, Options{})
	cases := []struct {
		p     *Policy
		host  string
		port  int
		ok    bool
		entry int
		why   string
	}{
		{list, "api.test.example", 443, true, 0, "network.allow[0]"},
		{list, "ssh.test.example", 22, true, 5, "network.allow[5]"},
		{list, "db.test.example", 5432, false, -1, `network.allow[4] "db.test.example" speaks postgres`},
		{list, "other.test", 443, false, -1, "no entry of network.allow covers it"},
		{open, "api.test.example", 443, true, 0, "network.allow[0]"},
		{open, "api.test.example", 80, true, -1, "network.fetch is public"},
		{open, "API.test.example.", 80, true, -1, "network.fetch is public"},
		{open, "other.test", 443, true, -1, "network.fetch is public"},
		{open, "other.test", 9931, false, -1, "network.fetch is public on ports 80, 443, not 9931"},
		{open, "db.test.example", 5432, false, -1, "public on ports 80, 443, not 5432"},
		{open, "localhost", 80, false, -1, "one label"},
		{open, "intranet", 80, false, -1, "one label"},
		{open, "a.localhost", 80, false, -1, "localhost"},
		{open, "a.localhost.", 80, false, -1, "localhost"},
		{open, "9.9.9.9", 80, true, -1, "network.fetch is public"},
		{open, "10.1.2.3", 5432, false, -1, "private"},
		{open, "10.1.2.4", 80, false, -1, "10.1.2.4 is private"}, // its range is not for everybody
		{open, "10.9.9.9", 443, false, -1, "private"},
		{open, "168.63.129.16", 80, false, -1, "metadata"},
		{shut, "other.test", 443, false, -1, "network.fetch is public on no port"},
		{shut, "api.test.example", 443, true, 0, "network.allow[0]"},
		{open, "other.test", 0, false, -1, "not a port"},
	}
	for _, c := range cases {
		v := c.p.JudgeFetch(c.host, c.port)
		if v.OK != c.ok || v.Entry != c.entry || !strings.Contains(v.Why, c.why) || v.Entry == -1 && (v.Protocol != "" || v.Inspect) {
			t.Errorf("%s %d: %+v", c.host, c.port, v)
		}
	}
}

// Addresses in a URL in whatever form lead to nothing that is not public.
func TestJudgeFetchOfAddresses(t *testing.T) {
	p := mustNew(t, envelope.Network{Fetch: envelope.FetchPublic}, Options{FetchPorts: []int{9931}})
	for _, host := range []string{
		"[::ffff:7f00:1]", "[::ffff:127.0.0.1]", "[0:0:0:0:0:ffff:7f00:1]", "[::]", "[::1]",
		"[64:ff9b::7f00:1]", "[64:ff9b::a9fe:a9fe]", "[64:ff9b:1::7f00:1]", "[2002:7f00:1::1]", "[2001::80ff:fffe]", "[::7f00:1]",
		"[fe80::5efe:a00:1]", "[fd00:ec2::254]", "100.100.100.200", "0.0.0.0", "192.0.0.192", "127.0.0.1", "169.254.169.254",
		"2130706433", "0x7f000001", "0177.0.0.1", "127.1", "0", "127.0.0.1.", "①②⑦.⓪.⓪.①",
	} {
		if v := p.JudgeFetch(host, 9931); v.OK || v.Why == "" {
			t.Errorf("%s: %+v", host, v)
		}
	}
}

func TestResolves(t *testing.T) {
	p := mustNew(t, stand(), Options{})
	for host, entry := range map[string]int{
		"api.test.example": 0, "API.TEST.EXAMPLE.": 0, "a.wild.example": 2, "a.deep.wild.example": 3, "exact.wild.example": 11, "db.test.example": 4,
		"wild.example": -1, "other.test": -1, "c2VjcmV0.leak.test": -1, "8.8.8.8": -1, "2a00::7": -1, "x.api.test.example": -1, "": -1, "a\x00.wild.example": -1,
	} {
		v := p.Resolves(host)
		if v.OK != (entry >= 0) || v.Entry != entry || v.Port != 0 || v.Protocol != "" || v.Why == "" {
			t.Errorf("%q: %+v", host, v)
		}
	}
	if v := p.Resolves("8.8.8.8"); v.Why != "an address is not looked up" {
		t.Errorf("%+v", v)
	}
}

func TestPortsAndLiterals(t *testing.T) {
	p := mustNew(t, stand(), Options{})
	if got := p.Ports(); !slices.Equal(got, []int{22, 80, 443, 5432, 8080, 8443, 9443}) {
		t.Errorf("ports %v", got)
	}
	want := []netip.Addr{addr("8.8.8.8"), addr("2a00::7"), addr("10.1.2.3"), addr("10.9.9.9")}
	if got := p.Literals(); !slices.Equal(got, want) {
		t.Errorf("literals %v", got)
	}
	p.Ports()[0], p.Literals()[0] = 1, netip.Addr{}
	if p.Ports()[0] != 22 || p.Literals()[0] != want[0] {
		t.Error("what is handed out is the policy's own")
	}
	empty := mustNew(t, envelope.Network{}, Options{})
	if len(empty.Ports()) != 0 || len(empty.Literals()) != 0 {
		t.Error("nothing has ports")
	}
}

// full is a policy with as many entries as there can be.
func full(t testing.TB) *Policy {
	n := envelope.Network{}
	for i := range 64 {
		n.Allow = append(n.Allow, entryFor("host"+strconv.Itoa(i)+".api.example", 443, 8443), entryFor("*.zone"+strconv.Itoa(i)+".example", 443))
	}
	return mustNew(t, n, Options{})
}

// What is asked over and over costs no memory where it is allowed, and little
// where it is not.
func TestJudgeAllocatesLittle(t *testing.T) {
	p := full(t)
	for _, c := range []struct {
		host string
		port int
		most float64
	}{
		{"host63.api.example", 8443, 0},
		{"host63.api.example.", 443, 0},
		{"a.b.c.zone63.example", 443, 0},
		{"HOST63.api.example", 443, 1},
		{"c2vjcmv0.leak.test", 443, 6},
		{"host63.api.example", 22, 14},
		{"2130706433", 443, 5},
	} {
		if got := testing.AllocsPerRun(100, func() { p.Judge(c.host, c.port) }); got > c.most {
			t.Errorf("%s: %v allocations, at most %v", c.host, got, c.most)
		}
	}
}

func BenchmarkJudge(b *testing.B) {
	p := full(b)
	for name, host := range map[string]string{"exact": "host63.api.example", "wildcard": "a.b.zone63.example", "denied": "c2vjcmv0.leak.test"} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				p.Judge(host, 443)
			}
		})
	}
}

func TestPolicyIsForManyAtOnce(t *testing.T) {
	n := stand()
	n.Fetch = envelope.FetchPublic
	p := mustNew(t, n, Options{FetchPorts: []int{80}})
	own := []netip.Addr{addr("10.1.2.3")}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for i := range 200 {
				host := "x" + strconv.Itoa(i) + ".Wild.example"
				if !p.Judge(host, 443).OK || !p.Resolves(host).OK || !p.JudgeFetch(host, 80).OK || p.JudgeAddr(own[0], own).OK || len(p.Ports()) != 7 {
					t.Error("another answer than alone")
				}
			}
		})
	}
	all.Wait()
}
