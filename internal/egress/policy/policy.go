// Package policy decides where a call may connect to. It is pure: it resolves,
// dials and reads nothing, and imports nothing but the standard library and the
// vocabulary.
//
// There are two questions, and a connection needs a yes to both:
//
//	Judge      may the call reach this host on this port?   host as a stranger spelt it
//	JudgeAddr  may this host's address be dialled?          each address that was resolved
//
// # Names
//
// A host is compared in one form only, that of Canonical: a name in lower case
// without a final dot, or an address. Whatever cannot be brought into it is
// refused, among it every other spelling of an IPv4 address (2130706433,
// 0x7f.1, 127.1): no name goes by whose last label starts with a digit, so no
// resolver finds an address in a name.
//
// An entry NAME covers that name, *.NAME every name below it and not NAME, an
// address itself. Where two entries cover one host and port they agree, so it
// does not matter which one matches (envelope.Validate).
//
// # Addresses
//
// An IPv6 address that is a mapped IPv4 address is that IPv4 address. Then, in
// this order:
//
//	a cloud's metadata service                            never
//	unspecified, multicast, broadcast, with a zone        never
//	an IPv4 address inside an IPv6 one: compatible,       never: which host it
//	translated, 6to4, Teredo, ISATAP, local NAT64         leads to cannot be told
//	in the operator's list                                never
//	64:ff9b::/96 (NAT64)                                  never where the IPv4 address inside is
//	                                                      not public or of this host
//	of this host: loopback, or of one of its interfaces   by a private range of that one address
//	any other special-purpose range of IANA's, and        by a private range
//	IPv6 outside of 2000::/3
//	the rest                                              yes
//
// A host that is allowed because network.fetch is public, and by no entry, is
// anybody's: its addresses are for JudgePublicAddr, where private ranges open
// nothing.
//
// A network's own NAT64 prefix looks like any public one: where there is one,
// it belongs into the operator's list.
package policy

import (
	"errors"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/callcell/callcell/envelope"
)

// Options are what an operator and a host add to an envelope.
type Options struct {
	// PublicSuffix reports whether name, in lower case, is a public suffix
	// ("com", "github.io"): below it everybody can have a name. Nil: none is
	// but names of one label.
	PublicSuffix func(name string) bool
	Deny         []netip.Prefix // never dialled, whatever an envelope says
	FetchPorts   []int          // where network.fetch is public; none: nowhere
}

// Policy is what one call may connect to. It never changes, and all methods
// may be called at once. Make one with New.
type Policy struct {
	entries []entry
	exact   map[string][]int // entries by their name or address
	below   map[string][]int // entries *.NAME by NAME
	alike   map[string]int   // one entry by what its name looks like, see looks

	ports       []int
	literals    []netip.Addr
	fetchPublic bool
	fetchPorts  []int

	private []private
	deny    []netip.Prefix
	never   []netip.Addr
	special []special
}

// An entry is one of network.allow.
type entry struct {
	envelope.Allow
	name    string     // as shown: network.allow[2] "*.api.test"
	literal netip.Addr // of a host that is an address
	blocked string     // why that address is not dialled, or ""
}

type private struct {
	prefix netip.Prefix
	name   string // as shown: network.private[0] 10.1.2.0/24
}

// Error says why a network cannot be a policy.
type Error struct {
	Entry int    // of network.allow; -1 where it is not about one
	Field string // dotted: network.allow[0].host; "" for Options
	Msg   string
	Hint  string
}

// Error names the field and the fault.
func (e *Error) Error() string {
	if e.Field == "" {
		return e.Msg
	}
	return e.Field + ": " + e.Msg
}

// Refusal returns e as the refusal of the call whose network it is.
func (e *Error) Refusal() *envelope.Refusal {
	return &envelope.Refusal{Reason: envelope.ReasonPolicy, Message: e.Msg, Field: e.Field, Hint: e.Hint}
}

