package hostnet

import (
	"net/netip"
	"slices"
	"strings"
)

// maxResolvers is how many name servers the C library takes.
const maxResolvers = 3

// ParseResolvers returns the name servers of a resolv.conf as ADDRESS:PORT, the
// first three, in order and each once. An address with a zone, or one that is
// nobody's, is passed over. Its other lines are not used: names are looked up
// as they are, without a search list.
func ParseResolvers(text []byte) []string {
	var list []string
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) < 2 || fields[0] != "nameserver" {
			continue
		}
		addr, err := netip.ParseAddr(fields[1])
		if err != nil || addr.Zone() != "" || addr.IsUnspecified() || addr.IsMulticast() {
			continue
		}
		at := netip.AddrPortFrom(addr.Unmap(), 53).String()
		if !slices.Contains(list, at) {
			list = append(list, at)
		}
		if len(list) == maxResolvers {
			break
		}
	}
	return list
}
