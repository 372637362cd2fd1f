package policy

import (
	"net/netip"
	"slices"
)

// JudgeAddr decides whether a may be dialled for a host that an entry allows.
// own are the addresses of this host's interfaces, as they are now. The order
// of the rules is that of the package doc.
//
// An address and its mapped form have one answer.
func (p *Policy) JudgeAddr(a netip.Addr, own []netip.Addr) AddrVerdict {
	return p.judgeAddr(a, own, p.private)
}

// JudgePublicAddr is JudgeAddr without network.private: for a host that is
// allowed because network.fetch is public (Verdict.Entry is -1). Anybody can
// give such a name an address of a private range.
func (p *Policy) JudgePublicAddr(a netip.Addr, own []netip.Addr) AddrVerdict {
	return p.judgeAddr(a, own, nil)
}

func (p *Policy) judgeAddr(a netip.Addr, own []netip.Addr, open []private) AddrVerdict {
	if why := p.neverDialled(a); why != "" {
		return AddrVerdict{Why: why}
	}
	a = a.Unmap()
	kind := p.kindOf(a)
	if kind.rule == nat64 {
		if inner := p.judgeAddr(last4(a), own, nil); !inner.OK {
			return AddrVerdict{Why: a.String() + " carries an IPv4 address: " + inner.Why}
		}
	}
	switch {
	case isOwn(a, own):
		one := slices.DeleteFunc(slices.Clone(open), func(r private) bool { return !r.prefix.IsSingleIP() })
		return opens(a, "an address of this host", one)
	case kind.rule == byRange:
		return opens(a, kind.what, open)
	}
	return AddrVerdict{OK: true, Why: a.String() + " is public"}
}

// neverDialled says why no private range opens a, or "".
func (p *Policy) neverDialled(a netip.Addr) string {
	switch {
	case !a.IsValid():
		return "there is no address"
	case a.Zone() != "":
		return a.WithZone("").String() + " has a zone"
	}
	a = a.Unmap()
	if slices.Contains(p.never, a) {
		return a.String() + " is a cloud's metadata service"
	}
	if isatap(a) {
		return a.String() + " carries an IPv4 address (ISATAP)"
	}
	if kind := p.kindOf(a); kind.rule == never {
		return a.String() + " is " + kind.what
	}
	for _, d := range p.deny {
		if d.Contains(a) {
			return a.String() + " is in " + d.String() + ", which the operator denies"
		}
	}
	return ""
}

// isOwn reports whether a leads back to this host.
func isOwn(a netip.Addr, own []netip.Addr) bool {
	return a.IsLoopback() || slices.ContainsFunc(own, func(o netip.Addr) bool { return o.Unmap().WithZone("") == a })
}

// opens decides about an address that is not public by the ranges that may
// open it.
func opens(a netip.Addr, what string, ranges []private) AddrVerdict {
	for _, r := range ranges {
		if r.prefix.Contains(a) {
			return AddrVerdict{OK: true, Why: a.String() + " is in " + r.name}
		}
	}
	return AddrVerdict{Why: a.String() + " is " + what + "; network.private has no entry for it"}
}

func (p *Policy) kindOf(a netip.Addr) special {
	for _, s := range p.special {
		if s.prefix.Contains(a) {
			return s
		}
	}
	return special{}
}

// isatap reports whether the interface part of an IPv6 address is that of
// ISATAP: 0000:5efe or 0200:5efe, and an IPv4 address.
func isatap(a netip.Addr) bool {
	b := a.As16()
	return a.Is6() && b[8]&^2 == 0 && b[9] == 0 && b[10] == 0x5e && b[11] == 0xfe
}

// last4 returns the IPv4 address in the last four bytes.
func last4(a netip.Addr) netip.Addr {
	b := a.As16()
	return netip.AddrFrom4([4]byte(b[12:]))
}
