package inspect

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// bubble serves one connection over pipes, in a bubble of time: the program's
// end is given to f, the origin answers with h.
func bubble(t *testing.T, o Options, h func(net.Conn), f func(t *testing.T, r *raw)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		o.Host, o.Port = "ok.test", 80
		o.Dial = func(context.Context) (net.Conn, error) {
			near, far := net.Pipe()
			go func() {
				defer far.Close()
				h(far)
			}()
			return near, nil
		}
		near, far := net.Pipe()
		defer near.Close()
		outcome := make(chan Outcome, 1)
		go func() { outcome <- Serve(t.Context(), far, o) }()
		f(t, &raw{Conn: &ending{near, outcome}, in: bufio.NewReader(near)})
		near.Close()
		time.Sleep(2 * time.Minute) // whatever is left now is left behind
	})
}

// ending is a program's connection that knows the outcome.
type ending struct {
	net.Conn
	outcome chan Outcome
}

func (r *raw) outcome() Outcome { return <-r.Conn.(*ending).outcome }

// echo answers every request with 200.
func echo(conn net.Conn) {
	in := bufio.NewReader(conn)
	for {
		r, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		_, _ = io.Copy(io.Discard, r.Body)
		if _, err := io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"); err != nil {
			return
		}
	}
}

// silent takes everything and says nothing.
func silent(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) }

func TestAnIdleConnectionEndsQuietly(t *testing.T) {
	bubble(t, Options{Idle: time.Minute}, echo, func(t *testing.T, r *raw) {
		start := time.Now()
		for range 3 {
			r.send(t, "GET / HTTP/1.1\r\n"+okHost+"\r\n")
			r.answer(t)
			time.Sleep(50 * time.Second)
		}
		r.hungUp(t)
		if took := time.Since(start); took != 160*time.Second {
			t.Errorf("ended after %v", took)
		}
		if out := r.outcome(); out.Cut || out.Failed != "" || out.Requests != 3 {
			t.Errorf("%+v", out)
		}
	})
}

func TestAnOriginThatSaysNothingIsCut(t *testing.T) {
	bubble(t, Options{Idle: time.Minute}, silent, func(t *testing.T, r *raw) {
		start := time.Now()
		r.send(t, "GET / HTTP/1.1\r\n"+okHost+"\r\n")
		res, body := r.answer(t)
		if res.StatusCode != 504 || res.Header.Get(markHeader) != "failed" || !strings.Contains(body, "no byte passed for 1m0s") {
			t.Errorf("%s %q", res.Status, body)
		}
		r.hungUp(t)
		if took := time.Since(start); took < time.Minute || took > 62*time.Second {
			t.Errorf("ended after %v", took)
		}
		if out := r.outcome(); !out.Cut || !out.Late || !strings.Contains(out.Why, "no byte passed") {
			t.Errorf("%+v", out)
		}
	})
}

func TestAConnectionLastsAsLongAsItMay(t *testing.T) {
	drip := func(conn net.Conn) {
		asked(conn)
		_, err := io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
		for err == nil {
			time.Sleep(time.Second)
			_, err = io.WriteString(conn, ".")
		}
	}
	bubble(t, Options{Idle: time.Minute, Total: 10 * time.Minute}, drip, func(t *testing.T, r *raw) {
		start := time.Now()
		r.send(t, "GET / HTTP/1.1\r\n"+okHost+"\r\n")
		body, err := io.ReadAll(r.in)
		if took := time.Since(start); took < 10*time.Minute || took > 10*time.Minute+2*time.Second {
			t.Errorf("ended after %v, %v", took, err)
		}
		if out := r.outcome(); !out.Cut || !strings.Contains(out.Why, "as long as it may") || len(body) < 500 {
			t.Errorf("%+v", out)
		}
	})
}

// A head that comes in drops, and TLS that does, is not waited for.
func TestASlowHeadIsNotWaitedFor(t *testing.T) {
	for _, secure := range []bool{false, true} {
		bubble(t, Options{Idle: 5 * time.Minute, TLS: secure, CA: authority(t, "ok.test")}, echo, func(t *testing.T, r *raw) {
			start := time.Now()
			text := "GET / HTTP/1.1\r\n" + okHost + "X: "
			if secure {
				text = "\x16\x03\x01\x40\x00\x01"
			}
			go func() {
				_, err := io.WriteString(r, text)
				for err == nil {
					time.Sleep(time.Second)
					_, err = io.WriteString(r, "x")
				}
			}()
			if !secure {
				if res, body := r.answer(t); res.StatusCode != 408 || !strings.Contains(body, "did not come in time") {
					t.Errorf("%s %q", res.Status, body)
				}
			}
			r.hungUp(t)
			if took := time.Since(start); took > headTime+2*time.Second {
				t.Errorf("ended after %v", took)
			}
			if out := r.outcome(); out.Requests != 0 || out.Cut == secure || (out.Failed == "") == secure {
				t.Errorf("%+v", out)
			}
		})
	}
}

