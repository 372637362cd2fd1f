package inspect

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"github.com/callcell/callcell/internal/testing/leak"
)

// echoSocket accepts a websocket and sends back what it gets.
func echoSocket(w http.ResponseWriter, r *http.Request) {
	conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{InsecureSkipVerify: true})
	if err != nil {
		return
	}
	defer conn.CloseNow()
	conn.SetReadLimit(1 << 20)
	for {
		kind, text, err := conn.Read(r.Context())
		if err != nil {
			return
		}
		if err := conn.Write(r.Context(), kind, text); err != nil {
			return
		}
	}
}

func TestWebsocketsPass(t *testing.T) {
	for name, secure := range map[string]bool{"plain": false, "TLS": true} {
		t.Run(name, func(t *testing.T) {
			leak.Check(t)
			to := newSite(t, "ok.test", secure, echoSocket)
			d := open(t, to, Options{TLS: secure})
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			conn, _, err := websocket.Dial(ctx, address(secure)+"/socket?a=b", &websocket.DialOptions{HTTPClient: d.client(t, false), CompressionMode: websocket.CompressionDisabled})
			if err != nil {
				t.Fatal(err)
			}
			defer conn.CloseNow()
			conn.SetReadLimit(1 << 20)
			for _, text := range []string{"hello", strings.Repeat("x", 100<<10), "GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n"} {
				if err := conn.Write(ctx, websocket.MessageText, []byte(text)); err != nil {
					t.Fatal(err)
				}
				if _, got, err := conn.Read(ctx); err != nil || string(got) != text {
					t.Fatalf("%q, %v", got[:min(len(got), 40)], err)
				}
			}
			if err := conn.Close(websocket.StatusNormalClosure, "bye"); err != nil {
				t.Error(err)
			}
			out := d.outcome(t)
			if out.Cut || out.Failed != "" || out.Requests != 1 || out.Sent < 100<<10 || out.Received < 100<<10 {
				t.Errorf("%+v", out)
			}
			if saw := to.saw(); len(saw) != 1 || saw[0] != "HTTP/1.1 GET ok.test /socket?a=b" {
				t.Errorf("the origin saw %q", saw)
			}
		})
	}
}

const upgrade = "GET / HTTP/1.1\r\n" + okHost + "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==\r\n\r\n"

// Where the origin does not take the upgrade, the next request is judged like
// any other.
func TestADeniedUpgradeOpensNothing(t *testing.T) {
	for name, status := range map[string]int{"ok": 200, "denied": 403, "required": 426} {
		t.Run(name, func(t *testing.T) {
			leak.Check(t)
			to := newSite(t, "ok.test", false, func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(status) })
			d := open(t, to, Options{})
			r := d.raw(t)
			r.send(t, upgrade)
			if res, _ := r.answer(t); res.StatusCode != status {
				t.Errorf("%s", res.Status)
			}
			r.send(t, "GET /evil HTTP/1.1\r\nHost: evil.test\r\n\r\n")
			if res, body := r.answer(t); res.StatusCode != 421 {
				t.Errorf("%s %q", res.Status, body)
			}
			r.hungUp(t)
			if out := d.outcome(t); !out.Cut || len(to.saw()) != 1 {
				t.Errorf("%+v, the origin saw %q", out, to.saw())
			}
		})
	}
}

// What comes behind an upgrade before its answer is in nobody's protocol yet.
func TestBytesBehindAnUpgradeEndTheConnection(t *testing.T) {
	leak.Check(t)
	to := newSite(t, "ok.test", false, func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	d := open(t, to, Options{})
	r := d.raw(t)
	r.send(t, upgrade+"GET /evil HTTP/1.1\r\nHost: evil.test\r\n\r\n")
	if res, body := r.answer(t); res.StatusCode != 400 || !strings.Contains(body, "before its answer") {
		t.Errorf("%s %q", res.Status, body)
	}
	r.hungUp(t)
	if out := d.outcome(t); !out.Cut || !strings.Contains(out.Why, "before its answer") {
		t.Errorf("%+v", out)
	}
}

// No other protocol is offered to the origin; the program goes on without.
func TestOtherUpgradesAreNotOffered(t *testing.T) {
	for name, header := range map[string]string{
		"h2c":         "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA\r\n",
		"TLS":         "Connection: upgrade\r\nUpgrade: TLS/1.0\r\n",
		"list":        "Connection: upgrade\r\nUpgrade: h2c, websocket\r\n",
		"two":         "Connection: upgrade\r\nUpgrade: websocket\r\nUpgrade: h2c\r\n",
		"unconnected": "Upgrade: websocket\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			leak.Check(t)
			to := newSite(t, "ok.test", false, func(w http.ResponseWriter, r *http.Request) {
				fmt.Fprint(w, r.Header)
			})
			d := open(t, to, Options{})
			r := d.raw(t)
			r.send(t, "GET / HTTP/1.1\r\n"+okHost+header+"\r\n")
			if res, body := r.answer(t); res.StatusCode != 200 || body != "map[]" {
				t.Errorf("%s %q", res.Status, body)
			}
		})
	}
}

// An origin that answers an upgrade with another one is not believed.
func TestAnotherUpgradeThanAskedForIsAFailure(t *testing.T) {
	h := func(conn net.Conn) {
		_, _ = http.ReadRequest(bufio.NewReader(conn))
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n")
		silent(conn)
	}
	bubble(t, Options{}, h, func(t *testing.T, r *raw) {
		r.send(t, upgrade)
		if res, body := r.answer(t); res.StatusCode != 502 || !strings.Contains(body, "not asked for") {
			t.Errorf("%s %q", res.Status, body)
		}
		r.hungUp(t)
		if out := r.outcome(); !strings.Contains(out.Failed, "not asked for") {
			t.Errorf("%+v", out)
		}
	})
}

func TestAWebsocketIsUnderTheDeadlines(t *testing.T) {
	h := func(conn net.Conn) {
		_, _ = http.ReadRequest(bufio.NewReader(conn))
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
		_, _ = io.Copy(conn, conn)
	}
	for name, c := range map[string]struct {
		every time.Duration
		after time.Duration
		why   string
	}{
		"idle":  {0, time.Minute, "no byte passed"},
		"total": {50 * time.Second, 10 * time.Minute, "as long as it may"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, Options{Idle: time.Minute, Total: 10 * time.Minute}, h, func(t *testing.T, r *raw) {
				start := time.Now()
				r.send(t, upgrade)
				if res, err := http.ReadResponse(r.in, nil); err != nil || res.StatusCode != 101 || res.Header.Get("Callcell-Egress") != "" {
					t.Fatal(err, res)
				}
				go func() {
					for c.every > 0 {
						time.Sleep(c.every)
						if _, err := r.Write([]byte("x")); err != nil {
							return
						}
					}
				}()
				_, _ = io.Copy(io.Discard, r.in)
				if took := time.Since(start); took < c.after || took > c.after+2*time.Second {
					t.Errorf("ended after %v", took)
				}
				synctest.Wait()
				if out := r.outcome(); !out.Cut || !strings.Contains(out.Why, c.why) {
					t.Errorf("%+v", out)
				}
			})
		})
	}
}
