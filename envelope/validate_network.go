package envelope

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// eachAllow calls run for each entry of network.allow.
func eachAllow(e *Envelope, run func(field string, a Allow) *FieldError) *FieldError {
	for i, a := range e.Network.Allow {
		if err := run(at("network.allow", i), a); err != nil {
			return err
		}
	}
	return nil
}

func checkAllowHosts(e *Envelope) *FieldError {
	if len(e.Network.Allow) > 128 {
		return fault("network.allow", "has more than 128 entries", "list fewer hosts, or one *.NAME")
	}
	return eachAllow(e, func(field string, a Allow) *FieldError { return checkAllowHost(field+".host", a.Host) })
}

func checkAllowPorts(e *Envelope) *FieldError {
	return eachAllow(e, func(field string, a Allow) *FieldError {
		field += ".ports"
		switch {
		case len(a.Ports) == 0:
			return fault(field, "is empty: an empty list means nothing", "list the ports: [443]")
		case len(a.Ports) > 32:
			return fault(field, "lists more than 32 ports", "list the ports that calls need")
		}
		for i, port := range a.Ports {
			if port < 1 || port > 65535 {
				return fault(at(field, i), strconv.Itoa(port)+" is not a port", "write 1 to 65535")
			}
			if slices.Index(a.Ports, port) < i {
				return fault(at(field, i), strconv.Itoa(port)+" comes twice", "list it once")
			}
		}
		return nil
	})
}

// What network.allow may list in all: a cell has one listener for each port,
// and each address is one of its own.
const (
	MaxPorts     = 32 // different ports
	MaxAddresses = 64 // entries whose host is an address
)

func checkAllowTotals(e *Envelope) *FieldError {
	ports, addresses := map[int]bool{}, 0
	for _, a := range e.Network.Allow {
		for _, port := range a.Ports {
			ports[port] = true
		}
		if _, err := netip.ParseAddr(a.Host); err == nil {
			addresses++
		}
	}
	switch {
	case len(ports) > MaxPorts:
		return fault("network.allow", "lists "+strconv.Itoa(len(ports))+" different ports, at most "+strconv.Itoa(MaxPorts),
			"list the ports that calls need, or split the profile")
	case addresses > MaxAddresses:
		return fault("network.allow", "lists "+strconv.Itoa(addresses)+" addresses, at most "+strconv.Itoa(MaxAddresses),
			"give the hosts names and allow those, or split the profile")
	}
	return nil
}

func checkAllowMetadata(e *Envelope) *FieldError {
	return eachAllow(e, func(field string, a Allow) *FieldError {
		addr, err := netip.ParseAddr(a.Host)
		if err != nil || !slices.Contains(MetadataAddresses(), addr) {
			return nil
		}
		return fault(field+".host", a.Host+" is a cloud's metadata service, which is never reached", "leave it out")
	})
}

func checkAllowProtocols(e *Envelope) *FieldError {
	words := []string{ProtocolTLS, ProtocolHTTP, ProtocolPostgres, ProtocolTCP}
	return eachAllow(e, func(field string, a Allow) *FieldError {
		field += ".protocol"
		if a.Protocol != "" && !slices.Contains(words, a.Protocol) {
			hint := didYouMean(a.Protocol, words)
			if hint == "" {
				hint = "write one of: " + strings.Join(words, ", ")
			}
			return fault(field, quote(a.Protocol)+" is not a protocol", hint)
		}
		for _, port := range a.Ports {
			if a.ProtocolOn(port) == "" {
				return fault(field, "is missing, and port "+strconv.Itoa(port)+" has no default", "write one of: "+strings.Join(words, ", "))
			}
		}
		return nil
	})
}

func checkAllowInspect(e *Envelope) *FieldError {
	return eachAllow(e, func(field string, a Allow) *FieldError {
		if !a.Inspect || slices.ContainsFunc(a.Ports, a.InspectsOn) {
			return nil
		}
		return fault(field+".inspect", "has no TLS to look into", "leave inspect out, or write protocol: tls")
	})
}

// checkAllowConflicts keeps the meaning of the list free of order and of
// rules about which entry goes first: where two entries cover one host and
// port, they say the same, so that taking one away never changes the other.
func checkAllowConflicts(e *Envelope) *FieldError {
	list := e.Network.Allow
	for i, a := range list {
		for j, b := range list[:i] {
			if !a.Covers(b.Host) && !b.Covers(a.Host) {
				continue
			}
			if err := checkAllowPair(e, i, j); err != nil {
				return err
			}
		}
	}
	return nil
}

