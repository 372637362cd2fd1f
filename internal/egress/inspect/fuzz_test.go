package inspect

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/netip"
	neturl "net/url"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/callcell/callcell/internal/egress/inspect/strict"
)

// witness is an origin that reads as strictly as can be, and holds every
// request to the host.
type witness struct {
	t    *testing.T
	seen atomic.Int64
}

func (w *witness) dial(context.Context) (net.Conn, error) {
	near, far := net.Pipe()
	go w.serve(far)
	return near, nil
}

func (w *witness) serve(far net.Conn) {
	defer far.Close()
	conn := strict.NewConn(far, strict.Options{
		Max:   1 << 20,
		Judge: func(strict.Head) *strict.Fault { return nil },
		Fault: func(f *strict.Fault, _ bool) { w.t.Errorf("the origin is sent what can be read in two ways: %v", f) },
	})
	in := bufio.NewReader(conn)
	for {
		r, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		w.seen.Add(1)
		w.hold(r)
		head, _ := conn.Head()
		if head.Upgrade && strings.Contains(r.URL.Path, "grant") {
			conn.Raw()
			_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
			_, _ = io.Copy(conn, conn)
			return
		}
		_, _ = io.Copy(io.Discard, r.Body)
		conn.Next()
		if _, err := io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"); err != nil {
			return
		}
	}
}

func (w *witness) hold(r *http.Request) {
	if r.Host != "ok.test" || r.URL.Host != "" {
		w.t.Errorf("a request for %q and %q reaches the origin", r.Host, r.URL.Host)
	}
	if r.Method == "CONNECT" || r.Method == "TRACE" {
		w.t.Errorf("%s reaches the origin", r.Method)
	}
	for _, name := range []string{"Forwarded", "X-Forwarded-Host", "Proxy-Authorization", "Http2-Settings", "Keep-Alive"} {
		if r.Header[name] != nil {
			w.t.Errorf("%s reaches the origin", name)
		}
	}
	if up := r.Header["Upgrade"]; up != nil && (len(up) != 1 || !strings.EqualFold(up[0], "websocket")) {
		w.t.Errorf("the upgrade %q reaches the origin", up)
	}
}

// FuzzServe: whatever bytes a program sends, in one piece or in two, every
// request that reaches the origin is for the host, and the connection ends.
func FuzzServe(f *testing.F) {
	seeds := 0
	for _, c := range shapes() {
		if len(c.in) < 1000 {
			f.Add([]byte(c.in), uint16(10))
			f.Add([]byte("GET /first HTTP/1.1\r\n"+okHost+"\r\n"+c.in+"GET /after HTTP/1.1\r\n"+okHost+"\r\n"), uint16(50))
			seeds++
		}
	}
	if seeds == 0 {
		f.Fatal("no seeds")
	}
	f.Add([]byte(upgrade+"GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n"), uint16(len(upgrade)))
	f.Add([]byte(strings.Replace(upgrade, "GET /", "GET /grant", 1)+"GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n"), uint16(len(upgrade)+5))
	f.Add([]byte("POST / HTTP/1.1\r\n"+okHost+"Transfer-Encoding: chunked\r\nTrailer: X\r\n\r\n3\r\nabc\r\n0\r\nX: y\r\n\r\nGET /b HTTP/1.1\r\n"+okHost+"\r\n"), uint16(99))
	f.Add([]byte("POST / HTTP/1.1\r\n"+okHost+"Content-Length: 44\r\n\r\nGET /x HTTP/1.1\r\nHost: evil.test\r\n\r\nGET /y"), uint16(70))
	f.Fuzz(func(t *testing.T, in []byte, cut uint16) {
		synctest.Test(t, func(t *testing.T) { serveBytes(t, in, int(cut)) })
	})
}

func serveBytes(t *testing.T, in []byte, cut int) {
	w := &witness{t: t}
	o := Options{Host: "ok.test", Port: 80, Dial: w.dial, Idle: time.Minute, Total: 10 * time.Minute, MaxHeader: 4096}
	near, far := net.Pipe()
	outcome := make(chan Outcome, 1)
	go func() { outcome <- Serve(t.Context(), far, o) }()
	go func() {
		at := min(cut, len(in))
		_, _ = near.Write(in[:at])
		time.Sleep(time.Second)
		_, _ = near.Write(in[at:])
	}()
	answers, _ := io.ReadAll(near)
	out := <-outcome
	near.Close()
	time.Sleep(time.Minute)
	if seen := w.seen.Load(); seen > out.Requests {
		t.Errorf("%d requests are counted, the origin saw %d", out.Requests, seen)
	}
	if (out.Refused > 0) != (out.Why != "" && !strings.Contains(out.Why, "no byte passed")) || out.Failed != "" {
		t.Errorf("%+v\n%q", out, answers)
	}
}

// FuzzNames: an authority that is taken for the host's is the host and its
// port to another reader too.
func FuzzNames(f *testing.F) {
	for _, host := range []string{"ok.test", "192.0.2.1", "2001:db8::1"} {
		for _, authority := range []string{"ok.test", "OK.test.:80", "192.0.2.1:80", "[2001:DB8::1]:80", "[2001:db8::1]", "ok.test:", "evil.test", "ok.test@evil.test", "[ok.test]"} {
			f.Add(authority, host)
		}
	}
	f.Fuzz(func(t *testing.T, authority, host string) {
		o := Options{Host: host, Port: 80}
		if !o.names(authority) {
			return
		}
		if _, err := netip.ParseAddr(host); err != nil && strings.ContainsAny(host, ":/?#@[]%\\ ") || host != strings.ToLower(host) {
			return // no canonical host
		}
		u, err := neturl.Parse("http://" + authority + "/")
		if err != nil {
			t.Skip("no authority of an address: ", err)
		}
		name := strings.TrimSuffix(strings.ToLower(u.Hostname()), ".")
		if addr, err := netip.ParseAddr(u.Hostname()); err == nil {
			name = addr.String()
		}
		if name != host || u.Port() != "" && u.Port() != "80" || u.User != nil || u.Path != "/" {
			t.Errorf("%q is taken for %q, and read as %q port %q", authority, host, name, u.Port())
		}
	})
}
