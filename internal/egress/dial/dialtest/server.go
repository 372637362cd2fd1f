// Package dialtest is a resolver for tests: a server of DNS on this host's
// loopback that answers what the test says, and knows what it was asked.
package dialtest

import (
	"encoding/binary"
	"io"
	"net"
	"net/netip"
	"sync"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

// Answer is what a Server answers.
type Answer struct {
	RCode     dnsmessage.RCode
	Addrs     []string // those of the other family are left out
	Aliases   []string // names with a final dot, in the order of the chain
	Truncated bool     // by UDP; by TCP the answer is complete
	Silent    bool     // no answer at all
	Raw       []byte   // these bytes, with the number of the question before them
	Before    [][]byte // datagrams that are sent before the answer
}

// Server is a resolver. Its methods may be called concurrently.
type Server struct {
	Addr netip.AddrPort

	handle func(name string, t dnsmessage.Type) Answer
	pc     net.PacketConn
	l      net.Listener
	wg     sync.WaitGroup

	mu    sync.Mutex // guards what follows
	asked []string
	conns map[net.Conn]struct{}
}

// New starts a server that is closed when the test ends. handle is given
// names in their spelling, with the final dot, and is called concurrently.
func New(t testing.TB, handle func(name string, t dnsmessage.Type) Answer) *Server {
	t.Helper()
	pc, l := sockets(t)
	s := &Server{Addr: netip.MustParseAddrPort(l.Addr().String()), handle: handle, pc: pc, l: l, conns: map[net.Conn]struct{}{}}
	s.wg.Go(s.serveUDP)
	s.wg.Go(s.serveTCP)
	t.Cleanup(s.close)
	return s
}

// sockets returns two of the same port.
func sockets(t testing.TB) (net.PacketConn, net.Listener) {
	t.Helper()
	var last error
	for range 16 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		pc, err := net.ListenPacket("udp", l.Addr().String())
		if err == nil {
			return pc, l
		}
		_ = l.Close() // another port then
		last = err
	}
	t.Fatal(last)
	return nil, nil
}

// Fixed answers every question about a name with the same addresses, and
// knows no other name.
func Fixed(names map[string][]string) func(string, dnsmessage.Type) Answer {
	return func(name string, _ dnsmessage.Type) Answer {
		addrs, ok := names[name]
		if !ok {
			return Answer{RCode: dnsmessage.RCodeNameError}
		}
		return Answer{Addrs: addrs}
	}
}

// Asked returns the questions so far, as "name TYPE".
func (s *Server) Asked() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.asked...)
}

func (s *Server) close() {
	_ = s.pc.Close()
	_ = s.l.Close()
	s.mu.Lock()
	for c := range s.conns {
		_ = c.Close()
	}
	s.mu.Unlock()
	s.wg.Wait()
}

func (s *Server) serveUDP() {
	buf := make([]byte, 4096)
	for {
		n, from, err := s.pc.ReadFrom(buf)
		if err != nil {
			return
		}
		b, a := s.answer(buf[:n], false)
		for _, before := range a.Before {
			_, _ = s.pc.WriteTo(before, from)
		}
		if b != nil {
			_, _ = s.pc.WriteTo(b, from) // the client asks again
		}
	}
}

func (s *Server) serveTCP() {
	for {
		c, err := s.l.Accept()
		if err != nil {
			return
		}
		s.mu.Lock()
		s.conns[c] = struct{}{}
		s.mu.Unlock()
		s.wg.Go(func() {
			defer c.Close()
			s.serveConn(c)
		})
	}
}

func (s *Server) serveConn(c net.Conn) {
	head := make([]byte, 2)
	if _, err := io.ReadFull(c, head); err != nil {
		return
	}
	body := make([]byte, binary.BigEndian.Uint16(head))
	if _, err := io.ReadFull(c, body); err != nil {
		return
	}
	if b, _ := s.answer(body, true); b != nil {
		_, _ = c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(b))), b...))
	}
}

// answer returns the bytes of an answer, or nil.
func (s *Server) answer(question []byte, tcp bool) ([]byte, Answer) {
	var m dnsmessage.Message
	if err := m.Unpack(question); err != nil || len(m.Questions) != 1 {
		return nil, Answer{}
	}
	q := m.Questions[0]
	s.mu.Lock()
	s.asked = append(s.asked, q.Name.String()+" "+q.Type.String()[len("Type"):])
	s.mu.Unlock()
	a := s.handle(q.Name.String(), q.Type)
	switch {
	case a.Silent:
		return nil, a
	case a.Raw != nil:
		return append(binary.BigEndian.AppendUint16(nil, m.ID), a.Raw...), a
	}
	out := dnsmessage.Message{Header: dnsmessage.Header{ID: m.ID, Response: true, RecursionAvailable: true, RCode: a.RCode}, Questions: m.Questions}
	if a.Truncated && !tcp {
		out.Truncated = true
	} else {
		out.Answers = records(q, a)
	}
	b, err := out.Pack()
	if err != nil {
		return nil, a
	}
	return b, a
}

func records(q dnsmessage.Question, a Answer) (all []dnsmessage.Resource) {
	owner := q.Name
	for _, alias := range a.Aliases {
		next := dnsmessage.MustNewName(alias)
		all = append(all, dnsmessage.Resource{Header: dnsmessage.ResourceHeader{Name: owner, Class: q.Class}, Body: &dnsmessage.CNAMEResource{CNAME: next}})
		owner = next
	}
	for _, text := range a.Addrs {
		addr := netip.MustParseAddr(text)
		h := dnsmessage.ResourceHeader{Name: owner, Class: q.Class}
		switch {
		case addr.Is4() && q.Type == dnsmessage.TypeA:
			all = append(all, dnsmessage.Resource{Header: h, Body: &dnsmessage.AResource{A: addr.As4()}})
		case addr.Is6() && q.Type == dnsmessage.TypeAAAA:
			all = append(all, dnsmessage.Resource{Header: h, Body: &dnsmessage.AAAAResource{AAAA: addr.As16()}})
		}
	}
	return all
}
