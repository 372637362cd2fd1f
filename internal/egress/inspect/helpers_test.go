package inspect

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// patience is how long a test waits for what must come.
const patience = time.Minute

// site is an origin: it notes what reached it.
type site struct {
	*httptest.Server            // nil of a speaker
	at               string     // HOST:PORT
	ca               *Authority // whom to believe about it

	mu   sync.Mutex // guards what follows
	seen []string   // PROTO METHOD HOST TARGET
}

// newSite starts an origin for a host, with TLS or without.
func newSite(t testing.TB, host string, secure bool, h http.HandlerFunc) *site {
	t.Helper()
	return newSiteOf(t, host, secure, true, h)
}

// newSiteOf is newSite where HTTP/2 may not be spoken.
func newSiteOf(t testing.TB, host string, secure, h2 bool, h http.HandlerFunc) *site {
	t.Helper()
	o := &site{ca: authority(t, host)}
	o.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		o.mu.Lock()
		o.seen = append(o.seen, fmt.Sprintf("%s %s %s %s", r.Proto, r.Method, r.Host, r.RequestURI))
		o.mu.Unlock()
		if h != nil {
			h(w, r)
			return
		}
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s says %s", r.Host, body)
	}))
	o.Config.ErrorLog = log.New(io.Discard, "", 0)
	if secure {
		leaf, err := o.ca.certificate(host)
		if err != nil {
			t.Fatal(err)
		}
		o.TLS = &tls.Config{Certificates: []tls.Certificate{*leaf}}
		o.EnableHTTP2 = h2
		o.StartTLS()
	} else {
		o.Start()
	}
	o.at = o.Listener.Addr().String()
	t.Cleanup(o.Close)
	return o
}

func (o *site) saw() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return append([]string(nil), o.seen...)
}

func (o *site) dial(ctx context.Context) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, "tcp", o.at)
}

// door is where a program comes to: every connection is served with the same
// options.
type door struct {
	net.Listener
	o        Options
	outcomes chan Outcome
	wg       sync.WaitGroup
}

// open opens a door. What options leave out is filled in: the host ok.test at
// the scheme's port, the site to dial and to believe.
func open(t testing.TB, to *site, o Options) *door {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return openAt(t, l, to, o)
}

func openAt(t testing.TB, l net.Listener, to *site, o Options) *door {
	t.Helper()
	d := &door{Listener: l, o: fill(t, to, o), outcomes: make(chan Outcome, 1000)}
	ctx, cancel := context.WithCancelCause(context.Background())
	d.wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			d.wg.Go(func() { d.outcomes <- Serve(ctx, conn, d.o) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		cancel(fmt.Errorf("the test is over"))
		d.wg.Wait()
	})
	return d
}

func fill(t testing.TB, to *site, o Options) Options {
	if o.Host == "" {
		o.Host = "ok.test"
	}
	if o.Port == 0 && o.TLS {
		o.Port = 443
	} else if o.Port == 0 {
		o.Port = 80
	}
	if o.TLS && o.CA == nil {
		o.CA = authority(t, o.Host)
	}
	if to != nil && o.Dial == nil {
		o.Dial = to.dial
	}
	if to != nil && o.Roots == nil {
		o.Roots = pool(t, to.ca.PEM())
	}
	return o
}

// outcome waits for the next connection to end.
func (d *door) outcome(t testing.TB) Outcome {
	t.Helper()
	return d.leave(t, nil)
}

// leave lets a client give up its connections, and waits for the next to end.
// It asks again and again: HTTP/2 holds a stream for a moment after its answer
// was read, and a connection with a stream is not idle.
func (d *door) leave(t testing.TB, c *http.Client) Outcome {
	t.Helper()
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	late := time.After(patience)
	for {
		if c != nil {
			c.CloseIdleConnections()
		}
		select {
		case out := <-d.outcomes:
			return out
		case <-again.C:
		case <-late:
			t.Fatal("the connection does not end")
		}
	}
}

// client returns a client of net/http whose every connection goes to the door.
func (d *door) client(t testing.TB, h2 bool) *http.Client {
	t.Helper()
	var p http.Protocols
	p.SetHTTP1(!h2)
	p.SetHTTP2(h2)
	transport := &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", d.Addr().String())
		},
		DisableCompression: true,
		Protocols:          &p,
	}
	if d.o.CA != nil {
		transport.TLSClientConfig = &tls.Config{RootCAs: pool(t, d.o.CA.PEM())}
	}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: patience, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// get asks and reads the whole answer.
func get(t testing.TB, c *http.Client, r *http.Request) (*http.Response, string) {
	t.Helper()
	res, err := c.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res, string(body)
}

func request(t testing.TB, method, url, body string) *http.Request {
	t.Helper()
	var r io.Reader
	if body != "" {
		r = strings.NewReader(body)
	}
	req, err := http.NewRequest(method, url, r)
	if err != nil {
		t.Fatal(err)
	}
	return req
}

// raw is a program that writes bytes.
type raw struct {
	net.Conn
	in *bufio.Reader
}

func (d *door) raw(t testing.TB) *raw {
	t.Helper()
	conn, err := net.Dial("tcp", d.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if d.o.TLS {
		conn = tls.Client(conn, &tls.Config{RootCAs: pool(t, d.o.CA.PEM()), ServerName: d.o.Host, NextProtos: []string{"http/1.1"}})
	}
	return newRaw(t, conn)
}

func newRaw(t testing.TB, conn net.Conn) *raw {
	t.Cleanup(func() { conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(patience))
	return &raw{conn, bufio.NewReader(conn)}
}

func (r *raw) send(t testing.TB, text string) {
	t.Helper()
	if _, err := io.WriteString(r.Conn, text); err != nil {
		t.Fatal(err)
	}
}

// answer reads one answer. 100 Continue is passed over: our server
// says it, and the origin may too.
func (r *raw) answer(t testing.TB) (*http.Response, string) {
	t.Helper()
	res, err := http.ReadResponse(r.in, nil)
	for err == nil && res.StatusCode == http.StatusContinue {
		res, err = http.ReadResponse(r.in, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatalf("%v after %q", err, body)
	}
	return res, string(body)
}

// hungUp fails unless nothing more comes.
func (r *raw) hungUp(t testing.TB) {
	t.Helper()
	rest, err := io.ReadAll(r.in)
	if len(rest) > 0 {
		t.Errorf("there is more: %q", rest)
	}
	if e, ok := err.(net.Error); ok && e.Timeout() {
		t.Error("the connection stays open")
	}
	r.Close()
}

// counter counts up and down.
type counter struct {
	mu       sync.Mutex // guards what follows
	now, max int
}

func (c *counter) add(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now += n
	c.max = max(c.max, c.now)
}

func (c *counter) most() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.max
}

// closing is a connection that tells of its end.
type closing struct {
	net.Conn
	once sync.Once
	f    func()
}

func (c *closing) Close() error {
	c.once.Do(c.f)
	return c.Conn.Close()
}
