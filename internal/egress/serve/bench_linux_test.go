package serve

import (
	"fmt"
	"io"
	"net"
	"testing"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/egress/wire"
)

// wide are limits that no benchmark meets.
func wide(l *wire.Limits) {
	l.CallConnections, l.Bytes = 1<<30, 1<<60
}

// ways are how a benchmark gets to its origin.
func ways(b *testing.B, protocol string, port int) map[string]func() net.Conn {
	b.Helper()
	f := newFront(b, setup{names: loopback1, limits: wide})
	s := f.begin(b, network(allow("allowed.test", protocol, port)))
	addr, _ := s.lookup("allowed.test")
	must := func(c net.Conn, err error) net.Conn {
		if err != nil {
			b.Fatal(err)
		}
		return c
	}
	return map[string]func() net.Conn{
		"direct":  func() net.Conn { return must(net.Dial("tcp4", fmt.Sprintf("127.0.0.1:%d", port))) },
		"through": func() net.Conn { return must(s.space.dial("tcp4", at(addr, port))) },
	}
}

func BenchmarkReceive(b *testing.B) {
	port := origin(b, "127.0.0.1:0", func(c net.Conn) { _, _ = io.CopyBuffer(hidden{c}, endless{}, make([]byte, 64<<10)) })
	for way, dial := range ways(b, envelope.ProtocolTCP, port) {
		b.Run(way, func(b *testing.B) {
			c := dial()
			defer c.Close()
			buf := make([]byte, 64<<10)
			b.SetBytes(1 << 20)
			for b.Loop() {
				for left := 1 << 20; left > 0; {
					n, err := c.Read(buf[:min(left, len(buf))])
					if err != nil {
						b.Fatal(err)
					}
					left -= n
				}
			}
		})
	}
}

func BenchmarkSend(b *testing.B) {
	port := origin(b, "127.0.0.1:0", func(c net.Conn) { _, _ = io.CopyBuffer(hidden{io.Discard}, c, make([]byte, 64<<10)) })
	for way, dial := range ways(b, envelope.ProtocolTCP, port) {
		b.Run(way, func(b *testing.B) {
			c := dial()
			defer c.Close()
			buf := make([]byte, 1<<20)
			b.SetBytes(1 << 20)
			for b.Loop() {
				if _, err := c.Write(buf); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// hidden keeps a writer from being asked to do better than to write.
type hidden struct{ io.Writer }

func BenchmarkConnectAndGet(b *testing.B) {
	for _, protocol := range []string{envelope.ProtocolTCP, envelope.ProtocolHTTP} {
		port := web(b)
		request := fmt.Sprintf("GET / HTTP/1.1\r\nHost: allowed.test:%d\r\nConnection: close\r\n\r\n", port)
		for way, dial := range ways(b, protocol, port) {
			b.Run(protocol+"/"+way, func(b *testing.B) {
				for b.Loop() {
					c := dial()
					if _, err := io.WriteString(c, request); err != nil {
						b.Fatal(err)
					}
					if _, err := c.Read(make([]byte, 4<<10)); err != nil {
						b.Fatal(err)
					}
					_ = c.Close()
				}
			})
		}
	}
}

func BenchmarkName(b *testing.B) {
	f := newFront(b, setup{limits: wide})
	s := f.begin(b, network(allow("allowed.test", "tcp", 7)))
	for name, host := range map[string]string{"allowed": "allowed.test", "denied": "denied.test"} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				s.lookup(host)
			}
		})
	}
}
