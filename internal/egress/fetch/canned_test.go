package fetch

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/callcell/callcell/envelope"
	"github.com/callcell/callcell/internal/egress/policy"
	"github.com/callcell/callcell/internal/egress/suffix"
	"github.com/callcell/callcell/internal/egress/wire"
)

// A script is a Fetcher before a server that always sends the same bytes. It
// holds what is dialled and sent against what was judged.
type script struct {
	*Fetcher
	answer string
	public bool
	faults []string
	judged map[string]bool
	conns  []*reply
}

func canned(answer string) *script {
	s := &script{answer: answer, judged: map[string]bool{}}
	l := limits()
	l.FetchBytes, l.CacheEntries = 100_000, 4
	s.Fetcher = New(Options{Dial: s, Limits: l, ToASCII: suffix.ToASCII})
	return s
}

// run fetches, and checks what holds for every answer.
func (s *script) run(t testing.TB, url string) wire.Fetched {
	out, _ := s.fetch(t, envelope.Fetch{URL: url})
	return out
}

func (s *script) fetch(t testing.TB, req envelope.Fetch) (wire.Fetched, []byte) {
	t.Helper()
	p, err := policy.New(envelope.Network{Fetch: envelope.FetchPublic}, policy.Options{FetchPorts: limits().FetchPorts})
	if err != nil {
		t.Fatal(err)
	}
	var body []byte
	out := s.Fetch(context.Background(), "", &recorder{p, s}, wire.Fetch{Fetch: req}, func(b []byte) error {
		body = append(body, b...)
		return nil
	})
	if _, err := wire.Encode(wire.Message{Fetched: &out}); err != nil {
		t.Errorf("no message: %v", err)
	}
	for _, text := range append([]string{out.URL, out.Type, out.Charset, out.Title, out.Failure}, out.Hops...) {
		if !utf8.ValidString(text) || strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("not neutral: %q", text)
		}
	}
	if out.Charset != "" && !utf8.Valid(body) {
		t.Errorf("of charset %s and not UTF-8: %q", out.Charset, body)
	}
	if len(body) > 100_000 || out.Bytes > 100_000 || !out.Untrusted {
		t.Errorf("%d bytes, %+v", len(body), out)
	}
	if out.Refused != nil && (len(s.conns) > 0 || out.Status != 0) {
		t.Errorf("refused after %d dials: %+v", len(s.conns), out.Refused)
	}
	for _, c := range s.conns {
		s.checkRequest(c)
	}
	for _, fault := range s.faults {
		t.Error(fault)
	}
	return out, body
}

// checkRequest holds what was sent to the one request there is.
func (s *script) checkRequest(c *reply) {
	sent := c.sent.String()
	if sent == "" || sent[0] == 0x16 {
		return // nothing, or a ClientHello
	}
	lines := strings.Split(sent, "\r\n")
	words := strings.Split(lines[0], " ")
	if len(lines) != 8 || len(words) != 3 || words[0] != "GET" || words[2] != "HTTP/1.1" || lines[6] != "" || lines[7] != "" {
		s.faults = append(s.faults, "sent "+sent)
		return
	}
	host := strings.TrimPrefix(lines[1], "Host: ")
	a, bad := s.parse("http://"+host+words[1], nil)
	if bad != nil || a.host != c.host || a.port != c.port || a.authority() != host {
		s.faults = append(s.faults, "dialled "+c.host+" and sent "+sent)
	}
}

type recorder struct {
	*policy.Policy
	s *script
}

func (r *recorder) JudgeFetch(host string, port int) policy.Verdict {
	v := r.Policy.JudgeFetch(host, port)
	if v.OK {
		r.s.judged[address{"", host, port, ""}.String()] = true
	}
	return v
}

// Dial implements Dialer.
func (s *script) Dial(_ context.Context, _ Judge, host string, port int) (net.Conn, error) {
	if canonical, err := policy.Canonical(host); err != nil || canonical != host || !s.judged[address{"", host, port, ""}.String()] {
		s.faults = append(s.faults, "dialled and not judged: "+host)
	}
	c := &reply{host: host, port: port, public: s.public, in: bytes.NewReader([]byte(s.answer)), asked: make(chan struct{}), closed: make(chan struct{})}
	s.conns = append(s.conns, c)
	return c, nil
}

// A reply is a connection whose other side has said all already.
type reply struct {
	host   string
	port   int
	public bool

	in     *bytes.Reader
	mu     sync.Mutex
	sent   bytes.Buffer
	first  sync.Once
	asked  chan struct{} // closed by the first Write
	once   sync.Once
	closed chan struct{} // closed by Close
}

func (c *reply) Read(p []byte) (int, error) {
	select {
	case <-c.asked: // the answer to nothing is an error
	case <-c.closed:
		return 0, net.ErrClosed
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.in.Read(p)
}

func (c *reply) Write(p []byte) (int, error) {
	select {
	case <-c.closed:
		return 0, errors.New("closed")
	default:
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.first.Do(func() { close(c.asked) })
	return c.sent.Write(p)
}

func (c *reply) Close() error {
	c.once.Do(func() { close(c.closed) })
	return nil
}

func (c *reply) LocalAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1)} }

func (c *reply) RemoteAddr() net.Addr {
	if !c.public {
		return &net.UnixAddr{}
	}
	return net.TCPAddrFromAddrPort(netip.MustParseAddrPort("93.184.216.34:80"))
}

func (c *reply) SetDeadline(time.Time) error      { return nil }
func (c *reply) SetReadDeadline(time.Time) error  { return nil }
func (c *reply) SetWriteDeadline(time.Time) error { return nil }
