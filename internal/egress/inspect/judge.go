package inspect

import (
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"github.com/callcell/callcell/internal/egress/inspect/strict"
	"github.com/callcell/callcell/internal/render"
)

// The words of the header that marks an answer as ours.
const (
	markHeader = "Callcell-Egress"
	denied     = "denied"
	failed     = "failed"
)

// refusal is an answer of ours.
type refusal struct {
	status int
	word   string // denied or failed
	why    string
}

func deny(status int, format string, args ...any) *refusal {
	return &refusal{status, denied, fmt.Sprintf(format, args...)}
}

// judge says what is wrong with a request, nil where nothing is. head is what
// was read of it where it came over HTTP/1.
func (o Options) judge(r *http.Request, head *strict.Head) *refusal {
	if head != nil && (r.ProtoMajor != 1 || head.Method != r.Method || head.Target != r.RequestURI) {
		return deny(http.StatusBadRequest, "the request was read in two ways")
	}
	switch strings.ToUpper(r.Method) {
	case http.MethodConnect, http.MethodTrace:
		return deny(http.StatusForbidden, "method %s is refused", quote(r.Method))
	}
	if !strict.Token(r.Method) {
		return deny(http.StatusForbidden, "the method is not a token")
	}
	if why := o.judgeTarget(r.URL, r.RequestURI, r.Method); why != "" {
		return deny(http.StatusForbidden, "%s", why)
	}
	named := append(r.Header["Host"], r.Host)
	if r.URL.Host != "" {
		named = append(named, r.URL.Host)
	}
	for _, authority := range named {
		if !o.names(authority) {
			return deny(http.StatusMisdirectedRequest, "%s", o.otherHost(authority))
		}
	}
	if fields(r.Header) > mostFields {
		return deny(http.StatusRequestHeaderFieldsTooLarge, "the head has more than %d fields", mostFields)
	}
	if len(r.Header["Content-Length"]) > 1 {
		return deny(http.StatusBadRequest, "more than one Content-Length")
	}
	return nil
}

func fields(h http.Header) (n int) {
	for _, values := range h {
		n += len(values)
	}
	return n
}

func (o Options) otherHost(authority string) string {
	return "the request names " + quote(authority) + ", this connection is for " + o.authority()
}

// judgeHead finds another host in a head of HTTP/1 before net/http reads it: so
// the reason is the same whatever is in the place of the host. CONNECT has its
// own reason.
func (o Options) judgeHead(h strict.Head) *strict.Fault {
	if h.Method != http.MethodConnect && !o.names(h.Host) {
		return &strict.Fault{Status: http.StatusMisdirectedRequest, Why: o.otherHost(h.Host)}
	}
	return nil
}

// judgeTarget says why a target is refused, "" where it is not.
func (o Options) judgeTarget(u *url.URL, text, method string) string {
	for i := range len(text) {
		if c := text[i]; c <= ' ' || c == 0x7f || c == '#' {
			return "the target has a byte that belongs into none"
		}
	}
	switch {
	case u.User != nil:
		return "the target has user information"
	case u.Opaque != "":
		return "the target is neither a path nor an address"
	case u.Scheme != "" && u.Scheme != o.scheme():
		return "the target's scheme is not " + o.scheme()
	case u.Path == "*" && method != http.MethodOptions:
		return "the target * is for OPTIONS alone"
	case u.Path != "*" && u.Path != "" && u.Path[0] != '/':
		return "the target is neither a path nor an address"
	}
	return ""
}

// names reports whether an authority is this connection's: the host, and its
// port or none.
func (o Options) names(authority string) bool {
	host, port := authority, ""
	if at := strings.LastIndexByte(authority, ':'); at >= 0 && !strings.HasSuffix(authority, "]") {
		host, port = authority[:at], authority[at+1:]
		if port != strconv.Itoa(o.Port) {
			return false
		}
	}
	if literal, ok := strings.CutPrefix(host, "["); ok {
		literal, ok = strings.CutSuffix(literal, "]")
		addr, err := netip.ParseAddr(literal)
		return ok && err == nil && addr.Is6() && addr.String() == o.Host
	}
	return host != "" && strings.TrimSuffix(lower(host), ".") == o.Host && !strings.Contains(o.Host, ":")
}

// lower is lower case of ASCII alone: no other letter becomes one of ASCII.
func lower(s string) string {
	return strings.Map(func(c rune) rune {
		if 'A' <= c && c <= 'Z' {
			return c + 'a' - 'A'
		}
		return c
	}, s)
}

// quote makes what the program said fit for a reason.
func quote(s string) string { return strconv.Quote(render.Line(s, 100)) }

// dropUpgrade takes out what offers another protocol, but for a websocket that
// package strict has seen. Whoever offers one goes on without.
func dropUpgrade(h http.Header, head *strict.Head) {
	if head != nil && head.Upgrade {
		return
	}
	h.Del("Upgrade")
	h.Del("Http2-Settings")
}
