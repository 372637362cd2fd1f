package policy

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/callcell/callcell/envelope"
)

func hostPool() []string {
	return []string{"a.test.example", "b.a.test.example", "*.test.example", "*.a.test.example", "other.example", "8.8.8.8", "2a00::7", "10.1.2.3", "10.9.9.9"}
}

func askPool() []string {
	return []string{"a.test.example", "b.a.test.example", "c.b.a.test.example", "test.example", "x.test.example", "other.example", "y.other.example",
		"example", "localhost", "xtest.example", "8.8.8.8", "8.8.8.9", "2a00::7", "10.1.2.3", "10.9.9.9", "127.0.0.1", "64:ff9b::a9fe:a9fe", "127.1", "a..example", ""}
}

func portPool() []int { return []int{80, 443, 5432, 8443} }

// drawNetwork draws a valid network from a small world.
func drawNetwork(t *rapid.T) envelope.Network {
	n := envelope.Network{Fetch: rapid.SampledFrom([]string{"", envelope.FetchPublic}).Draw(t, "fetch")}
	for _, r := range []string{"10.1.2.0/24", "10.9.9.9/32", "127.0.0.1/32"} {
		if rapid.Bool().Draw(t, r) {
			n.Private = append(n.Private, envelope.Private{CIDR: r, Why: "x"})
		}
	}
	for range rapid.IntRange(0, 6).Draw(t, "entries") {
		a := envelope.Allow{
			Host:     rapid.SampledFrom(hostPool()).Draw(t, "host"),
			Ports:    rapid.SliceOfNDistinct(rapid.SampledFrom(portPool()), 1, 3, rapid.ID[int]).Draw(t, "ports"),
			Protocol: rapid.SampledFrom([]string{envelope.ProtocolTLS, envelope.ProtocolTLS, envelope.ProtocolPostgres, envelope.ProtocolTCP}).Draw(t, "protocol"),
		}
		a.Inspect = a.Protocol == envelope.ProtocolTLS && rapid.Bool().Draw(t, "inspect")
		n.Allow = append(n.Allow, a)
		if _, err := New(n, Options{}); err != nil {
			n.Allow = n.Allow[:len(n.Allow)-1]
		}
	}
	return n
}

// respelt draws another spelling of a host that is the same host.
func respelt(t *rapid.T, host string) string {
	out := []byte(host)
	for i, c := range out {
		if c >= 'a' && c <= 'z' && rapid.Bool().Draw(t, "upper") {
			out[i] -= 'a' - 'A'
		}
	}
	addr, err := netip.ParseAddr(host)
	switch {
	case err != nil && host != "" && rapid.Bool().Draw(t, "dot"):
		return string(out) + "."
	case err == nil && rapid.Bool().Draw(t, "long"):
		return "[" + netip.AddrFrom16(addr.As16()).StringExpanded() + "]"
	}
	return string(out)
}

func fetchPorts() []int { return []int{80, 443} }

func draw(t *rapid.T) (envelope.Network, *Policy) {
	n := drawNetwork(t)
	p, err := New(n, Options{FetchPorts: fetchPorts()})
	if err != nil {
		t.Fatal(err)
	}
	return n, p
}

// Whatever is allowed is covered by an entry, and whatever an entry covers is
// allowed.
func TestJudgeIsTheList(t *testing.T) {
	allowed := 0
	rapid.Check(t, func(t *rapid.T) {
		n, p := draw(t)
		for _, host := range askPool() {
			some := false
			for _, port := range portPool() {
				v := p.Judge(host, port)
				checkVerdict(t, n, p, v)
				if v.OK {
					allowed++
				}
				some = some || v.OK
			}
			r := p.Resolves(host)
			if name := !r.Literal.IsValid(); r.OK != (some && name) || r.OK && !n.Allow[r.Entry].Covers(r.Host) {
				t.Fatalf("%q: %+v, and some port is allowed: %v", host, r, some)
			}
		}
	})
	if allowed < 100 {
		t.Errorf("only %d were allowed: the generator tries nothing", allowed)
	}
}

func checkVerdict(t *rapid.T, n envelope.Network, p *Policy, v Verdict) {
	covers := func(a envelope.Allow) bool {
		return v.Host != "" && a.Covers(v.Host) && slices.Contains(a.Ports, v.Port)
	}
	dialled := !v.Literal.IsValid() || p.JudgeAddr(v.Literal, nil).OK
	if want := slices.ContainsFunc(n.Allow, covers) && dialled; v.OK != want {
		t.Fatalf("%+v, and the list says %v: %+v", v, want, n)
	}
	if v.Why == "" || strings.ContainsFunc(v.Why, unprintable) {
		t.Fatalf("no reason: %+v", v)
	}
	if !v.OK {
		return
	}
	a := n.Allow[v.Entry]
	if !covers(a) || v.Protocol != a.ProtocolOn(v.Port) || v.Inspect != a.InspectsOn(v.Port) {
		t.Fatalf("%+v is not of its entry %+v", v, a)
	}
}

// The decision never flips on another spelling of the host.
func TestSpellingChangesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		_, p := draw(t)
		host := rapid.SampledFrom(askPool()).Draw(t, "ask")
		port := rapid.SampledFrom(portPool()).Draw(t, "port")
		if _, err := Canonical(host); err != nil {
			return
		}
		other := respelt(t, host)
		if a, b := p.Judge(host, port), p.Judge(other, port); a != b {
			t.Fatalf("%q: %+v\n%q: %+v", host, a, other, b)
		}
		if a, b := p.JudgeFetch(host, port), p.JudgeFetch(other, port); a != b {
			t.Fatalf("%q: %+v\n%q: %+v", host, a, other, b)
		}
		if a, b := p.Resolves(host), p.Resolves(other); a != b {
			t.Fatalf("%q: %+v\n%q: %+v", host, a, other, b)
		}
	})
}

