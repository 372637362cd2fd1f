package names

import (
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/callcell/callcell/internal/egress/pace"
)

const (
	ttl = 60 // seconds

	// remembered is how many refused names are told apart. Beyond it every
	// question counts as a name.
	remembered = 256

	// maxAnswer is the most bytes of an answer: what fits into a datagram
	// without an agreement about its size.
	maxAnswer = 512

	payload = 1232 // bytes of a datagram, as EDNS says it
)

// Asked is a name that was asked for, once for each name.
type Asked struct {
	Host string // in lower case and without a final dot; data of the program
	OK   bool   // it has an address now
	Why  string // it has none
}

// Options configure a Responder.
type Options struct {
	// Allow returns the canonical form of a name that may be reached, or ""
	// and why it may not. It is given every name as it was asked for, without
	// its final dot, and called concurrently.
	Allow func(name string) (canonical, why string)
	// Names is how many names get an address.
	Names int
	// Note is called for each name once, before it is answered. More than 256
	// refused names are not told apart: then it is called for each question.
	// It is called concurrently.
	Note func(Asked)
}

// Responder answers questions. Its methods may be called concurrently.
type Responder struct {
	o     Options
	table *Table

	slowly *pace.Pace // questions that a guest hands over
	idle   time.Duration

	mu      sync.Mutex // guards refused
	refused map[string]struct{}
}

// New makes a responder with an empty table.
func New(o Options) *Responder {
	return &Responder{o: o, table: NewTable(o.Names), slowly: pace.New(freeExchanged, exchangedEvery), idle: tcpIdle, refused: map[string]struct{}{}}
}

// Table returns the addresses that were given out.
func (r *Responder) Table() *Table { return r.table }

// A finding is what there is to say to a question.
type finding struct {
	rcode dnsmessage.RCode
	addr  netip.Addr // of an A
	name  string     // of a PTR
}

// Answer returns the answer to a message, of at most 512 bytes, or nil where
// there is none to give.
func (r *Responder) Answer(message []byte) []byte {
	var p dnsmessage.Parser
	h, err := p.Start(message)
	if err != nil || h.Response {
		return nil
	}
	if h.OpCode != 0 {
		return write(h, nil, finding{rcode: dnsmessage.RCodeNotImplemented}, edns{})
	}
	qs, opt, ok := read(&p)
	if !ok || len(qs) != 1 {
		return write(h, nil, finding{rcode: dnsmessage.RCodeFormatError}, edns{})
	}
	q := qs[0]
	switch {
	case opt.version > 0:
		return write(h, &q, finding{}, edns{there: true, high: 1}) // BADVERS is 16
	case q.Class != dnsmessage.ClassINET:
		return write(h, &q, finding{rcode: dnsmessage.RCodeRefused}, opt)
	}
	return write(h, &q, r.find(q), opt)
}

// find judges a name and finds what there is about it.
func (r *Responder) find(q dnsmessage.Question) finding {
	asked := strings.TrimSuffix(q.Name.String(), ".")
	if name := r.table.Name(reverse(asked)); name != "" {
		if q.Type != dnsmessage.TypePTR {
			return finding{}
		}
		return finding{name: name}
	}
	host, why := r.o.Allow(asked)
	if host == "" {
		r.refuse(asked, why)
		return finding{rcode: dnsmessage.RCodeNameError}
	}
	addr, fresh := r.table.Addr(host)
	switch {
	case !addr.IsValid():
		r.refuse(host, "a call reaches at most "+strconv.Itoa(r.o.Names)+" names, and this is one more")
		return finding{rcode: dnsmessage.RCodeRefused}
	case fresh:
		r.o.Note(Asked{Host: host, OK: true})
	}
	if q.Type != dnsmessage.TypeA {
		return finding{}
	}
	return finding{addr: addr}
}

// refuse notes a name that is not answered, once as long as it can be told
// from others.
func (r *Responder) refuse(asked, why string) {
	host := strings.ToLower(strings.ToValidUTF8(asked, "\ufffd"))
	if host == "" {
		host = "." // the root
	}
	if r.again(host) {
		return
	}
	r.o.Note(Asked{Host: host, Why: why})
}

func (r *Responder) again(host string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.refused[host]; ok {
		return true
	}
	if len(r.refused) < remembered {
		r.refused[host] = struct{}{}
	}
	return false
}

// reverse returns the IPv4 address whose name in in-addr.arpa this is, or the
// zero one.
func reverse(name string) netip.Addr {
	const arpa = ".in-addr.arpa"
	if len(name) < len(arpa) || !strings.EqualFold(name[len(name)-len(arpa):], arpa) {
		return netip.Addr{}
	}
	labels := strings.Split(name[:len(name)-len(arpa)], ".")
	if len(labels) != 4 {
		return netip.Addr{}
	}
	a, err := netip.ParseAddr(labels[3] + "." + labels[2] + "." + labels[1] + "." + labels[0])
	if err != nil || !a.Is4() {
		return netip.Addr{}
	}
	return a
}
