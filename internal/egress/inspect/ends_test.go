package inspect

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/callcell/callcell/internal/testing/leak"
)

// A program that goes away takes its request with it.
func TestAProgramThatHangsUpEndsItsRequest(t *testing.T) {
	for name, way := range ways() {
		t.Run(name, func(t *testing.T) {
			leak.Check(t)
			started, ended := make(chan struct{}), make(chan struct{})
			to := newSite(t, "ok.test", way.secure, func(w http.ResponseWriter, r *http.Request) {
				close(started)
				<-r.Context().Done()
				close(ended)
			})
			d := open(t, to, Options{TLS: way.secure})
			ctx, cancel := context.WithCancel(context.Background())
			go func() { <-started; cancel() }()
			if res, err := d.client(t, way.h2).Do(request(t, "GET", address(way.secure), "").WithContext(ctx)); err == nil {
				res.Body.Close()
				t.Error("there is an answer")
			}
			<-ended
			if !way.h2 { // there only the stream has ended
				if out := d.outcome(t); out.Cut || out.Failed != "" {
					t.Errorf("%+v", out)
				}
			}
		})
	}
}

// An origin that breaks its answer off is told apart from one that ends it.
func TestABrokenAnswerIsABrokenAnswer(t *testing.T) {
	for name, way := range ways() {
		t.Run(name, func(t *testing.T) {
			leak.Check(t)
			to := newSite(t, "ok.test", way.secure, func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.WriteString(w, "half")
				_ = http.NewResponseController(w).Flush()
				panic(http.ErrAbortHandler)
			})
			d := open(t, to, Options{TLS: way.secure})
			c := d.client(t, way.h2)
			res, err := c.Do(request(t, "GET", address(way.secure), ""))
			if err == nil {
				_, err = io.ReadAll(res.Body)
				res.Body.Close()
			}
			if err == nil {
				t.Error("the answer ends well")
			}
			if out := d.leave(t, c); out.Cut || !strings.Contains(out.Failed, "broke off") {
				t.Errorf("%+v", out)
			}
		})
	}
}

