package carry

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/testing/leak"
)

func TestTLSOfTheHostIsCarriedFromEndToEnd(t *testing.T) {
	leak.Check(t)
	addr := origin(t, echoTLS(t))
	for _, name := range []string{"allowed.test", "Allowed.TEST"} {
		r := start(t, t.Context(), addr, envelope.ProtocolTLS, nil)
		c := tls.Client(r.TCPConn, &tls.Config{ServerName: name, InsecureSkipVerify: true})
		text := bytes.Repeat([]byte("x"), 100_000)
		go func() {
			_, _ = c.Write(text)
			_ = c.CloseWrite()
		}()
		got, err := io.ReadAll(c)
		if err != nil || !bytes.Equal(got, text) {
			t.Errorf("%s: %d bytes, %v", name, len(got), err)
		}
		_ = c.Close()
		out := r.end(t)
		want(t, out, envelope.VerdictAllowed, "")
		if out.Unchecked != UncheckedFronting || out.Address != addr || out.Sent < int64(len(text)) || out.Received < int64(len(text)) {
			t.Errorf("%+v", out)
		}
	}
}

func TestTLSToAnotherNameIsRefusedBeforeADial(t *testing.T) {
	leak.Check(t)
	addr := netip.MustParseAddr("192.0.2.1")
	encrypted := appendExtension(clientHello(t, "allowed.test"), extECH, []byte{0})
	for name, row := range map[string]struct {
		says    []byte
		literal bool
		why     string
		alert   bool
	}{
		"another name":        {clientHello(t, "other.test"), false, `the ClientHello names "other.test", not "allowed.test"`, true},
		"a name below":        {clientHello(t, "a.allowed.test"), false, `the ClientHello names "a.allowed.test", not "allowed.test"`, true},
		"no name":             {clientHello(t, ""), false, "the ClientHello names no host", true},
		"encrypted":           {encrypted, false, "the ClientHello is encrypted (ECH): whom it is for cannot be seen", true},
		"a name to a literal": {clientHello(t, "allowed.test"), true, `the ClientHello names "allowed.test", and the host is an address`, true},
		"http":                {[]byte("GET / HTTP/1.1\r\nHost: allowed.test\r\n\r\n"), false, "what the program says is not TLS", false},
		"ssh":                 {[]byte("S"), false, "what the program says is not TLS", false},
		"broken":              {[]byte{22, 3, 1, 0, 4, 2, 0, 0, 0}, false, "the program's ClientHello cannot be read", true},
		"half":                {clientHello(t, "allowed.test")[:100], false, "the program's ClientHello cannot be read", true},
	} {
		r := start(t, t.Context(), "127.0.0.1:1", envelope.ProtocolTLS, func(target *Target, _ *Options) {
			if row.literal {
				target.Host, target.Literal = addr.String(), addr
			}
		})
		if name == "half" || name == "ssh" {
			if _, err := r.Write(row.says); err != nil {
				t.Fatal(err)
			}
			row.says = nil
			_ = r.CloseWrite()
		}
		got, err := r.wrote(t, row.says)
		if wantAlert := row.alert; wantAlert != bytes.Equal(got, alertDenied()) {
			t.Errorf("%s: got %x", name, got)
		}
		if !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("%s: ended by %v", name, err)
		}
		out := r.end(t)
		want(t, out, envelope.VerdictDenied, row.why)
		if r.dialled != 0 || out.Sent != 0 || out.Unchecked != "" {
			t.Errorf("%s: dialled %d times: %+v", name, r.dialled, out)
		}
	}
}

func TestTLSToAnAddressHasNoName(t *testing.T) {
	addr := origin(t, echoTLS(t))
	r := start(t, t.Context(), addr, envelope.ProtocolTLS, func(target *Target, _ *Options) {
		target.Host, target.Literal = "127.0.0.1", netip.MustParseAddr("127.0.0.1")
	})
	c := tls.Client(r.TCPConn, &tls.Config{InsecureSkipVerify: true})
	if err := c.Handshake(); err != nil {
		t.Error(err)
	}
	_ = c.Close()
	want(t, r.end(t), envelope.VerdictAllowed, "")
}

