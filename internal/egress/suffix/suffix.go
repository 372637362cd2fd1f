// Package suffix knows about names what needs tables: which are public
// suffixes, and how a name of another script is written in ASCII. It is the
// one place that imports them, so that internal/egress/policy can do without.
package suffix

import (
	"strings"
	"unicode/utf8"

	"golang.org/x/net/idna"
	"golang.org/x/net/publicsuffix"

	"github.com/callcell/callcell/internal/egress/policy"
)

// Public reports whether anybody can get a name right below name: whether it
// is a public suffix, of a registry (com, co.uk) or of a company that hands
// out names (github.io), a name of one label, or one below which every label
// is a public suffix (*.kawasaki.jp is in the list, kawasaki.jp is not). Case
// and one final dot do not matter. It is false for what is no name.
//
// The list is that of the build. It knows nothing of suffixes within a
// company's network, and a name that is merely above a public suffix, as
// amazonaws.com is above s3.amazonaws.com, is none.
func Public(name string) bool {
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	if name == "" || strings.HasPrefix(name, ".") || strings.HasSuffix(name, ".") {
		return false
	}
	if strings.IndexByte(name, '.') < 0 {
		return true
	}
	if found, _ := publicsuffix.PublicSuffix(name); found == name {
		return true
	}
	below := "0." + name // no rule has a label of a digit
	found, _ := publicsuffix.PublicSuffix(below)
	return found == below
}

// maxHost is the longest host that is looked at, in bytes: 253 characters of
// UTF-8, and some.
const maxHost = 1024

// ToASCII returns the host of an address in ASCII and in lower case, as it is
// looked up: bücher.test is xn--bcher-kva.test. A host that is ASCII already
// is only looked at where a label of it claims to be of another script
// (xn--...). The error is a *policy.HostError: for what IDNA does not let
// through, and for what is not ASCII and would become an address (①②⑦.⓪.⓪.①).
//
// The result is not judged: that is for policy.Canonical.
func ToASCII(host string) (string, error) {
	if len(host) > maxHost {
		return "", &policy.HostError{Host: host, Msg: "is longer than a name can be"}
	}
	if plain(host) {
		return strings.ToLower(host), nil
	}
	out, err := idna.Lookup.ToASCII(host)
	switch {
	case err != nil || !utf8.ValidString(host):
		// What IDNA says is not kept: it quotes the host, at any length.
		return "", &policy.HostError{Host: host, Msg: "is not a name of its script"}
	case !ascii(out) || numeric(out):
		return "", &policy.HostError{Host: host, Msg: "is not ASCII and reads as an address, or as nothing"}
	}
	return out, nil
}

// plain reports whether IDNA has nothing to say about host.
func plain(host string) bool {
	return ascii(host) && !strings.Contains(strings.ToLower(host), "xn--")
}

func ascii(text string) bool {
	return strings.IndexFunc(text, func(r rune) bool { return r >= 0x80 }) < 0
}

// numeric reports whether the last label of a host starts with a digit.
func numeric(host string) bool {
	host = strings.TrimSuffix(host, ".")
	last := host[strings.LastIndexByte(host, '.')+1:]
	return last == "" || last[0] >= '0' && last[0] <= '9'
}
