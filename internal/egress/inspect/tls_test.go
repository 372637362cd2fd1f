package inspect

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/callcell/callcell/internal/testing/leak"
)

func TestBothVersionsOfHTTPReachTheOrigin(t *testing.T) {
	for name, h2 := range map[string]bool{"HTTP/1.1": false, "HTTP/2": true} {
		for origin, originH2 := range map[string]bool{"origin HTTP/1.1": false, "origin HTTP/2": true} {
			t.Run(name+" "+origin, func(t *testing.T) {
				leak.Check(t)
				to := newSite(t, "ok.test", true, nil)
				if !originH2 {
					to.TLS.NextProtos = []string{"http/1.1"}
				}
				d := open(t, to, Options{TLS: true})
				c := d.client(t, h2)
				for range 3 {
					res, body := get(t, c, request(t, "POST", "https://ok.test/p?q", "hello"))
					if res.StatusCode != 200 || body != "ok.test says hello" || (res.ProtoMajor == 2) != h2 {
						t.Fatalf("%s %s %q", res.Proto, res.Status, body)
					}
				}
				out := d.leave(t, c)
				if out.Requests != 3 || out.Refused != 0 || out.Cut || out.Failed != "" || out.Sent < 100 || out.Received < 100 {
					t.Errorf("%+v", out)
				}
				want := "HTTP/1.1 POST ok.test /p?q"
				if originH2 {
					want = "HTTP/2.0 POST ok.test /p?q"
				}
				if saw := to.saw(); len(saw) != 3 || saw[2] != want {
					t.Errorf("the origin saw %q, want %q", saw, want)
				}
			})
		}
	}
}

// The name in TLS is the host or there is no TLS: an alert that says so.
func TestAnotherServerNameIsCutWithAnAlert(t *testing.T) {
	to := newSite(t, "ok.test", true, nil)
	for name, c := range map[string]struct {
		host, server string
		why          string // "" where it passes
	}{
		"host":         {"ok.test", "ok.test", ""},
		"capitals":     {"ok.test", "OK.test", ""},
		"other":        {"ok.test", "evil.test", `TLS asks for "evil.test", this connection is for ok.test`},
		"below":        {"ok.test", "a.ok.test", "a.ok.test"},
		"none":         {"ok.test", "", "TLS asks for no name"},
		"address":      {"192.0.2.1", "", ""},
		"name, no":     {"192.0.2.1", "ok.test", "ok.test"},
		"no, IPv6":     {"2001:db8::1", "", ""},
		"control":      {"ok.test", "evil\x1b[31m.test", `evil`},
		"longest name": {"ok.test", strings.Repeat("a", 200), "aaa"},
	} {
		t.Run(name, func(t *testing.T) {
			leak.Check(t)
			d := open(t, to, Options{TLS: true, Host: c.host})
			conn, err := net.Dial("tcp", d.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			secure := tls.Client(conn, &tls.Config{ServerName: c.server, InsecureSkipVerify: true})
			err = secure.Handshake()
			secure.Close()
			out := d.outcome(t)
			if c.why == "" {
				if err != nil || out.Cut {
					t.Errorf("%v, %+v", err, out)
				}
				return
			}
			var alert *net.OpError
			if !errors.As(err, &alert) || !strings.Contains(err.Error(), "unrecognized name") {
				t.Errorf("the program is told %v", err)
			}
			if !out.Cut || !strings.Contains(out.Why, c.why) || out.Refused != 1 || strings.Contains(out.Why, "\x1b") {
				t.Errorf("%+v", out)
			}
		})
	}
	if saw := to.saw(); len(saw) != 0 {
		t.Errorf("the origin saw %q", saw)
	}
}

// Fronting: the allowed name outside, another inside.
func TestFrontingIsCut(t *testing.T) {
	for name, h2 := range map[string]bool{"HTTP/1.1": false, "HTTP/2": true} {
		t.Run(name, func(t *testing.T) {
			leak.Check(t)
			to := newSite(t, "ok.test", true, nil)
			d := open(t, to, Options{TLS: true})
			r := request(t, "GET", "https://ok.test/secret", "")
			r.Host = "evil.test"
			res, body := get(t, d.client(t, h2), r)
			if res.StatusCode != 421 || res.Header.Get(markHeader) != "denied" || !strings.Contains(body, `names "evil.test", this connection is for ok.test`) {
				t.Errorf("%s %v %q", res.Status, res.Header, body)
			}
			if out := d.outcome(t); !out.Cut || !strings.Contains(out.Why, "evil.test") || out.Requests != 0 || out.Sent != 0 {
				t.Errorf("%+v", out)
			}
			if saw := to.saw(); len(saw) != 0 {
				t.Errorf("the origin saw %q", saw)
			}
		})
	}
}

// The second stream of a connection names another host: it is refused, and
// the first one, which is under way, is broken off with the connection.
func TestASecondStreamOfAnotherHostEndsAll(t *testing.T) {
	leak.Check(t)
	started, ended := make(chan struct{}), make(chan struct{})
	to := newSite(t, "ok.test", true, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "begun")
		_ = http.NewResponseController(w).Flush()
		close(started)
		<-r.Context().Done()
		close(ended)
	})
	d := open(t, to, Options{TLS: true})
	c := d.client(t, true)
	first, err := c.Do(request(t, "GET", "https://ok.test/first", ""))
	if err != nil {
		t.Fatal(err)
	}
	defer first.Body.Close()
	<-started
	r := request(t, "GET", "https://ok.test/second", "")
	r.Host = "evil.test"
	if res, body := get(t, c, r); res.StatusCode != 421 || res.Header.Get(markHeader) != "denied" {
		t.Errorf("%s %q", res.Status, body)
	}
	if rest, err := io.ReadAll(first.Body); err == nil {
		t.Errorf("the first stream ends well: %q", rest)
	}
	<-ended
	if out := d.outcome(t); !out.Cut || out.Requests != 1 || !strings.Contains(out.Why, "evil.test") {
		t.Errorf("%+v", out)
	}
}