func TestAHelloInPiecesIsForwardedAsItCame(t *testing.T) {
	heard := make(chan []byte, 1)
	addr := origin(t, func(c net.Conn) {
		b, _ := io.ReadAll(c)
		heard <- b
	})
	says := fragment(clientHello(t, "allowed.test"), 40)
	r := start(t, t.Context(), addr, envelope.ProtocolTLS, nil)
	for _, b := range append(says, []byte("and more")...) {
		if _, err := r.Write([]byte{b}); err != nil {
			t.Fatal(err)
		}
	}
	_ = r.CloseWrite()
	if got := <-heard; !bytes.Equal(got, append(says, []byte("and more")...)) {
		t.Errorf("%d bytes came, of %d", len(got), len(says)+8)
	}
	want(t, r.end(t), envelope.VerdictAllowed, "")
}

func TestSilenceAtTheStartEnds(t *testing.T) {
	for _, row := range []struct {
		protocol string
		says     []byte
	}{{envelope.ProtocolTLS, nil}, {envelope.ProtocolTLS, []byte{22, 3}}, {envelope.ProtocolPostgres, nil}, {envelope.ProtocolPostgres, []byte{0, 0}}} {
		r := start(t, t.Context(), "127.0.0.1:1", row.protocol, func(_ *Target, o *Options) { o.First = 10 * time.Millisecond })
		_, _ = r.Write(row.says) // it may be over before
		want(t, r.end(t), envelope.VerdictFailed, "the program said nothing")
		if r.dialled != 0 {
			t.Error("it was dialled")
		}
	}
}

