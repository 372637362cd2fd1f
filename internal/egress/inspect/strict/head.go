package strict

import (
	"bytes"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// framing is where a body ends.
type framing struct {
	length  int64
	chunked bool
}

// maxDigits is the most digits of a length: it never overflows.
const maxDigits = 18

// head is a head while it is read, line by line.
type head struct {
	Head
	framing
	major1   bool // of HTTP/1.1
	hosts    int
	lengths  int
	codings  int
	upgrades []string
	options  []string // of Connection
}

// parseHead reads a head with all its lines, the empty one too.
func parseHead(text []byte) (Head, framing, *Fault) {
	var h head
	first := true
	for len(text) > 0 {
		line, rest, fault := cutLine(text)
		if fault != nil {
			return Head{}, framing{}, fault
		}
		text = rest
		switch {
		case first:
			fault = h.requestLine(line)
		case len(line) > 0:
			fault = h.field(line)
		}
		if fault != nil {
			return Head{}, framing{}, fault
		}
		first = false
	}
	if fault := h.whole(); fault != nil {
		return Head{}, framing{}, fault
	}
	return h.Head, h.framing, nil
}

// cutLine returns the first line without its end, and what follows.
func cutLine(text []byte) (line, rest []byte, _ *Fault) {
	at := bytes.IndexByte(text, '\n')
	if at < 0 {
		return nil, nil, bad("a line without an end")
	}
	if at == 0 || text[at-1] != '\r' {
		return nil, nil, bad("a line ends in a bare line feed")
	}
	line = text[:at-1]
	for _, c := range line {
		switch {
		case c == 0:
			return nil, nil, bad("a NUL byte")
		case c == '\r':
			return nil, nil, bad("a bare carriage return")
		case c < ' ' && c != '\t', c == 0x7f:
			return nil, nil, bad("a control character")
		}
	}
	return line, text[at+1:], nil
}

func (h *head) requestLine(line []byte) *Fault {
	parts := strings.Split(string(line), " ")
	if len(parts) != 3 {
		return bad("the request line is not METHOD, TARGET and VERSION with one space between them")
	}
	h.Method, h.Target = parts[0], parts[1]
	switch {
	case parts[2] == "HTTP/1.1":
		h.major1 = true
	case parts[2] == "HTTP/2.0":
		return bad("HTTP/2 without TLS is not spoken here")
	case parts[2] != "HTTP/1.0":
		return bad("the version is neither HTTP/1.1 nor HTTP/1.0")
	}
	if !Token(h.Method) {
		return bad("the method is not a token")
	}
	if h.Target == "" || strings.ContainsAny(h.Target, "\t#") {
		return bad("the target is empty, or has a tab or a fragment")
	}
	return nil
}

func (h *head) field(line []byte) *Fault {
	name, value, fault := cutField(line)
	if fault != nil {
		return fault
	}
	switch strings.ToLower(name) {
	case "host":
		h.hosts++
		h.Host = value
	case "content-length":
		h.lengths++
		return h.setLength(value)
	case "transfer-encoding":
		h.codings++
		h.chunked = true
		if !strings.EqualFold(value, "chunked") {
			return bad("Transfer-Encoding is another than chunked")
		}
	case "connection":
		h.options = append(h.options, strings.Split(value, ",")...)
	case "upgrade":
		h.upgrades = append(h.upgrades, value)
	case "expect":
		if !strings.EqualFold(value, "100-continue") {
			return &Fault{Status: http.StatusExpectationFailed, Why: "Expect is another than 100-continue"}
		}
	}
	return nil
}

// cutField returns the name and the value of a field, the value without the
// white space around it.
func cutField(line []byte) (name, value string, _ *Fault) {
	if line[0] == ' ' || line[0] == '\t' {
		return "", "", bad("a folded header")
	}
	name, value, found := strings.Cut(string(line), ":")
	switch {
	case !found:
		return "", "", bad("a header without a colon")
	case strings.TrimRight(name, " \t") != name:
		return "", "", bad("white space between a header's name and its colon")
	case !Token(name):
		return "", "", bad("a header's name is not a token")
	}
	return name, strings.Trim(value, " \t"), nil
}

func (h *head) setLength(value string) *Fault {
	if value == "" || len(value) > maxDigits || strings.Trim(value, "0123456789") != "" {
		return bad("Content-Length is not one decimal number")
	}
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil {
		return bad("Content-Length is not one decimal number")
	}
	h.length = n
	return nil
}

// whole judges what takes more than one line.
func (h *head) whole() *Fault {
	switch {
	case h.hosts == 0:
		return bad("no Host")
	case h.hosts > 1:
		return bad("more than one Host")
	case h.lengths > 1:
		return bad("more than one Content-Length")
	case h.codings > 1:
		return bad("more than one Transfer-Encoding")
	case h.codings > 0 && h.lengths > 0:
		return bad("both Content-Length and Transfer-Encoding")
	case h.codings > 0 && !h.major1:
		return bad("Transfer-Encoding in HTTP/1.0")
	}
	h.Upgrade = len(h.upgrades) == 1 && strings.EqualFold(h.upgrades[0], "websocket") && h.option("upgrade") && h.major1
	if h.Upgrade && (h.Method != http.MethodGet || h.chunked || h.length > 0) {
		return bad("an upgrade that is not a GET without a body")
	}
	return h.target()
}

func (h *head) option(name string) bool {
	for _, o := range h.options {
		if strings.EqualFold(strings.Trim(o, " \t"), name) {
			return true
		}
	}
	return false
}

// target holds the authority of an absolute target against the Host field: a
// reader would see one of them alone.
func (h *head) target() *Fault {
	if h.Method == http.MethodConnect {
		return nil
	}
	u, err := url.ParseRequestURI(h.Target)
	switch {
	case err != nil:
		return bad("the target is neither a path nor an address")
	case h.Target[0] == '/' || h.Target == "*":
		return nil
	case u.Host == "" || u.Opaque != "":
		return bad("the target is neither a path nor an address")
	}
	if !strings.EqualFold(u.Host, h.Host) {
		return &Fault{Status: http.StatusMisdirectedRequest, Why: "the target and Host name two hosts"}
	}
	return nil
}

// Token reports whether s is a token of HTTP, and not empty.
func Token(s string) bool {
	for i := range len(s) {
		c := s[i]
		alnum := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
		if !alnum && strings.IndexByte("!#$%&'*+-.^_`|~", c) < 0 {
			return false
		}
	}
	return s != ""
}
