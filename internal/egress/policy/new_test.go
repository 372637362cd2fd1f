package policy

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/callcell/callcell/envelope"
)

func TestNewRefuses(t *testing.T) {
	suffix := func(name string) bool { return name == "github.io" || name == "co.uk" }
	allow := func(list ...envelope.Allow) envelope.Network { return envelope.Network{Allow: list} }
	good := entryFor("api.test", 443)
	cases := []struct {
		name  string
		n     envelope.Network
		o     Options
		entry int
		field string
		msg   string
	}{
		{"every host", allow(good, entryFor("*", 443)), Options{}, 1, "network.allow[1].host", "every host"},
		{"empty host", allow(entryFor("", 443)), Options{}, 0, "network.allow[0].host", "is empty"},
		{"dot", allow(entryFor(".", 443)), Options{}, 0, "network.allow[0].host", "every host"},
		{"final dot", allow(entryFor("ALLOWED.test.", 443)), Options{}, 0, "network.allow[0].host", "ends with a dot"},
		{"port in host", allow(entryFor("api.test:443", 443)), Options{}, 0, "network.allow[0].host", "has a port"},
		{"scheme", allow(entryFor("https://api.test/", 443)), Options{}, 0, "network.allow[0].host", "has a scheme"},
		{"short address", allow(entryFor("127.1", 443)), Options{}, 0, "network.allow[0].host", "reads as an address"},
		{"mapped address", allow(entryFor("::ffff:10.0.0.1", 443)), Options{}, 0, "network.allow[0].host", "IPv6 form"},
		{"metadata", allow(good, good, entryFor("169.254.169.254", 443)), Options{}, 2, "network.allow[2].host", "metadata"},
		{"no ports", allow(entryFor("api.test")), Options{}, 0, "network.allow[0].ports", "empty"},
		{"conflict", allow(good, envelope.Allow{Host: "*.test", Ports: []int{443}}), Options{}, 1, "network.allow[1].host", "top-level"},
		{"twice", allow(good, good), Options{}, 1, "network.allow[1]", "twice"},
		{"private metadata", envelope.Network{Private: []envelope.Private{{CIDR: "169.254.0.0/16", Why: "x"}}}, Options{}, -1, "network.private[0].cidr", "metadata"},
		{"private of all", envelope.Network{Private: []envelope.Private{{CIDR: "0.0.0.0/0", Why: "x"}}}, Options{}, -1, "network.private[0].cidr", "wider"},
		{"fetch", envelope.Network{Fetch: "all"}, Options{}, -1, "network.fetch", "not one of its words"},
		{"wildcard at a suffix", allow(good, entryFor("*.github.io", 443)), Options{PublicSuffix: suffix}, 1, "network.allow[1].host", "github.io is a public suffix"},
		{"wildcard at a registry's suffix", allow(entryFor("*.co.uk", 443)), Options{PublicSuffix: suffix}, 0, "network.allow[0].host", "co.uk is a public suffix"},
		{"denied range", allow(good), Options{Deny: []netip.Prefix{{}}}, -1, "", "no range"},
		{"fetch port", allow(good), Options{FetchPorts: []int{80, 65536}}, -1, "", "65536 is not a port"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			p, err := New(c.n, c.o)
			var e *Error
			if !errors.As(err, &e) || p != nil {
				t.Fatalf("%v, %v", p, err)
			}
			if e.Entry != c.entry || e.Field != c.field || !strings.Contains(e.Msg, c.msg) || e.Hint == "" || !strings.Contains(e.Error(), c.msg) {
				t.Errorf("%+v", e)
			}
			if r := envelope.RefusalOf(err); r == nil || r.Reason != envelope.ReasonPolicy || r.Message != e.Msg || r.Field != c.field || r.Hint != e.Hint {
				t.Errorf("%+v", r)
			}
		})
	}
}

func TestNewTakes(t *testing.T) {
	suffix := func(name string) bool { return name == "github.io" }
	for name, list := range map[string][]envelope.Allow{
		"nothing":              nil,
		"a name at a suffix":   {entryFor("github.io", 443)},
		"a wildcard below":     {entryFor("*.mine.github.io", 443)},
		"a wildcard elsewhere": {entryFor("*.test.example", 443)},
	} {
		if _, err := New(envelope.Network{Allow: list}, Options{PublicSuffix: suffix}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := New(envelope.Network{Allow: []envelope.Allow{entryFor("*.github.io", 443)}}, Options{}); err != nil {
		t.Errorf("without a list of suffixes: %v", err)
	}
}

// A policy keeps nothing of what it was made from.
func TestNewKeepsNothing(t *testing.T) {
	n := envelope.Network{Allow: []envelope.Allow{entryFor("api.test.example", 443)}, Fetch: envelope.FetchPublic,
		Private: []envelope.Private{{CIDR: "10.1.2.0/24", Why: "x"}}}
	o := Options{Deny: []netip.Prefix{netip.MustParsePrefix("8.8.8.8/32")}, FetchPorts: []int{443}}
	p := mustNew(t, n, o)
	n.Allow[0].Host, n.Allow[0].Ports[0], n.Private[0].CIDR = "evil.test", 22, "10.0.0.0/8"
	o.Deny[0], o.FetchPorts[0] = netip.Prefix{}, 22
	if !p.Judge("api.test.example", 443).OK || p.Judge("api.test.example", 22).OK || p.Judge("evil.test", 443).OK ||
		p.JudgeAddr(addr("8.8.8.8"), nil).OK || p.JudgeAddr(addr("10.2.0.0"), nil).OK || p.JudgeFetch("other.test", 22).OK {
		t.Error("the policy has changed")
	}
}

func TestEntryOf(t *testing.T) {
	for field, want := range map[string]int{"network.allow[12].ports[3]": 12, "network.allow[0]": 0, "network.allow": -1, "network.private[1].cidr": -1, "network.allow[x]": -1, "": -1} {
		if got := entryOf(field); got != want {
			t.Errorf("%q: %d", field, got)
		}
	}
}
