package hostnet

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/callcell/callcell/internal/egress/wire"
)

// The bounds of the table, so that it fits into one message with the rest.
const (
	maxNames     = 512
	maxNameBytes = 64 << 10 // of all names together
	maxAddrs     = 8        // of one name
	maxAllAddrs  = 1024
)

// Hosts returns this host's own table of names, /etc/hosts; nil where there is
// none.
func Hosts() []wire.Host { return hosts(hostsFile) }

func hosts(path string) []wire.Host {
	text, err := read(path, maxHosts)
	if err != nil {
		return nil
	}
	return ParseHosts(text)
}

// ParseHosts returns the table of names of a hosts file, in its order: names in
// lower case with at least one dot, since no other can be allowed, each once
// with the addresses of all its lines. What is no name or no address, an
// address with a zone too, is passed over. The table ends where it is full: 512
// names, 64 KiB of them, 1,024 addresses.
func ParseHosts(text []byte) []wire.Host {
	t := table{index: map[string]int{}}
	for line := range strings.Lines(string(text)) {
		line, _, _ = strings.Cut(line, "#")
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		addr, err := netip.ParseAddr(fields[0])
		if err != nil || addr.Zone() != "" {
			continue
		}
		for _, name := range fields[1:] {
			if name, ok := canonical(name); ok {
				t.add(name, addr.Unmap())
			}
		}
	}
	return t.hosts
}

// A table of names while it is read.
type table struct {
	hosts []wire.Host
	index map[string]int
	bytes int
	addrs int
}

func (t *table) add(name string, addr netip.Addr) {
	if t.addrs == maxAllAddrs {
		return
	}
	i, known := t.index[name]
	if !known {
		if len(t.hosts) == maxNames || t.bytes+len(name) > maxNameBytes {
			return
		}
		i = len(t.hosts)
		t.index[name] = i
		t.hosts = append(t.hosts, wire.Host{Name: name})
		t.bytes += len(name)
	}
	h := &t.hosts[i]
	if len(h.Addrs) < maxAddrs && !slices.Contains(h.Addrs, addr) {
		h.Addrs = append(h.Addrs, addr)
		t.addrs++
	}
}

// canonical returns a host name as names are compared: in lower case, without a
// final dot. It has at least two labels and does not read as an address.
func canonical(name string) (string, bool) {
	name = strings.TrimSuffix(name, ".")
	if len(name) > 253 {
		return "", false
	}
	labels := strings.Split(name, ".")
	for _, label := range labels {
		if !labelText(label) {
			return "", false
		}
	}
	last := labels[len(labels)-1]
	if len(labels) < 2 || last[0] >= '0' && last[0] <= '9' {
		return "", false
	}
	return strings.ToLower(name), true // all of it is ASCII
}

func labelText(label string) bool {
	if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' {
		return false
	}
	for i := range len(label) {
		c := label[i]
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_') {
			return false
		}
	}
	return true
}