// New makes the policy of a network. What envelope.Validate refuses is refused
// here too, and so is a wildcard at a public suffix, below which names belong
// to anybody. The error is an *Error. Nothing of n and o is kept.
func New(n envelope.Network, o Options) (*Policy, error) {
	if err := valid(n, o); err != nil {
		return nil, err
	}
	p := &Policy{
		exact: map[string][]int{}, below: map[string][]int{}, alike: map[string]int{},
		fetchPublic: n.Fetch == envelope.FetchPublic, fetchPorts: sortedPorts(o.FetchPorts),
		deny: unmapped(o.Deny), never: envelope.MetadataAddresses(), special: specialRanges(),
	}
	for i, r := range n.Private {
		prefix, err := netip.ParsePrefix(r.CIDR)
		if err != nil {
			return nil, &Error{Entry: -1, Field: "network.private", Msg: "cannot be read", Hint: "write ADDRESS/BITS"}
		}
		p.private = append(p.private, private{prefix, "network.private[" + strconv.Itoa(i) + "] " + r.CIDR})
	}
	var ports []int
	for i, a := range n.Allow {
		p.add(i, a)
		ports = append(ports, a.Ports...)
	}
	p.ports = sortedPorts(ports)
	return p, nil
}

// add puts entry i into the indexes.
func (p *Policy) add(i int, a envelope.Allow) {
	e := entry{Allow: a, name: "network.allow[" + strconv.Itoa(i) + "] " + strconv.Quote(a.Host)}
	e.Ports = sortedPorts(a.Ports)
	if name, ok := strings.CutPrefix(a.Host, "*."); ok {
		p.below[name] = append(p.below[name], i)
	} else {
		p.exact[a.Host] = append(p.exact[a.Host], i)
		if addr, err := netip.ParseAddr(a.Host); err == nil {
			e.literal = addr
			if v := p.JudgeAddr(addr, nil); !v.OK {
				e.blocked = v.Why
			}
			if !slices.Contains(p.literals, addr) {
				p.literals = append(p.literals, addr)
			}
		} else if like := looks(a.Host); like != "" {
			p.alike[like] = i
		}
	}
	p.entries = append(p.entries, e)
}

// valid holds a network to the checks of an envelope, and to those that need
// the options.
func valid(n envelope.Network, o Options) error {
	e := envelope.Default()
	e.Network = n
	var f *envelope.FieldError
	if err := e.Validate(); errors.As(err, &f) {
		return &Error{Entry: entryOf(f.Field), Field: f.Field, Msg: f.Msg, Hint: f.Hint}
	} else if err != nil {
		return err
	}
	for i, a := range n.Allow {
		name, wildcard := strings.CutPrefix(a.Host, "*.")
		if wildcard && o.PublicSuffix != nil && o.PublicSuffix(name) {
			return &Error{Entry: i, Field: "network.allow[" + strconv.Itoa(i) + "].host",
				Msg:  strconv.Quote(a.Host) + " covers names of anybody: " + name + " is a public suffix",
				Hint: "name the hosts, or a domain below " + name}
		}
	}
	for _, d := range o.Deny {
		if !d.IsValid() {
			return &Error{Entry: -1, Msg: "a denied range is no range", Hint: "write ADDRESS/BITS"}
		}
	}
	for _, port := range o.FetchPorts {
		if port < 1 || port > 65535 {
			return &Error{Entry: -1, Msg: "fetch port " + strconv.Itoa(port) + " is not a port", Hint: "write 1 to 65535"}
		}
	}
	return nil
}

// entryOf returns i of network.allow[i].host, and -1 where it is another field.
func entryOf(field string) int {
	rest, ok := strings.CutPrefix(field, "network.allow[")
	if !ok {
		return -1
	}
	digits, _, _ := strings.Cut(rest, "]")
	i, err := strconv.Atoi(digits)
	if err != nil {
		return -1
	}
	return i
}

func sortedPorts(ports []int) []int {
	return slices.Compact(slices.Sorted(slices.Values(ports)))
}

// unmapped writes ranges of mapped IPv4 addresses as the IPv4 ranges they are.
func unmapped(list []netip.Prefix) []netip.Prefix {
	out := make([]netip.Prefix, 0, len(list))
	for _, d := range list {
		if d.Addr().Is4In6() && d.Bits() >= 96 {
			d = netip.PrefixFrom(d.Addr().Unmap(), d.Bits()-96)
		}
		out = append(out, d.Masked())
	}
	return out
}

// Ports returns the different ports of all entries, in order.
func (p *Policy) Ports() []int { return slices.Clone(p.ports) }

// Literals returns the addresses that entries name, each once, in the order of
// the list; those too that Judge refuses because they are not public.
func (p *Policy) Literals() []netip.Addr { return slices.Clone(p.literals) }
