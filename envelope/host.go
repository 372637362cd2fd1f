package envelope

import (
	"net/netip"
	"strings"
)

// The words of Allow.Protocol.
const (
	ProtocolTLS      = "tls"      // the default on port 443
	ProtocolHTTP     = "http"     // the default on port 80
	ProtocolPostgres = "postgres" // its request for TLS, then as tls
	ProtocolTCP      = "tcp"      // nothing is looked into
)

// ProtocolOn returns the protocol that the entry speaks on port: its own, or
// the default of the port, or "" where there is none.
func (a Allow) ProtocolOn(port int) string {
	switch {
	case a.Protocol != "":
		return a.Protocol
	case port == 443:
		return ProtocolTLS
	case port == 80:
		return ProtocolHTTP
	}
	return ""
}

// InspectsOn reports whether TLS on port is terminated and every request
// judged.
func (a Allow) InspectsOn(port int) bool { return a.Inspect && a.ProtocolOn(port) == ProtocolTLS }

// Covers reports whether the entry covers host, which is another entry's host,
// a name in lower case without a final dot, or an address in canonical form. An
// exact name and an address cover themselves. *.x.test covers every name below
// x.test at any depth (a.x.test, b.a.x.test) and never x.test.
func (a Allow) Covers(host string) bool {
	if !strings.HasPrefix(a.Host, "*.") {
		return a.Host == host
	}
	suffix := a.Host[1:]
	return strings.HasSuffix(host, suffix) && len(host) > len(suffix)
}

// checkAllowHost reports whether host may stand in an entry: an exact name,
// *.NAME, or one address, each in the one spelling that is compared.
func checkAllowHost(field, host string) *FieldError {
	if addr, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		return checkAddress(field, host, addr)
	}
	return checkHost(field, host)
}

// checkAddress reports whether host, which reads as addr, is one address in
// canonical form to which something can be sent. Whether it is dialled is
// decided where it is: it has to be public or within network.private.
func checkAddress(field, host string, addr netip.Addr) *FieldError {
	bad := func(what, hint string) *FieldError { return fault(field, quote(host)+" "+what, hint) }
	canonical := addr.Unmap().WithZone("").String()
	switch {
	case addr.Zone() != "":
		return bad("has a zone", "write "+canonical+": no zone of this host is known to a call")
	case addr.Is4In6():
		return bad("is an IPv4 address in IPv6 form", "write "+canonical)
	case host != canonical:
		return bad("is not in canonical form", "write "+canonical)
	case addr.IsUnspecified() || addr.IsMulticast() || host == "255.255.255.255":
		return bad("is not the address of one host", "write the address of a host, or its name")
	case nameRange().Contains(addr):
		return bad("is of the range "+nameRange().String()+", out of which names get their addresses in a cell", "write the host's name")
	}
	return nil
}

// nameRange is where the addresses come from that names have in a cell.
func nameRange() netip.Prefix { return netip.MustParsePrefix("198.18.0.0/15") }

// checkHost reports whether host is an exact name or *.NAME, in the one
// spelling that is compared: lower case, ASCII, no final dot.
func checkHost(field, host string) *FieldError {
	if err := checkHostShape(field, host); err != nil {
		return err
	}
	name, wildcard := strings.CutPrefix(host, "*.")
	labels := strings.Split(name, ".")
	for _, label := range labels {
		if !hostLabel(label) {
			return fault(field, quote(host)+" is not a host name", "write letters, digits and hyphens between dots")
		}
	}
	last := labels[len(labels)-1]
	switch {
	case len(name) > 253:
		return fault(field, quote(host)+" is longer than 253 bytes", "write a host name")
	case len(labels) < 2 && wildcard:
		return fault(field, quote(host)+" covers a whole top-level domain", "name the domain too: *.example.com")
	case last[0] >= '0' && last[0] <= '9':
		return fault(field, quote(host)+" reads as an address", "write a name, or an address as four decimal numbers: 192.0.2.1")
	case len(labels) < 2:
		return fault(field, quote(host)+" has no domain", "write the full name: names are not completed from a search list")
	}
	return nil
}

// checkHostShape answers what is no host name but what people write for one.
func checkHostShape(field, host string) *FieldError {
	_, notAddress := netip.ParseAddr(strings.Trim(host, "[]"))
	_, notRange := netip.ParsePrefix(host)
	bad := func(what, hint string) *FieldError { return fault(field, quote(host)+" "+what, hint) }
	switch {
	case host == "":
		return fault(field, "is empty", "name one host; an entry that is not there allows nothing")
	case strings.Trim(host, "*.") == "":
		return bad("is every host", "name the hosts; *.example.com covers the names below example.com")
	case strings.Contains(host, "://"):
		return bad("has a scheme", "write the host alone, and its ports in ports")
	case notRange == nil:
		return bad("is an address range", "list its addresses one by one, or allow a name, and write the range into network.private")
	case strings.ContainsAny(host, "/?#"):
		return bad("has a path", "write the host alone: paths are not judged here")
	case strings.Contains(host, "@"):
		return bad("has a user", "write the host alone")
	case notAddress == nil:
		return bad("is an address", "write the name that the host's certificate proves")
	case strings.Contains(host, ":"):
		return bad("has a port", "write the host alone, and its ports in ports: [443]")
	case strings.HasSuffix(host, "."):
		return bad("ends with a dot", "leave the last dot out: every name is taken as complete")
	case strings.Contains(strings.TrimPrefix(host, "*."), "*"):
		return bad("has a wildcard within", "a wildcard is the whole first label: *.example.com")
	case host != strings.ToLower(host):
		return bad("has capital letters", "write "+quote(strings.ToLower(host)))
	case strings.IndexFunc(host, func(r rune) bool { return r > 0x7f }) >= 0:
		return bad("is not ASCII", "write the name as it is resolved: xn--...")
	}
	return nil
}

func hostLabel(label string) bool {
	return nameText(label, 63, "-") && !strings.HasSuffix(label, "-")
}
