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

// Covers reports whether the entry covers host, which is another entry's host
// or a name in lower case without a final dot. An exact name covers itself.
// *.x.test covers every name below x.test at any depth (a.x.test, b.a.x.test)
// and never x.test.
func (a Allow) Covers(host string) bool {
	if !strings.HasPrefix(a.Host, "*.") {
		return a.Host == host
	}
	suffix := a.Host[1:]
	return strings.HasSuffix(host, suffix) && len(host) > len(suffix)
}

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
	case len(labels) < 2:
		return fault(field, quote(host)+" has no domain", "write the full name: names are not completed from a search list")
	case last[0] >= '0' && last[0] <= '9':
		return fault(field, quote(host)+" reads as an address", "write a name: hosts are allowed by name alone")
	}
	return nil
}

// checkHostShape answers what is no host name but what people write for one.
func checkHostShape(field, host string) *FieldError {
	_, notAddress := netip.ParseAddr(strings.Trim(host, "[]"))
	bad := func(what, hint string) *FieldError { return fault(field, quote(host)+" "+what, hint) }
	switch {
	case host == "":
		return fault(field, "is empty", "name one host; an entry that is not there allows nothing")
	case strings.Trim(host, "*.") == "":
		return bad("is every host", "name the hosts; *.example.com covers the names below example.com")
	case strings.Contains(host, "://"):
		return bad("has a scheme", "write the host alone, and its ports in ports")
	case strings.ContainsAny(host, "/?#"):
		return bad("has a path", "write the host alone: paths are not judged here")
	case strings.Contains(host, "@"):
		return bad("has a user", "write the host alone")
	case notAddress == nil:
		return bad("is an address", "write a name: hosts are allowed by name alone, and private ranges in network.private")
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