func TestTCPIsCarriedAndHalfClosed(t *testing.T) {
	leak.Check(t)
	addr := origin(t, func(c net.Conn) {
		_, _ = c.Write([]byte("server first\n"))
		b, _ := io.ReadAll(c)
		_, _ = c.Write(append([]byte("heard: "), b...))
	})
	r := start(t, t.Context(), addr, envelope.ProtocolTCP, nil)
	if _, err := r.Write([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	if err := r.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(r)
	if err != nil || string(got) != "server first\nheard: hello" {
		t.Errorf("%q %v", got, err)
	}
	out := r.end(t)
	want(t, out, envelope.VerdictAllowed, "")
	if out.Sent != 5 || out.Received != int64(len(got)) || out.Unchecked != UncheckedContent {
		t.Errorf("%+v", out)
	}
}

func TestWhatWasReadBeforeIsCarriedToo(t *testing.T) {
	ours, its := pair(t)
	dialled := 0
	ended := make(chan Outcome, 1)
	addr := origin(t, echo)
	go func() {
		ended <- Carry(t.Context(), NewStream(its, []byte("first ")), Target{Host: "allowed.test", Port: 1, Protocol: envelope.ProtocolTCP}, options(addr, &dialled))
	}()
	_, _ = ours.Write([]byte("second"))
	_ = ours.CloseWrite()
	if got, err := io.ReadAll(ours); err != nil || string(got) != "first second" {
		t.Errorf("%q %v", got, err)
	}
	if out := <-ended; out.Sent != 12 {
		t.Errorf("%+v", out)
	}
}

func TestHostsThatAreNotReached(t *testing.T) {
	r := start(t, t.Context(), "", envelope.ProtocolTCP, nil)
	want(t, r.end(t), envelope.VerdictDenied, "resolved address not allowed: 127.0.0.1 is not public")
	if _, err := io.ReadAll(r); !errors.Is(err, syscall.ECONNRESET) {
		t.Error(err)
	}
	const nobody = "127.0.0.1:1"
	r = start(t, t.Context(), nobody, envelope.ProtocolTCP, nil)
	want(t, r.end(t), envelope.VerdictFailed, "the connection was refused")
	if _, err := io.ReadAll(r); !errors.Is(err, syscall.ECONNRESET) {
		t.Error(err)
	}
	r = start(t, t.Context(), nobody, "gopher", nil)
	want(t, r.end(t), envelope.VerdictDenied, "protocol gopher is not known")
}

func TestAResetGoesThrough(t *testing.T) {
	addr := origin(t, func(c net.Conn) {
		_, _ = io.ReadFull(c, make([]byte, 1))
		reset(c)
	})
	r := start(t, t.Context(), addr, envelope.ProtocolTCP, nil)
	if _, err := r.wrote(t, []byte("x")); !errors.Is(err, syscall.ECONNRESET) {
		t.Error(err)
	}
	want(t, r.end(t), envelope.VerdictAllowed, "the connection broke while reading from the other side")
}

func TestBounds(t *testing.T) {
	leak.Check(t)
	addr := origin(t, echo)
	used := errors.New("the call's bytes are used up")
	for name, row := range map[string]struct {
		change func(*Target, *Options)
		why    string
	}{
		"idle": {func(_ *Target, o *Options) { o.Idle = 50 * time.Millisecond }, ErrIdle.Error()},
		"sent": {func(_ *Target, o *Options) {
			o.Count = func(sent, _ int64) error {
				if sent > 0 {
					return used
				}
				return nil
			}
		}, used.Error()},
		"received": {func(_ *Target, o *Options) {
			o.Count = func(_, received int64) error {
				if received > 0 {
					return used
				}
				return nil
			}
		}, used.Error()},
	} {
		r := start(t, t.Context(), addr, envelope.ProtocolTCP, row.change)
		if err := r.broken([]byte("hello")); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("%s: %v", name, err)
		}
		out := r.end(t)
		want(t, out, envelope.VerdictCut, row.why)
		if name == "sent" && out.Received != 0 {
			t.Errorf("%s: it was passed on: %+v", name, out)
		}
	}
}

// broken writes and reads until the connection breaks, which it may before.
func (r *run) broken(b []byte) error {
	_, err := r.Write(b)
	if err == nil {
		_, err = io.ReadAll(r)
	}
	return err
}

// TestTheTimeOfAConnection is over however much is said. Where it is over before
// the host is reached there is nothing to cut: then it gets more of it.
func TestTheTimeOfAConnection(t *testing.T) {
	leak.Check(t)
	addr := origin(t, echo)
	for total := 50 * time.Millisecond; ; total *= 2 {
		r := start(t, t.Context(), addr, envelope.ProtocolTCP, func(_ *Target, o *Options) { o.Total = total })
		err := r.broken([]byte("hello"))
		out := r.end(t)
		if out.Address == "" && total < time.Minute {
			want(t, out, envelope.VerdictFailed, ErrTotal.Error())
			continue
		}
		if !errors.Is(err, syscall.ECONNRESET) {
			t.Error(err)
		}
		want(t, out, envelope.VerdictCut, ErrTotal.Error())
		return
	}
}

func TestTheEndOfTheCallEndsIt(t *testing.T) {
	leak.Check(t)
	addr := origin(t, echo)
	for _, protocol := range []string{envelope.ProtocolTCP, envelope.ProtocolTLS, envelope.ProtocolPostgres} {
		ctx, cancel := context.WithCancelCause(t.Context())
		r := start(t, ctx, addr, protocol, nil)
		verdict := envelope.VerdictFailed
		if protocol == envelope.ProtocolTCP {
			verdict = envelope.VerdictAllowed
			if _, err := r.Write([]byte("x")); err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadFull(r, make([]byte, 1)); err != nil {
				t.Fatal(err)
			}
		}
		cancel(ErrEnded)
		want(t, r.end(t), verdict, "the call ended")
	}
}

// parting is a connection whose program ends with its call as soon as it has heard
// the last.
type parting struct {
	*net.TCPConn
	heard  func()
	closed chan struct{}
}

func (p *parting) CloseWrite() error {
	err := p.TCPConn.CloseWrite()
	p.heard()
	for range 2 { // by what ends the carrier, and by what ends the flow
		<-p.closed
	}
	return err
}

func (p *parting) Close() error {
	select {
	case p.closed <- struct{}{}:
	default:
	}
	return p.TCPConn.Close()
}

// TestWhoHasHeardAllMayEnd: both sides have said all, so that the end of the call is
// not what ended the connection, though it came before we had seen the end.
func TestWhoHasHeardAllMayEnd(t *testing.T) {
	leak.Check(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	ours, its := pair(t)
	r := &run{TCPConn: ours, its: its, outcome: make(chan Outcome, 1)}
	o := options(origin(t, echo), &r.dialled)
	go func() {
		program := &parting{TCPConn: its, heard: func() { cancel(ErrEnded) }, closed: make(chan struct{}, 2)}
		r.outcome <- Carry(ctx, NewStream(program, nil), Target{Host: "allowed.test", Port: 443, Protocol: envelope.ProtocolTCP}, o)
	}()
	if _, err := r.Write([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	if err := r.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if got, err := r.wrote(t, nil); string(got) != "hello" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	out := r.end(t)
	want(t, out, envelope.VerdictAllowed, "")
	if out.Sent != 5 || out.Received != 5 {
		t.Errorf("%+v", out)
	}
}

func TestABlockedReaderHoldsOneBuffer(t *testing.T) {
	leak.Check(t)
	sent := make(chan int64, 1)
	addr := origin(t, func(c net.Conn) {
		_ = c.(*net.TCPConn).SetWriteBuffer(64 << 10) // or this host's kernel takes what its settings let it
		_ = c.SetWriteDeadline(time.Now().Add(time.Second))
		n, _ := io.Copy(c, endless{})
		sent <- n
	})
	ctx, cancel := context.WithCancelCause(t.Context())
	r := start(t, ctx, addr, envelope.ProtocolTCP, nil)
	if err := errors.Join(r.SetReadBuffer(64<<10), r.its.SetWriteBuffer(64<<10)); err != nil {
		t.Fatal(err)
	}
	if n := <-sent; n > 64<<20 {
		t.Errorf("%d bytes are taken from a server, and nobody reads", n)
	}
	cancel(ErrEnded)
	r.end(t)
}

type endless struct{}

func (endless) Read(b []byte) (int, error) { return len(b), nil }

func TestHTTPIsHandedOver(t *testing.T) {
	for _, row := range []struct {
		protocol string
		inspect  bool
		handed   bool
		h        HTTPOutcome
		verdict  envelope.Verdict
		why      string
	}{
		{envelope.ProtocolHTTP, false, true, HTTPOutcome{Requests: 2, Sent: 3, Received: 4, Address: "192.0.2.1:80"}, envelope.VerdictAllowed, ""},
		{envelope.ProtocolTLS, true, true, HTTPOutcome{Requests: 1, Address: "192.0.2.1:443", Cut: true, Why: "Host"}, envelope.VerdictCut, "Host"},
		{envelope.ProtocolTLS, true, true, HTTPOutcome{Cut: true, Why: "Host"}, envelope.VerdictDenied, "Host"},
		{envelope.ProtocolHTTP, false, true, HTTPOutcome{Requests: 1, Cut: true, Late: true, Why: "no byte"}, envelope.VerdictFailed, "no byte"},
		{envelope.ProtocolHTTP, false, true, HTTPOutcome{Requests: 1, Address: "192.0.2.1:80", Cut: true, Late: true, Why: "no byte"}, envelope.VerdictCut, "no byte"},
		{envelope.ProtocolHTTP, false, true, HTTPOutcome{Requests: 1, Failed: "refused"}, envelope.VerdictFailed, "refused"},
		{envelope.ProtocolHTTP, false, true, HTTPOutcome{}, envelope.VerdictFailed, "the program said nothing"},
		{envelope.ProtocolPostgres, true, false, HTTPOutcome{}, envelope.VerdictDenied, notPostgres},
	} {
		handed := false
		r := start(t, t.Context(), "127.0.0.1:1", row.protocol, func(target *Target, o *Options) {
			target.Inspect = row.inspect
			o.HTTP = func(_ context.Context, c net.Conn, got Target, _ Options) HTTPOutcome {
				handed = got == *target
				_ = c.Close()
				return row.h
			}
		})
		_, _ = r.Write([]byte("12345678")) // it may be closed already
		out := r.end(t)
		want(t, out, row.verdict, row.why)
		if handed != row.handed || out.Requests != row.h.Requests || out.Sent != row.h.Sent || out.Received != row.h.Received || out.Address != row.h.Address || out.Unchecked != "" {
			t.Errorf("%s: %v %+v", row.protocol, handed, out)
		}
	}
}
