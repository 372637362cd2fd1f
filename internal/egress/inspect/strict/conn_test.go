package strict

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
)

// fake is a connection that has bytes.
type fake struct {
	net.Conn
	io.Reader
}

func (f fake) Read(p []byte) (int, error) { return f.Reader.Read(p) }

func approve(Head) *Fault { return nil }

// seen is what a reader of net/http saw behind a Conn.
type seen struct {
	requests []*http.Request
	bodies   []string
	fault    *Fault
	inHead   bool
}

// readAll reads requests with net/http until it cannot. Where each is a
// websocket, grant is asked whether it is granted.
func readAll(t testing.TB, in io.Reader, max int) (out seen) {
	t.Helper()
	conn := NewConn(fake{Reader: in}, Options{Max: max, Judge: approve, Fault: func(f *Fault, inHead bool) {
		if out.fault != nil {
			t.Errorf("a second fault: %v", f)
		}
		out.fault, out.inHead = f, inHead
	}})
	reader := bufio.NewReader(conn)
	for {
		r, err := http.ReadRequest(reader)
		if err != nil {
			if _, n := conn.Head(); n != int64(len(out.requests)) && out.fault == nil && !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("a head was handed on that net/http cannot read: %v", err)
			}
			return out
		}
		head, n := conn.Head()
		if n != int64(len(out.requests)+1) {
			t.Errorf("head %d is request %d", n, len(out.requests)+1)
		}
		if head.Method != r.Method || head.Target != r.RequestURI {
			t.Errorf("two readings: %+v and %s %s", head, r.Method, r.RequestURI)
		}
		if r.URL.Host == "" && r.Method != http.MethodConnect && head.Host != r.Host {
			t.Errorf("two hosts: %q and %q", head.Host, r.Host)
		}
		body, err := io.ReadAll(r.Body)
		out.requests = append(out.requests, r)
		out.bodies = append(out.bodies, string(body))
		if err != nil {
			return out
		}
		conn.Next()
	}
}

const host = "Host: ok.test\r\n"

func TestWhatCanBeReadInOneWayPasses(t *testing.T) {
	for name, c := range map[string]struct {
		in   string
		want []string // METHOD TARGET BODY
	}{
		"get":              {"GET / HTTP/1.1\r\n" + host + "\r\n", []string{"GET / "}},
		"old":              {"GET / HTTP/1.0\r\n" + host + "\r\n", []string{"GET / "}},
		"two":              {"GET /a HTTP/1.1\r\n" + host + "\r\nGET /b HTTP/1.1\r\n" + host + "\r\n", []string{"GET /a ", "GET /b "}},
		"length":           {"POST / HTTP/1.1\r\n" + host + "Content-Length: 3\r\n\r\nabcGET /b HTTP/1.1\r\n" + host + "\r\n", []string{"POST / abc", "GET /b "}},
		"no length":        {"POST / HTTP/1.1\r\n" + host + "Content-Length: 0\r\n\r\nGET /b HTTP/1.1\r\n" + host + "\r\n", []string{"POST / ", "GET /b "}},
		"get with a body":  {"GET / HTTP/1.1\r\n" + host + "Content-Length: 1\r\n\r\nx", []string{"GET / x"}},
		"chunked":          {"POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nA;x=y\r\n0123456789\r\n0\r\n\r\nGET /b HTTP/1.1\r\n" + host + "\r\n", []string{"POST / abc0123456789", "GET /b "}},
		"chunk of lines":   {"POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: Chunked\r\n\r\n4\r\n\r\n\r\n\r\n0\r\n\r\n", []string{"POST / \r\n\r\n"}},
		"trailers":         {"POST / HTTP/1.1\r\n" + host + "Trailer: X-Sum\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nX-Sum: 1\r\nX-Other: 2\r\n\r\nGET /b HTTP/1.1\r\n" + host + "\r\n", []string{"POST / a", "GET /b "}},
		"an empty line":    {"\r\nGET / HTTP/1.1\r\n" + host + "\r\n\r\nGET /b HTTP/1.1\r\n" + host + "\r\n", []string{"GET / ", "GET /b "}},
		"bytes of a path":  {"GET /\xc3\xa9?\xff|\" HTTP/1.1\r\n" + host + "\r\n", []string{"GET /\xc3\xa9?\xff|\" "}},
		"any value":        {"GET / HTTP/1.1\r\n" + host + "X:\t\xe9 \"a: b\"\t \r\nEmpty:\r\n\r\n", []string{"GET / "}},
		"absolute":         {"GET http://OK.test/a HTTP/1.1\r\n" + host + "\r\n", []string{"GET http://OK.test/a "}},
		"options":          {"OPTIONS * HTTP/1.1\r\n" + host + "\r\n", []string{"OPTIONS * "}},
		"websocket denied": {"GET / HTTP/1.1\r\n" + host + "Connection: keep-alive, Upgrade\r\nUpgrade: WebSocket\r\n\r\n", []string{"GET / "}},
		"h2c":              {"GET / HTTP/1.1\r\n" + host + "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: x\r\n\r\nGET /b HTTP/1.1\r\n" + host + "\r\n", []string{"GET / ", "GET /b "}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, in := range []io.Reader{strings.NewReader(c.in), iotest.OneByteReader(strings.NewReader(c.in)), iotest.DataErrReader(strings.NewReader(c.in))} {
				got := readAll(t, in, 1<<16)
				if got.fault != nil {
					t.Fatalf("fault: %v", got.fault)
				}
				var lines []string
				for i, r := range got.requests {
					lines = append(lines, r.Method+" "+r.RequestURI+" "+got.bodies[i])
				}
				if strings.Join(lines, "\n") != strings.Join(c.want, "\n") {
					t.Errorf("read %q, want %q", lines, c.want)
				}
			}
		})
	}
}

