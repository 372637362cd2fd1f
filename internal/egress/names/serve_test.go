package names

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/callcell/callcell/internal/egress/pace"
	"github.com/callcell/callcell/internal/testing/leak"
)

func TestServesDatagrams(t *testing.T) {
	leak.Check(t)
	r, _ := responder(4)
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error)
	go func() { ended <- r.ServeUDP(pc) }()
	c, err := net.Dial("udp", pc.LocalAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, message := range [][]byte{[]byte("noise"), pack(t, ask("allowed.test.", dnsmessage.TypeA))} {
		if _, err := c.Write(message); err != nil {
			t.Fatal(err)
		}
	}
	buf := make([]byte, 2048)
	n, err := c.Read(buf)
	if err != nil {
		t.Fatal(err)
	}
	var m dnsmessage.Message
	if err := m.Unpack(buf[:n]); err != nil || address(m) != "198.18.1.0" {
		t.Errorf("%v %v", m, err)
	}
	if err := pc.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
}

// stream serves TCP until the test ends.
func stream(t *testing.T) (addr string) {
	t.Helper()
	leak.Check(t)
	r, _ := responder(4)
	r.idle = time.Minute // or a slow test sees the first of its connections end
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error)
	var wg sync.WaitGroup
	go func() { ended <- r.ServeTCP(l, wg.Go) }()
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		if err := <-ended; !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
		wg.Wait()
	})
	return l.Addr().String()
}

func dialTCP(t *testing.T, addr string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func framed(b []byte) []byte {
	return append(binary.BigEndian.AppendUint16(nil, uint16(len(b))), b...)
}

// exchange asks one question on c.
func exchange(c net.Conn, question []byte) (m dnsmessage.Message, err error) {
	if _, err := c.Write(framed(question)); err != nil {
		return m, err
	}
	head := make([]byte, 2)
	if _, err := io.ReadFull(c, head); err != nil {
		return m, err
	}
	body := make([]byte, binary.BigEndian.Uint16(head))
	if _, err := io.ReadFull(c, body); err != nil {
		return m, err
	}
	return m, m.Unpack(body)
}

func TestServesStreamsWithSeveralQuestions(t *testing.T) {
	c := dialTCP(t, stream(t))
	for range 3 {
		m, err := exchange(c, pack(t, ask("allowed.test.", dnsmessage.TypeA)))
		if err != nil || address(m) != "198.18.1.0" {
			t.Fatalf("%v %v", m, err)
		}
	}
}

func TestStreamsEndAtWhatIsNoQuestion(t *testing.T) {
	addr := stream(t)
	for name, bytes := range map[string][]byte{"noise": framed([]byte("noise")), "long": {0xff, 0xff}, "empty": {0, 0}} {
		c := dialTCP(t, addr)
		if _, err := c.Write(bytes); err != nil {
			t.Fatal(err)
		}
		if n, err := c.Read(make([]byte, 1)); err == nil {
			t.Errorf("%s: %d bytes", name, n)
		}
		_ = c.Close()
	}
}

// TestAnExchangeAnswersEachInItsPlace has questions, and what is none, side by
// side on one connection.
func TestAnExchangeAnswersEachInItsPlace(t *testing.T) {
	r, _ := responder(8)
	ours, its := net.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- r.ServeExchange(its) }()
	question := pack(t, ask("allowed.test.", dnsmessage.TypeA))
	for range maxTCPAsked + 1 { // as many as there are
		m, err := exchange(ours, question)
		if err != nil || address(m) != "198.18.1.0" {
			t.Fatalf("%v %v", m, err)
		}
	}
	for _, none := range [][]byte{{}, []byte("noise"), append([]byte{0, 1, 0x80}, make([]byte, 9)...)} {
		if _, err := ours.Write(framed(none)); err != nil {
			t.Fatal(err)
		}
		head := []byte{9, 9}
		if _, err := io.ReadFull(ours, head); err != nil || head[0]|head[1] != 0 {
			t.Errorf("%q: %v %v", none, head, err)
		}
	}
	if _, err := ours.Write([]byte{0xff, 0xff}); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err == nil {
		t.Error("it takes what is too long")
	}
}

// TestExchangesArePaced: a guest asks for nothing, and each answer costs us.
func TestExchangesArePaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _ := responder(8)
		r.slowly = pace.New(2, time.Second)
		ours, its := net.Pipe()
		ended := make(chan error, 1)
		go func() { ended <- r.ServeExchange(its) }()
		began, question := time.Now(), pack(t, ask("allowed.test.", dnsmessage.TypeA))
		for range 4 {
			if m, err := exchange(ours, question); err != nil || address(m) != "198.18.1.0" {
				t.Fatalf("%v %v", m, err)
			}
		}
		if took := time.Since(began); took != 2*time.Second {
			t.Errorf("they took %v", took)
		}
		_ = ours.Close()
		<-ended
	})
}

func TestStreamsAreFew(t *testing.T) {
	addr := stream(t)
	question := pack(t, ask("allowed.test.", dnsmessage.TypeA))
	for range maxConns { // each is known to be served, and stays
		if _, err := exchange(dialTCP(t, addr), question); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := exchange(dialTCP(t, addr), question); err == nil {
		t.Error("one more is served")
	}
}

func TestStreamsEndAfterManyQuestions(t *testing.T) {
	c := dialTCP(t, stream(t))
	question := pack(t, ask("denied.test.", dnsmessage.TypeA))
	for i := range maxTCPAsked {
		if _, err := exchange(c, question); err != nil {
			t.Fatalf("question %d: %v", i, err)
		}
	}
	if _, err := exchange(c, question); err == nil {
		t.Error("one more is answered")
	}
}
