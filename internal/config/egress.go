package config

import (
	"net/netip"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/callcell/callcell/envelope"
)

// Egress is how calls that may reach something do so. What a call may reach
// is its envelope's business.
type Egress struct {
	// Resolvers are the name servers that are asked, ADDRESS or
	// ADDRESS:PORT; empty: those of this host.
	Resolvers []string `json:"resolvers"`
	// Roots is a PEM file of certificate authorities that are trusted beside
	// this host's; "" is none.
	Roots string `json:"roots"`
	// Deny are address ranges that no call reaches, beside those that are
	// never reached.
	Deny   []string     `json:"deny"`
	Limits EgressLimits `json:"limits"`
	Fetch  FetchLimits  `json:"fetch"`
}

// EgressLimits bound connections.
type EgressLimits struct {
	Connections     envelope.Count    `json:"connections"`     // of a call, at once
	AllConnections  envelope.Count    `json:"allConnections"`  // of all calls, at once
	CallConnections envelope.Count    `json:"callConnections"` // of a call, in all
	Names           envelope.Count    `json:"names"`           // of a call
	Bytes           envelope.Size     `json:"bytes"`           // of a call, both ways together
	Dial            envelope.Duration `json:"dial"`            // to resolve and connect
	Idle            envelope.Duration `json:"idle"`            // without a byte either way
	Total           envelope.Duration `json:"total"`           // of one connection
}

// FetchLimits bound the fetch tool.
type FetchLimits struct {
	Bytes        envelope.Size     `json:"bytes"`  // of a decoded body
	Header       envelope.Size     `json:"header"` // of an answer's headers
	Total        envelope.Duration `json:"total"`  // with all redirects
	Hops         envelope.Count    `json:"hops"`   // redirects that are followed
	Ports        []int             `json:"ports"`  // where network.fetch is public
	CacheEntries envelope.Count    `json:"cacheEntries"`
	CacheFor     envelope.Duration `json:"cacheFor"`
	CacheBytes   envelope.Size     `json:"cacheBytes"` // of all entries together
}

func defaultEgress() Egress {
	return Egress{
		Resolvers: []string{}, Deny: []string{},
		Limits: EgressLimits{
			Connections: 64, AllConnections: 1024, CallConnections: 10_000, Names: 256, Bytes: envelope.Size(1 << 30),
			Dial: seconds(10), Idle: seconds(60), Total: seconds(3600),
		},
		Fetch: FetchLimits{
			Bytes: 2 * envelope.MiB, Header: 64 * envelope.KiB, Total: seconds(20), Hops: 5, Ports: []int{80, 443, 8080, 8443},
			CacheEntries: 128, CacheFor: seconds(120), CacheBytes: 32 * envelope.MiB,
		},
	}
}

func seconds(n int) envelope.Duration { return envelope.Duration(time.Duration(n) * time.Second) }

// ResolverAddress returns a resolver as ADDRESS:PORT.
func ResolverAddress(text string) (netip.AddrPort, error) {
	if addr, err := netip.ParseAddr(text); err == nil {
		return netip.AddrPortFrom(addr, 53), nil
	}
	return netip.ParseAddrPort(text)
}

func checkResolvers(c *Config) error {
	if len(c.Egress.Resolvers) > 8 {
		return bad("egress.resolvers", "more than 8", "name those that are asked")
	}
	for i, text := range c.Egress.Resolvers {
		if at, err := ResolverAddress(text); err != nil || at.Port() == 0 || at.Addr().Zone() != "" || at.Addr().IsUnspecified() {
			return bad("egress.resolvers"+index(i), "not an address", "write ADDRESS or ADDRESS:PORT: 192.0.2.53, [2001:db8::53]:53")
		}
	}
	return nil
}

func checkRoots(c *Config) error {
	path := c.Egress.Roots
	if path == "" || filepath.IsAbs(path) && filepath.Clean(path) == path && !strings.ContainsRune(path, 0) {
		return nil
	}
	return bad("egress.roots", "not an absolute path in its shortest form", "write it from / on, without . and ..")
}

func checkDeny(c *Config) error {
	if len(c.Egress.Deny) > 1024 {
		return bad("egress.deny", "more than 1024 ranges", "write wider ranges")
	}
	for i, text := range c.Egress.Deny {
		prefix, err := netip.ParsePrefix(text)
		switch {
		case err != nil:
			return bad("egress.deny"+index(i), "not an address range", "write ADDRESS/BITS: 198.51.100.0/24")
		case prefix.Masked() != prefix || prefix.Addr().Is4In6():
			return bad("egress.deny"+index(i), "not in canonical form", "write "+netip.PrefixFrom(prefix.Addr().Unmap(), min(prefix.Bits(), prefix.Addr().Unmap().BitLen())).Masked().String())
		}
	}
	return nil
}

// checkEgressLimits holds every number to a range in which it means
// something.
func checkEgressLimits(c *Config) error {
	l, f := &c.Egress.Limits, &c.Egress.Fetch
	for _, v := range []struct {
		field          string
		value, lo, hi  int64
		text, textHigh string
	}{
		{"limits.connections", int64(l.Connections), 1, 4096, "1", "4096"},
		{"limits.allConnections", int64(l.AllConnections), 1, 4096, "1", "4096"},
		{"limits.callConnections", int64(l.CallConnections), 1, 1_000_000, "1", "1000k"},
		{"limits.names", int64(l.Names), 1, 4096, "1", "4096"},
		{"limits.bytes", int64(l.Bytes), 1, 1 << 40, "1B", "1Ti"},
		{"limits.dial", int64(l.Dial), int64(seconds(1)), int64(seconds(120)), "1s", "2m"},
		{"limits.idle", int64(l.Idle), int64(seconds(1)), int64(seconds(3600)), "1s", "1h"},
		{"limits.total", int64(l.Total), int64(seconds(1)), int64(seconds(86_400)), "1s", "24h"},
		{"fetch.bytes", int64(f.Bytes), 1024, 64 << 20, "1Ki", "64Mi"},
		{"fetch.header", int64(f.Header), 1024, 1 << 20, "1Ki", "1Mi"},
		{"fetch.total", int64(f.Total), int64(seconds(1)), int64(seconds(600)), "1s", "10m"},
		{"fetch.hops", int64(f.Hops), 0, 20, "0", "20"},
		{"fetch.cacheEntries", int64(f.CacheEntries), 0, 100_000, "0", "100k"},
		{"fetch.cacheFor", int64(f.CacheFor), 0, int64(seconds(86_400)), "0s", "24h"},
		{"fetch.cacheBytes", int64(f.CacheBytes), 0, 1 << 30, "0B", "1Gi"},
	} {
		if v.value < v.lo || v.value > v.hi {
			return bad("egress."+v.field, "out of range", "write "+v.text+" to "+v.textHigh)
		}
	}
	for i, port := range f.Ports {
		if port < 1 || port > 65535 {
			return bad("egress.fetch.ports"+index(i), strconv.Itoa(port)+" is not a port", "write 1 to 65535")
		}
	}
	if len(f.Ports) == 0 || len(f.Ports) > 32 {
		return bad("egress.fetch.ports", "not 1 to 32 ports", "list them: [80, 443]")
	}
	return nil
}