// faulty are requests that somebody could read in another way.
func faulty() map[string]struct{ in, why string } {
	get := "GET / HTTP/1.1\r\n"
	chunked := "POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n"
	return map[string]struct{ in, why string }{
		"both framings":        {"POST / HTTP/1.1\r\n" + host + "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "both Content-Length and Transfer-Encoding"},
		"both, the other way":  {"POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n", "both"},
		"two lengths":          {"POST / HTTP/1.1\r\n" + host + "Content-Length: 4\r\nContent-Length: 5\r\n\r\n", "more than one Content-Length"},
		"two equal lengths":    {"POST / HTTP/1.1\r\n" + host + "Content-Length: 4\r\nContent-Length: 4\r\n\r\n", "more than one Content-Length"},
		"list of lengths":      {"POST / HTTP/1.1\r\n" + host + "Content-Length: 4, 4\r\n\r\n", "not one decimal"},
		"signed length":        {"POST / HTTP/1.1\r\n" + host + "Content-Length: +4\r\n\r\n", "not one decimal"},
		"negative length":      {"POST / HTTP/1.1\r\n" + host + "Content-Length: -1\r\n\r\n", "not one decimal"},
		"hexadecimal length":   {"POST / HTTP/1.1\r\n" + host + "Content-Length: 0x4\r\n\r\n", "not one decimal"},
		"huge length":          {"POST / HTTP/1.1\r\n" + host + "Content-Length: 9999999999999999999\r\n\r\n", "not one decimal"},
		"empty length":         {"POST / HTTP/1.1\r\n" + host + "Content-Length:\r\n\r\n", "not one decimal"},
		"two codings":          {"POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n", "more than one Transfer-Encoding"},
		"list of codings":      {"POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: gzip, chunked\r\n\r\n", "another than chunked"},
		"unknown coding":       {"POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: xchunked\r\n\r\n", "another than chunked"},
		"identity":             {"POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: identity\r\n\r\n", "another than chunked"},
		"quoted coding":        {"POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: \"chunked\"\r\n\r\n", "another than chunked"},
		"vertical tab":         {"POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: \x0bchunked\r\n\r\n", "a control character"},
		"coding of HTTP/1.0":   {"POST / HTTP/1.0\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n", "in HTTP/1.0"},
		"folded":               {get + host + "X: a\r\n b\r\n\r\n", "a folded header"},
		"folded coding":        {get + host + "Transfer-Encoding:\r\n chunked\r\n\r\n", "another than chunked"},
		"first line folded":    {get + " X: y\r\n" + host + "\r\n", "a folded header"},
		"space before a colon": {get + "Host : ok.test\r\n" + host + "\r\n", "white space between"},
		"tab before a colon":   {get + host + "X\t: y\r\n\r\n", "white space between"},
		"space in a name":      {get + host + "X y: z\r\n\r\n", "not a token"},
		"no name":              {get + host + ": y\r\n\r\n", "not a token"},
		"no colon":             {get + host + "X\r\n\r\n", "without a colon"},
		"bare line feed":       {get + "Host: ok.test\nX: y\r\n\r\n", "bare line feed"},
		"bare line feeds":      {"GET / HTTP/1.1\nHost: ok.test\n\n", "bare line feed"},
		"bare end":             {get + host + "\n", "bare line feed"},
		"bare return":          {get + host + "X: a\rY: b\r\n\r\n", "a bare carriage return"},
		"two returns":          {get + host + "X: a\r\r\n\r\n", "a bare carriage return"},
		"NUL in a value":       {get + host + "X: a\x00b\r\n\r\n", "a NUL byte"},
		"NUL in a name":        {get + host + "X\x00: b\r\n\r\n", "a NUL byte"},
		"NUL in the target":    {"GET /\x00 HTTP/1.1\r\n" + host + "\r\n", "a NUL byte"},
		"DEL":                  {get + host + "X: \x7f\r\n\r\n", "a control character"},
		"no Host":              {get + "\r\n", "no Host"},
		"no Host, old":         {"GET / HTTP/1.0\r\n\r\n", "no Host"},
		"two Hosts":            {get + host + "Host: other.test\r\n\r\n", "more than one Host"},
		"two equal Hosts":      {get + host + host + "\r\n", "more than one Host"},
		"absolute, other Host": {"GET http://other.test/ HTTP/1.1\r\n" + host + "\r\n", "name two hosts"},
		"absolute, other port": {"GET http://ok.test:81/ HTTP/1.1\r\n" + host + "\r\n", "name two hosts"},
		"opaque":               {"GET http:ok.test HTTP/1.1\r\n" + host + "\r\n", "neither a path nor an address"},
		"no slash":             {"GET a/b HTTP/1.1\r\n" + host + "\r\n", "neither a path nor an address"},
		"version 0.9":          {"GET /\r\n\r\n", "the request line"},
		"version 1.2":          {"GET / HTTP/1.2\r\n" + host + "\r\n", "neither HTTP/1.1 nor"},
		"lower case version":   {"GET / http/1.1\r\n" + host + "\r\n", "neither HTTP/1.1 nor"},
		"version 2":            {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "HTTP/2 without TLS"},
		"two spaces":           {"GET  / HTTP/1.1\r\n" + host + "\r\n", "one space"},
		"space in the target":  {"GET /a b HTTP/1.1\r\n" + host + "\r\n", "one space"},
		"space at the end":     {"GET / HTTP/1.1 \r\n" + host + "\r\n", "one space"},
		"space at the start":   {" GET / HTTP/1.1\r\n" + host + "\r\n", "one space"},
		"tab in the line":      {"GET\t/ HTTP/1.1\r\n" + host + "\r\n", "one space"},
		"broken escape":        {"GET /%zz HTTP/1.1\r\n" + host + "\r\n", "neither a path"},
		"other expectation":    {get + host + "Expect: 200-ok\r\n\r\n", "another than 100-continue"},
		"fragment":             {"GET /#a HTTP/1.1\r\n" + host + "\r\n", "a fragment"},
		"method":               {"G@T / HTTP/1.1\r\n" + host + "\r\n", "not a token"},
		"two empty lines":      {"\r\n\r\n" + get + host + "\r\n", "the request line"},
		"TLS":                  {"\x16\x03\x01\x02\x00\x01\n\r\n\r\n", "bare line feed"},
		"chunk of no number":   {chunked + "x\r\n\r\n", "not one hexadecimal"},
		"signed chunk":         {chunked + "+1\r\na\r\n0\r\n\r\n", "not one hexadecimal"},
		"prefixed chunk":       {chunked + "0x1\r\na\r\n0\r\n\r\n", "not one hexadecimal"},
		"spaced chunk":         {chunked + "1 \r\na\r\n0\r\n\r\n", "not one hexadecimal"},
		"empty chunk line":     {chunked + "\r\n", "not one hexadecimal"},
		"huge chunk":           {chunked + "FFFFFFFFFFFFFFFF1\r\n", "not one hexadecimal"},
		"bare chunk line":      {chunked + "1\na\r\n0\r\n\r\n", "bare line feed"},
		"bare in extension":    {chunked + "1;a\nb\r\na\r\n0\r\n\r\n", "bare line feed"},
		"return in extension":  {chunked + "1;a\rb\r\na\r\n0\r\n\r\n", "bare carriage return"},
		"long chunk line":      {chunked + "1;" + strings.Repeat("x", 600) + "\r\na\r\n0\r\n\r\n", "too long"},
		"chunk too long":       {chunked + "1\r\nab\r\n0\r\n\r\n", "longer than it said"},
		"bare gap":             {chunked + "1\r\na\n0\r\n\r\n", "longer than it said"},
		"framing trailer":      {chunked + "0\r\nContent-Length: 5\r\n\r\n", "belongs into the head"},
		"host trailer":         {chunked + "0\r\nHost: other.test\r\n\r\n", "belongs into the head"},
		"folded trailer":       {chunked + "0\r\nX: a\r\n b\r\n\r\n", "a folded header"},
		"bare trailer":         {chunked + "0\r\nX: a\n\r\n", "bare line feed"},
		"upgrade with a body":  {"GET / HTTP/1.1\r\n" + host + "Connection: upgrade\r\nUpgrade: websocket\r\nContent-Length: 2\r\n\r\nab", "an upgrade"},
		"upgrade of a post":    {"POST / HTTP/1.1\r\n" + host + "Connection: upgrade\r\nUpgrade: websocket\r\n\r\n", "an upgrade"},
	}
}

func TestWhatCanBeReadInTwoWaysDoesNotPass(t *testing.T) {
	for name, c := range faulty() {
		t.Run(name, func(t *testing.T) {
			for _, before := range []string{"", "GET /before HTTP/1.1\r\n" + host + "\r\n"} {
				for _, in := range []io.Reader{strings.NewReader(before + c.in), iotest.OneByteReader(strings.NewReader(before + c.in))} {
					got := readAll(t, in, 1<<16)
					if got.fault == nil || !strings.Contains(got.fault.Why, c.why) {
						t.Fatalf("fault %v, want %q", got.fault, c.why)
					}
					for _, r := range got.requests {
						if r.RequestURI != "/before" && got.inHead {
							t.Errorf("%s %s was handed on", r.Method, r.RequestURI)
						}
					}
				}
			}
		})
	}
}

func TestAHeadThatIsJudgedBadIsNotHandedOn(t *testing.T) {
	var got *Fault
	judge := func(h Head) *Fault {
		if h.Host == "evil.test" {
			return &Fault{Status: 421, Why: "evil"}
		}
		return nil
	}
	in := "GET / HTTP/1.1\r\n" + host + "\r\nGET /evil HTTP/1.1\r\nHost: evil.test\r\n\r\n"
	c := NewConn(fake{Reader: strings.NewReader(in)}, Options{Max: 1000, Judge: judge, Fault: func(f *Fault, inHead bool) { got = f }})
	text, err := io.ReadAll(c)
	if err == nil || got == nil || got.Status != 421 || strings.Contains(string(text), "evil") {
		t.Errorf("%q, %v, fault %v", text, err, got)
	}
}

func TestHeadsAndTrailersAreBounded(t *testing.T) {
	long := strings.Repeat("x", 1000)
	for name, in := range map[string]string{
		"one line":   "GET /" + strings.Repeat("x", 100_000) + " HTTP/1.1\r\n",
		"many lines": "GET / HTTP/1.1\r\n" + host + strings.Repeat("X: "+long+"\r\n", 100) + "\r\n",
		"trailers":   "POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n0\r\n" + strings.Repeat("X: "+long+"\r\n", 100) + "\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			got := readAll(t, strings.NewReader(in), 10_000)
			if got.fault == nil || got.fault.Status != 431 {
				t.Errorf("fault %v, want 431", got.fault)
			}
		})
	}
	if got := readAll(t, strings.NewReader("GET / HTTP/1.1\r\n"+host+"\r\n"), 34); got.fault != nil {
		t.Errorf("a head of just the most bytes: %v", got.fault)
	}
}