func checkAllowPair(e *Envelope, i, j int) *FieldError {
	a, b, field := e.Network.Allow[i], e.Network.Allow[j], at("network.allow", i)
	for _, port := range a.Ports {
		if !slices.Contains(b.Ports, port) {
			continue
		}
		what := quote(a.Host) + " on port " + strconv.Itoa(port)
		if a.Host == b.Host {
			return fault(field, what+" comes twice", "list it once")
		}
		if a.ProtocolOn(port) != b.ProtocolOn(port) || a.InspectsOn(port) != b.InspectsOn(port) {
			return fault(field, what+" says another protocol or inspect than "+at("network.allow", j)+", "+quote(b.Host),
				"give both the same protocol and inspect, or leave one out")
		}
	}
	return nil
}

func checkPrivateRanges(e *Envelope) *FieldError {
	if len(e.Network.Private) > 64 {
		return fault("network.private", "has more than 64 entries", "list fewer ranges")
	}
	for i, p := range e.Network.Private {
		field := at("network.private", i) + ".cidr"
		prefix, err := checkCIDR(field, p.CIDR)
		if err != nil {
			return err
		}
		for j, other := range e.Network.Private[:i] {
			if before, err := netip.ParsePrefix(other.CIDR); err == nil && before.Overlaps(prefix) {
				return fault(field, p.CIDR+" overlaps "+at("network.private", j), "list each range once")
			}
		}
	}
	return nil
}

func checkCIDR(field, text string) (netip.Prefix, *FieldError) {
	prefix, err := netip.ParsePrefix(text)
	if err != nil {
		return prefix, fault(field, quote(text)+" is not an address range", "write ADDRESS/BITS: 10.1.2.0/24, or 10.1.2.3/32 for one address")
	}
	if prefix.Addr().Is4In6() {
		return prefix, fault(field, quote(text)+" is an IPv4 range in IPv6 form", "write the IPv4 range")
	}
	if canonical := prefix.Masked().String(); canonical != text {
		return prefix, fault(field, quote(text)+" is not in canonical form", "write "+canonical)
	}
	least := 8
	if prefix.Addr().Is6() {
		least = 16
	}
	if prefix.Bits() < least {
		return prefix, fault(field, text+" is wider than /"+strconv.Itoa(least), "list the ranges that calls need")
	}
	return prefix, nil
}

func checkPrivateWhys(e *Envelope) *FieldError {
	for i, p := range e.Network.Private {
		if err := checkWhy(at("network.private", i)+".why", p.Why); err != nil {
			return err
		}
	}
	return nil
}

func checkPrivateMetadata(e *Envelope) *FieldError {
	for i, p := range e.Network.Private {
		prefix, err := netip.ParsePrefix(p.CIDR)
		if err != nil {
			continue // private-cidr has said so
		}
		for _, addr := range MetadataAddresses() {
			if prefix.Contains(addr) {
				return fault(at("network.private", i)+".cidr", p.CIDR+" holds "+addr.String()+", a cloud's metadata service, which is never reached",
					"list ranges without it")
			}
		}
	}
	return nil
}

// MetadataAddresses returns the addresses at which clouds hand out the
// credentials of a machine. No call reaches them, whatever an envelope says.
func MetadataAddresses() []netip.Addr {
	texts := []string{
		"169.254.169.254", // AWS, GCP, Azure, OpenStack and others
		"169.254.169.253", // AWS name server
		"169.254.170.2",   // AWS container credentials
		"169.254.170.23",  // AWS pod identity
		"169.254.0.23",    // Tencent
		"168.63.129.16",   // Azure wire server, a public address
		"100.100.100.200", // Alibaba
		"192.0.0.192",     // Oracle
		"fd00:ec2::254",   // AWS
		"fd00:ec2::253",   // AWS name server
		"fd00:ec2::23",    // AWS pod identity
		"fd20:ce::254",    // GCP
		"fd00:42::42",     // Scaleway
		"fe80::a9fe:a9fe", // OpenStack
	}
	addrs := make([]netip.Addr, len(texts))
	for i, text := range texts {
		addrs[i] = netip.MustParseAddr(text)
	}
	return addrs
}

func checkFetch(e *Envelope) *FieldError {
	if e.Network.Fetch == "" || e.Network.Fetch == FetchPublic {
		return nil
	}
	return fault("network.fetch", quote(e.Network.Fetch)+" is not one of its words", "write public, or leave it out: then fetch goes by network.allow")
}
