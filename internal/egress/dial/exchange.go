package dial

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

const (
	datagram = 1232 // bytes of an answer by UDP, as we ask for it

	// maxStray is how many datagrams that answer nothing we asked are passed
	// over.
	maxStray = 32

	maxStream = 16 << 10 // bytes of an answer by TCP
)

// exchange asks one server by UDP, and by TCP where the answer is truncated.
func exchange(ctx context.Context, server netip.AddrPort, name dnsmessage.Name, t dnsmessage.Type) (reply, error) {
	question, id, err := query(name, t)
	if err != nil {
		return reply{}, err
	}
	got, err := over(ctx, "udp", server, func(c net.Conn) (reply, error) {
		return byUDP(c, question, func(b []byte) (reply, error) { return read(b, id, name, t) })
	})
	if err != nil || !got.truncated {
		return got, err
	}
	return over(ctx, "tcp", server, func(c net.Conn) (reply, error) {
		return byTCP(c, question, func(b []byte) (reply, error) { return read(b, id, name, t) })
	})
}

// query is a question with a number that nobody can guess.
func query(name dnsmessage.Name, t dnsmessage.Type) (question []byte, id uint16, err error) {
	var b [2]byte
	if _, err := rand.Read(b[:]); err != nil {
		return nil, 0, err
	}
	m := dnsmessage.Message{
		Header:      dnsmessage.Header{ID: binary.BigEndian.Uint16(b[:]), RecursionDesired: true},
		Questions:   []dnsmessage.Question{{Name: name, Type: t, Class: dnsmessage.ClassINET}},
		Additionals: []dnsmessage.Resource{{Body: &dnsmessage.OPTResource{}}},
	}
	if err := m.Additionals[0].Header.SetEDNS0(datagram, 0, false); err != nil {
		return nil, 0, err
	}
	m.Additionals[0].Header.Name = dnsmessage.MustNewName(".")
	question, err = m.Pack()
	return question, m.ID, err
}

// over connects to a server and runs talk on it until ctx ends.
func over(ctx context.Context, network string, server netip.AddrPort, talk func(net.Conn) (reply, error)) (reply, error) {
	var nd net.Dialer
	nd.SetMultipathTCP(false)
	c, err := nd.DialContext(ctx, network, server.String())
	if err != nil {
		return reply{}, err
	}
	defer c.Close()
	stop := context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	got, err := talk(c)
	if err != nil && ctx.Err() != nil {
		return reply{}, ctx.Err()
	}
	return got, err
}

// byUDP passes over what is no answer to the question: anybody can send that.
func byUDP(c net.Conn, question []byte, read func([]byte) (reply, error)) (reply, error) {
	if _, err := c.Write(question); err != nil {
		return reply{}, err
	}
	buf := make([]byte, 4<<10) // some send more than they were asked for
	for range maxStray {
		n, err := c.Read(buf)
		if err != nil {
			return reply{}, err
		}
		got, err := read(buf[:n])
		if !errors.Is(err, errStray) {
			return got, err
		}
	}
	return reply{}, errStray
}

func byTCP(c net.Conn, question []byte, read func([]byte) (reply, error)) (reply, error) {
	framed := binary.BigEndian.AppendUint16(nil, uint16(len(question)))
	if _, err := c.Write(append(framed, question...)); err != nil {
		return reply{}, err
	}
	var head [2]byte
	if _, err := io.ReadFull(c, head[:]); err != nil {
		return reply{}, err
	}
	n := int(binary.BigEndian.Uint16(head[:]))
	if n > maxStream {
		return reply{}, errMalformed
	}
	buf := make([]byte, n)
	if _, err := io.ReadFull(c, buf); err != nil {
		return reply{}, err
	}
	return read(buf)
}
