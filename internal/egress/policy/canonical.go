package policy

import (
	"net/netip"
	"strconv"
	"strings"
)

// The bounds of a name, in bytes.
const (
	maxName  = 253
	maxLabel = 63
)

// HostError says why a text is no host.
type HostError struct {
	Host string // as it was given: data of a stranger
	Msg  string
}

// Error names the host, in printable ASCII and at most 64 bytes of it, and the
// fault.
func (e *HostError) Error() string {
	host, more := e.Host, ""
	if len(host) > 64 {
		host, more = strings.ToValidUTF8(host[:64], ""), "..."
	}
	return "bad host " + strconv.QuoteToASCII(host) + more + ": " + e.Msg
}

// Canonical returns the one form of host that is compared: a name in lower
// case without its final dot, or an address in canonical form, without
// brackets, an IPv4 address never in IPv6 form. The error is a *HostError.
//
// A name is ASCII, at most 253 bytes of labels of 1 to 63 letters, digits,
// hyphens within and underscores, and its last label does not start with a
// digit: what some resolver could read as an address is one here, or nothing.
// An address has no zone. It says nothing about what a name means: localhost
// is a name.
func Canonical(host string) (string, error) {
	name, _, err := canonical(host)
	return name, err
}

// canonical returns the address too, where host is one.
func canonical(host string) (string, netip.Addr, error) {
	switch {
	case strings.HasPrefix(host, "[") || strings.IndexByte(host, ':') >= 0:
		return canonical6(host)
	case dotted(host):
		if addr, err := netip.ParseAddr(host); err == nil {
			return addr.String(), addr, nil
		}
	}
	name := strings.TrimSuffix(host, ".")
	if why := faultOf(name); why != "" {
		return "", netip.Addr{}, &HostError{host, why}
	}
	return strings.ToLower(name), netip.Addr{}, nil
}

// canonical6 is canonical for what can be an IPv6 address only.
func canonical6(host string) (string, netip.Addr, error) {
	bad := func(why string) (string, netip.Addr, error) { return "", netip.Addr{}, &HostError{host, why} }
	text := host
	if inner, ok := strings.CutPrefix(host, "["); ok {
		if inner, ok = strings.CutSuffix(inner, "]"); !ok || strings.IndexByte(inner, ':') < 0 {
			return bad("has brackets that are not around an IPv6 address")
		}
		text = inner
	}
	if len(text) > 64 { // the longest address has 45 bytes
		return bad("is not an address")
	}
	addr, err := netip.ParseAddr(text)
	switch {
	case err != nil:
		return bad("has a colon, and is not an address")
	case addr.Zone() != "":
		return bad("is an address with a zone")
	}
	addr = addr.Unmap()
	return addr.String(), addr, nil
}

// dotted reports whether host looks like four decimal numbers. It keeps names
// away from netip.ParseAddr, whose errors allocate.
func dotted(host string) bool {
	if len(host) < 7 || len(host) > 15 {
		return false
	}
	for i := range len(host) {
		if c := host[i]; c != '.' && !digit(c) {
			return false
		}
	}
	return true
}

// faultOf says why name is no name, or "".
func faultOf(name string) string {
	if len(name) > maxName {
		return "is longer than 253 bytes"
	}
	if name == "" {
		return "is empty"
	}
	start := 0 // of the label
	for i := 0; i <= len(name); i++ {
		if i < len(name) && name[i] != '.' {
			if why := faultOfByte(name[i]); why != "" {
				return why
			}
			continue
		}
		if why := faultOfLabel(name[start:i]); why != "" {
			return why
		}
		if i < len(name) {
			start = i + 1
		}
	}
	if digit(name[start]) {
		return "reads as an address, and is not written as one"
	}
	return ""
}

func faultOfLabel(label string) string {
	switch {
	case label == "":
		return "has an empty label"
	case len(label) > maxLabel:
		return "has a label of more than 63 bytes"
	case label[0] == '-' || label[len(label)-1] == '-':
		return "has a label that starts or ends with a hyphen"
	}
	return ""
}

func faultOfByte(c byte) string {
	switch {
	case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', digit(c), c == '-', c == '_':
		return ""
	case c == 0:
		return "has a NUL"
	case c == ' ' || c == '\t' || c == '\r' || c == '\n':
		return "has a space"
	case c < ' ' || c == 0x7f:
		return "has a control character"
	case c >= 0x80:
		return "is not ASCII"
	case c == '@':
		return "has user information"
	case c == '*':
		return "has a wildcard"
	}
	return "has the character " + string(rune(c))
}

func digit(c byte) bool { return c >= '0' && c <= '9' }

// shown makes a host fit to be shown where it has no canonical form: in lower
// case, at most 253 bytes, what is not printable ASCII as a question mark.
func shown(host string) string {
	if len(host) > maxName {
		host = host[:maxName]
	}
	out := []byte(host)
	for i, c := range out {
		switch {
		case c >= 'A' && c <= 'Z':
			out[i] = c + 'a' - 'A'
		case c < ' ' || c > '~':
			out[i] = '?'
		}
	}
	return string(out)
}