// What is no HTTP from the origin is a failure with its reason, and nothing of
// it can forge a line of ours.
func TestAnOriginThatSpeaksNoHTTP(t *testing.T) {
	for name, c := range map[string]struct{ says, want string }{
		"greeting":    {"SSH-2.0-\x1b[31mred\r\n", "malformed"},
		"nothing":     {"", "EOF"},
		"huge header": {"HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 200<<10) + "\r\n\r\n", "exceeded"},
		"unasked 101": {"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nraw", "not asked for"},
		"bare 101":    {"HTTP/1.1 101 Switching Protocols\r\n\r\nraw", "not asked for"},
	} {
		t.Run(name, func(t *testing.T) {
			leak.Check(t)
			o := Options{Dial: func(context.Context) (net.Conn, error) {
				near, far := net.Pipe()
				go func() {
					defer far.Close()
					if _, err := http.ReadRequest(bufio.NewReader(far)); err == nil {
						_, _ = io.WriteString(far, c.says)
					}
				}()
				return near, nil
			}}
			d := open(t, nil, o)
			client := d.client(t, false)
			res, body := get(t, client, request(t, "POST", "http://ok.test/", ""))
			if res.StatusCode != 502 || res.Header.Get(markHeader) != "failed" || !strings.Contains(body, c.want) || strings.Contains(body, "\x1b") || strings.Count(body, "\n") != 1 {
				t.Errorf("%s %v %q", res.Status, res.Header, body)
			}
			if out := d.leave(t, client); out.Cut || !strings.Contains(out.Failed, c.want) || len(out.Failed) > 400 {
				t.Errorf("%+v", out)
			}
		})
	}
}

func TestRewriteAddsAndRefuses(t *testing.T) {
	for name, way := range ways() {
		t.Run(name, func(t *testing.T) {
			leak.Check(t)
			to := newSite(t, "ok.test", way.secure, func(w http.ResponseWriter, r *http.Request) {
				fmt.Fprint(w, strings.Join(r.Header["Authorization"], "|"))
			})
			d := open(t, to, Options{TLS: way.secure, Rewrite: func(r *http.Request) error {
				switch r.URL.Path {
				case "/no":
					return errors.New("path /no is not among those permitted\r\nX: y")
				case "/turned":
					r.Host, r.URL.Host = "evil.test", "evil.test"
				}
				r.Header.Set("Authorization", "Bearer secret")
				return nil
			}})
			c := d.client(t, way.h2)
			r := request(t, "GET", address(way.secure), "")
			r.Header["Authorization"] = []string{"mine", "mine too"}
			r.Header["Connection"] = []string{"Authorization"}
			if way.h2 {
				delete(r.Header, "Connection")
			}
			if res, body := get(t, c, r); res.StatusCode != 200 || body != "Bearer secret" {
				t.Errorf("%s %q", res.Status, body)
			}
			for path, why := range map[string]string{"/no": "is not among those permitted", "/turned": "turned to another host"} {
				res, body := get(t, c, request(t, "GET", address(way.secure)+path, ""))
				if res.StatusCode != 403 || res.Header.Get(markHeader) != "denied" || !strings.Contains(body, why) || strings.Count(body, "\n") != 1 {
					t.Errorf("%s %v %q", res.Status, res.Header, body)
				}
			}
			if res, body := get(t, c, request(t, "GET", address(way.secure), "")); res.StatusCode != 200 {
				t.Errorf("afterwards: %s %q", res.Status, body)
			}
			if out := d.leave(t, c); out.Cut || out.Requests != 2 || out.Refused != 2 || out.Why == "" || out.Failed != "" {
				t.Errorf("%+v", out)
			}
		})
	}
}

func TestOnceEndsAfterOneRequest(t *testing.T) {
	leak.Check(t)
	to := newSite(t, "ok.test", false, nil)
	d := open(t, to, Options{Once: true})
	r := d.raw(t)
	r.send(t, "GET http://ok.test/1 HTTP/1.1\r\n"+okHost+"\r\nGET http://ok.test/2 HTTP/1.1\r\n"+okHost+"\r\n")
	if res, body := r.answer(t); res.StatusCode != 200 || !res.Close {
		t.Errorf("%s %v %q", res.Status, res.Header, body)
	}
	r.hungUp(t)
	if out := d.outcome(t); out.Cut || out.Requests != 1 || len(to.saw()) != 1 {
		t.Errorf("%+v, %q", out, to.saw())
	}
}

// A program's many streams share what connections an origin of HTTP/1 gets.
func TestManyStreamsAreBoundedTowardsAnOldOrigin(t *testing.T) {
	leak.Check(t)
	const streams = maxStreams - 1 // and the first one, which may be there for a moment more: or the client makes a connection more
	to := newSite(t, "ok.test", true, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(w, r.Body)
	})
	to.TLS.NextProtos = []string{"http/1.1"}
	var conns counter
	d := open(t, to, Options{TLS: true, Dial: func(ctx context.Context) (net.Conn, error) {
		conn, err := to.dial(ctx)
		if err != nil {
			return nil, err
		}
		conns.add(1)
		return &closing{Conn: conn, f: func() { conns.add(-1) }}, nil
	}})
	c := d.client(t, true)
	get(t, c, request(t, "GET", "https://ok.test/", "")) // or every stream would make a connection of its own
	done := make(chan string, streams)
	for i := range streams {
		go func() {
			res, err := c.Do(request(t, "POST", "https://ok.test/", fmt.Sprint(i)))
			if err != nil {
				done <- err.Error()
				return
			}
			body, err := io.ReadAll(res.Body)
			res.Body.Close()
			if err != nil || string(body) != fmt.Sprint(i) {
				done <- fmt.Sprintf("%q, %v", body, err)
				return
			}
			done <- ""
		}()
	}
	for range streams {
		if fault := <-done; fault != "" {
			t.Error(fault)
		}
	}
	if out := d.leave(t, c); out.Requests != streams+1 || out.Cut {
		t.Errorf("%+v", out)
	}
	if most := conns.most(); most > maxConns {
		t.Errorf("%d connections at once", most)
	}
}