func h2Request(t *testing.T, d *door, change func(*http.Request)) (*http.Response, error) {
	t.Helper()
	r := request(t, "GET", "https://ok.test/x", "")
	change(r)
	return d.client(t, true).Do(r)
}

func TestHTTP2RequestsAreJudgedLikeTheOthers(t *testing.T) {
	to := newSite(t, "ok.test", true, nil)
	for name, c := range map[string]struct {
		change func(*http.Request)
		status int
		why    string
	}{
		"TRACE":         {func(r *http.Request) { r.Method = "TRACE" }, 403, "TRACE"},
		"CONNECT":       {func(r *http.Request) { r.Method = "CONNECT" }, 403, "CONNECT"},
		"port":          {func(r *http.Request) { r.Host = "ok.test:8443" }, 421, "ok.test:8443"},
		"space in path": {func(r *http.Request) { r.URL.Opaque, r.URL.RawQuery = "", "x HTTP/1.1" }, 403, "belongs into none"},
		"own port":      {func(r *http.Request) { r.Host = "OK.test.:443" }, 200, ""},
	} {
		t.Run(name, func(t *testing.T) {
			leak.Check(t)
			d := open(t, to, Options{TLS: true})
			res, err := h2Request(t, d, c.change)
			if err != nil {
				t.Fatal(err)
			}
			body, _ := io.ReadAll(res.Body)
			res.Body.Close()
			if res.StatusCode != c.status || !strings.Contains(string(body), c.why) {
				t.Errorf("%s %q", res.Status, body)
			}
		})
	}
}

