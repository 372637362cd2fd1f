package fetch

import (
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/egress/policy"
)

// An address is a URL in its one form.
type address struct {
	scheme string // http or https
	host   string // canonical
	port   int
	uri    string // path and query, printable ASCII, begins with /
}

// A fault says why an address is not asked.
type fault struct {
	reason envelope.Reason
	msg    string
	hint   string
}

func malformed(msg, hint string) *fault {
	return &fault{envelope.ReasonRequest, msg, hint}
}

// parse reads an address that a caller gave, or, with base, one that a server
// redirected to.
func (f *Fetcher) parse(text string, base *address) (address, *fault) {
	if len(text) > envelope.MaxURL {
		return address{}, malformed("the address has more than 8 KiB", "write a shorter address")
	}
	u, err := url.Parse(encoded(text))
	if err != nil {
		// The error repeats the text.
		return address{}, malformed("it is not an address", "write it in full: https://example.com/page")
	}
	if base != nil {
		from, err := url.Parse(base.String())
		if err != nil {
			return address{}, malformed("it is not an address", "")
		}
		u = from.ResolveReference(u)
	}
	scheme := strings.ToLower(u.Scheme)
	switch {
	case scheme != "http" && scheme != "https":
		return address{}, malformed("scheme not allowed: "+quoted(u.Scheme), "http and https alone are fetched")
	case u.User != nil:
		return address{}, malformed("the address has user information", "leave out what is before the @: no password goes into an address")
	case u.Host == "" || u.Opaque != "":
		return address{}, malformed("the address has no host", "write it in full: https://example.com/page")
	}
	host, port, bad := f.authority(scheme, u.Host)
	if bad != nil {
		return address{}, bad
	}
	a := address{scheme, host, port, requestURI(u)}
	if len(a.String()) > envelope.MaxURL {
		return address{}, malformed("the address has more than 8 KiB when it is written in ASCII", "write a shorter address")
	}
	return a, nil
}

// authority reads HOST or HOST:PORT.
func (f *Fetcher) authority(scheme, text string) (host string, port int, bad *fault) {
	const hint = "write a host name, or an address as it is usually written"
	host, digits := text, ""
	if colon := strings.LastIndexByte(text, ':'); colon > strings.LastIndexByte(text, ']') {
		host, digits = text[:colon], text[colon+1:]
	}
	port = 80
	if scheme == "https" {
		port = 443
	}
	if digits != "" {
		n, err := strconv.ParseUint(digits, 10, 16)
		if err != nil || n == 0 {
			return "", 0, malformed(quoted(digits)+" is not a port", "write 1 to 65535")
		}
		port = int(n)
	}
	if !strings.HasPrefix(host, "[") {
		ascii, err := f.o.ToASCII(host)
		if err != nil {
			return "", 0, malformed("bad host "+quoted(host)+": "+neutral(err.Error(), 120), hint)
		}
		host = ascii
	}
	name, err := policy.Canonical(host)
	if err != nil {
		return "", 0, malformed(neutral(err.Error(), 200), hint)
	}
	return name, port, nil
}

// encoded percent-encodes what has no place in an address and stands in many:
// what is not ASCII, spaces, and signs that others read in two ways. Control
// characters are left for the parser to refuse.
func encoded(text string) string {
	const hex = "0123456789ABCDEF"
	out := make([]byte, 0, len(text))
	for i := range len(text) {
		c := text[i]
		if c >= 0x80 || strings.IndexByte(" \"<>\\^`{|}", c) >= 0 {
			out = append(out, '%', hex[c>>4], hex[c&15])
			continue
		}
		out = append(out, c)
	}
	return string(out)
}

// requestURI returns path and query as they are sent.
func requestURI(u *url.URL) string {
	path := u.EscapedPath()
	if !strings.HasPrefix(path, "/") {
		path = "/" + path
	}
	if u.RawQuery == "" && !u.ForceQuery {
		return path
	}
	return path + "?" + u.RawQuery
}

// String returns the address as it is compared and shown: printable ASCII, at
// most envelope.MaxURL bytes.
func (a address) String() string { return a.scheme + "://" + a.authority() + a.uri }

// authority returns the host, with the port where it is not the scheme's own.
func (a address) authority() string {
	if a.port == 80 && a.scheme == "http" || a.port == 443 && a.scheme == "https" {
		if strings.IndexByte(a.host, ':') >= 0 {
			return "[" + a.host + "]"
		}
		return a.host
	}
	return net.JoinHostPort(a.host, strconv.Itoa(a.port))
}

// permitted judges an address. It returns why it may not be asked, nil if it
// may.
func permitted(pol Judge, a address) *fault {
	v := pol.JudgeFetch(a.host, a.port)
	where := a.host + " on port " + strconv.Itoa(a.port)
	switch {
	case !v.OK:
		hint := "list host " + a.host + " with port " + strconv.Itoa(a.port) + " in network.allow, or let network.fetch be public"
		if _, err := netip.ParseAddr(a.host); err == nil {
			hint = "a public address is fetched where network.fetch is public; another needs an entry of network.allow and of network.private, and a cloud's metadata service is never reached"
		}
		return &fault{envelope.ReasonPolicy, where + " is not allowed: " + neutral(v.Why, 400), hint}
	case v.Host != a.host || v.Port != a.port:
		return &fault{envelope.ReasonPolicy, where + " is not what was judged", ""}
	case !speaks(v.Protocol, a.scheme):
		return &fault{envelope.ReasonPolicy, where + " is not asked by " + a.scheme + ": " + neutral(v.Why, 400) + " says protocol " + v.Protocol,
			"write https where the entry says tls, http where it says http"}
	}
	return nil
}

// speaks reports whether an entry's protocol lets a scheme be used. Without an
// entry any is.
func speaks(protocol, scheme string) bool {
	switch protocol {
	case "", envelope.ProtocolTCP:
		return true
	case envelope.ProtocolTLS:
		return scheme == "https"
	case envelope.ProtocolHTTP:
		return scheme == "http"
	}
	return false
}

// quoted returns the start of a stranger's word in quotes, in ASCII.
func quoted(text string) string {
	if len(text) > 64 {
		text = strings.ToValidUTF8(text[:64], "")
	}
	return strconv.QuoteToASCII(text)
}

// neutral makes one line of at most most bytes of a text with words of
// strangers in it: what is not printed becomes a question mark.
func neutral(text string, most int) string {
	text = strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, text)
	return cutAt(text, most)
}

// cutAt cuts a text between characters and marks the cut.
func cutAt(text string, most int) string {
	if len(text) <= most {
		return text
	}
	end := most - len("...")
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + "..."
}