func TestACapEndsTheConnection(t *testing.T) {
	for name, c := range map[string]struct {
		body string
		h    func(net.Conn)
		most int64
		want int // status; 0: the answer breaks off
	}{
		"sent":                {strings.Repeat("x", 1<<20), echo, 100 << 10, 403},
		"received, head":      {"", echo, 30, 403},
		"received, long head": {"", longHead, 10 << 10, 403},
		"received, body":      {"", endless, 100 << 10, 0},
	} {
		t.Run(name, func(t *testing.T) {
			var total, over atomic.Int64
			o := Options{Idle: time.Minute, Count: func(sent, received int64) error {
				if n := total.Add(sent + received); n > c.most {
					over.Add(1)
					return errors.New("the call's 100 KiB are used up")
				}
				return nil
			}}
			bubble(t, o, c.h, func(t *testing.T, r *raw) {
				go func() {
					fmt.Fprintf(r, "POST / HTTP/1.1\r\n%sContent-Length: %d\r\n\r\n", okHost, len(c.body))
					_, _ = io.WriteString(r, c.body)
				}()
				res, err := http.ReadResponse(r.in, nil)
				if err != nil {
					t.Fatal(err)
				}
				body, err := io.ReadAll(res.Body)
				if c.want == 0 && err == nil || c.want != 0 && (res.StatusCode != c.want || res.Header.Get(markHeader) != "denied" || !strings.Contains(string(body), "used up")) {
					t.Errorf("%s %q, %v", res.Status, body[:min(len(body), 100)], err)
				}
				r.Close()
				out := r.outcome()
				if !out.Cut || out.Why != "the call's 100 KiB are used up" || out.Failed != "" {
					t.Errorf("%+v", out)
				}
				if out.Sent > c.most || out.Sent+out.Received > c.most+64<<10 {
					t.Errorf("more passed than may: %+v", out)
				}
			})
		})
	}
}

// asked waits for a request: what comes before one is no answer.
func asked(conn net.Conn) {
	if _, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
		go silent(conn)
	}
}

func longHead(conn net.Conn) {
	asked(conn)
	_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nX: "+strings.Repeat("x", 50<<10)+"\r\n\r\n")
}

func endless(conn net.Conn) {
	asked(conn)
	_, err := io.WriteString(conn, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
	for err == nil {
		_, err = io.WriteString(conn, "400\r\n"+strings.Repeat("x", 1024)+"\r\n")
	}
}

// A dial that hangs ends with the program's patience, not after it.
func TestADialEndsWithTheProgram(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dialled, ended := make(chan struct{}), make(chan struct{})
		o := Options{Host: "ok.test", Port: 80, Dial: func(ctx context.Context) (net.Conn, error) {
			close(dialled)
			<-ctx.Done()
			close(ended)
			return nil, ctx.Err()
		}}
		near, far := net.Pipe()
		done := make(chan Outcome, 1)
		go func() { done <- Serve(t.Context(), far, o) }()
		go func() { _, _ = io.WriteString(near, "GET / HTTP/1.1\r\n"+okHost+"\r\n") }()
		<-dialled
		near.Close()
		<-ended
		if out := <-done; out.Cut || out.Sent != 0 {
			t.Errorf("%+v", out)
		}
	})
}

// The caller may have read some bytes already: its connection replays them.
func TestReplayedBytesAreServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		o := Options{Host: "ok.test", Port: 80, Dial: func(context.Context) (net.Conn, error) {
			a, b := net.Pipe()
			go func() { defer b.Close(); echo(b) }()
			return a, nil
		}}
		go func() {
			peeked := &replayed{far, io.MultiReader(strings.NewReader("GET / HTTP/1.1\r\nHost: o"), far)}
			Serve(t.Context(), peeked, o)
		}()
		r := &raw{near, bufio.NewReader(near)}
		r.send(t, "k.test\r\n\r\n")
		if res, body := r.answer(t); res.StatusCode != 200 || body != "ok" {
			t.Errorf("%s %q", res.Status, body)
		}
		near.Close()
	})
}

type replayed struct {
	net.Conn
	r io.Reader
}

func (c *replayed) Read(p []byte) (int, error) { return c.r.Read(p) }