// pipe returns a Conn and the program's end below it.
func pipe(t *testing.T, fault func(*Fault, bool)) (*Conn, net.Conn) {
	t.Helper()
	near, far := net.Pipe()
	t.Cleanup(func() { near.Close(); far.Close() })
	return NewConn(near, Options{Max: 1 << 16, Judge: approve, Fault: fault}), far
}

const websocket = "GET / HTTP/1.1\r\n" + host + "Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n"

func TestAfterAGrantedUpgradeAllPasses(t *testing.T) {
	c, far := pipe(t, func(f *Fault, _ bool) { t.Errorf("fault: %v", f) })
	go io.WriteString(far, websocket)
	if _, err := http.ReadRequest(bufio.NewReader(c)); err != nil {
		t.Fatal(err)
	}
	if head, _ := c.Head(); !head.Upgrade {
		t.Fatalf("%+v", head)
	}
	c.Raw()
	go io.WriteString(far, "\x00\n\r no HTTP")
	got := make([]byte, 11)
	if _, err := io.ReadFull(c, got); err != nil || string(got) != "\x00\n\r no HTTP" {
		t.Errorf("%q, %v", got, err)
	}
}

func TestNothingFollowsAnUpgradeBeforeItsAnswer(t *testing.T) {
	var fault *Fault
	c, far := pipe(t, func(f *Fault, inHead bool) {
		if inHead {
			t.Error("said to be in a head: the request before has no answer")
		}
		fault = f
	})
	go io.WriteString(far, websocket+"GET /smuggled HTTP/1.1\r\n"+host+"\r\n")
	if _, err := http.ReadRequest(bufio.NewReader(c)); err != nil {
		t.Fatal(err)
	}
	n, err := c.Read(make([]byte, 1))
	var op *net.OpError
	if n != 0 || fault == nil || !errors.As(err, &op) {
		t.Errorf("read %d bytes, fault %v, error %v", n, fault, err)
	}
	if n, err := c.Read(make([]byte, 1)); n != 0 || err == nil {
		t.Errorf("after a fault: %d, %v", n, err)
	}
}

