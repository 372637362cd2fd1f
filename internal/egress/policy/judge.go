package policy

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/callcell/callcell/envelope"
)

// Verdict is the answer to whether a host may be reached.
type Verdict struct {
	OK   bool
	Host string // canonical; where there is no such form, fit to be shown and no more
	Port int    // as asked; 0 of Resolves
	// Entry is the one of network.allow that covers host and port, or -1:
	// where nothing does, or where network.fetch is public alone.
	Entry    int
	Protocol string     // a Protocol word; "" of Resolves, and where Entry is -1
	Inspect  bool       // TLS is terminated and every request judged
	Literal  netip.Addr // the address that Host is; zero for a name
	// Why names the entry that matched, the one that nearly did, or the fault.
	// It is one line of printable ASCII.
	Why string
}

// AddrVerdict is the answer to whether an address may be dialled.
type AddrVerdict struct {
	OK  bool
	Why string // names the address, and the range that decided; one line
}

// Judge decides about a connection of a program to host, in whatever spelling
// it was asked for, on port. A host that is an address is refused here already
// where JudgeAddr would refuse it on every host.
func (p *Policy) Judge(host string, port int) Verdict {
	v, ok := opened(host, port)
	if !ok {
		return v
	}
	return p.judge(v)
}

// JudgeFetch decides about a request of the fetch tool to host on port: the
// list says yes, with anything but protocol postgres, or network.fetch is
// public and port one of FetchPorts. In the second case Entry is -1, Protocol
// is "", and the addresses are for JudgePublicAddr.
func (p *Policy) JudgeFetch(host string, port int) Verdict {
	v, ok := opened(host, port)
	if !ok {
		return v
	}
	listed := p.judge(v)
	if listed.OK && listed.Protocol == envelope.ProtocolPostgres {
		listed = v
		listed.Why = p.entries[p.find(v, port)].name + " speaks postgres, which is not fetched"
	}
	if listed.OK || !p.fetchPublic {
		return listed
	}
	v.OK, v.Why = p.public(v)
	return v
}

// public decides by network.fetch alone.
func (p *Policy) public(v Verdict) (bool, string) {
	switch {
	case v.Literal.IsValid():
		if a := p.JudgePublicAddr(v.Literal, nil); !a.OK {
			return false, a.Why
		}
	case strings.IndexByte(v.Host, '.') < 0:
		return false, "a name of one label is not public"
	case strings.HasSuffix(v.Host, ".localhost"):
		return false, "names below localhost are not public"
	}
	if !slices.Contains(p.fetchPorts, v.Port) {
		return false, "network.fetch is public on " + portList(p.fetchPorts, v.Port)
	}
	return true, "network.fetch is public"
}

// Resolves decides whether a program may know that host exists: whether some
// port of it is allowed. An address needs no name, and has no answer.
func (p *Policy) Resolves(host string) Verdict {
	v, ok := opened(host, 1)
	v.Port = 0
	if !ok {
		return v
	}
	if v.Literal.IsValid() {
		v.Why = "an address is not looked up"
		return v
	}
	i := p.find(v, 0)
	if i < 0 {
		v.Why = p.near(v)
		return v
	}
	v.OK, v.Entry, v.Why = true, i, p.entries[i].name
	return v
}

// opened brings what was asked into canonical form. It returns false where
// there is none, and then the verdict is complete.
func opened(host string, port int) (Verdict, bool) {
	v := Verdict{Port: port, Entry: -1}
	name, addr, err := canonical(host)
	if err != nil {
		v.Host, v.Why = shown(host), err.Error()
		return v, false
	}
	v.Host, v.Literal = name, addr
	if port < 1 || port > 65535 {
		v.Why = "not a port"
		return v, false
	}
	return v, true
}

// judge decides by the list.
func (p *Policy) judge(v Verdict) Verdict {
	i := p.find(v, v.Port)
	if i < 0 {
		v.Why = p.near(v)
		return v
	}
	e := &p.entries[i]
	if e.blocked != "" {
		v.Why = e.name + ": " + e.blocked
		return v
	}
	v.OK, v.Entry, v.Why = true, i, e.name
	v.Protocol, v.Inspect = e.ProtocolOn(v.Port), e.InspectsOn(v.Port)
	return v
}

// find returns the entry that covers the host on port, or -1: an exact one
// before a wildcard, and of those the nearest. Port 0 is any.
func (p *Policy) find(v Verdict, port int) int {
	if i := p.pick(p.exact[v.Host], port); i >= 0 || v.Literal.IsValid() {
		return i
	}
	for above := range domains(v.Host) {
		if i := p.pick(p.below[above], port); i >= 0 {
			return i
		}
	}
	return -1
}

// pick returns the first entry of a list that has the port.
func (p *Policy) pick(list []int, port int) int {
	for _, i := range list {
		if port == 0 || slices.Contains(p.entries[i].Ports, port) {
			return i
		}
	}
	return -1
}

// domains yields the names above name, nearest first: b.test and test of
// a.b.test.
func domains(name string) func(func(string) bool) {
	return func(yield func(string) bool) {
		for dot := strings.IndexByte(name, '.'); dot >= 0; dot = strings.IndexByte(name, '.') {
			name = name[dot+1:]
			if !yield(name) {
				return
			}
		}
	}
}