// answers are all that a policy allows in the small world.
func answers(p *Policy) map[string]bool {
	out := map[string]bool{}
	for _, host := range askPool() {
		for _, port := range portPool() {
			key := host + " " + portList([]int{port}, 0)
			out["judge "+key] = p.Judge(host, port).OK
			out["fetch "+key] = p.JudgeFetch(host, port).OK
		}
		out["resolves "+host] = p.Resolves(host).OK
		if a, err := netip.ParseAddr(host); err == nil {
			out["dial "+host] = p.JudgeAddr(a, nil).OK
			out["dial own "+host] = p.JudgeAddr(a, []netip.Addr{a}).OK
			out["dial public "+host] = p.JudgePublicAddr(a, nil).OK
		}
	}
	return out
}

func wider(a, p map[string]bool) string {
	for key, ok := range a {
		if ok && !p[key] {
			return key
		}
	}
	return ""
}

// Taking something out of a network never allows more, and neither does
// denying more.
func TestLessNeverWidens(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, p := draw(t)
		before := answers(p)
		less := map[string]envelope.Network{}
		for i, a := range n.Allow {
			m := n
			m.Allow = slices.Delete(slices.Clone(n.Allow), i, i+1)
			less["entry "+a.Host] = m
		}
		for i, r := range n.Private {
			m := n
			m.Private = slices.Delete(slices.Clone(n.Private), i, i+1)
			less["range "+r.CIDR] = m
		}
		m := n
		m.Fetch = ""
		less["fetch"] = m
		for what, m := range less {
			q, err := New(m, Options{FetchPorts: fetchPorts()})
			if err != nil {
				t.Fatalf("without %s: %v", what, err)
			}
			if key := wider(answers(q), before); key != "" {
				t.Fatalf("without %s there is %s: %+v", what, key, n)
			}
		}
		deny := netip.MustParsePrefix(rapid.SampledFrom([]string{"8.8.8.8/32", "10.0.0.0/8", "::/0", "0.0.0.0/0"}).Draw(t, "deny"))
		q, err := New(n, Options{FetchPorts: fetchPorts()[:1], Deny: []netip.Prefix{deny}})
		if err != nil {
			t.Fatal(err)
		}
		if key := wider(answers(q), before); key != "" {
			t.Fatalf("with %v denied there is %s: %+v", deny, key, n)
		}
	})
}

// The order of a list says nothing.
func TestOrderChangesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, p := draw(t)
		m := n
		m.Allow = rapid.Permutation(n.Allow).Draw(t, "order")
		q, err := New(m, Options{FetchPorts: fetchPorts()})
		if err != nil {
			t.Fatal(err)
		}
		for _, host := range askPool() {
			for _, port := range portPool() {
				a, b := p.Judge(host, port), q.Judge(host, port)
				if a.OK != b.OK || a.Protocol != b.Protocol || a.Inspect != b.Inspect {
					t.Fatalf("%s %d: %+v, %+v", host, port, a, b)
				}
			}
		}
	})
}

// What is public by network.fetch alone is no entry's, and is at a port of its
// list.
func TestFetchIsTheListOrPublic(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, p := draw(t)
		for _, host := range askPool() {
			for _, port := range portPool() {
				v, f := p.Judge(host, port), p.JudgeFetch(host, port)
				switch {
				case v.OK && v.Protocol != envelope.ProtocolPostgres:
					if f != v {
						t.Fatalf("allowed by the list: %+v, %+v", v, f)
					}
				case f.OK:
					if n.Fetch != envelope.FetchPublic || !slices.Contains(fetchPorts(), port) || f.Entry != -1 || f.Protocol != "" || f.Inspect {
						t.Fatalf("%+v of %+v", f, n)
					}
					if f.Literal.IsValid() && !p.JudgePublicAddr(f.Literal, nil).OK {
						t.Fatalf("%+v is not public", f)
					}
				}
			}
		}
	})
}

func FuzzJudge(f *testing.F) {
	for host := range hosts() {
		f.Add(host, 443)
	}
	for host := range strangers() {
		if len(host) < 1024 {
			f.Add(host, 80)
		}
	}
	n := stand()
	n.Fetch = envelope.FetchPublic
	p := mustNew(f, n, Options{FetchPorts: []int{80, 443}})
	f.Fuzz(func(t *testing.T, host string, port int) {
		for name, v := range map[string]Verdict{"judge": p.Judge(host, port), "fetch": p.JudgeFetch(host, port), "resolves": p.Resolves(host)} {
			if v.Why == "" || len(v.Why) > 1024 || len(v.Host) > 253 || strings.ContainsFunc(v.Why+v.Host, unprintable) {
				t.Fatalf("%s %q: cannot be shown: %+v", name, host, v)
			}
			if !v.OK {
				continue
			}
			if canonical, err := Canonical(host); err != nil || v.Host != canonical {
				t.Fatalf("%s %q: %+v, and it has no canonical form: %v", name, host, v, err)
			}
			if v.Entry >= 0 && !n.Allow[v.Entry].Covers(v.Host) || v.Entry < 0 && name != "fetch" {
				t.Fatalf("%s %q: %+v is covered by nothing", name, host, v)
			}
			if a, ok := reads(host); ok && (a.String() != v.Host || !p.JudgeAddr(a, nil).OK) {
				t.Fatalf("%s %q: %+v is an address elsewhere", name, host, v)
			}
		}
	})
}
