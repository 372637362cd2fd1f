package serve

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/egress/wire"
)

// greedy is an origin of HTTP/2 whose answers are as big as they may be and do
// not end. It tells of each.
func greedy(cert tls.Certificate, asked chan<- struct{}) func(net.Conn) {
	return func(c net.Conn) {
		conn := tls.Server(c, &tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: []string{"h2"}})
		if _, err := io.ReadFull(conn, make([]byte, len(http2.ClientPreface))); err != nil {
			return
		}
		f := http2.NewFramer(conn, conn)
		if f.WriteSettings() != nil {
			return
		}
		for streams := 0; ; {
			frame, err := f.ReadFrame()
			if err != nil {
				return
			}
			if frame.Header().Type != http2.FrameHeaders {
				continue
			}
			if bloat(f, frame.Header().StreamID, windowed(streams), [][2]string{{":status", "200"}}) != nil {
				return
			}
			streams++
			asked <- struct{}{}
		}
	}
}

// noSettings is the frame that follows the preface, with which it is written: net/http
// waits for it for no more than two seconds.
const noSettings = "\x00\x00\x00\x04\x00\x00\x00\x00\x00"

// fill fills what a connection may hold: streams with big heads and bodies
// that do not end.
func fill(t *testing.T, c net.Conn, pem string, streams int) {
	t.Helper()
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM([]byte(pem))
	conn := tls.Client(c, &tls.Config{ServerName: "allowed.test", RootCAs: pool, NextProtos: []string{"h2"}})
	if _, err := io.WriteString(conn, http2.ClientPreface+noSettings); err != nil {
		t.Fatal(err)
	}
	f := http2.NewFramer(conn, conn)
	for i := range streams {
		if err := bloat(f, uint32(2*i+1), windowed(i), [][2]string{{":method", "POST"}, {":scheme", "https"}, {":authority", "allowed.test"}, {":path", "/"}}); err != nil {
			t.Fatal(err)
		}
	}
}

// windowed returns how much the n-th stream may send where a connection may
// send 256 KiB before anybody reads.
func windowed(n int) int { return min(256<<10-n*(40<<10), 40<<10) }

// bloat sends a head of many fields, and a body that does not end.
func bloat(f *http2.Framer, stream uint32, body int, fields [][2]string) error {
	var block bytes.Buffer
	enc := hpack.NewEncoder(&block)
	for k := range 90 {
		fields = append(fields, [2]string{fmt.Sprintf("x%d", k), strings.Repeat("v", 120)})
	}
	for _, h := range fields {
		_ = enc.WriteField(hpack.HeaderField{Name: h[0], Value: h[1], Sensitive: true}) // into memory
	}
	b := block.Bytes()
	_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: b[:8<<10]}) // the next one fails too
	err := f.WriteContinuation(stream, true, b[8<<10:])
	for ; body > 0 && err == nil; body -= 8 << 10 {
		err = f.WriteData(stream, false, make([]byte, min(body, 8<<10)))
	}
	return err
}

// TestTheProductOfAllBoundsIsBounded has as many connections that are looked
// into as a call may, each as full as it may be.
func TestTheProductOfAllBoundsIsBounded(t *testing.T) {
	const streams, each = 8, 11 << 18 // twice what is measured, with the program's side and the origin's, which are here too
	roots, cert := authority(t, "allowed.test")
	f := newFront(t, setup{names: loopback1, roots: roots, limits: func(l *wire.Limits) { l.Connections = 2 * callWeb }})
	asked := make(chan struct{}, callWeb*streams)
	port := origin(t, "127.0.0.1:0", greedy(cert, asked))
	entry := allow("allowed.test", "tls", port)
	entry.Inspect = true
	s := f.begin(t, network(entry))
	addr, _ := s.lookup("allowed.test")
	before := heap()
	for range callWeb {
		fill(t, s.connect(at(addr, port)), s.ca, streams)
	}
	for range callWeb * streams {
		select {
		case <-asked:
		case <-time.After(patience):
			t.Fatal("not every request comes to the origin")
		}
	}
	more := heap() - before
	t.Logf("%d KiB a connection", more/callWeb>>10)
	if more > callWeb*each {
		t.Errorf("%d KiB more", more>>10)
	}
	s.reset(at(addr, port))
	s.expect(1, "allowed.test", port, envelope.VerdictDenied, "more than 24 inspected connections at once")
	other := f.begin(t, network(entry))
	if err := trusting(t, other.reach("allowed.test", port), "allowed.test", other.ca).Handshake(); err != nil {
		t.Errorf("another call: %v", err)
	}
	other.end()
	if got := s.end(); got.Connections != callWeb || got.Denied != 1 {
		t.Errorf("%+v", got)
	}
}

func TestACallHoldsAQuarterOfThePlacesAtMost(t *testing.T) {
	all := &places{most: allWeb}
	var leaves []func()
	for n := range 5 {
		q := &quota{allWeb: all, web: places{most: callWeb}}
		for i := range callWeb + 1 {
			leave, err := q.look()
			switch {
			case n == 4 && (err == nil || !strings.Contains(err.Error(), "more than 96 inspected connections of all calls")):
				t.Errorf("call %d, connection %d: %v", n, i, err)
			case n < 4 && (err == nil) != (i < callWeb):
				t.Errorf("call %d, connection %d: %v", n, i, err)
			}
			if err == nil {
				leaves = append(leaves, leave)
			}
		}
		if got := q.web.used.Load(); n == 4 && got != 0 {
			t.Errorf("%d places are lost", got)
		}
	}
	var wg sync.WaitGroup
	for _, leave := range leaves {
		wg.Go(leave)
	}
	if wg.Wait(); all.used.Load() != 0 {
		t.Errorf("%d places are lost", all.used.Load())
	}
}
