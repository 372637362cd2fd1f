package envelope

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// A warning names one kind of choice that widens what a call can touch, or
// that has no effect.
type warning struct {
	name string
	says string
	run  func(*Envelope) []string
}

// Warnings says every choice of the envelope that widens the surface beyond
// Default, and every entry without effect, one line each, the field first, in
// the order of WarningDocs. They go where the envelope goes: to logs, results
// and rows, so they name no host path and no source of a secret. The envelope
// must be valid.
func (e *Envelope) Warnings() []string {
	out := []string{}
	for _, w := range warnings() {
		out = append(out, w.run(e)...)
	}
	return out
}

// WarningDocs returns the documentation of every warning, in order.
func WarningDocs() []CheckDoc {
	var docs []CheckDoc
	for _, w := range warnings() {
		docs = append(docs, CheckDoc{Of: "envelope", Name: w.name, Says: w.says})
	}
	return docs
}

func warnings() []warning {
	return []warning{
		{"trust", "trust is reviewed: the weakest levels are allowed", warnTrust},
		{"mount", "a directory of the host is seen by the call", warnMounts},
		{"wildcard", "every name below a domain can be reached, and each name looked up is a message out", warnWildcards},
		{"tcp", "a connection is not looked into", warnTCP},
		{"private", "addresses that are not public can be reached", warnPrivate},
		{"address-inert", "an address is not public and in no private range, so that it is never reached", warnAddressInert},
		{"fetch", "the fetch tool reaches every public host", warnFetch},
		{"credential-env", "the call is given the secret, in a variable", warnCredentialEnv},
		{"credential-inert", "a credential's host is not allowed, so that it is never used", warnCredentialInert},
		{"loud", "a ceiling is far above what calls need, see Bounds", warnLoud},
	}
}

func warnTrust(e *Envelope) []string {
	if e.Trust != TrustReviewed {
		return nil
	}
	return []string{"trust: reviewed says that people have read the code; what a model wrote is not that"}
}

func warnMounts(e *Envelope) (out []string) {
	for _, name := range sorted(e.Files.Mounts) {
		m := e.Files.Mounts[name]
		out = append(out, entryField("files.mounts", name)+": the call sees a directory of the host at "+m.Target+", read-only ("+m.Why+")")
	}
	return out
}

func warnWildcards(e *Envelope) (out []string) {
	for i, a := range e.Network.Allow {
		if strings.HasPrefix(a.Host, "*.") {
			out = append(out, at("network.allow", i)+": "+a.Host+" lets the call reach, and leak data through, every name below "+a.Host[2:])
		}
	}
	return out
}

func warnTCP(e *Envelope) (out []string) {
	for i, a := range e.Network.Allow {
		if a.Protocol == ProtocolTCP {
			out = append(out, at("network.allow", i)+": what is sent to "+a.Host+" is not looked into (tcp)")
		}
	}
	return out
}

func warnPrivate(e *Envelope) (out []string) {
	for i, p := range e.Network.Private {
		field, why := at("network.private", i), " ("+p.Why+")"
		prefix, err := netip.ParsePrefix(p.CIDR)
		switch {
		case err != nil || !prefix.Addr().IsLoopback():
			out = append(out, field+": the call can reach "+p.CIDR+why)
		case prefix.IsSingleIP():
			out = append(out, field+": the call can reach "+p.CIDR+", services of this host itself"+why)
		default:
			out = append(out, field+": "+p.CIDR+" opens nothing: an address of this host itself is reached by a range of one address alone, as "+prefix.Addr().Next().String()+"/32"+why)
		}
	}
	return out
}

// warnAddressInert knows what the standard library calls not public. There is
// more of that kind, and an address of it is refused when it is dialled.
func warnAddressInert(e *Envelope) (out []string) {
	for i, a := range e.Network.Allow {
		addr, err := netip.ParseAddr(a.Host)
		if err != nil || !addr.IsPrivate() && !addr.IsLoopback() && !addr.IsLinkLocalUnicast() {
			continue
		}
		within := func(p Private) bool {
			prefix, err := netip.ParsePrefix(p.CIDR)
			return err == nil && prefix.Contains(addr) && (prefix.IsSingleIP() || !addr.IsLoopback())
		}
		if !slices.ContainsFunc(e.Network.Private, within) {
			out = append(out, at("network.allow", i)+": "+a.Host+" is not public and in no range of network.private, so that it is never reached")
		}
	}
	return out
}

func warnFetch(e *Envelope) []string {
	if e.Network.Fetch != FetchPublic {
		return nil
	}
	return []string{"network.fetch: the fetch tool reaches every public host, and can carry data out in an address"}
}

func warnCredentialEnv(e *Envelope) (out []string) {
	for _, name := range sorted(e.Credentials) {
		if variable := e.Credentials[name].Use.Env; variable != "" {
			out = append(out, entryField("credentials", name)+": the call is given the secret itself, in "+variable)
		}
	}
	return out
}

func warnCredentialInert(e *Envelope) (out []string) {
	for _, name := range sorted(e.Credentials) {
		u := e.Credentials[name].Use
		if u.Header == "" || reaches(e.Network.Allow, u.Host, u.PortOrDefault()) {
			continue
		}
		out = append(out, entryField("credentials", name)+": "+u.Host+" is not allowed with tls on port "+strconv.Itoa(u.PortOrDefault())+", so that it is never used")
	}
	return out
}

// reaches reports whether some entry allows host with TLS on port.
func reaches(list []Allow, host string, port int) bool {
	for _, a := range list {
		for _, p := range a.Ports {
			if p == port && a.Covers(host) && a.ProtocolOn(port) == ProtocolTLS {
				return true
			}
		}
	}
	return false
}

func warnLoud(e *Envelope) (out []string) {
	for _, b := range bounds() {
		if n := b.get(e); n > b.loud {
			out = append(out, b.field+": "+b.text(n)+" is far above what calls need (more than "+b.text(b.loud)+")")
		}
	}
	return out
}