func TestServeEndsWithItsCaller(t *testing.T) {
	for name, way := range ways() {
		t.Run(name, func(t *testing.T) {
			leak.Check(t)
			started := make(chan struct{})
			to := newSite(t, "ok.test", way.secure, func(w http.ResponseWriter, r *http.Request) {
				close(started)
				<-r.Context().Done()
			})
			o := fill(t, to, Options{TLS: way.secure})
			ctx, cancel := context.WithCancelCause(context.Background())
			near, far := net.Pipe()
			done := make(chan Outcome, 1)
			go func() { done <- Serve(ctx, far, o) }()
			var conn net.Conn = near
			if way.secure {
				conn = tls.Client(near, &tls.Config{RootCAs: pool(t, o.CA.PEM()), ServerName: "ok.test"})
			}
			go func() { _, _ = io.WriteString(conn, "GET / HTTP/1.1\r\n"+okHost+"\r\n") }()
			go func() { _, _ = io.Copy(io.Discard, conn) }()
			<-started
			cancel(errors.New("the call has ended"))
			select {
			case out := <-done:
				if !out.Cut || out.Why != "the call has ended" {
					t.Errorf("%+v", out)
				}
			case <-time.After(patience):
				t.Fatal("Serve goes on")
			}
		})
	}
}

// TestWhoHasItsAnswerMayEnd: all of the answer has come, so that the end of the call
// cuts nothing, though it came before all was written.
func TestWhoHasItsAnswerMayEnd(t *testing.T) {
	for length, cut := range map[string]bool{"5": false, "6": true} {
		leak.Check(t)
		to := newSite(t, "ok.test", false, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", length)
			_, _ = io.WriteString(w, "hello")
			_ = http.NewResponseController(w).Flush()
			if cut {
				<-r.Context().Done()
			}
		})
		ctx, cancel := context.WithCancelCause(context.Background())
		near, far := net.Pipe() // who writes waits until all is read
		done := make(chan Outcome, 1)
		go func() { done <- Serve(ctx, far, fill(t, to, Options{})) }()
		go func() { _, _ = io.WriteString(near, "GET / HTTP/1.1\r\n"+okHost+"\r\n") }()
		var got []byte
		for !strings.HasSuffix(string(got), "hell") {
			one := make([]byte, 1)
			if _, err := io.ReadFull(near, one); err != nil {
				t.Fatalf("after %q: %v", got, err)
			}
			got = append(got, one...)
		}
		cancel(errors.New("the call has ended"))
		select {
		case out := <-done:
			if out.Cut != cut || (out.Why != "") != cut || out.Failed != "" || out.Requests != 1 {
				t.Errorf("of %s bytes: %+v", length, out)
			}
		case <-time.After(patience):
			t.Fatal("Serve goes on")
		}
		_ = near.Close()
	}
}

func TestACapEndsEveryWayOfSpeaking(t *testing.T) {
	for name, way := range ways() {
		t.Run(name, func(t *testing.T) {
			leak.Check(t)
			to := newSite(t, "ok.test", way.secure, func(w http.ResponseWriter, r *http.Request) {
				for r.Context().Err() == nil {
					_, _ = w.Write(make([]byte, 10_000))
				}
			})
			var passed counter
			d := open(t, to, Options{TLS: way.secure, Count: func(sent, received int64) error {
				if passed.add(int(sent + received)); passed.most() > 1<<20 {
					return errors.New("the call's bytes are used up")
				}
				return nil
			}})
			c := d.client(t, way.h2)
			res, err := c.Do(request(t, "GET", address(way.secure), ""))
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.Copy(io.Discard, res.Body)
			res.Body.Close()
			if err == nil || got > 1<<20 {
				t.Errorf("%d bytes, and %v", got, err)
			}
			if out := d.leave(t, c); !out.Cut || out.Why != "the call's bytes are used up" || out.Failed != "" {
				t.Errorf("%+v", out)
			}
		})
	}
}
