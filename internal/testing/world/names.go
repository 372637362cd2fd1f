package world

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

// A Query is a question that came to the resolver.
type Query struct {
	Name string // as it came, with its final dot
	Type string // A, AAAA, HTTPS, ...
}

// Answers are the addresses of a name, by turns: the first question for
// addresses of a family is answered by the first list, the next one by the
// second, and round again.
type Answers [][]netip.Addr

// Always are answers that do not change.
func Always(addrs ...string) Answers { return Answers{parse(addrs)} }

// ByTurns are answers of one address each.
func ByTurns(addrs ...string) Answers {
	var a Answers
	for _, addr := range addrs {
		a = append(a, parse([]string{addr}))
	}
	return a
}

func parse(texts []string) []netip.Addr {
	var addrs []netip.Addr
	for _, t := range texts {
		addrs = append(addrs, netip.MustParseAddr(t))
	}
	return addrs
}

// names is the world's resolver. It knows what it was told, answers without a
// time to live, and keeps every question.
type names struct {
	mu      sync.Mutex // guards what follows
	hosts   map[string]Answers
	asked   map[string]int // questions for addresses, by name and type
	queries []Query
}

func newNames() *names { return &names{hosts: map[string]Answers{}, asked: map[string]int{}} }

// set tells the addresses of a name, in lower case and without its final dot.
// *.NAME is every name below NAME. No answers: there is no such name.
func (n *names) set(name string, a Answers) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.hosts[name] = a; a == nil {
		delete(n.hosts, name)
	}
}

// find returns the answers of a name, and whether there is one. n.mu is held.
func (n *names) findLocked(name string) (Answers, bool) {
	if a, ok := n.hosts[name]; ok {
		return a, true
	}
	for rest := name; ; {
		_, parent, ok := strings.Cut(rest, ".")
		if !ok {
			return nil, false
		}
		if a, ok := n.hosts["*."+parent]; ok {
			return a, true
		}
		rest = parent
	}
}

// lookup notes a question and answers it.
func (n *names) lookup(q dnsmessage.Question) (addrs []netip.Addr, known bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	kind := strings.TrimPrefix(q.Type.String(), "Type")
	n.queries = append(n.queries, Query{Name: q.Name.String(), Type: kind})
	answers, known := n.findLocked(strings.ToLower(strings.TrimSuffix(q.Name.String(), ".")))
	if len(answers) == 0 {
		return nil, known
	}
	turn := n.asked[q.Name.String()+kind]
	n.asked[q.Name.String()+kind]++
	for _, a := range answers[turn%len(answers)] {
		if a.Is4() && q.Type == dnsmessage.TypeA || a.Is6() && q.Type == dnsmessage.TypeAAAA {
			addrs = append(addrs, a)
		}
	}
	return addrs, known
}

// answer makes the answer to a packet, or nil where it is none to answer.
func (n *names) answer(packet []byte) []byte {
	var p dnsmessage.Parser
	h, err := p.Start(packet)
	if err != nil || h.Response {
		return nil
	}
	q, err := p.Question()
	if err != nil {
		return nil
	}
	addrs, known := n.lookup(q)
	head := dnsmessage.Header{ID: h.ID, Response: true, RecursionDesired: h.RecursionDesired, RecursionAvailable: true}
	if !known {
		head.RCode = dnsmessage.RCodeNameError
	}
	b := dnsmessage.NewBuilder(nil, head)
	err = errors.Join(b.StartQuestions(), b.Question(q), b.StartAnswers())
	for _, a := range addrs {
		rr := dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class}
		if a.Is4() {
			err = errors.Join(err, b.AResource(rr, dnsmessage.AResource{A: a.As4()}))
		} else {
			err = errors.Join(err, b.AAAAResource(rr, dnsmessage.AAAAResource{AAAA: a.As16()}))
		}
	}
	out, failed := b.Finish()
	if err != nil || failed != nil {
		return nil
	}
	return out
}

// serveUDP answers until the socket is closed.
func (n *names) serveUDP(c net.PacketConn) {
	buf := make([]byte, 4096)
	for {
		size, from, err := c.ReadFrom(buf)
		if err != nil {
			return
		}
		if out := n.answer(buf[:size]); out != nil {
			c.WriteTo(out, from) // who does not get it asks again
		}
	}
}

// serveTCP answers one connection.
func (n *names) serveTCP(c net.Conn) {
	defer c.Close()
	for {
		var size [2]byte
		if err := c.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
			return
		}
		if _, err := io.ReadFull(c, size[:]); err != nil {
			return
		}
		packet := make([]byte, binary.BigEndian.Uint16(size[:]))
		if _, err := io.ReadFull(c, packet); err != nil {
			return
		}
		out := n.answer(packet)
		if out == nil {
			return
		}
		if _, err := c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(out))), out...)); err != nil {
			return
		}
	}
}

func (n *names) log() []Query {
	n.mu.Lock()
	defer n.mu.Unlock()
	return append([]Query(nil), n.queries...)
}
