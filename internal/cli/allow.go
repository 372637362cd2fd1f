package cli

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"github.com/callcell/callcell/envelope"
)

// allowed reads the values of a flag like --allow. What they mean, and whether
// they make sense together, the envelope says.
func allowed(flag string, specs []string) ([]envelope.Allow, error) {
	var list []envelope.Allow
	for _, spec := range specs {
		entry, err := allowEntry(flag, spec)
		if err != nil {
			return nil, err
		}
		list = append(list, entry)
	}
	return list, nil
}

// allowEntry reads HOST[:PORT,PORT][/PROTOCOL]. An IPv6 address with ports
// stands in brackets.
func allowEntry(flag, spec string) (envelope.Allow, error) {
	if strings.Contains(spec, "://") {
		return envelope.Allow{}, usage(fmt.Sprintf("%s %s: an address of a document", flag, spec), fmt.Sprintf("name the host alone: %s example.com, %[1]s example.com:8080/http", flag))
	}
	place, protocol, _ := strings.Cut(spec, "/")
	entry := envelope.Allow{Host: place, Protocol: protocol}
	ports := "443"
	if _, err := netip.ParseAddr(place); err != nil { // an address of IPv6 has colons of its own
		if at := strings.LastIndexByte(place, ':'); at >= 0 {
			entry.Host, ports = place[:at], place[at+1:]
		}
		entry.Host = strings.TrimSuffix(strings.TrimPrefix(entry.Host, "["), "]")
	}
	for text := range strings.SplitSeq(ports, ",") {
		port, err := strconv.ParseUint(text, 10, 16)
		if err != nil {
			return envelope.Allow{}, usage(fmt.Sprintf("%s %s: %q is not a port", flag, spec, text), "write HOST, HOST:PORT or HOST:PORT,PORT")
		}
		entry.Ports = append(entry.Ports, int(port))
	}
	return entry, nil
}