func TestPlainHTTPWhereTLSIsExpectedIsSaid(t *testing.T) {
	leak.Check(t)
	d := open(t, newSite(t, "ok.test", true, nil), Options{TLS: true})
	conn, err := net.Dial("tcp", d.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	r := newRaw(t, conn)
	r.send(t, "GET / HTTP/1.1\r\n"+okHost+"\r\n")
	if res, body := r.answer(t); res.StatusCode != 400 || !strings.Contains(body, "without TLS") || res.Header.Get(markHeader) != "denied" {
		t.Errorf("%s %q", res.Status, body)
	}
	r.hungUp(t)
	if out := d.outcome(t); !out.Cut || !strings.Contains(out.Why, "without TLS") {
		t.Errorf("%+v", out)
	}
}

// What a program does not like about TLS is in the row.
func TestWhyTLSFailedIsTold(t *testing.T) {
	for name, c := range map[string]struct {
		config *tls.Config
		o      Options
		want   string
	}{
		"pinned":       {&tls.Config{ServerName: "ok.test", RootCAs: x509.NewCertPool()}, Options{}, "no TLS with the program"},
		"too old":      {&tls.Config{ServerName: "ok.test", MaxVersion: tls.VersionTLS11, MinVersion: tls.VersionTLS10, InsecureSkipVerify: true}, Options{}, "no TLS with the program"},
		"no protocol":  {&tls.Config{ServerName: "ok.test", NextProtos: []string{"ftp"}, InsecureSkipVerify: true}, Options{}, "no TLS with the program"},
		"not its name": {&tls.Config{ServerName: "ok.test", InsecureSkipVerify: true}, Options{CA: authority(t, "other.test")}, "may not vouch"},
	} {
		t.Run(name, func(t *testing.T) {
			leak.Check(t)
			c.o.TLS = true
			d := open(t, newSite(t, "ok.test", true, nil), c.o)
			conn, err := tls.Dial("tcp", d.Addr().String(), c.config)
			if err == nil {
				conn.Close()
				t.Error("TLS is agreed on")
			}
			if out := d.outcome(t); out.Cut || !strings.Contains(out.Failed, c.want) {
				t.Errorf("%+v", out)
			}
		})
	}
}

// The origin must prove to be the host, to the system's authorities and to
// nobody else.
func TestTheOriginIsVerified(t *testing.T) {
	right := newSite(t, "ok.test", true, nil)
	wrongName := newSite(t, "evil.test", true, nil)
	refusing := Options{Dial: func(context.Context) (net.Conn, error) { return nil, errors.New("connection refused") }}
	policy := Options{Dial: func(context.Context) (net.Conn, error) {
		return nil, &net.OpError{Op: "dial", Err: errors.Join(errors.New("resolved address not allowed: 10.0.0.1"), ErrDenied)}
	}}
	old := newSite(t, "ok.test", true, nil)
	old.TLS.MaxVersion = tls.VersionTLS11
	for name, c := range map[string]struct {
		to     *site
		o      Options
		status int
		mark   string
		want   string
	}{
		"right":         {right, Options{}, 200, "", ""},
		"wrong name":    {wrongName, Options{Roots: pool(t, wrongName.ca.PEM())}, 502, "failed", "the certificate of ok.test is not valid"},
		"unknown":       {right, Options{Roots: x509.NewCertPool()}, 502, "failed", "unknown authority"},
		"call's own CA": {right, Options{Roots: pool(t, authority(t, "ok.test").PEM())}, 502, "failed", "unknown authority"},
		"old TLS":       {old, Options{}, 502, "failed", "protocol version"},
		"unreachable":   {right, refusing, 502, "failed", "no answer of ok.test: connection refused"},
		"denied":        {right, policy, 403, "denied", "resolved address not allowed"},
	} {
		for version, h2 := range map[string]bool{"HTTP/1.1": false, "HTTP/2": true} {
			t.Run(name+" "+version, func(t *testing.T) {
				leak.Check(t)
				c.o.TLS = true
				d := open(t, c.to, c.o)
				client := d.client(t, h2)
				res, body := get(t, client, request(t, "POST", "https://ok.test/", strings.Repeat("x", 1000)))
				if res.StatusCode != c.status || res.Header.Get(markHeader) != c.mark || !strings.Contains(body, c.want) {
					t.Errorf("%s %v %q", res.Status, res.Header, body)
				}
				out := d.leave(t, client)
				if out.Cut != (c.mark == "denied") || c.mark == "failed" && !strings.Contains(body, out.Failed) || c.mark == "denied" && !strings.Contains(body, out.Why) {
					t.Errorf("%+v", out)
				}
			})
		}
	}
}

func TestNoRootsBelieveNobody(t *testing.T) {
	leak.Check(t)
	to := newSite(t, "ok.test", true, nil)
	o := fill(t, to, Options{TLS: true})
	o.Roots = nil
	near, far := net.Pipe()
	done := make(chan Outcome, 1)
	go func() { done <- Serve(context.Background(), far, o) }()
	secure := tls.Client(near, &tls.Config{RootCAs: pool(t, o.CA.PEM()), ServerName: "ok.test"})
	defer secure.Close()
	_ = secure.SetDeadline(time.Now().Add(patience))
	r := newRaw(t, secure)
	r.send(t, "GET / HTTP/1.1\r\n"+okHost+"Connection: close\r\n\r\n")
	if res, body := r.answer(t); res.StatusCode != 502 || !strings.Contains(body, "unknown authority") {
		t.Errorf("%s %q", res.Status, body)
	}
	r.hungUp(t)
	<-done
}