// Who looks for the end of the connection while a request is answered reads
// one byte of the next one: its fault must wait for the answer.
func TestAFaultWaitsUntilTheRequestBeforeIsAnswered(t *testing.T) {
	faults := 0
	c, far := pipe(t, func(*Fault, bool) { faults++ })
	go io.WriteString(far, "GET / HTTP/1.1\r\n"+host+"\r\n\x00\r\n\r\n")
	if _, err := http.ReadRequest(bufio.NewReader(c)); err != nil {
		t.Fatal(err)
	}
	if n, err := c.Read(make([]byte, 1)); n != 1 || err != nil || faults != 0 {
		t.Fatalf("%d, %v, %d faults", n, err, faults)
	}
	if n, err := c.Read(make([]byte, 100)); n != 0 || err == nil || faults != 1 {
		t.Fatalf("%d, %v, %d faults", n, err, faults)
	}
}

// FuzzConn: whatever comes, net/http behind a Conn reads the requests that the
// Conn saw and no other, one Host each, and framing that is strict.
func FuzzConn(f *testing.F) {
	n := 0
	for _, c := range faulty() {
		f.Add([]byte(c.in))
		n++
	}
	if n == 0 {
		f.Fatal("no seeds")
	}
	f.Add([]byte("POST / HTTP/1.1\r\n" + host + "Content-Length: 3\r\n\r\nabcGET /b HTTP/1.1\r\n" + host + "\r\n"))
	f.Add([]byte("POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n3;a\r\nabc\r\n0\r\nA: b\r\n\r\nGET /b HTTP/1.1\r\n" + host + "\r\n"))
	f.Add([]byte(websocket + "x"))
	f.Fuzz(func(t *testing.T, in []byte) {
		whole := readAll(t, strings.NewReader(string(in)), 4096)
		pieces := readAll(t, iotest.OneByteReader(strings.NewReader(string(in))), 4096)
		if len(whole.requests) != len(pieces.requests) || (whole.fault == nil) != (pieces.fault == nil) {
			t.Errorf("at once %d requests and %v, in pieces %d and %v", len(whole.requests), whole.fault, len(pieces.requests), pieces.fault)
		}
		for _, r := range whole.requests {
			if len(r.Header["Content-Length"]) > 1 || len(r.TransferEncoding) > 0 && r.Header.Get("Content-Length") != "" {
				t.Errorf("ambiguous framing: %v %v", r.Header, r.TransferEncoding)
			}
		}
	})
}
